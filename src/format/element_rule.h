/* Levels by rule: minifloats and integers. */
#ifndef NIB_FORMAT_ELEMENT_RULE_H
#define NIB_FORMAT_ELEMENT_RULE_H

#include "format/yaml.h"
#include <nibble/element.h>

/* {type: minifloat, ebits, mbits, bias}: a sign bit above ebits exponent and mbits mantissa bits,
 *   all codes numbers, exponent field 0 subnormal.
 * {type: twos-complement, min, max, step}: code = integer mod 16, level = integer * step.
 * {type: sign-magnitude, max, step}: a sign bit above an integer 0..max.
 * Codes outside min..max are NAN. */
enum nib_status nib_element_rule_levels(const struct nib_yaml *document, const struct nib_yaml_node *rule,
                                        float level[NIB_CODES], struct nib_error *error);

#endif

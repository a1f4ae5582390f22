/* nibble: 4-bit block-scaled number formats, bit for bit. Includes every public header. */
#ifndef NIBBLE_NIBBLE_H
#define NIBBLE_NIBBLE_H

#include <nibble/chain.h>
#include <nibble/compare.h>
#include <nibble/element.h>
#include <nibble/gemm.h>
#include <nibble/layout.h>
#include <nibble/linear.h>
#include <nibble/measure.h>
#include <nibble/quantize.h>
#include <nibble/quantizer.h>
#include <nibble/recipe.h>
#include <nibble/rotate.h>
#include <nibble/scale.h>
#include <nibble/stack.h>
#include <nibble/status.h>
#include <nibble/table.h>
#include <nibble/tensor.h>
#include <nibble/unit.h>
#include <nibble/version.h>
#include <nibble/view.h>

#endif

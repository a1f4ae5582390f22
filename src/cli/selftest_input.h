/* The fixed inputs of the self-test; tests/selftest/oracle.py makes the same ones. */
#ifndef NIB_CLI_SELFTEST_INPUT_H
#define NIB_CLI_SELFTEST_INPUT_H

#include <stdbool.h>
#include <stdint.h>

/* Not multiples of 16 or 32, so that blocks end early along both axes. */
enum { NIB_SELFTEST_ROWS = 48, NIB_SELFTEST_COLS = 88, NIB_SELFTEST_COUNT = NIB_SELFTEST_ROWS * NIB_SELFTEST_COLS };

/* Magnitudes of one order; of all orders, subnormals included; with NaN, infinity and signed zeros. */
enum nib_selftest_tensor { NIB_SELFTEST_NORMAL, NIB_SELFTEST_SPECIAL, NIB_SELFTEST_WIDE, NIB_SELFTEST_TENSORS };

const char *nib_selftest_tensor_name(enum nib_selftest_tensor tensor);
/* Binary32 bits; with `bf16` the lower half of each is zero. */
void nib_selftest_input(enum nib_selftest_tensor tensor, bool bf16, uint32_t bits[NIB_SELFTEST_COUNT]);

#endif

# Floating-point results must not depend on the compiler's freedom. gcc fuses a*b+c across statements
# in gnu11 mode and clang inside one expression, so contraction is turned off explicitly; nothing here
# relies on traps or errno, and saying so lets loops vectorise without changing a value.
add_library(nib_strict_fp INTERFACE)
target_compile_options(nib_strict_fp INTERFACE
  -ffp-contract=off -fno-fast-math -fno-trapping-math -fno-math-errno)

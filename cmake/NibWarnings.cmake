add_library(nib_warnings INTERFACE)
target_compile_options(nib_warnings INTERFACE
  -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wundef -Wvla -Wcast-qual -Wwrite-strings
  -Wpointer-arith -Wformat=2 $<$<BOOL:${NIBBLE_DEVELOPER}>:-Werror>)

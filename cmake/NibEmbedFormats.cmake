# formats/<kind>/<name>.yaml become one generated C file, so that the program needs no data directory.
file(GLOB_RECURSE NIBBLE_FORMAT_FILES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/formats/*.yaml)
list(SORT NIBBLE_FORMAT_FILES)
set(NIBBLE_EMBEDDED_C ${PROJECT_BINARY_DIR}/generated/formats_embedded.c)
add_custom_command(
  OUTPUT ${NIBBLE_EMBEDDED_C}
  COMMAND ${CMAKE_COMMAND} -DFORMATS=${PROJECT_SOURCE_DIR}/formats -DOUTPUT=${NIBBLE_EMBEDDED_C}
          -P ${PROJECT_SOURCE_DIR}/cmake/embed-formats.cmake
  DEPENDS ${NIBBLE_FORMAT_FILES} ${PROJECT_SOURCE_DIR}/cmake/embed-formats.cmake
  COMMENT "Embedding formats"
  VERBATIM)

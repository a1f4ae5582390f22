# version.c is configured once per configure run; the commit is provenance, not a build input.
find_package(Git QUIET)
set(NIBBLE_COMMIT "unknown")
if(Git_FOUND)
  execute_process(COMMAND ${GIT_EXECUTABLE} -C ${PROJECT_SOURCE_DIR} describe --always --abbrev=12 --dirty --exclude=*
                  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(NOT failed)
    set(NIBBLE_COMMIT ${commit})
  endif()
endif()
configure_file(${PROJECT_SOURCE_DIR}/src/base/version.c.in ${PROJECT_BINARY_DIR}/generated/version.c @ONLY)

# Writes OUTPUT from src/base/version.c.in with PROJECT_VERSION and the commit of SOURCE; see NibVersion.cmake.
set(NIBBLE_COMMIT "unknown")
if(GIT)
  # Only the tree's own repository counts, not one that it happens to be unpacked into.
  execute_process(COMMAND ${GIT} -C ${SOURCE} rev-parse --show-toplevel OUTPUT_VARIABLE top
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  file(REAL_PATH ${SOURCE} source)
  if(NOT failed AND top STREQUAL source)
    execute_process(COMMAND ${GIT} -C ${SOURCE} describe --always --abbrev=12 --dirty --exclude=*
                    OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
    if(NOT failed)
      set(NIBBLE_COMMIT ${commit})
    endif()
  endif()
endif()
configure_file(${SOURCE}/src/base/version.c.in ${OUTPUT} @ONLY)

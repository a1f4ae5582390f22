# The commit is provenance: asked for at every build, and written only where it changed, so that nothing is rebuilt
# without need. A tree without git (a release archive) says "unknown".
find_package(Git QUIET)
set(NIBBLE_VERSION_C ${PROJECT_BINARY_DIR}/generated/version.c)
set(write_version ${CMAKE_COMMAND} -DGIT=${GIT_EXECUTABLE} -DSOURCE=${PROJECT_SOURCE_DIR} -DOUTPUT=${NIBBLE_VERSION_C}
    -DPROJECT_VERSION=${PROJECT_VERSION} -P ${PROJECT_SOURCE_DIR}/cmake/write-version.cmake)
execute_process(COMMAND ${write_version})
add_custom_target(nibble_version BYPRODUCTS ${NIBBLE_VERSION_C} COMMAND ${write_version} COMMENT "" VERBATIM)

# For the CUDA plug-in, which is compiled seldom and slowly: the commit of the last configure run.
file(STRINGS ${NIBBLE_VERSION_C} line REGEX "nib_commit")
string(REGEX REPLACE ".*return \"(.*)\".*" "\\1" NIBBLE_COMMIT "${line}")

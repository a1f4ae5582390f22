# Headers, both libraries, the program, its man pages and completions, the formats, and what find_package(nibble) and
# pkg-config need. Everything is relative to the prefix, so that an installed tree may be moved.
if(NOT NIBBLE_INSTALL)
  return()
endif()
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/nibble)

install(DIRECTORY include/nibble DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(DIRECTORY formats/ DESTINATION ${CMAKE_INSTALL_DATADIR}/nibble/formats
        FILES_MATCHING PATTERN "*.yaml" PATTERN "README.md")
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(TARGETS nibble EXPORT nibble-shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS nibble_static nibble_requirements EXPORT nibble-static ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS nibble_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
if(TARGET nibble_mpi)
  install(TARGETS nibble_mpi RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

# An export set each: who takes the shared library needs none of the packages that it was built from.
install(EXPORT nibble-shared NAMESPACE nibble:: FILE nibble-shared.cmake DESTINATION ${package_dir})
install(EXPORT nibble-static NAMESPACE nibble:: FILE nibble-static.cmake DESTINATION ${package_dir})
if(TARGET nibble_expect) # under GSL's licence, so a component of its own
  install(TARGETS nibble_expect EXPORT nibble-expect ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(EXPORT nibble-expect NAMESPACE nibble:: FILE nibble-expect.cmake DESTINATION ${package_dir})
endif()
configure_package_config_file(cmake/nibbleConfig.cmake.in ${PROJECT_BINARY_DIR}/generated/nibbleConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/generated/nibbleConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/generated/nibbleConfig.cmake
              ${PROJECT_BINARY_DIR}/generated/nibbleConfigVersion.cmake DESTINATION ${package_dir})

file(RELATIVE_PATH up ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" NIBBLE_PC_UP "${up}")
# The libraries by themselves, not by Requires.private: `pkg-config --static` would add what a fully static program
# needs of each (OpenBLAS: a Fortran compiler's library), and here only libnibble is static.
pkg_check_modules(HDF5_PC QUIET hdf5)
if(NOT HDF5_PC_FOUND)
  set(HDF5_PC_LDFLAGS -lhdf5)
endif()
list(JOIN HDF5_PC_LDFLAGS " " NIBBLE_PC_LIBS)
string(REPLACE "-lhdf5" "-lhdf5_hl -lhdf5" NIBBLE_PC_LIBS "${NIBBLE_PC_LIBS}")
foreach(library IN ITEMS JANSSON LIBZIP XXHASH LIBMD OPENBLAS YAML)
  list(JOIN ${library}_LDFLAGS " " flags)
  string(APPEND NIBBLE_PC_LIBS " ${flags}")
endforeach()
configure_file(cmake/nibble.pc.in ${PROJECT_BINARY_DIR}/generated/nibble.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/generated/nibble.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# The program writes its own man pages and completions; a cross build cannot run it and goes without.
if(CMAKE_CROSSCOMPILING)
  return()
endif()
set(pages ${PROJECT_BINARY_DIR}/pages)
add_custom_command(
  OUTPUT ${pages}/stamp
  COMMAND ${CMAKE_COMMAND} -DPROGRAM=$<TARGET_FILE:nibble_cli> -DPAGES=${pages}
          -DCOMMANDS=${PROJECT_SOURCE_DIR}/src/cli/commands.def -P ${PROJECT_SOURCE_DIR}/cmake/write-pages.cmake
  DEPENDS nibble_cli ${PROJECT_SOURCE_DIR}/src/cli/commands.def ${PROJECT_SOURCE_DIR}/cmake/write-pages.cmake
  COMMENT "Writing man pages and completions" VERBATIM)
add_custom_target(nibble_pages ALL DEPENDS ${pages}/stamp)
install(DIRECTORY ${pages}/man1 DESTINATION ${CMAKE_INSTALL_MANDIR})
install(FILES ${pages}/nibble DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES ${pages}/_nibble DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
install(FILES ${pages}/nibble.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)

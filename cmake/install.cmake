# What `cmake --install` puts in place: both libraries, the headers, lockstep.pc and a CMake package, and the pages to read. The
# program, the plugins and what is written from --help are put in place where they are defined.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME lockstep) # all but the plugins

# The shared library exports what the headers declare, and no more.
set_target_properties(lockstep_shared PROPERTIES OUTPUT_NAME lockstep VERSION ${PROJECT_VERSION}
                                                 SOVERSION ${PROJECT_VERSION_MAJOR})
set(declared "")
file(GLOB headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/*.h)
list(FILTER headers EXCLUDE REGEX lockstep_mpi) # all of whose functions are inline
foreach(path ${headers})
  file(READ ${path} header)
  set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${path})
  string(REGEX MATCHALL "[ *]ls_[a-z0-9_]+\\(" found "${header}")
  list(APPEND declared ${found})
endforeach()
string(REGEX REPLACE "[ *]?(ls_[a-z0-9_]+)\\(;?" "\\1;\n    " declared "${declared}")
file(WRITE ${PROJECT_BINARY_DIR}/exported.map "{\n  global:\n    ${declared}\n  local:\n    *;\n};\n")
target_link_options(lockstep_shared PRIVATE -Wl,--version-script,${PROJECT_BINARY_DIR}/exported.map)
set_target_properties(lockstep_shared PROPERTIES LINK_DEPENDS ${PROJECT_BINARY_DIR}/exported.map)

# find_package(lockstep) gives lockstep::lockstep, the shared library; with COMPONENTS static also lockstep::static, which needs
# the optional parts where this was built with them.
set_target_properties(lockstep_shared PROPERTIES EXPORT_NAME lockstep)
set_target_properties(lockstep PROPERTIES EXPORT_NAME static)
install(TARGETS lockstep_shared EXPORT lockstep DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS lockstep lockstep_optional EXPORT lockstep_static DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/lockstep)
install(EXPORT lockstep NAMESPACE lockstep:: DESTINATION ${package} FILE lockstep-shared.cmake)
install(EXPORT lockstep_static NAMESPACE lockstep:: DESTINATION ${package} FILE lockstep-static.cmake)
configure_file(${PROJECT_SOURCE_DIR}/cmake/lockstep-config.cmake.in ${PROJECT_BINARY_DIR}/lockstep-config.cmake @ONLY)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/lockstep-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/lockstep-config.cmake ${PROJECT_BINARY_DIR}/lockstep-config-version.cmake
        DESTINATION ${package})

# Paths in lockstep.pc are relative to it, so that `cmake --install --prefix` may choose another place.
file(RELATIVE_PATH to_prefix /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
configure_file(${PROJECT_SOURCE_DIR}/cmake/lockstep.pc.in ${PROJECT_BINARY_DIR}/lockstep.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/lockstep.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# Side by side as in the source: the pages refer to each other and to the examples.
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright)
install(FILES ${PROJECT_SOURCE_DIR}/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs ${PROJECT_SOURCE_DIR}/examples DESTINATION ${CMAKE_INSTALL_DOCDIR})

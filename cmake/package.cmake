# Debian packages by CPack: `lockstep`, and one for each MPI's plugin, so that the program asks for no MPI. The folders of a package
# are those of the build, so it has to be configured for /usr.
file(STRINGS ${PROJECT_SOURCE_DIR}/LICENSE maintainer_name REGEX "^Copyright")
string(REGEX REPLACE "^Copyright \\(c\\) [0-9, -]+ " "" maintainer_name "${maintainer_name}")
set(LOCKSTEP_MAINTAINER "${maintainer_name} <lockstep@lockstep.invalid>" CACHE STRING
    "Who answers for the Debian packages: a name, and an address in <>")

if(CMAKE_CROSSCOMPILING)
  return() # dpkg would take this machine's architecture for the package's
endif()
find_program(LOCKSTEP_SHLIBDEPS dpkg-shlibdeps)
set(CPACK_GENERATOR TGZ)
if(LOCKSTEP_SHLIBDEPS)
  set(CPACK_GENERATOR DEB)
endif()
set(CPACK_PACKAGE_NAME lockstep)
set(CPACK_PACKAGE_CONTACT "${LOCKSTEP_MAINTAINER}")
set(CPACK_PACKAGE_VENDOR "${maintainer_name}")
set(CPACK_STRIP_FILES ON)
set(CPACK_PROJECT_CONFIG_FILE ${PROJECT_BINARY_DIR}/package-check.cmake)
file(WRITE ${PROJECT_BINARY_DIR}/package-check.cmake "
if(CPACK_GENERATOR STREQUAL DEB AND NOT \"${CMAKE_INSTALL_PREFIX}\" STREQUAL /usr)
  message(FATAL_ERROR \"Lockstep: a Debian package needs a build for /usr, but this one is for ${CMAKE_INSTALL_PREFIX}: \"
                      \"configure it with -DCMAKE_INSTALL_PREFIX=/usr\")
endif()
")

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_COMPONENTS_ALL lockstep ${lockstep_mpis})
if(TARGET lockstep_cuda)
  list(APPEND CPACK_COMPONENTS_ALL cuda)
endif()
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

set(CPACK_DEBIAN_LOCKSTEP_PACKAGE_NAME lockstep)
set(CPACK_DEBIAN_LOCKSTEP_PACKAGE_SECTION science)
# CPack puts the project's own line before each as the summary.
set(CPACK_DEBIAN_LOCKSTEP_DESCRIPTION "Lockstep trains neural networks on several devices at once. The result is
the same, bit for bit, on any number of devices, in one process or under
mpirun on several hosts.
.
This package holds the program, and the C library, shared and static, with
what a compiler, pkg-config and CMake need to find it.")
# Programs that link with the shared library ask for a package as new as this one, by the soname.
file(WRITE ${PROJECT_BINARY_DIR}/package/shlibs "liblockstep ${PROJECT_VERSION_MAJOR} lockstep (>= ${PROJECT_VERSION})\n")
set(CPACK_DEBIAN_LOCKSTEP_PACKAGE_CONTROL_EXTRA ${PROJECT_BINARY_DIR}/package/shlibs)
# What programs that link with the archive need besides, and what the program does without.
set(CPACK_DEBIAN_LOCKSTEP_PACKAGE_RECOMMENDS "ca-certificates")
set(suggests dataset-fashion-mnist)
foreach(plugin ${lockstep_mpis} cuda)
  if(plugin IN_LIST CPACK_COMPONENTS_ALL)
    list(APPEND suggests lockstep-${plugin})
  endif()
endforeach()
list(APPEND suggests zlib1g-dev libjansson-dev libssl-dev libcurl4-openssl-dev libpng-dev libjpeg-dev libprotobuf-c-dev)
list(JOIN suggests ", " CPACK_DEBIAN_LOCKSTEP_PACKAGE_SUGGESTS)

# lockstep_plugin_package(name description): a package of its own for the component of that name.
function(lockstep_plugin_package name description)
  string(TOUPPER ${name} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME lockstep-${name} PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION science PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_PACKAGE_DEPENDS "lockstep (= ${PROJECT_VERSION})" PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_DESCRIPTION "${description}" PARENT_SCOPE)
  install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/lockstep-${name} RENAME copyright
          COMPONENT ${name} EXCLUDE_FROM_ALL)
endfunction()
foreach(mpi ${lockstep_mpis})
  lockstep_plugin_package(${mpi} "The plugin that lockstep loads where mpirun or srun has started it as
several processes with ${mpi}.")
endforeach()
if(TARGET lockstep_cuda)
  lockstep_plugin_package(cuda "The plugins that lockstep loads to compute on NVIDIA's GPUs, and to join those
of several ranks.")
endif()
include(CPack)

# Parts that add a feature where they are found. Each is said aloud; `lockstep --version` lists them too.
add_library(lockstep_optional INTERFACE)
set(LOCKSTEP_WITHOUT "" CACHE STRING "Optional parts to leave out although found: zlib;jansson;crypto;curl;openmpi;mpich")

# Also collects what the installed archive's users need: flags for lockstep.pc, packages for its CMake file.
set(lockstep_part_flags "")
set(lockstep_part_packages "")
function(lockstep_part name feature target macro flag package)
  if(name IN_LIST LOCKSTEP_WITHOUT)
    message(STATUS "Lockstep: ${name} left out: no ${feature}")
  elseif(TARGET ${target})
    target_link_libraries(lockstep_optional INTERFACE ${target})
    target_compile_definitions(lockstep_optional INTERFACE ${macro}=1)
    set(lockstep_part_flags "${lockstep_part_flags}${flag} " PARENT_SCOPE)
    set(lockstep_part_packages "${lockstep_part_packages}  ${package}\n" PARENT_SCOPE)
    message(STATUS "Lockstep: ${name} found: ${feature}")
  else()
    message(STATUS "Lockstep: ${name} not found: no ${feature}")
  endif()
endfunction()

find_package(ZLIB QUIET)
find_package(OpenSSL QUIET COMPONENTS Crypto)
find_package(CURL QUIET)
find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  pkg_check_modules(JANSSON QUIET IMPORTED_TARGET jansson)
endif()
lockstep_part(zlib "gzip'ed data files" ZLIB::ZLIB LOCKSTEP_HAVE_ZLIB -lz "find_dependency(ZLIB)")
lockstep_part(jansson "weights files" PkgConfig::JANSSON LOCKSTEP_HAVE_JANSSON -ljansson
              "find_dependency(PkgConfig)\n  pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)")
lockstep_part(crypto "fingerprints" OpenSSL::Crypto LOCKSTEP_HAVE_CRYPTO -lcrypto
              "find_dependency(OpenSSL COMPONENTS Crypto)")
lockstep_part(curl "data fetch" CURL::libcurl LOCKSTEP_HAVE_CURL -lcurl "find_dependency(CURL)")

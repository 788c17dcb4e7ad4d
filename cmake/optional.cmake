# Parts that add a feature where they are found. Each is said aloud; `lockstep --version` lists them too.
add_library(lockstep_optional INTERFACE)
set(LOCKSTEP_WITHOUT "" CACHE STRING "Optional parts to leave out although found: zlib;jansson;crypto;curl;png;jpeg;protobuf-c;openmpi;mpich;nccl")

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
find_package(PNG QUIET)
find_package(JPEG QUIET)
find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  pkg_check_modules(JANSSON QUIET IMPORTED_TARGET jansson)
  pkg_check_modules(CAIRO QUIET IMPORTED_TARGET cairo cairo-svg cairo-png)
  find_program(LOCKSTEP_PROTOC_C protoc-c) # its C is written while building
  if(LOCKSTEP_PROTOC_C)
    pkg_check_modules(PROTOBUF_C QUIET IMPORTED_TARGET libprotobuf-c)
  endif()
endif()
lockstep_part(zlib "gzip'ed data files" ZLIB::ZLIB LOCKSTEP_HAVE_ZLIB -lz "find_dependency(ZLIB)")
lockstep_part(jansson "weights files" PkgConfig::JANSSON LOCKSTEP_HAVE_JANSSON -ljansson
              "find_dependency(PkgConfig)\n  pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)")
lockstep_part(crypto "fingerprints" OpenSSL::Crypto LOCKSTEP_HAVE_CRYPTO -lcrypto
              "find_dependency(OpenSSL COMPONENTS Crypto)")
lockstep_part(curl "data fetch" CURL::libcurl LOCKSTEP_HAVE_CURL -lcurl "find_dependency(CURL)")
lockstep_part(png "data sets of PNG files" PNG::PNG LOCKSTEP_HAVE_PNG -lpng "find_dependency(PNG)")
lockstep_part(jpeg "data sets of JPEG files" JPEG::JPEG LOCKSTEP_HAVE_JPEG -ljpeg "find_dependency(JPEG)")
lockstep_part(protobuf-c "ONNX files" PkgConfig::PROTOBUF_C LOCKSTEP_HAVE_PROTOBUF_C -lprotobuf-c
              "find_dependency(PkgConfig)\n  pkg_check_modules(PROTOBUF_C REQUIRED IMPORTED_TARGET libprotobuf-c)")

# ONNX's messages in C, for the library and for what tests read of its files.
set(lockstep_messages "")
if(TARGET PkgConfig::PROTOBUF_C AND NOT "protobuf-c" IN_LIST LOCKSTEP_WITHOUT)
  set(messages ${PROJECT_BINARY_DIR}/messages)
  file(MAKE_DIRECTORY ${messages})
  add_custom_command(OUTPUT ${messages}/onnx.pb-c.c ${messages}/onnx.pb-c.h
                     COMMAND ${LOCKSTEP_PROTOC_C} --c_out=${messages} --proto_path=${PROJECT_SOURCE_DIR}/src/io onnx.proto
                     DEPENDS ${PROJECT_SOURCE_DIR}/src/io/onnx.proto VERBATIM)
  add_library(lockstep_messages OBJECT ${messages}/onnx.pb-c.c)
  set_target_properties(lockstep_messages PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_include_directories(lockstep_messages SYSTEM PUBLIC ${messages})
  target_link_libraries(lockstep_messages PUBLIC PkgConfig::PROTOBUF_C)
  set(lockstep_messages $<TARGET_OBJECTS:lockstep_messages>)
endif()

# The program's alone: the library draws nothing.
add_library(lockstep_pictures INTERFACE)
if("cairo" IN_LIST LOCKSTEP_WITHOUT)
  message(STATUS "Lockstep: cairo left out: no reports")
elseif(TARGET PkgConfig::CAIRO)
  target_link_libraries(lockstep_pictures INTERFACE PkgConfig::CAIRO)
  target_compile_definitions(lockstep_pictures INTERFACE LOCKSTEP_HAVE_CAIRO=1)
  message(STATUS "Lockstep: cairo found: reports")
else()
  message(STATUS "Lockstep: cairo not found: no reports")
endif()

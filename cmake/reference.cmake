# The header's reference as web pages, by Doxygen where it is found: cmake --build build --target reference
find_program(LOCKSTEP_DOXYGEN doxygen)
mark_as_advanced(LOCKSTEP_DOXYGEN)
if(LOCKSTEP_DOXYGEN)
  message(STATUS "Lockstep: doxygen found: reference")
  configure_file(docs/Doxyfile.in Doxyfile @ONLY)
  add_custom_target(reference COMMAND ${LOCKSTEP_DOXYGEN} ${PROJECT_BINARY_DIR}/Doxyfile
                    COMMENT "reference/html/index.html" VERBATIM)
else()
  message(STATUS "Lockstep: doxygen not found: no reference (package doxygen)")
endif()

# The man page and the completions of bash and zsh, written from the program's own --help by tools/help. They are part of the build
# wherever the program can run as it is built: not with sanitizers, not for a foreign machine without an emulator.
if(LOCKSTEP_SANITIZE OR (CMAKE_CROSSCOMPILING AND NOT CMAKE_CROSSCOMPILING_EMULATOR))
  message(STATUS "Lockstep: the program is not run while it is built: no man page, no completions")
  return()
endif()

set(from ${PROJECT_SOURCE_DIR}/tools/help)
set(to ${PROJECT_BINARY_DIR}/help)
string(TIMESTAMP today "%Y-%m-%d" UTC) # SOURCE_DATE_EPOCH where that is set
add_custom_command(
  OUTPUT ${to}/lockstep.1 ${to}/lockstep ${to}/_lockstep
  COMMAND ${from}/write.sh ${to} ${today} ${CMAKE_CROSSCOMPILING_EMULATOR} $<TARGET_FILE:lockstep_program>
  DEPENDS lockstep_program ${from}/write.sh ${from}/describe.sh ${from}/man.awk ${from}/bash.awk ${from}/completion.bash
          ${from}/zsh.awk
  COMMENT "Writing the man page and the completions from --help"
  VERBATIM)
add_custom_target(lockstep_help ALL DEPENDS ${to}/lockstep.1 ${to}/lockstep ${to}/_lockstep)

install(FILES ${to}/lockstep.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${to}/lockstep DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/bash-completion/completions)
# Debian's zsh looks for what packages bring in a folder of its own.
set(zsh_folder site-functions)
if(CMAKE_INSTALL_PREFIX STREQUAL "/usr" AND EXISTS /etc/debian_version)
  set(zsh_folder vendor-completions)
endif()
install(FILES ${to}/_lockstep DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/zsh/${zsh_folder})

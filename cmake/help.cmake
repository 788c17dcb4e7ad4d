# The man page and the completions of bash and zsh, written from the program's own --help by tools/help. They are part of the build
# wherever the program runs as soon as it is built: not with sanitizers, not for a foreign machine.
if(LOCKSTEP_SANITIZE OR CMAKE_CROSSCOMPILING)
  message(STATUS "Lockstep: the program is not run while it is built: no man page, no completions")
  return()
endif()

set(help_source ${PROJECT_SOURCE_DIR}/tools/help)
set(help_folder ${PROJECT_BINARY_DIR}/help)
set(help_files ${help_folder}/lockstep.1 ${help_folder}/lockstep ${help_folder}/_lockstep)
file(GLOB help_scripts CONFIGURE_DEPENDS ${help_source}/*)
string(TIMESTAMP today "%Y-%m-%d" UTC) # SOURCE_DATE_EPOCH where that is set
add_custom_command(
  OUTPUT ${help_files}
  COMMAND ${help_source}/write.sh ${help_folder} ${today} $<TARGET_FILE:lockstep_program>
  DEPENDS lockstep_program ${help_scripts}
  COMMENT "Writing the man page and the completions from --help"
  VERBATIM)
add_custom_target(lockstep_help ALL DEPENDS ${help_files})

install(FILES ${help_folder}/lockstep.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${help_folder}/lockstep DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/bash-completion/completions)
# Debian's zsh looks for what packages bring in a folder of its own.
set(zsh_folder site-functions)
if(CMAKE_INSTALL_PREFIX STREQUAL "/usr" AND EXISTS /etc/debian_version)
  set(zsh_folder vendor-completions)
endif()
install(FILES ${help_folder}/_lockstep DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/zsh/${zsh_folder})

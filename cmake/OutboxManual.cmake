# Completions and manual pages of the tool, which prints them itself: one file for each verb that it has.
if(NOT OUTBOX_INSTALL)
  return()
endif()

# A tool for another machine cannot be asked, and one with sanitizers is not installed.
if(CMAKE_CROSSCOMPILING OR OUTBOX_SANITIZE)
  message(STATUS "completions and manual pages of outbox are left out: the tool is not run by this build")
  return()
endif()
find_program(OUTBOX_SCDOC scdoc)
mark_as_advanced(OUTBOX_SCDOC)
set(manual ${CMAKE_CURRENT_BINARY_DIR}/manual)
set(writer ${PROJECT_SOURCE_DIR}/tools/write-manual)
add_custom_command(OUTPUT ${manual}/stamp DEPENDS outbox_tool ${writer} VERBATIM
  COMMAND ${writer} $<TARGET_FILE:outbox_tool> ${manual} $<$<BOOL:${OUTBOX_SCDOC}>:${OUTBOX_SCDOC}> COMMAND_EXPAND_LISTS)
add_custom_target(outbox_manual ALL DEPENDS ${manual}/stamp)

set(zsh_folder site-functions)
if(OUTBOX_DEB)
  set(zsh_folder vendor-completions)
endif()
install(FILES ${manual}/outbox.bash RENAME outbox
  DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT tool)
install(FILES ${manual}/outbox.zsh RENAME _outbox DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/${zsh_folder} COMPONENT tool)
install(FILES ${manual}/outbox.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT tool)
if(OUTBOX_SCDOC)
  install(DIRECTORY ${manual}/man1 DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT tool)
else()
  set(no_pages "the manual pages of outbox are left out: scdoc was not found")
  message(STATUS "${no_pages}")
  install(CODE "message(STATUS \"${no_pages}\")" COMPONENT tool)
endif()

# Database servers that ctest starts once, for all cases that need one. Included by postgres.cmake, mysql.cmake
# and redis.cmake.
include_guard()

# outbox_server_fixture(<database>): builds support/<database>_fixture.cpp, which starts and stops the server. Sets
# OUTBOX_<DATABASE>_FIXTURE to the file that describes it.
function(outbox_server_fixture database)
  add_executable(outbox_${database}_fixture support/${database}_fixture.cpp)
  outbox_own_flags(outbox_${database}_fixture)
  target_link_libraries(outbox_${database}_fixture PRIVATE outbox_test_${database})
  set(file ${CMAKE_CURRENT_BINARY_DIR}/${database}_server.txt)
  foreach(verb start stop)
    add_test(NAME fixture.${database}.${verb} COMMAND outbox_${database}_fixture ${verb} ${file})
    set_tests_properties(fixture.${database}.${verb} PROPERTIES LABELS fixture TIMEOUT 120)
  endforeach()
  set_tests_properties(fixture.${database}.start PROPERTIES FIXTURES_SETUP ${database})
  set_tests_properties(fixture.${database}.stop PROPERTIES FIXTURES_CLEANUP ${database})
  string(TOUPPER ${database} upper)
  set(OUTBOX_${upper}_FIXTURE ${file} PARENT_SCOPE)
endfunction()

# outbox_program_on(<database> <test> <program> <label> <expected output> [second argument]): runs a program of the pages
# or the examples that takes a connection string, if it was built.
function(outbox_program_on database name program label expect)
  if(NOT TARGET ${program})
    return()
  endif()
  string(TOUPPER ${database} upper)
  add_test(NAME ${name}
    COMMAND outbox_${database}_fixture run ${OUTBOX_${upper}_FIXTURE} $<TARGET_FILE:${program}> ${ARGN})
  set_tests_properties(${name} PROPERTIES FIXTURES_REQUIRED ${database} LABELS "${label};${database}" TIMEOUT 60
    PASS_REGULAR_EXPRESSION "${expect}" FAIL_REGULAR_EXPRESSION "Sanitizer" RESOURCE_LOCK ${program})
endfunction()

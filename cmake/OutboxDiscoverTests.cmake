# outbox_discover_tests(<target> <labels>): each case of a GoogleTest program becomes a ctest entry of the same name.
#
# CMake's own gtest_discover_tests writes the C++ type into the names of typed suites that have names of their own; ours
# keeps GoogleTest's: Claim/memory.OldestDueFirst.
if(CMAKE_SCRIPT_MODE_FILE)
  cmake_policy(VERSION 3.25)
  execute_process(COMMAND ${PROGRAM} --gtest_list_tests OUTPUT_VARIABLE listing COMMAND_ERROR_IS_FATAL ANY)
  string(REPLACE "\n" ";" lines "${listing}")
  set(script "")
  foreach(line IN LISTS lines)
    if(line MATCHES "^([^ ]+)\\.( *#.*)?$")
      set(suite ${CMAKE_MATCH_1})
      set(suite_labels ${LABELS})
      if(suite MATCHES "/([a-z]+)[a-z_]*$")  # a typed suite: the store is a label too, postgres of postgres_erasing
        list(APPEND suite_labels ${CMAKE_MATCH_1})
      endif()
    elseif(line MATCHES "^  ([^ ]+)")
      set(name ${suite}.${CMAKE_MATCH_1})
      set(needs "")
      if("fault" IN_LIST suite_labels)  # the longest first, so that none is left alone at the end
        set(needs " COST 10")
      endif()
      set(fixtures "")
      set(environment "")
      foreach(database postgres mysql redis)
        if(database IN_LIST suite_labels)
          string(TOUPPER ${database} upper)
          list(APPEND fixtures ${database})
          list(APPEND environment OUTBOX_TEST_${upper}_FIXTURE=${${upper}_FIXTURE})
        endif()
      endforeach()
      if(fixtures)
        string(APPEND needs " FIXTURES_REQUIRED [==[${fixtures}]==] ENVIRONMENT [==[${environment}]==]")
      endif()
      string(APPEND script "add_test([==[${name}]==] ${PROGRAM} --gtest_filter=${name})\n"
        "set_tests_properties([==[${name}]==] PROPERTIES LABELS [==[${suite_labels}]==] TIMEOUT 300 "
        "SKIP_REGULAR_EXPRESSION [==[\\[  SKIPPED \\]]==]${needs})\n")
    endif()
  endforeach()
  file(WRITE ${OUTPUT} "${script}")
  return()
endif()

set(OUTBOX_DISCOVER_SCRIPT ${CMAKE_CURRENT_LIST_FILE})

function(outbox_discover_tests target labels)
  set(list ${CMAKE_CURRENT_BINARY_DIR}/${target}_cases.cmake)
  add_custom_command(TARGET ${target} POST_BUILD VERBATIM BYPRODUCTS ${list}
    COMMAND ${CMAKE_COMMAND} -DPROGRAM=$<TARGET_FILE:${target}> "-DLABELS=${labels}" -DOUTPUT=${list}
      -DPOSTGRES_FIXTURE=${OUTBOX_POSTGRES_FIXTURE} -DMYSQL_FIXTURE=${OUTBOX_MYSQL_FIXTURE}
      -DREDIS_FIXTURE=${OUTBOX_REDIS_FIXTURE}
      -P ${OUTBOX_DISCOVER_SCRIPT})
  # A program that was not built has one case, which fails.
  set(include ${CMAKE_CURRENT_BINARY_DIR}/${target}_include.cmake)
  file(WRITE ${include} "if(EXISTS ${list})\n  include(${list})\nelse()\n  add_test(${target}_was_not_built false)\nendif()\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${include})
endfunction()

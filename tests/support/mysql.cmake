# A MariaDB server that ctest starts once, for all cases that need one. Included by tests/CMakeLists.txt.
#
# If the environment variable OUTBOX_TEST_MYSQL is set when ctest runs, to a URL as mysql://user:password@host:port, the
# cases use that server instead. Those that stop a server or need settings of their own start one here nevertheless.
include(${CMAKE_CURRENT_LIST_DIR}/server_fixture.cmake)
add_library(outbox_test_mysql STATIC support/mysql_server.cpp)
outbox_own_flags(outbox_test_mysql)
set(OUTBOX_TEST_MARIADBD "" CACHE FILEPATH
  "Program of the MariaDB server that the tests run; empty: mariadbd from PATH, /usr/sbin or /usr/bin")
if(OUTBOX_TEST_MARIADBD AND NOT EXISTS "${OUTBOX_TEST_MARIADBD}")
  message(FATAL_ERROR "OUTBOX_TEST_MARIADBD is '${OUTBOX_TEST_MARIADBD}', and there is no such program: set it to the "
    "path of a MariaDB server, mariadbd")
endif()
target_compile_definitions(outbox_test_mysql PRIVATE OUTBOX_TEST_MARIADBD="${OUTBOX_TEST_MARIADBD}")
target_include_directories(outbox_test_mysql PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
target_link_libraries(outbox_test_mysql PUBLIC outbox::mysql PkgConfig::LIBMARIADB)
outbox_server_fixture(mysql)

# outbox_program_on_mysql(<test> <program> <label> <expected output> [second argument]): the program gets the URL of an
# empty database, which is dropped after it.
function(outbox_program_on_mysql name program label expect)
  outbox_program_on(mysql ${name} ${program} ${label} "${expect}" ${ARGN})
endfunction()
outbox_program_on_mysql(docs.mysql docs_mysql docs
  "mysql::connection and mysql::transaction: hot\na savepoint: takes back its own event\nMYSQL and mysql::transaction: hot\nMYSQL in its own transaction: cold\none node: delivered\ntwo workers and a web process: each event once\n$")
outbox_program_on_mysql(example.mysql_quick_start example_mysql_quick_start example
  "carrier booked order 42\ncarrier booked order 43\ndelivered 2, failed once 1, dead 0\n$")
outbox_program_on_mysql(example.mysql_quick_start.many example_mysql_quick_start example
  "delivered 202, failed once 1, dead 0\n$" 200)

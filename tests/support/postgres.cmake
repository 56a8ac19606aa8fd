# A PostgreSQL server that ctest starts once, for all cases that need one. Included by tests/CMakeLists.txt.
include(${CMAKE_CURRENT_LIST_DIR}/server_fixture.cmake)
find_package(PostgreSQL 14 REQUIRED)
add_library(outbox_test_postgres STATIC support/postgres_server.cpp)
outbox_own_flags(outbox_test_postgres)
set(OUTBOX_TEST_POSTGRES_BIN "" CACHE PATH
  "Directory of the PostgreSQL programs that the tests run; empty: the newest in /usr/lib/postgresql")
if(OUTBOX_TEST_POSTGRES_BIN AND NOT EXISTS "${OUTBOX_TEST_POSTGRES_BIN}/postgres")
  message(FATAL_ERROR "OUTBOX_TEST_POSTGRES_BIN is '${OUTBOX_TEST_POSTGRES_BIN}', and there is no program 'postgres' in "
    "it: set it to the bin directory of a PostgreSQL installation")
endif()
target_compile_definitions(outbox_test_postgres PRIVATE OUTBOX_TEST_POSTGRES_BIN="${OUTBOX_TEST_POSTGRES_BIN}")
target_include_directories(outbox_test_postgres PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
target_link_libraries(outbox_test_postgres PUBLIC outbox::postgres PostgreSQL::PostgreSQL)
outbox_server_fixture(postgres)

# The programs of the pages and the examples that take a connection string.
function(outbox_program_on_postgres name program label expect)
  outbox_program_on(postgres ${name} ${program} ${label} "${expect}" ${ARGN})
endfunction()
outbox_program_on_postgres(docs.postgres docs_postgres docs
  "postgres::connection and postgres::transaction: hot\npipelined: hot\na savepoint: takes back its own event\nPGconn and postgres::transaction: hot\nPGconn in its own transaction: hot\npqxx: hot\na conflict: delivered after the second attempt\none node: delivered\ntwo workers and a web process: each event once\n$")
outbox_program_on_postgres(example.postgres_quick_start example_postgres_quick_start example
  "carrier booked order 42\ncarrier booked order 43\ndelivered 2, failed once 1, dead 0\n$")
outbox_program_on_postgres(example.postgres_quick_start.many example_postgres_quick_start example
  "delivered 202, failed once 1, dead 0\n$" 200)

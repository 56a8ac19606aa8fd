# A Redis server that ctest starts once, for all cases that need one. Included by tests/CMakeLists.txt.
#
# If the environment variable OUTBOX_TEST_REDIS is set when ctest runs, to a URL as redis://user:password@host:port, the
# cases use that server instead. Those that stop a server or need settings of their own start one here nevertheless.
include(${CMAKE_CURRENT_LIST_DIR}/server_fixture.cmake)
add_library(outbox_test_redis STATIC support/redis_server.cpp)
outbox_own_flags(outbox_test_redis)
set(OUTBOX_TEST_REDIS_SERVER "" CACHE FILEPATH
  "Program of the Redis server that the tests run; empty: redis-server from PATH, /usr/sbin or /usr/bin")
if(OUTBOX_TEST_REDIS_SERVER AND NOT EXISTS "${OUTBOX_TEST_REDIS_SERVER}")
  message(FATAL_ERROR "OUTBOX_TEST_REDIS_SERVER is '${OUTBOX_TEST_REDIS_SERVER}', and there is no such program: set it "
    "to the path of a Redis server, redis-server")
endif()
target_compile_definitions(outbox_test_redis PRIVATE OUTBOX_TEST_REDIS_SERVER="${OUTBOX_TEST_REDIS_SERVER}")
target_include_directories(outbox_test_redis PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
target_link_libraries(outbox_test_redis PUBLIC outbox::redis PkgConfig::HIREDIS)
outbox_server_fixture(redis)

# outbox_program_on_redis(<test> <program> <label> <expected output> [second argument]): the program gets the URL of an
# empty server, which is ended after it.
function(outbox_program_on_redis name program label expect)
  outbox_program_on(redis ${name} ${program} ${label} "${expect}" ${ARGN})
endfunction()
outbox_program_on_redis(docs.redis docs_redis docs
  "no transaction: hot\nredis::connection and redis::transaction: hot\nWATCH: sold once\na script: cold\nredisContext and redis::transaction: hot\ntwo workers and a web process: each event once\nreplicas: in doubt without one\n$")
outbox_program_on_redis(example.redis_quick_start example_redis_quick_start example
  "carrier booked order 42\ncarrier booked order 43\ndelivered 2, failed once 1, dead 0\n$")
outbox_program_on_redis(example.redis_quick_start.many example_redis_quick_start example
  "delivered 202, failed once 1, dead 0\n$" 200)

# librdkafka's mock cluster as a program, for tests, the demo and the benchmark.
include_guard(GLOBAL)
add_executable(outbox_kafka_mock ${CMAKE_CURRENT_LIST_DIR}/kafka_mock_main.cpp)
target_compile_features(outbox_kafka_mock PRIVATE cxx_std_20)  # and no sanitizer: it is not ours to test
target_link_libraries(outbox_kafka_mock PRIVATE PkgConfig::RDKAFKA)
set_target_properties(outbox_kafka_mock PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/support)

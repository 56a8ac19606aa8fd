// A Kafka cluster in a process of its own: librdkafka's mock, over real TCP.
//
//   outbox_kafka_mock BROKERS
//
// Prints the addresses of its brokers, then takes commands from standard input and answers each with a line:
//
//   topic NAME PARTITIONS     creates a topic
//   errors API CODE COUNT     the next COUNT requests of this API key fail with this code
//   topic_error NAME CODE     requests for the topic fail with this code, until it is 0
//   down BROKER               the broker refuses connections; up BROKER
//
// It ends with its standard input.
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>

#include <iostream>
#include <sstream>
#include <string>
#include <vector>

namespace {

bool carry_out(rd_kafka_mock_cluster_t* cluster, std::string const& line) {
  std::istringstream in{line};
  std::string what, name;
  int a = 0, b = 0, c = 0;
  in >> what;
  if (what == "topic" && in >> name >> a) return rd_kafka_mock_topic_create(cluster, name.c_str(), a, 1) == 0;
  if (what == "errors" && in >> a >> b >> c) {
    std::vector<rd_kafka_resp_err_t> const codes(static_cast<std::size_t>(c), static_cast<rd_kafka_resp_err_t>(b));
    rd_kafka_mock_push_request_errors_array(cluster, static_cast<std::int16_t>(a), codes.size(), codes.data());
    return true;
  }
  if (what == "topic_error" && in >> name >> a) {
    rd_kafka_mock_topic_set_error(cluster, name.c_str(), static_cast<rd_kafka_resp_err_t>(a));
    return true;
  }
  if (what == "down" && in >> a) return rd_kafka_mock_broker_set_down(cluster, a) == 0;
  if (what == "up" && in >> a) return rd_kafka_mock_broker_set_up(cluster, a) == 0;
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  int const brokers = argc > 1 ? std::stoi(argv[1]) : 1;
  auto* const conf = rd_kafka_conf_new();
  char problem[512];
  rd_kafka_conf_set(conf, "log_level", "0", problem, sizeof problem);
  auto* const rk = rd_kafka_new(RD_KAFKA_PRODUCER, conf, problem, sizeof problem);
  auto* const cluster = rk != nullptr ? rd_kafka_mock_cluster_new(rk, brokers) : nullptr;
  if (cluster == nullptr) {
    std::cerr << problem << std::endl;
    return 1;
  }
  std::cout << rd_kafka_mock_cluster_bootstraps(cluster) << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << (carry_out(cluster, line) ? "ok" : "refused") << std::endl;
  }
  rd_kafka_mock_cluster_destroy(cluster);
  rd_kafka_destroy(rk);
  return 0;
}

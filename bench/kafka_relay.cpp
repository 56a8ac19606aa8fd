// From a table of PostgreSQL to Kafka by `outbox relay`, a process of its own.
#include <fcntl.h>
#include <librdkafka/rdkafka.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <stdexcept>
#include <thread>

#include "postgres_by_hand.hpp"
#include "postgres_ours.hpp"
#include "suites.hpp"
#include "support/kafka_cluster.hpp"
#include "support/temporary_directory.hpp"

namespace bench {
namespace {

using namespace std::chrono_literals;

/// A topic that no round before has used.
std::string new_topic(outbox::kafka_cluster& cluster) {
  static int n = 0;
  auto const name = "orders-" + std::to_string(++n);
  cluster.topic(name, 32);
  return name;
}

/// The program with a configuration; everything that is not named here has its default.
class relay_process {
 public:
  relay_process(pg::place const& p, std::string const& brokers, std::string const& topic) {
    std::ofstream{config_} << "mode = \"multi_node\"\n[store]\nurl = \"postgresql://outbox@127.0.0.1:"
                           << pg::server().port() << "/postgres?outbox.schema=" << p.schema
                           << "\"\n[sinks.kafka]\ntype = \"kafka\"\nbootstrap_servers = \"" << brokers
                           << "\"\n[[routes]]\nevent_type = \"order.placed\"\nsink = \"kafka\"\ntopic = \"" << topic
                           << "\"\n[http]\nlisten = \"\"\n[log]\nlevel = \"error\"\n";
    pid_ = ::fork();
    if (pid_ < 0) throw std::runtime_error{"cannot start the relay"};
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::execl(OUTBOX_TOOL, "outbox", "relay", "--config", config_.c_str(), nullptr);
      ::_exit(127);
    }
  }
  relay_process(relay_process const&) = delete;
  relay_process& operator=(relay_process const&) = delete;
  ~relay_process() {
    ::kill(pid_, SIGTERM);
    ::waitpid(pid_, nullptr, 0);
  }

  [[nodiscard]] double rss_mb() const {
    std::ifstream in{"/proc/" + std::to_string(pid_) + "/statm"};
    double pages = 0;
    in >> pages >> pages;
    return pages * static_cast<double>(::sysconf(_SC_PAGESIZE)) / (1 << 20);
  }

 private:
  outbox::temporary_directory dir_;
  std::string config_ = dir_ / "relay.toml";
  ::pid_t pid_ = -1;
};

/// librdkafka with the settings of our sink, and nothing around it.
class producer_by_hand {
 public:
  explicit producer_by_hand(std::string const& brokers) {
    auto* const c = rd_kafka_conf_new();
    char problem[512];
    for (auto const& [name, value] :
         {std::pair{"bootstrap.servers", brokers.c_str()}, {"enable.idempotence", "true"}, {"acks", "all"}}) {
      if (rd_kafka_conf_set(c, name, value, problem, sizeof problem) != RD_KAFKA_CONF_OK) {
        throw std::runtime_error{problem};
      }
    }
    rd_kafka_conf_set_dr_msg_cb(c, [](rd_kafka_t*, rd_kafka_message_t const* m, void*) {
      if (m->err != RD_KAFKA_RESP_ERR_NO_ERROR) std::abort();  // a round with losses measures nothing
    });
    rk_ = rd_kafka_new(RD_KAFKA_PRODUCER, c, problem, sizeof problem);
    if (rk_ == nullptr) throw std::runtime_error{problem};
  }
  producer_by_hand(producer_by_hand const&) = delete;
  producer_by_hand& operator=(producer_by_hand const&) = delete;
  ~producer_by_hand() { rd_kafka_destroy(rk_); }

  // The message that the relay makes of an event: the same payload, and headers of the same names and sizes.
  void produce(std::string const& topic, std::string const& id) const {
    while (true) {
      auto const e = rd_kafka_producev(rk_, RD_KAFKA_V_TOPIC(topic.c_str()),
                                       RD_KAFKA_V_VALUE(const_cast<char*>(payload.data()), payload.size()),
                                       RD_KAFKA_V_HEADER("event_id", id.data(), static_cast<ssize_t>(id.size())),
                                       RD_KAFKA_V_HEADER("event_type", "order.placed", 12),
                                       RD_KAFKA_V_HEADER("occurred_at", "2030-01-31T23:59:59.123456Z", 27),
                                       RD_KAFKA_V_HEADER("content_type", "application/json", 16), RD_KAFKA_V_END);
      if (e == RD_KAFKA_RESP_ERR_NO_ERROR) return;
      if (e != RD_KAFKA_RESP_ERR__QUEUE_FULL) throw std::runtime_error{rd_kafka_err2str(e)};
      rd_kafka_poll(rk_, 10);
    }
  }
  void flush() const {
    while (rd_kafka_outq_len(rk_) > 0) rd_kafka_flush(rk_, 100);
  }

 private:
  rd_kafka_t* rk_ = nullptr;
};

double relayed(int count, outbox::kafka_cluster& cluster) {
  auto const p = pg::new_place("ours");
  pg::fill(p, count, payload);
  auto const topic = new_topic(cluster);
  pg::client const c{p.connection};
  return seconds([&] {
    relay_process const relay{p, cluster.addresses(), topic};
    pg::wait_until_done(c, p);
  });
}

double drained_and_produced(int count, outbox::kafka_cluster& cluster) {
  auto const p = pg::new_place("by_hand");
  pg::fill(p, count, payload);
  auto const topic = new_topic(cluster);
  pg::drainer_by_hand const hand{p, pg::drainer_by_hand::kind::mark};
  auto const drain = seconds([&] {
    while (hand.drain_some(1000) > 0) {
    }
  });
  return drain + seconds([&] {
           producer_by_hand const producer{cluster.addresses()};
           for (int i = 0; i < count; ++i) producer.produce(topic, pg::id_of(0, i));
           producer.flush();
         });
}

double idle_rss(outbox::kafka_cluster& cluster) {
  auto const p = pg::new_place("ours");
  pg::fill(p, 1, payload);
  pg::client const c{p.connection};
  relay_process const relay{p, cluster.addresses(), new_topic(cluster)};
  pg::wait_until_done(c, p);  // it is connected to both sides
  std::this_thread::sleep_for(1s);
  return relay.rss_mb();
}

}  // namespace

rows kafka_relay(settings const& s) {
  outbox::kafka_cluster cluster;
  if (!cluster.is_mock()) throw std::runtime_error{"unset OUTBOX_TEST_KAFKA: the benchmark has a cluster of its own"};
  auto const count = s.amount(50'000);
  auto all = interleave(
      s,
      {{"kafka.relay", "events/s", at_least(0.8),
        "50,000 rows of PostgreSQL from the start of `outbox relay` with default options, a process of its own, until "
        "all are DONE and it has ended; beside it, the sum of two times: a loop of a statement that claims 1000 rows "
        "and one that marks them, both prepared; then librdkafka alone, which sends the same messages to the same "
        "mock cluster of one broker and 32 partitions until all are acknowledged"}},
      [&]() -> std::vector<double> { return {count / relayed(count, cluster)}; },
      [&]() -> std::vector<double> { return {count / drained_and_produced(count, cluster)}; });
  std::vector<double> rss;
  for (int i = 0; i < std::min(s.rounds, 3); ++i) rss.push_back(idle_rss(cluster));
  all.push_back(alone({"kafka.relay.rss", "MB", at_most(25),
                       "the resident memory of `outbox relay` between PostgreSQL and Kafka, a second after its first "
                       "event, with nothing to do"},
                      rss));
  return all;
}

}  // namespace bench

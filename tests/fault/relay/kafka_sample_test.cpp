// The configuration for Kafka as it is installed: two relays keep the order of each key, and one of them is killed.
#include <gmock/gmock.h>

#include <filesystem>
#include <outbox/outbox.hpp>
#include <outbox/sqlite.hpp>

#include "fault/relay/relay_fixture.hpp"
#include "support/kafka_cluster.hpp"

namespace outbox {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

class KafkaSample : public relay_fixture {
 protected:
  static constexpr int keys = 20, each = 100;

  void SetUp() override {
    if (auto const why = why_no_kafka(); !why.empty()) GTEST_SKIP() << why;
    std::filesystem::copy_file(OUTBOX_KAFKA_SAMPLE, file());
  }
  // Only what every installation must set.
  std::vector<std::string> variables(int http) const {
    return {"DB_PASSWORD=none", "OUTBOX_STORE__URL=sqlite:" + database(),
            "OUTBOX_SINKS__KAFKA__BOOTSTRAP_SERVERS=" + cluster.addresses(),
            "OUTBOX_HTTP__LISTEN=127.0.0.1:" + std::to_string(http), "OUTBOX_LEASE__DURATION=2s"};
  }
  std::string database() const { return dir / "shop.db"; }
  // Numbers of each key, one transaction each.
  static void write(std::shared_ptr<store> const& to, std::string const& path) {
    auto const box = writer_only({.store = to, .log = nullptr});
    sqlite::connection db{path};
    for (int i = 0; i < each; ++i) {
      for (int k = 0; k < keys; ++k) {
        sqlite::transaction tx{db};
        box.writer().write(tx, "stock.changed", std::to_string(i), {.aggregate = {"article", std::to_string(k)}});
        tx.commit();
      }
    }
  }

  kafka_cluster cluster;
};

TEST_F(KafkaSample, IsRight) {
  auto const said = run("DB_PASSWORD=none " OUTBOX_TOOL " check-config " + file());
  EXPECT_EQ(said.status, 0) << said.out;
  EXPECT_THAT(said.out, HasSubstr("keyed"));
}

TEST_F(KafkaSample, I5_TheOrderOfEachKeyOutlivesARelayThatIsKilled) {
  if (!cluster.is_mock()) GTEST_SKIP() << "the sample's topic is only ours in the mock";
  cluster.topic("shop", 8);
  auto const store = sqlite::open(database());
  int const other_port = free_port();
  auto const first = start(variables(port));
  start(variables(other_port));
  ASSERT_TRUE(eventually([&] { return store->inspect().nodes().size() == 2; })) << log();
  std::jthread const writing{[&] { write(store, database()); }};
  ASSERT_TRUE(eventually([&] { return store->inspect().counts().done > keys * each / 10; })) << log();
  end(first, SIGKILL);
  ASSERT_TRUE(eventually([&] { return store->inspect().counts().done == keys * each; })) << log();
  std::map<std::string, int> reached, partition;
  for (auto const& m : cluster.messages("shop")) {
    EXPECT_EQ(partition.try_emplace(m.key, m.partition).first->second, m.partition) << m.key;
    auto& next = reached[m.key];
    int const n = std::stoi(m.payload);
    EXPECT_LE(n, next) << "I5: key " << m.key;  // what was there before is a repetition after the kill
    next = std::max(next, n + 1);
  }
  EXPECT_EQ(reached.size(), static_cast<std::size_t>(keys));
  for (auto const& [key, n] : reached) EXPECT_EQ(n, each) << "I1: key " << key;
  EXPECT_FALSE(log().empty());
}

}  // namespace
}  // namespace outbox

// The way from multi_node to keyed and back, as docs/how-to/order-per-key.md describes it: relays and the tool on one
// table, beside a program that never stops writing.
#include <gmock/gmock.h>

#include <atomic>
#include <outbox/outbox.hpp>
#include <outbox/sqlite.hpp>
#include <thread>

#include "fault/relay/relay_fixture.hpp"

namespace outbox {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

class RelayBecomesKeyed : public relay_fixture {
 protected:
  RelayBecomesKeyed() {
    store = sqlite::open(db());
    write_config_for("sqlite:" + db());
  }
  ~RelayBecomesKeyed() override { stop_writing(); }

  std::string db() const { return dir / "shop.db"; }
  ::pid_t start_as(std::string const& mode, int http) {
    return start(
        {"OUTBOX_MODE=" + mode, "OUTBOX_HTTP__LISTEN=127.0.0.1:" + std::to_string(http), "OUTBOX_LEASE__DURATION=5s"});
  }
  ended tool(std::string const& verb) const { return run(OUTBOX_TOOL " " + verb + " --db sqlite:" + db()); }

  // Events of five keys, numbered within their key: k.n
  void begin_writing() {
    writing_ = std::jthread{[this](std::stop_token const& stop) {
      auto const box = writer_only({.store = store, .log = nullptr});
      sqlite::connection c{db()};
      for (int i = 0; !stop.stop_requested(); ++i) {
        auto const key = std::to_string(i % 5);
        sqlite::transaction tx{c};
        box.writer().write(tx, "stock.changed", "1",
                           {.id = key + "." + std::to_string(i / 5), .aggregate = {"article", key}});
        tx.commit();
        ++written;
      }
    }};
  }
  void stop_writing() {
    if (!writing_.joinable()) return;
    writing_.request_stop();
    writing_.join();
  }
  std::uint64_t done() const { return store->inspect().counts().done; }
  bool goes_on() {
    auto const before = done();
    return eventually([&] { return done() > before; });
  }
  bool nodes_are(std::size_t n) const {
    return eventually([&] { return store->inspect().nodes().size() == n; });
  }
  // Of each key, the numbers in the order of their lines, from a line on.
  std::map<std::string, std::vector<int>> numbers(std::size_t from_line) const {
    std::map<std::string, std::vector<int>> all;
    std::ifstream in{lines_file()};
    std::size_t n = 0;
    for (std::string line; std::getline(in, line); ++n) {
      if (n < from_line) continue;
      auto const id = nlohmann::json::parse(line).at("id").get<std::string>();
      all[id.substr(0, 1)].push_back(std::stoi(id.substr(2)));
    }
    return all;
  }
  std::size_t lines() const {
    std::ifstream in{lines_file()};
    std::size_t n = 0;
    for (std::string line; std::getline(in, line);) ++n;
    return n;
  }

  std::shared_ptr<outbox::store> store;
  std::atomic<std::uint64_t> written = 0;

 private:
  std::jthread writing_;
};

TEST_F(RelayBecomesKeyed, AndGoesBackWhileAProgramWrites) {
  begin_writing();
  auto const first = start_as("multi_node", port), second = start_as("multi_node", free_port());
  ASSERT_TRUE(nodes_are(2)) << log();

  // The index is made beside the nodes of today, which go on.
  auto const prepared = tool("migrate up --keyed");
  EXPECT_EQ(prepared.status, 0) << prepared.out;
  EXPECT_TRUE(goes_on()) << log();

  // A keyed relay waits for the last of them.
  auto const early = start_as("keyed", free_port());
  EXPECT_EQ(wait(early), 1) << log();
  EXPECT_THAT(log(), HasSubstr("multi_node"));
  EXPECT_EQ(end(first, SIGTERM), 0) << log();
  EXPECT_FALSE(store->backend().settings().keyed);
  EXPECT_EQ(end(second, SIGTERM), 0) << log();
  auto const switched_at = lines();

  auto const third = start_as("keyed", port), fourth = start_as("keyed", free_port());
  ASSERT_TRUE(nodes_are(2)) << log();
  EXPECT_TRUE(goes_on()) << log();
  auto const late = start_as("multi_node", free_port());
  EXPECT_EQ(wait(late), 1) << log();
  auto const refused = tool("unkey --yes");
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.out, HasSubstr("keyed nodes are live"));
  EXPECT_EQ(end(third, SIGTERM), 0) << log();
  EXPECT_TRUE(goes_on()) << log();
  EXPECT_EQ(end(fourth, SIGTERM), 0) << log();
  for (auto const& [key, all] : numbers(switched_at)) {
    EXPECT_TRUE(std::ranges::is_sorted(all)) << "I5: key " << key;
    EXPECT_EQ(std::ranges::adjacent_find(all), all.end()) << "I7: key " << key;
  }

  auto const back = tool("unkey --yes --reason 'back to multi_node'");
  EXPECT_EQ(back.status, 0) << back.out;
  auto const last = start_as("multi_node", port);
  EXPECT_TRUE(goes_on()) << log();
  stop_writing();
  EXPECT_TRUE(eventually([&] { return done() == written; })) << "I1: " << log();
  EXPECT_EQ(end(last, SIGTERM), 0) << log();
  EXPECT_EQ(published().size(), written);
}

}  // namespace
}  // namespace outbox

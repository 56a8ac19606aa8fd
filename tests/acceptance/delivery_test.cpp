// The specification's acceptance tests of writing and delivering.
#include <latch>
#include <nlohmann/json.hpp>
#include <outbox/json.hpp>

#include "acceptance/suite.hpp"

namespace outbox::acceptance {
namespace {

struct user_created {
  static constexpr std::string_view event_type = "user.created";
  static constexpr std::string_view aggregate_type = "user";
  using outbox_codec = outbox::json;
  std::string name;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(user_created, name)

enum class order_events { placed, paid };
std::string_view outbox_name(order_events e) { return e == order_events::placed ? "order.placed" : "order.paid"; }

template <class Database>
class Delivery : public Acceptance<Database> {};
TYPED_TEST_SUITE(Delivery, Databases, database_name);

TYPED_TEST(Delivery, Atomicity) {
  single_node_options o = this->options();
  o.listeners.on("t", [this](delivery const& d) { this->seen.add(d.id); });
  auto n = single_node(std::move(o));
  this->start(n);
  this->write(n, "undone", {}, /*commit=*/false);
  this->write(n, "done");
  ASSERT_TRUE(this->seen.reach(1));
  ASSERT_TRUE(this->settled());
  EXPECT_FALSE(this->db.shared_store()->inspect().find("undone"));
  EXPECT_EQ(this->seen.of("undone"), 0);
}

TYPED_TEST(Delivery, AWriteWithoutATransactionIsRefusedWithWhatToPass) {
  if (!this->db.shared_store()->capabilities().requires_transaction) GTEST_SKIP() << "this store needs no transaction";
  auto n = single_node(this->options());
  auto const kind = std::string{this->db.shared_store()->capabilities().kind};
  auto const refused = [&](auto&& write) {
    try {
      write();
      ADD_FAILURE() << "it was written";
    } catch (error const& e) {
      EXPECT_EQ(e.code(), errc::no_transaction);
      EXPECT_THAT(e.what(), ::testing::HasSubstr("'" + kind + "'"));
      EXPECT_THAT(e.what(), ::testing::HasSubstr("pass that transaction"));
    }
  };
  auto const e = event::json("t", "1", {.id = "a"});
  refused([&] { n.writer().write(no_transaction, e); });
  refused([&] { n.writer().write(no_transaction, "t", "1"); });
  refused([&] { n.writer().write_all(no_transaction, std::span{&e, 1}); });
  EXPECT_EQ(this->db.shared_store()->inspect().counts().pending(), 0U);
}

TYPED_TEST(Delivery, AWriteWithoutATransactionIsThereAtOnceAndGoesHot) {
  if (this->db.shared_store()->capabilities().requires_transaction) GTEST_SKIP() << "this store needs a transaction";
  std::atomic<int> hot = 0;
  auto o = this->options();
  o.listeners.on("t", [&](delivery const& d) {
    hot += d.path == path::hot ? 1 : 0;
    this->seen.add(d.id);
  });
  auto n = single_node(std::move(o));
  this->start(n);
  n.writer().write(no_transaction, "t", "1", {.id = "a"});
  auto const more = std::vector{event::json("t", "2", {.id = "b"}), event::json("t", "3", {.id = "c"})};
  n.writer().write_all(no_transaction, more);
  ASSERT_TRUE(this->seen.reach(3));
  EXPECT_EQ(hot, 3);
  EXPECT_THROW(n.writer().write(no_transaction, "t", "1", {.id = "a"}), error);
  ASSERT_TRUE(this->settled());
}

TYPED_TEST(Delivery, CommitAndFastPath) {
  std::atomic<bool> hot = false;
  single_node_options o = this->options();
  o.poll.every = 1h;
  o.listeners.on("t", [&](delivery const& d) {
    hot = d.path == path::hot;
    this->seen.add(d.id);
  });
  auto n = single_node(std::move(o));
  this->start(n);
  this->write(n, "a");
  ASSERT_TRUE(this->seen.reach(1));
  ASSERT_TRUE(this->settled());
  EXPECT_TRUE(hot);
  EXPECT_EQ(this->row("a").status, event_status::delivered);
}

TYPED_TEST(Delivery, OverflowDowngrade) {
  std::latch gate{1};
  single_node_options o = this->options();
  o.workers = 1;
  o.queue.hot = 2;
  o.listeners.on("t", [&](delivery const& d) {
    gate.wait();
    this->seen.add(d.id);
  });
  auto n = single_node(std::move(o));
  this->start(n);
  for (int i = 0; i < 10; ++i) this->write(n, "e" + std::to_string(i));
  EXPECT_EQ(n.counters().hot_dropped, 8U);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(this->row("e" + std::to_string(i)).status, event_status::created) << i;
  EXPECT_EQ(this->seen.total(), 0U);
  gate.count_down();
  ASSERT_TRUE(this->settled());
  EXPECT_EQ(this->seen.total(), 10U) << "each once";
  EXPECT_EQ(n.counters().cold_enqueued, 8U);
}

TYPED_TEST(Delivery, RetryThenDead) {
  single_node_options o = this->options();
  o.retry.max_attempts = 3;
  std::vector<std::int32_t> attempts;
  o.listeners.on("t", [&](delivery const& d) -> result {
    attempts.push_back(d.attempt);
    EXPECT_EQ(d.max_attempts, 3);
    EXPECT_EQ(d.maybe_duplicate, d.attempt > 1);
    throw std::runtime_error{"broker is down"};
  });
  auto n = single_node(std::move(o));
  this->start(n);
  this->write(n, "a");
  ASSERT_TRUE(this->settled());
  n.stop();
  EXPECT_THAT(attempts, ::testing::ElementsAre(1, 2, 3));
  EXPECT_EQ(this->row("a").status, event_status::dead);
  EXPECT_EQ(this->row("a").attempts, 3);
  EXPECT_EQ(this->row("a").last_error, "broker is down");
}

TYPED_TEST(Delivery, TypedEventsAndAggregates) {
  single_node_options o = this->options();
  o.listeners.on<user_created>([this](user_created const& e, delivery const& d) {
    this->seen.add(e.name + " of " + d.event.aggregate_type() + " " + d.event.aggregate_id() + " for " +
                   d.event.tenant());
  });
  o.listeners.on(order_events::placed, [this](delivery const&) { this->seen.add("any order"); });
  o.listeners.on("vip", order_events::placed, [this](delivery const&) { this->seen.add("vip order"); });
  auto n = single_node(std::move(o));
  this->start(n);
  this->db.transact(true, [&](auto& tx) {
    auto const w = n.writer();
    w.write(tx, user_created{"Ann"}, {.aggregate = {"", "7"}, .tenant = "acme"});
    w.write(tx, order_events::placed, "{}", {.aggregate = {"vip", "1"}});
    w.write(tx, order_events::placed, "{}", {.aggregate = {"order", "2"}});
    w.write(tx, order_events::placed, "{}");
    w.write(tx, order_events::paid, "{}", {.id = "nobody"});
  });
  ASSERT_TRUE(this->settled());
  EXPECT_EQ(this->seen.of("Ann of user 7 for acme"), 1);
  EXPECT_EQ(this->seen.of("vip order"), 1);
  EXPECT_EQ(this->seen.of("any order"), 2);
  EXPECT_EQ(this->row("nobody").status, event_status::dead) << "no listener";
}

TYPED_TEST(Delivery, DelayedDelivery) {
  single_node_options o = this->options();
  o.poll.every = 1h;
  std::atomic<std::chrono::steady_clock::rep> when = 0;
  o.listeners.on("t", [&](delivery const& d) {
    EXPECT_EQ(d.path, path::cold);
    when = std::chrono::steady_clock::now().time_since_epoch().count();
    this->seen.add(d.id);
  });
  auto n = single_node(std::move(o));
  this->start(n);
  auto const before = std::chrono::steady_clock::now();
  this->write(n, "a", {.deliver_after = 50ms});
  ASSERT_TRUE(this->seen.reach(1)) << "long before the poll interval of an hour";
  EXPECT_GE(when.load(), (before + 50ms).time_since_epoch().count()) << "not before its time";
  EXPECT_EQ(n.counters().hot_skipped_delayed, 1U);
}

TYPED_TEST(Delivery, DeferredRetry) {
  single_node_options o = this->options();
  o.retry.max_attempts = 1;
  std::atomic<int> calls = 0;
  o.listeners.on("t", [&](delivery const& d) -> result {
    EXPECT_EQ(d.attempt, 1) << "not counted";
    if (++calls < 4) return defer{1ms, "not ready"};
    return done;
  });
  auto n = single_node(std::move(o));
  this->start(n);
  this->write(n, "a");
  ASSERT_TRUE(this->settled());
  EXPECT_EQ(calls, 4);
  EXPECT_EQ(this->row("a").status, event_status::delivered);
  EXPECT_EQ(this->row("a").attempts, 0);
  EXPECT_EQ(this->row("a").last_error, "");
}

TYPED_TEST(Delivery, GracefulShutdown) {
  single_node_options o = this->options();
  o.workers = 2;
  o.listeners.on("t", [this](delivery const& d) { this->seen.add(d.id); });
  auto n = single_node(std::move(o));
  this->start(n);
  for (int i = 0; i < 50; ++i) this->write(n, "e" + std::to_string(i));
  EXPECT_TRUE(n.stop(60s));
  EXPECT_EQ(this->seen.total(), 50U);
  EXPECT_EQ(this->db.shared_store()->inspect().counts().done, 50U);
  EXPECT_TRUE(this->db.shared_store()->inspect().nodes().empty()) << "the node has said goodbye";
}

TYPED_TEST(Delivery, WriteAllIsOneTransactionAndOneBirth) {
  single_node_options o = this->options();
  o.listeners.on("t", [this](delivery const& d) { this->seen.add(d.id); });
  auto n = single_node(std::move(o));
  this->start(n);
  std::vector<event> events;
  for (int i = 0; i < 500; ++i) events.push_back(event::json("t", "1", {.id = "e" + std::to_string(i)}));
  std::vector<event_id> ids;
  this->db.transact(true, [&](auto& tx) { ids = n.writer().write_all(tx, events); });
  ASSERT_EQ(ids.size(), 500U);
  EXPECT_EQ(ids[499].str(), "e499");
  ASSERT_TRUE(this->settled());
  EXPECT_EQ(this->seen.total(), 500U);
}

}  // namespace
}  // namespace outbox::acceptance

// Kafka over real TCP: what arrives, and what the errors of a cluster mean to events.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <librdkafka/rdkafka.h>

#include <latch>
#include <mutex>
#include <outbox/memory.hpp>
#include <outbox/outbox.hpp>
#include <outbox/sinks/kafka.hpp>
#include <outbox/spi/store.hpp>

#include "support/kafka_cluster.hpp"
#include "support/kafka_proxy.hpp"
#include "support/waiting.hpp"

namespace outbox {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

// Reports of messages that a test publishes without a node.
class reports {
 public:
  [[nodiscard]] publish_report next(std::string const& id) { return publish_report{std::make_unique<slot>(*this, id)}; }
  bool reach(std::size_t n) {
    return eventually([&] {
      std::lock_guard const lock{mutex_};
      return all_.size() >= n;
    });
  }
  published of(std::string const& id) {
    std::lock_guard const lock{mutex_};
    return all_.at(id);
  }
  bool has(std::string const& id) {
    std::lock_guard const lock{mutex_};
    return all_.contains(id);
  }
  int count(published::how what) {
    std::lock_guard const lock{mutex_};
    return static_cast<int>(std::ranges::count(all_, what, [](auto const& one) { return one.second.what; }));
  }

 private:
  class slot final : public detail::report_slot {
   public:
    slot(reports& r, std::string id) : to_{r}, id_{std::move(id)} {}
    void report(published&& p) noexcept override {
      std::lock_guard const lock{to_.mutex_};
      to_.all_.emplace(id_, std::move(p));
    }

   private:
    reports& to_;
    std::string id_;
  };
  std::mutex mutex_;
  std::map<std::string, published> all_;
};

class Kafka : public ::testing::Test {
 protected:
  void SetUp() override {
    if (auto const why = why_no_kafka(); !why.empty()) GTEST_SKIP() << why;
  }

  // A topic of its own, so that a cluster that runs elsewhere can be used twice.
  std::string topic = "outbox-test-" + new_event_id();
  kafka_cluster cluster;
  reports told;

  kafka::options options() {
    return {.bootstrap_servers = cluster.addresses(), .message_timeout = 20s, .log = nullptr};
  }
  void send(sink& to, std::string const& id, std::string payload = "", publish_options o = {}) {
    o.topic = topic;
    auto e = event::bytes("t", payload.empty() ? id : std::move(payload), "text/plain",
                          {.id = id, .aggregate = {"a", id}}, {.payload_bytes = 8U << 20U});
    to.publish(envelope{o}.make(e), told.next(id), std::chrono::steady_clock::now() + 30s);
  }
};

TEST_F(Kafka, AMessageCarriesTheEvent) {
  if (cluster.is_mock()) cluster.topic(topic, 4);
  auto const to = kafka::open(options());
  auto const payload = std::string{"{ \"bytes\" :\t1 }\n\xff\xfe", 19};
  auto const e = event::bytes(
      "order.placed", payload, "application/x",
      {.id = "e1",
       .aggregate = {"order", "42"},
       .tenant = "acme",
       .headers = {{"traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}, {"tracestate", "a=1"}},
       .occurred_at = instant{std::chrono::sys_days{std::chrono::year{2030} / 1 / 31}}});
  to->publish(envelope{{.topic = topic, .partition = "3"}}.make(e), told.next("e1"), steady_time::max());
  ASSERT_TRUE(told.reach(1));
  EXPECT_EQ(told.of("e1").what, published::how::stored) << told.of("e1").reason;
  auto const all = cluster.messages(topic);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].payload, payload) << "byte for byte";
  EXPECT_EQ(all[0].key, "42");
  EXPECT_EQ(all[0].partition, 3);
  EXPECT_EQ(all[0].headers,
            "event_id=e1,event_type=order.placed,aggregate_type=order,aggregate_id=42,tenant=acme,"
            "occurred_at=2030-01-31T00:00:00.000000Z,content_type=application/x,"
            "traceparent=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01,tracestate=a=1");
}

TEST_F(Kafka, WhatTheClientLogsNamesTheSinkAndItsPart) {
  std::mutex mutex;
  std::string text, fields;
  auto const to = kafka::open({.bootstrap_servers = "127.0.0.1:1", .name = "orders", .log = [&](log_line const& line) {
                                 std::lock_guard const lock{mutex};
                                 text = line.text();
                                 fields = line.logfmt();
                               }});
  ASSERT_TRUE(eventually([&] {
    std::lock_guard const lock{mutex};
    return !text.empty();
  }));
  std::lock_guard const lock{mutex};
  EXPECT_THAT(text, ::testing::StartsWith("orders: "));
  EXPECT_THAT(fields, ::testing::StartsWith("sink=orders facility="));
}

TEST_F(Kafka, CloudEventsCarryTheContextOfTheTraceUnderItsOwnNames) {
  if (cluster.is_mock()) cluster.topic(topic, 1);
  auto const to = kafka::open(options());
  auto const e = event::json(
      "t", "1", {.id = "e1", .headers = {{"traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}});
  to->publish(envelope{{.topic = topic, .cloud_events = "/shop"}}.make(e), told.next("e1"), steady_time::max());
  ASSERT_TRUE(told.reach(1));
  ASSERT_EQ(cluster.messages(topic).size(), 1U);
  EXPECT_THAT(cluster.messages(topic)[0].headers,
              HasSubstr(",traceparent=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"));
}

// The hashes are those that the tests of Kafka's own clients compare with.
TEST_F(Kafka, KeysGoWhereJavaPutsThem) {
  constexpr int partitions = 32;
  if (cluster.is_mock()) cluster.topic(topic, partitions);
  std::map<std::string, std::int32_t> const hashes = {{"21", -973932308},
                                                      {"foobar", -790332482},
                                                      {"a-little-bit-long-string", -985981536},
                                                      {"a-little-bit-longer-string", -1486304829},
                                                      {"abc", 479470107}};
  auto const to = kafka::open(options());
  for (auto const& [key, hash] : hashes) send(*to, key, key, {.key = key});
  ASSERT_TRUE(told.reach(hashes.size()));
  if (!cluster.is_mock()) GTEST_SKIP() << "the topic of a real cluster has another number of partitions";
  for (auto const& m : cluster.messages(topic)) {
    EXPECT_EQ(m.partition, (hashes.at(m.key) & 0x7fffffff) % partitions) << m.key;
  }
}

TEST_F(Kafka, AMessageThatIsTooLargeIsRejected) {
  auto o = options();
  o.properties["message.max.bytes"] = "100000";
  auto const to = kafka::open(o);
  send(*to, "large", std::string(200'000, 'x'));
  send(*to, "small");
  ASSERT_TRUE(told.reach(2));
  EXPECT_EQ(told.of("large").what, published::how::rejected);
  EXPECT_THAT(told.of("large").reason, HasSubstr("MSG_SIZE_TOO_LARGE"));
  EXPECT_EQ(told.of("small").what, published::how::stored);
}

TEST_F(Kafka, ATopicThatCannotBeIsRejected) {
  auto const to = kafka::open(options());
  topic = std::string(600, 'x');
  send(*to, "long");
  ASSERT_TRUE(told.reach(1));
  EXPECT_EQ(told.of("long").what, published::how::rejected);
  EXPECT_THAT(told.of("long").reason, HasSubstr("does not take the topic 'xxx"));
}

// More topics than are kept at hand.
TEST_F(Kafka, TopicsMayComeFromEvents) {
  if (!cluster.is_mock()) GTEST_SKIP() << "a real cluster is not to be filled with topics";
  constexpr int topics = 1100;
  auto const to = kafka::open(options());
  for (int i = 0; i < topics; ++i) {
    topic = "t" + std::to_string(i);
    send(*to, "e" + std::to_string(i));
  }
  topic = "t0";
  send(*to, "again");
  ASSERT_TRUE(told.reach(topics + 1));
  EXPECT_EQ(told.count(published::how::stored), topics + 1);
  EXPECT_EQ(cluster.payloads("t0").size(), 2U);
}

// Through a node: a route, and events that were written with a topic.
TEST_F(Kafka, AnEventGoesToTheTopicThatItWasWrittenWith) {
  if (!cluster.is_mock()) GTEST_SKIP() << "a real cluster is not to be filled with topics";
  auto const store = memory::open();
  auto const to = kafka::open(options());
  multi_node_options o{.store = store, .log = nullptr};
  o.listeners.on_any(publish(to, {.topic = "{header.topic}"}));
  auto n = multi_node(std::move(o));
  n.start();
  memory::transaction tx{*store};
  for (std::string const end : {"-a", "-b"}) {
    n.writer().write(tx, "t", "1", {.id = end, .headers = make_headers({.topic = topic + end, .schema_version = 2})});
  }
  n.writer().write(tx, "t", "1", {.id = "none"});
  tx.commit();
  ASSERT_TRUE(eventually([&] { return store->inspect().counts().pending() == 0; }));
  EXPECT_EQ(store->inspect().find("-a")->status, event_status::delivered);
  EXPECT_EQ(store->inspect().find("-b")->status, event_status::delivered);
  EXPECT_EQ(store->inspect().find("none")->status, event_status::dead) << "it has no topic";
  EXPECT_EQ(cluster.payloads(topic + "-a").size(), 1U);
  EXPECT_EQ(cluster.payloads(topic + "-b").size(), 1U);
}

TEST_F(Kafka, ErrorsOfTheEnvironmentAreNotThoseOfTheMessage) {
  if (!cluster.is_mock()) GTEST_SKIP() << "errors are injected into the mock only";
  struct one {
    int code;
    published::how what;
  };
  for (auto const& [code, what] : {one{RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, published::how::unavailable},
                                   one{RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED, published::how::unavailable},
                                   one{RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, published::how::rejected},
                                   one{RD_KAFKA_RESP_ERR_INVALID_RECORD, published::how::rejected},
                                   one{RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS, published::how::stored},
                                   one{RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT, published::how::stored}}) {
    kafka_cluster own;
    auto const to = kafka::open({.bootstrap_servers = own.addresses(), .message_timeout = 20s, .log = nullptr});
    own.fail_produce(code, 1);
    auto const id = "c" + std::to_string(code);
    send(*to, id);
    ASSERT_TRUE(eventually([&] { return to->health().in_flight == 0; }));
    EXPECT_EQ(told.of(id).what, what) << code << ": " << told.of(id).reason;
  }
}

// It is not the fault of the events: they wait until somebody has created the topic.
TEST_F(Kafka, AnUnknownTopicIsUnavailableUntilItIsThere) {
  if (!cluster.is_mock()) GTEST_SKIP() << "a real cluster may create topics by itself";
  cluster.topic(topic, 1);
  cluster.fail_topic(topic, RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART);
  auto o = options();
  o.properties["topic.metadata.propagation.max.ms"] = "0";
  auto const to = kafka::open(o);
  auto const store = memory::open();
  multi_node_options n{.store = store, .log = nullptr};
  n.listeners.on_any(publish(to, {.topic = topic}));
  auto box = multi_node(std::move(n));
  box.start();
  memory::transaction tx{*store};
  for (int i = 0; i < 3; ++i) box.writer().write(tx, "t", "1", {.id = "e" + std::to_string(i)});
  tx.commit();
  EXPECT_TRUE(eventually([&] { return box.counters().deferred >= 3; })) << to->health().reason;
  EXPECT_EQ(store->inspect().find("e0")->attempts, 0) << "it is not counted";
  EXPECT_THAT(store->inspect().find("e0")->last_error, HasSubstr("UNKNOWN_TOPIC"));
  cluster.fail_topic(topic, 0);
  EXPECT_TRUE(eventually([&] { return store->inspect().counts().done == 3; })) << to->health().reason;
  EXPECT_EQ(box.counters().failed, 0U);
}

TEST_F(Kafka, AClusterThatIsAwayIsUnavailableAndComesBack) {
  if (!cluster.is_mock()) GTEST_SKIP() << "the brokers of a real cluster are not to be stopped";
  cluster.topic(topic, 1);
  auto o = options();
  o.message_timeout = 1s;
  auto const to = kafka::open(o);
  send(*to, "before");
  ASSERT_TRUE(told.reach(1));
  cluster.down(1);
  send(*to, "away");
  ASSERT_TRUE(told.reach(2));
  EXPECT_NE(told.of("away").what, published::how::stored);
  EXPECT_NE(told.of("away").what, published::how::rejected);
  EXPECT_TRUE(eventually([&] { return !to->health().healthy; }));
  cluster.up(1);
  int n = 0;
  EXPECT_TRUE(eventually([&] {
    auto const id = "back" + std::to_string(n++);
    send(*to, id);
    return told.reach(2 + static_cast<std::size_t>(n)) && told.of(id).what == published::how::stored;
  }));
  EXPECT_TRUE(to->health().healthy);
}

TEST_F(Kafka, AFullQueueMakesTheCallerWait) {
  auto o = options();
  o.properties["queue.buffering.max.messages"] = "10";
  o.properties["linger.ms"] = "0";
  auto const to = kafka::open(o);
  for (int i = 0; i < 500; ++i) send(*to, "e" + std::to_string(i));
  ASSERT_TRUE(told.reach(500));
  EXPECT_EQ(told.count(published::how::stored), 500);
}

TEST_F(Kafka, AFatalErrorMakesANewProducer) {
  if (!cluster.is_mock()) GTEST_SKIP() << "errors are injected into the mock only";
  cluster.topic(topic, 1);
  auto const to = kafka::open(options());
  send(*to, "before");
  ASSERT_TRUE(told.reach(1));
  cluster.fail_produce(RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER, 3);
  send(*to, "fatal");
  ASSERT_TRUE(told.reach(2));
  EXPECT_NE(told.of("fatal").what, published::how::stored) << told.of("fatal").reason;
  int n = 0;
  EXPECT_TRUE(eventually([&] {
    auto const id = "after" + std::to_string(n++);
    send(*to, id);
    return told.reach(2 + static_cast<std::size_t>(n)) && told.of(id).what == published::how::stored;
  })) << "it goes on with another producer";
}

// Keeps the thread of its producer until the test lets it go.
class held_report final : public detail::report_slot {
 public:
  held_report(std::atomic<bool>& began, std::latch& let_go) : began_{began}, let_go_{let_go} {}
  void report(published&& p) noexcept override {
    EXPECT_EQ(p.what, published::how::unavailable) << p.reason;
    began_ = true;
    let_go_.wait();
  }

 private:
  std::atomic<bool>& began_;
  std::latch& let_go_;
};

// One message waits for the leader of its partition. It is given up when another one has a fatal error.
TEST_F(Kafka, I5_ASinkThatKeepsOrderTakesNothingWhileABrokenProducerHasReportsToGive) {
  if (!cluster.is_mock()) GTEST_SKIP() << "errors are injected into the mock only";
  auto const without_leader = topic + "-2";
  cluster.topic(topic, 1);
  cluster.topic(without_leader, 1);
  cluster.fail_topic(without_leader, RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE);
  std::atomic<bool> began = false;
  std::latch let_go{1};
  auto o = options();
  o.message_timeout = 0ms;
  auto const to = kafka::open(o);
  send(*to, "before");
  ASSERT_TRUE(told.reach(1));
  to->publish(envelope{{.topic = without_leader}}.make(event::json("t", "1", {.aggregate = {"a", "1"}})),
              publish_report{std::make_unique<held_report>(began, let_go)}, steady_time::max());
  cluster.fail_produce(RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER, 1);
  send(*to, "fatal");
  EXPECT_TRUE(eventually([&] { return began.load(); })) << "it is given up";
  send(*to, "behind");
  EXPECT_TRUE(eventually([&] { return told.has("behind"); }));
  let_go.count_down();
  ASSERT_TRUE(told.has("behind"));
  EXPECT_EQ(told.of("behind").what, published::how::unavailable) << "it would overtake what is tried again";
  EXPECT_THAT(told.of("behind").reason, HasSubstr("fatal error"));
  int n = 0;
  EXPECT_TRUE(eventually([&] {
    auto const id = "after" + std::to_string(n++);
    send(*to, id);
    return eventually([&] { return told.has(id); }) && told.of(id).what == published::how::stored;
  })) << "it goes on with another producer";
  EXPECT_FALSE(cluster.payloads(topic).contains("behind"));
}

TEST_F(Kafka, TheEndGivesUpWhatHasNoReport) {
  if (!cluster.is_mock()) GTEST_SKIP() << "the brokers of a real cluster are not to be stopped";
  cluster.down(1);
  {
    auto const to = kafka::open(options());
    for (int i = 0; i < 20; ++i) send(*to, "e" + std::to_string(i));
    EXPECT_FALSE(to->flush(std::chrono::steady_clock::now() + 10ms));
  }
  ASSERT_TRUE(told.reach(20));
  EXPECT_EQ(told.count(published::how::unavailable), 20);
}

// Stored, and not acknowledged: the node tries again, the receiver may see it twice, and that is counted.
TEST_F(Kafka, AReplyThatIsLostIsUnsure) {
  if (!cluster.is_mock()) GTEST_SKIP() << "the proxy is for one broker";
  cluster.topic(topic, 1);
  kafka_proxy proxy{cluster.addresses()};
  auto const to = kafka::open({.bootstrap_servers = proxy.address_text(), .message_timeout = 2s, .log = nullptr});
  auto const store = memory::open();
  multi_node_options o{.store = store, .log = nullptr};
  o.listeners.on_any(publish(to, {.topic = topic}));
  auto box = multi_node(std::move(o));
  box.start();
  auto const write = [&](std::string const& id) {
    memory::transaction tx{*store};
    box.writer().write(tx, "t", "\"" + id + "\"", {.id = id});
    tx.commit();
  };
  write("first");
  ASSERT_TRUE(eventually([&] { return store->inspect().counts().done == 1; })) << to->health().reason;
  proxy.lose_next_reply();
  write("doubtful");
  ASSERT_TRUE(eventually([&] { return proxy.lost() && store->inspect().find("doubtful")->attempts == 1; }))
      << store->inspect().find("doubtful")->last_error;
  EXPECT_TRUE(eventually([&] { return to->health().unsure == 1; })) << "it is counted behind the report";
  EXPECT_THAT(store->inspect().find("doubtful")->last_error, HasSubstr("it may have been stored"));
  proxy.heal();
  EXPECT_TRUE(eventually([&] { return store->inspect().counts().done == 2; })) << to->health().reason;
  box.stop();
  auto const all = cluster.payloads(topic);
  EXPECT_EQ(all.at("\"first\""), 1);
  EXPECT_EQ(all.at("\"doubtful\""), 2) << "it was stored each time";
}

// Its messages do not keep it alive: it would end on its own thread.
TEST_F(Kafka, ASinkMayEndBeforeItsMessagesHaveTheirReports) {
  if (!cluster.is_mock()) GTEST_SKIP() << "the brokers of a real cluster are not to be stopped";
  cluster.down(1);
  std::weak_ptr<sink> ended;
  auto const store = memory::open();
  {
    auto to = kafka::open(options());
    ended = to;
    multi_node_options o{.store = store, .log = nullptr};
    o.stop_timeout = 0ms;
    o.listeners.on_any(publish(std::move(to), {.topic = topic}));
    auto box = multi_node(std::move(o));
    box.start();
    memory::transaction tx{*store};
    box.writer().write(tx, "t", "1");
    tx.commit();
    ASSERT_TRUE(eventually([&] { return ended.lock()->health().in_flight == 1; }));
  }
  EXPECT_TRUE(ended.expired());
  EXPECT_EQ(store->inspect().counts().pending(), 1U);
}

TEST(KafkaOptions, WhatWouldWeakenAPromiseIsRefusedByName) {
  struct one {
    std::map<std::string, std::string> properties;
    std::string field, problem;
  };
  std::vector<one> const all = {
      {{{"acks", "1"}}, "properties.acks", "cannot be set to '1'"},
      {{{"request.required.acks", "0"}}, "properties.request.required.acks", "cannot be set to '0'"},
      {{{"enable.idempotence", "false"}}, "properties.enable.idempotence", "retries"},
      {{{"transactional.id", "x"}}, "properties.transactional.id", "cannot be set"},
      {{{"delivery.report.only.error", "true"}}, "properties.delivery.report.only.error", "reported as stored"},
      {{{"message.timeout.ms", "1"}}, "properties.message.timeout.ms", "message_timeout"},
      {{{"bootstrap.servers", "x:1"}}, "properties.bootstrap.servers", "bootstrap_servers"},
      {{{"test.mock.num.brokers", "1"}}, "properties.test.mock.num.brokers", "forgets"},
      {{{"no.such.property", "1"}}, "properties.no.such.property", "not a property of librdkafka"},
      {{{"linger.ms", "secret"}}, "properties.linger.ms", "does not take"},
  };
  for (auto const& w : all) {
    try {
      kafka::check({.bootstrap_servers = "x:1", .properties = w.properties});
      ADD_FAILURE() << w.field << " was taken";
    } catch (error const& e) {
      EXPECT_EQ(e.code(), errc::invalid_option);
      EXPECT_EQ(e.field(), w.field);
      EXPECT_THAT(e.what(), HasSubstr(w.problem));
      EXPECT_THAT(e.what(), ::testing::Not(HasSubstr("secret")));
    }
  }
  EXPECT_NO_THROW(kafka::check({.bootstrap_servers = "x:1", .properties = {{"acks", "all"}, {"linger.ms", "20"}}}));
  EXPECT_THROW(kafka::check({}), error);
  EXPECT_THROW(kafka::check({.bootstrap_servers = "x:1", .message_timeout = 10ms}), error);
}

TEST(KafkaOptions, WithoutATimeoutASinkKeepsOrder) {
  if (auto const why = why_no_kafka(); !why.empty()) GTEST_SKIP() << why;
  kafka::options o{.bootstrap_servers = "127.0.0.1:1", .message_timeout = 0ms, .log = nullptr};
  EXPECT_TRUE(kafka::open(o)->keeps_order());
  EXPECT_EQ(kafka::open(o)->patience(), std::chrono::milliseconds::max());
  o.message_timeout = 30s;
  EXPECT_FALSE(kafka::open(o)->keeps_order());
  EXPECT_EQ(kafka::open(o)->patience(), 34s);
}

TEST(KafkaOptions, WhatReordersIsRefusedWithoutATimeout) {
  for (auto const& [name, value] : std::vector<std::pair<std::string, std::string>>{{"retries", "3"},
                                                                                    {"message.send.max.retries", "3"},
                                                                                    {"partitioner", "random"},
                                                                                    {"partitioner", " random"},
                                                                                    {"partitioner", "\trandom"}}) {
    kafka::options o{.bootstrap_servers = "x:1", .properties = {{name, value}}};
    EXPECT_NO_THROW(kafka::check(o)) << name << ": it promises no order";
    o.message_timeout = 0ms;
    try {
      kafka::check(o);
      ADD_FAILURE() << name << " = '" << value << "' was taken";
    } catch (error const& e) {
      EXPECT_EQ(e.field(), "properties." + name);
      EXPECT_THAT(e.what(), HasSubstr("message_timeout = 0"));
    }
  }
  for (auto const* const value : {"murmur2", " murmur2", "consistent_random"}) {
    EXPECT_NO_THROW(
        kafka::check({.bootstrap_servers = "x:1", .message_timeout = 0ms, .properties = {{"partitioner", value}}}))
        << value;
  }
}

// They are compared as they are written, so white space before them is refused too.
TEST(KafkaOptions, WhiteSpaceHidesNoPropertyThatWouldWeakenAPromise) {
  for (auto const& [name, value] : std::vector<std::pair<std::string, std::string>>{
           {"acks", " 1"}, {"enable.idempotence", "FALSE"}, {"delivery.report.only.error", " true"}}) {
    EXPECT_THROW(kafka::check({.bootstrap_servers = "x:1", .properties = {{name, value}}}), error) << name;
  }
}

// A node and a cluster that fails now and then: nothing is lost, and nothing is there twice.
TEST_F(Kafka, I1_EventsSurviveErrorsOfTheCluster) {
  constexpr int events = 50'000;
  if (cluster.is_mock()) cluster.topic(topic, 32);
  auto producer = options();
  // A broker refuses a batch that follows one which it has not stored; the mock stores it. librdkafka trusts the broker
  // and takes the later batch as the receipt of the earlier one, which is lost in the mock if both were under way.
  if (cluster.is_mock()) producer.properties["max.in.flight"] = "1";
  auto const to = kafka::open(producer);
  auto const store = memory::open();
  multi_node_options o{.store = store, .log = nullptr};
  o.queue.cold = 5000;
  o.listeners.on("t", publish(to, {.topic = topic}));
  auto box = multi_node(std::move(o));
  box.start();
  auto const w = box.writer();
  for (int i = 0; i < events;) {
    std::vector<event> some;
    for (int k = 0; k < 500; ++k, ++i) {
      some.push_back(event::json("t", std::to_string(i), {.aggregate = {"a", std::to_string(i)}}));
    }
    memory::transaction tx{*store};
    w.write_all(tx, some);
    tx.commit();
    if (!cluster.is_mock() || i % 5000 != 0) continue;
    cluster.fail_produce(
        i % 10000 == 0 ? RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS : RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION, 3);
    if (i % 20000 == 0) cluster.fail_produce(RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, 1);
  }
  EXPECT_TRUE(eventually([&] { return store->inspect().counts().done == events; }))
      << store->inspect().counts().done << " done, " << store->inspect().counts().dead << " dead; "
      << to->health().reason;
  EXPECT_TRUE(box.stop(60s));
  EXPECT_EQ(box.counters().dead, 0U);
  auto const all = cluster.payloads(topic);
  EXPECT_EQ(all.size(), static_cast<std::size_t>(events)) << "I1: none is lost";
  std::uint64_t twice = 0;
  for (auto const& [payload, n] : all) twice += static_cast<std::uint64_t>(n - 1);
  EXPECT_LE(twice, to->health().unsure) << "only where it was reported";
}

// What the topic has of each key: all of it, in one partition, in order.
class KafkaOrder : public Kafka {
 protected:
  static constexpr int events = 300, aggregates = 5;

  // Counts the answers that are awaited.
  class counted final : public detail::answer_slot {
   public:
    counted(completion to, std::atomic<int>& awaited) : to_{std::move(to)}, awaited_{awaited} {}
    void answer(result&& r, std::optional<std::string>&& /*progress*/) noexcept override {
      --awaited_;
      to_(std::move(r));
    }
    void dropped() noexcept override { --awaited_; }
    void remember(std::string&& /*progress*/) noexcept override {}

   private:
    completion to_;
    std::atomic<int>& awaited_;
  };

  // The client says in its log which errors it got.
  kafka::options watched() {
    auto o = options();
    o.properties["debug"] = "msg";
    o.log = [this](log_line const& line) {
      std::lock_guard const lock{seen_mutex_};
      for (auto& [code, times] : seen_) {
        if (line.message.find(rd_kafka_err2str(code)) != std::string_view::npos) ++times;
      }
    };
    return o;
  }
  // Each injected error was an answer to a request; else the order was kept beside none.
  void expect_errors(bool for_good) {
    if (!cluster.is_mock()) return;
    std::lock_guard const lock{seen_mutex_};
    EXPECT_GT(seen_[RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION], 0);
    EXPECT_GT(seen_[for_good ? RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED : RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS],
              0);
  }

  void write_beside_errors(node& box, std::shared_ptr<store> const& store, bool for_good) {
    for (int i = 0; i < events; ++i) {
      memory::transaction tx{*store};
      box.writer().write(tx, "t", std::to_string(i), {.aggregate = {"a", std::to_string(i % aggregates)}});
      tx.commit();
      if (!cluster.is_mock() || i % 100 != 50) continue;
      cluster.fail_produce(RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION, 2);
      cluster.fail_produce(
          for_good ? RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED : RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS, 1);
    }
  }
  void expect_order() {
    std::map<std::string, std::vector<int>> by_key;
    std::map<std::string, int> partition;
    for (auto const& m : cluster.messages(topic)) {
      by_key[m.key].push_back(std::stoi(m.payload));
      EXPECT_EQ(partition.try_emplace(m.key, m.partition).first->second, m.partition) << m.key;
    }
    EXPECT_EQ(by_key.size(), static_cast<std::size_t>(aggregates));
    for (auto const& [key, all] : by_key) {
      EXPECT_EQ(all.size(), static_cast<std::size_t>(events / aggregates)) << key;
      EXPECT_TRUE(std::ranges::is_sorted(all)) << "I5: " << key;
    }
  }

 private:
  std::mutex seen_mutex_;
  std::map<rd_kafka_resp_err_t, int> seen_ = {{RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION, 0},
                                              {RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, 0},
                                              {RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS, 0}};
};

// One event at a time, and none before the one ahead of it is stored: errors change nothing about that.
TEST_F(KafkaOrder, I5_AnOrderedNodeKeepsTheOrderOfEachAggregate) {
  if (cluster.is_mock()) cluster.topic(topic, 8);
  auto producer = watched();
  producer.properties["linger.ms"] = "0";
  auto const to = kafka::open(producer);
  auto const store = memory::open();
  ordered_options o{.store = store, .log = nullptr};
  o.listeners.on("t", publish(to, {.topic = topic}));
  auto box = ordered(std::move(o));
  box.start();
  write_beside_errors(box, store, /*for_good=*/true);
  EXPECT_TRUE(eventually([&] { return store->inspect().counts().done == events; })) << to->health().reason;
  box.stop();
  expect_order();
  expect_errors(/*for_good=*/true);
  EXPECT_GE(box.counters().deferred, cluster.is_mock() ? 1U : 0U);
}

// One event of a key at a time, and keys beside each other.
TEST_F(KafkaOrder, I5_AKeyedNodeKeepsTheOrderOfEachKey) {
  if (cluster.is_mock()) cluster.topic(topic, 8);
  auto const to = kafka::open(watched());
  auto const store = memory::open();
  keyed_options o{.store = store, .log = nullptr};
  o.listeners.on("t", publish(to, {.topic = topic}));
  auto box = keyed(std::move(o));
  box.start();
  write_beside_errors(box, store, /*for_good=*/true);
  EXPECT_TRUE(eventually([&] { return store->inspect().counts().done == events; })) << to->health().reason;
  box.stop();
  expect_order();
  expect_errors(/*for_good=*/true);
  EXPECT_GE(box.counters().deferred, cluster.is_mock() ? 1U : 0U);
}

// The producer has many events of a key under way, and tries them again in order.
TEST_F(KafkaOrder, I5_AProducerThatKeepsOrderHasManyEventsOfAKeyUnderWay) {
  if (cluster.is_mock()) cluster.topic(topic, 8);
  auto producer = watched();
  producer.message_timeout = 0ms;
  producer.properties["linger.ms"] = "20";
  // A broker refuses a batch that follows one which it has not stored; the mock stores it.
  if (cluster.is_mock()) producer.properties["max.in.flight"] = "1";
  auto const to = kafka::open(producer);
  auto const store = memory::open();
  keyed_options o{.store = store, .log = nullptr};
  std::atomic<int> under_way = 0, most = 0;
  auto const send = publish(to, {.topic = topic});
  o.listeners.on("t",
                 [&](delivery const& d, completion answer) {
                   int const now = ++under_way;
                   for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
                   }
                   send(d, completion{std::make_unique<counted>(std::move(answer), under_way)});
                 },
                 {.timeout = 0ms, .keeps_order = true});
  auto box = keyed(std::move(o));
  box.start();
  write_beside_errors(box, store, /*for_good=*/false);
  EXPECT_TRUE(eventually([&] { return store->inspect().counts().done == events; })) << to->health().reason;
  box.stop();
  expect_order();
  expect_errors(/*for_good=*/false);
  EXPECT_GT(most, aggregates) << "more than one of a key at a time";
}

// The broker's client refuses a message for good while others of its key are under way.
TEST_F(KafkaOrder, I5_AMessageThatFailsForGoodParksItsKeyAndTheRestFollowsInOrder) {
  if (cluster.is_mock()) cluster.topic(topic, 1);
  auto producer = options();
  producer.message_timeout = 0ms;
  producer.properties["message.max.bytes"] = "1000";
  producer.properties["linger.ms"] = "20";
  auto const to = kafka::open(producer);
  auto const store = memory::open();
  keyed_options o{.store = store, .log = nullptr};
  o.listeners.on("t", publish(to, {.topic = topic}), {.keeps_order = true});
  auto box = keyed(std::move(o));
  box.start();
  constexpr int large = 30, all = 60;
  memory::transaction tx{*store};
  std::vector<event> some;
  for (int i = 0; i < all; ++i) {
    auto const payload = i == large ? "\"" + std::string(2000, 'x') + "\"" : std::to_string(i);
    some.push_back(event::json("t", payload, {.id = "e" + std::to_string(i), .ordering_key = "k"}));
  }
  box.writer().write_all(tx, some);
  tx.commit();
  auto& table = store->backend();
  ASSERT_TRUE(eventually([&] { return table.parked_keys(10).size() == 1; })) << to->health().reason;
  EXPECT_EQ(table.parked_keys(10)[0].id, "e" + std::to_string(large));
  for (int i = 0; i < large; ++i) {
    auto const id = "e" + std::to_string(i);
    EXPECT_TRUE(eventually([&] { return store->inspect().find(id)->status == event_status::delivered; })) << id;
  }
  EXPECT_TRUE(box.dead_events().discard("e" + std::to_string(large)));
  EXPECT_TRUE(eventually([&] { return store->inspect().counts().done == all - 1; })) << to->health().reason;
  box.stop();
  std::map<int, std::size_t> first, last;
  auto const found = cluster.messages(topic);
  for (std::size_t at = 0; at < found.size(); ++at) {
    first.emplace(std::stoi(found[at].payload), at);
    last[std::stoi(found[at].payload)] = at;
  }
  ASSERT_EQ(last.size(), static_cast<std::size_t>(all - 1)) << "I1";
  for (int i = 1; i < large; ++i) EXPECT_LT(first[i - 1], first[i]) << i;
  // What was under way behind it may be there twice. The last word of the key is the latest one.
  for (int i = 1; i < all; ++i) {
    if (i == large || i - 1 == large) continue;
    EXPECT_LT(last[i - 1], last[i]) << i;
  }
}

}  // namespace
}  // namespace outbox

// How an event becomes a message, and what a sink's report means to a node.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <deque>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <outbox/memory.hpp>
#include <outbox/outbox.hpp>
#include <outbox/sink.hpp>
#include <outbox/sinks/json_lines.hpp>
#include <outbox/testing.hpp>

#include "support/temporary_directory.hpp"
#include "support/waiting.hpp"

namespace outbox {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using namespace std::chrono_literals;

constexpr std::string_view trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

event an_event(event_options o = {.id = "e1", .aggregate = {"order", "42"}}) {
  o.occurred_at = instant{std::chrono::sys_days{std::chrono::year{2030} / 1 / 31} + 3661s + 5us};
  return event::json("order.placed", R"({"n":1})", std::move(o));
}

std::string header(message const& m, std::string_view name) {
  for (auto const& [n, v] : m.headers) {
    if (n == name) return v;
  }
  return "(none)";
}

error refused(publish_options o) {
  try {
    envelope const e{std::move(o)};
  } catch (error const& e) {
    return e;
  }
  return error{errc::lifecycle, "it was taken"};
}

TEST(Envelope, DefaultsAreTheTypeAndTheAggregate) {
  auto const m = envelope{}.make(an_event());
  EXPECT_EQ(m.topic, "order.placed");
  EXPECT_EQ(m.key, "42");
  EXPECT_FALSE(m.partition);
  EXPECT_THAT(m.headers,
              ElementsAre(Pair("event_id", "e1"), Pair("event_type", "order.placed"), Pair("aggregate_type", "order"),
                          Pair("aggregate_id", "42"), Pair("occurred_at", "2030-01-31T01:01:01.000005Z"),
                          Pair("content_type", "application/json")));
}

TEST(Envelope, AnOrderingKeyComesBeforeTheAggregate) {
  EXPECT_EQ(envelope{}.make(an_event({.id = "e", .aggregate = {"order", "42"}, .ordering_key = "k"})).key, "k");
  EXPECT_EQ(envelope{}.make(an_event({.id = "e"})).key, std::nullopt) << "and without both there is none";
}

TEST(Envelope, TemplatesTakeFieldsOfTheEvent) {
  envelope const e{{.topic = "{tenant}.{aggregate_type}-{{x}}",
                    .key = "{type}/{id}/{aggregate_id}/{ordering_key}",
                    .partition = "{header.shard}",
                    .headers = {{"route", "to {header.shard}{header.none}"}}}};
  auto const m = e.make(an_event(
      {.id = "e", .aggregate = {"order", "42"}, .tenant = "acme", .headers = {{"shard", "7"}}, .ordering_key = "k"}));
  EXPECT_EQ(m.topic, "acme.order-{x}");
  EXPECT_EQ(m.key, "order.placed/e/42/k");
  EXPECT_EQ(m.partition, 7);
  EXPECT_EQ(header(m, "route"), "to 7");
  EXPECT_EQ(header(m, "shard"), "7");
  EXPECT_EQ(header(m, "tenant"), "acme");
}

TEST(Envelope, ARoutePublishesToTheTopicOfEachEvent) {
  envelope const e{{.topic = "{header.topic}"}};
  for (std::string const topic : {"shop.orders", "shop.returns"}) {
    auto const m = e.make(an_event({.id = "e", .headers = make_headers({.topic = topic, .schema_version = 2})}));
    EXPECT_EQ(m.topic, topic);
    EXPECT_EQ(header(m, "topic"), topic) << "receivers see it too";
    EXPECT_EQ(header(m, "schema_version"), "2");
  }
  EXPECT_THROW(static_cast<void>(e.make(an_event())), permanent_failure) << "an event without one goes nowhere";
}

TEST(Envelope, WrongTemplatesAreRefusedByName) {
  struct one {
    publish_options options;
    std::string field, problem;
  };
  std::vector<one> const all = {
      {{.topic = ""}, "topic", "must not be empty"},
      {{.topic = "{aggregat_type}"}, "topic", "unknown field '{aggregat_type}'"},
      {{.topic = "a{id"}, "topic", "'{' without a '}'"},
      {{.topic = "a}"}, "topic", "closes nothing"},
      {{.key = "{}"}, "key", "unknown field '{}'"},
      {{.key = "{header.}"}, "key", "unknown field"},
      {{.partition = "{x}"}, "partition", "unknown field"},
      {{.headers = {{"a", "{x}"}}}, "headers.a", "unknown field"},
      {{.headers = {{"", "x"}}}, "headers", "empty name"},
      {{.headers = {{"event_id", "x"}}}, "headers", "'event_id'"},
      {{.cloud_events = ""}, "cloud_events", "source"},
  };
  for (auto const& w : all) {
    auto const e = refused(w.options);
    EXPECT_EQ(e.code(), errc::invalid_option) << w.problem;
    EXPECT_EQ(e.field(), w.field) << w.problem;
    EXPECT_THAT(e.what(), HasSubstr(w.problem));
  }
}

TEST(Envelope, AnEventThatMakesNoMessageIsDead) {
  EXPECT_THROW(static_cast<void>(envelope{{.topic = "{tenant}"}}.make(an_event())), permanent_failure);
  for (auto const* text : {"", "x", "-1", "1x", "99999999999"}) {
    event const e = an_event({.id = "e", .headers = {{"p", text}}});
    EXPECT_THROW(static_cast<void>(envelope{{.partition = "{header.p}"}}.make(e)), permanent_failure) << text;
  }
}

TEST(Envelope, OwnHeadersFollowOursAndDoNotReplaceThem) {
  auto const m = envelope{{.headers = {{"b", "route"}}}}.make(
      an_event({.id = "e",
                .headers = {{"b", "event"},
                            {"event_id", "forged"},
                            {"traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}}));
  EXPECT_EQ(header(m, "event_id"), "e");
  EXPECT_EQ(header(m, "traceparent"), trace);
  EXPECT_EQ(header(m, "b"), "route");
  EXPECT_EQ(std::ranges::count(m.headers, std::string{"b"}, [](auto const& h) { return h.first; }), 1);
}

TEST(Envelope, TheContextOfATraceHasItsNamesInEveryForm) {
  event const e = an_event({.id = "e", .headers = {{"traceparent", std::string{trace}}, {"tracestate", "a=1,b=2"}}});
  for (auto const& o : {publish_options{}, publish_options{.cloud_events = "/shop"}}) {
    auto const m = envelope{o}.make(e);
    EXPECT_EQ(header(m, "traceparent"), trace);
    EXPECT_EQ(header(m, "tracestate"), "a=1,b=2");
  }
  auto const m = envelope{{.headers = {{"traceparent", "{header.traceparent}!"}}}}.make(e);
  EXPECT_EQ(header(m, "traceparent"), std::string{trace} + "!") << "a route may say otherwise";
}

// Another program wrote the row, so nothing has checked its headers.
TEST(Envelope, AContextThatIsNotValidStaysBehindAndTheEventGoesOn) {
  auto const sent = [](std::string parent, std::string state) {
    event_record r;
    r.id = "e";
    r.type = "t";
    r.payload = "1";
    r.headers = {{"traceparent", std::move(parent)}, {"tracestate", std::move(state)}};
    auto const m = envelope{}.make(event::restore(r));
    return std::pair{header(m, "traceparent"), header(m, "tracestate")};
  };
  EXPECT_EQ(sent("00-1\r\nevil: 1", "a=1"), (std::pair<std::string, std::string>{"(none)", "(none)"}));
  EXPECT_EQ(sent(std::string{trace}, "a=1\r\nevil: 1"), (std::pair<std::string, std::string>{trace, "(none)"}));
  EXPECT_EQ(sent("01" + std::string{trace.substr(2)} + "-\r\nevil: 1", "a=1"),
            (std::pair<std::string, std::string>{trace, "a=1"}))
      << "what a later version adds is not understood, so it is not sent";
}

TEST(Envelope, CloudEventsInBinaryForm) {
  auto const m = envelope{{.cloud_events = "/shop"}}.make(
      an_event({.id = "e", .aggregate = {"order", "42"}, .tenant = "acme", .headers = {{"ce_id", "forged"}}}));
  EXPECT_THAT(m.headers, ElementsAre(Pair("ce_specversion", "1.0"), Pair("ce_id", "e"), Pair("ce_source", "/shop"),
                                     Pair("ce_type", "order.placed"), Pair("ce_subject", "42"),
                                     Pair("ce_time", "2030-01-31T01:01:01.000005Z"), Pair("ce_aggregatetype", "order"),
                                     Pair("ce_tenant", "acme"), Pair("content-type", "application/json")));
}

// A sink that keeps what it is given, and reports what the test says.
class held_sink final : public sink {
 public:
  struct one {
    message m;
    publish_report report;
  };
  std::string_view name() const noexcept override { return "held"; }
  void publish(message m, publish_report r, steady_time) noexcept override {
    std::lock_guard const lock{mutex};
    all.push_back({std::move(m), std::move(r)});
  }
  bool flush(steady_time) noexcept override { return true; }
  sink_health health() const override { return {}; }
  std::chrono::milliseconds patience() const noexcept override {
    return endless ? std::chrono::milliseconds::max() : 1s;
  }
  bool keeps_order() const noexcept override { return endless; }

  bool wait_for(std::size_t n) {
    return eventually([&] {
      std::lock_guard const lock{mutex};
      return all.size() >= n;
    });
  }
  void report(std::size_t i, published p) {
    std::lock_guard const lock{mutex};
    all[i].report(std::move(p));
  }
  std::vector<std::string> ids() {
    std::lock_guard const lock{mutex};
    std::vector<std::string> found;
    for (auto const& o : all) found.push_back(o.m.event.id());
    return found;
  }
  bool endless = false;  ///< As a producer that never gives a message up.
  std::mutex mutex;
  std::deque<one> all;
};

class Publisher : public ::testing::Test {
 protected:
  Publisher() {
    multi_node_options o{.store = store, .log = [this](log_line const& line) { said.add(line.text()); }};
    o.workers = 1;
    o.listeners.on_any(publish(to));
    box.emplace(multi_node(std::move(o)));
    box->start();
  }
  void write(std::string const& id, std::string const& type = "t") {
    memory::transaction tx{*store};
    box->writer().write(tx, type, "1", {.id = id});
    tx.commit();
  }
  event_status status(std::string const& id) { return store->inspect().find(id)->status; }
  bool becomes(std::string const& id, event_status s) {
    return eventually([&] { return status(id) == s; });
  }

  std::shared_ptr<held_sink> to = std::make_shared<held_sink>();
  std::shared_ptr<outbox::store> store = memory::open();
  tally said;
  std::optional<node> box;
};

TEST_F(Publisher, OneWorkerKeepsManyMessagesUnderWay) {
  for (int i = 0; i < 200; ++i) write("e" + std::to_string(i));
  ASSERT_TRUE(to->wait_for(200)) << "none has been reported";
  EXPECT_EQ(store->inspect().counts().done, 0U);
  for (std::size_t i = 0; i < 200; ++i) to->report(i, {});
  EXPECT_TRUE(eventually([&] { return store->inspect().counts().done == 200; }));
}

TEST_F(Publisher, AReportDecidesWhatBecomesOfTheEvent) {
  for (auto const* id : {"stored", "rejected", "unsure", "failed"}) write(id, id);
  ASSERT_TRUE(to->wait_for(4));
  using how = published::how;
  std::map<std::string, published> const reports = {{"stored", {how::stored, ""}},
                                                    {"rejected", {how::rejected, "too large"}},
                                                    {"unsure", {how::unsure, "cut off"}},
                                                    {"failed", {how::failed, "no"}}};
  for (auto& one : to->all) one.report(reports.at(one.m.event.id()));
  EXPECT_TRUE(becomes("stored", event_status::delivered));
  EXPECT_TRUE(becomes("rejected", event_status::dead));
  EXPECT_EQ(store->inspect().find("rejected")->last_error, "too large");
  EXPECT_TRUE(becomes("unsure", event_status::retry));
  EXPECT_EQ(store->inspect().find("unsure")->attempts, 1);
  EXPECT_TRUE(becomes("failed", event_status::retry));
}

TEST_F(Publisher, AReportThatIsDroppedMeansUnsure) {
  write("a");
  ASSERT_TRUE(to->wait_for(1));
  to->all.clear();
  EXPECT_TRUE(becomes("a", event_status::retry));
}

TEST_F(Publisher, AnOutageIsNotCountedAndHoldsTheRouteOnly) {
  write("a", "away");
  ASSERT_TRUE(to->wait_for(1));
  to->report(0, {published::how::unavailable, "no such topic"});
  ASSERT_TRUE(eventually([&] { return store->inspect().find("a")->last_error == "held: no such topic"; }));
  write("b", "away");
  write("c", "here");
  ASSERT_TRUE(to->wait_for(2));
  EXPECT_EQ(to->all[1].m.event.id(), "c") << "the other type goes on";
  EXPECT_EQ(store->inspect().find("a")->attempts, 0);
  EXPECT_EQ(store->inspect().find("b")->last_error, "") << "its row is not touched";
  EXPECT_TRUE(std::ranges::any_of(said.ids(), [](auto const& l) { return l.find("'away'") != std::string::npos; }));
  ASSERT_TRUE(to->wait_for(4)) << "both come back when the hold is over";
}

// The receiver says how long it wants to be left alone, so the wait is neither counted nor doubled.
TEST_F(Publisher, ADeferralHoldsTheRouteForAsLongAsTheSinkSays) {
  write("a", "throttled");
  ASSERT_TRUE(to->wait_for(1));
  to->report(0, {published::how::deferred, "HTTP 429", 1h});
  ASSERT_TRUE(eventually([&] { return store->inspect().find("a")->last_error == "held: HTTP 429"; }));
  auto const row = *store->inspect().find("a");
  EXPECT_EQ(row.status, event_status::created);
  EXPECT_EQ(row.attempts, 0);
  EXPECT_GT(row.available_at, std::chrono::system_clock::now() + 30min);
  write("b", "throttled");
  write("c", "here");
  ASSERT_TRUE(to->wait_for(2));
  EXPECT_EQ(to->all[1].m.event.id(), "c") << "b is of the kind that waits";
  EXPECT_EQ(store->inspect().find("b")->last_error, "") << "its row is not touched";
  to->report(1, {});
}

class KeyedPublisher : public ::testing::Test {
 protected:
  void start(route_options route, std::chrono::milliseconds limit = 0ms) {
    start(std::move(route), limit, publish(to));
  }
  template <class F>
  void start(route_options route, std::chrono::milliseconds limit, F listener) {
    keyed_options o{.store = store, .log = nullptr};
    o.workers = 1;
    o.listener_timeout = limit;
    o.listeners.on_any(std::move(listener), std::move(route));
    box.emplace(keyed(std::move(o)));
    box->start();
  }
  // In one transaction.
  void write(std::vector<std::string> const& ids, std::string const& key) {
    memory::transaction tx{*store};
    for (auto const& id : ids) box->writer().write(tx, "t", "1", {.id = id, .ordering_key = key});
    tx.commit();
  }

  std::shared_ptr<held_sink> to = [] {
    auto s = std::make_shared<held_sink>();
    s->endless = true;
    return s;
  }();
  std::shared_ptr<outbox::store> store = memory::open();
  std::optional<node> box;
};

TEST_F(KeyedPublisher, ASinkThatKeepsOrderGetsSeveralEventsOfAKeyInOrder) {
  start({.keeps_order = true});
  std::vector<std::string> ids;
  for (int i = 0; i < 20; ++i) ids.push_back("e" + std::to_string(i));
  write(ids, "k");
  ASSERT_TRUE(to->wait_for(20)) << "none has been reported";
  EXPECT_EQ(to->ids(), ids);
  for (std::size_t i = 20; i-- > 0;) to->report(i, {});
  EXPECT_TRUE(eventually([&] { return store->inspect().counts().done == 20; }));
}

TEST_F(KeyedPublisher, OtherwiseTheNextEventOfAKeyWaitsForTheReport) {
  start({});
  write({"a", "b"}, "k");
  write({"x"}, "other");
  ASSERT_TRUE(to->wait_for(2));
  EXPECT_THAT(to->ids(), ::testing::UnorderedElementsAre("a", "x"));
  to->report(to->ids()[0] == "a" ? 0 : 1, {});
  ASSERT_TRUE(to->wait_for(3));
  EXPECT_EQ(to->ids()[2], "b");
}

TEST_F(KeyedPublisher, ASinkThatNeverGivesUpMakesItsRouteOneWithoutATimeout) {
  start({.keeps_order = true}, 5min);
  write({"a"}, "k");
  ASSERT_TRUE(to->wait_for(1)) << "with the node's limit it would be deferred";
  to->report(0, {});
  EXPECT_TRUE(eventually([&] { return store->inspect().counts().done == 1; }));
}

TEST_F(KeyedPublisher, InsideAnotherListenerItDefersWhatHasATimeout) {
  start({.timeout = 1h}, 0ms, [p = publish(to)](delivery const& d, completion answer) { p(d, std::move(answer)); });
  write({"a"}, "k");
  ASSERT_TRUE(eventually([&] { return !store->inspect().find("a")->last_error.empty(); }));
  EXPECT_THAT(store->inspect().find("a")->last_error, HasSubstr("may have no timeout"));
  EXPECT_EQ(store->inspect().find("a")->attempts, 0) << "it is not counted";
}

TEST(PublisherOptions, ARouteKeepsOrderOnlyIfItsSinkAndItsMessagesDo) {
  auto const refused = [](bool endless, publish_options o, route_options route) -> std::string {
    auto const to = std::make_shared<held_sink>();
    to->endless = endless;
    try {
      listeners{}.on("t", publish(to, std::move(o)), route);
      listeners{}.on("aggregate", "t", publish(to), route);
      listeners{}.on_any(publish(to), route);
    } catch (error const& e) {
      EXPECT_EQ(e.code(), errc::invalid_option);
      return std::string{e.field()} + ": " + e.what();
    }
    return "";
  };
  EXPECT_EQ(refused(true, {}, {.keeps_order = true}), "");
  EXPECT_EQ(refused(false, {}, {}), "");
  EXPECT_EQ(refused(true, {.key = "{tenant}", .partition = "1"}, {}), "") << "no order was asked for";
  EXPECT_THAT(refused(false, {}, {.keeps_order = true}), HasSubstr("the sink 'held' keeps no order"));
  EXPECT_THAT(refused(true, {.key = "{tenant}"}, {.keeps_order = true}), ::testing::StartsWith("key: "));
  EXPECT_THAT(refused(true, {.partition = "{tenant}"}, {.keeps_order = true}), ::testing::StartsWith("partition: "));
  EXPECT_THAT(refused(true, {}, {.timeout = 1h}), ::testing::StartsWith("timeout: "));
  EXPECT_EQ(refused(true, {}, {.timeout = 0ms}), "");
}

TEST(PublisherOptions, ANullSinkIsRefused) { EXPECT_THROW(static_cast<void>(publish(nullptr)), error); }

// JSON lines.

TEST(JsonLine, HasTheFieldsOfTheEventAndItsPayload) {
  auto const m = envelope{{.topic = "orders"}}.make(
      an_event({.id = "e", .aggregate = {"order", "42"}, .tenant = "a", .headers = {{"h", "\"quoted\"\t"}}}));
  auto const line = json_lines::line_of(m);
  EXPECT_EQ(line.find('\n'), line.size() - 1) << "one line";
  auto const j = nlohmann::json::parse(line);
  EXPECT_EQ(j.at("id"), "e");
  EXPECT_EQ(j.at("topic"), "orders");
  EXPECT_EQ(j.at("key"), "42");
  EXPECT_EQ(j.at("occurred_at"), "2030-01-31T01:01:01.000005Z");
  EXPECT_EQ(j.at("payload").at("n"), 1);
  EXPECT_EQ(j.at("headers").size(), 1U) << "ours are fields of the line";
}

TEST(JsonLine, HasTheContextOfTheTrace) {
  event const e = an_event({.id = "e", .headers = {{"traceparent", std::string{trace}}, {"tracestate", "a=\\"}}});
  auto const j = nlohmann::json::parse(json_lines::line_of(envelope{{.topic = "orders"}}.make(e)));
  EXPECT_EQ(j.at("headers").at("traceparent"), trace);
  EXPECT_EQ(j.at("headers").at("tracestate"), "a=\\");
}

TEST(JsonLine, EveryPayloadFitsIntoALine) {
  auto const of = [](event const& e) { return nlohmann::json::parse(json_lines::line_of(envelope{}.make(e))); };
  EXPECT_EQ(of(event::json("t", "{\n \"a\":\r\n 1}"))["payload"]["a"], 1);
  EXPECT_EQ(of(event::bytes("t", std::string{"\0\xff\n", 3}, "x/y"))["payload_base64"], "AP8K");
  EXPECT_EQ(of(event::bytes("t", std::string{"ab"}, "x/y"))["payload_base64"], "YWI=");
  EXPECT_EQ(of(event::bytes("t", std::string{"a"}, "x/y"))["payload_base64"], "YQ==");
  event_record foreign;
  foreign.id = "f";
  foreign.type = "t";
  foreign.payload = "not JSON\n\xff";
  EXPECT_EQ(of(event::restore(foreign)).count("payload_text"), 1U);
}

// Counts what is stored by ones, and everything else by hundreds.
class stored_counter final : public detail::report_slot {
 public:
  explicit stored_counter(std::atomic<int>& n) : n_{n} {}
  void report(published&& p) noexcept override { n_ += p.what == published::how::stored ? 1 : 100; }

 private:
  std::atomic<int>& n_;
};

TEST(JsonLines, ALineIsInTheFileBeforeItsReport) {
  temporary_directory dir;
  auto const path = dir / "events.jsonl";
  std::ofstream{path} << "{\"half\":";  // as a crash leaves it
  {
    auto const to = json_lines::open({.path = path});
    std::atomic<int> stored = 0;
    for (int i = 0; i < 50; ++i) {
      to->publish(envelope{}.make(an_event({.id = "e" + std::to_string(i)})),
                  publish_report{std::make_unique<stored_counter>(stored)}, steady_time::max());
    }
    EXPECT_TRUE(to->flush(std::chrono::steady_clock::now() + 30s));
    EXPECT_EQ(stored, 50);
    EXPECT_EQ(to->health().stored, 50U);
  }
  std::ifstream in{path};
  std::string line;
  std::getline(in, line);
  EXPECT_EQ(line, "{\"half\":") << "what was there stays, and ends its line";
  int lines = 0;
  while (std::getline(in, line)) lines += nlohmann::json::accept(line) ? 1 : 0;
  EXPECT_EQ(lines, 50);
}

// The limit of a file's size stands for a disk that is full in the middle of a line.
TEST(JsonLines, ALineThatDoesNotFitIsTakenBack) {
  temporary_directory dir;
  auto const path = dir / "events.jsonl";
  auto const to = json_lines::open({.path = path});
  std::atomic<int> stored = 0;
  auto const send = [&](std::string const& id) {
    to->publish(envelope{}.make(an_event({.id = id})), publish_report{std::make_unique<stored_counter>(stored)},
                steady_time::max());
    EXPECT_TRUE(to->flush(std::chrono::steady_clock::now() + 30s));
  };
  send("first");
  auto const size = std::filesystem::file_size(path);
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  auto less = limit;
  less.rlim_cur = size + 10;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &less), 0);
  send("second");
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  EXPECT_EQ(stored, 101);
  EXPECT_EQ(std::filesystem::file_size(path), size) << "no half of a line";
  EXPECT_FALSE(to->health().healthy);
  EXPECT_THAT(to->health().reason, HasSubstr("cannot write"));
  send("third");
  EXPECT_EQ(stored, 102);
  EXPECT_TRUE(to->health().healthy);
}

TEST(JsonLines, AFileThatCannotBeOpenedIsRefused) {
  try {
    static_cast<void>(json_lines::open({.path = "/no/such/directory/file"}));
    FAIL();
  } catch (error const& e) {
    EXPECT_EQ(e.field(), "path");
  }
}

}  // namespace
}  // namespace outbox

// A trace on its way through a node: from the thread that writes to the listener, and on.
#include <outbox/trace.hpp>

#include "stepwise_node.hpp"

namespace outbox {
namespace {

constexpr std::string_view written_parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

trace_context a_context() { return trace_context::parse(written_parent, "shop=7").value(); }

class Trace : public ::testing::Test {
 protected:
  single_node_options options() {
    single_node_options o{.store = store, .listeners = std::move(l), .log = nullptr, .clock = clock};
    o.hook = trace_writes();
    o.interceptors = {trace_deliveries()};
    return o;
  }
  static void write(node& n, outbox::store& s, std::string const& type, event_options o = {}) {
    memory::transaction tx{s};
    n.writer().write(tx, type, "1", std::move(o));
    tx.commit();
  }
  /// What an event has in the table after it was written by a node with this hook.
  headers written(std::shared_ptr<writer_hook> hook, event_options o = {}) {
    auto n = writer_only({.store = store, .hook = std::move(hook), .log = nullptr});
    o.id = "e" + std::to_string(++written_);
    auto const id = o.id;
    write(n, *store, "t", std::move(o));
    return store->inspect().find(id).value().event.headers();
  }

  std::shared_ptr<testing::manual_clock> clock = std::make_shared<testing::manual_clock>();
  std::shared_ptr<outbox::store> store = memory::open({.clock = clock});
  listeners l;

 private:
  int written_ = 0;
};

TEST_F(Trace, AListenerRunsWithTheContextOfTheWrite) {
  std::optional<trace_context> seen, told;
  l.on("t", [&](delivery const& d) {
    seen = current_trace();
    told = trace_of(d);
  });
  auto n = single_node(options());
  n.run_until_idle();
  {
    trace_scope const request{a_context()};
    write(n, *store, "t");
  }
  n.run_until_idle();
  EXPECT_EQ(seen, a_context());
  EXPECT_EQ(told, a_context());
  EXPECT_FALSE(current_trace()) << "and the thread has its own back";
}

TEST_F(Trace, AnEventThatAListenerWritesContinuesTheTrace) {
  std::vector<std::string> spans;
  node* self = nullptr;
  l.on("first", [&](delivery const&) {
    trace_scope const span{current_trace().value().child()};
    spans.emplace_back(current_trace()->span_id());
    write(*self, *store, "second");
  });
  l.on("second", [&](delivery const& d) {
    spans.emplace_back(trace_of(d).value().span_id());
    EXPECT_EQ(trace_of(d)->trace_id(), a_context().trace_id());
    EXPECT_EQ(trace_of(d)->tracestate(), "shop=7");
  });
  auto n = single_node(options());
  self = &n;
  n.run_until_idle();
  {
    trace_scope const request{a_context()};
    write(n, *store, "first");
  }
  n.run_until_idle();
  ASSERT_EQ(spans.size(), 2U);
  EXPECT_EQ(spans[0], spans[1]) << "the span of the first listener is the parent of the second";
  EXPECT_NE(spans[0], a_context().span_id());
}

TEST_F(Trace, AnEventWithoutAContextHasNone) {
  bool called = false;
  l.on("t", [&](delivery const& d) {
    called = true;
    EXPECT_FALSE(current_trace()) << "not even that of the thread";
    EXPECT_FALSE(trace_of(d));
  });
  auto n = single_node(options());
  n.run_until_idle();
  write(n, *store, "t");
  trace_scope const another{a_context()};
  n.run_until_idle();
  EXPECT_TRUE(called);
}

TEST_F(Trace, AFailingListenerLeavesNothingBehind) {
  l.on("t", [&](delivery const&) { throw std::runtime_error{"no"}; });
  auto n = single_node(options());
  n.run_until_idle();
  {
    trace_scope const request{a_context()};
    write(n, *store, "t");
  }
  n.run_until_idle();
  EXPECT_FALSE(current_trace());
}

TEST_F(Trace, TheWorkOfAnAsynchronousListenerMayEndOnAnotherThread) {
  std::optional<completion> answer;
  std::optional<trace_context> during, later;
  l.on("t", [&](delivery const& d, completion c) {
    during = current_trace();
    later = trace_of(d);
    answer = std::move(c);
  });
  auto n = single_node(options());
  n.run_until_idle();
  {
    trace_scope const request{a_context()};
    write(n, *store, "t");
  }
  n.run_until_idle();
  EXPECT_FALSE(current_trace()) << "the function has returned";
  std::thread{[&] {
    trace_scope const goes_on{later};
    EXPECT_EQ(current_trace(), a_context());
    (*answer)(done);
  }}.join();
  n.run_until_idle();
  EXPECT_EQ(during, a_context());
  EXPECT_EQ(n.counters().delivered, 1U);
}

TEST_F(Trace, ABatchAsksForEachEvent) {
  std::vector<std::string> seen;
  l.on_batch("t", [&](std::span<delivery const> all) {
    EXPECT_FALSE(current_trace());
    for (auto const& d : all) seen.emplace_back(trace_of(d).value().span_id());
    return std::vector<result>(all.size(), done);
  });
  auto n = single_node(options());
  n.run_until_idle();
  auto const one = a_context(), two = a_context().child();
  for (auto const& c : {one, two}) {
    trace_scope const request{c};
    write(n, *store, "t");
  }
  n.run_until_idle();
  EXPECT_THAT(seen, ElementsAre(one.span_id(), two.span_id()));
}

TEST_F(Trace, TheHeadersAreThoseOfTheActiveContext) {
  trace_scope const request{a_context()};
  EXPECT_EQ(written(trace_writes()), (headers{{"traceparent", std::string{written_parent}}, {"tracestate", "shop=7"}}));
}

TEST_F(Trace, AnEventKeepsTheContextThatItHas) {
  trace_scope const request{a_context()};
  headers const own{{"traceparent", "anything"}};
  EXPECT_EQ(written(trace_writes(), {.headers = own}), own);
  EXPECT_EQ(written(trace_writes(), {.headers = {{"tracestate", "stray=1"}, {"a", "b"}}}),
            (headers{{"a", "b"}, {"traceparent", std::string{written_parent}}, {"tracestate", "shop=7"}}))
      << "a state without a parent is none";
}

TEST_F(Trace, ABrokenContextNeverHarmsTheWrite) {
  EXPECT_EQ(written(trace_writes()), headers{}) << "none is active";
  EXPECT_EQ(written(trace_writes({.current = [] { return trace_context::parse("00-0-0-0"); }})), headers{});
  EXPECT_EQ(written(trace_writes({.current = []() -> std::optional<trace_context> { throw 42; }})), headers{});
}

TEST_F(Trace, AnEventAtItsLimitIsWrittenWithoutTheContext) {
  trace_scope const request{a_context()};
  headers full;
  for (int i = 0; i < 63; ++i) full["h" + std::to_string(i)] = "v";
  EXPECT_EQ(written(trace_writes(), {.headers = full}), full) << "two more would be 65 headers";
  EXPECT_EQ(
      written(trace_writes({.current = [] { return trace_context::parse(written_parent); }}), {.headers = full}).size(),
      64U)
      << "one more fits";
  headers const large{{"h", std::string((std::size_t{64} << 10U) - 20, 'v')}};
  EXPECT_EQ(written(trace_writes(), {.headers = large}), large);
}

TEST_F(Trace, AnEmptySourceIsRefused) {
  try {
    static_cast<void>(trace_writes({.current = nullptr}));
    FAIL() << "nothing was thrown";
  } catch (error const& e) {
    EXPECT_EQ(e.code(), errc::invalid_option);
    EXPECT_EQ(e.field(), "current");
  }
}

TEST_F(Trace, AnotherHookIsCalledToo) {
  struct adder final : writer_hook {
    std::vector<event> before_write(std::vector<event> events) override {
      events.push_back(event::json("t", "2", {.id = "added"}));
      return events;
    }
    void after_commit(std::span<event const> events) override { committed = events.size(); }
    std::size_t committed = 0;
  };
  auto const next = std::make_shared<adder>();
  trace_scope const request{a_context()};
  written(trace_writes({.next = next}));
  EXPECT_EQ(next->committed, 2U);
  EXPECT_EQ(store->inspect().find("added").value().event.headers().at("traceparent"), written_parent)
      << "what it adds is traced too";
}

TEST_F(Trace, ATracingLibraryIsToldAroundTheListener) {
  std::vector<std::string> calls;
  l.on("t", [&](delivery const&) { calls.emplace_back("listener"); });
  auto o = options();
  o.interceptors = {trace_deliveries([&](delivery const& d, std::optional<trace_context> const& c) {
    calls.push_back("begin " + d.id + " " + std::string{c ? c->span_id() : "none"});
    return std::shared_ptr<void>{nullptr, [&](void*) { calls.emplace_back("end"); }};
  })};
  o.interceptors.push_back(intercept_after([&](delivery const&, result const&) { calls.emplace_back("after"); }));
  auto n = single_node(std::move(o));
  n.run_until_idle();
  trace_scope const request{a_context()};
  write(n, *store, "t", {.id = "e"});
  n.run_until_idle();
  EXPECT_THAT(calls, ElementsAre("begin e b7ad6b7169203331", "listener", "end", "after"));
}

TEST_F(Trace, ATracingLibraryThatThrowsDoesNotStopTheListener) {
  bool called = false;
  l.on("t", [&](delivery const&) { called = true; });
  auto o = options();
  o.interceptors = {trace_deliveries(
      [](delivery const&, std::optional<trace_context> const&) -> std::shared_ptr<void> { throw 42; })};
  auto n = single_node(std::move(o));
  n.run_until_idle();
  write(n, *store, "t");
  n.run_until_idle();
  EXPECT_TRUE(called);
  EXPECT_EQ(n.counters().delivered, 1U);
}

// An interceptor of its own, for what `around` promises.
struct around_recorder final : interceptor {
  around_recorder(std::string n, std::vector<std::string>& to) : name{std::move(n)}, calls{to} {}
  void before(delivery const&) override { calls.push_back(name + " before"); }
  std::shared_ptr<void> around(delivery const&) override {
    calls.push_back(name + " around");
    if (throws) throw permanent_failure{"not today"};
    return {nullptr, [this](void*) { calls.push_back(name + " ends"); }};
  }
  void after(delivery const&, result const&) override { calls.push_back(name + " after"); }

  std::string name;
  std::vector<std::string>& calls;
  bool throws = false;
};

TEST_F(Trace, ScopesOfInterceptorsNest) {
  std::vector<std::string> calls;
  l.on("t", [&](delivery const&) { calls.emplace_back("listener"); });
  auto o = options();
  o.interceptors = {std::make_shared<around_recorder>("a", calls), std::make_shared<around_recorder>("b", calls)};
  auto n = single_node(std::move(o));
  n.run_until_idle();
  write(n, *store, "t");
  n.run_until_idle();
  EXPECT_THAT(calls, ElementsAre("a before", "b before", "a around", "b around", "listener", "b ends", "a ends",
                                 "b after", "a after"));
}

TEST_F(Trace, WhatAScopeThrowsIsTheAnswer) {
  std::vector<std::string> calls;
  l.on("t", [&](delivery const&) { calls.emplace_back("listener"); });
  auto o = options();
  auto const second = std::make_shared<around_recorder>("b", calls);
  second->throws = true;
  o.interceptors = {std::make_shared<around_recorder>("a", calls), second};
  auto n = single_node(std::move(o));
  n.run_until_idle();
  write(n, *store, "t", {.id = "e"});
  n.run_until_idle();
  EXPECT_THAT(calls, ElementsAre("a before", "b before", "a around", "b around", "a ends", "b after", "a after"));
  EXPECT_EQ(store->inspect().find("e").value().last_error, "not today");
  EXPECT_EQ(store->inspect().find("e").value().status, event_status::dead);
}

}  // namespace
}  // namespace outbox

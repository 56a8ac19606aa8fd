#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <outbox/error.hpp>
#include <outbox/memory.hpp>
#include <outbox/node.hpp>

#include "core/node/settings.hpp"

namespace outbox {
namespace {

using namespace std::chrono_literals;

std::string refused_field(std::function<void(single_node_options&)> const& change) {
  single_node_options o{.store = memory::open()};
  change(o);
  try {
    static_cast<void>(single_node(std::move(o)));
  } catch (error const& e) {
    EXPECT_EQ(e.code(), errc::invalid_option);
    return std::string{e.field()};
  }
  return "accepted";
}

TEST(Options, DefaultsAreThoseOfTheSpecification) {
  single_node_options const o;
  EXPECT_EQ(o.workers, 4U);
  EXPECT_EQ(o.queue.hot, 1000U);
  EXPECT_EQ(o.queue.cold, 2000U) << "a thousand that wait, and as many that are not settled yet";
  EXPECT_EQ(o.queue.bytes, 64U << 20);
  EXPECT_EQ(o.retry.max_attempts, 10);
  EXPECT_EQ(o.retry.backoff.base, 200ms);
  EXPECT_EQ(o.retry.backoff.cap, 60s);
  EXPECT_EQ(o.poll.every, 0s) << "what the store advises";
  EXPECT_EQ(store_capabilities{}.poll_every, 5s);
  EXPECT_EQ(o.poll.batch, 50U);
  EXPECT_EQ(o.poll.max_batch, 1000U);
  EXPECT_EQ(o.poll.skip_recent, 0ms);
  EXPECT_EQ(o.stop_timeout, 5s);
  EXPECT_EQ(o.lease.duration, 30s);
  EXPECT_EQ(o.lease.max_crashes, 5);
  EXPECT_EQ(o.listener_timeout, 5min);
  EXPECT_EQ(o.limits.payload_bytes, 1U << 20);
  EXPECT_TRUE(o.hot_path);
  EXPECT_FALSE(o.purge);
  EXPECT_EQ(purge_options{}.keep, 24h * 7);
  EXPECT_EQ(purge_options{}.batch, 500U);
  EXPECT_EQ(purge_options{}.every, 1h);
}

TEST(Options, EveryModeHasTheDefaultsOfItsRowInTheSpecification) {
  auto const single = core::settings_of({.store = memory::open()}, node_mode::single_node);
  EXPECT_TRUE(single.hot_path);
  EXPECT_TRUE(single.exclusive);
  EXPECT_EQ(single.workers, 4U);
  EXPECT_EQ(single.retry.max_attempts, 10);
  auto const multi = core::settings_of({.store = memory::open()}, node_mode::multi_node);
  EXPECT_TRUE(multi.hot_path);
  EXPECT_FALSE(multi.exclusive);
  EXPECT_EQ(multi.workers, 4U);
  EXPECT_EQ(multi.retry.max_attempts, 10);
  auto const ordered = core::settings_of(ordered_options{.store = memory::open()});
  EXPECT_FALSE(ordered.hot_path);
  EXPECT_TRUE(ordered.exclusive);
  EXPECT_EQ(ordered.workers, 1U);
  EXPECT_EQ(ordered.retry.max_attempts, 1);
  auto const keyed = core::settings_of(keyed_options{.store = memory::open()});
  EXPECT_EQ(keyed.mode, node_mode::keyed);
  EXPECT_TRUE(keyed.keyed);
  EXPECT_FALSE(keyed.in_order);
  EXPECT_FALSE(keyed.exclusive);
  EXPECT_TRUE(keyed.hot_path);
  EXPECT_EQ(keyed.workers, 4U);
  EXPECT_EQ(keyed.retry.max_attempts, 10);
  EXPECT_EQ(keyed.on_dead, on_dead::park);
  EXPECT_EQ(keyed.unroutable, unroutable::defer) << "a new type of event must not park its key in a rolling deployment";
  EXPECT_EQ(age_purge_options{}.keep, 7 * 24h);
  EXPECT_FALSE(purge_options{}.dead) << "dead rows stay until an operator looks at them";
  EXPECT_EQ(age_purge_options{}.batch, 500U);
  EXPECT_EQ(age_purge_options{}.every, 1h);
}

TEST(Metrics, NamesHaveThePrefix) {
  EXPECT_EQ(full_name(counter::hot_enqueued), "outbox.enqueue.hot");
  EXPECT_EQ(full_name(counter::dead, "orders.outbox"), "orders.outbox.dispatch.dead");
  EXPECT_EQ(full_name(gauge::oldest_lag_ms, "outbox", '_'), "outbox_lag_oldest_ms");
  EXPECT_EQ(full_name(gauge::held, ""), "held");
  for (auto const c : all_counters()) EXPECT_NE(name(c), "unknown");
  for (auto const g : all_gauges()) EXPECT_NE(name(g), "unknown");
}

TEST(Options, AnInvalidValueNamesItsField) {
  using o = single_node_options&;
  EXPECT_EQ(refused_field([](o) {}), "accepted");
  EXPECT_EQ(refused_field([](o x) { x.store = nullptr; }), "store");
  EXPECT_EQ(refused_field([](o x) { x.workers = 0; }), "workers");
  EXPECT_EQ(refused_field([](o x) { x.workers = 5000; }), "workers");
  EXPECT_EQ(refused_field([](o x) { x.poll.every = -1ms; }), "poll.every");
  EXPECT_EQ(refused_field([](o x) { x.poll.batch = 0; }), "poll.batch");
  EXPECT_EQ(refused_field([](o x) { x.poll.max_batch = 10'001; }), "poll.max_batch");
  EXPECT_EQ(refused_field([](o x) { x.poll.skip_recent = -1ms; }), "poll.skip_recent");
  EXPECT_EQ(refused_field([](o x) { x.retry.max_attempts = 0; }), "retry.max_attempts");
  EXPECT_EQ(refused_field([](o x) { x.retry.max_attempts = -3; }), "retry.max_attempts");
  EXPECT_EQ(refused_field([](o x) { x.retry.backoff.base = 0ms; }), "retry.backoff.base");
  EXPECT_EQ(refused_field([](o x) { x.retry.backoff.base = -1ms; }), "retry.backoff.base");
  EXPECT_EQ(refused_field([](o x) { x.retry.backoff.cap = 1ms; }), "retry.backoff.cap");
  EXPECT_EQ(refused_field([](o x) { x.retry.backoff.cap = -1ms; }), "retry.backoff.cap");
  EXPECT_EQ(refused_field([](o x) { x.queue.hot = 0; }), "queue.hot");
  EXPECT_EQ(refused_field([](o x) { x.queue.cold = 0; }), "queue.cold");
  EXPECT_EQ(refused_field([](o x) { x.queue.bytes = 1; }), "queue.bytes");
  EXPECT_EQ(refused_field([](o x) { x.lease.duration = 10ms; }), "lease.duration");
  EXPECT_EQ(refused_field([](o x) { x.lease.max_crashes = 1; }), "lease.max_crashes");
  EXPECT_EQ(refused_field([](o x) { x.listener_timeout = -1ms; }), "listener_timeout");
  EXPECT_EQ(refused_field([](o x) { x.listener_timeout = 25h; }), "listener_timeout");
  EXPECT_EQ(refused_field([](o x) { x.listener_timeout = 0ms; }), "accepted") << "no limit";
  EXPECT_EQ(refused_field([](o x) { x.stop_timeout = -1ms; }), "stop_timeout");
  EXPECT_EQ(refused_field([](o x) { x.name = std::string(129, 'x'); }), "name");
  EXPECT_EQ(refused_field([](o x) { x.name = std::string{"a\0b", 3}; }), "name");
  EXPECT_EQ(refused_field([](o x) { x.name = "\xFF"; }), "name");
  EXPECT_EQ(refused_field([](o x) { x.limits.payload_bytes = 0; }), "limits.payload_bytes");
  EXPECT_EQ(refused_field([](o x) { x.limits.payload_bytes = 256U << 20; }), "accepted");
  EXPECT_EQ(refused_field([](o x) { x.limits.payload_bytes = (256U << 20) + 1; }), "limits.payload_bytes");
  EXPECT_EQ(refused_field([](o x) { x.limits.header_count = 0; }), "limits.header_count");
  EXPECT_EQ(refused_field([](o x) { x.limits.header_count = SIZE_MAX; }), "limits.header_count");
  EXPECT_EQ(refused_field([](o x) { x.limits.header_bytes = 0; }), "limits.header_bytes");
  EXPECT_EQ(refused_field([](o x) { x.limits.header_bytes = SIZE_MAX; }), "limits.header_bytes");
  EXPECT_EQ(refused_field([](o x) { x.limits.json_depth = 0; }), "limits.json_depth");
  EXPECT_EQ(refused_field([](o x) { x.limits.json_depth = 5001; }), "limits.json_depth");
  EXPECT_EQ(refused_field([](o x) { x.purge = purge_options{.keep = -1ms}; }), "purge.keep");
  EXPECT_EQ(refused_field([](o x) { x.purge = purge_options{.batch = 0}; }), "purge.batch");
  EXPECT_EQ(refused_field([](o x) { x.purge = purge_options{.every = 1ms}; }), "purge.every");
}

TEST(Options, KeyedIsCheckedToo) {
  using o = keyed_options&;
  auto const refused = [](std::function<void(keyed_options&)> const& change) {
    keyed_options k{.store = memory::open()};
    change(k);
    try {
      static_cast<void>(keyed(std::move(k)));
    } catch (error const& e) {
      EXPECT_EQ(e.code(), errc::invalid_option);
      return std::string{e.field()};
    }
    return std::string{"accepted"};
  };
  EXPECT_EQ(refused([](o) {}), "accepted");
  EXPECT_EQ(refused([](o x) { x.store = nullptr; }), "store");
  EXPECT_EQ(refused([](o x) { x.workers = 0; }), "workers");
  EXPECT_EQ(refused([](o x) { x.workers = 1025; }), "workers");
  EXPECT_EQ(refused([](o x) { x.name = std::string(129, 'x'); }), "name");
  EXPECT_EQ(refused([](o x) { x.poll.batch = 0; }), "poll.batch");
  EXPECT_EQ(refused([](o x) { x.retry.max_attempts = 0; }), "retry.max_attempts");
  EXPECT_EQ(refused([](o x) { x.retry.backoff.base = 0ms; }), "retry.backoff.base");
  EXPECT_EQ(refused([](o x) { x.queue.hot = 0; }), "queue.hot");
  EXPECT_EQ(refused([](o x) { x.queue.cold = 0; }), "queue.cold");
  EXPECT_EQ(refused([](o x) { x.queue.bytes = 1; }), "queue.bytes");
  EXPECT_EQ(refused([](o x) { x.lease.duration = 10ms; }), "lease.duration");
  EXPECT_EQ(refused([](o x) { x.lease.max_crashes = 1; }), "lease.max_crashes");
  EXPECT_EQ(refused([](o x) { x.listener_timeout = -1ms; }), "listener_timeout");
  EXPECT_EQ(refused([](o x) { x.listener_timeout = 0ms; }), "accepted") << "no limit";
  EXPECT_EQ(refused([](o x) { x.stop_timeout = 25h; }), "stop_timeout");
  EXPECT_EQ(refused([](o x) { x.limits.json_depth = 5001; }), "limits.json_depth");
  EXPECT_EQ(refused([](o x) { x.purge = purge_options{.batch = 0}; }), "purge.batch");
  EXPECT_EQ(refused([](o x) { x.interceptors = {nullptr}; }), "interceptors");
  EXPECT_EQ(refused([](o x) {
              x.listeners.on("t", [](delivery const&) {}, {.name = "r", .retry = retry_policy{.max_attempts = 0}});
            }),
            "the retry of route 'r'.max_attempts");
  EXPECT_EQ(
      refused([](o x) { x.listeners.on("t", [](delivery const&) {}, {.max_in_flight = 1, .keeps_order = true}); }),
      "accepted");
}

TEST(Options, AKeyedNodePassesItsOptionsOn) {
  keyed_options k{.store = memory::open(), .workers = 7, .name = "n"};
  k.on_dead = on_dead::skip;
  k.unroutable = unroutable::dead;
  k.hot_path = false;
  k.poll.batch = 9;
  k.retry.max_attempts = 3;
  k.queue.hot = 11;
  k.lease.max_crashes = 4;
  k.listener_timeout = 13s;
  k.stop_timeout = 14s;
  k.stop_queued = stop_queued::release;
  k.limits.json_depth = 15;
  k.purge = purge_options{.batch = 16};
  auto const s = core::settings_of(std::move(k));
  EXPECT_EQ(s.workers, 7U);
  EXPECT_EQ(s.name, "n");
  EXPECT_EQ(s.on_dead, on_dead::skip);
  EXPECT_EQ(s.unroutable, unroutable::dead);
  EXPECT_FALSE(s.hot_path);
  EXPECT_EQ(s.poll.batch, 9U);
  EXPECT_EQ(s.retry.max_attempts, 3);
  EXPECT_EQ(s.queue.hot, 11U);
  EXPECT_EQ(s.lease.max_crashes, 4);
  EXPECT_EQ(s.listener_timeout, 13s);
  EXPECT_EQ(s.stop_timeout, 14s);
  EXPECT_EQ(s.stop_queued, stop_queued::release);
  EXPECT_EQ(s.limits.json_depth, 15U);
  EXPECT_EQ(s.purge.value().batch, 16U);
}

TEST(Options, WriterOnlyIsCheckedToo) {
  try {
    static_cast<void>(writer_only({.store = memory::open(), .purge = age_purge_options{.keep = 0ms}}));
    FAIL() << "accepted";
  } catch (error const& e) {
    EXPECT_EQ(e.field(), "purge.keep");
  }
  EXPECT_THROW(static_cast<void>(writer_only({})), error) << "no store";
  EXPECT_EQ(age_purge_options{}.keep, 7 * 24h);
  EXPECT_EQ(age_purge_options{}.batch, 500U);
}

TEST(Options, ARoutesRetryIsCheckedToo) {
  single_node_options o{.store = memory::open()};
  o.listeners.on("t", [](delivery const&) {}, {.name = "mail", .retry = retry_policy{.max_attempts = 0}});
  try {
    static_cast<void>(single_node(std::move(o)));
    FAIL() << "accepted";
  } catch (error const& e) {
    EXPECT_THAT(e.what(), ::testing::HasSubstr("route 'mail'"));
  }
}

TEST(Options, TheLimitIsInTheMessage) {
  try {
    static_cast<void>(single_node({.store = memory::open(), .poll = {.batch = 20'000}}));
    FAIL() << "accepted";
  } catch (error const& e) {
    EXPECT_STREQ(e.what(), "poll.batch is 20000, it must be 1 to 10000");
  }
}

TEST(Incarnation, NeverRepeatsAndFitsTheColumn) {
  auto const a = core::new_incarnation();
  EXPECT_NE(a, core::new_incarnation());
  EXPECT_LE(a.size(), 80U);
  EXPECT_EQ(a.find('/'), std::string::npos);
}

}  // namespace
}  // namespace outbox

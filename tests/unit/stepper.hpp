// A node that a test moves by hand, one step at a time, on a clock that stands still.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <outbox/error.hpp>
#include <outbox/memory.hpp>
#include <outbox/spi/store.hpp>
#include <outbox/testing.hpp>
#include <string>
#include <vector>

#include "core/node/node_core.hpp"
#include "support/log_lines.hpp"

namespace outbox::core {

using namespace spi;

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

/// One table and its clock; nodes come and go.
struct table {
  std::shared_ptr<testing::manual_clock> clock = std::make_shared<testing::manual_clock>();
  memory::commit_fate next_commit = memory::commit_fate::ok;
  lock_kind lock = lock_kind::session;
  std::shared_ptr<outbox::store> store =
      memory::open({.clock = clock,
                    .at_commit = [this] { return std::exchange(next_commit, memory::commit_fate::ok); },
                    .dispatch_lock = lock});

  row_view row(std::string const& id) { return store->inspect().find(id).value(); }

  /// A row that some other program wrote.
  void put(std::string const& id, std::string const& type = "t", event_options o = {}) {
    o.id = id;
    auto const e = event::json(type, "1", std::move(o));
    memory::transaction tx{*store};
    insertion const i{&e};
    store->backend().insert(join(tx), std::span{&i, 1});
    tx.commit();
    clock->advance(1ms);
  }
};

/// The options of a stepper, with leases and times that are easy to count with.
inline node_settings step_settings(std::shared_ptr<outbox::store> store, std::shared_ptr<clock const> c,
                                   std::string name = "n") {
  node_settings s;
  s.store = std::move(store);
  listeners l;
  l.on("t", [](delivery const&) {});
  l.on("quick", [](delivery const&) {}, {.timeout = 1s, .retry = retry_policy{.max_attempts = 2}});
  s.routes = l.release();
  s.clock = std::move(c);
  s.incarnation = std::move(name);
  s.lease = {.duration = 30s, .max_crashes = 3};
  s.retry = {.max_attempts = 3, .backoff = {.base = 200ms, .cap = 60s}};
  return s;
}

class stepper {
 public:
  explicit stepper(table& t, std::string name = "n", std::function<void(node_settings&)> const& change = {})
      : table_{t} {
    auto s = step_settings(std::make_shared<testing::faulty_store>(
                               t.store,
                               [this](testing::operation what) {
                                 asked.push_back(what);
                                 if (away) return testing::fault::before;
                                 auto const f = what == fail_what ? std::exchange(fail_how, testing::fault::none)
                                                                  : testing::fault::none;
                                 return f;
                               }),
                           t.clock, std::move(name));
    s.log = [this](log_line const& line) {
      log.push_back(without_source(line));
      fields.push_back(line.logfmt());
    };
    if (change) change(s);
    core = std::make_shared<node_core>(std::move(s));
  }

  void open() {
    core->with_engine([&](engine& e) { e.open(now()); });
  }
  [[nodiscard]] steady_time now() const { return table_.clock->steady(); }
  void advance(std::chrono::milliseconds by) { table_.clock->advance(by); }

  /// The next call of this operation goes wrong like this.
  void fail_next(testing::operation what, testing::fault how) {
    fail_what = what;
    fail_how = how;
  }

  template <class F>
  auto look(F&& f) {
    return core->with_engine(std::forward<F>(f));
  }
  [[nodiscard]] node_counters counters() {
    return look([](engine& e) { return e.counters(); });
  }

  // Steps; each says whether there was something to do.
  bool poll() {
    auto const p = core->plan_poll();
    if (!p.request) return false;
    core->carry(*p.request);
    return true;
  }
  /// A poll that takes so long.
  bool poll_slowly(std::chrono::milliseconds took) {
    auto const p = core->plan_poll();
    if (!p.request) return false;
    auto reply = core->ask(*p.request);
    advance(took);
    core->apply(*p.request, std::move(reply));
    return true;
  }
  /// Polls until the poller has nothing more to ask.
  void poll_all() {
    for (int i = 0; i < 50 && poll(); ++i) {
    }
  }
  bool settle(bool flush = true) {
    auto const p = look([&](engine& e) { return e.plan_settle(now(), flush); });
    if (!p.request) return false;
    core->carry(*p.request);
    return true;
  }
  bool renew() {
    auto const p = look([&](engine& e) { return e.plan_renew(now()); });
    if (!p.request) return false;
    core->carry(*p.request);
    return true;
  }
  /// A keyed node asks where births stand.
  bool place() {
    auto const p = look([](engine& e) { return e.plan_place(); });
    if (!p.request) return false;
    core->carry(*p.request);
    return true;
  }
  ticket_ptr start() {
    return look([&](engine& e) { return e.start_next(now()).first; });
  }
  void finish(ticket_ptr const& t, result r) {
    look([&](engine& e) { e.finish(*t, {std::move(r), {}}, now()); });
  }
  /// Starts and finishes one event; its id, or empty.
  std::string deliver(result r = done) {
    auto const t = start();
    if (!t) return {};
    finish(t, std::move(r));
    return t->event.id();
  }
  /// Like a worker: the listener is really called.
  std::string work() {
    auto const t = start();
    if (!t) return {};
    core->carry_out({t, {}});
    return t->event.id();
  }
  std::vector<std::string> deliver_all() {
    std::vector<std::string> ids;
    for (auto id = deliver(); !id.empty(); id = deliver()) ids.push_back(id);
    return ids;
  }

  void write(memory::transaction& tx, std::string const& id, event_options o = {}, std::string const& type = "t") {
    o.id = id;
    auto const e = event::json(type, "1", std::move(o));
    core->write(join(tx), std::span{&e, 1});
  }
  void commit(std::string const& id, event_options o = {}, std::string const& type = "t") {
    memory::transaction tx{*table_.store};
    write(tx, id, std::move(o), type);
    tx.commit();
  }

  std::shared_ptr<node_core> core;
  std::vector<std::string> log;
  std::vector<std::string> fields;  ///< Of each line, as logfmt.
  std::vector<testing::operation> asked;
  bool away = false;  ///< The store does not answer.
  testing::operation fail_what{};
  testing::fault fail_how = testing::fault::none;

 private:
  table& table_;
};

}  // namespace outbox::core

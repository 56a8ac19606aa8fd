#include "core/node/node_core.hpp"

#include <unistd.h>

#include <algorithm>
#include <outbox/listener.hpp>
#include <outbox/version.hpp>
#include <tuple>

#include "core/events/names_check.hpp"
#include "core/node/metrics_table.hpp"

namespace outbox::inline v0::core {
namespace {

// Long enough to cost nothing, short enough that no clock arithmetic overflows.
constexpr std::chrono::hours longest_sleep{1};

std::string table_of(node_settings const& s) {
  return s.store == nullptr ? std::string{} : std::string{s.store->capabilities().table};
}

// A process may have several nodes on several tables, so each line of the log names its node and table.
std::string log_source(node_settings const& s) {
  auto const table = table_of(s);
  return "node '" + s.name + "'" + (table.empty() ? "" : " on " + table);
}

log_facts log_about(node_settings const& s) {
  log_facts all{{"node", s.name}};
  if (auto table = table_of(s); !table.empty()) all.push_back({"table", std::move(table)});
  return all;
}

// In order, each once: two listeners may have the same name.
std::vector<std::string> route_names(detail::routes const& all) {
  std::vector<std::string> names;
  all.for_each([&](route const& r) { names.push_back(r.name); });
  std::ranges::sort(names);
  names.erase(std::ranges::unique(names).begin(), names.end());
  return names;
}

double in_seconds(std::chrono::nanoseconds time) noexcept { return std::chrono::duration<double>{time}.count(); }

std::string_view route_of(ticket const& t) noexcept {
  return t.route == nullptr ? std::string_view{} : std::string_view{t.route->name};
}

}  // namespace

node_core::node_core(node_settings settings)
    : settings_{std::move(settings)},
      process_{::getpid()},
      engine_{settings_},
      log_{settings_.log, log_source(settings_), log_about(settings_)},
      exported_outcomes_(settings_.routes->count + 1),
      fresh_outcomes_(settings_.routes->count + 1) {
  if (!settings_.metrics) return;
  auto const names = route_names(*settings_.routes);
  settings_.metrics->attach(names);
  waits_ = store().on_wait([to = settings_.metrics](std::chrono::nanoseconds time) {
    to->observe(histogram::pool_wait_seconds, in_seconds(time), {});
  });
}

void node_core::notify(engine_lock& lock) noexcept {
  auto const signals = engine_.take_signals();
  lock.unlock();
  if ((signals & signal_work) != 0) wake_one(loop::work);  // a worker that takes an event wakes the next worker
  if ((signals & signal_settle) != 0) wake_one(loop::settle);
  if ((signals & signal_poll) != 0) wake_one(loop::poll);
  if ((signals & signal_renew) != 0) wake_one(loop::renew);
  if ((signals & signal_place) != 0) wake_one(loop::place);
  if ((signals & signal_hint) != 0) store().hint();
  // Only stop() and poll_once() wait for this, for conditions that almost any change can make true. While no thread
  // waits, it costs a few instructions; a signal for each condition would have to be right in every step of the engine.
  changed_.notify_all();
}

void node_core::wait(engine_lock& lock, loop which, std::optional<steady_time> wake) {
  auto& woken = woken_[index(which)];
  if (!wake) return woken.wait(lock);
  // The wait takes real time even if a test controls the node's clock: a test that moves the clock calls wake().
  auto const left = *wake == steady_time::max() ? longest_sleep : std::max<steady_time::duration>(*wake - now(), {});
  woken.wait_for(lock, std::min<steady_time::duration>(longest_sleep, left));
}

void node_core::publish(engine_lock& lock) noexcept {
  auto notes = engine_.take_notes();
  auto stops = engine_.take_stops();
  notify(lock);
  for (auto& s : stops) s.request_stop();
  for (auto& n : notes) say(n.level, n.text, n.kind, std::move(n.facts));
}

void node_core::say(log_level level, std::string_view text, std::string_view kind, log_facts facts) noexcept {
  log_.say(level, text, kind, now(), std::move(facts));
}

void node_core::look_at_lock() {
  if (dispatch_lock_ && !dispatch_lock_->held()) lose_lock();
}

void node_core::lose_lock() {
  dispatch_lock_.reset();
  engine_.lock_lost(now());
}

void node_core::store_changed() noexcept {
  {
    std::lock_guard const lock{mutex_};
    engine_.wake();
  }
  wake_one(loop::poll);
}

assignment node_core::start_next(engine_lock const& /*locked*/) {
  if (settings_.in_order) look_at_lock();
  return engine_.start_next(now());
}

assignment node_core::start_next() {
  std::unique_lock lock{mutex_};
  auto job = start_next(lock);
  publish(lock);
  return job;
}

plan<poll_request> node_core::plan_poll() {
  std::unique_lock lock{mutex_};
  auto p = plan_poll(lock);
  publish(lock);
  return p;
}

plan<poll_request> node_core::plan_poll(engine_lock const& /*locked*/) {
  look_at_lock();
  return engine_.plan_poll(now());
}

poll_reply node_core::ask(poll_request const& request) {
  return perform(store(), request, settings_.incarnation, held_lock());
}
settle_reply node_core::ask(settle_request const& request) { return perform(store(), request); }
renew_reply node_core::ask(renew_request const& request) {
  return perform(store(), request, self(request.held), held_lock());
}

place_reply node_core::ask(place_request const& request) { return perform(store(), request); }

poll_outcome node_core::carry(poll_request const& request) {
  auto reply = ask(request);
  poll_outcome outcome{.failure = reply.failure};
  outcome.rows = apply(request, std::move(reply));
  return outcome;
}
void node_core::carry(settle_request const& request) { apply(request, ask(request)); }
void node_core::carry(renew_request const& request) { apply(request, ask(request)); }
void node_core::carry(place_request const& request) { apply(request, ask(request)); }

std::size_t node_core::apply(poll_request const& sent, poll_reply reply) {
  return with_engine([&](engine& e) -> std::size_t {
    auto const at = now();
    if (reply.failure) {
      e.apply_poll_failure(sent, *reply.failure, at);
    } else if (auto const* const release = std::get_if<release_request>(&sent.request)) {
      e.count_commits(1);
      e.apply_released(*release, at);
    } else if (auto const* const claim = std::get_if<claim_request>(&sent.request)) {
      auto& found = std::get<claim_reply>(reply.value);
      if (!found.rows.empty() || !found.dead.empty()) e.count_commits(1);
      return e.apply_claim(*claim, sent.sent, std::move(found), at);
    } else if (std::holds_alternative<lock_request>(sent.request)) {
      dispatch_lock_ = std::move(std::get<std::unique_ptr<dispatch_lock>>(reply.value));
      e.apply_lock(dispatch_lock_ != nullptr, at);
    } else {
      e.count_commits(1);
      e.apply_expired(std::get<std::size_t>(reply.value), at);
    }
    return 0;
  });
}

void node_core::apply(settle_request const& sent, settle_reply const& reply) {
  auto const at = now();
  with_engine([&](engine& e) {
    if (reply.failure) {
      e.apply_settle_failure(sent, *reply.failure, at);
    } else {
      e.count_commits(1);
      e.apply_settled(sent, reply.applied, at);
      e.note_unblocked(reply.unblocked);
    }
  });
  if (!reply.failure) observe_settled(sent, reply.applied, at);
}

void node_core::apply(renew_request const& sent, renew_reply const& reply) {
  std::shared_ptr<dispatch_lock> given_back;  // destroyed without the engine's lock: that may be a round trip
  with_engine([&](engine& e) {
    e.count_commits(reply.commits);
    if (auto const lost = reply.lost_lock.lock(); lost && lost == dispatch_lock_) {
      lose_lock();
    } else {
      look_at_lock();
    }
    if (reply.failure) {
      e.apply_renew_failure(sent, *reply.failure, now());
      return;
    }
    e.apply_renewed(sent, reply.kept, now());
    if (reply.settings) {
      e.set_pauses_if(sent.pauses_version, reply.settings->pauses);
      e.note_ignored_pauses(reply.settings->ignored_pauses);
      auto const refused = refusal(*reply.settings);
      e.set_refusal(refused ? refused->what() : "");
      if (refused && dispatch_lock_) {  // another node may be allowed on the table
        given_back = std::exchange(dispatch_lock_, nullptr);
        e.lock_lost(now());
      }
    }
    if (reply.doubts_released) e.apply_doubts_released(sent, now());
    if (reply.healed) {
      e.apply_healed(*reply.healed, now());
    } else if (sent.heal > 0) {
      e.apply_heal_failure(now());
    }
    if (reply.rest) {
      e.apply_heartbeat_failure(*reply.rest);
    } else {
      e.apply_heartbeat();
    }
  });
}

void node_core::apply(place_request const& sent, place_reply const& reply) {
  with_engine([&](engine& e) {
    if (reply.failure) {
      e.apply_place_failure(sent, *reply.failure);
    } else {
      e.apply_placed(sent, reply.places, now());
    }
  });
}

std::weak_ptr<dispatch_lock> node_core::held_lock() {
  std::lock_guard const lock{mutex_};
  return dispatch_lock_;
}

node_row node_core::self(std::uint64_t held) {
  std::unique_lock lock{mutex_};
  auto const c = engine_.counters();
  auto const active = engine_.active();
  auto reason = engine_.unhealthy();
  auto const holder = dispatch_lock_;
  lock.unlock();
  std::vector<node_route> routes;
  settings_.routes->for_each([&](route const& r) { routes.push_back({r.name, r.event_type, r.aggregate_type}); });
  std::ranges::sort(routes, {}, [](node_route const& r) { return std::tie(r.name, r.event_type, r.aggregate_type); });
  return {.incarnation = settings_.incarnation,
          .name = settings_.name,
          .version = std::string{version()},
          .mode = settings_.mode,
          .lease = settings_.lease.duration,
          .held = held,
          .active = active,
          .reason = std::move(reason),
          .lock_key = holder ? holder->key() : std::string{},
          .done = c.delivered,
          .failed = c.failed,
          .dead = c.dead + c.claimed_dead,
          .erased = store().capabilities().keeps_done_rows ? 0 : c.delivered,
          .routes = std::move(routes)};
}

node_counters node_core::counters() {
  auto c = with_engine_quietly([](engine& e) { return e.counters(); });
  if (!store().capabilities().keeps_done_rows) c.erased = c.delivered;
  return c;
}

std::optional<error> node_core::refusal(table_settings const& table) const {
  if (table.oldest_library > schema_version) {
    return error{errc::store_failure, "the table needs a library with schema version " +
                                          std::to_string(table.oldest_library) + " or later, and this one has " +
                                          std::to_string(schema_version) + ": use a newer library"};
  }
  if (table.keyed && !settings_.keyed && settings_.mode != node_mode::writer_only) {
    return error{errc::mode_conflict, "the table keeps an order per key, and a node of mode " +
                                          std::string{name(settings_.mode)} + " would break it"};
  }
  if (settings_.keyed && !table.keyed) {
    return error{errc::mode_conflict,
                 "the table does not keep an order per key any more: its mark was removed (outbox unkey)"};
  }
  return std::nullopt;
}

result node_core::unroutable_answer(event const& e) const {
  auto const why = "no listener for event type '" + e.type() + "' of aggregate type '" + e.aggregate_type() + "'";
  if (settings_.unroutable == unroutable::defer) return defer{std::chrono::seconds{30}, why};
  return dead{why};
}

// A table that is marked is prepared too: this store may not know what another one has made there.
void node_core::mark_keyed(std::function<void()> const& check_again) {
  if (!settings_.keyed) return;
  store().prepare_for_keys();
  if (store().settings().keyed) return;
  check_again();
  store().set_keyed(true);
}

std::optional<error> node_core::load_settings() {
  while (true) {
    auto const version = with_engine([](engine& e) { return e.pauses_version(); });
    auto table = store().settings();
    auto refused = refusal(table);
    bool const set = with_engine([&](engine& e) {
      e.note_ignored_pauses(table.ignored_pauses);
      return e.set_pauses_if(version, std::move(table.pauses));
    });
    if (set) return refused;
  }
}

bool node_core::pause(route_pause const& what) {
  check_pause(what);
  bool const changed = store().pause(what);
  load_settings();
  return changed;
}

bool node_core::resume(route_pause const& what) {
  check_pause(what);
  bool const changed = store().resume(what);
  load_settings();
  return changed;
}

std::size_t node_core::purge_once(std::function<bool()> const& enough) {
  auto const p = settings_.purge.value_or(purge_options{});
  auto const by_age = settings_.age_purge.value_or(age_purge_options{});
  bool const writer_only = settings_.mode == node_mode::writer_only;
  if (writer_only && !settings_.age_purge) {
    throw error::about(errc::invalid_option, "purge", "is not set: nothing says which rows are old enough to delete");
  }
  auto const batch = writer_only ? by_age.batch : p.batch;
  std::size_t total = 0;
  try {
    for (auto n = batch; n >= batch && !(enough && enough()); total += n) {
      n = writer_only ? store().purge_by_age({.age = by_age.keep, .limit = batch})
                      : store().purge({.retention = p.keep, .done = p.done, .dead = p.dead, .limit = batch});
      if (n > 0) with_engine([](engine& e) { e.count_commits(1); });
    }
  } catch (error const& e) {
    throw e.after_changing(total);
  }
  if (total > 0) {
    auto const rows = std::to_string(total);
    say(log_level::info, "purged " + rows + " rows", {}, {{"rows", rows}});
  }
  return total;
}

void node_core::farewell() noexcept {
  auto const doubts = with_engine([](engine& e) { return e.doubts(); });
  try {
    if (!doubts.empty()) {
      store().release(doubts, settings_.lease.duration);
      with_engine([&](engine& e) {
        e.count_commits(1);
        e.forget_doubts(doubts);
      });
    }
    if (settings_.mode != node_mode::writer_only) {
      store().retire(settings_.incarnation);
      with_engine([](engine& e) { e.count_commits(1); });
    }
  } catch (std::exception const& e) {  // one time-out is enough: what is left ends with its lease
    say(log_level::warning, std::string{"cannot tell the store that this node ends: "} + e.what(), {},
        {{"error", e.what()}});
  }
  std::shared_ptr<dispatch_lock> dropped;
  std::lock_guard const lock{mutex_};
  dropped = std::move(dispatch_lock_);
}

void node_core::export_metrics(bool running) noexcept {
  if (!settings_.metrics) return;
  std::lock_guard const exporting{metrics_mutex_};
  node_counters c;
  std::size_t hot = 0;
  std::size_t cold = 0;
  milliseconds lag{};
  bool healthy = false;
  bool active = false;
  {
    std::lock_guard const lock{mutex_};
    c = engine_.counters();
    fresh_outcomes_ = engine_.outcomes_by_route();  // of the same size, so nothing is allocated
    hot = engine_.hot_depth();
    cold = engine_.cold_depth();
    lag = engine_.oldest_lag();
    healthy = running && engine_.healthy();
    active = running && engine_.active();
  }
  auto& m = *settings_.metrics;
  for (auto const& row : counter_table) {
    if (!row.by_route && c.*row.field > exported_.*row.field) m.add(row.which, c.*row.field - exported_.*row.field);
  }
  export_outcomes();
  m.set(gauge::hot_queue_depth, static_cast<std::int64_t>(hot));
  m.set(gauge::cold_queue_depth, static_cast<std::int64_t>(cold));
  m.set(gauge::oldest_lag_ms, lag.count());
  m.set(gauge::held, static_cast<std::int64_t>(c.held));
  m.set(gauge::healthy, healthy ? 1 : 0);
  m.set(gauge::active, active ? 1 : 0);
  exported_ = c;
}

void node_core::export_outcomes() noexcept {
  auto const add = [&](std::size_t i, std::string_view route) {
    auto const one = [&](counter c, std::uint64_t route_outcomes::*field) {
      auto const n = fresh_outcomes_[i].*field - exported_outcomes_[i].*field;
      if (n > 0) settings_.metrics->add_for_route(c, n, route);
    };
    one(counter::delivered, &route_outcomes::delivered);
    one(counter::failed, &route_outcomes::failed);
    one(counter::deferred, &route_outcomes::deferred);
    one(counter::dead, &route_outcomes::dead);
  };
  settings_.routes->for_each([&](route const& r) { add(r.index, r.name); });
  add(settings_.routes->count, {});  // events without a listener
  exported_outcomes_.swap(fresh_outcomes_);
}

void node_core::observe(ticket const& t, result const& r) noexcept {
  if (!settings_.metrics) return;
  auto const route = route_of(t);
  auto const wait = t.path == path::hot ? histogram::hot_wait_seconds : histogram::cold_wait_seconds;
  settings_.metrics->observe(wait, in_seconds(t.call.began - t.taken), route);
  settings_.metrics->observe(histogram::delivery_seconds, in_seconds(now() - t.call.began), route);
  if (!std::holds_alternative<done_t>(r.value())) return;
  auto const due = std::max(t.event.occurred_at(), t.event.available_at().value_or(t.event.occurred_at()));
  auto const lag = std::max<instant::duration>(settings_.clock->now() - due, {});
  settings_.metrics->observe(histogram::lag_seconds, in_seconds(lag), route);
}

// After the engine's lock was released. What is read here of a settled ticket does not change any more.
void node_core::observe_settled(settle_request const& sent, std::vector<bool> const& applied, steady_time at) noexcept {
  if (!settings_.metrics) return;
  settings_.metrics->observe(histogram::settle_batch_rows, static_cast<double>(sent.items.size()), {});
  for (std::size_t i = 0; i < sent.tickets.size(); ++i) {
    ticket const& t = *sent.tickets[i];
    if (!applied[i] || t.ended > at) continue;  // lost, or no listener has answered
    settings_.metrics->observe(histogram::settle_seconds, in_seconds(at - t.ended), route_of(t));
  }
}

}  // namespace outbox::inline v0::core

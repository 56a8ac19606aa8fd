#include "core/node/runtime.hpp"

#include <algorithm>
#include <outbox/error.hpp>

#include "core/base/thread_name.hpp"

namespace outbox::inline v0::core {
namespace {

// Short enough that no clock arithmetic overflows.
constexpr std::chrono::hours longest_timeout{24 * 365};

// After the deadline of a stop: for requests to the store that are under way, and for settling what finished last.
constexpr std::chrono::seconds grace{1};

// How often a node that a listener has stopped looks whether it has drained.
constexpr milliseconds look_again{20};

// So that stop() called by a listener is told apart: a thread cannot wait for itself.
thread_local runtime const* thread_of = nullptr;

// The calling thread does the node's work for a while.
class own_thread {
 public:
  explicit own_thread(runtime const* r) noexcept : before_{std::exchange(thread_of, r)} {}
  own_thread(own_thread const&) = delete;
  own_thread& operator=(own_thread const&) = delete;
  ~own_thread() { thread_of = before_; }

 private:
  runtime const* before_;
};

}  // namespace

runtime::runtime(std::shared_ptr<node_core> core) : core_{std::move(core)} {}

runtime::~runtime() {
  // What was there at an earlier stop() has had its time.
  bool const again = [&] {
    auto const lock = core_->lock();
    return phase_ == phase::stopping && !asked_;
  }();
  stop(again ? milliseconds{0} : core_->settings().stop_timeout);
  {
    gate::passage const life{life_};
    own_thread const mine{this};
    // Listeners may still run: there is no safe way to go on without them.
    if (phase_ == phase::stopping) end_all(clock::time_point::max());
  }
  core_->drop_listeners();
}

bool runtime::running() const noexcept { return phase_ == phase::running; }

std::string runtime::not_running() const {
  auto const p = phase_.load();
  if (p == phase::running) return {};
  if (p == phase::stopped) return "the node was stopped";
  if (p == phase::stopping) {
    auto const lock = core_->lock();
    return asked_ ? "the node is stopping because a listener or a callback called stop()" : "the node is stopping";
  }
  return core_->settings().mode == node_mode::writer_only ? "" : "the node was not started";
}

bool runtime::on_own_thread() const noexcept { return thread_of == this; }

void runtime::start() {
  gate::passage const life{life_};
  own_thread const mine{this};  // a callback of the application may call stop()
  if (phase_ != phase::made) {
    throw error{errc::lifecycle,
                phase_ == phase::running ? "start() was called before" : "start() after stop(): make a new node"};
  }
  bool const writer_only = core_->settings().mode == node_mode::writer_only;
  heartbeat();
  if (!writer_only) open_engine();
  phase_ = phase::running;
  try {
    if (core_->settings().purge || core_->settings().age_purge) run(purger_, "outbox-purge", &runtime::purge);
    if (!writer_only) {
      run(renewer_, "outbox-renew", &runtime::renew);
      run(settler_, "outbox-settle", &runtime::settle);
      for (std::size_t i = 0; i < core_->settings().workers; ++i) {
        run(workers_.emplace_back(), "outbox-work", &runtime::work);
      }
      // Before the poller's first claim: what is written after that claim is then signalled.
      changes_ = core_->store().on_change([core = core_.get()] { core->store_changed(); });
      run(poller_, "outbox-poll", &runtime::poll);
      if (core_->settings().keyed) run(placer_, "outbox-place", &runtime::place);
    }
  } catch (std::exception const& e) {
    core_->with_engine([&](engine& g) { g.close(core_->now()); });
    bool const renewer_will = renewer_.thread.joinable();
    end_all(clock::time_point::max());
    if (!renewer_will) core_->farewell();
    throw error{errc::unavailable, std::string{"cannot start the node's threads: "} + e.what()};
  }
  std::string const mode{name(core_->settings().mode)};
  auto const& incarnation = core_->settings().incarnation;
  core_->say(log_level::info, "started as " + mode + ", incarnation " + incarnation, {},
             {{"mode", mode}, {"incarnation", incarnation}});
  if (auto const remarks = core_->store().capabilities().remarks; !remarks.empty()) {
    core_->say(log_level::info, std::string{remarks});
  }
  if (asked_early_) ask_stop();
}

void runtime::run(node_thread& l, char const* name, void (runtime::*body)()) {
  l.thread = core_->settings().new_thread([this, &l, name, body] {
    set_thread_name(name);
    thread_of = this;
    (this->*body)();
    auto const lock = core_->lock();
    l.ended = true;
    core_->note_change(lock);
  });
}

// The node must know before the first claim what is paused, and whether it may work on the table at all.
void runtime::open_engine() {
  try {
    // The heartbeat may be older than a lease by then, so that a node of another mode did not see it.
    core_->mark_keyed([this] { heartbeat(); });
    if (auto const refused = core_->load_settings()) throw *refused;
  } catch (...) {
    core_->store().retire(core_->settings().incarnation);
    throw;
  }
  core_->with_engine([&](engine& e) { e.open(core_->now()); });
}

// Returns false if the thread has not ended by then, because a request to the store or a call of the application takes
// longer.
bool runtime::end_thread(node_thread& l, loop which, clock::time_point deadline) {
  if (!l.thread.joinable()) return true;
  {
    auto const lock = core_->lock();
    l.quit = true;
  }
  core_->wake_all(which);
  if (!core_->wait_for_change(deadline, [&](engine const&) { return l.ended; })) return false;
  l.thread.join();
  return true;
}

// Everything that was started, in the order of closing; false if that is not possible by then.
bool runtime::end_all(clock::time_point deadline) {
  changes_ = {};
  if (!end_thread(purger_, loop::purge, deadline) || !end_thread(poller_, loop::poll, deadline)) return false;
  {
    auto const lock = core_->lock();
    quit_workers_ = true;
  }
  for (auto& w : workers_) {
    if (!end_thread(w, loop::work, deadline)) return false;
  }
  if (!end_thread(placer_, loop::place, deadline)) return false;
  abandon_open_calls();
  flush(std::min(deadline, clock::now() + std::chrono::seconds{1}));
  if (!end_thread(settler_, loop::settle, deadline) || !end_thread(renewer_, loop::renew, deadline)) return false;
  phase_ = phase::stopped;
  core_->export_metrics(/*running=*/false);
  core_->say(log_level::info, "stopped");
  return true;
}

// No thread is left to hear an answer: what has none is given up.
void runtime::abandon_open_calls() {
  core_->refuse_answers();
  while (core_->take_answer()) {
  }
  core_->with_engine([&](engine& e) { e.release_queued(core_->now()); });
}

// A node that can never become active must not start.
void runtime::check_lock() const {
  auto const& s = core_->settings();
  auto const can = core_->store().capabilities();
  if (!s.exclusive && !can.owners_in_table) {
    throw error{errc::unsupported, "a " + std::string{name(s.mode)} +
                                       " node needs a table that says who owns a row, and " + std::string{can.table} +
                                       " has no columns for it: use single_node, whose second node stands by"};
  }
  if (s.keyed && !can.keys) {
    throw error{errc::unsupported, "a keyed node needs a store that keeps an order per key, and the store of " +
                                       std::string{can.table} + " does not"};
  }
  if (!s.exclusive || can.dispatch_lock != lock_kind::none) return;
  throw error{errc::unsupported, "a " + std::string{name(s.mode)} + " node needs a dispatch lock, and the store of " +
                                     std::string{can.table} + " has none: " + std::string{can.no_lock_reason}};
}

// Announced first and checked second: of two nodes that start at once, at least one sees the other.
void runtime::heartbeat() {
  auto const self = core_->self(0);
  if (self.mode == node_mode::writer_only) return;  // it dispatches nothing, so no node needs to know of it
  check_lock();
  core_->store().heartbeat(self);
  core_->with_engine([](engine& e) { e.count_commits(1); });
  auto const exclusive = [](node_mode m) { return m == node_mode::single_node || m == node_mode::ordered; };
  for (auto const& other : core_->store().inspect().nodes()) {
    if (other.incarnation == self.incarnation || other.mode == node_mode::writer_only) continue;
    if (other.mode == self.mode && exclusive(self.mode)) continue;  // stands by
    bool const shared = self.mode == node_mode::multi_node || self.mode == node_mode::keyed;
    if (other.mode == self.mode && shared) continue;
    core_->store().retire(self.incarnation);
    throw error{errc::mode_conflict, "node '" + other.name + "' (" + other.incarnation + ") works on this table as " +
                                         std::string{name(other.mode)} + "; this one is " +
                                         std::string{name(self.mode)}};
  }
}

void runtime::work() {
  auto lock = core_->lock();
  while (true) {
    if (core_->has_answers(lock)) {  // what is finished comes before what is new
      lock.unlock();
      core_->take_answer();
      lock.lock();
      continue;
    }
    auto const job = core_->start_next(lock);
    if (!job) {
      if (core_->engine_under(lock).has_news()) {  // it may have given something back
        core_->publish(lock);
        lock.lock();
        continue;
      }
      if (quit_workers_) return;
      core_->wait(lock, loop::work);
      continue;
    }
    auto const& e = core_->engine_under(lock);
    if (e.hot_depth() + e.cold_depth() > 0) core_->wake_one(loop::work);
    core_->publish(lock);
    core_->carry_out(job);
    lock.lock();
  }
}

void runtime::poll() {
  auto lock = core_->lock();
  while (!poller_.quit) {
    auto const p = core_->plan_poll(lock);
    if (!p.request && !core_->engine_under(lock).has_notes()) {
      core_->wait(lock, loop::poll, p.wake);
      continue;
    }
    core_->publish(lock);  // callers leave their notes to us
    if (!p.request) {
      lock.lock();
      continue;
    }
    core_->carry(*p.request);
    core_->export_metrics();
    lock.lock();
  }
}

void runtime::settle() {
  auto lock = core_->lock();
  while (!settler_.quit) {
    auto const p = core_->engine_under(lock).plan_settle(core_->now(), flush_);
    if (!p.request) {
      core_->wait(lock, loop::settle, p.wake);
      continue;
    }
    core_->publish(lock);
    core_->carry(*p.request);
    core_->export_metrics();
    lock.lock();
  }
}

void runtime::place() {
  auto lock = core_->lock();
  while (!placer_.quit) {
    auto const p = core_->engine_under(lock).plan_place();
    if (!p.request) {
      core_->wait(lock, loop::place);
      continue;
    }
    core_->publish(lock);
    core_->carry(*p.request);
    lock.lock();
  }
}

void runtime::renew() {
  auto lock = core_->lock();
  while (!renewer_.quit) {
    if (farewell_said_) {
      core_->wait(lock, loop::renew, core_->now() + std::chrono::seconds{1});
      if (!core_->engine_under(lock).has_doubts()) continue;
      lock.unlock();
      core_->farewell();  // a transaction that was open has committed
      lock.lock();
      continue;
    }
    if (asked_) {
      lock.unlock();
      end_by_request();
      lock.lock();
      if (farewell_said_) continue;
    }
    auto p = core_->engine_under(lock).plan_renew(core_->now());
    if (!p.request && !core_->engine_under(lock).has_news()) {
      if (asked_) p.wake = std::min<steady_time>(p.wake, core_->now() + look_again);
      core_->wait(lock, loop::renew, p.wake);
      continue;
    }
    core_->publish(lock);  // the plan may have timed something out
    if (p.request) {
      core_->carry(*p.request);
      core_->export_metrics();
    }
    lock.lock();
  }
  lock.unlock();
  core_->farewell();
}

// A listener has called stop(), and no other thread may do so for a long time. Another node should not have to wait for
// that. When nothing is left to do here, this one leaves the table.
void runtime::end_by_request() {
  bool const late = clock::now() >= *asked_;
  bool const over = core_->with_engine([&](engine& e) {
    if (late) e.release_queued(core_->now());
    // A request for the dispatch lock that is under way would bring the lock when no thread gives it back any more.
    return e.drained() && e.unsettled() == 0 && !e.poll_busy() && (late || e.open_births() == 0);
  });
  if (!over) return;
  farewell_said_ = true;
  core_->farewell();
}

void runtime::purge() {
  auto const& s = core_->settings();
  auto const every = s.age_purge ? s.age_purge->every : s.purge->every;
  auto next = core_->now() + every / 10;
  auto const stopping = [&] {
    auto const lock = core_->lock();
    return purger_.quit;
  };
  auto lock = core_->lock();
  while (!purger_.quit) {
    if (core_->now() < next) {
      core_->wait(lock, loop::purge, next);
      continue;
    }
    lock.unlock();
    try {
      core_->purge_once(stopping);
    } catch (std::exception const& e) {
      core_->say(log_level::error, std::string{"cannot purge: "} + e.what(), {}, {{"error", e.what()}});
    }
    next = core_->now() + every;
    lock.lock();
  }
}

std::size_t runtime::run_until_idle() {
  auto const refuse = [](char const* why) { throw error{errc::lifecycle, std::string{"run_until_idle() "} + why}; };
  if (core_->settings().mode == node_mode::writer_only) refuse("is for a node that delivers: this one only writes");
  if (on_own_thread()) refuse("was called from a listener");
  gate::passage const life{life_};
  own_thread const mine{this};
  if (phase_ == phase::running) refuse("is for a node that was not started");
  if (phase_ == phase::stopping || phase_ == phase::stopped) refuse("after stop(): make a new node");
  if (phase_ == phase::made) {
    heartbeat();
    open_engine();
    phase_ = phase::stepped;
  }
  core_->with_engine([](engine& e) { e.ask_poll(); });
  std::size_t delivered = 0;
  step_all(delivered);
  return delivered;
}

// Does by turns what the threads do at once, until none of them would have anything to do now.
void runtime::step_all(std::size_t& delivered) {
  constexpr std::size_t most = 100'000;
  for (bool busy = true; busy;) {
    busy = false;
    if (auto const p = core_->with_engine([&](engine& e) { return e.plan_renew(core_->now()); }); p.request) {
      core_->carry(*p.request);
    }
    core_->with_engine([](engine& e) { e.look_everywhere(); });
    if (auto const p = core_->plan_poll(); p.request) {
      core_->carry(*p.request);
      busy = true;
    }
    while (core_->take_answer()) busy = true;
    if (auto const p = core_->with_engine([](engine& e) { return e.plan_place(); }); p.request) {
      core_->carry(*p.request);
      busy = true;
    }
    while (auto const job = core_->start_next()) {
      core_->carry_out(job);
      delivered += 1 + job.rest.size();
      busy = true;
    }
    auto const p = core_->with_engine([&](engine& e) { return e.plan_settle(core_->now(), /*flush=*/true); });
    if (p.request) {
      core_->carry(*p.request);
      busy = true;
    }
    core_->export_metrics();
    if (delivered > most) {
      throw error{errc::lifecycle, "the node is not idle after " + std::to_string(most) + " deliveries"};
    }
  }
}

bool runtime::close_stepped() {
  own_thread const mine{this};
  core_->with_engine([&](engine& e) { e.close(core_->now()); });
  std::size_t delivered = 0;
  step_all(delivered);
  bool const drained = core_->with_engine([](engine& e) { return e.drained() && e.unsettled() == 0; });
  abandon_open_calls();
  step_all(delivered);
  core_->farewell();
  phase_ = phase::stopped;
  core_->export_metrics(/*running=*/false);
  return drained;
}

std::size_t runtime::poll_once() {
  if (!running()) throw error{errc::lifecycle, "poll_once() needs a started node"};
  while (true) {
    core_->wait_for_change(clock::time_point::max(), [](engine const& e) { return !e.poll_busy(); });
    auto lock = core_->lock();
    if (core_->engine_under(lock).poll_busy()) continue;  // the poller was quicker
    core_->engine_under(lock).ask_poll();
    auto const p = core_->plan_poll(lock);
    core_->publish(lock);
    if (!p.request) return 0;  // stopping, standing by, or nothing fits
    bool const claim = std::holds_alternative<claim_request>(p.request->request);
    auto const outcome = core_->carry(*p.request);
    if (outcome.failure) throw *outcome.failure;
    if (claim) return outcome.rows;
    bool const standing_by = std::holds_alternative<lock_request>(p.request->request) && core_->held_lock().expired();
    if (standing_by) return 0;
  }
}

// Lets the settler empty its list without spacing.
bool runtime::flush(clock::time_point deadline) {
  {
    auto const lock = core_->lock();
    flush_ = true;
  }
  core_->wake_one(loop::settle);
  return core_->wait_for_change(deadline, [](engine const& e) { return e.unsettled() == 0; });
}

// On a thread that a stop would have to wait for: the node takes no more work, and the renewer ends what it can.
void runtime::ask_stop() {
  auto const timeout = core_->settings().stop_timeout;
  if (phase_ == phase::made) {
    asked_early_ = true;  // by a callback of start(), on its thread
    return;
  }
  auto expected = phase::running;
  bool const first = phase_.compare_exchange_strong(expected, phase::stopping);
  {
    auto lock = core_->lock();
    if (first) asked_ = clock::now() + timeout;
    core_->engine_under(lock).close(core_->now(), core_->settings().stop_queued);
    core_->publish(lock);
  }
  core_->wake_one(loop::renew);
  if (first) core_->say(log_level::warning, "a listener or a callback called stop(): the node takes no more events");
}

bool runtime::stop(milliseconds timeout) {
  if (on_own_thread()) {
    ask_stop();
    return false;
  }
  auto const deadline = clock::now() + std::clamp<milliseconds>(timeout, milliseconds{0}, longest_timeout);
  gate::passage const life{life_, deadline + grace};
  if (!life) return false;      // another thread starts or stops it
  own_thread const mine{this};  // a callback of the application may call stop() again, on this thread
  if (phase_ == phase::made) {
    phase_ = phase::stopped;
    return true;
  }
  if (phase_ == phase::stopped) return true;
  if (phase_ == phase::stepped) return close_stepped();
  phase_ = phase::stopping;
  return close(deadline);
}

bool runtime::close(clock::time_point deadline) {
  core_->with_engine([&](engine& e) { e.close(core_->now(), core_->settings().stop_queued); });
  auto const last = deadline + grace;
  bool quiet = end_thread(purger_, loop::purge, last);
  quiet = end_thread(poller_, loop::poll, last) && quiet;
  // Another thread may be inside poll_once(): what it claims must be released before the settler ends.
  quiet = core_->wait_for_change(last, [](engine const& e) { return !e.poll_busy(); }) && quiet;
  auto const is_drained = [](engine const& e) { return e.drained() && e.open_births() == 0; };
  bool const drained = core_->wait_for_change(deadline, is_drained);
  core_->with_engine([&](engine& e) { e.release_queued(core_->now()); });
  bool const settled = flush(last);
  {
    // A listener still runs, or a transaction is open: settler and renewer stay to end what they leave.
    auto const lock = core_->lock();
    if (!quiet || !is_drained(core_->engine_under(lock))) return false;
  }
  return end_all(last) && drained && settled;
}

}  // namespace outbox::inline v0::core

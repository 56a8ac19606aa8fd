#include "sim/world.hpp"

#include <algorithm>
#include <cstdio>
#include <outbox/error.hpp>

#include "sim/sim_node.hpp"
#include "sim/stepwise_store.hpp"

namespace outbox::sim {

world::world(std::uint64_t seed, profile p, coverage& seen) : random_{seed}, profile_{p}, seen_{seen} {
  table_ = memory::open({.clock = clock_,
                         .at_commit = [this] { return std::exchange(next_commit_, memory::commit_fate::ok); },
                         .dispatch_lock = p.lock_lease ? lock_kind::lease : lock_kind::session});
  oracle_ = std::make_unique<oracle>(table_, p.lease, p.max_attempts, p.max_crashes, seen);
  watched_ = std::make_shared<watched_store>(table_, *oracle_);
  if (p.ordered) oracle_->expect_order();
  if (p.keyed) {
    table_->backend().set_keyed(true);
    std::set<std::string> keeps_order;
    if (p.keeps_order) keeps_order.insert("sim.async");
    oracle_->expect_keys(p.skip ? on_dead::skip : on_dead::park, std::move(keeps_order));
    if (p.stepwise) {
      server_ = std::make_unique<stepwise_store>(*this, dynamic_cast<memory::database&>(*table_), *oracle_);
      watched_->release_with([this](auto tokens) { return server_->release(tokens); });
    }
    watched_->lose_receipts([this] { return random_.chance(profile_.no_receipt); });
  }
  start_ = clock_->now();
  for (int i = 0; i < p.nodes; ++i) nodes_.push_back(std::make_unique<sim_node>(*this, i));
}

world::~world() = default;

void world::at_us(microseconds in, std::function<void()> what) {
  queue_.push({clock_->now() + in, random_.next(), std::move(what)});
}

microseconds world::latency() {
  // Mostly quick, sometimes slow, now and then very slow: replies overtake each other.
  auto const dice = random_.below(100);
  auto const most = dice < 80 ? 2'000U : dice < 97 ? 50'000U : 900'000U;
  return microseconds{50 + random_.below(most)};
}

testing::fault world::next_fault(int index, testing::operation what) {
  auto& n = node(index);
  testing::fault f = testing::fault::none;
  auto const dice = random_.fraction();
  auto const& p = profile_;
  if (server_away()) {
    f = testing::fault::before;
  } else if (n.cut()) {
    f = random_.chance(0.8) ? testing::fault::before : testing::fault::after;
  } else if (!chaos_ || what == testing::operation::dispatch_lock) {
    return f;
  } else if (dice < p.fail_before) {
    f = testing::fault::before;
  } else if (dice < p.fail_before + p.fail_after) {
    f = testing::fault::after;
  } else if (dice < p.fail_before + p.fail_after + p.fail_later) {
    f = testing::fault::later;
  } else if (dice < p.fail_before + p.fail_after + p.fail_later + p.refuse) {
    f = testing::fault::refused;
  }
  if (f == testing::fault::none) return f;
  static constexpr char const* kinds[] = {"", "fails before", "fails after", "takes effect later", "is refused"};
  static constexpr char const* operations[] = {"claim",  "settle",      "renew",        "release", "expire",
                                               "lock",   "heartbeat",   "retire",       "purge",   "dead",
                                               "replay", "read pauses", "lock renewal", "place"};
  auto const text = std::string{operations[static_cast<int>(what)]} + " " + kinds[static_cast<int>(f)];
  note(text);
  trace(index, text);
  // A failed claim is no excuse for a lease that runs out: the node must give back what it may have got.
  if (what != testing::operation::claim && what != testing::operation::heartbeat) oracle_->disturbed(n.incarnation());
  return f;
}

void world::trace(int index, std::string const& text) {
  char line[64];
  auto const us = (clock_->now() - start_).count();
  std::snprintf(line, sizeof line, "%10.6f  node%d  ", static_cast<double>(us) / 1e6, index);
  trace_.push_back(line + text);
}

void world::restart_later(int index) {
  at(milliseconds{50 + random_.below(4000)}, [this, index] { node(index).boot(); });
}

std::vector<act> world::draw_script() {
  std::vector<act> script;
  if (random_.chance(profile_.stall)) {
    script.push_back(act::stall);
    stalled_ += profile_.timeout + 20s;
  }
  if (random_.chance(profile_.crash)) script.push_back(act::crash);
  while (random_.chance(profile_.misbehave)) {
    static constexpr act acts[] = {act::fail, act::fail, act::fail_later, act::throw_up, act::defer, act::die};
    script.push_back(acts[random_.below(std::size(acts))]);
  }
  return script;
}

void world::plan_faults() {
  auto const plan = [&](int count, auto what) {
    for (int i = 0; i < count; ++i) {
      auto const index = static_cast<int>(random_.below(static_cast<std::uint64_t>(profile_.nodes)));
      at(milliseconds{random_.below(static_cast<std::uint64_t>(profile_.chaos.count()))}, [this, index, what] {
        if (chaos_) what(node(index));
      });
    }
  };
  plan(profile_.kills, [](sim_node& n) { n.kill("from outside"); });
  plan(profile_.freezes, [this](sim_node& n) { n.freeze(milliseconds{random_.below(25'000)}); });
  plan(profile_.cuts, [this](sim_node& n) { n.cut_off(milliseconds{random_.below(20'000)}); });
  plan(profile_.stops, [](sim_node& n) { n.stop(); });
  plan(profile_.outages, [this](sim_node&) { outage(); });
  plan(profile_.ended_sessions, [this](sim_node&) { end_session(); });
  plan(profile_.purges, [this](sim_node&) { purge(); });
  plan(profile_.replays, [this](sim_node&) { replay(); });
  plan(profile_.pauses, [this](sim_node&) { pause(); });
  plan(profile_.discards, [this](sim_node&) { discard(); });
}

void world::disturb_all(milliseconds length) {
  for (auto const& n : nodes_) {
    if (n->alive()) oracle_->disturbed(n->incarnation(), length);
  }
}

// The server ends as if it had been killed: whatever is under way is undone, every session is over, and for a while
// there is nobody to talk to.
void world::outage() {
  milliseconds const length{200 + random_.below(15'000)};
  note("outage of the server");
  trace(0, "the server is away for " + std::to_string(length.count()) + " ms");
  ++outages_;
  away_until_ = std::max<instant>(away_until_, clock_->now() + length);
  if (!profile_.lock_lease) watched_->end_session();
  if (server_) server_->restart();
  disturb_all(length);
  at(length, [this] { disturb_all(); });
}

void world::end_session() {
  if (!watched_->end_session()) return;
  note("dispatch lock lost");
  trace(0, "the server ends the session that holds the dispatch lock");
  disturb_all();
}

// What operators do. They talk to the table directly: their tools are no nodes.
void world::purge() {
  auto const n = watched_->purge({.retention = milliseconds{random_.below(20'000)},
                                  .done = random_.chance(0.8),
                                  .dead = random_.chance(0.8),
                                  .limit = 1 + random_.below(20)});
  if (n > 0) note("purge");
  trace(0, "an operator purges " + std::to_string(n) + " rows");
}

void world::replay() {
  std::string id;
  if (profile_.keyed) {
    auto dead = oracle_->dead();
    std::erase_if(dead, [this](auto const& each) { return oracle_->of(each).poison; });
    if (dead.empty()) return;
    id = dead[random_.below(dead.size())];
  } else {
    if (written_ <= profile_.poison) return;
    auto const n = static_cast<std::uint64_t>(written_ - profile_.poison);
    id = "e" + std::to_string(profile_.poison + 1 + static_cast<int>(random_.below(n)));
  }
  if (server_ && server_->is_locked(id)) return;
  if (watched_->replay({.ids = {id}}, 1) == 0) return;
  note("replay");
  trace(0, "an operator replays " + id);
}

void world::discard() {
  auto const dead = oracle_->dead();
  if (dead.empty()) return;
  discard(dead[random_.below(dead.size())]);
}

void world::discard(std::string const& id) {
  trace(0, "an operator discards " + id);
  if (server_) {
    server_->discard(id, std::make_shared<counted>(open_));
  } else {
    watched_->discard({.ids = {id}}, 1);
  }
}

// An event is taken back that waits behind others: it leaves its line out of order. Meanwhile somebody writes.
void world::withdraw(std::vector<std::string> const& ids) {
  for (auto const& id : ids) {
    if (!chaos_ || !oracle_->waits(id) || (server_ && server_->is_locked(id))) continue;
    if (watched_->cancel({.ids = {id}}, "taken back", 1) == 0) continue;
    trace(0, "an operator cancels " + id);
    at(milliseconds{random_.below(random_.chance(0.2) ? 5000 : 20)},
       [this, id, open = std::make_shared<counted>(open_)] { discard(id); });
    auto const index = static_cast<int>(random_.below(static_cast<std::uint64_t>(profile_.nodes)));
    at(milliseconds{random_.below(2000)},
       [this, index, c = std::make_shared<counted>(open_)] { begin_transaction(index, c); });
    return;
  }
}

void world::pause() {
  route_pause const what{draw_type(), ""};
  if (!watched_->pause(what)) return;
  note("pause");
  trace(0, "an operator pauses " + what.event_type);
  at(milliseconds{random_.below(30'000)}, [this, what] {
    if (watched_->resume(what)) trace(0, "an operator resumes " + what.event_type);
  });
}

void world::resume_all() {
  for (auto const& p : watched_->settings().pauses) watched_->resume(p);
}

void world::heal() {
  chaos_ = false;
  trace(0, "everything heals");
  resume_all();
  for (auto const& n : nodes_) {
    if (n->alive()) oracle_->disturbed(n->incarnation());
    n->heal();
  }
}

bool world::step() {
  if (queue_.empty()) return false;
  auto next = queue_.top();
  queue_.pop();
  clock_->advance(next.when - clock_->now());
  next.what();
  ++steps_;
  if (!oracle_->broken().empty()) throw violation{oracle_->broken()};
  return true;
}

outcome_of_run world::run() {
  constexpr std::uint64_t step_limit = 300'000;
  outcome_of_run result;
  try {
    for (int i = 0; i < profile_.nodes; ++i) at(milliseconds{random_.below(500)}, [this, i] { node(i).boot(); });
    plan_faults();
    plan_transactions();
    at(profile_.chaos, [this] { heal(); });
    auto const healed = start_ + profile_.chaos;
    result.healed = healed;
    while (chaos_ || open_ > 0 || !oracle_->all_terminal()) {
      if (!step()) break;
      // Far more than recovery needs: a crash budget of leases, all retries, restarts, and listeners that hang one by
      // one. The events of a key are also delivered one by one.
      auto const one_by_one = profile_.keyed ? written_ * 2s : 0s;
      auto const patience =
          (profile_.max_crashes + 4) * (profile_.lease + 8s) * (1 + profile_.poison) + 120s + stalled_ + one_by_one;
      if (clock_->now() > healed + patience) {
        throw violation{"I10: " + std::to_string(oracle_->pending().size()) + " events, " + oracle_->pending().front() +
                        oracle_->describe(oracle_->pending().front()) + " first, are pending " +
                        std::to_string(std::chrono::duration_cast<std::chrono::seconds>(patience).count()) +
                        " s after everything healed"};
      }
      if (steps_ > step_limit) throw violation{"I10: more steps than any run needs: some loop spins"};
    }
    result.finished = clock_->now();
    // What is terminal stays so, whatever late replies and slow listeners still do.
    auto const later = clock_->now() + 3 * profile_.lease;
    while (clock_->now() < later && step()) {
    }
    oracle_->changed();
    oracle_->check_end();
  } catch (std::exception const& e) {
    result.ok = false;
    result.broken = oracle_->broken().empty() ? e.what() : oracle_->broken();
    trace(0, "BROKEN " + result.broken);
  }
  result.trace = std::move(trace_);
  result.steps = steps_;
  return result;
}

}  // namespace outbox::sim

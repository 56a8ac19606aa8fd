#include "sim/world.hpp"

#include <algorithm>
#include <cstdio>
#include <outbox/error.hpp>

#include "sim/sim_node.hpp"

namespace outbox::sim {

profile profile::draw(core::random_source& r) {
  profile p;
  p.nodes = 1 + static_cast<int>(r.below(4));
  p.exclusive = r.chance(0.25);
  p.workers = 1 + r.below(4);
  p.batch = 1 + r.below(12);
  p.hot = 1 + r.below(30);
  p.cold = 1 + r.below(30);
  p.max_crashes = 2 + static_cast<std::int32_t>(r.below(3));
  p.max_attempts = 1 + static_cast<std::int32_t>(r.below(5));
  p.timeout = r.chance(0.5) ? 5s : 15s;
  p.transactions = 10 + static_cast<int>(r.below(30));
  // Each kind of fault is in the world or not; with none of them there must be no duplicate at all.
  if (r.chance(0.4)) p.fail_before = 0.15 * r.fraction();
  if (r.chance(0.4)) p.fail_after = 0.15 * r.fraction();
  if (r.chance(0.3)) p.fail_later = 0.10 * r.fraction();
  if (r.chance(0.1)) p.refuse = 0.05 * r.fraction();
  if (r.chance(0.5)) p.kills = 1 + static_cast<int>(r.below(5));
  if (r.chance(0.4)) p.freezes = 1 + static_cast<int>(r.below(3));
  if (r.chance(0.3)) p.cuts = 1 + static_cast<int>(r.below(3));
  if (r.chance(0.4)) p.stops = 1 + static_cast<int>(r.below(3));
  if (r.chance(0.25)) p.outages = 1 + static_cast<int>(r.below(3));
  if (r.chance(0.3)) p.ended_sessions = 1 + static_cast<int>(r.below(4));
  if (r.chance(0.5)) p.savepoint = 0.4;
  if (r.chance(0.4)) p.long_transaction = 0.2;
  if (r.chance(0.4)) p.in_doubt = 0.2;
  if (r.chance(0.4)) p.again = 0.3;
  if (r.chance(0.3)) p.follow_up = 0.5;
  if (r.chance(0.4)) p.stall = 0.08;
  if (r.chance(0.3)) p.crash = 0.05;
  if (r.chance(0.3)) p.poison = 1 + static_cast<int>(r.below(2));
  if (r.chance(0.3)) p.fan_out = 0.4;
  if (r.chance(0.3)) p.async = 0.4;
  p.narrow = r.chance(0.5);
  if (r.chance(0.3)) p.purges = 1 + static_cast<int>(r.below(6));
  if (r.chance(0.3)) p.replays = 5 + static_cast<int>(r.below(30));
  if (r.chance(0.2)) p.pauses = 1 + static_cast<int>(r.below(3));
  if (r.chance(0.2)) {
    p.ordered = p.exclusive = true;
    p.workers = 1;
    p.max_attempts = 1;
    p.narrow = false;
  }
  // Not drawn, and not where sessions end: the other seeds stay what they were.
  p.lock_lease = p.exclusive && p.ended_sessions == 0 && p.transactions % 2 == 0;
  return p;
}

world::world(std::uint64_t seed, profile p, coverage& seen) : random_{seed}, profile_{p}, seen_{seen} {
  table_ = memory::open({.clock = clock_,
                         .at_commit = [this] { return std::exchange(next_commit_, memory::commit_fate::ok); },
                         .dispatch_lock = p.lock_lease ? lock_kind::lease : lock_kind::session});
  oracle_ = std::make_unique<oracle>(table_, p.lease, p.max_attempts, p.max_crashes, seen);
  watched_ = std::make_shared<watched_store>(table_, *oracle_);
  if (p.ordered) oracle_->expect_order();
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
  static constexpr char const* operations[] = {"claim",  "settle",      "renew",       "release", "expire",
                                               "lock",   "heartbeat",   "retire",      "purge",   "dead",
                                               "replay", "read pauses", "lock renewal"};
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
  if (written_ <= profile_.poison) return;
  auto const n = static_cast<std::uint64_t>(written_ - profile_.poison);
  auto const id = "e" + std::to_string(profile_.poison + 1 + static_cast<int>(random_.below(n)));
  if (watched_->replay({.ids = {id}}, 1) == 0) return;
  note("replay");
  trace(0, "an operator replays " + id);
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

std::string world::draw_type() {
  if (random_.chance(profile_.fan_out)) return "sim.fan_out";
  return random_.chance(profile_.async) ? "sim.async" : "sim.event";
}

void world::plan_transactions() {
  for (int i = 0; i < profile_.transactions; ++i) {
    auto const index = static_cast<int>(random_.below(static_cast<std::uint64_t>(profile_.nodes)));
    // In bursts, so that slots run out.
    auto const when =
        random_.below(static_cast<std::uint64_t>(profile_.chaos.count())) / 1000 * 1000 + random_.below(20);
    at(milliseconds{when},
       [this, index, c = std::make_shared<counted>(open_transactions_)] { begin_transaction(index, c); });
  }
}

// A caller's transaction. If its process ends first, so does it.
struct world::caller {
  caller(world& w, sim_node& n, std::shared_ptr<counted> c)
      : in{w}, on{n}, core{n.core()}, tx{*w.table_}, open{std::move(c)}, outages{w.outages_} {}
  ~caller() {
    for (auto const& id : kept) in.oracle_->undone(id);
  }
  caller(caller const&) = delete;
  caller& operator=(caller const&) = delete;

  world& in;
  sim_node& on;
  std::weak_ptr<core::node_core> core;
  memory::transaction tx;
  std::shared_ptr<counted> open;
  std::vector<std::string> kept;
  std::vector<event> events;  ///< As many as `kept`.
  int outages;                ///< Of the server, when it began.
};

void world::write_some(caller& c, int count) {
  std::vector<event> events;
  for (int i = 0; i < count; ++i) {
    ++written_;
    event_options o;
    o.id = "e" + std::to_string(written_);
    if (random_.chance(profile_.delayed)) o.deliver_after = milliseconds{1 + random_.below(5000)};
    auto const size = random_.chance(0.1) ? random_.below(9000) : random_.below(40);
    events.push_back(event::json(draw_type(), '"' + std::string(size, 'x') + '"', std::move(o)));
    oracle_->birth(events.back().id(), draw_script(), written_ <= profile_.poison);
    c.kept.push_back(events.back().id());
    c.events.push_back(events.back());
  }
  c.core.lock()->write(join(c.tx), events);
}

// The same ids, after a savepoint has taken the first rows back.
void world::write_again(caller& c, std::size_t from) {
  note("written again in the same transaction");
  c.core.lock()->write(join(c.tx), std::span{c.events}.subspan(from));
}

// The transaction was rolled back, but its node cannot tell; the application tries again on another connection, of the
// same process or of another one.
void world::abandon_and_retry(std::shared_ptr<caller> const& first) {
  note("written again, the first end unseen");
  auto& other = node(static_cast<int>(random_.below(static_cast<std::uint64_t>(profile_.nodes))));
  if (other.alive() && !server_away()) {
    auto const second = std::make_shared<caller>(*this, other, first->open);
    second->kept = first->kept;
    second->events = first->events;
    other.in_process(other.life(), [this, second, &other] {
      second->core.lock()->write(join(second->tx), second->events);
      at(milliseconds{random_.below(30)}, [this, second, &other, life = other.life()] {
        other.in_application(life, [this, second] { end_transaction(second); });
      });
      other.pump();
    });
  } else {
    for (auto const& id : first->kept) oracle_->undone(id);
  }
  first->kept.clear();
  // The node is told some time, or half a lease ends it.
  at(milliseconds{random_.below(static_cast<std::uint64_t>(profile_.lease.count()) * 3 / 2)}, [first] {});
}

// What a hook does after a commit, within the call that ended the transaction.
void world::follow_up(int index) {
  if (!chaos_ || server_away() || !node(index).alive() || !random_.chance(profile_.follow_up)) return;
  note("hook writes in a transaction of its own");
  caller c{*this, node(index), std::make_shared<counted>(open_transactions_)};
  write_some(c, 1);
  next_commit_ = memory::commit_fate::ok;
  c.tx.commit();
  for (auto const& id : c.kept) oracle_->committed(id);
  c.kept.clear();
}

void world::begin_transaction(int index, std::shared_ptr<counted> open) {
  auto& n = node(index);
  n.in_process(n.life(), [this, index, &n, open] {
    if (server_away()) return;  // nothing can be begun
    auto const c = std::make_shared<caller>(*this, n, open);
    write_some(*c, 1 + static_cast<int>(random_.below(4)));
    if (random_.chance(profile_.savepoint)) {
      c->tx.savepoint("mark");
      auto const before = c->kept.size();
      write_some(*c, 1 + static_cast<int>(random_.below(2)));
      if (random_.chance(0.7)) {
        note("savepoint rolled back");
        c->tx.rollback_to("mark");
        if (random_.chance(0.5)) {
          write_again(*c, before);
        } else {
          for (auto i = before; i < c->kept.size(); ++i) oracle_->undone(c->kept[i]);
          c->kept.resize(before);
          c->events.erase(c->events.begin() + static_cast<std::ptrdiff_t>(before), c->events.end());
        }
      }
    }
    bool const is_long = random_.chance(profile_.long_transaction);
    if (is_long) note("long transaction");
    auto const hold =
        is_long ? random_.below(static_cast<std::uint64_t>(profile_.lease.count()) * 3 / 2) : random_.below(30);
    trace(index,
          "writes " + c->kept.front() + " to e" + std::to_string(written_) + (is_long ? " in a long transaction" : ""));
    at(milliseconds{hold},
       [this, c, &n, life = n.life()] { n.in_application(life, [this, c] { end_transaction(c); }); });
    n.pump();
  });
}

void world::end_transaction(std::shared_ptr<caller> const& shared) {
  auto& c = *shared;
  if (chaos_ && random_.chance(profile_.again)) return abandon_and_retry(shared);
  auto const index = [&] {
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (nodes_[i].get() == &c.on) return static_cast<int>(i);
    }
    return -1;
  }();
  if (random_.chance(profile_.roll_back)) {
    note("rollback");
    trace(index, "rolls back " + c.kept.front());
    c.tx.rollback();
    c.on.pump();
    return;
  }
  using enum memory::commit_fate;
  bool const server_died = outages_ != c.outages;
  bool const unsure = server_died || c.on.cut() || (chaos_ && random_.chance(profile_.in_doubt));
  next_commit_ = !unsure               ? ok
                 : server_died         ? lost_undone
                 : random_.chance(0.4) ? lost_applied
                 : random_.chance(0.5) ? lost_undone
                                       : refused;
  bool const applied = next_commit_ == ok || next_commit_ == lost_applied;
  if (unsure) note(applied ? "commit in doubt, applied" : "commit in doubt or refused, undone");
  trace(index, std::string{"commits "} + c.kept.front() + (unsure ? ", but does not know whether it happened" : ""));
  try {
    c.tx.commit();
  } catch (error const&) {  // NOLINT(bugprone-empty-catch): that is the point
  }
  if (applied) {
    for (auto const& id : c.kept) oracle_->committed(id);
    c.kept.clear();
  }
  c.on.pump();
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
    while (chaos_ || open_transactions_ > 0 || !oracle_->all_terminal()) {
      if (!step()) break;
      // Far more than recovery needs: a crash budget of leases, all retries, restarts, and listeners that hang one by
      // one.
      auto const patience =
          (profile_.max_crashes + 4) * (profile_.lease + 8s) * (1 + profile_.poison) + 120s + stalled_;
      if (clock_->now() > healed + patience) {
        throw violation{"I10: " + std::to_string(oracle_->pending().size()) + " events, " + oracle_->pending().front() +
                        " first, are pending " +
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

// The callers of the simulated cluster: their transactions, and how those end.
#include <algorithm>
#include <outbox/error.hpp>

#include "sim/sim_node.hpp"
#include "sim/world.hpp"

namespace outbox::sim {

namespace {

// Hears of the end of a transaction for an observer that is told later: the caller's thread may be slow.
class late_observer final : public transaction_observer {
 public:
  using ends = std::vector<std::function<void()>>;

  late_observer(std::shared_ptr<transaction_observer> to, std::shared_ptr<ends> later)
      : to_{std::move(to)}, later_{std::move(later)} {}
  std::size_t size() const noexcept override { return to_->size(); }
  std::string const& event_id(std::size_t i) const noexcept override { return to_->event_id(i); }
  std::string const& token(std::size_t i) const noexcept override { return to_->token(i); }
  void absent(std::size_t i) noexcept override { to_->absent(i); }
  void committed() noexcept override { keep(&transaction_observer::committed); }
  void rolled_back() noexcept override { keep(&transaction_observer::rolled_back); }
  void committed_in_part() noexcept override { keep(&transaction_observer::committed_in_part); }
  void in_doubt() noexcept override { keep(&transaction_observer::in_doubt); }

 private:
  void keep(void (transaction_observer::*how)() noexcept) {
    later_->push_back([to = to_, how] { (*to.*how)(); });
  }

  std::shared_ptr<transaction_observer> to_;
  std::shared_ptr<ends> later_;
};

}  // namespace

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
    at(milliseconds{when}, [this, index, c = std::make_shared<counted>(open_)] { begin_transaction(index, c); });
  }
}

// What makes the transactions of a key come one by one: the lock on the row of its aggregate, say.
struct world::key_locks {
  explicit key_locks(world& w) : in{w} {}
  ~key_locks() {
    for (auto const k : keys) in.locked_keys_.erase(k);
  }
  key_locks(key_locks const&) = delete;
  key_locks& operator=(key_locks const&) = delete;
  bool take(int k) {
    if (!in.locked_keys_.insert(k).second) return false;
    keys.push_back(k);
    return true;
  }

  world& in;
  std::vector<int> keys;
};

// A caller's transaction. If its process ends first, so does it.
struct world::caller {
  caller(world& w, sim_node& n, std::shared_ptr<counted> c)
      : in{w}, on{n}, core{n.core()}, life{n.life()}, tx{*w.table_}, open{std::move(c)}, outages{w.outages_} {}
  ~caller() {
    for (auto const& id : kept) in.oracle_->undone(id);
    if (!in.profile_.keyed) return;
    tx.rollback();
    tell();
  }
  caller(caller const&) = delete;
  caller& operator=(caller const&) = delete;

  void write(std::span<event const> what) {
    static constexpr transaction_operations operations{
        .kind = "memory",
        .active = [](void const* c) noexcept { return static_cast<caller const*>(c)->tx.active(); },
        .enlist =
            [](void* c, std::shared_ptr<transaction_observer> o) {
              auto& self = *static_cast<caller*>(c);
              return join(self.tx).enlist(std::make_shared<late_observer>(std::move(o), self.ends));
            },
        .run = [](void* c, void (*use)(void*, void*), void* with) { use(with, &static_cast<caller*>(c)->tx); }};
    core.lock()->write(in.profile_.keyed ? transaction_ref{this, operations} : join(tx), what);
  }

  /// The observers hear of the end.
  void tell() {
    for (auto const& each : std::exchange(*ends, {})) each();
  }

  world& in;
  sim_node& on;
  std::weak_ptr<core::node_core> core;
  int life;
  memory::transaction tx;
  std::shared_ptr<counted> open;
  std::shared_ptr<key_locks> locks{};
  std::shared_ptr<late_observer::ends> ends = std::make_shared<late_observer::ends>();
  std::vector<std::string> kept;
  std::vector<event> events;  ///< As many as `kept`.
  int outages;                ///< Of the server, when it began.
};

void world::draw_key(caller const& c, event_options& o) {
  if (!c.locks || c.locks->keys.empty() || random_.chance(profile_.keyless)) return;
  auto const k = c.locks->keys[random_.below(c.locks->keys.size())];
  if (k % 2 == 0) {
    o.ordering_key = "k" + std::to_string(k);
  } else {
    o.aggregate = {"order", std::to_string(k)};
  }
}

void world::write_some(caller& c, int count) {
  std::vector<event> events;
  for (int i = 0; i < count; ++i) {
    ++written_;
    event_options o;
    o.id = "e" + std::to_string(written_);
    if (random_.chance(profile_.delayed)) o.deliver_after = milliseconds{1 + random_.below(5000)};
    if (profile_.keyed) draw_key(c, o);
    auto const size = random_.chance(0.1) ? random_.below(9000) : random_.below(40);
    events.push_back(event::json(draw_type(), '"' + std::string(size, 'x') + '"', std::move(o)));
    oracle_->birth(events.back().id(), draw_script(), written_ <= profile_.poison);
    c.kept.push_back(events.back().id());
    c.events.push_back(events.back());
  }
  c.write(events);
}

// The same ids, after a savepoint has taken the first rows back.
void world::write_again(caller& c, std::size_t from) {
  note("written again in the same transaction");
  c.write(std::span{c.events}.subspan(from));
}

// The transaction was rolled back, but its node cannot tell; the application tries again on another connection, of the
// same process or of another one.
void world::abandon_and_retry(std::shared_ptr<caller> const& first) {
  note("written again, the first end unseen");
  auto& other = node(static_cast<int>(random_.below(static_cast<std::uint64_t>(profile_.nodes))));
  if (other.alive() && !server_away()) {
    auto const second = std::make_shared<caller>(*this, other, first->open);
    second->locks = std::exchange(first->locks, nullptr);
    second->kept = first->kept;
    second->events = first->events;
    other.in_process(other.life(), [this, second, &other] {
      second->write(second->events);
      at(milliseconds{random_.below(30)}, [this, second, &other, life = other.life()] {
        other.in_application(life, [this, second] { end_transaction(second); });
      });
      other.pump();
    });
  } else {
    for (auto const& id : first->kept) oracle_->undone(id);
  }
  first->kept.clear();
  first->locks.reset();
  // The node is told some time, or half a lease ends it.
  at(milliseconds{random_.below(static_cast<std::uint64_t>(profile_.lease.count()) * 3 / 2)}, [first] {});
}

// What a hook does after a commit, within the call that ended the transaction.
void world::follow_up(int index) {
  if (!chaos_ || server_away() || !node(index).alive() || !random_.chance(profile_.follow_up)) return;
  note("hook writes in a transaction of its own");
  caller c{*this, node(index), std::make_shared<counted>(open_)};
  if (profile_.keyed && !lock_keys(c, 1)) return;
  write_some(c, 1);
  next_commit_ = memory::commit_fate::ok;
  c.tx.commit();
  for (auto const& id : c.kept) oracle_->committed(id);
  c.kept.clear();
  c.locks.reset();
  c.tell();
}

// Some keys, or nothing if another transaction has one of them.
bool world::lock_keys(caller& c, int most) {
  auto const locks = std::make_shared<key_locks>(*this);
  for (auto n = 1 + random_.below(static_cast<std::uint64_t>(most)); n > 0; --n) {
    auto const k = static_cast<int>(random_.below(static_cast<std::uint64_t>(profile_.keys)));
    bool const has = std::ranges::find(locks->keys, k) != locks->keys.end();
    if (!has && !locks->take(k)) return false;
  }
  c.locks = locks;
  return true;
}

// The transaction goes on: with a key that it had, or with another one.
void world::write_more(caller& c) {
  auto const k = static_cast<int>(random_.below(static_cast<std::uint64_t>(profile_.keys)));
  if (random_.chance(0.5)) c.locks->take(k);
  note("second write of a transaction");
  write_some(c, 1 + static_cast<int>(random_.below(3)));
}

void world::begin_transaction(int index, std::shared_ptr<counted> open) {
  auto& n = node(index);
  n.in_process(n.life(), [this, index, &n, open] {
    if (server_away()) return;  // nothing can be begun
    auto const c = std::make_shared<caller>(*this, n, open);
    if (profile_.keyed && !lock_keys(*c, 3)) {
      at(milliseconds{1 + random_.below(40)}, [this, index, open] { begin_transaction(index, open); });
      return;
    }
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
    if (profile_.keyed && random_.chance(profile_.second_write)) {
      at(milliseconds{hold / 2}, [this, w = std::weak_ptr{c}, &n, life = n.life()] {
        n.in_process(life, [this, w] {
          auto const alive = w.lock();
          if (alive && alive->locks && !server_away()) write_more(*alive);
        });
      });
    }
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
    for (auto const& id : c.kept) oracle_->undone(id);
    c.kept.clear();
    tell_later(shared);
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
    if (random_.chance(profile_.withdraw)) {
      at(milliseconds{random_.below(100)}, [this, ids = c.kept] { withdraw(ids); });
    }
    c.kept.clear();
  }
  tell_later(shared);
  c.on.pump();
}

// The locks are free when the transaction ends. Its process may hear of that later than of the next one of the key.
void world::tell_later(std::shared_ptr<caller> const& c) {
  c->locks.reset();
  if (!profile_.keyed || !random_.chance(profile_.late_hook)) return c->tell();
  note("end of a transaction heard late");
  at(milliseconds{random_.below(random_.chance(0.2) ? 1500 : 60)}, [this, c, &n = c->on, life = c->life] {
    n.in_application(life, [this, c, &n] {
      c->tell();
      n.pump();
    });
  });
}

}  // namespace outbox::sim

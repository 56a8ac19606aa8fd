// A cluster in one thread: virtual time, nodes that are killed, frozen and cut off, and callers that write.
//
// Everything follows from one seed. Each node is the real engine with the real steps; only the threads are missing: the
// world carries requests to the table and back, with delays, so that requests of one node overlap.
#pragma once

#include <functional>
#include <memory>
#include <outbox/memory.hpp>
#include <outbox/testing.hpp>
#include <queue>
#include <string>
#include <vector>

#include "core/base/random.hpp"
#include "core/node/node_core.hpp"
#include "sim/oracle.hpp"

namespace outbox::sim {

using namespace std::chrono_literals;
using std::chrono::microseconds;
using std::chrono::milliseconds;

/// What a seed draws: which faults there are, and how often. Few kinds at a time find more than all at once.
struct profile {
  int nodes = 2;
  bool exclusive = false;   ///< single_node: one works, the others stand by.
  bool ordered = false;     ///< Exclusive, and in order.
  bool lock_lease = false;  ///< The dispatch lock is a lease and not a session.
  bool narrow = false;      ///< The asynchronous route has a limit.
  std::size_t workers = 2;
  std::size_t batch = 10;
  std::size_t hot = 20;
  std::size_t cold = 20;
  std::size_t bytes = 64 << 10;
  milliseconds lease = 10s;
  milliseconds poll_every = 2s;
  milliseconds timeout = 5s;
  std::int32_t max_attempts = 4;
  std::int32_t max_crashes = 3;
  int transactions = 25;
  milliseconds chaos = 60s;  ///< How long faults and writes go on.

  double fail_before = 0, fail_after = 0, fail_later = 0, refuse = 0;  ///< Share of requests.
  int kills = 0, freezes = 0, cuts = 0, stops = 0;
  int outages = 0, ended_sessions = 0;  ///< Of the server: of all nodes at once, or only of the lock's holder.
  double roll_back = 0.1, savepoint = 0, long_transaction = 0, in_doubt = 0, delayed = 0.05;
  double again = 0;      ///< Share of transactions whose end the node does not see, and that are tried again elsewhere.
  double follow_up = 0;  ///< Share of commits after which a hook writes in a transaction of its own.
  double stall = 0, misbehave = 0.2, crash = 0;
  int poison = 0;
  double fan_out = 0, async = 0;  ///< Share of events for such a listener.
  int purges = 0, replays = 0, pauses = 0;

  // Order per key. Writers of one key come one by one.
  bool keyed = false;
  int keys = 0;
  double keyless = 0;        ///< Share of events without a key.
  bool skip = false;         ///< A DEAD event does not park its key.
  bool keeps_order = false;  ///< The asynchronous listener does.
  double late_hook = 0;      ///< Share of transactions whose process hears of their end late.
  double second_write = 0;   ///< Share of transactions that write twice.
  double no_receipt = 0;     ///< Share of inserts that cannot tell where their rows stand.
  int discards = 0;
  double withdraw = 0;    ///< Share of commits after which an operator cancels and discards one of their events.
  bool stepwise = false;  ///< Statements of different nodes interleave: stepwise_store.hpp.
  bool slow_statements = false;

  [[nodiscard]] static profile draw(core::random_source& r);
  [[nodiscard]] static profile draw_keyed(core::random_source& r);
};

struct outcome_of_run {
  bool ok = true;
  std::string broken;  ///< The rule and what broke it.
  std::vector<std::string> trace;
  std::uint64_t steps = 0;
  instant healed{}, finished{};  ///< When faults ended, and when the last event did.
};

class sim_node;
class stepwise_store;

class world {
 public:
  world(std::uint64_t seed, profile p, coverage& seen);
  ~world();

  [[nodiscard]] outcome_of_run run();

  // For nodes.
  void at(milliseconds in, std::function<void()> what) { at_us(in, std::move(what)); }
  void at_us(microseconds in, std::function<void()> what);
  [[nodiscard]] microseconds latency();
  [[nodiscard]] testing::fault next_fault(int node, testing::operation what);
  void trace(int node, std::string const& text);
  void note(std::string const& what) { seen_[what] += 1; }
  void restart_later(int node);
  void follow_up(int node);

  [[nodiscard]] core::random_source& random() noexcept { return random_; }
  [[nodiscard]] profile const& settings() const noexcept { return profile_; }
  [[nodiscard]] oracle& judge() noexcept { return *oracle_; }
  [[nodiscard]] bool chaos() const noexcept { return chaos_; }
  [[nodiscard]] std::shared_ptr<testing::manual_clock> const& clock() const noexcept { return clock_; }
  [[nodiscard]] std::shared_ptr<outbox::store> const& table() const noexcept { return table_; }
  [[nodiscard]] std::shared_ptr<outbox::store> watched() const noexcept { return watched_; }
  /// Null: each request of a node is one step.
  [[nodiscard]] stepwise_store* server() const noexcept { return server_.get(); }
  [[nodiscard]] bool server_away() const noexcept { return clock_->now() < away_until_; }
  [[nodiscard]] sim_node& node(int i) noexcept { return *nodes_[static_cast<std::size_t>(i)]; }

 private:
  struct happening {
    instant when;
    std::uint64_t tie;  ///< Random, so that simultaneous things happen in any order.
    std::function<void()> what;
    friend bool operator<(happening const& a, happening const& b) {
      return a.when != b.when ? a.when > b.when : a.tie > b.tie;
    }
  };

  /// Counts as long as it lives, and in as many hands as it is.
  struct counted {
    explicit counted(int& n) : count{n} { ++count; }
    ~counted() { --count; }
    counted(counted const&) = delete;
    counted& operator=(counted const&) = delete;
    int& count;
  };

  void plan_faults();
  void plan_transactions();
  void begin_transaction(int node, std::shared_ptr<counted> open);
  void outage();
  void end_session();
  void disturb_all(milliseconds length = {});
  void purge();
  void replay();
  void discard();
  void discard(std::string const& id);
  void withdraw(std::vector<std::string> const& ids);
  void pause();
  void resume_all();
  void heal();
  struct caller;
  struct key_locks;
  [[nodiscard]] bool lock_keys(caller& c, int most);
  void draw_key(caller const& c, event_options& o);
  void write_more(caller& c);
  void tell_later(std::shared_ptr<caller> const& c);
  void write_some(caller& c, int count);
  void write_again(caller& c, std::size_t from);
  void abandon_and_retry(std::shared_ptr<caller> const& first);
  void end_transaction(std::shared_ptr<caller> const& c);
  [[nodiscard]] std::vector<act> draw_script();
  [[nodiscard]] std::string draw_type();
  bool step();

  core::random_source random_;
  profile profile_;
  coverage& seen_;
  std::shared_ptr<testing::manual_clock> clock_ = std::make_shared<testing::manual_clock>();
  memory::commit_fate next_commit_ = memory::commit_fate::ok;
  std::shared_ptr<outbox::store> table_;
  std::unique_ptr<oracle> oracle_;
  std::shared_ptr<watched_store> watched_;
  instant away_until_{};  ///< The server is.
  int outages_ = 0;
  std::vector<std::unique_ptr<sim_node>> nodes_;
  std::unique_ptr<stepwise_store> server_;
  int open_ = 0;  ///< Transactions and discards, planned ones too: they may be late.
  std::set<int> locked_keys_;
  std::priority_queue<happening> queue_;
  std::vector<std::string> trace_;
  instant start_{};
  bool chaos_ = true;
  int written_ = 0;
  std::uint64_t steps_ = 0;
  milliseconds stalled_{};  ///< How long listeners will hang in all.
};

}  // namespace outbox::sim

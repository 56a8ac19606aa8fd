// A server whose statements take time: those of different sessions interleave.
//
// The rows are those of the memory store, which has what is committed. What a transaction has changed is its own until
// it commits, and it has the locks of these rows until it ends. A statement sees what was committed when it began, and
// what its own transaction did; it looks again at each row when it has the lock. A claim is look, run, take and, behind
// the COMMIT, the note; a settlement unblocks in a second statement of its transaction.
//
// Each function is a coroutine: it begins at once, and goes on when the world says so.
#pragma once

#include <coroutine>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <outbox/spi/claim_filter.hpp>
#include <set>
#include <string>
#include <vector>

#include "memory/database.hpp"
#include "sim/world.hpp"

namespace outbox::sim {

/// The process that waits for an answer in the middle of its transaction.
struct client {
  std::function<bool()> is_frozen;
  std::function<bool()> is_gone;  ///< Or cannot be reached.
};

class stepwise_store {
 public:
  using seq_t = std::int64_t;
  using rows = std::map<seq_t, row_view>;
  using settled_rows = std::map<std::string, std::set<seq_t>>;  ///< Of each key.

  /// Is called when the request has ended; without a value, it failed and had no effect.
  template <class Reply>
  using told = std::function<void(std::optional<Reply>)>;

  stepwise_store(world& w, memory::database& table, oracle& o) : world_{w}, table_{table}, oracle_{o} {}
  ~stepwise_store();
  stepwise_store(stepwise_store const&) = delete;
  stepwise_store& operator=(stepwise_store const&) = delete;

  class step;
  step claim(client who, claim_request r, told<claim_reply> tell);
  step settle(std::vector<settlement> items, told<spi::settle_reply> tell);
  step renew(std::vector<row_handle> handles, milliseconds lease, told<std::vector<bool>> tell);
  step discard(std::string id, std::shared_ptr<void> while_open);  ///< Keeps it until the end.

  /// At once; leaves rows that others have locked.
  std::size_t release(std::span<owner_token const> tokens);
  [[nodiscard]] bool is_locked(std::string_view id) const;

  /// The server ends: what is under way is undone.
  void restart();

 private:
  struct session;
  struct looked {
    row_view row;
    std::string key, before;
    bool next_blocked;
  };
  struct noting {
    seq_t row, before;
  };
  struct waiter {
    session* who;
    seq_t seq;
    std::coroutine_handle<> go_on;
  };
  struct pause;
  struct lock_of;

  // What statements do.
  [[nodiscard]] rows view(session const& s) const;
  [[nodiscard]] std::vector<looked> look(session& s, claim_request const& r, rows const& seen, instant at);
  [[nodiscard]] std::vector<row_view> follow(session& s, rows const& seen, row_view const& head, std::size_t room,
                                             instant at);
  static void choose(std::vector<looked> const& found, claim_filter& filter, std::vector<seq_t>& take,
                     std::vector<seq_t>& dead, std::vector<seq_t>& note, std::vector<looked const*>& heads);
  static void run(std::vector<row_view> const& behind, std::string const& key, claim_filter& filter,
                  std::vector<seq_t>& take);
  void take(session& s, claim_request const& r, std::vector<seq_t> const& chosen, std::vector<seq_t> const& dead,
            claim_reply& reply);
  [[nodiscard]] std::vector<noting> to_note(rows const& seen, std::vector<seq_t> const& chosen) const;
  std::size_t note(session& s, std::vector<noting> const& pairs);
  [[nodiscard]] std::vector<seq_t> next_blocked(rows const& seen, settled_rows const& settled) const;
  bool settle_one(session& s, seq_t seq, settlement const& item);
  void unblock(session& s, seq_t seq);

  // Sessions.
  [[nodiscard]] bool is_parking(session const& s, seq_t seq) const;
  [[nodiscard]] row_view const* latest(session const& s, seq_t seq) const;
  [[nodiscard]] bool try_lock(session& s, seq_t seq);
  void unlock(session& s);
  [[nodiscard]] bool would_wait_for_itself(session const& s, seq_t seq) const;
  void commit(session& s);
  [[nodiscard]] microseconds length();
  [[nodiscard]] microseconds commit_length();
  [[nodiscard]] pause statement(session& s);

  // Lines.
  [[nodiscard]] static bool in_line(row_view const& r);
  [[nodiscard]] static std::vector<row_view const*> line(rows const& of, std::string const& key);
  [[nodiscard]] std::optional<seq_t> seq_of(std::string_view id) const;
  [[nodiscard]] instant now() const { return world_.clock()->now(); }

  world& world_;
  memory::database& table_;
  oracle& oracle_;
  std::map<seq_t, session*> locks_;
  std::list<waiter> waiters_;
  std::set<session*> sessions_;
  std::map<std::string, int> leaving_;  ///< Transactions under way that take rows of a key out of line.
  std::set<void*> under_way_;           ///< Frames of coroutines.
};

class stepwise_store::step {
 public:
  struct promise_type {
    template <class... Args>
    explicit promise_type(stepwise_store& s, Args&&... /*unused*/) : in{s} {
      in.under_way_.insert(std::coroutine_handle<promise_type>::from_promise(*this).address());
    }
    ~promise_type() { in.under_way_.erase(std::coroutine_handle<promise_type>::from_promise(*this).address()); }
    promise_type(promise_type const&) = delete;
    promise_type& operator=(promise_type const&) = delete;
    step get_return_object() noexcept { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    void unhandled_exception() noexcept {}  // the oracle remembers what it threw

    stepwise_store& in;
  };
};

}  // namespace outbox::sim

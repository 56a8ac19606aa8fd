// Help for tests: a clock that stands still, and a store that fails on demand.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <outbox/clock.hpp>
#include <outbox/detail/testing_export.hpp>
#include <outbox/store.hpp>

namespace outbox::inline v0::testing {

/// A clock that moves only when it is told to. Safe to use from several threads.
class OUTBOX_TESTING_EXPORT manual_clock final : public clock {
 public:
  /// Starts at 2030-01-01 00:00:00 UTC, or at `start`.
  manual_clock();
  explicit manual_clock(instant start);
  ~manual_clock() override;

  [[nodiscard]] instant now() const noexcept override;
  [[nodiscard]] steady_time steady() const noexcept override;

  /// Both calendar and steady time.
  void advance(std::chrono::microseconds by) noexcept;

  /// Calendar time only, forward or back: what an operator does to a machine's clock.
  void jump(std::chrono::microseconds by) noexcept;

 private:
  struct state;
  std::unique_ptr<state> state_;
};

/// The operations of a store that can be made to fail. An insert never is: it belongs to the caller's transaction.
enum class operation {
  claim,
  settle,
  renew,
  release,
  expire_others,
  dispatch_lock,
  announce,
  retire,
  purge,
  dead,
  replay
};

/// What happens to one call.
enum class fault {
  none,
  before,   ///< Throws unavailable, without effect.
  after,    ///< Takes effect, then throws unavailable: the reply was lost.
  later,    ///< Throws unavailable; takes effect when `run_late()` is called.
  refused,  ///< Throws store_failure, without effect.
};

/// A store in front of another one that fails as a function says.
class OUTBOX_TESTING_EXPORT faulty_store final : public store {
 public:
  using oracle = std::function<fault(operation)>;

  faulty_store(std::shared_ptr<store> behind, oracle next);
  ~faulty_store() override;

  /// The calls that took no effect yet.
  [[nodiscard]] std::size_t late() const noexcept;

  /// Lets the oldest late call take effect; what it throws or returns is nobody's any more. False if there is none.
  bool run_late();

  store_capabilities capabilities() const noexcept override;
  void insert(transaction_ref tx, std::span<insertion const> rows) override;
  claim_reply claim(claim_request const& request) override;
  std::vector<bool> settle(std::span<settlement const> items) override;
  std::vector<bool> renew(std::span<row_handle const> rows, std::chrono::milliseconds lease) override;
  std::size_t release(std::string_view token) override;
  std::unique_ptr<dispatch_lock> try_dispatch_lock(std::string_view incarnation) override;
  void announce(node_row const& node) override;
  void retire(std::string_view incarnation) override;
  std::size_t purge(purge_request const& request) override;
  std::size_t purge_by_age(age_purge_request const& request) override;
  std::vector<dead_event> dead(dead_filter const& filter, std::size_t limit) override;
  std::uint64_t count_dead(dead_filter const& filter) override;
  bool replay(std::string_view id) override;
  std::size_t replay_some(dead_filter const& filter, instant died_by, std::size_t limit) override;
  instant now() override;
  std::uint64_t change_counter() noexcept override;
  inspector& inspect() override;

 private:
  struct state;
  class faulty_lock;
  std::shared_ptr<state> state_;
};

}  // namespace outbox::inline v0::testing

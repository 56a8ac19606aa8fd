// Help for tests of your own: a clock that stands still, what was delivered and written, and a store that fails on
// demand. Together with `memory::open()` and `node::run_until_idle()` a test needs no thread and no waiting: see
// examples/test_a_listener.cpp.
/// \file
///
///     TEST_F(InvoiceListener, WaitsAnHourForABusyBank) {
///       the_bank.status = 429;
///       write("2030-1");
///       box.run_until_idle();
///       the_bank.status = 200;
///       clock->advance(59min);
///       EXPECT_EQ(box.run_until_idle(), 0U);
///       clock->advance(1min);
///       EXPECT_EQ(box.run_until_idle(), 1U);
///       EXPECT_EQ(row("2030-1").attempts, 0) << "a deferral is not counted";
///     }
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <outbox/clock.hpp>
#include <outbox/detail/testing_export.hpp>
#include <outbox/event.hpp>
#include <outbox/hooks.hpp>
#include <outbox/node.hpp>
#include <outbox/result.hpp>
#include <outbox/spi/forwarding_store.hpp>
#include <outbox/store.hpp>
#include <string>
#include <vector>

namespace outbox::inline v0::testing {

/// A clock that moves only when it is told to. Thread-safe.
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

/// Alternates `n.run_until_idle()` with steps of the clock that grow while nothing happens, until nothing is pending or
/// `within` has passed on the clock. Returns the number of deliveries. No backoff takes real time. Time passes for
/// everything, so listeners that answer later may run into their timeouts.
OUTBOX_TESTING_EXPORT std::size_t run_until_done(node& n, manual_clock& clock, store& table,
                                                 std::chrono::milliseconds within = std::chrono::hours{24});

/// One call of a listener and its result.
struct recorded_delivery {
  outbox::v0::event event;            ///< The event.
  std::int32_t attempt = 0;           ///< `delivery::attempt`.
  outbox::v0::path path = path::hot;  ///< `delivery::path`.
  bool maybe_duplicate = false;       ///< `delivery::maybe_duplicate`.
  result answer = done;               ///< What the listener returned, or what its exception means.
};

/// An interceptor that writes down every delivery: `.interceptors = {recorder}`. Thread-safe.
class OUTBOX_TESTING_EXPORT recorder final : public interceptor {
 public:
  ~recorder() override;
  void after(delivery const& d, result const& r) override;

  [[nodiscard]] std::vector<recorded_delivery> deliveries() const;
  [[nodiscard]] std::vector<std::string> ids() const;                ///< Of the events, in order.
  [[nodiscard]] std::size_t count(std::string_view event_id) const;  ///< How often this one was delivered.
  void clear();

 private:
  mutable std::mutex mutex_;
  std::vector<recorded_delivery> deliveries_;
};

/// A writer hook that writes down what it hears of: `.hook = hook`. Thread-safe.
class OUTBOX_TESTING_EXPORT recording_hook final : public writer_hook {
 public:
  ~recording_hook() override;
  void after_write(std::span<event const> events) override;
  void after_commit(std::span<event const> events) override;
  void after_rollback(std::span<event const> events) override;

  // Ids of events, in order.
  [[nodiscard]] std::vector<std::string> written() const;
  [[nodiscard]] std::vector<std::string> committed() const;
  [[nodiscard]] std::vector<std::string> rolled_back() const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> written_, committed_, rolled_back_;
};

/// The operations of a store that can be made to fail. An insert never is: it belongs to the caller's transaction.
enum class operation {
  claim,
  settle,
  renew,
  release,
  expire_others,
  dispatch_lock,
  heartbeat,
  retire,
  purge,
  dead,
  replay,
  pause,
  renew_lock,  ///< Of a dispatch lock that is a lease.
  places,
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
class OUTBOX_TESTING_EXPORT faulty_store final : public spi::forwarding_store {
 public:
  using oracle = std::function<fault(operation)>;

  faulty_store(std::shared_ptr<outbox::v0::store> behind, oracle next);
  ~faulty_store() override;

  /// The calls that took no effect yet.
  [[nodiscard]] std::size_t late() const noexcept;

  /// Lets the oldest late call take effect; its result or exception is discarded. Returns false if there is none.
  bool run_late();

  spi::claim_reply claim(spi::claim_request const& request) override;
  spi::settle_reply settle(std::span<spi::settlement const> items) override;
  std::vector<bool> renew(std::span<spi::row_handle const> rows, std::chrono::milliseconds lease) override;
  std::vector<spi::place> places(std::span<std::string const> ids) override;
  std::size_t release(std::span<owner_token const> tokens, std::chrono::milliseconds lease) override;
  std::unique_ptr<spi::dispatch_lock> try_dispatch_lock(std::string_view incarnation,
                                                        std::chrono::milliseconds lease) override;
  void heartbeat(node_row const& node) override;
  void retire(std::string_view incarnation) override;
  using spi::forwarding_store::purge;
  std::size_t purge(spi::purge_request const& request) override;
  std::size_t purge_by_age(spi::age_purge_request const& request) override;
  std::vector<row_view> list(event_filter const& filter, spi::list_order order, std::size_t limit) override;
  std::uint64_t count(event_filter const& filter, std::uint64_t up_to) override;
  std::size_t replay(event_filter const& filter, std::size_t limit) override;
  spi::table_settings settings() override;
  bool pause(route_pause const& what) override;
  bool resume(route_pause const& what) override;

 private:
  struct state;
  class faulty_lock;
  std::shared_ptr<state> state_;
};

}  // namespace outbox::inline v0::testing

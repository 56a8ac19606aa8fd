// The state of a table for a scrape: read now and then, and never by the thread that answers the scrape.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <outbox/clock.hpp>
#include <outbox/spi/store.hpp>
#include <stop_token>
#include <thread>

namespace outbox_tool {

/// Has a thread of its own, which asks the store for its overview when a scrape wants it. Thread-safe. Destroying it
/// waits for a read that is under way, which the store's own timeout bounds.
class table_watch {
 public:
  /// Counts stop here, so that a scrape costs the same on a large table.
  static constexpr std::uint64_t count_limit = 10'000;
  static constexpr std::size_t most_parked = 1000;
  /// However often the table is scraped, it is read once in this time.
  static constexpr std::chrono::seconds pause{15};
  /// A table that takes longer than this to answer is down.
  static constexpr std::chrono::seconds patience{5};
  /// Older figures are not shown.
  static constexpr std::chrono::seconds age_limit{60};

  using clock = std::function<outbox::steady_time()>;

  explicit table_watch(
      std::shared_ptr<outbox::store> of, clock now = [] { return std::chrono::steady_clock::now(); });
  table_watch(table_watch const&) = delete;
  table_watch& operator=(table_watch const&) = delete;
  ~table_watch() = default;

  /// Begins to read the table if the last read began long enough ago. Returns true if it did.
  bool ask();

  /// Waits until no read is under way, at most until `deadline` by the real clock.
  void wait_until(std::chrono::steady_clock::time_point deadline);

  struct state {
    std::optional<bool> up{};                               ///< Empty: not known yet, or the store has no overview.
    std::optional<outbox::spi::table_overview> overview{};  ///< Empty unless it is up.

    /// The number of parked keys, up to `most_parked`. Empty unless it is up and could keep the order of keys.
    std::optional<std::size_t> parked{};
  };
  [[nodiscard]] state known() const;

 private:
  void run(std::stop_token const& stop);

  std::shared_ptr<outbox::store> const store_;
  clock const now_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  bool wanted_ = false;                       ///< A read was asked for and has not begun.
  bool reading_ = false;                      ///< A read is under way.
  std::optional<outbox::steady_time> began_;  ///< When the last read was asked for.
  state last_;                                ///< What the last read found.
  outbox::steady_time read_at_{};             ///< When that read was asked for.
  std::jthread thread_;                       ///< Last: it uses the others.
};

}  // namespace outbox_tool

// What a process remembers about the rows of a table that has no columns for it: owners, leases, attempts, due
// instants.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <outbox/clock.hpp>
#include <outbox/spi/store.hpp>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace outbox::inline v0::sql {

/// What is remembered about one pending row.
struct remembered_row {
  std::string event_type{}, aggregate_type{};
  owner_token owner{};                   ///< Empty: none.
  std::optional<instant> lease_until{};  ///< Set if there is an owner.
  instant due{};                         ///< Not claimed before this instant.
  std::int32_t attempts = 0;
  std::int32_t crashes = 0;
  bool retry = false;  ///< An attempt failed: the row counts as RETRY.
  std::string error{};
  std::string progress{};

  /// The first instant at which a claim may take the row.
  [[nodiscard]] instant claimable_at() const noexcept { return lease_until && *lease_until > due ? *lease_until : due; }

  /// True if forgetting it changes nothing.
  [[nodiscard]] bool says_nothing(instant now) const noexcept {
    return owner.empty() && due <= now && attempts == 0 && crashes == 0 && !retry && error.empty() && progress.empty();
  }
};

/// Thread-safe. Its lock is never held while the database is asked.
class row_memory {
 public:
  using rows = std::unordered_map<std::string, remembered_row>;

  /// Runs `f` with all rows, alone.
  template <class F>
  auto with(F&& f) {
    std::lock_guard const lock{mutex_};
    return std::forward<F>(f)(rows_);
  }

  /// The row, if anything is remembered about it.
  [[nodiscard]] std::optional<remembered_row> find(std::string const& id);

  /// True if the token owns the row.
  [[nodiscard]] bool owns(spi::row_handle const& row);

  void forget(std::string const& id);

  /// Gives the row a new lease if the token still owns it.
  [[nodiscard]] bool renew(spi::row_handle const& row, instant until);

  /// Takes the owner of a row away without a crash.
  void release(std::string const& id, instant now);

  /// Releases every row that one of the tokens owns and whose lease still runs, until `latest` at most. Returns their
  /// number.
  [[nodiscard]] std::size_t release(std::span<owner_token const> tokens, instant now, instant latest);

  /// Ends now the leases of owners of other incarnations. Returns their number.
  [[nodiscard]] std::size_t expire_others(std::string_view incarnation, instant now);

  /// Forgets rows without an owner that a look at all pending rows has not seen.
  void keep_only(std::unordered_set<std::string> const& seen);

  /// The first instant after `now` at which a row can be claimed that no pause covers.
  [[nodiscard]] std::optional<instant> next_due(instant now, std::vector<route_pause> const& pauses);

  /// The number of rows that count as RETRY.
  [[nodiscard]] std::uint64_t retries();

 private:
  std::mutex mutex_;
  rows rows_;
};

}  // namespace outbox::inline v0::sql

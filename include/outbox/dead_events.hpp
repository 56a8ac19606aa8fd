// Dead events: what they are, and how they are given another chance.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <outbox/detail/core_export.hpp>
#include <outbox/store.hpp>
#include <string_view>
#include <utility>
#include <vector>

namespace outbox::inline v0 {

/// Looks at the events that died, and replays them. A cheap handle, safe to use from several threads.
///
/// Everything throws `error` if the store cannot be asked: a tool must tell failure from nothing. A filter or an id
/// that no event can have, such as one that is not UTF-8, matches nothing.
class OUTBOX_CORE_EXPORT dead_events {
 public:
  /// On any store; `replayed` is called after something was replayed, so that somebody can be woken. Throws `error`
  /// (invalid_option) if there is no store.
  explicit dead_events(std::shared_ptr<store> s, std::function<void()> replayed = {});

  /// In the order of writing, at most `limit`.
  [[nodiscard]] std::vector<dead_event> query(dead_filter const& filter = {}, std::size_t limit = 100) const;
  [[nodiscard]] std::uint64_t count(dead_filter const& filter = {}) const;

  /// Makes one NEW again, as if it had never been tried; what `fan_out` has done stays done. False if it is not dead.
  bool replay(std::string_view event_id) const;

  /// All that match and were dead when this began, `batch` at a time; how many. One that dies again meanwhile is not
  /// touched twice. If a batch fails, `error::rows_changed()` says how many were replayed before it.
  std::uint64_t replay_all(dead_filter const& filter = {}, std::size_t batch = 100) const;

 private:
  [[nodiscard]] spi::store& table() const;  ///< Throws `error` (lifecycle) if this was moved from.

  std::shared_ptr<store> store_;
  std::function<void()> replayed_;
};

}  // namespace outbox::inline v0

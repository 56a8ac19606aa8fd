// Dead events: what they are, and how they are given another chance or leave the order of their key.
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

/// Lists the dead events of a table, replays them, and discards those that park a key. A cheap handle.
///
/// Thread-safe. It keeps the store alive.
///
/// Every function throws `error` if the store cannot be asked, or has no filters (unsupported). A filter or an id that
/// no event can have, such as text that is not UTF-8, matches nothing.
class OUTBOX_CORE_EXPORT dead_events {
 public:
  /// Calls `changed` after it has replayed or discarded something, so that a node can be woken. Throws `error`
  /// (invalid_option) if `s` is null.
  explicit dead_events(std::shared_ptr<store> s, std::function<void()> changed = {});

  /// Returns the dead events that match, in the order of writing, at most `limit`.
  [[nodiscard]] std::vector<dead_event> query(dead_filter const& filter = {}, std::size_t limit = 100) const;

  /// Returns the number of dead events that match.
  [[nodiscard]] std::uint64_t count(dead_filter const& filter = {}) const;

  /// Makes a dead event NEW, as if it had never been tried. Children of a `fan_out` that are done stay done. Returns
  /// false if the event is not dead.
  bool replay(std::string_view event_id) const;

  /// Replays all events that match and were dead when the call began, `batch` at a time. Returns their number. An event
  /// that becomes dead again meanwhile is not replayed twice. If a batch fails, `error::rows_changed()` has the number
  /// of events that were replayed before it.
  std::uint64_t replay_all(dead_filter const& filter = {}, std::size_t batch = 100) const;

  /// Takes a dead event out of the order of its key, so that the events behind it go on. It stays DEAD and is purged
  /// like any dead event. If it is replayed, it runs beside the order. Returns false if the event is not dead or does
  /// not stand in an order. Throws `error` (unsupported) if the store keeps no order per key.
  bool discard(std::string_view event_id) const;

  /// Discards all events that match and were dead when the call began, `batch` at a time, the oldest first. Returns
  /// their number; events that stand in no order are left out. If a batch fails, `error::rows_changed()` has the number
  /// of events that were discarded before it. Throws `error` (unsupported) if the store keeps no order per key.
  std::uint64_t discard_all(dead_filter const& filter = {}, std::size_t batch = 100) const;

 private:
  [[nodiscard]] spi::store& table() const;  ///< Throws `error` (lifecycle) if this was moved from.
  [[nodiscard]] spi::store& table_with_keys() const;

  std::shared_ptr<store> store_;
  std::function<void()> changed_;
};

}  // namespace outbox::inline v0

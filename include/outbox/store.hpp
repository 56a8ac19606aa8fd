// A store as an application sees it: something to open, to hand to nodes, and to look into.
//
// What a store does for a node is declared in <outbox/spi/store.hpp>, for authors of stores.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <outbox/clock.hpp>
#include <outbox/detail/core_export.hpp>
#include <outbox/event.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace outbox::inline v0 {

namespace spi {
class store;
}

/// As stored: NEW and RETRY are pending, DONE and DEAD are terminal.
enum class event_status : std::uint8_t {
  created = 0,    ///< NEW
  delivered = 1,  ///< DONE
  retry = 2,      ///< RETRY
  dead = 3,       ///< DEAD
};

[[nodiscard]] OUTBOX_CORE_EXPORT std::string_view name(event_status s) noexcept;

/// Who holds a row: "<incarnation>/<number>". At most 128 characters.
using owner_token = std::string;

/// Events that are not to be delivered for now: of one type, and of one aggregate type or of all.
struct route_pause {
  std::string event_type{};
  std::string aggregate_type{};  ///< Empty: every one.

  [[nodiscard]] bool covers(std::string_view aggregate, std::string_view type) const noexcept {
    return type == event_type && (aggregate_type.empty() || aggregate == aggregate_type);
  }
  friend bool operator==(route_pause const&, route_pause const&) = default;
};

/// True if any of `pauses` covers events of this type and aggregate type.
[[nodiscard]] inline bool paused(std::vector<route_pause> const& pauses, std::string_view aggregate_type,
                                 std::string_view event_type) noexcept {
  return std::ranges::any_of(pauses, [&](auto const& p) { return p.covers(aggregate_type, event_type); });
}

/// Which dead rows; empty fields match all.
struct dead_filter {
  std::string event_type{};
  std::string aggregate_type{};
};

struct dead_event {
  outbox::v0::event event;
  std::int32_t attempts = 0;
  std::int32_t crashes = 0;
  std::string last_error{};
  std::optional<instant> done_at{};
};

/// A row as a tool shows it.
struct row_view {
  outbox::v0::event event;
  event_status status = event_status::created;
  std::int64_t seq = 0;
  std::int32_t attempts = 0;
  std::int32_t crashes = 0;
  instant available_at{};
  instant inserted_at{};
  std::optional<instant> done_at{};
  owner_token locked_by{};
  std::optional<instant> lease_until{};
  std::string last_error{};
  std::string progress{};
};

struct table_counts {
  std::uint64_t created = 0, retry = 0, done = 0, dead = 0;
  [[nodiscard]] std::uint64_t pending() const noexcept { return created + retry; }
};

/// How nodes share a table.
enum class node_mode : std::uint8_t {
  single_node,
  multi_node,
  ordered,
  writer_only,
  unknown,  ///< Of a newer library. Such a node counts as a dispatcher that excludes all others.
};

[[nodiscard]] OUTBOX_CORE_EXPORT std::string_view name(node_mode m) noexcept;

/// A node, for tools and for I12. A node whose lease is over is gone.
struct node_row {
  std::string incarnation{};
  std::string name{};
  std::string version{};
  node_mode mode = node_mode::multi_node;
  std::chrono::milliseconds lease{};
  std::uint64_t held = 0;
};

/// What a store can and cannot do.
struct store_capabilities {
  std::string_view kind;                     ///< "memory", "sqlite", …: the kind of transaction that it takes.
  bool requires_transaction = true;          ///< False where a store is atomic without one.
  bool keeps_done_rows = true;               ///< False where done deletes.
  std::string_view table{};                  ///< Its name in log lines; it lives as long as the store.
  std::chrono::milliseconds watch_every{0};  ///< How often `change_counter()` is worth asking; 0: never.
};

/// Reads for tools and tests; never part of delivery.
class OUTBOX_CORE_EXPORT inspector {
 public:
  inspector() = default;
  inspector(inspector const&) = delete;
  inspector& operator=(inspector const&) = delete;
  virtual ~inspector();

  [[nodiscard]] virtual std::optional<row_view> find(std::string_view id) = 0;
  [[nodiscard]] virtual table_counts counts() = 0;
  [[nodiscard]] virtual std::vector<node_row> nodes() = 0;  ///< Live ones.
};

/// Where events are kept. A header such as <outbox/sqlite.hpp> opens one; nodes take it by `shared_ptr` and keep it
/// alive. Several nodes of one process may share a store.
///
/// Thread-safe.
class OUTBOX_CORE_EXPORT store {
 public:
  store() = default;
  store(store const&) = delete;
  store& operator=(store const&) = delete;
  virtual ~store();

  [[nodiscard]] virtual store_capabilities capabilities() const noexcept = 0;

  /// The store's clock, which computes every instant in the table. Throws `error`.
  [[nodiscard]] virtual instant now() = 0;

  /// Reads for tools and tests. The inspector lives as long as the store.
  [[nodiscard]] virtual inspector& inspect() = 0;

  /// The interface that nodes use. Not for applications.
  [[nodiscard]] virtual spi::store& backend() noexcept = 0;
};

}  // namespace outbox::inline v0

// A table of another shape: one that another program created, served as it is.
/// \file
///
///     auto store = outbox::sqlite::open(path, {.layout = outbox::layouts::polled_outbox()});
///     auto box = outbox::single_node({.store = store, .listeners = std::move(listeners)});
///
/// The library never creates or alters such a table. What the table has no column for lives in the memory of the
/// process that dispatches: owners, leases, attempts, crashes, due instants. So only one node may dispatch from it, and
/// a restart begins every budget again. docs/how-to/use-your-own-table.md says what each missing column costs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <outbox/clock.hpp>
#include <outbox/detail/sql_export.hpp>
#include <string>
#include <vector>

namespace outbox::inline v0 {

/// What a column of ids holds.
enum class id_kind : std::uint8_t {
  text,  ///< Any text.
  uuid,  ///< A UUID, as text of 36 characters or in a column of that type. Ids that the library makes are version 7.
};

/// The description of a table. Names are letters, digits and underscores, at most 63 characters, written as the
/// database keeps them. An optional column is empty if the table has none.
struct table_layout {
  std::string table{};  ///< The table. Required. May have a schema before it, as in "orders.outbox".

  // Columns that every table must have.
  std::string id = "id";                          ///< The event id. Unique.
  std::string event_type = "event_type";          ///< The event type.
  std::string aggregate_type = "aggregate_type";  ///< The aggregate type.
  std::string aggregate_id = "aggregate_id";      ///< The aggregate id.
  std::string payload = "payload";                ///< JSON text.
  std::string status = "status";                  ///< One of the three words below; rows with others are left alone.
  std::string created_at = "created_at";          ///< The event's own instant. The oldest row is delivered first.

  // Columns that a table may have.
  std::string done_at{};   ///< When the event was delivered. Without it, `purge` counts from `created_at`.
  std::string error{};     ///< Why the event is dead. Without it, the log is the only place that tells.
  std::string tenant{};    ///< The tenant. Without it, an event with a tenant is refused.
  std::string headers{};   ///< A JSON object of strings. Without it, an event with headers is refused.
  std::string attempts{};  ///< Counted failures, a number. Without it, they are counted in memory.

  // The words in `status`: letters, digits, hyphens and underscores, at most 50. All different.
  std::string pending = "NEW";  ///< To be delivered.
  std::string done = "SENT";    ///< Delivered.
  std::string dead = "FAILED";  ///< Given up. An operator may set it back to `pending`.

  id_kind ids = id_kind::text;            ///< What `id` holds. Default: text.
  id_kind aggregate_ids = id_kind::text;  ///< What `aggregate_id` holds. Default: text.

  /// True: the aggregate columns are NOT NULL, so an event without an aggregate is refused. Default true.
  bool needs_aggregate = true;

  /// The member of the JSON payload that gets the event id, as in "eventId". The payload must then be an object that
  /// does not have that member, or has the event id there. Default: none.
  std::string id_in_payload{};

  /// The greatest number of rows that the process remembers: those that it holds, and those that wait for a retry.
  /// While there are so many, new rows wait until some of these are finished. Default 10,000. 100 … 1,000,000.
  std::size_t remembered = 10'000;

  /// The clock of what the process remembers: leases and retries. Default: the clock of the machine. Tests set another
  /// one.
  std::shared_ptr<outbox::v0::clock const> clock{};
};

/// Throws `error` (invalid_option) that names the field: `layout.table`, `layout.status`, …
OUTBOX_SQL_EXPORT void check(table_layout const& layout);

/// What a table of this shape cannot do, one sentence each. A store says it when it is opened.
[[nodiscard]] OUTBOX_SQL_EXPORT std::vector<std::string> costs_of(table_layout const& layout);

namespace layouts {

/// The table `outbox` of services that poll it every few seconds: NEW, SENT and FAILED as text, UUIDs as ids of events
/// and aggregates, `sent_at`, `error_message`, and no column for owners, attempts or headers.
[[nodiscard]] OUTBOX_SQL_EXPORT table_layout polled_outbox();

}  // namespace layouts
}  // namespace outbox::inline v0

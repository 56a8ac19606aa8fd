// How the outbox is laid out in a database: table, columns, status values. Statements are made from it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <outbox/detail/sql_export.hpp>
#include <string>
#include <string_view>

namespace outbox::inline v0::sql {

/// The columns of the event table. The first `columns_of_a_row` are what a statement selects as `{row}`, in this order;
/// a statement may select others behind them.
enum class column : std::size_t {
  seq,
  event_id,
  event_type,
  aggregate_type,
  aggregate_id,
  tenant_id,
  payload,
  headers,
  status,
  attempts,
  crashes,
  available_at,
  created_at,
  inserted_at,
  done_at,
  last_error,
  locked_by,
  lease_until,
  ordering_key,
  progress,
  content_type,
  payload_bytes,
  blocked,
  locked_at,
  written_by,
};

inline constexpr std::size_t columns_of_a_row = static_cast<std::size_t>(column::blocked) + 1;
inline constexpr std::size_t column_count = static_cast<std::size_t>(column::written_by) + 1;

/// The index of a column in a selected row.
[[nodiscard]] constexpr int index_of(column c) noexcept { return static_cast<int>(c); }

/// A column and the name that it has in this library's schema and in statement texts.
struct named_column {
  column which;
  std::string_view name;
};

inline constexpr std::array<named_column, column_count> default_columns{{
    {column::seq, "seq"},
    {column::event_id, "event_id"},
    {column::event_type, "event_type"},
    {column::aggregate_type, "aggregate_type"},
    {column::aggregate_id, "aggregate_id"},
    {column::tenant_id, "tenant_id"},
    {column::payload, "payload"},
    {column::headers, "headers"},
    {column::status, "status"},
    {column::attempts, "attempts"},
    {column::crashes, "crashes"},
    {column::available_at, "available_at"},
    {column::created_at, "created_at"},
    {column::inserted_at, "inserted_at"},
    {column::done_at, "done_at"},
    {column::last_error, "last_error"},
    {column::locked_by, "locked_by"},
    {column::lease_until, "lease_until"},
    {column::ordering_key, "ordering_key"},
    {column::progress, "progress"},
    {column::content_type, "content_type"},
    {column::payload_bytes, "payload_bytes"},
    {column::blocked, "blocked"},
    {column::locked_at, "locked_at"},
    {column::written_by, "written_by"},
}};
static_assert(std::ranges::adjacent_find(default_columns, std::ranges::greater_equal{}, &named_column::which) ==
                  default_columns.end(),
              "every column once, in the order of the enumeration");

/// The numbers that stand for the status of a row.
struct status_values {
  int created = 0, delivered = 1, retry = 2, dead = 3;
};

/// What an event id is in the table.
enum class id_type { text };

/// Only the default layout exists: the one that this library's schema creates. Another one would describe a table that
/// another program has created.
struct layout {
  /// The event table. Default "outbox_event".
  std::string table = "outbox_event";
  std::string schema{};                                      ///< Empty: tables are named without one.
  char quote = '"';                                          ///< Around names that need it.
  std::array<std::string, column_count> names = defaults();  ///< Empty: the table has no such column.
  status_values status{};                                    ///< How a status is stored.
  id_type id = id_type::text;                                ///< How an id is stored.

  [[nodiscard]] bool has(column c) const { return !names.at(static_cast<std::size_t>(c)).empty(); }

  /// The text of a statement in this layout. In `sql` stand
  ///   {event_id}       for the name of a column,
  ///   {NEW}            for a status, like {DONE}, {RETRY} and {DEAD},
  ///   {row}            for the columns of a row, NULL for those that the table does not have,
  ///   {claimed}        for the same, NULL also for those that a claim does not need,
  ///   {outbox_event}   for a table, like {outbox_node} and {outbox_meta}, or for an index ({outbox_event_due}), named
  ///   as
  ///                    `with_table()` does.
  /// Throws `error` (invalid_option) for a single column that the table does not have.
  [[nodiscard]] OUTBOX_SQL_EXPORT std::string text(std::string_view sql) const;

 private:
  [[nodiscard]] std::string meaning_of(std::string_view word) const;
  [[nodiscard]] static OUTBOX_SQL_EXPORT std::array<std::string, column_count> defaults();
};

}  // namespace outbox::inline v0::sql

// The state of a table in one statement that reads nothing but indexes and the rows they name.
#pragma once

#include <outbox/detail/sql_export.hpp>
#include <string>
#include <string_view>

namespace outbox::inline v0::sql {

/// What differs between databases. Each text is a template of a layout, like the statements of a dialect.
struct overview_forms {
  std::string limit{};       ///< The parameter for where counts stop.
  std::string now{};         ///< The parameter for the present.
  std::string minute_ago{};  ///< The parameter for a minute ago.
  std::string later{};       ///< The function that returns the later of two instants.
  std::string claimable{};   ///< The instant from which a pending row can be claimed.
  std::string available{};   ///< The instant before which a row is not delivered.
  std::string inserted{};    ///< When a row was inserted.
  std::string pending{};     ///< Table and condition of pending rows, through the index by their claimable instant.
  std::string dead{};        ///< Table and condition of DEAD rows, through their index.
  std::string just_ended{};  ///< Table and condition of rows that ended in the last minute, through their index.
  std::string last_ended{};  ///< An expression: when a row last ended.
};

/// The statement. It selects, in this order: now; pending, retrying, held, delayed, due rows; the first due instant;
/// since when the oldest waits; pending rows inserted in the last minute; DEAD rows and the last death; rows that
/// became DONE and DEAD in the last minute; those of them that were inserted before it; when a row last ended.
[[nodiscard]] OUTBOX_SQL_EXPORT std::string overview_text(overview_forms const& f);

/// The statement about rows that wait for another row of their key, with the limit, `minute_ago` and `inserted` of `f`.
/// `in_order` is the table and the condition of pending rows that are in the line of a key, through the index of keys.
/// It selects their number, when the first of them was inserted, and how many were inserted in the last minute. It
/// looks at `limit` rows in order, blocked or not: if there are more, at least so many rows are pending. Sent on tables
/// that are marked keyed.
[[nodiscard]] OUTBOX_SQL_EXPORT std::string blocked_text(overview_forms const& f, std::string_view in_order);

}  // namespace outbox::inline v0::sql

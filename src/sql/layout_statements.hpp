// The statements for a table of another shape, made from its description and the ways of one database.
#pragma once

#include <functional>
#include <outbox/detail/sql_export.hpp>
#include <outbox/table_layout.hpp>
#include <string>

#include "sql/dialect.hpp"

namespace outbox::inline v0::sql {

/// How a database writes and reads what a described table holds. Each function makes SQL from SQL.
struct layout_forms {
  using form = std::function<std::string(std::string const&)>;

  std::string kind;   ///< "sqlite", …
  std::string begin;  ///< Begins a transaction that will change rows.
  char quote = '"';   ///< Around names.

  /// True: a statement that fails leaves those before it in the caller's transaction.
  bool partial = true;

  form integer;    ///< A parameter that is a number.
  form bytes;      ///< The size of a text column.
  form text;       ///< A column of ids as text.
  form id;         ///< A parameter that is an id.
  form ids;        ///< A list of ids for IN, from a parameter that is a JSON array.
  form aggregate;  ///< A parameter that is an aggregate id.
  form from_now;   ///< A parameter that is a `sql::from_now`, as an instant of the columns.
  form at;         ///< A parameter that is an instant, for `created_at`.
  form time;       ///< An instant column as `row::time` reads it.
  form sortable;   ///< An instant column or expression, to be compared.
  form compared;   ///< A parameter that is an instant, to be compared with `sortable`.
  form finish;     ///< Makes the text that the database gets.
};

/// What a `layout_store` sends besides the statements of a `dialect`.
struct layout_statements {
  dialect shared;

  std::string insert;      ///< "INSERT INTO … VALUES ", without the rows
  std::string insert_row;  ///< One row with ?1 …: `insert_width` parameters, see `layout_store::insert`
  std::size_t insert_width = 0;

  std::string look;         ///< limit -> id, event_type, aggregate_type, created_at, bytes, attempts
  std::string pending_of;   ///< JSON array of ids -> the ids of those that are pending
  std::string fetch;        ///< JSON array of ids -> `{row}` of those that are pending
  std::string settle_done;  ///< now, JSON array of ids
  std::string settle_dead;  ///< id, error, counted
  std::string count_retry;  ///< id, counted. Empty: attempts are in memory
};

[[nodiscard]] OUTBOX_SQL_EXPORT layout_statements make_statements(table_layout const& l, layout_forms const& f);

/// The table's name in quotes, with its schema.
[[nodiscard]] OUTBOX_SQL_EXPORT std::string quoted_table(table_layout const& l, char quote);

}  // namespace outbox::inline v0::sql

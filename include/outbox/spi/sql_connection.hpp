// The thin SQL interface that stores and adapters share: run one statement, see its rows.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <outbox/clock.hpp>
#include <outbox/detail/sql_export.hpp>
#include <span>
#include <string_view>
#include <variant>

namespace outbox::inline v0::sql {

/// Bytes, as opposed to text.
struct blob {
  std::string_view bytes;
};

/// An instant this long after the database's own now, negative for before.
struct from_now {
  std::chrono::microseconds by{};
};

/// One column of many rows, for databases that have arrays. An element without a value is NULL.
struct text_array {
  std::span<std::optional<std::string_view> const> items;
};
struct blob_array {
  std::span<std::optional<std::string_view> const> items;
};
struct integer_array {
  std::span<std::int64_t const> items;
};

/// A parameter; what it points to must live until the call returns.
using value = std::variant<std::monostate, std::int64_t, std::string_view, blob, instant, from_now, text_array,
                           blob_array, integer_array>;

/// One row of a result, alive during the call that shows it. Columns count from 0.
class OUTBOX_SQL_EXPORT row {
 public:
  row() = default;
  row(row const&) = delete;
  row& operator=(row const&) = delete;
  virtual ~row();

  [[nodiscard]] virtual bool null(int column) const = 0;
  [[nodiscard]] virtual std::int64_t integer(int column) const = 0;         ///< 0 if null.
  [[nodiscard]] virtual std::string_view text(int column) const = 0;        ///< Text or bytes; empty if null.
  [[nodiscard]] virtual std::optional<instant> time(int column) const = 0;  ///< Nothing if null, or not an instant.
};

/// Sees one row; returns whether it wants the next.
using row_function = std::function<bool(row const&)>;

/// A connection, owned or borrowed; used by one thread at a time. Throws `error`: transient if the same call may
/// succeed later. The statement's text must be the same each time for the same statement: connections of our own keep
/// it prepared.
class OUTBOX_SQL_EXPORT connection {
 public:
  connection() = default;
  connection(connection const&) = delete;
  connection& operator=(connection const&) = delete;
  virtual ~connection();

  /// No round trip.
  [[nodiscard]] virtual bool in_transaction() const noexcept = 0;

  /// Runs one statement with its parameters and shows its rows; how many rows it changed.
  virtual std::int64_t execute(std::string_view sql, std::span<value const> parameters, row_function const& on_row) = 0;

  std::int64_t execute(std::string_view sql, std::initializer_list<value> parameters = {},
                       row_function const& on_row = {}) {
    return execute(sql, std::span{parameters.begin(), parameters.size()}, on_row);
  }
};

}  // namespace outbox::inline v0::sql

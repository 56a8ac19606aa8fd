// The thin SQL interface that stores and adapters share: runs one statement and shows its rows.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <outbox/clock.hpp>
#include <outbox/detail/sql_export.hpp>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>

namespace outbox::inline v0::sql {

/// Bytes, as opposed to text.
struct blob {
  std::string_view bytes;  ///< Not copied.
};

/// An instant this long after the database's own now; negative for an instant before it.
struct from_now {
  std::chrono::microseconds by{};  ///< The distance.
};

/// A parameter of a statement. Whatever it points to must live until the call returns. `std::monostate` is NULL.
using value = std::variant<std::monostate, std::int64_t, std::string_view, blob, instant, from_now>;

/// The text, or NULL if it is empty.
[[nodiscard]] inline value or_null(std::string_view text) { return text.empty() ? value{} : value{text}; }

/// One row of a result. It is valid only during the call that shows it. Columns count from 0.
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

/// Is called with each row. Returns true if it wants the next one.
using row_function = std::function<bool(row const&)>;

/// A connection, owned or borrowed. Use from one thread at a time. Throws `error`: transient if the same call may
/// succeed later.
///
/// Texts are in the database's own language, placeholders included (SQLite ?1, PostgreSQL $1). The stores write ?1 in
/// their statement files and translate it once. The text of a statement must be the same each time: connections of the
/// library keep it prepared.
class OUTBOX_SQL_EXPORT connection {
 public:
  connection() = default;
  connection(connection const&) = delete;
  connection& operator=(connection const&) = delete;
  virtual ~connection();

  /// True between the begin and the end of a transaction. No round trip.
  [[nodiscard]] virtual bool in_transaction() const noexcept = 0;

  /// Runs one statement with its parameters and shows its rows. Returns the number of rows that an INSERT, UPDATE or
  /// DELETE matched, also those whose values stay the same; not defined if `on_row` did not want all rows.
  virtual std::int64_t execute(std::string_view sql, std::span<value const> parameters, row_function const& on_row) = 0;

  std::int64_t execute(std::string_view sql, std::initializer_list<value> parameters = {},
                       row_function const& on_row = {}) {
    return execute(sql, std::span{parameters.begin(), parameters.size()}, on_row);
  }

  /// Runs a statement without a result. Returns the number of rows that it matched.
  std::size_t change(std::string_view sql, std::initializer_list<value> parameters = {}) {
    return static_cast<std::size_t>(execute(sql, parameters));
  }

  /// The first column of the first row as a `T`: std::int64_t, bool, std::string or instant. Nothing if there is no row
  /// or the column is NULL.
  template <class T>
  [[nodiscard]] std::optional<T> ask(std::string_view sql, std::initializer_list<value> parameters = {}) {
    std::optional<T> answer;
    execute(sql, parameters, [&](row const& r) {
      if (r.null(0)) return false;
      if constexpr (std::is_same_v<T, std::string>) {
        answer.emplace(r.text(0));
      } else if constexpr (std::is_same_v<T, instant>) {
        answer = r.time(0);
      } else if constexpr (std::is_same_v<T, bool>) {
        answer = r.integer(0) != 0;
      } else {
        static_assert(std::is_same_v<T, std::int64_t>, "ask() gives std::int64_t, bool, std::string or instant");
        answer = r.integer(0);
      }
      return false;
    });
    return answer;
  }

  /// True if the statement gives a row.
  [[nodiscard]] bool any(std::string_view sql, std::initializer_list<value> parameters = {}) {
    bool found = false;
    execute(sql, parameters, [&](row const&) { return !(found = true); });
    return found;
  }
};

}  // namespace outbox::inline v0::sql

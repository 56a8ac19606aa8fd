// SQL with parameters: `execute` and `query`, the same on every connection and transaction of this library.
//
// A value is always a parameter and never a part of the SQL text, so a hostile value cannot change the statement.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <outbox/detail/sql_export.hpp>
#include <outbox/error.hpp>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace outbox::inline v0::sql {

/// One parameter of a statement: NULL, a bool, an integer, a double, a text or bytes. It is made by implicit conversion
/// where `execute` and `query` are called. It does not own texts and bytes: they must live until the call returns.
class argument {
 public:
  using type = std::variant<std::monostate, bool, std::int64_t, double, std::string_view, std::span<std::byte const>>;

  argument(std::nullopt_t) noexcept {}
  argument(std::same_as<bool> auto v) noexcept : value_{v} {}
  argument(std::floating_point auto v) noexcept : value_{static_cast<double>(v)} {}
  argument(std::string_view v) noexcept : value_{v} {}
  argument(std::string const& v) noexcept : value_{std::string_view{v}} {}
  argument(std::span<std::byte const> v) noexcept : value_{v} {}
  argument(std::vector<std::byte> const& v) noexcept : value_{std::span<std::byte const>{v}} {}

  /// A null pointer is NULL.
  argument(char const* v) noexcept {
    if (v != nullptr) value_ = std::string_view{v};
  }

  /// Throws `error` (type_mismatch) if `v` is greater than the greatest signed 64-bit integer.
  template <std::integral T>
    requires(!std::same_as<T, bool> && !std::same_as<T, char>)
  argument(T v) : value_{static_cast<std::int64_t>(v)} {
    if (std::cmp_greater(v, std::numeric_limits<std::int64_t>::max())) {
      throw error::about(errc::type_mismatch, "argument",
                         "is " + std::to_string(v) + ": more than 64 bits with a sign");
    }
  }

  /// NULL if there is no value.
  template <class T>
  argument(std::optional<T> const& v) : argument{v ? argument{*v} : argument{std::nullopt}} {}

  [[nodiscard]] type const& value() const noexcept { return value_; }

 private:
  type value_;
};

/// What a statement answered, as text. Applications get typed values from `query`.
struct result {
  std::size_t columns = 0;                        ///< Columns of each row.
  std::vector<std::optional<std::string>> cells;  ///< Row by row; nothing for NULL; bytes as they are.
  std::int64_t changed = 0;                       ///< Rows that the statement inserted, updated or deleted.
};

/// A type that a column can be read as: bool, an integer, a floating-point number, std::string, std::vector<std::byte>
/// (of a BLOB or bytea), or std::optional of one of these where the column may be NULL.
template <class T>
struct from_column;

/// Returns the text of column `index`, counted from 1. Throws `error` (type_mismatch) if it is NULL.
[[nodiscard]] OUTBOX_SQL_EXPORT std::string const& not_null(std::optional<std::string> const& cell, std::size_t index);

/// Throw `error` (type_mismatch) if the whole text is not such a value.
[[nodiscard]] OUTBOX_SQL_EXPORT bool to_bool(std::string_view text, std::size_t index);
[[nodiscard]] OUTBOX_SQL_EXPORT std::int64_t to_integer(std::string_view text, std::size_t index);
[[nodiscard]] OUTBOX_SQL_EXPORT std::uint64_t to_unsigned(std::string_view text, std::size_t index);
[[nodiscard]] OUTBOX_SQL_EXPORT double to_double(std::string_view text, std::size_t index);
[[noreturn]] OUTBOX_SQL_EXPORT void throw_out_of_range(std::string_view text, std::size_t index);

/// Throws `error` (type_mismatch) unless the result has as many columns as the caller asked for.
OUTBOX_SQL_EXPORT void check_columns(result const& r, std::size_t asked);

/// Throws `error` (type_mismatch) unless there is exactly one row.
OUTBOX_SQL_EXPORT void check_one_row(std::size_t rows);

template <>
struct from_column<bool> {
  static bool read(std::optional<std::string> const& c, std::size_t i) { return to_bool(not_null(c, i), i); }
};
template <std::integral T>
struct from_column<T> {
  static T read(std::optional<std::string> const& c, std::size_t i) {
    auto const& text = not_null(c, i);
    auto const v = [&] {
      if constexpr (std::is_signed_v<T>) {
        return to_integer(text, i);
      } else {
        return to_unsigned(text, i);
      }
    }();
    if (!std::in_range<T>(v)) throw_out_of_range(text, i);
    return static_cast<T>(v);
  }
};
template <std::floating_point T>
struct from_column<T> {
  static T read(std::optional<std::string> const& c, std::size_t i) {
    return static_cast<T>(to_double(not_null(c, i), i));
  }
};
template <>
struct from_column<std::string> {
  static std::string read(std::optional<std::string> const& c, std::size_t i) { return not_null(c, i); }
};
template <>
struct from_column<std::vector<std::byte>> {
  static std::vector<std::byte> read(std::optional<std::string> const& c, std::size_t i) {
    auto const bytes = std::as_bytes(std::span{not_null(c, i)});
    return {bytes.begin(), bytes.end()};
  }
};
template <class T>
struct from_column<std::optional<T>> {
  static std::optional<T> read(std::optional<std::string> const& c, std::size_t i) {
    if (!c) return std::nullopt;
    return from_column<T>::read(c, i);
  }
};

/// A row of `query<T...>`: a T for one column, a tuple for several.
template <class... T>
struct row_type {
  using type = std::tuple<T...>;
};
template <class T>
struct row_type<T> {
  using type = T;
};

/// Runs SQL. The base of `sqlite::connection`, `sqlite::transaction`, `postgres::connection` and
/// `postgres::transaction`.
///
///     db.execute("INSERT INTO orders VALUES (?, ?)", id, cents);  // PostgreSQL: ($1, $2)
///     for (auto const& [id, cents] : db.query<std::string, std::int64_t>("SELECT id, cents FROM orders")) …
///     auto const count = db.query_one<int>("SELECT count(*) FROM orders WHERE cents > ?", 1000);
///
/// Use from one thread at a time. All functions throw `error`: type_mismatch if an argument or a column does not fit,
/// else the error of the database. A unique violation is a store_failure with SQLSTATE 23505 on PostgreSQL.
class OUTBOX_SQL_EXPORT executor {
 public:
  /// Runs one statement. Returns the number of rows that it inserted, updated or deleted. Without arguments the text
  /// may have several statements, separated by semicolons; then it returns the number for the last one.
  template <class... Args>
  std::int64_t execute(std::string_view sql, Args const&... args) {
    return run_with(sql, args...).changed;
  }

  /// The same, for a number of arguments that is not known before the program runs.
  std::int64_t execute(std::string_view sql, std::span<argument const> args) {
    return run_statement(sql, args).changed;
  }

  /// Runs one statement and returns its rows. `T...` are the types of the columns, see `column`.
  template <class... T, class... Args>
  [[nodiscard]] std::vector<typename row_type<T...>::type> query(std::string_view sql, Args const&... args) {
    static_assert(sizeof...(T) > 0, "name the types of the columns: query<std::string, int>(…)");
    auto const r = run_with(sql, args...);
    check_columns(r, sizeof...(T));
    std::vector<typename row_type<T...>::type> rows;
    rows.reserve(r.cells.size() / sizeof...(T));
    for (std::size_t at = 0; at < r.cells.size(); at += sizeof...(T)) {
      rows.push_back(read<T...>(&r.cells[at], std::index_sequence_for<T...>{}));
    }
    return rows;
  }

  /// Runs one statement and returns its only row. Throws `error` (type_mismatch) if there are none or several.
  template <class... T, class... Args>
  [[nodiscard]] typename row_type<T...>::type query_one(std::string_view sql, Args const&... args) {
    auto rows = query<T...>(sql, args...);
    check_one_row(rows.size());
    return std::move(rows.front());
  }

 protected:
  executor() = default;
  executor(executor const&) = delete;
  executor& operator=(executor const&) = delete;
  virtual ~executor();

 private:
  /// Runs one statement, or several if there are no arguments, and returns the result of the last one.
  virtual result run_statement(std::string_view sql, std::span<argument const> args) = 0;

  template <class... Args>
  result run_with(std::string_view sql, Args const&... args) {
    if constexpr (sizeof...(Args) == 0) {
      return run_statement(sql, {});
    } else {
      argument const list[] = {argument{args}...};
      return run_statement(sql, list);
    }
  }

  template <class... T, std::size_t... I>
  static typename row_type<T...>::type read(std::optional<std::string> const* cells, std::index_sequence<I...>) {
    return typename row_type<T...>::type{from_column<T>::read(cells[I], I + 1)...};
  }
};

}  // namespace outbox::inline v0::sql

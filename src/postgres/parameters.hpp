// Parameters as libpq takes them.
#pragma once

#include <libpq-fe.h>

#include <cstddef>
#include <memory>
#include <outbox/spi/postgres_adapter.hpp>
#include <outbox/spi/sql_connection.hpp>
#include <span>
#include <string>

namespace outbox::inline v0::postgres {

/// "2030-01-31 23:59:59.123456+00"
[[nodiscard]] std::string utc_text(instant t);

/// The text with the server's placeholders: $1 for ?1. For statement texts of this library only.
[[nodiscard]] std::string numbered(std::string_view sql);

/// Owns what it sends, in one block of memory: a write makes one of these per statement. Single values are sent as
/// text, which the server converts to the type that it needs. Bytes and arrays are sent in binary form, without
/// quoting; so are the instants of the store's own statements, which name the type.
class parameters {
 public:
  parameters() = default;
  explicit parameters(std::span<sql::value const> values);
  explicit parameters(std::span<parameter const> values);

  [[nodiscard]] int size() const noexcept { return static_cast<int>(count_); }
  [[nodiscard]] char const* const* pointers() const noexcept { return pointers_; }  ///< Null for NULL.
  [[nodiscard]] int const* lengths() const noexcept { return lengths_; }
  [[nodiscard]] int const* formats() const noexcept { return formats_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  void drop_last() noexcept { count_ -= count_ > 0 ? 1 : 0; }

 private:
  template <class Values>
  void fill(Values values);
  void reserve(std::size_t count, std::size_t bytes);
  void add(sql::value const& v);
  void add(parameter const& p);
  void add_text(std::string_view text);
  template <class Put>
  void push(int format, Put&& put);

  std::unique_ptr<std::byte[]> block_;  ///< The three arrays, then the bytes that the first one points to.
  char const** pointers_ = nullptr;
  int* lengths_ = nullptr;
  int* formats_ = nullptr;
  char* end_ = nullptr;  ///< Where the next value begins.
  std::size_t count_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace outbox::inline v0::postgres

// Parameters as libpq takes them.
#pragma once

#include <libpq-fe.h>

#include <outbox/spi/postgres_adapter.hpp>
#include <outbox/spi/sql_connection.hpp>
#include <span>
#include <string>
#include <vector>

namespace outbox::inline v0::postgres {

/// "2030-01-31 23:59:59.123456+00"
[[nodiscard]] std::string utc_text(instant t);

/// The text with the server's placeholders: $1 for ?1. For statement texts of this library only.
[[nodiscard]] std::string numbered(std::string_view sql);

/// Owns what it sends. Single values are sent as text, which the server converts to the type that it needs. Bytes and
/// arrays are sent in binary form, without quoting.
class parameters {
 public:
  parameters() = default;
  explicit parameters(std::span<sql::value const> values);
  explicit parameters(std::span<parameter const> values);
  parameters(parameters const& other);
  parameters(parameters&&) noexcept = default;
  parameters& operator=(parameters const&) = delete;
  parameters& operator=(parameters&&) noexcept = default;
  ~parameters() = default;

  [[nodiscard]] int size() const noexcept { return static_cast<int>(pointers_.size()); }
  [[nodiscard]] char const* const* pointers() const noexcept { return pointers_.data(); }
  [[nodiscard]] int const* lengths() const noexcept { return lengths_.data(); }
  [[nodiscard]] int const* formats() const noexcept { return formats_.data(); }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  void reserve(std::size_t count);
  void add(sql::value const& v);
  void add(parameter const& p);
  void push(std::string text, int format);

  std::vector<std::string> texts_;     ///< One for each that is not NULL.
  std::vector<char const*> pointers_;  ///< Into `texts_`; null for NULL.
  std::vector<int> lengths_, formats_;
  std::size_t bytes_ = 0;
};

}  // namespace outbox::inline v0::postgres

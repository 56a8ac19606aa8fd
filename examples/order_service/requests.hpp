// What clients send, checked: every mistake names the field and its limit.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "orders.hpp"

namespace order_service {

/// A request that cannot be served, with the status that says so.
class bad_request : public std::runtime_error {
 public:
  bad_request(int status, std::string field, std::string const& problem)
      : std::runtime_error{field + " " + problem}, status_{status}, field_{std::move(field)} {}
  [[nodiscard]] int status() const noexcept { return status_; }
  [[nodiscard]] std::string const& field() const noexcept { return field_; }

 private:
  int status_;
  std::string field_;
};

inline constexpr std::size_t body_limit = 16'384;   ///< Bytes of a request.
inline constexpr std::size_t customer_limit = 100;  ///< Characters.
inline constexpr std::int64_t cents_limit = 100'000'000;
inline constexpr std::size_t key_limit = 64;     ///< Characters of an Idempotency-Key.
inline constexpr std::size_t list_limit = 1000;  ///< Orders of one answer.

/// {"customer": "Ada", "cents": 1999}. Throws `bad_request`.
[[nodiscard]] new_order parse_order(std::string_view body);

/// The value of an Idempotency-Key. Throws `bad_request`.
[[nodiscard]] std::string parse_key(std::string const& value);

/// The number of orders to list. Throws `bad_request`.
[[nodiscard]] std::size_t parse_limit(std::string const& value);

}  // namespace order_service

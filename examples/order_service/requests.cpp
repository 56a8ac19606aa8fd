#include "requests.hpp"

#include <algorithm>
#include <charconv>

namespace order_service {
namespace {

using nlohmann::json;

std::string parse_customer(json const& value) {
  auto const limits =
      "must be a text of 1 to " + std::to_string(customer_limit) + " characters, none of them a control";
  if (!value.is_string()) throw bad_request{422, "customer", limits};
  auto text = value.get<std::string>();  // UTF-8: the parser has checked it
  auto const characters = std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; });
  auto const control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; };
  if (text.empty() || std::cmp_greater(characters, customer_limit) || std::ranges::any_of(text, control)) {
    throw bad_request{422, "customer", limits};
  }
  return text;
}

std::int64_t parse_cents(json const& value) {
  bool const fits = value.is_number_integer() && value >= 1 && value <= cents_limit;
  if (!fits) throw bad_request{422, "cents", "must be an integer from 1 to " + std::to_string(cents_limit)};
  return value.get<std::int64_t>();
}

}  // namespace

new_order parse_order(std::string_view body) {
  auto const value = json::parse(body, nullptr, false);
  if (value.is_discarded()) throw bad_request{400, "body", "is not JSON"};
  if (!value.is_object()) throw bad_request{422, "body", "must be an object with customer and cents"};
  for (auto const& [name, ignored] : value.items()) {
    if (name != "customer" && name != "cents") {
      throw bad_request{422, "body", "has an unknown field: only customer and cents are known"};
    }
  }
  for (auto const* name : {"customer", "cents"}) {
    if (!value.contains(name)) throw bad_request{422, name, "is missing"};
  }
  return {.customer = parse_customer(value["customer"]), .cents = parse_cents(value["cents"])};
}

std::string parse_key(std::string const& value) {
  bool const printable = std::ranges::all_of(value, [](char c) { return c > 0x20 && c < 0x7F; });
  if (value.empty() || value.size() > key_limit || !printable) {
    throw bad_request{400, "Idempotency-Key",
                      "must have 1 to " + std::to_string(key_limit) + " printable characters of ASCII, no spaces"};
  }
  return value;
}

std::size_t parse_limit(std::string const& value) {
  std::size_t limit = 0;
  auto const [end, problem] = std::from_chars(value.data(), value.data() + value.size(), limit);
  if (problem != std::errc{} || end != value.data() + value.size() || limit < 1 || limit > list_limit) {
    throw bad_request{400, "limit", "must be a number from 1 to " + std::to_string(list_limit)};
  }
  return limit;
}

}  // namespace order_service

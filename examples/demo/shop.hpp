// What the demo's processes share: where things are, and the ledger.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <outbox/json.hpp>
#include <string>

namespace demo {

struct files {
  std::string database;
  std::string ledger;  ///< What the service says that it did: written apart from the database, to judge it by.
};

/// The service, as a process of its own: places orders `first` to `last`, delivers until nothing but dead events is
/// left, and ends. With `repaired` it first replays the dead ones.
int serve(files const& f, int first, int last, bool repaired);

/// Compares the ledger with the orders that were really committed and prints the table; 0 if no promise was broken.
int judge(files const& f);

struct order_placed {
  static constexpr std::string_view event_type = "order.placed";
  using outbox_codec = outbox::json;
  int order = 0;
  std::int64_t cents = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(order_placed, order, cents)

// What happens to which order.
constexpr bool rolls_back(int order) { return order % 8 == 0; }
constexpr bool meets_a_closed_carrier(int order) { return order % 10 == 3; }  // fails once, then recovers
constexpr bool is_delayed(int order) { return order % 25 == 7; }
constexpr bool has_a_wrong_address(int order) { return order % 50 == 11; }  // dead until somebody repairs it

}  // namespace demo

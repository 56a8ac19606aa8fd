// Shared by the demo's processes: the paths of the files, and the ledger.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <outbox/json.hpp>
#include <string>

namespace demo {

struct files {
  std::string database;
  std::string ledger;  ///< What the service reports: kept outside the database, to check it.
};

/// Runs the service as a process: places orders `first` to `last`, delivers until only dead events are left, and ends.
/// With `repaired` it first replays the dead events.
int serve(files const& f, int first, int last, bool repaired);

/// Compares the ledger with the committed orders and prints the table. Returns 0 if no promise was broken.
int judge(files const& f);

struct order_placed {
  static constexpr std::string_view event_type = "order.placed";
  using outbox_codec = outbox::json;
  int order = 0;
  std::int64_t cents = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(order_placed, order, cents)

// What happens to an order, by its number.
constexpr bool rolls_back(int order) { return order % 8 == 0; }
constexpr bool meets_a_closed_carrier(int order) { return order % 10 == 3; }  // fails once, then recovers
constexpr bool is_delayed(int order) { return order % 25 == 7; }
constexpr bool has_a_wrong_address(int order) { return order % 50 == 11; }  // dead until the address is corrected

}  // namespace demo

// The cases of the contract that a table of another shape cannot meet, and why.
#pragma once

#include <string>
#include <string_view>

namespace outbox {

inline std::string why_left_out(std::string_view) { return {}; }
inline std::string why_left_out_of_narrow(std::string_view) { return {}; }

}  // namespace outbox

#include "core/pause_codec.hpp"

#include <nlohmann/json.hpp>
#include <outbox/error.hpp>

namespace outbox::inline v0::core {

std::string encode_pauses(std::vector<route_pause> const& pauses) {
  auto all = nlohmann::json::array();
  for (auto const& p : pauses) all.push_back({{"event_type", p.event_type}, {"aggregate_type", p.aggregate_type}});
  return all.dump();
}

std::vector<route_pause> decode_pauses(std::string_view text) {
  std::vector<route_pause> pauses;
  if (text.empty()) return pauses;
  try {
    for (auto const& p : nlohmann::json::parse(text)) {
      pauses.push_back({p.at("event_type").get<std::string>(), p.value("aggregate_type", std::string{})});
    }
  } catch (nlohmann::json::exception const& e) {
    throw error{errc::store_failure, std::string{"the paused routes in outbox_meta cannot be read: "} + e.what()};
  }
  return pauses;
}

}  // namespace outbox::inline v0::core

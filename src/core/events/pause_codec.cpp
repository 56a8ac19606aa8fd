#include <outbox/spi/codecs.hpp>

#include <nlohmann/json.hpp>
#include <optional>

#include "core/events/names_check.hpp"

namespace outbox::inline v0::spi {
namespace {

std::optional<route_pause> read_pause(nlohmann::json const& entry) {
  if (!entry.is_object()) return std::nullopt;
  route_pause p;
  auto const read = [&](char const* name, std::string& into) {
    auto const at = entry.find(name);
    if (at == entry.end()) return true;
    if (at->is_string()) into = at->get<std::string>();
    return at->is_string();
  };
  bool const readable = read("event_type", p.event_type) && read("aggregate_type", p.aggregate_type);
  return readable && core::is_possible(p) ? std::optional{std::move(p)} : std::nullopt;
}

}  // namespace

std::string encode_names(std::vector<std::string> const& names) {
  return nlohmann::json(names).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::vector<std::string> decode_names(std::string_view text) {
  std::vector<std::string> names;
  auto const all = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!all.is_array()) return names;
  for (auto const& name : all) {
    if (name.is_string()) names.push_back(name.get<std::string>());
  }
  return names;
}

std::string encode_pauses(std::vector<route_pause> const& pauses) {
  auto all = nlohmann::json::array();
  for (auto const& p : pauses) all.push_back({{"event_type", p.event_type}, {"aggregate_type", p.aggregate_type}});
  return all.dump();
}

decoded_pauses decode_pauses(std::string_view text) {
  decoded_pauses found;
  if (text.empty()) return found;
  auto const parsed = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_array()) {
    found.ignored = 1;
    return found;
  }
  for (auto const& entry : parsed) {
    if (auto p = read_pause(entry)) {
      found.pauses.push_back(std::move(*p));
    } else {
      ++found.ignored;
    }
  }
  return found;
}

}  // namespace outbox::inline v0::spi

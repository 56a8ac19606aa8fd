#include <outbox/spi/codecs.hpp>

#include <nlohmann/json.hpp>
#include <optional>

#include "core/events/names_check.hpp"

namespace outbox::inline v0::spi {
namespace {

// False if there is an entry of this name that is not text.
bool read_text(nlohmann::json const& object, char const* name, std::string& into) {
  auto const at = object.find(name);
  if (at == object.end()) return true;
  if (at->is_string()) into = at->get<std::string>();
  return at->is_string();
}

std::optional<route_pause> read_pause(nlohmann::json const& entry) {
  if (!entry.is_object()) return std::nullopt;
  route_pause p;
  bool const readable =
      read_text(entry, "event_type", p.event_type) && read_text(entry, "aggregate_type", p.aggregate_type);
  return readable && core::is_possible(p) ? std::optional{std::move(p)} : std::nullopt;
}

}  // namespace

std::string encode_names(std::vector<std::string> const& names) {
  return nlohmann::json(names).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string encode_routes(std::vector<node_route> const& routes) {
  auto all = nlohmann::json::array();
  for (auto const& r : routes) {
    if (!r.known) {
      all.push_back(r.name);
      continue;
    }
    nlohmann::json one{{"name", r.name}};
    if (!r.event_type.empty()) one["event_type"] = r.event_type;
    if (!r.aggregate_type.empty()) one["aggregate_type"] = r.aggregate_type;
    all.push_back(std::move(one));
  }
  return all.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::vector<node_route> decode_routes(std::string_view text) {
  std::vector<node_route> routes;
  auto const all = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!all.is_array()) return routes;
  for (auto const& entry : all) {
    node_route r;
    if (entry.is_string()) {
      r = {.name = entry.get<std::string>(), .known = false};
    } else if (!entry.is_object() || !read_text(entry, "name", r.name) ||
               !read_text(entry, "event_type", r.event_type) || !read_text(entry, "aggregate_type", r.aggregate_type)) {
      continue;
    }
    routes.push_back(std::move(r));
  }
  return routes;
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

#include "sql/layout_events.hpp"

#include <algorithm>
#include <optional>
#include <outbox/error.hpp>

namespace outbox::inline v0::sql {
namespace {

constexpr std::string_view blanks = " \t\r\n";

[[noreturn]] void refuse(std::string_view field, std::string const& why) {
  throw error::about(errc::invalid_event, field, why);
}

bool hex(char c) noexcept { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

// The end of the string whose opening quote is at `at`.
std::size_t end_of_string(std::string_view json, std::size_t at) {
  for (++at; json[at] != '"'; ++at) {
    if (json[at] == '\\') ++at;
  }
  return at + 1;
}

// The value of a member of an object, as it is written. The text is valid JSON. A name with an escape in it is not
// looked for: the name that is asked for has only letters, digits and underscores.
std::optional<std::string_view> member(std::string_view json, std::string_view name) {
  int depth = 0;
  for (std::size_t at = 0; at < json.size(); ++at) {
    char const c = json[at];
    depth += c == '{' || c == '[' ? 1 : c == '}' || c == ']' ? -1 : 0;
    if (c != '"') continue;
    auto const end = end_of_string(json, at);
    auto const colon = json.find_first_not_of(blanks, end);
    bool const is_name = depth == 1 && colon != std::string_view::npos && json[colon] == ':';
    if (is_name && json.substr(at + 1, end - at - 2) == name) {
      auto const value = json.find_first_not_of(blanks, colon + 1);
      auto const last = json[value] == '"' ? end_of_string(json, value) : json.find_first_of(",}]", value);
      return json.substr(value, last - value);
    }
    at = end - 1;
  }
  return std::nullopt;
}

void check_uuid(std::string_view field, std::string_view value) {
  if (is_uuid(value)) return;
  refuse(field, "is not a UUID, and the table holds UUIDs there");
}

}  // namespace

bool is_uuid(std::string_view text) noexcept {
  if (text.size() != 36) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    bool const hyphen = i == 8 || i == 13 || i == 18 || i == 23;
    if (hyphen ? text[i] != '-' : !hex(text[i])) return false;
  }
  return true;
}

void check_event(table_layout const& l, event const& e) {
  auto const has_none = [&](std::string_view field) {
    refuse(field, "is set, and table '" + l.table + "' has no column for it");
  };
  if (e.kind() == payload_kind::bytes) refuse("payload", "is bytes, and table '" + l.table + "' holds JSON only");
  if (!e.headers().empty() && l.headers.empty()) has_none("headers");
  if (!e.tenant().empty() && l.tenant.empty()) has_none("tenant");
  if (!e.ordering_key().empty()) has_none("ordering_key");
  if (e.delayed()) has_none(e.available_at() ? "available_at" : "deliver_after");
  if (l.ids == id_kind::uuid) check_uuid("id", e.id());
  if (l.needs_aggregate) {
    if (e.aggregate_type() == global_aggregate) refuse("aggregate.type", "is missing, and the table requires it");
    if (e.aggregate_id().empty()) refuse("aggregate.id", "is missing, and the table requires it");
  }
  if (l.aggregate_ids == id_kind::uuid && !e.aggregate_id().empty()) check_uuid("aggregate.id", e.aggregate_id());
}

std::string payload_of(table_layout const& l, event const& e) {
  auto const& text = e.payload();
  if (l.id_in_payload.empty()) return text;
  auto const open = text.find_first_not_of(blanks);
  if (open == std::string::npos || text[open] != '{') {
    refuse("payload", "is not a JSON object, and the event id belongs into its member '" + l.id_in_payload + "'");
  }
  auto const id = '"' + e.id() + '"';
  if (auto const there = member(text, l.id_in_payload)) {
    if (*there == id) return text;
    refuse("payload", "has a member '" + l.id_in_payload + "' that is not the event id");
  }
  auto const first = text.find_first_not_of(blanks, open + 1);
  auto const comma = text[first] == '}' ? "" : ",";
  return text.substr(0, open + 1) + '"' + l.id_in_payload + "\":" + id + comma + text.substr(open + 1);
}

}  // namespace outbox::inline v0::sql

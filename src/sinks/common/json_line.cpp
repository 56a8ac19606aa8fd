// A message as one line of JSON.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <outbox/sinks/json_lines.hpp>

#include "sinks/common/rfc3339.hpp"

namespace outbox::inline v0::json_lines {
namespace {

std::string in_quotes(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void add(std::string& line, std::string_view name, std::string_view value) {
  if (value.empty()) return;
  line += line.size() > 1 ? "," : "";
  line += in_quotes(name) + ":" + in_quotes(value);
}

std::string base64(std::string_view bytes) {
  static constexpr char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    auto const n = std::min<std::size_t>(3, bytes.size() - i);
    unsigned bits = 0;
    for (std::size_t k = 0; k < 3; ++k) bits = bits << 8U | (k < n ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    for (std::size_t k = 0; k < 4; ++k) out += k <= n ? digits[bits >> (18 - 6 * k) & 63U] : '=';
  }
  return out;
}

// What our own headers say is in the line already.
bool is_a_field(std::string_view name) noexcept {
  static constexpr std::string_view fields[] = {"event_id", "event_type",  "aggregate_type", "aggregate_id",
                                                "tenant",   "occurred_at", "content_type"};
  return std::ranges::find(fields, name) != std::end(fields);
}

void add_headers(std::string& line, message const& m) {
  std::string all;
  for (auto const& [name, value] : m.headers) {
    if (!is_a_field(name)) all += (all.empty() ? "" : ",") + in_quotes(name) + ":" + in_quotes(value);
  }
  if (!all.empty()) line += ",\"headers\":{" + all + "}";
}

void add_payload(std::string& line, event const& e) {
  if (e.kind() == payload_kind::bytes) return add(line, "payload_base64", base64(e.payload()));
  if (!nlohmann::json::accept(e.payload())) return add(line, "payload_text", e.payload());
  auto text = e.payload();  // in valid JSON a line break stands between the parts only
  std::ranges::replace(text, '\n', ' ');
  std::ranges::replace(text, '\r', ' ');
  line += ",\"payload\":" + text;
}

}  // namespace

std::string line_of(message const& m) {
  auto const& e = m.event;
  std::string line = "{";
  add(line, "id", e.id());
  add(line, "type", e.type());
  add(line, "topic", m.topic);
  add(line, "key", m.key.value_or(""));
  add(line, "aggregate_type", e.aggregate_type());
  add(line, "aggregate_id", e.aggregate_id());
  add(line, "tenant", e.tenant());
  add(line, "occurred_at", sinks::rfc3339(e.occurred_at()));
  add_headers(line, m);
  add(line, "content_type", e.content_type());
  add_payload(line, e);
  return line + "}\n";
}

}  // namespace outbox::inline v0::json_lines

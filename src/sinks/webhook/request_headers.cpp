#include "sinks/webhook/request_headers.hpp"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <outbox/result.hpp>

namespace outbox::inline v0::webhook {
namespace {

/// A header of the envelope, and what it is called in a request. Servers drop names with an underscore.
struct renamed {
  std::string_view from, to;
};
constexpr renamed our_headers[] = {
    {"event_type", "event-type"},
    {"aggregate_type", "aggregate-type"},
    {"aggregate_id", "aggregate-id"},
    {"tenant", "tenant"},
    {"occurred_at", "occurred-at"},
    {"ce_specversion", "ce-specversion"},
    {"ce_id", "ce-id"},
    {"ce_source", "ce-source"},
    {"ce_type", "ce-type"},
    {"ce_subject", "ce-subject"},
    {"ce_time", "ce-time"},
    {"ce_aggregatetype", "ce-aggregatetype"},
    {"ce_tenant", "ce-tenant"},
};

// Those of the envelope that `webhook-id` and `content-type` say.
constexpr std::string_view said_otherwise[] = {"event_id", "content_type", "content-type"};

// Those that HTTP frames a request with, or that would make a connection do something else.
constexpr std::string_view of_http[] = {"host",       "content-length", "content-type",  "transfer-encoding",
                                        "connection", "expect",         "keep-alive",    "te",
                                        "trailer",    "upgrade",        "http2-settings"};

char lower(char c) noexcept { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool same(std::string_view a, std::string_view b) noexcept {
  return std::ranges::equal(a, b, [](char x, char y) { return lower(x) == lower(y); });
}

bool begins(std::string_view name, std::string_view with) noexcept {
  return name.size() >= with.size() && same(name.substr(0, with.size()), with);
}

bool has(header_list const& all, std::string_view name) noexcept {
  return std::ranges::any_of(all, [&](auto const& h) { return same(h.first, name); });
}

// CloudEvents over HTTP: whatever is not visible ASCII, quotes and percent signs are percent-encoded.
std::string percent_encoded(std::string_view value) {
  std::string out;
  for (char const c : value) {
    auto const u = static_cast<unsigned char>(c);
    if (u > 0x20 && u < 0x7f && c != '"' && c != '%') {
      out += c;
    } else {
      char code[4];
      std::snprintf(code, sizeof code, "%%%02X", static_cast<unsigned>(u));
      out += code;
    }
  }
  return out;
}

void add(header_list& to, std::string_view name, std::string value) {
  if (!is_header_name(name)) {
    throw permanent_failure{"the header '" + std::string{name} + "' cannot be sent: its name is no token of HTTP"};
  }
  if (!is_header_value(value)) {
    throw permanent_failure{"the header '" + std::string{name} + "' cannot be sent: its value has a control character"};
  }
  to.emplace_back(name, std::move(value));
}

// The text that is signed has full stops between its parts.
void check_id(std::string_view id) {
  bool const fits = std::ranges::all_of(id, [](char c) { return c > 0x20 && c < 0x7f && c != '.'; });
  if (!fits || id.empty()) {
    throw permanent_failure{"the event id cannot be a webhook-id, which has visible ASCII characters and no full stop"};
  }
}

}  // namespace

bool is_header_name(std::string_view name) noexcept {
  constexpr std::string_view signs = "!#$%&'*+-.^_`|~";
  return !name.empty() && std::ranges::all_of(name, [&](char c) {
    auto const small = lower(c);
    return (small >= 'a' && small <= 'z') || (c >= '0' && c <= '9') || signs.find(c) != std::string_view::npos;
  });
}

bool is_header_value(std::string_view value) noexcept {
  return std::ranges::none_of(value, [](char c) {
    auto const u = static_cast<unsigned char>(c);
    return (u < 0x20 && c != '\t') || u == 0x7f;
  });
}

bool is_reserved(std::string_view name) noexcept {
  return begins(name, "webhook-") || begins(name, "proxy-") ||
         std::ranges::any_of(of_http, [&](auto one) { return same(one, name); }) ||
         std::ranges::any_of(our_headers, [&](auto const& one) { return same(one.to, name); });
}

header_list request_headers(message const& m, header_list const& fixed) {
  check_id(m.event.id());
  header_list all = fixed;
  if (!m.event.content_type().empty()) add(all, "content-type", m.event.content_type());
  for (auto const& [name, value] : m.headers) {
    if (std::ranges::find(said_otherwise, name) != std::end(said_otherwise)) continue;
    auto const* const ours = std::ranges::find(our_headers, name, &renamed::from);
    if (ours != std::end(our_headers)) {
      add(all, ours->to, ours->to.starts_with("ce-") ? percent_encoded(value) : value);
    } else if (!is_reserved(name) && !has(all, name)) {
      add(all, name, value);
    }
  }
  return all;
}

}  // namespace outbox::inline v0::webhook

#include "sinks/webhook/endpoint.hpp"

#include <curl/curl.h>
#include <unistd.h>

#include <memory>
#include <outbox/error.hpp>

#include "sinks/webhook/signature.hpp"

namespace outbox::inline v0::webhook {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds shortest{100}, longest{std::chrono::minutes{5}};
constexpr std::size_t most_secrets = 10, most_in_flight = 1000;

[[noreturn]] void refuse(std::string const& field, std::string const& problem) {
  throw error::about(errc::invalid_option, field, problem);
}

struct free_url {
  void operator()(CURLU* u) const noexcept { curl_url_cleanup(u); }
};
using url_parts = std::unique_ptr<CURLU, free_url>;

std::string part(url_parts const& u, CURLUPart which) {
  char* text = nullptr;
  if (curl_url_get(u.get(), which, &text, 0) != CURLUE_OK) return {};
  std::unique_ptr<char, void (*)(void*)> const owned{text, &curl_free};
  return text;
}

// Returns true for https.
bool check_url(options const& o) {
  if (o.url.empty()) refuse("url", "is empty: write https://host/path");
  url_parts const u{curl_url()};
  if (!u || curl_url_set(u.get(), CURLUPART_URL, o.url.c_str(), CURLU_NON_SUPPORT_SCHEME) != CURLUE_OK ||
      o.url.find('\0') != std::string::npos) {
    refuse("url", "is not a URL: write https://host/path");
  }
  auto const scheme = part(u, CURLUPART_SCHEME);
  if (scheme == "http" && !o.allow_http) refuse("url", "begins with http: what is sent can be read; see allow_http");
  if (scheme != "https" && scheme != "http") refuse("url", "must begin with https");
  if (part(u, CURLUPART_HOST).empty() || o.url.substr(scheme.size()).starts_with(":///")) {
    refuse("url", "is not a URL: it has no host");
  }
  if (!part(u, CURLUPART_USER).empty() || !part(u, CURLUPART_PASSWORD).empty()) {
    refuse("url", "has a user or a password: use a header");
  }
  if (!part(u, CURLUPART_FRAGMENT).empty()) refuse("url", "has a fragment, which is not sent");
  return scheme == "https";
}

std::vector<std::string> keys_of(options const& o) {
  if (o.secrets.empty()) refuse("secrets", "is empty: requests are signed with at least one");
  if (o.secrets.size() > most_secrets) refuse("secrets", "has more than " + std::to_string(most_secrets));
  std::vector<std::string> keys;
  for (auto const& s : o.secrets) {
    auto key = key_of_secret(s);
    if (!key) {
      refuse("secrets", "has at position " + std::to_string(keys.size() + 1) +
                            " none of the form whsec_ and 24 to 64 bytes in base64");
    }
    keys.push_back(std::move(*key));
  }
  return keys;
}

void check_headers(options const& o) {
  for (auto const& [name, value] : o.headers) {
    if (!is_header_name(name)) refuse("headers", "has '" + name + "', whose name is no token of HTTP");
    if (is_reserved(name)) refuse("headers", "has '" + name + "', which this library or HTTP writes itself");
    if (!is_header_value(value)) refuse("headers." + name, "has a control character");
  }
}

}  // namespace

endpoint endpoint_of(options const& o) {
  bool const secure = check_url(o);
  auto keys = keys_of(o);
  if (o.timeout < shortest || o.timeout > longest) refuse("timeout", "must be 100 ms to 5 min");
  if (o.max_in_flight < 1 || o.max_in_flight > most_in_flight) refuse("max_in_flight", "must be 1 to 1000");
  check_headers(o);
  if (!o.ca_file.empty() && ::access(o.ca_file.c_str(), R_OK) != 0) {
    refuse("ca_file", "'" + o.ca_file + "' cannot be read");
  }
  return {o.url,     secure, std::move(keys), o.timeout, o.max_in_flight, o.headers, o.allow_private_addresses,
          o.ca_file, o.name};
}

}  // namespace outbox::inline v0::webhook

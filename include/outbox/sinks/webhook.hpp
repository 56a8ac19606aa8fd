// The sink for webhooks, on libcurl: a signed POST request for each message.
/// \file
///
///     auto hook = outbox::webhook::open({.url = "https://partner.example/hooks", .secrets = {secret}});
///     listeners.on_any(outbox::publish(hook));
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <outbox/detail/webhook_export.hpp>
#include <outbox/sink.hpp>
#include <string>
#include <utility>
#include <vector>

namespace outbox::inline v0::webhook {

/// One endpoint.
struct options {
  /// Where the requests go: "https://host/path". Required. It has no user, no password and no fragment. Its query may
  /// have a token: errors and logs do not show it.
  std::string url{};

  /// The secrets that sign each request, "whsec_" and 24 to 64 bytes in base64. Required: 1 to 10. While one is
  /// replaced, both are here, and the receiver accepts either. They are in no error, log or health text.
  std::vector<std::string> secrets{};

  /// How long a request may take, from the look-up of the host name to the end of the answer. Default 15 s. 100 ms …
  /// 5 min. The timeout of a route that publishes must be longer than twice this and 1 s.
  std::chrono::milliseconds timeout{15'000};

  /// How many requests may be under way at the same time. Default 16. 1 … 1000. Twice as many messages may be in the
  /// sink; then `publish` waits.
  std::size_t max_in_flight = 16;

  /// Headers of every request, as in {"Authorization", "Bearer …"}. Default: none. They replace those of a message that
  /// have the same name. Their values are in no error or log.
  std::vector<std::pair<std::string, std::string>> headers{};

  /// Whether `url` may begin with "http:". Default false.
  bool allow_http = false;

  /// Whether requests may go to addresses that are not public: loopback, private, link-local and the like. Default
  /// false: a URL that another person gave you must not reach into your network. The address that the connection is
  /// made to is the one that is checked.
  bool allow_private_addresses = false;

  /// A file with the certificates of the authorities that may sign the receiver's certificate, in PEM form. Default
  /// empty: those of the system.
  std::string ca_file{};

  /// What the log and `health()` call it. Default "webhook".
  std::string name = "webhook";
};

/// Returns a sink for one endpoint, with Standard Webhooks signatures. Does not wait for the receiver.
///
/// It has one thread of its own, which keeps all requests under way and reuses connections. A message becomes a POST
/// request: its body is the payload, `webhook-id` is the event id, the same each time the event is tried; the topic,
/// the key and the partition are not sent. Redirects are not followed, and proxies of the environment are not used.
///
/// What an answer means is in the reference of sinks. A receiver that asks for time by Retry-After gets it, up to 24 h:
/// until then the sink sends it nothing.
///
/// Its destructor gives up the messages that have no report yet: those whose request was sent are unsure, the others
/// unavailable.
///
/// Throws `error` (invalid_option) that names the option.
[[nodiscard]] OUTBOX_WEBHOOK_EXPORT std::shared_ptr<sink> open(options o);

/// Throws what `open` would throw about the options, and opens nothing.
OUTBOX_WEBHOOK_EXPORT void check(options const& o);

}  // namespace outbox::inline v0::webhook

// An endpoint: the options of a sink, checked.
#pragma once

#include <outbox/sinks/webhook.hpp>
#include <string>
#include <vector>

#include "sinks/webhook/request_headers.hpp"

namespace outbox::inline v0::webhook {

struct endpoint {
  std::string url;
  bool secure = true;                 ///< https
  std::vector<std::string> keys;      ///< The secrets, decoded.
  std::chrono::milliseconds timeout;  ///< Of one request.
  std::size_t max_in_flight;
  header_list headers;
  bool allow_private_addresses;
  std::string ca_file;
  std::string name;
};

/// Throws `error` (invalid_option) that names the option. Its text has neither the URL nor a secret.
[[nodiscard]] endpoint endpoint_of(options const& o);

}  // namespace outbox::inline v0::webhook

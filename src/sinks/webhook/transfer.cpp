#include "sinks/webhook/transfer.hpp"

#include <strings.h>
#include <sys/socket.h>

#include <outbox/version.hpp>
#include <stdexcept>

#include "sinks/webhook/address_rules.hpp"
#include "sinks/webhook/outcome.hpp"
#include "sinks/webhook/signature.hpp"

namespace outbox::inline v0::webhook {

transfer::transfer(endpoint const& to, event const& e, header_list const& headers)
    : to_{to}, kept_{e}, easy_{curl_easy_init()} {
  if (!easy_) throw std::runtime_error{"libcurl made no handle"};
  set_target();
  set_callbacks();
  set_headers(headers);
  set(CURLOPT_POST, 1L);
  set(CURLOPT_POSTFIELDS, kept_.payload().data());
  set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(kept_.payload().size()));
}

template <class T>
void transfer::set(CURLoption option, T value) {
  auto const code = curl_easy_setopt(easy_.get(), option, value);
  if (code != CURLE_OK) throw std::runtime_error{std::string{"libcurl refused an option: "} + curl_easy_strerror(code)};
}

// HTTP/1.1 has one request at a time on a connection, so that the limit of requests is one of connections too.
void transfer::set_target() {
  set(CURLOPT_URL, to_.url.c_str());
  set(CURLOPT_PROTOCOLS_STR, to_.secure ? "https" : "http");
  set(CURLOPT_FOLLOWLOCATION, 0L);
  set(CURLOPT_PROXY, "");
  set(CURLOPT_NOPROXY, "*");
  set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  set(CURLOPT_TIMEOUT_MS, static_cast<long>(to_.timeout.count()));
  set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(to_.timeout.count()));
  set(CURLOPT_NOSIGNAL, 1L);
#if LIBCURL_VERSION_NUM >= 0x075700
  set(CURLOPT_QUICK_EXIT, 1L);  // a name server that does not answer holds up no other request
#endif
  set(CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  set(CURLOPT_SSL_VERIFYPEER, 1L);
  set(CURLOPT_SSL_VERIFYHOST, 2L);
  if (!to_.ca_file.empty()) set(CURLOPT_CAINFO, to_.ca_file.c_str());
}

void transfer::set_callbacks() {
  set(CURLOPT_ERRORBUFFER, said_.data());
  set(CURLOPT_HEADERFUNCTION, &transfer::on_header);
  set(CURLOPT_HEADERDATA, static_cast<void*>(this));
  set(CURLOPT_WRITEFUNCTION, &transfer::on_body);
  set(CURLOPT_WRITEDATA, static_cast<void*>(this));
  set(CURLOPT_OPENSOCKETFUNCTION, &transfer::on_socket);
  set(CURLOPT_OPENSOCKETDATA, static_cast<void*>(this));
}

void transfer::set_headers(header_list const& headers) {
  auto const now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  std::int64_t const timestamp = now.time_since_epoch().count();
  add_line("webhook-id: " + kept_.id());
  add_line("webhook-timestamp: " + std::to_string(timestamp));
  add_line("webhook-signature: " + signature(to_.keys, kept_.id(), timestamp, kept_.payload()));
  bool typed = false, named = false;
  for (auto const& [name, value] : headers) {
    add_line(value.empty() ? name + ";" : name + ": " + value);  // libcurl would take "name:" as "do not send it"
    typed = typed || name == "content-type";
    named = named || ::strcasecmp(name.c_str(), "user-agent") == 0;
  }
  if (!typed) add_line("content-type:");  // not the one that libcurl gives a form
  if (!named) add_line("user-agent: outbox/" + std::string{version()});
  add_line("expect:");  // no wait for "100 Continue"
  set(CURLOPT_HTTPHEADER, lines_.get());
}

void transfer::add_line(std::string const& line) {
  auto* const longer = curl_slist_append(lines_.get(), line.c_str());
  if (longer == nullptr) throw std::bad_alloc{};
  static_cast<void>(lines_.release());
  lines_.reset(longer);
}

std::size_t transfer::on_header(char const* data, std::size_t size, std::size_t count, void* self) {
  try {
    static_cast<transfer*>(self)->answer_.header_line({data, size * count});
    return size * count;
  } catch (...) {
    return 0;  // no memory; libcurl ends the transfer
  }
}

std::size_t transfer::on_body(char const* /*data*/, std::size_t size, std::size_t count, void* self) {
  return static_cast<transfer*>(self)->answer_.body(size * count) ? size * count : 0;
}

// The name was resolved already, and no other look-up comes between this check and the connection.
curl_socket_t transfer::on_socket(void* self, curlsocktype /*purpose*/, curl_sockaddr* address) {
  auto& t = *static_cast<transfer*>(self);
  if (!t.to_.allow_private_addresses) {
    if (auto const kind = not_public(address->addr); !kind.empty()) {
      try {
        t.refused_ = "the address " + address_text(address->addr) + " is " + std::string{kind} +
                     ", and allow_private_addresses is not set";
      } catch (...) {  // NOLINT(bugprone-empty-catch): no memory for the reason; the address is refused all the same
      }
      return CURL_SOCKET_BAD;
    }
  }
  return ::socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

bool transfer::sent() const noexcept {
  long bytes = 0;
  curl_easy_getinfo(easy_.get(), CURLINFO_REQUEST_SIZE, &bytes);
  return bytes > 0;
}

// The header of an answer decides, whatever becomes of its body.
published transfer::ended(CURLcode code) const {
  if (auto const status = answer_.status(); status != 0) {
    return outcome_of_status(status, answer_.wish(),
                             std::chrono::system_clock::to_time_t(std::chrono::system_clock::now()));
  }
  curl_off_t resolved = 0;
  curl_easy_getinfo(easy_.get(), CURLINFO_NAMELOOKUP_TIME_T, &resolved);
  return outcome_of_interruption({code, resolved > 0, sent(), refused_, said_.data()});
}

published transfer::given_up() const {
  if (answer_.status() != 0) return ended(CURLE_OK);
  if (sent()) return {published::how::unsure, "it may have been received: the sink was closed before the answer"};
  return {published::how::unavailable, "the sink was closed"};
}

}  // namespace outbox::inline v0::webhook

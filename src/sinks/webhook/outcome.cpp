#include "sinks/webhook/outcome.hpp"

#include <curl/curl.h>

#include <algorithm>
#include <iterator>

#include "sinks/webhook/answer.hpp"

namespace outbox::inline v0::webhook {
namespace {

using how = published::how;

template <class T, std::size_t N>
bool is_one_of(T const (&all)[N], T one) noexcept {
  return std::ranges::find(all, one) != std::end(all);
}

// The receiver has read the message and will never take it.
constexpr int refusals[] = {400, 409, 410, 413, 415, 422};

// The receiver does not know us, or not the path: the next message would fare no better.
constexpr int closed_doors[] = {401, 403, 404, 407};

// They come from a gateway, which does not know what the receiver did.
constexpr int of_a_gateway[] = {502, 504};

constexpr CURLcode of_tls[] = {
    CURLE_SSL_CONNECT_ERROR,    CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_CERTPROBLEM,  CURLE_SSL_CIPHER,
    CURLE_SSL_CACERT_BADFILE,   CURLE_SSL_CRL_BADFILE,          CURLE_SSL_ISSUER_ERROR, CURLE_SSL_ENGINE_NOTFOUND,
    CURLE_SSL_ENGINE_SETFAILED, CURLE_SSL_ENGINE_INITFAILED,    CURLE_USE_SSL_FAILED,   CURLE_SSL_INVALIDCERTSTATUS,
    CURLE_SSL_CLIENTCERT,       CURLE_SSL_PINNEDPUBKEYNOTMATCH};

}  // namespace

published outcome_of_status(int status, std::string const& wish, std::time_t now) {
  auto const text = "HTTP " + std::to_string(status);
  if (status >= 200 && status < 300) return {how::stored, {}};
  if (is_one_of(refusals, status)) return {how::rejected, text};
  if (is_one_of(closed_doors, status)) return {how::unavailable, text};
  if (status == 429 || status == 503) {
    if (auto const after = retry_after(wish, now)) return {how::deferred, text + " with Retry-After", *after};
  }
  if (status >= 300 && status < 400) return {how::failed, text + ": redirects are not followed"};
  if (is_one_of(of_a_gateway, status)) return {how::unsure, "it may have been received: " + text};
  return {how::failed, text};
}

// Names and certificates are wrong for every message, and so is an address that may not be used.
published outcome_of_interruption(interruption const& i) {
  auto const code = static_cast<CURLcode>(i.code);
  auto const text = i.text.empty() ? std::string{curl_easy_strerror(code)} : i.text;
  if (i.sent) return {how::unsure, "it may have been received: " + text};
  if (!i.refused.empty()) return {how::unavailable, i.refused};
  bool const no_name = code == CURLE_COULDNT_RESOLVE_HOST || (code == CURLE_OPERATION_TIMEDOUT && !i.resolved);
  if (no_name || is_one_of(of_tls, code)) return {how::unavailable, text};
  return {how::failed, text};
}

}  // namespace outbox::inline v0::webhook

#include "redis/encrypted.hpp"

#include <arpa/inet.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <new>
#include <outbox/error.hpp>

namespace outbox::inline v0::redis {
namespace {

struct free_context {
  void operator()(SSL_CTX* c) const noexcept { SSL_CTX_free(c); }
};
using context = std::unique_ptr<SSL_CTX, free_context>;

// OpenSSL's own writes to a socket raise SIGPIPE in a program that does not expect it. These do not.
int write_to_socket(BIO* b, char const* bytes, int size) {
  BIO_clear_retry_flags(b);
  try {
    auto const& s = *static_cast<socket const*>(BIO_get_data(b));
    auto const n = s.send({bytes, static_cast<std::size_t>(size)});
    if (n > 0) return static_cast<int>(n);
    BIO_set_retry_write(b);
  } catch (std::exception const&) {  // the session reports that the connection was lost
  }
  return -1;
}

int read_from_socket(BIO* b, char* into, int size) {
  BIO_clear_retry_flags(b);
  try {
    auto const& s = *static_cast<socket const*>(BIO_get_data(b));
    auto const n = s.receive({into, static_cast<std::size_t>(size)});
    if (n > 0) return static_cast<int>(n);
    BIO_set_retry_read(b);
  } catch (std::exception const&) {
  }
  return -1;
}

long control_socket(BIO* /*b*/, int command, long /*number*/, void* /*pointer*/) {
  return command == BIO_CTRL_FLUSH ? 1 : 0;  // nothing is held back
}

BIO_METHOD* socket_method() {
  static BIO_METHOD* const method = [] {
    auto* const m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket");
    if (m == nullptr) throw std::bad_alloc{};
    BIO_meth_set_write(m, write_to_socket);
    BIO_meth_set_read(m, read_from_socket);
    BIO_meth_set_ctrl(m, control_socket);
    return m;
  }();
  return method;
}

std::string reason_of(unsigned long code) {
  char const* const text = ERR_reason_error_string(code);
  return text != nullptr ? text : "error " + std::to_string(code);
}

void check_file(bool read, std::string_view parameter) {
  if (read) return;
  throw error{errc::store_failure,
              "cannot use the " + std::string{parameter} + " of the url: " + reason_of(ERR_peek_last_error())};
}

// Without it a key that has a password would be asked for at the terminal.
int no_password(char* /*into*/, int /*size*/, int /*writing*/, void* /*data*/) { return -1; }

// An authority that is named is always asked for.
bool checks_certificate(address const& to) noexcept { return to.tls == tls::verify || !to.ca.empty(); }

// Made anew for every connection, so that certificates can be renewed while the program runs.
context make_context(address const& to) {
  context c{SSL_CTX_new(TLS_client_method())};
  if (!c) throw std::bad_alloc{};
  SSL_CTX_set_min_proto_version(c.get(), TLS1_2_VERSION);
  SSL_CTX_set_options(c.get(), SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_mode(c.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_default_passwd_cb(c.get(), no_password);
  if (!to.ca.empty()) {
    check_file(SSL_CTX_load_verify_file(c.get(), to.ca.c_str()) == 1, "ssl_ca");
  } else if (to.tls == tls::verify) {
    SSL_CTX_set_default_verify_paths(c.get());
  }
  if (checks_certificate(to)) SSL_CTX_set_verify(c.get(), SSL_VERIFY_PEER, nullptr);
  if (to.certificate.empty()) return c;
  auto const& key = to.key.empty() ? to.certificate : to.key;  // both may be in one file
  check_file(SSL_CTX_use_certificate_chain_file(c.get(), to.certificate.c_str()) == 1, "ssl_cert");
  check_file(SSL_CTX_use_PrivateKey_file(c.get(), key.c_str(), SSL_FILETYPE_PEM) == 1, "ssl_key");
  return c;
}

bool is_number(std::string const& host) noexcept {
  std::array<unsigned char, sizeof(::in6_addr)> ignored{};
  return ::inet_pton(AF_INET, host.c_str(), ignored.data()) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), ignored.data()) == 1;
}

// A name is told to the server too, which may have several certificates.
void expect_host(SSL* s, address const& to) {
  auto const host = to.host.substr(0, to.host.find('%'));  // an IPv6 address may name an interface
  bool const numeric = is_number(host);
  bool ok = numeric || SSL_set_tlsext_host_name(s, host.c_str()) == 1;
  if (to.tls == tls::verify) {
    SSL_set_hostflags(s, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    ok = ok && (numeric ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(s), host.c_str())
                        : SSL_set1_host(s, host.c_str())) == 1;
  }
  if (!ok) throw error{errc::store_failure, "cannot check the certificate of the server " + shown(to)};
}

// An alert says what the server does not like. These are not about us. With TLS 1.3 it comes after the handshake; what
// else is wrong then has become so on the way.
bool will_not_pass(unsigned long code, bool in_handshake) noexcept {
  static constexpr int passing[] = {SSL_AD_BAD_RECORD_MAC, SSL_AD_INTERNAL_ERROR, SSL_AD_USER_CANCELLED};
  int const reason = ERR_GET_REASON(code);
  if (ERR_GET_LIB(code) != ERR_LIB_SSL || reason == SSL_R_UNEXPECTED_EOF_WHILE_READING) return false;
  if (reason < SSL_AD_REASON_OFFSET) return in_handshake;
  return std::ranges::find(passing, reason - SSL_AD_REASON_OFFSET) == std::end(passing);
}

}  // namespace

encrypted::encrypted(socket s, address const& to, deadline until) : socket_{std::move(s)}, name_{shown(to)} {
  ERR_clear_error();
  auto const c = make_context(to);
  session_.reset(SSL_new(c.get()));
  auto* const b = session_ ? BIO_new(socket_method()) : nullptr;
  if (b == nullptr) throw std::bad_alloc{};
  BIO_set_data(b, &socket_);
  BIO_set_init(b, 1);
  SSL_set_bio(session_.get(), b, b);  // takes it
  expect_host(session_.get(), to);
  shake_hands(until);
}

void encrypted::shake_hands(deadline until) {
  while (true) {
    ERR_clear_error();
    int const result = SSL_connect(session_.get());
    met_ = result == 1;
    if (met_) return;
    auto const wish = SSL_get_error(session_.get(), result);
    if (wish != SSL_ERROR_WANT_READ && wish != SSL_ERROR_WANT_WRITE) fail(result);
    auto const events = static_cast<short>(wish == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT);
    if (wait_for(descriptor(), events, until) == woken::late || is_over(until)) {
      throw error{errc::unavailable,
                  "the server " + name_ + " did not answer the handshake of TLS in time: does its port speak TLS?"};
    }
  }
}

std::size_t encrypted::read(std::span<char> into) {
  ERR_clear_error();
  std::size_t n = 0;
  int const result = SSL_read_ex(session_.get(), into.data(), into.size(), &n);
  if (result == 1) return n;
  if (SSL_get_error(session_.get(), result) != SSL_ERROR_WANT_READ) fail(result);
  return 0;
}

std::size_t encrypted::write(std::string_view bytes) {
  ERR_clear_error();
  std::size_t n = 0;
  int const result = SSL_write_ex(session_.get(), bytes.data(), bytes.size(), &n);
  if (result == 1) return n;
  if (SSL_get_error(session_.get(), result) != SSL_ERROR_WANT_WRITE) fail(result);
  return 0;
}

void encrypted::fail(int result) const {
  auto const code = ERR_peek_error();
  int const reason = ERR_GET_REASON(code);
  auto const server = "the server " + name_;
  if (SSL_get_error(session_.get(), result) != SSL_ERROR_SSL || !will_not_pass(code, !met_)) {
    throw error{errc::unavailable, "the connection to " + server + " was lost"};
  }
  if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED) {
    throw error{errc::store_failure, "the certificate of " + server + " is refused: " +
                                         X509_verify_cert_error_string(SSL_get_verify_result(session_.get()))};
  }
  if (reason == SSL_R_WRONG_VERSION_NUMBER) throw error{errc::store_failure, server + " does not speak TLS"};
  throw error{errc::store_failure, server + " refuses TLS: " + reason_of(code)};
}

}  // namespace outbox::inline v0::redis

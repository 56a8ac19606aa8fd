// TLS on a socket, by OpenSSL.
#pragma once

#include <openssl/ssl.h>

#include <memory>
#include <string>

#include "redis/socket.hpp"

namespace outbox::inline v0::redis {

/// TLS 1.2 or later.
class encrypted final : public channel {
 public:
  /// Shakes hands. Throws `error`: unavailable if the connection is lost or the server does not answer in time;
  /// store_failure if a file cannot be read, if the server does not speak TLS, or if one side refuses the other's
  /// certificate.
  encrypted(socket s, address const& to, deadline until);

  std::size_t read(std::span<char> into) override;
  std::size_t write(std::string_view bytes) override;
  int descriptor() const noexcept override { return socket_.descriptor(); }

 private:
  struct free_session {
    void operator()(SSL* s) const noexcept { SSL_free(s); }
  };

  void shake_hands(deadline until);
  [[noreturn]] void fail(int result) const;

  socket socket_;
  std::string name_;  ///< Of the server, for messages.
  std::unique_ptr<SSL, free_session> session_;
  bool met_ = false;  ///< The handshake is over.
};

}  // namespace outbox::inline v0::redis

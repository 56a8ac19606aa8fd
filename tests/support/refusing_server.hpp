// Speaks as much of PostgreSQL's protocol as it takes to refuse a connection.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <thread>

namespace outbox {

class refusing_server {
 public:
  /// Says `state` and `text` to everybody, and calls it `severity`, in whatever language.
  refusing_server(std::string const& severity, std::string const& state, std::string const& text) {
    auto const field = [](char code, std::string const& value) { return code + value + '\0'; };
    auto const body = field('S', severity) + field('V', "FATAL") + field('C', state) + field('M', text) +
                      field('F', "nowhere.c") + field('L', "1") + field('R', "refuse") + '\0';
    auto const length = ::htonl(static_cast<std::uint32_t>(body.size() + sizeof(std::uint32_t)));
    answer_ = 'E' + std::string(reinterpret_cast<char const*>(&length), sizeof length) + body;
    ::sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
    ::socklen_t size = sizeof a;
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (::bind(listener_, reinterpret_cast<::sockaddr*>(&a), sizeof a) != 0 || ::listen(listener_, 16) != 0 ||
        ::getsockname(listener_, reinterpret_cast<::sockaddr*>(&a), &size) != 0) {
      throw std::runtime_error{"cannot listen"};
    }
    port_ = ::ntohs(a.sin_port);
    thread_ = std::thread{[this] { loop(); }};
  }
  refusing_server(refusing_server const&) = delete;
  refusing_server& operator=(refusing_server const&) = delete;
  ~refusing_server() {
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
  }

  [[nodiscard]] int port() const noexcept { return port_; }
  [[nodiscard]] int connections() const noexcept { return connections_; }

 private:
  void loop() {
    while (true) {
      int const client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (client < 0) return;
      ++connections_;
      while (read_startup(client)) {
      }
      ::close(client);
    }
  }

  // True if something else follows: a request for encryption is declined first.
  bool read_startup(int client) {
    std::uint32_t head[2] = {};
    if (::recv(client, head, sizeof head, MSG_WAITALL) != sizeof head) return false;
    std::string rest(::ntohl(head[0]) - sizeof head, '\0');
    if (!rest.empty() && ::recv(client, rest.data(), rest.size(), MSG_WAITALL) < 0) return false;
    constexpr std::uint32_t encryption = 1234U << 16U;  // the versions that ask for TLS or GSSAPI begin so
    bool const asks = (::ntohl(head[1]) & 0xFFFF0000U) == encryption;
    std::string const reply = asks ? "N" : answer_;
    return ::send(client, reply.data(), reply.size(), MSG_NOSIGNAL) > 0 && asks;
  }

  std::string answer_;
  int listener_ = -1;
  int port_ = 0;
  std::atomic<int> connections_ = 0;
  std::thread thread_;
};

}  // namespace outbox

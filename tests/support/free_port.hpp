// A free loopback port below the range that the system assigns by itself, so that it stays free until it is used.
#pragma once

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <random>
#include <stdexcept>

namespace outbox {

[[nodiscard]] inline int free_port() {
  std::random_device random;
  for (int i = 0; i < 1000; ++i) {
    int const port = std::uniform_int_distribution{10'000, 32'000}(random);
    int const s = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ::sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
    a.sin_port = ::htons(static_cast<std::uint16_t>(port));
    bool const free = s >= 0 && ::bind(s, reinterpret_cast<::sockaddr*>(&a), sizeof a) == 0;
    ::close(s);
    if (free) return port;
  }
  throw std::runtime_error{"cannot find a free port"};
}

}  // namespace outbox

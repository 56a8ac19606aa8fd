#include "support/tcp_proxy.hpp"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <list>
#include <stdexcept>
#include <string_view>
#include <vector>

namespace outbox {
namespace {

::sockaddr_in loopback(int port) {
  ::sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
  a.sin_port = ::htons(static_cast<std::uint16_t>(port));
  return a;
}

bool write_all(int to, char const* data, std::size_t size) {
  while (size > 0) {
    auto const n = ::send(to, data, size, MSG_NOSIGNAL);
    if (n <= 0) return false;
    data += n;
    size -= static_cast<std::size_t>(n);
  }
  return true;
}

}  // namespace

struct tcp_proxy::pair {
  int client, server;
  bool drop_reply = false;
  pair(int c, int s) : client{c}, server{s} {}
  pair(pair const&) = delete;
  pair& operator=(pair const&) = delete;
  ~pair() {
    ::close(client);
    ::close(server);
  }
};

tcp_proxy::tcp_proxy(int port) : target_{port} {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  auto a = loopback(0);
  ::socklen_t size = sizeof a;
  if (::bind(listener_, reinterpret_cast<::sockaddr*>(&a), size) != 0 || ::listen(listener_, 64) != 0 ||
      ::getsockname(listener_, reinterpret_cast<::sockaddr*>(&a), &size) != 0) {
    throw std::runtime_error{"cannot listen"};
  }
  port_ = ::ntohs(a.sin_port);
  thread_ = std::thread{[this] { loop(); }};
}

tcp_proxy::~tcp_proxy() {
  quit_ = true;
  thread_.join();
  ::close(listener_);
}

void tcp_proxy::cut_all() noexcept {
  cut_all_ = true;
  while (cut_all_) std::this_thread::yield();
}

// False if the connection is over.
bool tcp_proxy::pass(pair& p, bool from_client) {
  char data[65536];
  auto const n = ::recv(from_client ? p.client : p.server, data, sizeof data, 0);
  if (n <= 0) return false;
  auto const size = static_cast<std::size_t>(n);
  if (!from_client) return !p.drop_reply && write_all(p.client, data, size);
  if (std::string_view{data, size}.find("COMMIT") != std::string_view::npos) {
    auto const where = where_.exchange(cut::nowhere);
    if (where == cut::before_request) return false;
    p.drop_reply = where == cut::before_reply;
  }
  return write_all(p.server, data, size);
}

void tcp_proxy::loop() {
  std::list<pair> pairs;
  while (!quit_) {
    if (cut_all_) {
      pairs.clear();
      cut_all_ = false;
    }
    std::vector<::pollfd> ends;
    bool const stalled = stalled_;
    if (!stalled) ends.push_back({listener_, POLLIN, 0});
    for (auto const& p : pairs) {
      if (stalled) break;
      ends.push_back({p.client, POLLIN, 0});
      ends.push_back({p.server, POLLIN, 0});
    }
    if (::poll(ends.data(), ends.size(), 5) <= 0 || stalled) continue;
    std::size_t at = 1;
    for (auto p = pairs.begin(); p != pairs.end(); at += 2) {
      bool alive = true;
      if (ends[at].revents != 0) alive = pass(*p, true);
      if (alive && ends[at + 1].revents != 0) alive = pass(*p, false);
      p = alive ? std::next(p) : pairs.erase(p);
    }
    if (ends[0].revents != 0) {
      int const client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      int const server = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      auto const a = loopback(target_);
      ++connections_;
      if (::connect(server, reinterpret_cast<::sockaddr const*>(&a), sizeof a) == 0) {
        pairs.emplace_back(client, server);
      } else {
        ::close(client);
        ::close(server);
      }
    }
  }
}

}  // namespace outbox

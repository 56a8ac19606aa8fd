#include "support/tcp_proxy.hpp"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <list>
#include <stdexcept>
#include <string_view>
#include <utility>
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

// Reads the client's side of PostgreSQL's protocol as far as it takes to tell one message from the next.
class message_reader {
 public:
  /// The number of messages beginning in these bytes that ask the server to parse a statement.
  int parses_in(std::string_view bytes) {
    int found = 0;
    while (!bytes.empty()) {
      if (body_ == 0) {
        auto const n = std::min(bytes.size(), head_size() - head_.size());
        head_ += bytes.substr(0, n);
        bytes.remove_prefix(n);
        if (head_.size() == head_size()) found += begin() ? 1 : 0;
        continue;
      }
      auto const n = std::min(bytes.size(), body_);
      bytes.remove_prefix(n);
      body_ -= n;
    }
    return found;
  }

 private:
  // The first messages have no type but a code: requests for encryption, then the startup.
  [[nodiscard]] std::size_t head_size() const noexcept { return started_ ? 5 : 8; }
  [[nodiscard]] std::uint32_t number_at(std::size_t at) const noexcept {
    std::uint32_t n = 0;
    for (std::size_t i = at; i < at + 4; ++i) n = n << 8U | static_cast<unsigned char>(head_[i]);
    return n;
  }
  bool begin() {
    constexpr std::uint32_t tls = 80877103;
    constexpr std::uint32_t gss = 80877104;
    bool const parse = started_ && head_[0] == 'P';
    body_ = number_at(started_ ? 1 : 0) - (started_ ? 4U : 8U);
    started_ = started_ || (number_at(4) != tls && number_at(4) != gss);
    head_.clear();
    return parse;
  }

  bool started_ = false;
  std::string head_;
  std::size_t body_ = 0;  ///< What is left of the message.
};

}  // namespace

struct tcp_proxy::pair {
  int client, server;
  bool drop_reply = false;
  bool answered = true;
  message_reader messages{};
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

// In its next round the thread sees it.
void tcp_proxy::stall() noexcept {
  stalled_ = true;
  rounds_.wait(rounds_);
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
  if (!from_client) {
    p.answered = true;
    return !p.drop_reply && write_all(p.client, data, size);
  }
  if (std::exchange(p.answered, false)) ++round_trips_;
  parsed_ += p.messages.parses_in({data, size});
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
    ++rounds_;
    rounds_.notify_all();
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

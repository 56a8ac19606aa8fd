// A proxy before a broker of Kafka that loses replies: a message is stored, and its producer does not learn of it.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <list>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace outbox {

/// Clients learn from metadata where brokers are, so the proxy puts its own port in there.
class kafka_proxy {
 public:
  /// To the broker at "127.0.0.1:port".
  explicit kafka_proxy(std::string const& broker) : target_{std::stoi(broker.substr(broker.rfind(':') + 1))} {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    auto at = address(0);
    socklen_t size = sizeof at;
    if (::bind(listener_, reinterpret_cast<sockaddr*>(&at), size) != 0 || ::listen(listener_, 64) != 0 ||
        ::getsockname(listener_, reinterpret_cast<sockaddr*>(&at), &size) != 0) {
      throw std::runtime_error{"cannot listen"};
    }
    port_ = ntohs(at.sin_port);
    accepting_ = std::jthread{[this] { accept_all(); }};
  }
  kafka_proxy(kafka_proxy const&) = delete;
  kafka_proxy& operator=(kafka_proxy const&) = delete;
  ~kafka_proxy() {
    quit_ = true;
    ::shutdown(listener_, SHUT_RDWR);
    accepting_.join();
    close_all();
    threads_.clear();
    ::close(listener_);
  }

  [[nodiscard]] std::string address_text() const { return "127.0.0.1:" + std::to_string(port_); }

  /// The reply to the next request to produce is lost, and no connection is possible until `heal()`.
  void lose_next_reply() noexcept { lose_ = true; }
  void heal() noexcept { away_ = false; }
  [[nodiscard]] bool lost() const noexcept { return lost_; }

 private:
  static sockaddr_in address(int port) {
    sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    a.sin_port = htons(static_cast<std::uint16_t>(port));
    return a;
  }

  static bool read_all(int fd, char* to, std::size_t size) {
    while (size > 0) {
      auto const n = ::recv(fd, to, size, 0);
      if (n <= 0) return false;
      to += n;
      size -= static_cast<std::size_t>(n);
    }
    return true;
  }
  static bool write_all(int fd, std::vector<char> const& all) {
    std::size_t at = 0;
    while (at < all.size()) {
      auto const n = ::send(fd, all.data() + at, all.size() - at, MSG_NOSIGNAL);
      if (n <= 0) return false;
      at += static_cast<std::size_t>(n);
    }
    return true;
  }
  // A request or a reply: its size in four bytes, then itself.
  static bool read_frame(int fd, std::vector<char>& frame) {
    frame.resize(4);
    if (!read_all(fd, frame.data(), 4)) return false;
    std::uint32_t size = 0;
    std::memcpy(&size, frame.data(), 4);
    size = ntohl(size);
    frame.resize(4 + size);
    return read_all(fd, frame.data() + 4, size);
  }

  void accept_all() {
    while (true) {
      int const client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (client < 0 || quit_) return;
      int const broker = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      auto const to = address(target_);
      if (away_ || ::connect(broker, reinterpret_cast<sockaddr const*>(&to), sizeof to) != 0) {
        ::close(client);
        ::close(broker);
        continue;
      }
      std::lock_guard const lock{mutex_};
      sockets_.insert(sockets_.end(), {client, broker});
      threads_.emplace_back([this, client, broker] { pass_requests(client, broker); });
      threads_.emplace_back([this, client, broker] { pass_replies(client, broker); });
    }
  }

  void pass_requests(int client, int broker) {
    constexpr char produce = 0;
    std::vector<char> frame;
    while (read_frame(client, frame)) {
      bool const produces = frame.size() > 6 && frame[4] == 0 && frame[5] == produce;
      if (produces && lose_.exchange(false)) losing_ = broker;
      if (!write_all(broker, frame)) break;
    }
    end(client, broker);
  }

  void pass_replies(int client, int broker) {
    std::vector<char> frame;
    while (read_frame(broker, frame)) {
      if (losing_ == broker) {
        away_ = true;
        lost_ = true;
        losing_ = -1;
        break;
      }
      replace_port(frame);
      if (!write_all(client, frame)) break;
    }
    end(client, broker);
  }

  // Behind the name of a host comes its port, whatever the version of the reply.
  void replace_port(std::vector<char>& frame) const {
    static constexpr std::string_view host = "127.0.0.1";
    auto const ours = htonl(static_cast<std::uint32_t>(port_));
    auto const theirs = htonl(static_cast<std::uint32_t>(target_));
    for (auto at = frame.begin();; ++at) {
      at = std::search(at, frame.end(), host.begin(), host.end());
      if (frame.end() - at < static_cast<std::ptrdiff_t>(host.size() + 4)) return;
      auto* const port = &*at + host.size();
      if (std::memcmp(port, &theirs, 4) == 0) std::memcpy(port, &ours, 4);
    }
  }

  static void end(int client, int broker) {
    ::shutdown(client, SHUT_RDWR);
    ::shutdown(broker, SHUT_RDWR);
  }
  void close_all() {
    std::lock_guard const lock{mutex_};
    for (int const s : sockets_) ::shutdown(s, SHUT_RDWR);
    threads_.clear();
    for (int const s : sockets_) ::close(s);
    sockets_.clear();
  }

  int const target_;
  int listener_ = -1;
  int port_ = 0;
  std::atomic<bool> quit_ = false, lose_ = false, away_ = false, lost_ = false;
  std::atomic<int> losing_ = -1;
  std::mutex mutex_;
  std::vector<int> sockets_;
  std::list<std::jthread> threads_;
  std::jthread accepting_;
};

}  // namespace outbox

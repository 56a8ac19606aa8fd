// A server on this machine that does to its clients what a test says.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

namespace outbox {

class scripted_server {
 public:
  /// One client of the server.
  class client {
   public:
    explicit client(int s) noexcept : socket_{s} {}

    /// Waits until the client has said this, and forgets all up to its end. False if the client ends before.
    bool read_until(std::string_view end) {
      while (said_.find(end) == std::string::npos) {
        if (!read_some()) return false;
      }
      said_.erase(0, said_.find(end) + end.size());
      return true;
    }

    /// Waits until the client ends.
    void read_to_end() {
      while (read_some()) said_.clear();
    }

    /// False if the client takes no more.
    bool say(std::string_view text) const {
      while (!text.empty()) {
        auto const n = ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
        if (n <= 0) return false;
        text.remove_prefix(static_cast<std::size_t>(n));
      }
      return true;
    }

    /// Waits for bytes. Returns what came; nothing if the client has ended.
    std::string read() {
      if (!read_some()) return {};
      return std::exchange(said_, {});
    }

   private:
    bool read_some() {
      std::array<char, 65536> some;
      auto const n = ::recv(socket_, some.data(), some.size(), 0);
      if (n > 0) said_.append(some.data(), static_cast<std::size_t>(n));
      return n > 0;
    }

    int socket_;
    std::string said_;
  };

  /// Serves one client after the other, and closes each connection when the script returns.
  explicit scripted_server(std::function<void(client&)> script) : script_{std::move(script)} {
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
  scripted_server(scripted_server const&) = delete;
  scripted_server& operator=(scripted_server const&) = delete;
  ~scripted_server() {
    ::shutdown(listener_, SHUT_RDWR);
    {
      std::lock_guard const lock{mutex_};
      if (client_ >= 0) ::shutdown(client_, SHUT_RDWR);
    }
    thread_.join();
    ::close(listener_);
  }

  [[nodiscard]] int port() const noexcept { return port_; }
  [[nodiscard]] std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

 private:
  void serve(int s) {
    std::unique_lock lock{mutex_};
    client_ = s;
    lock.unlock();
    client c{s};
    script_(c);
    lock.lock();
    ::close(std::exchange(client_, -1));
  }
  void loop() {
    while (true) {
      int const s = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (s < 0) return;
      serve(s);
    }
  }

  std::function<void(client&)> script_;
  int listener_ = -1;
  int port_ = 0;
  std::mutex mutex_;
  int client_ = -1;  ///< The one that is served.
  std::thread thread_;
};

}  // namespace outbox

// A TCP proxy that a test cuts where it wants: before a message of the client's is passed on, or before its answer is.
#pragma once

#include <atomic>
#include <string>
#include <thread>

namespace outbox {

class tcp_proxy {
 public:
  /// What becomes of the next message of a client's that has the word COMMIT in it.
  enum class cut {
    nowhere,
    before_request,  ///< It is not passed on; both ends are closed.
    before_reply,    ///< It is passed on and answered; the answer is not, and both ends are closed.
  };

  /// To 127.0.0.1:port.
  explicit tcp_proxy(int port);
  tcp_proxy(tcp_proxy const&) = delete;
  tcp_proxy& operator=(tcp_proxy const&) = delete;
  ~tcp_proxy();

  [[nodiscard]] int port() const noexcept { return port_; }
  [[nodiscard]] std::string connection() const {
    return "host=127.0.0.1 port=" + std::to_string(port_) + " user=outbox dbname=postgres";
  }

  void cut_commit(cut where) noexcept { where_ = where; }

  /// Closes every connection now.
  void cut_all() noexcept;

  /// Refuses new connections, and passes nothing on, until `heal()`: as when the network is gone. When it returns, what
  /// is sent does not arrive.
  void stall() noexcept;
  void heal() noexcept { stalled_ = false; }

  /// The number of connections made through the proxy.
  [[nodiscard]] int connections() const noexcept { return connections_; }

  /// How often a client spoke after it had been answered, or for the first time.
  [[nodiscard]] int round_trips() const noexcept { return round_trips_; }

  /// The number of statements that clients asked the server to parse. Not for connections with TLS.
  [[nodiscard]] int parsed() const noexcept { return parsed_; }

 private:
  struct pair;
  void loop();
  bool pass(pair& p, bool from_client);

  int listener_ = -1;
  int port_ = 0;
  int const target_;
  std::atomic<cut> where_ = cut::nowhere;
  std::atomic<bool> cut_all_ = false;
  std::atomic<bool> stalled_ = false;
  std::atomic<unsigned> rounds_ = 0;  ///< How often the thread has looked whether it is stalled.
  std::atomic<bool> quit_ = false;
  std::atomic<int> connections_ = 0;
  std::atomic<int> round_trips_ = 0;
  std::atomic<int> parsed_ = 0;
  std::thread thread_;
};

}  // namespace outbox

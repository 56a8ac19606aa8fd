// A Redis server for tests: its own directory, a free loopback port, never as root, ended by its process id. Or one
// that runs elsewhere, which the tests only use.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "support/server_process.hpp"

namespace outbox {

class certificates;

class redis_server {
 public:
  struct setup {
    std::vector<std::string> settings{};  ///< As in "maxclients 6", after those that every server here has.
    bool tls = false;                     ///< True: its port speaks TLS only, with a certificate for this machine.
    bool cluster = false;                 ///< True: a cluster of this server alone, which has all the slots.
    bool sentinel = false;                ///< True: a Sentinel, which watches nothing.
    bool durable = false;                 ///< True: what is answered is on the disk, for measuring.
    std::optional<int> replica_of{};      ///< The port of its primary on this machine.
    bool outlives_us = false;             ///< False: it ends with the process that started it, however that ends.
  };

  /// Makes the directory and starts. A replica has its primary's data then. Throws if it does not come up.
  explicit redis_server(setup s);
  redis_server() : redis_server{setup{}} {}
  redis_server(redis_server const&) = delete;
  redis_server& operator=(redis_server const&) = delete;
  ~redis_server();

  /// The one that every case of a run shares: that of OUTBOX_TEST_REDIS, else one that was started by ctest, or by the
  /// first case that asks. Other cases use it at the same time: give each outbox a name of its own, and to stop or
  /// change a server, start another one.
  static redis_server& shared();

  /// Returns a URL; with TLS, one that verifies the server's certificate.
  [[nodiscard]] std::string url(int database = 0) const { return url_through(port_, database); }

  /// The same through another port of this machine: that of a proxy before the server.
  [[nodiscard]] std::string url_through(int port, int database = 0) const;

  [[nodiscard]] int port() const noexcept { return port_; }

  /// Where servers of a cluster speak to each other. 0 if it is none.
  [[nodiscard]] int bus_port() const noexcept { return bus_port_; }

  // Empty, or -1, if the server runs elsewhere.
  [[nodiscard]] std::string directory() const { return directory_; }
  [[nodiscard]] std::string socket() const { return directory_.empty() ? "" : directory_ + "/socket"; }
  [[nodiscard]] ::pid_t pid() const noexcept { return process_.pid(); }

  // These throw if the server runs elsewhere.
  void start();      ///< Again, after `kill_hard()` or `stop()`; on the same port.
  void kill_hard();  ///< SIGKILL. What was answered is there after `start()`.
  void stop();       ///< SIGTERM, as an operator does. Returns when it has ended.

  /// Sends a command through the server's unix socket, as an operator does, and returns its answer: texts and numbers
  /// as they are, the elements of a list one per line. Throws if the answer is an error.
  std::string ask(std::vector<std::string> const& command) const;

  /// With TLS: the files of the certificates. "ca.crt" signed "server.crt" and "client.crt"; their keys are
  /// "server.key" and "client.key".
  [[nodiscard]] certificates const& files() const { return *files_; }

  // For the fixture: a server that outlives the process that started it.
  [[nodiscard]] std::string describe() const;
  static std::unique_ptr<redis_server> described(std::string const& text);
  void leave_running() noexcept { leave_ = true; }

 private:
  struct adopt_tag {};
  explicit redis_server(adopt_tag);
  static std::unique_ptr<redis_server> elsewhere(std::string const& url);
  void check_ours() const;
  void discard() noexcept;
  void write_settings() const;
  [[nodiscard]] bool answers() const;
  void wait_for_cluster();

  setup setup_;
  std::unique_ptr<certificates> files_;  ///< With TLS.
  std::string directory_;                ///< Empty: it runs elsewhere.
  std::string account_;                  ///< Of the URL, with its scheme and the '@'.
  std::string host_ = "127.0.0.1";       ///< Of the URL.
  std::string parameters_;               ///< Of the URL, with the question mark.
  int port_ = 0;
  int bus_port_ = 0;  ///< Where servers of a cluster speak to each other.
  server_process process_;
  bool leave_ = false;  ///< Not ended by the destructor.
};

/// Returns OUTBOX_TEST_REDIS: the URL of a server that runs elsewhere, as in redis://user:password@host:port, for all
/// cases that do not start one of their own. Empty: there is none.
[[nodiscard]] std::string redis_elsewhere();

/// Returns the path of the server's program: OUTBOX_TEST_REDIS_SERVER from the environment or from CMake, else
/// redis-server from PATH, /usr/sbin or /usr/bin, else redis-check-rdb: the same program, which is a server if it is
/// called so. Throws if there is none.
[[nodiscard]] std::string redis_program();

}  // namespace outbox

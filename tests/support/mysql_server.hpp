// A MariaDB server for tests: its own data directory, a free loopback port, never as root, ended by its process id. Or
// one that runs elsewhere, of MariaDB or MySQL, which the tests only use.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "support/server_process.hpp"

namespace outbox {

class mysql_server {
 public:
  struct setup {
    std::vector<std::string> settings{};     ///< As in "max-connections=6", after those that every server here has.
    std::vector<std::string> environment{};  ///< As in "FAKETIME=+2h".
    bool durable = false;                    ///< True: what is committed is on the disk, for measuring.
    bool outlives_us = false;                ///< False: it ends with the process that started it, however that ends.
  };

  /// Makes the data directory and starts. Throws if it does not come up.
  explicit mysql_server(setup s);
  mysql_server() : mysql_server{setup{}} {}
  mysql_server(mysql_server const&) = delete;
  mysql_server& operator=(mysql_server const&) = delete;
  ~mysql_server();

  /// The one that every case of a run shares: that of OUTBOX_TEST_MYSQL, else one that was started by ctest, or by the
  /// first case that asks. Other cases use it at the same time: to stop or change a server, start another one.
  static mysql_server& shared();

  /// Returns a URL. The database that it names by default is there on every server, and every account may read it.
  [[nodiscard]] std::string connection(std::string const& database = "information_schema") const;

  /// The same through another port of this machine: that of a proxy before the server.
  [[nodiscard]] std::string connection_through(int port, std::string const& database = "information_schema") const;

  [[nodiscard]] int port() const noexcept { return port_; }

  // Empty, or -1, if the server runs elsewhere.
  [[nodiscard]] std::string directory() const { return directory_; }
  [[nodiscard]] std::string socket() const { return directory_.empty() ? "" : directory_ + "/socket"; }
  [[nodiscard]] ::pid_t pid() const noexcept { return process_.pid(); }

  // These throw if the server runs elsewhere.
  void start();      ///< Again, after `kill_hard()` or `stop()`; on the same port.
  void kill_hard();  ///< SIGKILL. What was committed is there after `start()`.
  void stop();       ///< SIGTERM, as an operator does. Returns when it has ended.

  // For the fixture: a server that outlives the process that started it.
  [[nodiscard]] std::string describe() const;
  static std::unique_ptr<mysql_server> described(std::string const& text);
  void leave_running() noexcept { leave_ = true; }

 private:
  struct adopt_tag {};
  explicit mysql_server(adopt_tag) {}
  static std::unique_ptr<mysql_server> elsewhere(std::string const& url);
  void check_ours() const;
  void discard() noexcept;
  void initialise() const;
  [[nodiscard]] bool answers() const;

  setup setup_;
  std::string directory_;           ///< Empty: it runs elsewhere.
  std::string account_ = "root";    ///< Of the URL, with its password.
  std::string host_ = "127.0.0.1";  ///< Of the URL.
  std::string parameters_;          ///< Of the URL, with the question mark.
  int port_ = 0;
  server_process process_;
  bool leave_ = false;  ///< Not ended by the destructor.
};

/// Returns OUTBOX_TEST_MYSQL: the URL of a server that runs elsewhere, as in mysql://user:password@host:port, for all
/// cases that do not start one of their own. Empty: there is none.
[[nodiscard]] std::string mysql_elsewhere();

/// Returns the path of the server's program: OUTBOX_TEST_MARIADBD from the environment or from CMake, else mariadbd or
/// mysqld from PATH, /usr/sbin or /usr/bin. Throws if there is none.
[[nodiscard]] std::string mariadbd_program();

}  // namespace outbox

// A PostgreSQL server for tests: its own data directory, a free loopback port, never as root, ended by its process id.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "support/server_process.hpp"

namespace outbox {

class postgres_server {
 public:
  struct setup {
    std::vector<std::string> settings{};     ///< As in "fsync=off", after those that every server of the tests has.
    std::vector<std::string> environment{};  ///< As in "FAKETIME=+2h".
    bool durable = false;                    ///< True: fsync stays on, for measuring.
    bool outlives_us = false;                ///< False: it ends with the process that started it, however that ends.
    /// A primary that runs: this server begins as a copy of it and follows it, read-only, until it is promoted.
    postgres_server const* standby_of = nullptr;
  };

  /// Makes the data directory and starts. Throws if it does not come up.
  explicit postgres_server(setup s);
  postgres_server() : postgres_server{setup{}} {}
  postgres_server(postgres_server const&) = delete;
  postgres_server& operator=(postgres_server const&) = delete;
  ~postgres_server();

  /// The one that every case of a run shares: started by ctest, or by the first case that asks.
  static postgres_server& shared();

  [[nodiscard]] std::string connection(std::string const& database = "postgres") const;
  [[nodiscard]] std::string directory() const { return directory_; }
  [[nodiscard]] int port() const noexcept { return port_; }
  [[nodiscard]] ::pid_t pid() const noexcept { return process_.pid(); }

  void start();      ///< Again, after `kill_hard()` or `stop()`; on the same port.
  void kill_hard();  ///< SIGKILL to the postmaster; its children go when they notice.
  void stop();       ///< Fast, as an operator does.
  void promote();    ///< A standby becomes a primary. Returns when it takes writes.

  // For the fixture: a server that outlives the process that started it.
  [[nodiscard]] std::string describe() const;
  static std::unique_ptr<postgres_server> described(std::string const& text);
  void leave_running() noexcept { leave_ = true; }

 private:
  struct adopt_tag {};
  explicit postgres_server(adopt_tag) {}
  void discard() noexcept;
  void initialise() const;

  setup setup_;
  std::string directory_;
  int port_ = 0;
  server_process process_;
  bool leave_ = false;  ///< Not ended by the destructor.
};

/// Returns the directory of the server's programs: OUTBOX_TEST_POSTGRES_BIN from the environment or from CMake, else
/// that of the newest version in /usr/lib/postgresql. Throws if there is no server in it.
[[nodiscard]] std::string postgres_programs();

}  // namespace outbox

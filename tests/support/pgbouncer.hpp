// PgBouncer in transaction mode before a server of the tests.
#pragma once

#include <libpq-fe.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

#include "support/postgres_server.hpp"
#include "support/temporary_directory.hpp"
#include "support/waiting.hpp"

namespace outbox {

class pgbouncer {
 public:
  static constexpr int servers = 3;  ///< Connections that it has for its clients.

  explicit pgbouncer(postgres_server const& server, int port) : port_{port} {
    std::filesystem::permissions(dir_.string(), std::filesystem::perms::all);
    std::ofstream{dir_ / "users.txt"} << "\"outbox\" \"\"\n";
    std::ofstream{dir_ / "bouncer.ini"}
        << "[databases]\npostgres = host=127.0.0.1 port=" << server.port()
        << " dbname=postgres user=outbox\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = " << port_
        << "\nauth_type = any\nauth_file = " << (dir_ / "users.txt")
        << "\npool_mode = transaction\ndefault_pool_size = " << servers
        << "\nunix_socket_dir =\nlogfile = " << (dir_ / "log") << "\n";
    auto const settings = dir_ / "bouncer.ini";
    pid_ = ::fork();
    if (pid_ == 0) {
      if (::geteuid() == 0 && (::setgid(65534) != 0 || ::setuid(65534) != 0)) ::_exit(126);
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::execl("/usr/sbin/pgbouncer", "pgbouncer", "-q", settings.c_str(), nullptr);
      ::_exit(127);
    }
    if (!eventually([&] { return PQping(connection().c_str()) == PQPING_OK; })) {
      throw std::runtime_error{"pgbouncer did not come up"};
    }
  }
  pgbouncer(pgbouncer const&) = delete;
  pgbouncer& operator=(pgbouncer const&) = delete;
  ~pgbouncer() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  [[nodiscard]] std::string connection() const {
    return "host=127.0.0.1 port=" + std::to_string(port_) + " user=outbox dbname=postgres";
  }

 private:
  temporary_directory dir_;
  int port_;
  ::pid_t pid_ = -1;
};

}  // namespace outbox

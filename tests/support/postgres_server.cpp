#include "support/postgres_server.hpp"

#include <libpq-fe.h>
#include <sys/shm.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string_view>

#include "support/free_port.hpp"

namespace outbox {
namespace {

namespace fs = std::filesystem;

// What CMake was configured with. The environment variable of the same name comes first.
#ifndef OUTBOX_TEST_POSTGRES_BIN
#define OUTBOX_TEST_POSTGRES_BIN ""
#endif

// Debian keeps each version in a directory of its own. Returns the newest.
std::string newest_installed() {
  std::string newest;
  int version = 0;
  std::error_code none;
  for (auto const& entry : fs::directory_iterator{"/usr/lib/postgresql", none}) {
    int const number = std::atoi(entry.path().filename().c_str());
    if (number <= version || !fs::exists(entry.path() / "bin/postgres")) continue;
    version = number;
    newest = (entry.path() / "bin").string();
  }
  if (newest.empty()) {
    throw std::runtime_error{
        "there is no PostgreSQL server in /usr/lib/postgresql: install one, or set OUTBOX_TEST_POSTGRES_BIN to the "
        "directory of its programs"};
  }
  return newest;
}

// A server that was killed leaves its file of seven lines behind, and the segment that the last one names.
void forget_shared_memory(std::string const& file) {
  std::ifstream in{file};
  std::string line;
  for (int i = 0; i < 7; ++i) std::getline(in, line);
  std::istringstream last{line};
  unsigned long key = 0;
  if (int id = 0; last >> key >> id) ::shmctl(id, IPC_RMID, nullptr);
}

}  // namespace

std::string postgres_programs() {
  char const* const given = std::getenv("OUTBOX_TEST_POSTGRES_BIN");
  std::string const directory = given != nullptr && *given != '\0' ? given : OUTBOX_TEST_POSTGRES_BIN;
  if (directory.empty()) return newest_installed();
  for (auto const* const program : {"postgres", "initdb", "pg_basebackup"}) {
    if (fs::exists(fs::path{directory} / program)) continue;
    throw std::runtime_error{"OUTBOX_TEST_POSTGRES_BIN is '" + directory + "', and there is no program '" + program +
                             "' in it: set it to the bin directory of a PostgreSQL installation"};
  }
  return directory;
}

postgres_server::postgres_server(setup s) : setup_{std::move(s)} {
  static_cast<void>(postgres_programs());  // throws before there is anything to remove
  directory_ = make_server_directory("outbox-pg", setup_.durable);
  try {
    initialise();
    port_ = free_port();
    start();
  } catch (...) {
    discard();
    throw;
  }
}

postgres_server::~postgres_server() {
  if (!leave_) discard();
}

void postgres_server::discard() noexcept {
  try {
    stop();
    forget_shared_memory(directory_ + "/data/postmaster.pid");
  } catch (std::exception const&) {  // NOLINT(bugprone-empty-catch): it is gone either way
  }
  std::error_code ignored;
  fs::remove_all(directory_, ignored);
}

void postgres_server::initialise() const {
  auto const data = directory_ + "/data";
  std::vector<std::string> command{postgres_programs() + "/initdb",
                                   "-D",
                                   data,
                                   "-U",
                                   "outbox",
                                   "-A",
                                   "trust",
                                   "-E",
                                   "UTF8",
                                   "--locale=C.UTF-8",
                                   "--no-sync"};
  if (setup_.standby_of != nullptr) {
    command = {postgres_programs() + "/pg_basebackup",
               "-d",
               setup_.standby_of->connection(),
               "-D",
               data,
               "--write-recovery-conf",
               "--checkpoint=fast",
               "--no-sync"};
  }
  run_as_server(command, directory_ + "/initialise.log");
}

void postgres_server::start() {
  // An unusual time zone: code that depends on the session's zone shows itself.
  std::vector<std::string> command{
      postgres_programs() + "/postgres", "-D", directory_ + "/data", "-k", directory_, "-p", std::to_string(port_)};
  std::vector<std::string> settings{"listen_addresses=127.0.0.1", "timezone=Asia/Kathmandu", "max_connections=200",
                                    "log_min_messages=warning", "deadlock_timeout=200ms", "max_wal_size=256MB",
                                    "min_wal_size=32MB",
                                    // In its directory, which is removed: a server that is killed leaves it behind.
                                    "dynamic_shared_memory_type=mmap"};
  if (!setup_.durable) settings.insert(settings.end(), {"fsync=off", "full_page_writes=off"});
  settings.insert(settings.end(), setup_.settings.begin(), setup_.settings.end());
  for (auto const& s : settings) command.insert(command.end(), {"-c", s});
  process_ = {std::move(command), setup_.environment, directory_ + "/server.log", setup_.outlives_us ? 0 : SIGINT};
  process_.wait_until([this] { return PQping(connection().c_str()) == PQPING_OK; });
}

std::string postgres_server::connection(std::string const& database) const {
  return "host=127.0.0.1 port=" + std::to_string(port_) + " user=outbox dbname=" + database;
}

void postgres_server::kill_hard() { process_.end(SIGKILL); }

void postgres_server::stop() { process_.end(SIGINT); }

void postgres_server::promote() {
  std::unique_ptr<PGconn, decltype(&PQfinish)> const c{PQconnectdb(connection().c_str()), &PQfinish};
  std::unique_ptr<PGresult, decltype(&PQclear)> const r{PQexec(c.get(), "SELECT pg_promote(true, 60)"), &PQclear};
  if (PQresultStatus(r.get()) != PGRES_TUPLES_OK || std::string_view{PQgetvalue(r.get(), 0, 0)} != "t") {
    throw std::runtime_error{std::string{"the standby was not promoted: "} + PQerrorMessage(c.get())};
  }
}

std::string postgres_server::describe() const {
  return std::to_string(pid()) + " " + std::to_string(port_) + " " + directory_ + "\n";
}

std::unique_ptr<postgres_server> postgres_server::described(std::string const& text) {
  std::unique_ptr<postgres_server> s{new postgres_server{adopt_tag{}}};
  std::istringstream in{text};
  ::pid_t pid = -1;
  in >> pid >> s->port_ >> s->directory_;
  // The description may be older than the machine's last start.
  bool const runs = text_of_file(s->directory_ + "/data/postmaster.pid").starts_with(std::to_string(pid) + "\n");
  if (runs) s->process_ = server_process{pid};
  return s;
}

postgres_server& postgres_server::shared() {
  static auto const server = [] {
    if (char const* const file = std::getenv("OUTBOX_TEST_POSTGRES_FIXTURE")) {
      auto given = described(text_of_file(file));
      given->leave_running();
      if (given->process_.alive()) return given;
    }
    return std::make_unique<postgres_server>();
  }();
  return *server;
}

}  // namespace outbox

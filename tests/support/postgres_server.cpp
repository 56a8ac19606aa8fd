#include "support/postgres_server.hpp"

#include <fcntl.h>
#include <grp.h>
#include <libpq-fe.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <thread>

#include "support/free_port.hpp"

namespace outbox {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr ::uid_t nobody = 65534;

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

// Runs a program in a session of its own, not as root, with what it says in a file.
::pid_t spawn(std::vector<std::string> command, std::vector<std::string> environment, std::string const& log,
              bool outlives_us = false) {
  std::vector<char*> argv;  // made before the fork: in the child only system calls are safe
  for (auto& word : command) argv.push_back(word.data());
  argv.push_back(nullptr);
  auto const pid = ::fork();
  if (pid != 0) return pid;
  ::setsid();
  int const out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0666);
  int const in = ::open("/dev/null", O_RDONLY);
  ::dup2(in, 0);
  ::dup2(out, 1);
  ::dup2(out, 2);
  for (int fd = 3; fd < 256; ++fd) ::close(fd);
  if (::geteuid() == 0 && (::setgroups(0, nullptr) != 0 || ::setgid(nobody) != 0 || ::setuid(nobody) != 0))
    ::_exit(126);
  if (!outlives_us) ::prctl(PR_SET_PDEATHSIG, SIGINT);  // after setuid(), which forgets it
  for (auto& e : environment) ::putenv(e.data());
  ::execv(argv[0], argv.data());
  ::_exit(127);
}

std::string text_of(std::string const& path) {
  std::ifstream in{path};
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
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

bool alive(::pid_t pid) noexcept { return pid > 0 && ::kill(pid, 0) == 0; }

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
  make_directory();
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

// In memory where nothing need be durable: a server makes and drops many small files.
void postgres_server::make_directory() {
  std::error_code none;
  auto const memory = fs::space("/dev/shm", none);
  bool const in_memory = !setup_.durable && !none && memory.available > (std::uintmax_t{2} << 30U);
  auto pattern = ((in_memory ? fs::path{"/dev/shm"} : fs::temp_directory_path()) / "outbox-pg-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error{"cannot make a temporary directory"};
  directory_ = pattern;
  if (::geteuid() == 0 && ::chown(directory_.c_str(), nobody, nobody) != 0) {
    throw std::runtime_error{"cannot give the directory away"};
  }
}

void postgres_server::initialise() const {
  auto const log = directory_ + "/initialise.log";
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
  int status = 0;
  ::waitpid(spawn(command, {}, log), &status, 0);
  if (status != 0) throw std::runtime_error{command.front() + " failed: " + text_of(log)};
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
  pid_ = spawn(std::move(command), setup_.environment, directory_ + "/server.log", setup_.outlives_us);
  wait_until_ready();
}

void postgres_server::wait_until_ready() const {
  auto const deadline = std::chrono::steady_clock::now() + 60s;
  while (PQping(connection().c_str()) != PQPING_OK) {
    if (!alive(pid_) || (ours_ && ::waitpid(pid_, nullptr, WNOHANG) == pid_) ||
        std::chrono::steady_clock::now() > deadline) {
      throw std::runtime_error{"the server did not come up: " + text_of(directory_ + "/server.log")};
    }
    std::this_thread::sleep_for(5ms);
  }
}

std::string postgres_server::connection(std::string const& database) const {
  return "host=127.0.0.1 port=" + std::to_string(port_) + " user=outbox dbname=" + database;
}

void postgres_server::wait_until_gone() {
  auto const deadline = std::chrono::steady_clock::now() + 60s;
  if (ours_) ::waitpid(pid_, nullptr, 0);
  while (!ours_ && alive(pid_) && std::chrono::steady_clock::now() < deadline) std::this_thread::sleep_for(5ms);
  pid_ = -1;
}

void postgres_server::kill_hard() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  wait_until_gone();
}

void postgres_server::stop() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGINT);
  wait_until_gone();
}

void postgres_server::promote() {
  std::unique_ptr<PGconn, decltype(&PQfinish)> const c{PQconnectdb(connection().c_str()), &PQfinish};
  std::unique_ptr<PGresult, decltype(&PQclear)> const r{PQexec(c.get(), "SELECT pg_promote(true, 60)"), &PQclear};
  if (PQresultStatus(r.get()) != PGRES_TUPLES_OK || std::string_view{PQgetvalue(r.get(), 0, 0)} != "t") {
    throw std::runtime_error{std::string{"the standby was not promoted: "} + PQerrorMessage(c.get())};
  }
}

std::string postgres_server::describe() const {
  return std::to_string(pid_) + " " + std::to_string(port_) + " " + directory_ + "\n";
}

std::unique_ptr<postgres_server> postgres_server::described(std::string const& text) {
  std::unique_ptr<postgres_server> s{new postgres_server{adopt_tag{}}};
  s->ours_ = false;
  std::istringstream in{text};
  if (!(in >> s->pid_ >> s->port_ >> s->directory_)) s->pid_ = -1;
  // The description may be older than the machine's last start.
  if (text_of(s->directory_ + "/data/postmaster.pid").find(std::to_string(s->pid_) + "\n") != 0) s->pid_ = -1;
  return s;
}

postgres_server& postgres_server::shared() {
  static auto const server = [] {
    if (char const* const file = std::getenv("OUTBOX_POSTGRES_FIXTURE")) {
      auto given = described(text_of(file));
      given->leave_running();
      if (alive(given->pid_)) return given;
    }
    return std::make_unique<postgres_server>();
  }();
  return *server;
}

}  // namespace outbox

#include "support/mysql_server.hpp"

#include <mysql.h>

#include <csignal>
#include <filesystem>
#include <sstream>
#include <stdexcept>

#include "support/environment.hpp"
#include "support/free_port.hpp"

namespace outbox {
namespace {

namespace fs = std::filesystem;

// What CMake was configured with. The environment variable of the same name comes first.
#ifndef OUTBOX_TEST_MARIADBD
#define OUTBOX_TEST_MARIADBD ""
#endif

// The directory that has the directory of the server's program, and those of its other files: /usr of
// /usr/sbin/mariadbd, which may be a link in /sbin.
fs::path installation() { return fs::canonical(mariadbd_program()).parent_path().parent_path(); }

// An installation of its own has the script with it: a server wants the tables of its own version.
std::string install_program() {
  auto const home = installation();
  auto directories = usual_directories();
  directories.insert(directories.begin(), {home / "scripts", home / "bin"});
  auto found = first_found(directories, {"mariadb-install-db", "mysql_install_db"});
  if (found.empty()) {
    throw std::runtime_error{"there is no program 'mariadb-install-db' for '" + mariadbd_program() +
                             "': install MariaDB's, or set OUTBOX_TEST_MYSQL to the URL of a server that runs"};
  }
  return found;
}

}  // namespace

std::string mysql_elsewhere() { return variable("OUTBOX_TEST_MYSQL"); }

std::string mariadbd_program() {
  auto given = variable("OUTBOX_TEST_MARIADBD");
  if (given.empty()) given = OUTBOX_TEST_MARIADBD;
  if (!given.empty() && !fs::is_regular_file(given)) {
    throw std::runtime_error{"OUTBOX_TEST_MARIADBD is '" + given + "', and there is no such program: set it to the " +
                             "path of a MariaDB server, mariadbd"};
  }
  if (given.empty()) given = first_found(usual_directories(), {"mariadbd", "mysqld"});
  if (given.empty()) {
    throw std::runtime_error{
        "there is no MariaDB server: install one, or set OUTBOX_TEST_MARIADBD to the path of its program, mariadbd, or "
        "OUTBOX_TEST_MYSQL to the URL of a server that runs"};
  }
  return given;
}

mysql_server::mysql_server(setup s) : setup_{std::move(s)} {
  static_cast<void>(install_program());  // throws before there is anything to remove
  directory_ = make_server_directory("outbox-my", setup_.durable);
  try {
    initialise();
    port_ = free_port();
    start();
  } catch (...) {
    discard();
    throw;
  }
}

mysql_server::~mysql_server() {
  if (!leave_) discard();
}

void mysql_server::discard() noexcept {
  process_.end(SIGTERM);
  std::error_code ignored;
  fs::remove_all(directory_, ignored);
}

// The account root has no password, and may come from 127.0.0.1 as well as through the socket.
void mysql_server::initialise() const {
  run_as_server(
      {install_program(), "--no-defaults", "--basedir=" + installation().string(), "--datadir=" + directory_ + "/data",
       "--tmpdir=" + directory_, "--auth-root-authentication-method=normal", "--skip-test-db",
       "--innodb-log-file-size=48M", "--loose-innodb-flush-method=nosync"},
      directory_ + "/initialise.log");
}

void mysql_server::start() {
  check_ours();
  std::vector<std::string> command{
      mariadbd_program(), "--no-defaults", "--basedir=" + installation().string(), "--datadir=" + directory_ + "/data",
      "--socket=" + socket(), "--pid-file=" + directory_ + "/pid", "--port=" + std::to_string(port_),
      "--bind-address=127.0.0.1", "--skip-name-resolve",
      // A server that starts removes the temporary files of all others from a directory that they share.
      "--tmpdir=" + directory_,
      // Unusual, or not what the store needs: code that depends on the defaults of a session shows itself.
      "--default-time-zone=+05:45", "--character-set-server=latin1", "--collation-server=latin1_swedish_ci",
      "--transaction-isolation=REPEATABLE-READ",
      // Small: several servers run at once.
      "--max-connections=300", "--innodb-buffer-pool-size=64M", "--innodb-log-file-size=48M",
      "--performance-schema=OFF"};
  // A commit still reaches the system, so that it outlives the process: only the machine must not fail.
  if (!setup_.durable) {
    command.insert(command.end(), {"--innodb-flush-log-at-trx-commit=2", "--loose-innodb-flush-method=nosync"});
  }
  for (auto const& s : setup_.settings) command.push_back("--" + s);
  process_ = {std::move(command), setup_.environment, directory_ + "/server.log", setup_.outlives_us ? 0 : SIGTERM};
  process_.wait_until([this] { return answers(); });
}

// A node of a cluster takes connections before it takes statements.
bool mysql_server::answers() const {
  std::unique_ptr<MYSQL, decltype(&mysql_close)> const c{mysql_init(nullptr), &mysql_close};
  unsigned const seconds = 5;
  for (auto const timeout : {MYSQL_OPT_CONNECT_TIMEOUT, MYSQL_OPT_READ_TIMEOUT, MYSQL_OPT_WRITE_TIMEOUT}) {
    mysql_options(c.get(), timeout, &seconds);
  }
  return mysql_real_connect(c.get(), host_.c_str(), account_.c_str(), nullptr, nullptr, static_cast<unsigned>(port_),
                            nullptr, 0) != nullptr &&
         mysql_query(c.get(), "DO 1") == 0;
}

std::string mysql_server::connection(std::string const& database) const {
  return "mysql://" + account_ + "@" + host_ + ":" + std::to_string(port_) + "/" + database + parameters_;
}

std::string mysql_server::connection_through(int port, std::string const& database) const {
  return "mysql://" + account_ + "@127.0.0.1:" + std::to_string(port) + "/" + database + parameters_;
}

void mysql_server::kill_hard() {
  check_ours();
  process_.end(SIGKILL);
}

void mysql_server::stop() {
  check_ours();
  process_.end(SIGTERM);
}

void mysql_server::check_ours() const {
  if (directory_.empty()) throw std::logic_error{"the server of OUTBOX_TEST_MYSQL is not to be stopped: start another"};
}

std::string mysql_server::describe() const {
  return std::to_string(pid()) + " " + std::to_string(port_) + " " + directory_ + "\n";
}

std::unique_ptr<mysql_server> mysql_server::described(std::string const& text) {
  std::unique_ptr<mysql_server> s{new mysql_server{adopt_tag{}}};
  std::istringstream in{text};
  ::pid_t pid = -1;
  in >> pid >> s->port_ >> s->directory_;
  // The description may be older than the machine's last start.
  bool const runs = text_of_file(s->directory_ + "/pid").starts_with(std::to_string(pid) + "\n");
  if (runs) s->process_ = server_process{pid};
  return s;
}

// The errors do not show the URL: it may have a password in it.
std::unique_ptr<mysql_server> mysql_server::elsewhere(std::string const& url) {
  server_place const place{url, 3306};
  if (place.account.empty()) {
    throw std::runtime_error{"OUTBOX_TEST_MYSQL is not a URL: write mysql://user:password@host:port"};
  }
  std::unique_ptr<mysql_server> s{new mysql_server{adopt_tag{}}};
  s->leave_ = true;
  s->account_ = place.account;
  s->host_ = place.host;
  s->port_ = place.port;
  s->parameters_ = place.parameters;
  return s;
}

mysql_server& mysql_server::shared() {
  static auto const server = [] {
    if (auto const url = mysql_elsewhere(); !url.empty()) return elsewhere(url);
    if (auto const file = variable("OUTBOX_TEST_MYSQL_FIXTURE"); !file.empty()) {
      auto given = described(text_of_file(file));
      given->leave_running();
      if (given->process_.alive()) return given;
    }
    return std::make_unique<mysql_server>();
  }();
  return *server;
}

}  // namespace outbox

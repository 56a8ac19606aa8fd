#include "support/redis_server.hpp"

#include <hiredis/hiredis.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "support/certificates.hpp"
#include "support/environment.hpp"
#include "support/free_port.hpp"

namespace outbox {
namespace {

namespace fs = std::filesystem;

// What CMake was configured with. The environment variable of the same name comes first.
#ifndef OUTBOX_TEST_REDIS_SERVER
#define OUTBOX_TEST_REDIS_SERVER ""
#endif

using reply_handle = std::unique_ptr<redisReply, void (*)(void*)>;

// Null if the server does not answer.
reply_handle answer_of(std::string const& socket, std::vector<std::string> const& command) {
  ::timeval const patience{60, 0};
  std::unique_ptr<redisContext, decltype(&redisFree)> const c{redisConnectUnixWithTimeout(socket.c_str(), patience),
                                                              &redisFree};
  if (c == nullptr || c->err != 0 || redisSetTimeout(c.get(), patience) != REDIS_OK) return {nullptr, freeReplyObject};
  std::vector<char const*> words;
  std::vector<std::size_t> lengths;
  for (auto const& word : command) {
    words.push_back(word.data());
    lengths.push_back(word.size());
  }
  auto* const reply = redisCommandArgv(c.get(), static_cast<int>(words.size()), words.data(), lengths.data());
  return {static_cast<redisReply*>(reply), freeReplyObject};
}

std::string text_of(redisReply const& r) {
  if (r.type == REDIS_REPLY_INTEGER) return std::to_string(r.integer);
  if (r.type != REDIS_REPLY_ARRAY) return r.str != nullptr ? std::string{r.str, r.len} : "";
  std::string all;
  for (std::size_t i = 0; i < r.elements; ++i) all += (i > 0 ? "\n" : "") + text_of(*r.element[i]);
  return all;
}

}  // namespace

std::string redis_elsewhere() { return variable("OUTBOX_TEST_REDIS"); }

std::string redis_program() {
  auto given = variable("OUTBOX_TEST_REDIS_SERVER");
  if (given.empty()) given = OUTBOX_TEST_REDIS_SERVER;
  if (!given.empty() && !fs::is_regular_file(given)) {
    throw std::runtime_error{"OUTBOX_TEST_REDIS_SERVER is '" + given + "', and there is no such program: set it to " +
                             "the path of a Redis server, redis-server"};
  }
  if (given.empty()) given = first_found(usual_directories(), {"redis-server", "redis-check-rdb"});
  if (given.empty()) {
    throw std::runtime_error{
        "there is no Redis server: install one, or set OUTBOX_TEST_REDIS_SERVER to the path of its program, "
        "redis-server, or OUTBOX_TEST_REDIS to the URL of a server that runs"};
  }
  return given;
}

redis_server::redis_server(adopt_tag) {}

redis_server::redis_server(setup s) : setup_{std::move(s)} {
  auto const program = redis_program();  // throws before there is anything to remove
  account_ = setup_.tls ? "rediss://" : "redis://";
  directory_ = make_server_directory("outbox-re", setup_.durable);
  try {
    // By its name the program knows what it is.
    fs::create_symlink(fs::canonical(program), directory_ + "/redis-server");
    if (setup_.tls) {
      files_ = std::make_unique<certificates>();
      parameters_ = "?ssl_ca=" + (*files_)("ca.crt");
    }
    port_ = free_port();
    if (setup_.cluster) bus_port_ = free_port();
    write_settings();
    start();
    if (setup_.replica_of) {
      process_.wait_until([&] {
        return ask({"INFO", "replication"}).find("master_link_status:up") != std::string::npos;
      });
    }
  } catch (...) {
    discard();
    throw;
  }
}

redis_server::~redis_server() {
  if (!leave_) discard();
}

void redis_server::discard() noexcept {
  process_.end(SIGKILL);  // nothing of it is kept
  std::error_code ignored;
  fs::remove_all(directory_, ignored);
}

// What is answered has reached the system by then, so it outlives the process: only the machine must not fail.
void redis_server::write_settings() const {
  auto const path = directory_ + "/redis.conf";
  std::ofstream out{path};
  if (::geteuid() == 0 && ::chown(path.c_str(), server_account, server_account) != 0) {  // a Sentinel changes it
    throw std::runtime_error{"cannot give the settings to the server"};
  }
  auto const number = std::to_string(port_);
  out << "bind 127.0.0.1 -::1\nunixsocket " << socket() << "\ndir " << directory_ << "\npidfile " << directory_
      << "/pid\nsave \"\"\nrepl-diskless-sync-delay 0\nappendonly yes\nappendfsync "
      << (setup_.durable ? "always" : "everysec") << '\n';
  if (setup_.tls) {
    auto const& f = *files_;
    out << "port 0\ntls-port " << number << "\ntls-auth-clients optional\ntls-ca-cert-file " << f("ca.crt")
        << "\ntls-cert-file " << f("server.crt") << "\ntls-key-file " << f("server.key") << '\n';
  } else {
    out << "port " << number << '\n';
  }
  if (setup_.cluster) out << "cluster-enabled yes\ncluster-port " << bus_port_ << '\n';
  if (setup_.replica_of) out << "replicaof 127.0.0.1 " << *setup_.replica_of << '\n';
  for (auto const& s : setup_.settings) out << s << '\n';
}

void redis_server::start() {
  check_ours();
  std::vector<std::string> command{directory_ + "/redis-server", directory_ + "/redis.conf"};
  if (setup_.sentinel) command.emplace_back("--sentinel");
  process_ = {std::move(command), {}, directory_ + "/server.log", setup_.outlives_us ? 0 : SIGTERM};
  process_.wait_until([this] { return answers(); });
  if (setup_.cluster) wait_for_cluster();
}

// A server takes connections before it has loaded its data. One that wants a password is up too.
bool redis_server::answers() const {
  auto const reply = answer_of(socket(), {"PING"});
  return reply && (reply->type != REDIS_REPLY_ERROR || std::string_view{reply->str, reply->len}.starts_with("NOAUTH"));
}

// It remembers its slots. A cluster of one waits for two seconds before it takes commands.
void redis_server::wait_for_cluster() {
  auto const says = [this](char const* text) { return ask({"CLUSTER", "INFO"}).find(text) != std::string::npos; };
  if (says("cluster_slots_assigned:0")) ask({"CLUSTER", "ADDSLOTSRANGE", "0", "16383"});
  process_.wait_until([&] { return says("cluster_state:ok"); });
}

std::string redis_server::ask(std::vector<std::string> const& command) const {
  check_ours();
  auto const reply = answer_of(socket(), command);
  if (!reply) throw std::runtime_error{"the server does not answer " + command.front()};
  auto text = text_of(*reply);
  if (reply->type == REDIS_REPLY_ERROR) throw std::runtime_error{command.front() + ": " + text};
  return text;
}

std::string redis_server::url_through(int port, int database) const {
  auto const& host = port == port_ ? host_ : "127.0.0.1";
  return account_ + host + ":" + std::to_string(port) + "/" + std::to_string(database) + parameters_;
}

void redis_server::kill_hard() {
  check_ours();
  process_.end(SIGKILL);
}

void redis_server::stop() {
  check_ours();
  process_.end(SIGTERM);
}

void redis_server::check_ours() const {
  if (directory_.empty()) throw std::logic_error{"the server of OUTBOX_TEST_REDIS is not to be changed: start another"};
}

std::string redis_server::describe() const {
  return std::to_string(pid()) + " " + std::to_string(port_) + " " + directory_ + "\n";
}

std::unique_ptr<redis_server> redis_server::described(std::string const& text) {
  std::unique_ptr<redis_server> s{new redis_server{adopt_tag{}}};
  std::istringstream in{text};
  ::pid_t pid = -1;
  in >> pid >> s->port_ >> s->directory_;
  s->account_ = "redis://";
  // The description may be older than the machine's last start.
  bool const runs = text_of_file(s->directory_ + "/pid").starts_with(std::to_string(pid) + "\n");
  if (runs) s->process_ = server_process{pid};
  return s;
}

// The errors do not show the URL: it may have a password in it.
std::unique_ptr<redis_server> redis_server::elsewhere(std::string const& url) {
  server_place const place{url, 6379};
  if (place.scheme.empty()) {
    throw std::runtime_error{"OUTBOX_TEST_REDIS is not a URL: write redis://user:password@host:port"};
  }
  std::unique_ptr<redis_server> s{new redis_server{adopt_tag{}}};
  s->leave_ = true;
  s->account_ = place.scheme + "://" + place.account + (place.account.empty() ? "" : "@");
  s->host_ = place.host;
  s->port_ = place.port;
  s->parameters_ = place.parameters;
  return s;
}

redis_server& redis_server::shared() {
  static auto const server = [] {
    if (auto const url = redis_elsewhere(); !url.empty()) return elsewhere(url);
    if (auto const file = variable("OUTBOX_TEST_REDIS_FIXTURE"); !file.empty()) {
      auto given = described(text_of_file(file));
      given->leave_running();
      if (given->process_.alive()) return given;
    }
    return std::make_unique<redis_server>();
  }();
  return *server;
}

}  // namespace outbox

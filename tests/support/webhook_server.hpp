// A receiver of webhooks in a process of its own, and the certificates that it may have.
#pragma once

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "support/temporary_directory.hpp"

namespace outbox {

/// Runs a command of the shell and returns what it wrote. Throws if it fails.
[[nodiscard]] inline std::string output_of(std::string const& command) {
  auto* const out = ::popen(command.c_str(), "r");
  std::string all;
  std::array<char, 4096> some{};
  for (std::size_t n = 0; (n = std::fread(some.data(), 1, some.size(), out)) > 0;) all.append(some.data(), n);
  if (::pclose(out) != 0) throw std::runtime_error{"this command failed: " + command};
  return all;
}

/// A certificate that signs itself, made by the openssl program.
class own_certificate {
 public:
  /// `names` as in "IP:127.0.0.1,DNS:localhost".
  explicit own_certificate(std::string const& names) {
    static_cast<void>(
        output_of("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
                  "-subj /CN=test -addext subjectAltName=" +
                  names + " -keyout " + key() + " -out " + path() + " 2>/dev/null"));
  }
  [[nodiscard]] std::string path() const { return dir_ / "certificate.pem"; }
  [[nodiscard]] std::string key() const { return dir_ / "key.pem"; }

 private:
  temporary_directory dir_;
};

class webhook_server {
 public:
  webhook_server() { start({}, {}); }
  explicit webhook_server(own_certificate const& c) { start(c.path(), c.key()); }
  webhook_server(webhook_server const&) = delete;
  webhook_server& operator=(webhook_server const&) = delete;
  ~webhook_server() {
    ::close(to_);
    ::waitpid(pid_, nullptr, 0);
    ::close(from_);
  }

  /// "http://127.0.0.1:4711" and the path, or https with a certificate.
  [[nodiscard]] std::string url(std::string const& path) const {
    return (secure_ ? "https" : "http") + std::string{"://127.0.0.1:"} + port_ + path;
  }
  [[nodiscard]] std::string const& port() const noexcept { return port_; }

  struct request {
    std::string method, target, body;
    std::map<std::string, std::string> headers;
  };
  [[nodiscard]] request at(std::size_t i) {
    auto const j = nlohmann::json::parse(ask("request " + std::to_string(i)));
    request r{j.at("method"), j.at("target"), bytes(j.at("body")), {}};
    for (auto const& [name, value] : j.at("headers").items()) r.headers[name] = bytes(value);
    return r;
  }
  [[nodiscard]] int connections() { return stat("connections"); }
  [[nodiscard]] int requests() { return stat("requests"); }
  /// The most requests that it had at the same time.
  [[nodiscard]] int most() { return stat("most"); }
  /// Requests of "/held" that wait for `release`.
  [[nodiscard]] int held() { return stat("held"); }
  void release() { static_cast<void>(ask("release")); }

 private:
  void start(std::string const& certificate, std::string const& key) {
    secure_ = !certificate.empty();
    std::string const program = OUTBOX_WEBHOOK_SERVER;
    int to[2], from[2];
    if (::pipe2(to, O_CLOEXEC) != 0 || ::pipe2(from, O_CLOEXEC) != 0) throw std::runtime_error{"cannot make a pipe"};
    pid_ = ::fork();
    if (pid_ < 0) throw std::runtime_error{"cannot start a process"};
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::dup2(to[0], STDIN_FILENO);
      ::dup2(from[1], STDOUT_FILENO);
      ::execl(program.c_str(), program.c_str(), secure_ ? certificate.c_str() : nullptr, key.c_str(), nullptr);
      ::_exit(127);
    }
    ::close(to[0]);
    ::close(from[1]);
    to_ = to[1];
    from_ = from[0];
    port_ = line();
    if (port_.empty()) throw std::runtime_error{"the receiver did not start"};
  }
  [[nodiscard]] int stat(std::string const& name) { return nlohmann::json::parse(ask("stats")).at(name); }
  [[nodiscard]] std::string ask(std::string const& command) {
    auto const all = command + "\n";
    if (::write(to_, all.data(), all.size()) != static_cast<ssize_t>(all.size())) {
      throw std::runtime_error{"the receiver has gone"};
    }
    return line();
  }
  [[nodiscard]] std::string line() const {
    std::string text;
    char c = 0;
    while (::read(from_, &c, 1) == 1 && c != '\n') text += c;
    return text;
  }
  [[nodiscard]] static std::string bytes(std::string const& hex) {
    std::string out;
    for (std::size_t i = 0; i < hex.size(); i += 2) out += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
    return out;
  }

  ::pid_t pid_ = -1;
  int to_ = -1, from_ = -1;
  bool secure_ = false;
  std::string port_;
};

}  // namespace outbox

// The order service as a process, and curl as its client.
#pragma once

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/server_process.hpp"
#include "support/temporary_directory.hpp"
#include "support/waiting.hpp"

namespace outbox {

/// A process whose outputs go to a file. It is killed if it still runs at the end.
class logged_process {
 public:
  logged_process(std::vector<std::string> command, std::string log, std::string directory)
      : log_{std::move(log)}, directory_{std::move(directory)} {
    std::vector<char*> argv;  // made before the fork: in the child only system calls are safe
    for (auto& word : command) argv.push_back(word.data());
    argv.push_back(nullptr);
    // The variables of the tests' own servers are no settings of the service.
    std::vector<char*> variables;
    for (char** v = environ; *v != nullptr; ++v) {
      if (!std::string_view{*v}.starts_with("OUTBOX_")) variables.push_back(*v);
    }
    variables.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ < 0) throw std::runtime_error{"cannot start a process"};
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      int const out = ::open(log_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
      ::dup2(out, STDOUT_FILENO);
      ::dup2(out, STDERR_FILENO);
      if (::chdir(directory_.c_str()) == 0) ::execvpe(argv[0], argv.data(), variables.data());
      ::_exit(127);
    }
  }
  logged_process(logged_process const&) = delete;
  logged_process& operator=(logged_process const&) = delete;
  ~logged_process() {
    if (pid_ > 0) end(SIGKILL);
  }

  /// Returns the exit status, or the negative number of the signal that ended it.
  int end(int signal) {
    ::kill(pid_, signal);
    return wait();
  }
  int wait() {
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  void signal(int which) const { ::kill(pid_, which); }

  [[nodiscard]] std::string said() const { return text_of_file(log_); }

 private:
  std::string log_;
  std::string directory_;
  ::pid_t pid_ = -1;
};

/// What curl says about one request.
struct http_answer {
  int status = 0;  ///< 0: there was none.
  std::string location;
  std::string body;
};

/// One instance on a port that it chooses itself.
class order_service_process {
 public:
  order_service_process(std::string const& directory, std::string const& name, std::string const& db,
                        std::string const& config = {})
      : directory_{directory}, process_{command(db, config), directory + "/" + name + ".log", directory} {
    if (!eventually([&] { return find_port(); })) throw std::runtime_error{"no order service: " + said()};
  }

  [[nodiscard]] std::string url(std::string const& path) const {
    return "http://127.0.0.1:" + std::to_string(port_) + path;
  }

  /// `arguments` are words for the shell.
  [[nodiscard]] http_answer ask(std::string const& path, std::string const& arguments = {}) const {
    auto const body = directory_ + "/answer-" + std::to_string(port_);
    std::ofstream{body, std::ios::trunc};
    auto const line =
        run("curl -s -g -o '" + body + "' -w '%{http_code} %header{location}' " + arguments + " '" + url(path) + "'");
    http_answer a;
    std::istringstream{line} >> a.status >> a.location;
    a.body = text_of_file(body);
    return a;
  }

  /// Sends the bytes as they are.
  [[nodiscard]] http_answer post(std::string const& body, std::string const& arguments = {}) const {
    auto const file = directory_ + "/request-" + std::to_string(port_);
    std::ofstream{file, std::ios::trunc | std::ios::binary} << body;
    return ask("/orders", "--json '@" + file + "' " + arguments);
  }

  /// Starts a client that places this many orders, four at a time, and goes on when some are refused.
  [[nodiscard]] std::unique_ptr<logged_process> load(std::string const& name, int orders) const {
    auto const body = directory_ + "/load.json";
    std::ofstream{body, std::ios::trunc} << R"({"customer":"Ada","cents":1999})";
    return std::make_unique<logged_process>(
        std::vector<std::string>{"curl", "-s", "--stderr", "/dev/null", "-Z", "--parallel-max", "4", "--json",
                                 "@" + body, "-o", "/dev/null", "-w", "%{http_code} %header{location}\n",
                                 url("/orders?n=[1-" + std::to_string(orders) + "]")},
        directory_ + "/" + name + ".answers", directory_);
  }

  int end(int signal) { return process_.end(signal); }
  [[nodiscard]] std::string said() const { return process_.said(); }

 private:
  static std::vector<std::string> command(std::string const& db, std::string const& config) {
    std::vector<std::string> words{OUTBOX_ORDER_SERVICE, "--listen", "127.0.0.1:0", "--db", db};
    if (!config.empty()) words.insert(words.end(), {"--config", config});
    return words;
  }

  static std::string run(std::string const& command) {
    std::unique_ptr<FILE, int (*)(FILE*)> out{::popen(command.c_str(), "r"), &::pclose};
    std::string text;
    char some[512];
    while (std::fgets(some, sizeof some, out.get()) != nullptr) text += some;
    return text;
  }

  bool find_port() {
    auto const text = said();
    constexpr std::string_view mark = "listens on port ";
    auto const at = text.find(mark);
    if (at == text.npos || text.find('\n', at) == text.npos) return false;
    port_ = std::atoi(text.c_str() + at + mark.size());
    return true;
  }

  std::string directory_;
  logged_process process_;
  int port_ = 0;
};

/// The ids of the orders that were answered with 201, from the output of `load`.
inline std::set<std::string> answered(std::string const& text) {
  std::set<std::string> ids;
  std::istringstream in{text};
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("201 /orders/")) ids.insert(line.substr(12));
  }
  return ids;
}

}  // namespace outbox

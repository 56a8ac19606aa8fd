// The relay as a process of its own: a configuration file, signals, HTTP, and the lines that it publishes.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <csignal>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/free_port.hpp"
#include "support/temporary_directory.hpp"
#include "support/waiting.hpp"

namespace outbox {

struct ended {
  int status = -1;
  std::string out;
};

/// Runs a command to its end; both outputs together.
inline ended run(std::string const& command) {
  std::unique_ptr<FILE, int (*)(FILE*)> out{::popen((command + " 2>&1").c_str(), "r"), [](FILE*) { return 0; }};
  ended e;
  char some[4096];
  while (std::fgets(some, sizeof some, out.get()) != nullptr) e.out += some;
  e.status = WEXITSTATUS(::pclose(out.release()));
  return e;
}

class relay_fixture : public ::testing::Test {
 protected:
  ~relay_fixture() override {
    for (auto const pid : running_) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
  }

  std::string file() const { return dir / "relay.toml"; }
  std::string lines_file() const { return dir / "events.jsonl"; }

  /// One table whose events all become lines of a file.
  void write_config_for(std::string const& url, std::string const& more = "") const {
    std::ofstream{file()} << "mode = \"multi_node\"\nstop_timeout = \"20s\"\n[store]\nurl = \"" << url
                          << "\"\n[poll]\nevery = \"50ms\"\n[http]\nlisten = \"127.0.0.1:" << port
                          << "\"\n[sinks.out]\ntype = \"json_lines\"\npath = \"" << lines_file()
                          << "\"\n[[routes]]\nevent_type = \"*\"\nsink = \"out\"\n"
                          << more;
  }

  ::pid_t start(std::vector<std::string> const& environment = {}) {
    auto const log = dir / "relay.log", config = file();
    auto const pid = ::fork();
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::dup2(::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0666), STDERR_FILENO);
      for (auto const& e : environment) ::putenv(const_cast<char*>(e.c_str()));
      ::execl(OUTBOX_TOOL, "outbox", "relay", "--config", config.c_str(), nullptr);
      ::_exit(127);
    }
    running_.push_back(pid);
    return pid;
  }
  int end(::pid_t pid, int signal) {
    ::kill(pid, signal);
    return wait(pid);
  }
  int wait(::pid_t pid) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    std::erase(running_, pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  bool ready() const { return run("curl -s -o /dev/null -w '%{http_code}' " + url("/readyz")).out == "200"; }
  std::string url(std::string const& path) const { return "http://127.0.0.1:" + std::to_string(port) + path; }
  std::string log() const {
    std::ifstream in{dir / "relay.log"};
    return {std::istreambuf_iterator<char>{in}, {}};
  }

  /// The events in the file of lines, by id, and how often each is there.
  std::map<std::string, int> published() const {
    std::map<std::string, int> all;
    std::ifstream in{lines_file()};
    for (std::string line; std::getline(in, line);) {
      if (nlohmann::json::accept(line)) ++all[nlohmann::json::parse(line).at("id").get<std::string>()];
    }
    return all;
  }

  temporary_directory dir;
  int port = free_port();
  std::vector<::pid_t> running_;
};

}  // namespace outbox

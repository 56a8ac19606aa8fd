// Starts and stops the Redis server that the cases of one ctest run share, or runs a program with the URL of a server
// that is the program's own.
//   outbox_redis_fixture start|stop <file that describes it>
//   outbox_redis_fixture run <file> <program> [its second argument]
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string_view>

#include "support/redis_server.hpp"

namespace {

void stop(std::string const& file) {
  auto const text = outbox::text_of_file(file);
  if (text.empty()) return;
  auto const server = outbox::redis_server::described(text);  // ends it, and removes its directory
  std::filesystem::remove(file);
}

void start(std::string const& file) {
  if (!outbox::redis_elsewhere().empty()) {
    std::cout << "OUTBOX_TEST_REDIS is set: the tests use that server, and none is started\n";
    return;
  }
  outbox::redis_server server{{.outlives_us = true}};
  std::ofstream{file} << server.describe();
  std::cout << "Redis on port " << server.port() << ", process " << server.pid() << '\n';
  server.leave_running();
}

// A server starts in a moment, and is easier to empty than a part of one.
int run(char const* program, char const* argument) {
  outbox::redis_server const server;
  auto const url = server.url();
  auto const pid = ::fork();
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::execl(program, program, url.c_str(), argument, nullptr);
    ::_exit(127);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

}  // namespace

int main(int count, char** words) {
  if (count < 3) return 2;
  std::string const file = words[2];
  try {
    if (count >= 4 && std::string_view{words[1]} == "run") return run(words[3], count > 4 ? words[4] : nullptr);
    stop(file);  // one that an interrupted run has left behind
    if (std::string_view{words[1]} == "start") start(file);
    return 0;
  } catch (std::exception const& e) {
    std::cerr << e.what() << '\n';
    return 1;
  }
}

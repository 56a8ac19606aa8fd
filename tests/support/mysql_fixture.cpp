// Starts and stops the MariaDB server that the cases of one ctest run share, or runs a program with the URL of a
// database on it that is the program's own.
//   outbox_mysql_fixture start|stop <file that describes it>
//   outbox_mysql_fixture run <file> <program> [its second argument]
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string_view>

#include "support/mysql_database.hpp"

namespace {

void stop(std::string const& file) {
  auto const text = outbox::text_of_file(file);
  if (text.empty()) return;
  auto const server = outbox::mysql_server::described(text);  // ends it, and removes its directory
  std::filesystem::remove(file);
}

void start(std::string const& file) {
  if (!outbox::mysql_elsewhere().empty()) {
    std::cout << "OUTBOX_TEST_MYSQL is set: the tests use that server, and none is started\n";
    return;
  }
  outbox::mysql_server server{{.outlives_us = true}};
  std::ofstream{file} << server.describe();
  std::cout << "MariaDB on port " << server.port() << ", process " << server.pid() << '\n';
  server.leave_running();
}

int run(std::string const& file, char const* program, char const* argument) {
  ::setenv("OUTBOX_TEST_MYSQL_FIXTURE", file.c_str(), 1);
  outbox::mysql_database const database;
  auto const pid = ::fork();
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::execl(program, program, database.url().c_str(), argument, nullptr);
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
    if (count >= 4 && std::string_view{words[1]} == "run") return run(file, words[3], count > 4 ? words[4] : nullptr);
    stop(file);  // one that an interrupted run has left behind
    if (std::string_view{words[1]} == "start") start(file);
    return 0;
  } catch (std::exception const& e) {
    std::cerr << e.what() << '\n';
    return 1;
  }
}

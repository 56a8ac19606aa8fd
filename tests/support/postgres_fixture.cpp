// Starts and stops the PostgreSQL server that the cases of one ctest run share, or runs a program with its connection
// string.
//   outbox_postgres_fixture start|stop <file that describes it>
//   outbox_postgres_fixture run <file> <program> [its second argument]
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <string_view>

#include "support/postgres_server.hpp"

namespace {

void stop(std::string const& file) {
  auto const text = outbox::text_of_file(file);
  if (text.empty()) return;
  auto const server = outbox::postgres_server::described(text);  // ends it, and removes its directory
  std::filesystem::remove(file);
}

int run(std::string const& file, char const* program, char const* argument) {
  auto const server = outbox::postgres_server::described(outbox::text_of_file(file));
  server->leave_running();
  ::execl(program, program, server->connection().c_str(), argument, nullptr);
  return 127;
}

}  // namespace

int main(int count, char** words) {
  if (count < 3) return 2;
  std::string const file = words[2];
  try {
    if (count >= 4 && std::string_view{words[1]} == "run") return run(file, words[3], count > 4 ? words[4] : nullptr);
    stop(file);  // one that an interrupted run has left behind
    if (std::string_view{words[1]} == "stop") return 0;
    outbox::postgres_server server{{.outlives_us = true}};
    std::ofstream{file} << server.describe();
    std::cout << "PostgreSQL on port " << server.port() << ", process " << server.pid() << '\n';
    server.leave_running();
    return 0;
  } catch (std::exception const& e) {
    std::cerr << e.what() << '\n';
    return 1;
  }
}

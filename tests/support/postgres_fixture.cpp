// Starts and stops the PostgreSQL server that the cases of one ctest run share.
//   outbox_postgres_fixture start|stop <file that describes it>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string_view>

#include "support/postgres_server.hpp"

namespace {

void stop(std::string const& file) {
  std::ifstream in{file};
  std::stringstream text;
  text << in.rdbuf();
  if (text.str().empty()) return;
  auto const server = outbox::postgres_server::described(text.str());  // ends it, and removes its directory
  std::filesystem::remove(file);
}

}  // namespace

int main(int count, char** words) {
  if (count != 3) return 2;
  std::string const file = words[2];
  try {
    stop(file);  // one that an interrupted run has left behind
    if (std::string_view{words[1]} == "stop") return 0;
    outbox::postgres_server server;
    std::ofstream{file} << server.describe();
    std::cout << "PostgreSQL on port " << server.port() << ", process " << server.pid() << '\n';
    server.leave_running();
    return 0;
  } catch (std::exception const& e) {
    std::cerr << e.what() << '\n';
    return 1;
  }
}

#include "about.hpp"

#include <sqlite3.h>
#include <sys/utsname.h>

#include <array>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <memory>
#include <thread>

#include "mysql_by_hand.hpp"
#include "postgres_by_hand.hpp"
#include "redis_by_hand.hpp"

namespace bench {
namespace {

std::string processor() {
  std::ifstream in{"/proc/cpuinfo"};
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

std::string kernel() {
  ::utsname u{};
  ::uname(&u);
  return std::string{u.sysname} + " " + u.release;
}

std::string today() {
  auto const now = std::time(nullptr);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", std::gmtime(&now));
  return text;
}

// Empty outside a clone, or without git.
std::string commit() {
  std::array<char, 64> text{};
  std::unique_ptr<FILE, int (*)(FILE*)> const pipe{::popen("git rev-parse --short HEAD 2>/dev/null", "r"), &::pclose};
  if (!pipe || std::fgets(text.data(), text.size(), pipe.get()) == nullptr) return "";
  std::string line = text.data();
  return line.substr(0, line.find('\n'));
}

}  // namespace

std::vector<std::pair<std::string, std::string>> about_this_run(settings const& s, servers_used used) {
  std::vector<std::pair<std::string, std::string>> all{
      {"date", today()},
      {"processor", processor() + ", " + std::to_string(std::thread::hardware_concurrency()) + " cores"},
      {"kernel", kernel()},
      {"sqlite", sqlite3_libversion()},
  };
  if (used.postgres) {
    auto const version = pg::client{pg::server().connection()}.ask("SHOW server_version");
    all.emplace_back("postgres", version.substr(0, version.find(' ')));
  }
  if (used.mysql) all.emplace_back("mysql", my::client{}.ask("SELECT version()"));
  if (used.redis) all.emplace_back("redis", re::server_version());
  if (auto const id = commit(); !id.empty()) all.emplace_back("commit", id);
  all.emplace_back("rounds", std::to_string(s.rounds));
  if (s.scale != 1) all.emplace_back("scale", std::to_string(s.scale).substr(0, 5));
  return all;
}

}  // namespace bench

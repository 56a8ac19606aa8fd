// What the environment of a test run says about servers and their programs.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

namespace outbox {

/// Returns the value of a variable of the environment; empty if it is not set.
[[nodiscard]] inline std::string variable(char const* name) {
  char const* const text = std::getenv(name);
  return text != nullptr ? text : "";
}

/// The directories of programs: those of PATH, and those that an account's PATH may lack.
[[nodiscard]] inline std::vector<std::filesystem::path> usual_directories() {
  std::vector<std::filesystem::path> all;
  std::istringstream path{variable("PATH")};
  for (std::string one; std::getline(path, one, ':');) all.emplace_back(one);
  all.insert(all.end(), {"/usr/sbin", "/usr/bin"});
  return all;
}

/// Returns the path of the first of the names that is a file in one of the directories; empty if there is none.
[[nodiscard]] inline std::string first_found(std::vector<std::filesystem::path> const& directories,
                                             std::vector<std::string> const& names) {
  for (auto const& name : names) {
    for (auto const& directory : directories) {
      if (std::filesystem::is_regular_file(directory / name)) return (directory / name).string();
    }
  }
  return {};
}

/// The parts of the URL of a server that runs elsewhere.
struct server_place {
  std::string scheme{};      ///< Empty: it is no URL.
  std::string account{};     ///< With its password, as it is written. Empty if there is none.
  std::string host{};        ///< Without the port.
  std::string parameters{};  ///< With the question mark.
  int port = 0;

  server_place(std::string const& url, int default_port) : port{default_port} {
    auto const end_of_scheme = url.find("://");
    if (end_of_scheme == std::string::npos) return;
    scheme = url.substr(0, end_of_scheme);
    auto const from = end_of_scheme + 3;
    auto const question = std::min(url.find('?', from), url.size());
    host = url.substr(from, std::min(url.find('/', from), question) - from);
    parameters = url.substr(question);
    if (auto const at = host.rfind('@'); at != std::string::npos) {
      account = host.substr(0, at);
      host.erase(0, at + 1);
    }
    auto const colon = host.rfind(':');
    if (colon != std::string::npos && host.find(']', colon) == std::string::npos) {  // not one of [::1]
      port = std::stoi(host.substr(colon + 1));
      host.erase(colon);
    }
  }
};

}  // namespace outbox

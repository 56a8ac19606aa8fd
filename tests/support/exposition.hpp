// Reads the text format of Prometheus, strictly: what Prometheus would refuse throws.
#pragma once

#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>

namespace outbox {

/// The samples of a scrape, by their name and labels as they stand in the text. Throws if a line is malformed, or if a
/// series or the type of a name is there twice.
[[nodiscard]] inline std::map<std::string, double> samples_of(std::string const& text) {
  static std::regex const sample{
      R"re(([a-zA-Z_:][a-zA-Z0-9_:]*(\{([a-zA-Z_][a-zA-Z0-9_]*="([^"\\\n]|\\[\\n"])*",?)+\})?) (\S+))re",
      std::regex::optimize};
  std::map<std::string, double> all;
  std::set<std::string> types;
  std::istringstream in{text};
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("# HELP ")) continue;
    if (line.starts_with("# TYPE ")) {
      auto const name = line.substr(7, line.find(' ', 7) - 7);
      if (!types.insert(name).second) throw std::runtime_error{"twice: " + line};
      continue;
    }
    std::smatch m;
    if (!std::regex_match(line, m, sample)) throw std::runtime_error{"no sample: " + line};
    if (!all.emplace(m[1].str(), std::stod(m[5].str())).second) throw std::runtime_error{"twice: " + line};
  }
  return all;
}

/// The names of the metrics of a scrape, as their TYPE lines have them.
[[nodiscard]] inline std::map<std::string, std::string> types_of(std::string const& text) {
  std::map<std::string, std::string> all;
  std::istringstream in{text};
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("# TYPE ")) continue;
    auto const space = line.find(' ', 7);
    all.emplace(line.substr(7, space - 7), line.substr(space + 1));
  }
  return all;
}

}  // namespace outbox

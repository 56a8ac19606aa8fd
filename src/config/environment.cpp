#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "config/value.hpp"

namespace outbox::inline v0::configuration {
namespace {

constexpr std::string_view prefix = "OUTBOX_";

// Variables of other parts of the project: those of the tool, and those of the tests.
bool is_not_ours(std::string_view name) noexcept {
  return name == "OUTBOX_DB" || name == "OUTBOX_CONFIG" || name.starts_with("OUTBOX_TEST_");
}

// "POLL__EVERY" -> "poll", "every"
std::vector<std::string> path_of(std::string_view name) {
  std::vector<std::string> path(1);
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name.substr(i).starts_with("__")) {
      path.emplace_back();
      ++i;
    } else {
      char const c = name[i];
      path.back() += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    }
  }
  return path;
}

// The member that a part of a name means: of a table by its name, of a list by its number. Null if there is none.
value* step(value& in, std::string const& part) {
  if (in.is == value::kind::list) {
    std::size_t n = 0;
    auto const [end, problem] = std::from_chars(part.data(), part.data() + part.size(), n);
    bool const number = problem == std::errc{} && end == part.data() + part.size();
    return number && n < in.members.size() ? &in.members[n].second : nullptr;
  }
  if (in.is != value::kind::table) return nullptr;
  if (auto* const there = in.find(part)) return there;
  return &in.members.emplace_back(part, value{}).second;
}

}  // namespace

std::map<std::string, std::string> process_environment() {
  std::map<std::string, std::string> all;
  for (char** at = ::environ; at != nullptr && *at != nullptr; ++at) {
    std::string_view const one = *at;
    auto const equals = one.find('=');
    if (one.starts_with(prefix) && equals != std::string_view::npos)
      all.emplace(one.substr(0, equals), one.substr(equals + 1));
  }
  return all;
}

void add_environment(value& to, std::map<std::string, std::string> const& variables,
                     std::vector<std::string>& problems) {
  for (auto const& [name, text] : variables) {
    if (!name.starts_with(prefix) || is_not_ours(name)) continue;
    auto const where = "environment variable " + name;
    value* at = &to;
    for (auto const& part : path_of(std::string_view{name}.substr(prefix.size()))) {
      if (at->where.empty()) at->where = where;
      at = step(*at, part);
      if (at == nullptr) break;
    }
    if (at == nullptr) {
      problems.push_back(where + ": there is nothing in the configuration that it could change");
      continue;
    }
    *at = {.is = value::kind::text, .text = text, .where = where, .from_environment = true};
  }
}

namespace {

// The content of a file without the line break at its end, as an editor leaves it.
bool read_file(std::string const& path, std::string& into) {
  std::ifstream in{path, std::ios::binary};
  std::stringstream text;
  text << in.rdbuf();
  if (!in) return false;
  into = text.str();
  while (!into.empty() && (into.back() == '\n' || into.back() == '\r')) into.pop_back();
  return true;
}

}  // namespace

std::string with_references(value const& v, std::string const& key, std::vector<std::string>& problems) {
  std::string out;
  std::string_view rest = v.text;
  auto const complain = [&](std::string const& what) { problems.push_back(v.where + ": " + key + " " + what); };
  while (true) {
    auto const begin = rest.find("${");
    out += rest.substr(0, begin);
    if (begin == std::string_view::npos) return out;
    auto const end = rest.find('}', begin);
    auto const inside = rest.substr(begin + 2, end == std::string_view::npos ? end : end - begin - 2);
    if (end == std::string_view::npos) return complain("has a '${' without a '}'"), out;
    rest.remove_prefix(end + 1);
    std::string content;
    if (inside.starts_with("env:")) {
      std::string const name{inside.substr(4)};
      char const* const text = std::getenv(name.c_str());  // NOLINT(concurrency-mt-unsafe): read when a program starts
      if (text == nullptr) {
        complain("needs the environment variable " + name + ", which is not set");
      } else {
        content = text;
      }
    } else if (inside.starts_with("file:")) {
      std::string const path{inside.substr(5)};
      if (!read_file(path, content)) complain("needs the file '" + path + "', which cannot be read");
    } else {
      complain("has '${" + std::string{inside} + "}': write ${env:NAME} or ${file:/path}");
    }
    out += content;
  }
}

}  // namespace outbox::inline v0::configuration

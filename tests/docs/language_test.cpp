// The language of the project: words that CONTRIBUTING.md asks for, and a comment for every field that users set.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

std::vector<fs::path> files_below(fs::path const& directory, std::vector<std::string> const& extensions) {
  std::vector<fs::path> found;
  for (auto const& entry : fs::recursive_directory_iterator{fs::path{OUTBOX_SOURCE_DIR} / directory}) {
    if (std::ranges::find(extensions, entry.path().extension().string()) != extensions.end()) {
      found.push_back(entry.path());
    }
  }
  std::ranges::sort(found);
  return found;
}

std::vector<std::string> lines_of(fs::path const& file) {
  std::ifstream in{file};
  EXPECT_TRUE(in) << "cannot read " << file;
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::string place(fs::path const& file, std::size_t line) {
  return fs::relative(file, OUTBOX_SOURCE_DIR).string() + ":" + std::to_string(line + 1);
}

// CONTRIBUTING.md lists these as words to avoid, so it may name them.
TEST(Language, ActorsHaveNamesAndIdiomsAreUsual) {
  std::regex const unusual{R"(\b(whoever|somebody|anybody|nobody|as ever|but for|; how many)\b|\bin \w+('s)? stead\b)"
                           R"(|\bof (yours|the (application|caller|user|node|listener|store|server)'s)[.,;:)])",
                           std::regex::icase};
  std::vector<fs::path> files;
  for (auto const* directory : {"include", "src", "schema", "docs", "examples", "bench"}) {
    std::ranges::copy(files_below(directory, {".hpp", ".cpp", ".md", ".sql", ".in"}), std::back_inserter(files));
  }
  for (auto const* page : {"README.md", "CHANGELOG.md", "UPGRADING.md", "SECURITY.md"}) {
    files.push_back(fs::path{OUTBOX_SOURCE_DIR} / page);
  }
  ASSERT_GT(files.size(), 150U);
  for (auto const& file : files) {
    auto const lines = lines_of(file);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      std::smatch found;
      EXPECT_FALSE(std::regex_search(lines[i], found, unusual)) << place(file, i) << ": \"" << found.str() << "\"";
    }
  }
}

// A field is a declaration directly inside a struct: it has its comment behind it or on the line before.
TEST(Language, EveryFieldOfAPublicStructHasAComment) {
  std::regex const opens{R"(^\s*struct (OUTBOX_\w+ )?\w+( final)?( : [^{]*)? \{$)"};
  std::regex const field{R"(^\s+[A-Za-z_][\w:<>,.*& ]* [a-z]\w*(\{[^;]*\}| = [^;]*|\[[^;]*\])?;)"};
  int fields = 0;
  for (auto const& file : files_below("include/outbox", {".hpp"})) {
    if (file.parent_path().filename() == "detail") continue;
    auto const lines = lines_of(file);
    std::string indent;
    bool inside = false;
    for (std::size_t i = 0; i < lines.size(); ++i) {
      auto const& line = lines[i];
      if (std::regex_search(line, opens)) {
        inside = true;
        indent = line.substr(0, line.find("struct"));
        continue;
      }
      if (inside && line.starts_with(indent + "};")) inside = false;
      if (!inside || !line.starts_with(indent + "  ") || line.starts_with(indent + "   ")) continue;
      if (line.find(" using ") != std::string::npos || line.find("friend ") != std::string::npos ||
          line.find("static ") != std::string::npos || !std::regex_search(line, field)) {
        continue;
      }
      ++fields;
      bool const before = i > 0 && lines[i - 1].find("//") != std::string::npos &&
                          lines[i - 1].find_first_not_of(' ') == lines[i - 1].find("//");
      EXPECT_TRUE(before || line.find("///<") != std::string::npos) << place(file, i) << ": " << line;
    }
  }
  EXPECT_GT(fields, 150);
}

}  // namespace

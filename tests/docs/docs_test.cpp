// The pages beside the code: every C++ block compiles somewhere, every link leads somewhere, every table is complete.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <outbox/config.hpp>
#include <outbox/memory.hpp>
#include <outbox/mysql.hpp>
#include <outbox/outbox.hpp>
#include <outbox/postgres.hpp>
#include <outbox/redis.hpp>
#include <outbox/sqlite.hpp>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using strings = std::vector<std::string>;

fs::path root() { return OUTBOX_SOURCE_DIR; }

std::string trimmed(std::string const& text) {
  auto const first = text.find_first_not_of(" \t\r");
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

strings lines_of(fs::path const& file) {
  std::ifstream in{file};
  EXPECT_TRUE(in) << "cannot read " << file;
  strings lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// Files below `directory` that end in one of these, in a fixed order.
std::vector<fs::path> files_below(fs::path const& directory, strings const& extensions) {
  std::vector<fs::path> found;
  for (auto const& entry : fs::recursive_directory_iterator{directory}) {
    if (std::ranges::find(extensions, entry.path().extension().string()) != extensions.end()) {
      found.push_back(entry.path());
    }
  }
  std::ranges::sort(found);
  return found;
}

std::vector<fs::path> pages() {
  auto all = files_below(root() / "docs", {".md"});
  for (auto const& entry : fs::directory_iterator{root()}) {
    if (entry.path().extension() == ".md") all.push_back(entry.path());
  }
  std::ranges::sort(all);
  return all;
}

std::string shown(fs::path const& file) { return fs::relative(file, root()).string(); }

// Lines that count: blank ones and indentation do not.
strings normalised(strings const& lines) {
  strings result;
  for (auto const& line : lines) {
    if (auto text = trimmed(line); !text.empty()) result.push_back(std::move(text));
  }
  return result;
}

struct code_block {
  std::string language;
  strings lines;
};

// The fenced blocks of a page, and in `prose` the lines outside them.
std::vector<code_block> blocks_of(fs::path const& page, strings& prose) {
  std::vector<code_block> blocks;
  bool inside = false;
  for (auto const& line : lines_of(page)) {
    auto const text = trimmed(line);
    if (text.starts_with("```")) {
      if (!inside) blocks.push_back({trimmed(text.substr(3)), {}});
      inside = !inside;
    } else if (inside) {
      blocks.back().lines.push_back(line);
    } else {
      prose.push_back(line);
    }
  }
  EXPECT_FALSE(inside) << shown(page) << " has a block without an end";
  return blocks;
}

// The programs that code to copy is taken from.
class built_programs {
 public:
  built_programs() {
    for (auto const* directory : {"docs/snippets", "examples", "tests/consumer", "include/outbox/adapt"}) {
      for (auto const& file : files_below(root() / directory, {".cpp", ".hpp"})) {
        programs_.push_back(normalised(lines_of(file)));
      }
    }
  }
  void expect_excerpt(fs::path const& where, strings const& lines) const {
    auto const code = normalised(lines);
    ASSERT_FALSE(code.empty()) << shown(where) << " has an empty block";
    EXPECT_TRUE(std::ranges::any_of(
        programs_, [&](strings const& program) { return !std::ranges::search(program, code).empty(); }))
        << shown(where) << ": the block that begins with\n  " << code.front()
        << "\nis no excerpt of a program that is built, such as one under docs/snippets or examples";
  }

 private:
  std::vector<strings> programs_;
};

// The comment of a file shows how it is used.
TEST(Docs, EveryExampleAtTheTopOfAHeaderIsAnExcerptOfAProgramThatIsBuilt) {
  built_programs const programs;
  std::string const mark = "///     ";
  int checked = 0;
  for (auto const& file : files_below(root() / "include", {".hpp"})) {
    strings example;
    for (auto const& line : lines_of(file)) {
      if (line.starts_with("#pragma once")) break;
      if (line.starts_with(mark)) example.push_back(line.substr(mark.size()));
    }
    if (example.empty()) continue;
    ++checked;
    programs.expect_excerpt(file, example);
  }
  EXPECT_GE(checked, 4) << "the headers that people open first have lost their examples";
}

TEST(Docs, EveryCppBlockIsAnExcerptOfAProgramThatIsBuilt) {
  built_programs const programs;
  int checked = 0;
  for (auto const& page : pages()) {
    strings prose;
    for (auto const& block : blocks_of(page, prose)) {
      EXPECT_NE(block.language, "c++") << shown(page) << ": write ```cpp";
      if (block.language != "cpp") continue;
      ++checked;
      programs.expect_excerpt(page, block.lines);
    }
  }
  EXPECT_GT(checked, 20) << "the pages have lost their code";
}

// A reader who copies the listener of one page may never see another page.
TEST(Docs, EveryPageWithAListenerSaysThatSeveralThreadsCallItAtOnce) {
  std::regex const registers{R"(\.on(_batch)?[<(])"};
  int checked = 0;
  for (auto const& page : pages()) {
    strings prose;
    bool shows_one = false;
    for (auto const& block : blocks_of(page, prose)) {
      shows_one = shows_one || (block.language == "cpp" && std::ranges::any_of(block.lines, [&](auto const& line) {
                                  return std::regex_search(line, registers);
                                }));
    }
    if (!shows_one) continue;
    ++checked;
    std::string text;
    for (auto const& line : prose) text += trimmed(line) + " ";
    EXPECT_NE(text.find("several threads at once"), std::string::npos) << shown(page);
  }
  EXPECT_GT(checked, 5);
}

TEST(Docs, NoProgramToCopyMakesSqlOfText) {
  std::regex const joined{R"re("(INSERT|UPDATE|DELETE|SELECT) [^"]*"\s*\+)re"};
  for (auto const* directory : {"docs/snippets", "examples"}) {
    for (auto const& file : files_below(root() / directory, {".cpp", ".hpp"})) {
      for (auto const& line : lines_of(file))
        EXPECT_FALSE(std::regex_search(line, joined)) << shown(file) << ": " << line;
    }
  }
}

// The anchors of a page's headings, as GitHub makes them.
std::set<std::string> anchors_of(fs::path const& page) {
  std::set<std::string> anchors;
  strings prose;
  blocks_of(page, prose);
  for (auto const& line : prose) {
    if (!line.starts_with("#")) continue;
    std::string anchor;
    for (char const c : trimmed(line.substr(line.find_first_not_of('#')))) {
      auto const u = static_cast<unsigned char>(c);
      if (std::isalnum(u) != 0 || c == '_' || c == '-' || u >= 0x80) anchor += static_cast<char>(std::tolower(u));
      if (c == ' ') anchor += '-';
    }
    anchors.insert(anchor);
  }
  return anchors;
}

TEST(Docs, EveryRelativeLinkLeadsToAFileAndToAHeading) {
  std::regex const code_span{"`[^`]*`"};
  std::regex const link{R"(\]\(([^)\s]+)\))"};
  int checked = 0;
  for (auto const& page : pages()) {
    strings prose;
    blocks_of(page, prose);
    for (auto const& line : prose) {
      auto const text = std::regex_replace(line, code_span, "code");
      for (std::sregex_iterator it{text.begin(), text.end(), link}, end; it != end; ++it) {
        auto const target = (*it)[1].str();
        if (target.find("://") != std::string::npos || target.starts_with("mailto:")) continue;
        ++checked;
        auto const hash = target.find('#');
        auto const file = hash == 0 ? page : page.parent_path() / target.substr(0, hash);
        EXPECT_TRUE(fs::exists(file)) << shown(page) << " links to " << target;
        if (hash == std::string::npos || file.extension() != ".md" || !fs::exists(file)) continue;
        EXPECT_TRUE(anchors_of(file).contains(target.substr(hash + 1))) << shown(page) << " links to " << target;
      }
    }
  }
  EXPECT_GT(checked, 20);
}

// The rules of CONTRIBUTING.md that a program can check, as far as they hold outside code.
TEST(Docs, PagesUsePlainWordsAndShortLines) {
  std::regex const unwanted{R"(\b([Ww]hoever|[Ss]omebody|[Nn]obody|as ever|but for|in its stead)\b|; how many\b)"};
  constexpr std::ptrdiff_t widest = 120;
  for (auto const& page : pages()) {
    if (page.filename() == "CONTRIBUTING.md") continue;  // it names these words
    strings prose;
    blocks_of(page, prose);
    for (auto const& line : prose) {
      EXPECT_FALSE(std::regex_search(line, unwanted)) << shown(page) << ": " << line;
      auto const length = std::ranges::count_if(line, [](char c) { return (c & 0xC0) != 0x80; });  // UTF-8
      bool const may_be_wide = line.starts_with("|") || shown(page).starts_with("docs/project/");
      EXPECT_TRUE(may_be_wide || length <= widest) << shown(page) << ": " << line;
    }
  }
}

TEST(Docs, EveryPageIsInTheIndex) {
  std::string index;
  for (auto const& line : lines_of(root() / "docs/README.md")) index += line + "\n";
  for (auto const& page : pages()) {
    auto const name = fs::relative(page, root() / "docs").string();
    if (name == "README.md" || name == "../README.md" || name.starts_with("project/decisions/")) continue;
    EXPECT_NE(index.find("](" + name + ")"), std::string::npos) << name;
  }
}

// The rows of a table that begin with a name in backticks, below the heading "## section"; the name without them.
std::vector<strings> rows_of(std::string const& page, std::string const& section) {
  std::vector<strings> rows;
  bool there = false;
  bool found = false;
  for (auto const& line : lines_of(root() / "docs" / page)) {
    if (line.starts_with("#")) there = line == "## " + section;
    found = found || there;
    if (!there || !line.starts_with("| `")) continue;
    strings cells;
    for (std::size_t at = 1; at < line.size();) {
      auto const end = std::min(line.find('|', at), line.size());
      cells.push_back(trimmed(line.substr(at, end - at)));
      at = end + 1;
    }
    auto& name = cells.front();
    name = name.substr(1, name.find('`', 1) - 1);
    rows.push_back(std::move(cells));
  }
  EXPECT_TRUE(found) << page << " has no section '" << section << "'";
  return rows;
}

strings column(std::vector<strings> const& rows, std::size_t index) {
  strings cells;
  for (auto const& row : rows) cells.push_back(index < row.size() ? row[index] : "");
  return cells;
}

// `Suite.Name` on the page of the specifications is a case in this tree.
TEST(Docs, EveryTestThatProvesASpecificationExists) {
  std::string sources;
  for (auto const* const folder : {"tests", "include/outbox/testing"}) {
    for (auto const& file : files_below(root() / folder, {".cpp", ".hpp", ".txt"})) {
      for (auto const& line : lines_of(file)) sources += trimmed(line) + "\n";
    }
  }
  auto const declared = [&](std::string const& text) { return sources.find(text) != std::string::npos; };
  std::regex const name{"`([A-Za-z_]+)\\.([A-Za-z0-9_]+)`"};
  std::size_t names = 0;
  for (auto const& line : lines_of(root() / "docs/project/traceability.md")) {
    for (std::sregex_iterator it{line.begin(), line.end(), name}, end; it != end; ++it) {
      auto const suite = (*it)[1].str();
      auto const test = (*it)[2].str();
      if (suite == "compile_fail") {
        EXPECT_TRUE(declared("outbox_must_not_compile(" + test + " ")) << test;
      } else if (suite == "consumer") {
        EXPECT_TRUE(declared("outbox_consumer(" + test + " ") || declared("outbox_consumer_of(" + test + " ") ||
                    declared("outbox_consumer_test(" + test + " "))
            << test;
      } else if (std::isupper(static_cast<unsigned char>(suite.front())) != 0) {
        EXPECT_NE(sources.find("(" + suite + ", " + test), std::string::npos) << suite << "." << test;
      } else {
        continue;
      }
      ++names;
    }
  }
  EXPECT_GT(names, 200U);
}

strings backticked(std::string const& text) {
  std::regex const span{"`([^`]+)`"};
  strings found;
  for (std::sregex_iterator it{text.begin(), text.end(), span}, end; it != end; ++it) found.push_back((*it)[1]);
  return found;
}

// A public header without its comments: all its words, and the names of the types and namespaces that it declares.
struct header {
  std::set<std::string> words;
  std::set<std::string> scopes;
};

std::vector<header> headers() {
  std::regex const word{"[A-Za-z_][A-Za-z0-9_]*"};
  std::regex const scope{"^ *(struct|class|enum class|namespace) [^;{]*"};
  std::vector<header> all;
  for (auto const& file : files_below(root() / "include", {".hpp"})) {
    auto& h = all.emplace_back();
    for (auto const& line : lines_of(file)) {
      auto const code = line.substr(0, line.find("//"));
      std::smatch declared;
      bool const declares = std::regex_search(code, declared, scope);
      auto const head = declares ? declared.str() : std::string{};
      for (std::sregex_iterator it{code.begin(), code.end(), word}, end; it != end; ++it) h.words.insert(it->str());
      for (std::sregex_iterator it{head.begin(), head.end(), word}, end; it != end; ++it) h.scopes.insert(it->str());
    }
  }
  return all;
}

bool is_in(std::vector<header> const& all, std::string const& name) {
  auto const colons = name.find("::");
  auto const scope = colons == std::string::npos ? "outbox" : name.substr(0, colons);
  auto const word = colons == std::string::npos ? name : name.substr(colons + 2);
  return std::ranges::any_of(all, [&](header const& h) { return h.scopes.contains(scope) && h.words.contains(word); });
}

// The second column has names of this library: `poll.every` is an option, the others are in the headers.
TEST(Docs, OurNamesBesideThoseOfTheSpecificationsExist) {
  std::set<std::string> options;
  for (auto const& line : lines_of(root() / "docs/reference/options.md")) {
    if (line.starts_with("| `")) options.insert(backticked(line).front());
  }
  auto const all = headers();
  int checked = 0;
  for (auto const& line : lines_of(root() / "docs/reference/names-in-the-specifications.md")) {
    if (!line.starts_with("| ") || line.starts_with("| there")) continue;
    auto const second = line.substr(line.find(" | ") + 3);
    auto const cell = second.substr(0, second.find(" | "));
    EXPECT_TRUE(cell == "–" || !backticked(cell).empty()) << line;
    for (auto name : backticked(cell)) {
      ++checked;
      if (name.ends_with("()")) name.resize(name.size() - 2);
      bool const option = name.find('.') != std::string::npos;
      EXPECT_TRUE(option ? options.contains(name) : is_in(all, name)) << name;
    }
  }
  EXPECT_GT(checked, 100);
}

// The third column has names of this library, the fourth names of the tables: a glossary must not outlive what it
// explains.
TEST(Docs, NamesInTheGlossaryExist) {
  std::set<std::string> code;
  std::set<std::string> tables;
  std::regex const word{"[A-Za-z_][A-Za-z0-9_]*"};
  auto const read = [&](std::set<std::string>& into, std::string const& directory, strings const& extensions) {
    for (auto const& file : files_below(root() / directory, extensions)) {
      for (auto const& line : lines_of(file)) {
        for (std::sregex_iterator it{line.begin(), line.end(), word}, end; it != end; ++it) into.insert(it->str());
      }
    }
  };
  read(code, "include", {".hpp"});
  read(code, "src", {".hpp"});
  read(tables, "schema", {".sql"});
  tables.insert({"status", "pauses", "NULL"});
  int checked = 0;
  for (auto const& line : lines_of(root() / "docs/explanation/glossary.md")) {
    if (!line.starts_with("| ") || line.starts_with("| Term") || std::ranges::count(line, '|') != 5) continue;
    auto const third = line.find(" | ", line.find(" | ") + 3) + 3;
    auto const fourth = line.find(" | ", third);
    ASSERT_NE(fourth, std::string::npos) << line;
    for (auto const& [text, known] :
         {std::pair{line.substr(third, fourth - third), &code}, std::pair{line.substr(fourth), &tables}}) {
      for (auto const& name : backticked(text)) {
        for (std::sregex_iterator it{name.begin(), name.end(), word}, end; it != end; ++it, ++checked) {
          EXPECT_TRUE(known->contains(it->str())) << it->str() << " in: " << line;
        }
      }
    }
  }
  EXPECT_GT(checked, 60);
}

TEST(Docs, TheMapOfFilesIsComplete) {
  std::map<std::string, std::set<std::string>> there;
  for (auto const& file : files_below(root() / "src", {".cpp", ".hpp", ".in"})) {
    there[shown(file.parent_path()) + "/"].insert(file.filename().string());
  }
  std::map<std::string, std::set<std::string>> on_the_page;
  std::string folder;
  for (auto const& line : lines_of(root() / "docs/explanation/architecture.md")) {
    if (line.starts_with("#")) folder = line.starts_with("### `src/") ? backticked(line).front() : std::string{};
    if (folder.empty() || !line.starts_with("| `")) continue;
    for (auto const& name : backticked(line.substr(0, line.find(" | ")))) on_the_page[folder].insert(name);
  }
  EXPECT_EQ(on_the_page, there);
}

TEST(Docs, HeadersForUsersDoNotIncludeThoseForAuthorsOfStores) {
  for (auto const& entry : fs::directory_iterator{root() / "include/outbox"}) {
    if (entry.path().extension() != ".hpp" || entry.path().filename() == "testing.hpp") continue;
    for (auto const& line : lines_of(entry.path())) {
      EXPECT_FALSE(line.starts_with("#include <outbox/spi/")) << shown(entry.path()) << ": " << line;
    }
  }
}

// What the page on the architecture says about the rooms of core.
TEST(Docs, RoomsOfCoreDependOnEachOtherInOneDirection) {
  strings const rooms{"base", "events", "listeners", "engine", "node"};
  auto const level = [&](std::string const& room) { return std::ranges::find(rooms, room) - rooms.begin(); };
  std::regex const include{R"re(#include "core/(\w+)/([^"]+)")re"};
  int checked = 0;
  for (auto const& file : files_below(root() / "src/core", {".cpp", ".hpp"})) {
    for (auto const& line : lines_of(file)) {
      std::smatch match;
      if (!std::regex_search(line, match, include)) continue;
      ++checked;
      if (match[2] == "settings.hpp") continue;
      EXPECT_LE(level(match[1]), level(file.parent_path().filename().string())) << shown(file) << ": " << line;
    }
  }
  EXPECT_GT(checked, 30);
}

TEST(Docs, EveryKeyOfAConfigurationIsOnItsPage) {
  strings names, types, defaults;
  for (auto const& k : outbox::all_config_keys()) {
    names.push_back(k.name);
    types.push_back(k.type);
    defaults.push_back(k.standard.empty() ? "" : "`" + k.standard + "`");
  }
  auto const rows = rows_of("reference/configuration.md", "Keys");
  EXPECT_EQ(column(rows, 0), names);
  EXPECT_EQ(column(rows, 1), types);
  EXPECT_EQ(column(rows, 2), defaults);
}

// The help texts of the verbs are golden files, which another test compares with the tool.
TEST(Docs, EveryVerbOfTheToolIsOnItsPage) {
  std::set<std::string> verbs, on_the_page;
  for (auto const& file : files_below(root() / "tests/fault/tool/golden/help", {".txt"})) {
    if (file.stem() != "outbox") verbs.insert(file.stem().string());
  }
  ASSERT_GT(verbs.size(), 10U);
  std::string section;
  for (auto const& line : lines_of(root() / "docs/reference/tool.md")) {
    if (line.starts_with("## ")) section = line;
    if (section != "## Verbs" || !line.starts_with("| `")) continue;
    for (auto const& name : backticked(line.substr(0, line.find(" | ")))) on_the_page.insert(name);
  }
  EXPECT_EQ(on_the_page, verbs);
}

// A check is made with the list that it adds to, its code and its reason.
TEST(Docs, EveryCheckOfTheDoctorIsOnItsPage) {
  std::set<std::string> codes;
  std::regex const made{R"re(\{(?:on\.)?found,\s*"([a-z_]+)",)re"};
  for (auto const* const folder : {"src", "apps", "include/outbox/spi"}) {
    for (auto const& file : files_below(root() / folder, {".cpp", ".hpp"})) {
      std::string text;
      for (auto const& line : lines_of(file)) text += line + "\n";
      for (std::sregex_iterator at{text.begin(), text.end(), made}, end; at != end; ++at) codes.insert(at->str(1));
    }
  }
  EXPECT_GT(codes.size(), 35U);
  std::set<std::string> on_the_page;
  bool in_a_table = false;
  for (auto const& line : lines_of(root() / "docs/reference/doctor.md")) {
    if (line.starts_with("| Code |")) in_a_table = true;
    if (line.empty()) in_a_table = false;
    if (!in_a_table || !line.starts_with("| `")) continue;
    EXPECT_TRUE(on_the_page.insert(backticked(line).front()).second) << line;
  }
  EXPECT_EQ(on_the_page, codes);
}

TEST(Docs, MetricsAreComplete) {
  strings counters;
  for (auto const c : outbox::all_counters()) counters.push_back(outbox::full_name(c));
  strings gauges;
  for (auto const g : outbox::all_gauges()) gauges.push_back(outbox::full_name(g));
  EXPECT_EQ(column(rows_of("reference/metrics.md", "Counters"), 0), counters);
  EXPECT_EQ(column(rows_of("reference/metrics.md", "Gauges"), 0), gauges);
  strings histograms;
  for (auto const h : outbox::all_histograms()) histograms.push_back(outbox::full_name(h));
  EXPECT_EQ(column(rows_of("reference/metrics.md", "Histograms"), 0), histograms);
}

TEST(Docs, ErrorsAreComplete) {
  strings codes;
  strings transient;
  for (int i = 0; outbox::name(static_cast<outbox::errc>(i)) != "unknown"; ++i) {
    outbox::error const e{static_cast<outbox::errc>(i), "an error"};
    codes.emplace_back(outbox::name(e.code()));
    transient.emplace_back(e.transient() ? "yes" : "no");
  }
  auto const rows = rows_of("reference/errors.md", "Codes");
  EXPECT_EQ(column(rows, 0), codes);
  EXPECT_EQ(column(rows, 2), transient);
}

std::string text_of(fs::path const& file) {
  std::string text;
  for (auto const& line : lines_of(file)) text += line + "\n";
  return text;
}

TEST(Docs, TroubleshootingNamesEveryMetricAndEveryErrorCode) {
  auto const page = text_of(root() / "docs/how-to/troubleshooting.md");
  auto const names = [&](std::string const& name) { return page.find("`" + name + "`") != std::string::npos; };
  for (auto const c : outbox::all_counters()) EXPECT_TRUE(names(outbox::full_name(c))) << outbox::full_name(c);
  for (auto const g : outbox::all_gauges()) EXPECT_TRUE(names(outbox::full_name(g))) << outbox::full_name(g);
  for (int i = 0; outbox::name(static_cast<outbox::errc>(i)) != "unknown"; ++i) {
    std::string const code{outbox::name(static_cast<outbox::errc>(i))};
    EXPECT_TRUE(names(code)) << code;
  }
}

// What the page quotes after "Log:" and in the tables of `last_error` and `health().reason` is text of the sources.
TEST(Docs, TroubleshootingQuotesTextsThatTheLibraryWrites) {
  std::string sources;
  for (auto const& file : files_below(root() / "src", {".cpp"})) sources += text_of(file);
  sources = std::regex_replace(sources, std::regex{"\"\\s*\n\\s*\""}, "");  // adjacent literals are one text
  int checked = 0;
  bool quotes = false;
  for (auto const& line : lines_of(root() / "docs/how-to/troubleshooting.md")) {
    bool const heads = line.starts_with("| `last_error`") || line.starts_with("| `health().reason`");
    quotes = line.starts_with("|") && (quotes || heads);
    auto const log = line.find("Log");
    auto quoted = backticked(log == std::string::npos ? line : line.substr(log));
    if (heads || quoted.empty() || !(quotes || log != std::string::npos)) continue;
    if (quotes && log == std::string::npos && !line.starts_with("| `")) continue;
    ++checked;
    EXPECT_NE(sources.find(quoted.front()), std::string::npos) << quoted.front();
  }
  EXPECT_GT(checked, 12);
}

TEST(Docs, ColumnsAreThoseOfTheSchema) {
  std::regex const create{R"(CREATE TABLE (\w+) \()"};
  std::regex const definition{R"(^\s+(\w+)\s+([A-Z]+(\(\d+\))?).*)"};
  std::regex const added{R"(ALTER TABLE (\w+) ADD COLUMN (\w+)\s+([A-Z]+(\(\d+\))?).*)"};
  std::map<std::string, std::vector<strings>> tables;
  std::string table;
  auto all = lines_of(root() / "schema/sqlite/0001.sql");
  std::ranges::copy(lines_of(root() / "schema/sqlite/0002.sql"), std::back_inserter(all));
  for (auto const& line : all) {
    std::smatch match;
    if (std::regex_match(line, match, added)) {
      tables[match[1]].push_back({match[2], "`" + match[3].str() + "`"});
    } else if (std::regex_match(line, match, create)) {
      table = match[1];
    } else if (line.starts_with(")")) {
      table.clear();
    } else if (!table.empty() && std::regex_match(line, match, definition)) {
      tables[table].push_back({match[1], "`" + match[2].str() + "`"});
    }
  }
  ASSERT_EQ(tables.size(), 4U);
  for (auto const& [name, columns] : tables) {
    SCOPED_TRACE(name);
    auto const rows = rows_of("reference/table.md", name);
    EXPECT_EQ(column(rows, 0), column(columns, 0));
    EXPECT_EQ(column(rows, 1), column(columns, 1));
  }
}

// ---- reference/options.md
//
// Each struct is taken apart by a structured binding, so that a new field does not compile until it is listed here.

struct option {
  std::string field;
  std::string value;
  friend bool operator==(option const&, option const&) = default;
};
using option_list = std::vector<option>;

std::string text(bool value) { return value ? "true" : "false"; }
std::string text(outbox::done_rows value) { return value == outbox::done_rows::keep ? "keep" : "erase"; }
std::string text(std::size_t value) { return std::to_string(value); }
std::string text(std::int32_t value) { return std::to_string(value); }

// In the largest unit that leaves no rest; a single day is 24 h.
std::string text(milliseconds value) {
  struct unit {
    milliseconds length;
    char const* name;
  };
  unit const units[] = {{std::chrono::days{1}, " days"},
                        {std::chrono::hours{1}, " h"},
                        {std::chrono::minutes{1}, " min"},
                        {std::chrono::seconds{1}, " s"}};
  if (value.count() == 0) return "0";
  if (value == std::chrono::days{1}) return "24 h";
  for (auto const& u : units) {
    if (value % u.length == milliseconds{0}) return std::to_string(value / u.length) + u.name;
  }
  return std::to_string(value.count()) + " ms";
}

std::string bytes(std::size_t value) {
  constexpr std::size_t mebi = std::size_t{1} << 20;
  return value % mebi == 0 ? std::to_string(value / mebi) + " MiB" : std::to_string(value >> 10U) + " KiB";
}

// What a page says of a field that has no value.
std::string unset(bool empty, std::string const& meaning) { return empty ? meaning : "has a value"; }

std::string text(outbox::unroutable value) {
  switch (value) {
    case outbox::unroutable::dead: return "dead";
    case outbox::unroutable::defer: return "defer";
  }
  return "unknown";
}

std::string text(outbox::stop_queued value) {
  switch (value) {
    case outbox::stop_queued::deliver: return "deliver";
    case outbox::stop_queued::release: return "release";
  }
  return "unknown";
}

std::string text(outbox::log_function const& f) {
  auto const* const target = f.target<void (*)(outbox::log_line const&)>();
  return target != nullptr && *target == &outbox::log_to_stderr ? "log_to_stderr" : "another function";
}

option_list options_of(outbox::poll_options const& o) {
  auto const& [every, batch, max_batch, skip_recent, drain] = o;
  return {{"poll.every", text(every)},
          {"poll.batch", text(batch)},
          {"poll.max_batch", text(max_batch)},
          {"poll.skip_recent", text(skip_recent)},
          {"poll.drain", text(drain)}};
}

option_list options_of(outbox::queue_options const& o) {
  auto const& [hot, cold, size] = o;
  return {{"queue.hot", text(hot)}, {"queue.cold", text(cold)}, {"queue.bytes", bytes(size)}};
}

option_list options_of(outbox::lease_options const& o) {
  auto const& [duration, max_crashes] = o;
  return {{"lease.duration", text(duration)}, {"lease.max_crashes", text(max_crashes)}};
}

option_list options_of(outbox::backoff const& o) {
  auto const& [base, cap] = o;
  return {{"retry.backoff.base", text(base)}, {"retry.backoff.cap", text(cap)}};
}

option_list options_of(outbox::retry_policy const& o);
option_list options_of(outbox::event_limits const& o);

// A struct within a struct: the page links to its section, and its values must be the ones that are listed there.
template <class T>
std::string nested(T const& value, std::string const& name) {
  return options_of(value) == options_of(T{}) ? "[" + name + "](#" + name + ")" : "other values than its own";
}

option_list options_of(outbox::retry_policy const& o) {
  auto const& [max_attempts, wait, delay, jitter] = o;
  return {{"retry.max_attempts", text(max_attempts)},
          {"retry.backoff", nested(wait, "backoff")},
          {"retry.delay", unset(!delay, "the backoff")},
          {"retry.jitter", text(jitter)}};
}

option_list options_of(outbox::purge_options const& o) {
  auto const& [keep, batch, every, done, dead] = o;
  return {{"purge.keep", text(keep)},
          {"purge.batch", text(batch)},
          {"purge.every", text(every)},
          {"purge.done", text(done)},
          {"purge.dead", text(dead)}};
}

option_list options_of(outbox::age_purge_options const& o) {
  auto const& [keep, batch, every] = o;
  return {{"purge.keep", text(keep)}, {"purge.batch", text(batch)}, {"purge.every", text(every)}};
}

option_list options_of(outbox::event_limits const& o) {
  auto const& [payload_bytes, header_count, header_bytes, json_depth] = o;
  return {{"limits.payload_bytes", bytes(payload_bytes)},
          {"limits.header_count", text(header_count)},
          {"limits.header_bytes", bytes(header_bytes)},
          {"limits.json_depth", text(json_depth)}};
}

option_list options_of(outbox::event_options const& o) {
  auto const& [id, about, tenant, headers, occurred_at, available_at, deliver_after, ordering_key] = o;
  auto const& [aggregate_type, aggregate_id] = about;
  return {{"id", unset(id.empty(), "a new ULID")},
          {"aggregate.type", unset(aggregate_type.empty(), "none")},
          {"aggregate.id", unset(aggregate_id.empty(), "none")},
          {"tenant", unset(tenant.empty(), "none")},
          {"headers", unset(headers.empty(), "none")},
          {"occurred_at", unset(!occurred_at, "now")},
          {"available_at", unset(!available_at, "at once")},
          {"deliver_after", unset(!deliver_after, "at once")},
          {"ordering_key", unset(ordering_key.empty(), "the aggregate")}};
}

option_list options_of(outbox::well_known_headers const& o) {
  auto const& [topic, schema_version] = o;
  return {{"topic", unset(!topic, "none")}, {"schema_version", unset(!schema_version, "none")}};
}

option_list options_of(outbox::route_options const& o) {
  auto const& [name, timeout, retry, max_in_flight, max_batch, keeps_order] = o;
  return {{"name", unset(name.empty(), "the event type")},
          {"timeout", unset(!timeout, "the node's `listener_timeout`")},
          {"retry", unset(!retry, "the node's `retry`")},
          {"max_in_flight", unset(!max_in_flight, "no limit")},
          {"max_batch", unset(!max_batch, "100 for `on_batch`")},
          {"keeps_order", text(keeps_order)}};
}

option_list options_of(outbox::node_options const& o) {
  auto const& [store, listeners, workers, name, poll, retry, queue, lease, listener_timeout, hot_path, unroutable,
               limits, stop_timeout, stop_queued, log, metrics, clock, purge, hook, interceptors] = o;
  return {{"store", unset(!store, "none")},
          {"listeners", "none"},
          {"workers", text(workers)},
          {"name", unset(name.empty(), "the host name")},
          {"poll", nested(poll, "poll_options")},
          {"retry", nested(retry, "retry_policy")},
          {"queue", nested(queue, "queue_options")},
          {"lease", nested(lease, "lease_options")},
          {"listener_timeout", text(listener_timeout)},
          {"hot_path", text(hot_path)},
          {"unroutable", text(unroutable)},
          {"limits", nested(limits, "event_limits")},
          {"stop_timeout", text(stop_timeout)},
          {"stop_queued", text(stop_queued)},
          {"log", text(log)},
          {"metrics", unset(!metrics, "none")},
          {"clock", unset(!clock, "the machine's clock")},
          {"purge", unset(!purge, "nothing is purged")},
          {"hook", unset(!hook, "none")},
          {"interceptors", unset(interceptors.empty(), "none")}};
}

option_list options_of(outbox::ordered_options const& o) {
  auto const& [store, listeners, name, poll, lease, listener_timeout, unroutable, limits, stop_timeout, stop_queued,
               log, metrics, clock, purge, hook, interceptors] = o;
  return {{"store", unset(!store, "none")},
          {"listeners", "none"},
          {"name", unset(name.empty(), "the host name")},
          {"poll", nested(poll, "poll_options")},
          {"lease", nested(lease, "lease_options")},
          {"listener_timeout", text(listener_timeout)},
          {"unroutable", text(unroutable)},
          {"limits", nested(limits, "event_limits")},
          {"stop_timeout", text(stop_timeout)},
          {"stop_queued", text(stop_queued)},
          {"log", text(log)},
          {"metrics", unset(!metrics, "none")},
          {"clock", unset(!clock, "the machine's clock")},
          {"purge", unset(!purge, "nothing is purged")},
          {"hook", unset(!hook, "none")},
          {"interceptors", unset(interceptors.empty(), "none")}};
}

option_list options_of(outbox::keyed_options const& o) {
  auto const& [store, listeners, workers, name, poll, retry, queue, lease, on_dead, listener_timeout, hot_path,
               unroutable, limits, stop_timeout, stop_queued, log, metrics, clock, purge, hook, interceptors] = o;
  return {{"store", unset(!store, "none")},
          {"listeners", "none"},
          {"workers", text(workers)},
          {"name", unset(name.empty(), "the host name")},
          {"poll", nested(poll, "poll_options")},
          {"retry", nested(retry, "retry_policy")},
          {"queue", nested(queue, "queue_options")},
          {"lease", nested(lease, "lease_options")},
          {"on_dead", on_dead == outbox::on_dead::park ? "park" : "skip"},
          {"listener_timeout", text(listener_timeout)},
          {"hot_path", text(hot_path)},
          {"unroutable", text(unroutable)},
          {"limits", nested(limits, "event_limits")},
          {"stop_timeout", text(stop_timeout)},
          {"stop_queued", text(stop_queued)},
          {"log", text(log)},
          {"metrics", unset(!metrics, "none")},
          {"clock", unset(!clock, "the machine's clock")},
          {"purge", unset(!purge, "nothing is purged")},
          {"hook", unset(!hook, "none")},
          {"interceptors", unset(interceptors.empty(), "none")}};
}

option_list options_of(outbox::writer_only_options const& o) {
  auto const& [store, limits, hook, purge, log, clock] = o;
  return {{"store", unset(!store, "none")},
          {"limits", nested(limits, "event_limits")},
          {"hook", unset(!hook, "none")},
          {"purge", unset(!purge, "nothing is purged")},
          {"log", text(log)},
          {"clock", unset(!clock, "the machine's clock")}};
}

option_list options_of(outbox::sqlite::options const& o) {
  auto const& [table, busy_timeout, migrate, keyed, clock, log, done_rows, synchronous, connect, layout, read_only,
               read_timeout] = o;
  return {{"table", table},
          {"busy_timeout", text(busy_timeout)},
          {"migrate", text(migrate)},
          {"keyed", text(keyed)},
          {"clock", unset(!clock, "the machine's clock")},
          {"log", text(log)},
          {"done_rows", text(done_rows)},
          {"synchronous", synchronous == outbox::sqlite::synchronous::full ? "full" : "normal"},
          {"connect", unset(!connect, "none")},
          {"layout", unset(!layout, "none")},
          {"read_only", text(read_only)},
          {"read_timeout", text(read_timeout)}};
}

option_list options_of(outbox::postgres::options const& o) {
  auto const& [table, schema, connections, timeout, migrate, adopt_jsonb, ordered, keyed, notify, log, done_rows,
               connect, layout, read_only] = o;
  return {{"table", table},
          {"schema", unset(schema.empty(), "the current schema")},
          {"connections", text(connections)},
          {"timeout", text(timeout)},
          {"migrate", text(migrate)},
          {"adopt_jsonb", adopt_jsonb == outbox::postgres::jsonb::convert ? "convert" : "keep"},
          {"ordered", text(ordered)},
          {"keyed", text(keyed)},
          {"notify", text(notify)},
          {"log", text(log)},
          {"done_rows", text(done_rows)},
          {"connect", unset(!connect, "none")},
          {"layout", unset(!layout, "none")},
          {"read_only", text(read_only)}};
}

option_list options_of(outbox::mysql::options const& o) {
  auto const& [table, database, connections, timeout, migrate, keyed, adopt_json, log, done_rows, flavour, connect,
               layout, read_only] = o;
  return {{"table", table},
          {"database", unset(database.empty(), "that of the connection")},
          {"connections", text(connections)},
          {"timeout", text(timeout)},
          {"migrate", text(migrate)},
          {"keyed", text(keyed)},
          {"adopt_json", adopt_json == outbox::mysql::json_columns::convert ? "convert" : "keep"},
          {"log", text(log)},
          {"done_rows", text(done_rows)},
          {"flavour", flavour == outbox::mysql::flavour::detect ? "detect" : "another"},
          {"connect", unset(!connect, "none")},
          {"layout", unset(!layout, "none")},
          {"read_only", text(read_only)}};
}

option_list options_of(outbox::redis::options const& o) {
  auto const& [name, connections, timeout, migrate, done_rows, notify, replicas, log, read_only, clock] = o;
  return {{"name", name},
          {"connections", text(connections)},
          {"timeout", text(timeout)},
          {"migrate", text(migrate)},
          {"done_rows", text(done_rows)},
          {"notify", text(notify)},
          {"replicas", text(replicas)},
          {"log", text(log)},
          {"read_only", text(read_only)},
          {"clock", unset(!clock, "the machine's clock")}};
}

option_list options_of(outbox::memory::options const& o) {
  auto const& [clock, done_rows, at_commit, dispatch_lock, requires_transaction] = o;
  return {{"clock", unset(!clock, "the machine's clock")},
          {"done_rows", text(done_rows)},
          {"at_commit", unset(!at_commit, "ok")},
          {"dispatch_lock", unset(dispatch_lock == outbox::lock_kind::session, "session")},
          {"requires_transaction", text(requires_transaction)}};
}

template <class Options>
void expect_section(std::string const& section, std::string const& page = "reference/options.md") {
  SCOPED_TRACE(section);
  auto const rows = rows_of(page, section);
  strings fields;
  strings values;
  for (auto const& [field, value] : options_of(Options{})) {
    fields.push_back(field);
    values.push_back(value);
  }
  EXPECT_EQ(column(rows, 0), fields);
  EXPECT_EQ(column(rows, 1), values);
}

TEST(Docs, OptionsAreCompleteAndHaveTheDefaultsOfTheHeaders) {
  expect_section<outbox::node_options>("node_options");
  expect_section<outbox::ordered_options>("ordered_options");
  expect_section<outbox::keyed_options>("keyed_options");
  expect_section<outbox::writer_only_options>("writer_only_options");
  expect_section<outbox::poll_options>("poll_options");
  expect_section<outbox::queue_options>("queue_options");
  expect_section<outbox::lease_options>("lease_options");
  expect_section<outbox::retry_policy>("retry_policy");
  expect_section<outbox::backoff>("backoff");
  expect_section<outbox::purge_options>("purge_options");
  expect_section<outbox::age_purge_options>("age_purge_options");
  expect_section<outbox::event_limits>("event_limits");
  expect_section<outbox::event_options>("event_options");
  expect_section<outbox::well_known_headers>("well_known_headers");
  expect_section<outbox::route_options>("route_options");
  expect_section<outbox::sqlite::options>("sqlite::options");
  expect_section<outbox::postgres::options>("Options", "reference/postgres.md");
  expect_section<outbox::mysql::options>("Options", "reference/mysql.md");
  expect_section<outbox::redis::options>("Options", "reference/redis.md");
  expect_section<outbox::memory::options>("memory::options");
}

}  // namespace

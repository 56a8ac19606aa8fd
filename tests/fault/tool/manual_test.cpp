// Manual pages through the programs that typeset them: every page of every verb, without a warning.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fault/tool/run_program.hpp"
#include "fault/tool/run_tool.hpp"

namespace outbox {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

class Manual : public ::testing::Test {
 protected:
  void SetUp() override {
    for (auto const* const program : {"scdoc", "groff", "man"}) {
      if (!is_installed(program)) GTEST_SKIP() << program << " is not installed";
    }
  }
  static std::vector<std::string> pages() { return lines_of(run_tool({"manual", "--list"}).out); }

  // A page as scdoc; "outbox" is the first one.
  static tool_result source_of(std::string const& page) {
    return page == "outbox" ? run_tool({"manual"}) : run_tool({"manual", page.substr(page.find('-') + 1)});
  }

  // A page as roff, in a file.
  [[nodiscard]] std::string typeset(std::string const& page) const {
    auto const source = source_of(page);
    EXPECT_EQ(source.status, 0) << page << source.err;
    std::ofstream{dir_ / (page + ".scd")} << source.out;
    auto const r = run_program("scdoc >" + shell_word(dir_ / (page + ".1")), dir_ / (page + ".scd"));
    EXPECT_EQ(r.status, 0) << page;
    EXPECT_EQ(r.out, "") << page;
    return dir_ / (page + ".1");
  }

  // A page as a person reads it, lines joined by one space.
  [[nodiscard]] std::string read(std::string const& page) const {
    auto const r =
        run_program("MANWIDTH=10000 MAN_KEEP_FORMATTING= LC_ALL=C.UTF-8 man -l -P cat " + shell_word(typeset(page)));
    EXPECT_EQ(r.status, 0);
    return r.out;
  }
  temporary_directory dir_;
};

TEST_F(Manual, EveryVerbOfTheHelpHasAPage) {
  auto const help = run_tool({"--help"}).out;
  auto const list = pages();
  ASSERT_GE(list.size(), 19U);
  EXPECT_EQ(list.front(), "outbox");
  for (auto const& page : list) {
    if (page == "outbox") continue;
    EXPECT_THAT(help, HasSubstr("\n  " + page.substr(page.find('-') + 1) + " ")) << page;
  }
  auto verbs = help.substr(help.find("Verbs:\n") + 7);
  verbs = verbs.substr(0, verbs.find("\n\n"));
  for (auto const& line : lines_of(verbs)) {
    if (line[2] == ' ') continue;  // the rest of a summary
    EXPECT_THAT(list, Contains("outbox-" + line.substr(2, line.find(' ', 2) - 2)));
  }
}

TEST_F(Manual, EveryPageIsTypesetWithoutAWarning) {
  for (auto const& page : pages()) {
    auto const r = run_program("groff -man -ww -z -Kutf8 -Tutf8 " + shell_word(typeset(page)));
    EXPECT_EQ(r.status, 0) << page;
    EXPECT_EQ(r.out, "") << page;
  }
}

TEST_F(Manual, EveryPageHasANameThatAproposFinds) {
  for (auto const& page : pages()) {
    auto const r = run_program("lexgrog " + shell_word(typeset(page)));
    EXPECT_THAT(r.out, HasSubstr(": \"" + page + " - ")) << page;
  }
}

// What help says stands on the page too, character for character: nothing was taken for markup.
TEST_F(Manual, APageSaysWhatHelpSays) {
  for (auto const& page : pages()) {
    if (page == "outbox") continue;
    auto const text = read(page);
    auto const verb = page.substr(page.find('-') + 1);
    for (auto const& line : lines_of(run_tool({verb, "--help"}).out)) {
      if (line.starts_with("  outbox ")) EXPECT_THAT(text, HasSubstr(line.substr(2) + "\n")) << page;
      if (!line.starts_with("  -")) continue;
      auto const option = line.substr(2, line.find("  ", 2) - 2);
      EXPECT_THAT(text, HasSubstr(" " + option + "\n")) << page;
    }
    EXPECT_THAT(text, Not(HasSubstr("`"))) << page;
    EXPECT_THAT(text, Not(HasSubstr("*"))) << page;
  }
}

TEST_F(Manual, ThePageOfAVerbTellsArgumentsAndStatuses) {
  auto const migrate = read("outbox-migrate");
  EXPECT_THAT(migrate, HasSubstr("       outbox migrate [up|status] [options]\n"));
  EXPECT_THAT(migrate, HasSubstr("       up creates the table and its companions"));
  EXPECT_THAT(migrate, HasSubstr("       5\n           status: it is not\n"));
  EXPECT_THAT(read("outbox-relay"), HasSubstr("       --config FILE\n"));
  EXPECT_THAT(read("outbox-show"), HasSubstr("are shown as \\u{202e}: what"));
}

TEST_F(Manual, TheFirstPageNamesVerbsVariablesAndStatuses) {
  auto const text = read("outbox");
  for (auto const& page : pages()) {
    if (page != "outbox") EXPECT_THAT(text, HasSubstr(page + "(1)"));
  }
  EXPECT_THAT(text, HasSubstr("       OUTBOX_STORE__URL\n           store.url of the configuration"));
  EXPECT_THAT(text, HasSubstr("       130\n           interrupted\n"));
}

TEST_F(Manual, AnUnknownVerbHasNoPage) {
  auto const r = run_tool({"manual", "nonsense"});
  EXPECT_EQ(r.status, 2);
  EXPECT_EQ(r.out, "");
  EXPECT_THAT(r.err, HasSubstr("there is no verb 'nonsense'"));
}

// The build and the packages take completions and pages from this.
TEST_F(Manual, TheBuildWritesAPageForEachVerbAndTheSameEachTime) {
  auto const write = [](std::string const& to, std::string const& rest) {
    return run_program(shell_word(OUTBOX_WRITE_MANUAL) + " " + shell_word(OUTBOX_TOOL) + " " + shell_word(to) + " " +
                       rest);
  };
  ASSERT_EQ(write(dir_ / "a", "scdoc").out, "");
  ASSERT_EQ(write(dir_ / "b", "scdoc").out, "");
  EXPECT_EQ(run_program("diff -r " + shell_word(dir_ / "a") + " " + shell_word(dir_ / "b")).out, "");
  for (auto const& page : pages()) {
    EXPECT_THAT(run_program("zcat " + shell_word(dir_ / ("a/man1/" + page + ".1.gz"))).out,
                HasSubstr("\n" + page + " - "));
  }
  EXPECT_EQ(lines_of(run_program("ls " + shell_word(dir_ / "a/man1")).out).size(), pages().size());
  ASSERT_EQ(write(dir_ / "a", "").out, "");
  EXPECT_EQ(run_program("ls " + shell_word(dir_ / "a/man1")).out, "") << "no scdoc: no pages, also none of before";
}

}  // namespace
}  // namespace outbox

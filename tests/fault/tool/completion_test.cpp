// Completions in the shells that they are for: each is asked what it would offer for a command line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "fault/tool/run_program.hpp"
#include "fault/tool/run_tool.hpp"

namespace outbox {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::UnorderedElementsAre;
using words = std::vector<std::string>;

// The verbs of this build: each has a page in the manual.
words verbs() {
  words all;
  for (auto const& page : lines_of(run_tool({"manual", "--list"}).out)) {
    if (page != "outbox") all.push_back(page.substr(page.find('-') + 1));
  }
  return all;
}

// The long options that help shows.
words options_of(std::string const& verb) {
  words all;
  for (auto const& line : lines_of(run_tool({verb, "--help"}).out)) {
    auto const dashes = line.find("--");
    if (!line.starts_with("  -") || dashes == std::string::npos) continue;
    all.push_back(line.substr(dashes, line.find_first_of(" ,", dashes) - dashes));
  }
  return all;
}

std::string command_line(words const& given) {
  std::string line;
  for (auto const& w : given) line += (line.empty() ? "" : " ") + w;
  return line;
}

class bash_shell {
 public:
  static constexpr char const* name = "bash";

  static words offers(words const& given, std::string const& script) {
    std::string command =
        "bash --norc -c 'source \"$0\"; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); _outbox; "
        "((${#COMPREPLY[@]} == 0)) || printf \"%s\\n\" \"${COMPREPLY[@]}\"' " +
        shell_word(script);
    for (auto const& w : given) command += " " + shell_word(w);
    return lines_of(run_program(command).out);
  }
};

// On a terminal: a widget completes only there. What it adds as matches is written to a file.
class zsh_shell {
 public:
  static constexpr char const* name = "zsh";

  static words offers(words const& given, std::string const& script) {
    temporary_directory const dir;
    std::filesystem::copy_file(script, dir / "_outbox");
    std::ofstream{dir / ".zshrc"} << "fpath=(" << dir.string() << " $fpath)\n"
                                  << R"(autoload -Uz compinit; compinit -u -D
compadd() {
  builtin compadd "$@"
  local result=$?
  [[ " ${@[1,(i)(-|--)]} " == *' -'[OAD]' '* ]] && return $result
  local -a found
  builtin compadd -A found "$@"
  print -rl -- $found >>$ZDOTDIR/offers
  return $result
}
PS1='ready> '
)";
    std::string const erase_line = "\x15";
    auto const keys = command_line(given) + "\t" + erase_line + "exit\n";
    EXPECT_TRUE(type_into({"env", "TERM=dumb", "ZDOTDIR=" + dir.string(), "zsh", "-d", "-i"}, "ready> ", keys));
    std::ifstream in{dir / "offers"};
    auto offers = lines_of({std::istreambuf_iterator<char>{in}, {}});
    std::erase(offers, "");
    std::ranges::sort(offers);
    offers.erase(std::ranges::unique(offers).begin(), offers.end());
    return offers;
  }
};

class fish_shell {
 public:
  static constexpr char const* name = "fish";

  static words offers(words const& given, std::string const& script) {
    temporary_directory const home;
    auto offers =
        lines_of(run_program("HOME=" + shell_word(home.string()) + " fish --no-config -c 'source $argv[1]; " +
                             "complete -C $argv[2]' " + shell_word(script) + " " + shell_word(command_line(given)))
                     .out);
    for (auto& o : offers) o = o.substr(0, o.find('\t'));
    return offers;
  }
};

template <class Shell>
class Completion : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!is_installed(Shell::name)) GTEST_SKIP() << Shell::name << " is not installed";
    std::ofstream{script()} << run_tool({"completion", Shell::name}).out;
  }
  [[nodiscard]] std::string script() const { return dir_ / "script"; }

  // What the shell offers for the last of these words.
  [[nodiscard]] words offers(words given) const {
    given.insert(given.begin(), "outbox");
    return Shell::offers(given, script());
  }
  temporary_directory dir_;
};

struct name_of_shell {
  template <class Shell>
  static std::string GetName(int /*index*/) {
    return Shell::name;
  }
};

using shells = ::testing::Types<bash_shell, zsh_shell, fish_shell>;
TYPED_TEST_SUITE(Completion, shells, name_of_shell);

TYPED_TEST(Completion, TheShellFindsNoMistakeInTheScript) {
  auto const r = run_program(std::string{TypeParam::name} + " -n " + shell_word(this->script()));
  EXPECT_EQ(r.status, 0);
  EXPECT_EQ(r.out, "");
}

TYPED_TEST(Completion, EveryVerbIsOffered) {
  auto const all = verbs();
  ASSERT_GE(all.size(), 18U);
  EXPECT_THAT(this->offers({""}), IsSupersetOf(all));
  EXPECT_THAT(this->offers({"sta"}), ElementsAre("status"));
  EXPECT_THAT(this->offers({"--ver"}), ElementsAre("--version"));
  EXPECT_THAT(this->offers({"no-such-verb", "--"}), IsEmpty());
}

TYPED_TEST(Completion, EveryOptionOfAVerbIsOfferedAndNoOther) {
  for (std::string const verb : {"status", "list", "replay", "relay", "check-config", "migrate", "completion"}) {
    auto wanted = options_of(verb);
    ASSERT_THAT(wanted, Contains("--help")) << verb;
    auto offered = this->offers({verb, "--"});
    std::ranges::sort(wanted);
    std::ranges::sort(offered);
    EXPECT_EQ(offered, wanted) << verb;
  }
  EXPECT_THAT(this->offers({"status", "--max-l"}), ElementsAre("--max-lag"));
}

TYPED_TEST(Completion, StatesAreOffered) {
  EXPECT_THAT(this->offers({"list", "--state", ""}), UnorderedElementsAre("new", "retry", "pending", "done", "dead"));
  EXPECT_THAT(this->offers({"list", "--json", "--state", "de"}), ElementsAre("dead"));
}

TYPED_TEST(Completion, ArgumentsThatAreKnownAreOffered) {
  EXPECT_THAT(this->offers({"migrate", "st"}), ElementsAre("status"));
  EXPECT_THAT(this->offers({"completion", "f"}), ElementsAre("fish"));
  EXPECT_THAT(this->offers({"grants", "o"}), UnorderedElementsAre("operator", "owner"));
  EXPECT_THAT(this->offers({"manual", "check"}), ElementsAre("check-config"));
}

TYPED_TEST(Completion, AFileIsOfferedWhereOneIsMeant) {
  temporary_directory const dir;
  std::ofstream{dir / "relay.toml"} << "";
  auto const begin = dir / "rel";
  auto const is_offered = [&](words const& given) {
    auto const all = this->offers(given);
    return std::ranges::any_of(all, [](auto const& o) { return o.ends_with("relay.toml"); });
  };
  EXPECT_TRUE(is_offered({"status", "--config", begin}));
  EXPECT_TRUE(is_offered({"relay", "--config", begin}));
  EXPECT_TRUE(is_offered({"check-config", begin}));
  EXPECT_FALSE(is_offered({"status", "--max-lag", begin}));
  EXPECT_FALSE(is_offered({"show", begin}));
}

TYPED_TEST(Completion, NothingIsOfferedForAValueThatIsNotKnown) {
  EXPECT_THAT(this->offers({"list", "--limit", ""}), IsEmpty());
  EXPECT_THAT(this->offers({"list", "-n", ""}), IsEmpty());
  EXPECT_THAT(this->offers({"replay", "--reason", "st"}), IsEmpty());
}

// The name of a verb after another verb is only a word.
TYPED_TEST(Completion, OnlyTheFirstWordIsTheVerb) {
  EXPECT_THAT(this->offers({"manual", "status", "--"}), Not(Contains("--max-lag")));
  EXPECT_THAT(this->offers({"show", "list", "--"}), Not(Contains("--state")));
}

class CompletionInBash : public Completion<bash_shell> {};

TEST_F(CompletionInBash, AnEqualsSignDividesAnOptionFromItsValue) {
  EXPECT_THAT(offers({"list", "--state", "=", "de"}), ElementsAre("dead"));
  EXPECT_THAT(offers({"list", "--state", "="}), Contains("retry"));
}

TEST_F(CompletionInBash, TheLastStateOfAListIsCompleted) {
  EXPECT_THAT(offers({"list", "--state", "done,de"}), ElementsAre("done,dead"));
}

TEST_F(CompletionInBash, AFileWithASpaceIsOneFile) {
  temporary_directory const dir;
  std::ofstream{dir / "my relay.toml"} << "";
  EXPECT_THAT(offers({"relay", "--config", dir / "my"}), ElementsAre(dir / "my relay.toml"));
}

TEST_F(CompletionInBash, AnOutputMayGoToAFile) {
  temporary_directory const dir;
  std::ofstream{dir / "payload"} << "";
  EXPECT_THAT(offers({"show", "ID", "--payload", ">", dir / "pay"}), ElementsAre(dir / "payload"));
}

TEST_F(CompletionInBash, ItIsRegisteredForTheTool) {
  EXPECT_EQ(run_program("bash --norc -c 'source \"$0\"; complete -p outbox' " + shell_word(script())).out,
            "complete -F _outbox outbox\n");
}

TEST_F(CompletionInBash, AnUnknownShellIsRefused) {
  auto const r = run_tool({"completion", "csh"});
  EXPECT_EQ(r.status, 2);
  EXPECT_EQ(r.out, "");
}

}  // namespace
}  // namespace outbox

// How the tool behaves towards people and scripts: outputs, colours, secrets, exit codes, wrong command lines.
#include <sys/ioctl.h>

#include <pty.h>

#include "fault/tool/verb_fixture.hpp"
#include "support/free_port.hpp"

namespace outbox {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

class Manners : public verb_fixture<tool_on_sqlite> {
 protected:
  // Runs the tool on a terminal, as a person would, and types. Returns what the terminal showed.
  std::string on_a_terminal(std::vector<std::string> arguments, std::string const& typed,
                            std::vector<std::string> const& environment = {}) {
    arguments.insert(arguments.begin(), OUTBOX_TOOL);
    std::vector<char*> argv;
    for (auto& a : arguments) argv.push_back(a.data());
    argv.push_back(nullptr);
    ::winsize const size{.ws_row = 50, .ws_col = 120, .ws_xpixel = 0, .ws_ypixel = 0};
    int terminal = -1;
    auto const pid = ::forkpty(&terminal, nullptr, nullptr, &size);
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::setenv("TERM", "xterm-256color", 1);
      ::unsetenv("NO_COLOR");
      for (auto const& e : environment) ::putenv(const_cast<char*>(e.c_str()));
      ::execv(argv[0], argv.data());
      ::_exit(127);
    }
    std::string shown;
    char some[4096];
    bool answered = typed.empty();
    for (::ssize_t n = 0; (n = ::read(terminal, some, sizeof some)) > 0;) {
      shown.append(some, static_cast<std::size_t>(n));
      if (!answered && shown.find("[y/N] ") != std::string::npos) {
        answered = ::write(terminal, typed.data(), typed.size()) > 0;
      }
    }
    ::close(terminal);
    int status = 0;
    ::waitpid(pid, &status, 0);
    status_ = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return shown;
  }
  int status_ = -1;
};

TEST_F(Manners, DataGoesToStandardOutputAndTalkToStandardError) {
  static_cast<void>(store());
  auto const r = run("list");
  EXPECT_EQ(r.out, "");
  EXPECT_EQ(r.err, "No event matches.\n");
  EXPECT_EQ(run("list", {"-q"}).err, "");
  EXPECT_EQ(run("list", {"--json"}).out, "[]\n");
}

TEST_F(Manners, APipeGetsTabsAndNoColours) {
  put("a", "t");
  auto const r = run("list");
  EXPECT_THAT(r.out, StartsWith("a\tt\t\tNEW\t0\t"));
  EXPECT_THAT(r.out, Not(HasSubstr("\033")));
  EXPECT_THAT(run("list", {"--pretty"}).out, Not(HasSubstr("\033"))) << "not on a terminal either";
}

TEST_F(Manners, ATerminalGetsTablesInColourUnlessItIsAskedNotTo) {
  put("a", "t");
  settle("a", spi::outcome::dead, "no");
  EXPECT_THAT(on_a_terminal({"list", "--db", db.url()}, ""), HasSubstr("\033[31mDEAD"));
  EXPECT_THAT(on_a_terminal({"list", "--db", db.url(), "--no-color"}, ""), Not(HasSubstr("\033[")));
  EXPECT_THAT(on_a_terminal({"list", "--db", db.url()}, "", {"NO_COLOR=1"}), Not(HasSubstr("\033[")));
  EXPECT_THAT(on_a_terminal({"list", "--db", db.url()}, "", {"TERM=dumb"}), Not(HasSubstr("\033[")));
  EXPECT_THAT(on_a_terminal({"list", "--db", db.url(), "--json"}, ""), Not(HasSubstr("\033[")));
}

TEST_F(Manners, ABulkVerbAsksOnATerminal) {
  put("a", "t");
  settle("a", spi::outcome::dead, "no");
  auto const refused = on_a_terminal({"replay", "--all", "--db", db.url()}, "n\n");
  EXPECT_THAT(refused, HasSubstr("Replay 1 event in sqlite:"));
  EXPECT_THAT(refused, HasSubstr("nothing was changed"));
  EXPECT_EQ(status_, 1);
  EXPECT_EQ(status_of("a"), event_status::dead);
  EXPECT_THAT(on_a_terminal({"replay", "--all", "--db", db.url()}, "y\n"), HasSubstr("1 event was replayed."));
  EXPECT_EQ(status_, 0);
  EXPECT_EQ(status_of("a"), event_status::created);
}

TEST_F(Manners, WatchDrawsAgainUntilItIsInterrupted) {
  static_cast<void>(store());
  running_tool watch{{"status", "--db", db.url(), "--watch", "--every", "20ms", "--json"}};
  ASSERT_TRUE(eventually([&] { return std::ranges::count(watch.out(), '\n') >= 3; })) << watch.err();
  put("a", "t");
  ASSERT_TRUE(eventually([&] { return watch.out().find("\"pending\":1") != std::string::npos; }));
  watch.signal(SIGTERM);
  EXPECT_EQ(watch.wait().status, 1) << "the last verdict";
}

TEST_F(Manners, TheDatabaseMayComeFromTheEnvironmentOrAConfiguration) {
  put("a", "t");
  EXPECT_THAT(run_tool({"list"}, {"OUTBOX_DB=" + db.url()}).out, StartsWith("a\t"));
  temporary_directory const dir;
  auto const file = dir / "relay.toml";
  std::ofstream{file} << "mode = \"multi_node\"\n[store]\nurl = \"" << db.url()
                      << "\"\n[sinks.out]\ntype = \"json_lines\"\npath = \"/dev/null\"\n[[routes]]\nevent_type = "
                         "\"*\"\nsink = \"out\"\n";
  EXPECT_THAT(run_tool({"list", "--config", file}).out, StartsWith("a\t"));
  EXPECT_THAT(run_tool({"list"}, {"OUTBOX_CONFIG=" + file}).out, StartsWith("a\t"));
  EXPECT_EQ(run_tool({"list", "--config", file, "--db", db.url()}).status, 2);
  EXPECT_EQ(run_tool({"list", "--config", dir / "none.toml"}).status, 2);
}

TEST_F(Manners, OneOfSeveralTablesIsNamed) {
  put("a", "t");
  temporary_directory const dir;
  auto const file = dir / "relay.toml";
  auto const table = [&](std::string const& label, std::string const& url) {
    return "[[tables]]\nlabel = \"" + label + "\"\nmode = \"multi_node\"\nstore = {url = \"" + url +
           "\"}\n[[tables.routes]]\nevent_type = \"*\"\nsink = \"out\"\n";
  };
  std::ofstream{file} << "[sinks.out]\ntype = \"json_lines\"\npath = \"/dev/null\"\n"
                      << table("orders", db.url()) << table("mails", "sqlite:" + (dir / "b.db"));
  auto const which = run_tool({"list", "--config", file});
  EXPECT_EQ(which.status, 2);
  EXPECT_THAT(which.err, HasSubstr("It has: orders, mails"));
  EXPECT_THAT(run_tool({"list", "--config", file, "--table", "orders"}).out, StartsWith("a\t"));
  EXPECT_EQ(run_tool({"list", "--config", file, "--table", "mails"}).status, 5);
  EXPECT_EQ(run_tool({"list", "--config", file, "--table", "none"}).status, 2);
}

TEST_F(Manners, APasswordIsNeverShown) {
  auto const port = std::to_string(free_port());
  for (std::string const& url :
       {"postgresql://u:geheim@127.0.0.1:" + port + "/x",
        "postgresql://127.0.0.1:" + port + "/x?user=u&password=geheim", "mysql://u:geheim@127.0.0.1:" + port + "/x",
        "redis://u:geheim@127.0.0.1:" + port, "rediss://:geheim@127.0.0.1:" + port + "/0?outbox.name=x",
        std::string{"oracle://u:geheim@h/x"}, std::string{"postgresql://u:ge/heim@127.0.0.1/geheim"}}) {
    for (std::string const verb : {"status", "list", "migrate", "replay"}) {
      for (auto const& how : {std::vector<std::string>{verb, "--all", "--json", "--db", url}, {verb}}) {
        auto arguments = how;
        if (verb != "replay") std::erase(arguments, "--all");
        auto const r = run_tool(arguments, {"OUTBOX_DB=" + url});
        EXPECT_NE(r.status, 0) << url;
        EXPECT_THAT(r.out + r.err, Not(HasSubstr("geheim"))) << url;
        EXPECT_THAT(r.out + r.err, Not(HasSubstr("heim"))) << url;
      }
    }
  }
}

TEST_F(Manners, ExitCodesTellWhatHappened) {
  EXPECT_EQ(run("status").status, 5);
  EXPECT_EQ(run_tool({"status"}).status, 2) << "no table is named";
  EXPECT_EQ(run_tool({"status", "--db", "postgresql://u@127.0.0.1:" + std::to_string(free_port()) + "/x"}).status, 4);
  EXPECT_EQ(run_tool({}).status, 2);
  EXPECT_EQ(run_tool({"--help"}).status, 0);
  EXPECT_EQ(run_tool({"--version"}).status, 0);
  EXPECT_EQ(run_tool({"version"}).status, 0);
  EXPECT_EQ(run_tool({"show", "--help"}).status, 0) << "a missing argument does not matter";
  EXPECT_EQ(run_tool({"show", "--db", db.url()}).status, 2);
}

TEST_F(Manners, AWrongWordIsCorrected) {
  auto const message = [](std::vector<std::string> arguments) {
    auto const r = run_tool(std::move(arguments));
    EXPECT_EQ(r.status, 2);
    EXPECT_EQ(r.out, "");
    return r.err;
  };
  EXPECT_THAT(message({"stauts"}), HasSubstr("there is no verb 'stauts': did you mean 'status'?"));
  EXPECT_THAT(message({"status", "--wach"}), HasSubstr("unknown option '--wach': did you mean '--watch'?"));
  EXPECT_THAT(message({"list", "--state", "ded", "--db", "sqlite:x"}), HasSubstr("did you mean 'dead'?"));
  EXPECT_THAT(message({"list", "--json", "--plain", "--db", "sqlite:x"}), HasSubstr("excludes"));
  EXPECT_THAT(message({"list", "extra", "--db", "sqlite:x"}), HasSubstr("unexpected argument 'extra'"));
  EXPECT_THAT(message({"list", "--limit", "0", "--db", "sqlite:x"}), HasSubstr("--limit"));
  EXPECT_THAT(message({"status", "--timeout", "1", "--db", "sqlite:x"}), HasSubstr("--timeout is '1'"));
  EXPECT_THAT(message({"status", "--max-lag", "-1s", "--db", "sqlite:x"}), HasSubstr("--max-lag"));
}

TEST_F(Manners, AFullDiskIsAnError) {
  for (int i = 0; i < 20; ++i) put("e" + std::to_string(i), "t");
  auto const r = std::system((std::string{OUTBOX_TOOL} + " list --db " + db.url() + " > /dev/full 2>&1").c_str());
  EXPECT_EQ(WEXITSTATUS(r), 1);
}

TEST_F(Manners, AFileThatDoesNotExistIsNotCreated) {
  temporary_directory const dir;
  EXPECT_EQ(run_tool({"status", "--db", "sqlite:" + (dir / "typo.db")}).status, 5);
  EXPECT_EQ(run_tool({"replay", "--all", "--yes", "--db", "sqlite:" + (dir / "typo.db")}).status, 5);
  EXPECT_FALSE(std::filesystem::exists(dir / "typo.db"));
}

// A large table: counts stop, lists say that they did not read everything.
TEST_F(Manners, BoundsAreSaid) {
  static_cast<void>(store());
  db.execute(
      "INSERT INTO outbox_event (event_id, event_type, payload, available_at, created_at, status) WITH RECURSIVE n(i) "
      "AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100010) SELECT 'e' || i, CASE i WHEN 5 THEN 'rare' ELSE "
      "'t' "
      "END, '{}', '2026-01-01 00:00:00.000000', '2026-01-01 00:00:00.000000', 0 FROM n");
  EXPECT_EQ(json("status", {}, 1).at("pending"), 100'000);
  EXPECT_THAT(run("status", {"--pretty"}).out, HasSubstr("≥ 100,000"));
  auto const r = run("list", {"--type", "rare"});
  EXPECT_EQ(r.out, "") << "it is older than the rows that are read";
  EXPECT_THAT(r.err, HasSubstr("Only the newest 100,000 rows were read"));
  EXPECT_EQ(run("replay", {"e5", "--yes"}).status, 0);
  EXPECT_THAT(run("show", {"e5", "--plain"}).out, HasSubstr("rare")) << "by its id it is found";
}

}  // namespace
}  // namespace outbox

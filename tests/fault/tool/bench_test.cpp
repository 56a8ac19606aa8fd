// `outbox bench`: plausible figures, and nothing is left behind, however the run ends.
#include <csignal>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "fault/tool/verb_fixture.hpp"

namespace outbox {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

namespace fs = std::filesystem;

/// The name of the place that a run has said it works in; empty before it has.
std::string place_in(std::string const& err) {
  std::smatch found;
  return std::regex_search(err, found, std::regex{"outbox_bench_[0-9a-f]{12}"}) ? found.str() : std::string{};
}

bool is_there(tool_on_sqlite& db, std::string const& place) {
  auto const directory = fs::directory_iterator{fs::path{db.file()}.parent_path()};
  return std::ranges::any_of(
      directory, [&](auto const& entry) { return entry.path().filename().string().find(place) != std::string::npos; });
}
#ifdef OUTBOX_HAS_POSTGRES
bool is_there(tool_on_postgres& db, std::string const& place) {
  return db.database().ask("SELECT count(*) FROM pg_namespace WHERE nspname = $1", place) != "0";
}
#endif
#ifdef OUTBOX_HAS_MYSQL
bool is_there(tool_on_mysql& db, std::string const& place) {
  return db.database().ask("SELECT count(*) FROM information_schema.schemata WHERE schema_name = ?", place) != "0";
}
#endif

#ifdef OUTBOX_HAS_REDIS
bool is_there(tool_on_redis& db, std::string const& place) { return !db.keys("{" + place + "}*").empty(); }
#endif

std::uint64_t sum_of(nlohmann::json const& histogram) {
  std::uint64_t sum = 0;
  auto const& all = histogram.at("buckets");
  double last = all.empty() ? 0 : all.front().at("from_us").get<double>();
  for (auto const& b : all) {
    EXPECT_EQ(b.at("from_us").get<double>(), last) << "no gap";
    last = b.at("to_us");
    EXPECT_LT(b.at("from_us").get<double>(), last);
    sum += b.at("count").get<std::uint64_t>();
  }
  return sum;
}

template <class Database>
class Bench : public verb_fixture<Database> {
 protected:
  std::string rows() { return this->run("list", {"--json"}).out; }
};
TYPED_TEST_SUITE(Bench, tool_databases, name_of_tool_database);

TYPED_TEST(Bench, PrintsFiguresAndLeavesNothingBehind) {
  this->put_one_of_each();
  auto const before = this->rows();
  auto const r = this->run("bench", {"--time", "2s", "--yes", "--json", "--connections", "3"});
  ASSERT_EQ(r.status, 0) << r.err;
  auto const j = nlohmann::json::parse(r.out);
  ASSERT_EQ(j.at("figures").size(), 11U);
  for (auto const& [name, value] : j.at("figures").items()) {
    if (name.starts_with("hot")) {
      EXPECT_GE(value.template get<double>(), 0) << "a listener may be entered before commit() has returned";
    } else {
      EXPECT_GT(value.template get<double>(), 0) << name;
    }
    if (name.ends_with("p50_us")) {
      EXPECT_LE(value, j.at("figures").at(std::regex_replace(name, std::regex{"p50"}, "p99"))) << name;
    }
  }
  for (auto const* const name : {"write_one", "write_several", "hot"}) {
    auto const& h = j.at("histograms").at(name);
    EXPECT_GT(h.at("count"), 0) << name;
    EXPECT_EQ(h.at("count"), j.at("counts").at(name)) << name;
    EXPECT_EQ(sum_of(h), h.at("count")) << name;
  }
  EXPECT_GT(j.at("counts").at("cold"), 0);
  EXPECT_EQ(j.at("connections"), 3);
  EXPECT_TRUE(j.at("limits").contains("write_one_per_second"));
  auto const place = place_in(r.err);
  ASSERT_NE(place, "") << "it says where it works";
  EXPECT_FALSE(is_there(this->db, place));
  EXPECT_EQ(this->rows(), before) << "the table of the user";
}

TYPED_TEST(Bench, AnInterruptionInTheMiddleLeavesNothingBehind) {
  running_tool tool{{"bench", "--db", this->db.url(), "--time", "10min", "--yes"}};
  ASSERT_TRUE(eventually([&] { return tool.err().find("writes on one connection") != std::string::npos; }));
  auto const place = place_in(tool.err());
  EXPECT_TRUE(is_there(this->db, place)) << tool.err();
  tool.signal(SIGINT);
  auto const r = tool.wait();
  EXPECT_EQ(r.status, 130);
  EXPECT_THAT(r.err, HasSubstr("nothing is left behind"));
  EXPECT_EQ(r.out, "");
  EXPECT_FALSE(is_there(this->db, place));
}

TYPED_TEST(Bench, WithoutATerminalItDoesNothingUnlessYesIsGiven) {
  auto const r = this->run("bench", {"--time", "1s"});
  EXPECT_EQ(r.status, 2);
  EXPECT_THAT(r.err, HasSubstr("--yes"));
  EXPECT_FALSE(is_there(this->db, place_in(r.err)));
}

class BenchOnSqlite : public verb_fixture<tool_on_sqlite> {
 protected:
  std::set<std::string> files() const {
    std::set<std::string> all;
    for (auto const& entry : fs::directory_iterator{fs::path{db.file()}.parent_path()}) all.insert(entry.path());
    return all;
  }
};

TEST_F(BenchOnSqlite, TheFileIsBesideTheDatabaseAndGoneWithItsCompanions) {
  static_cast<void>(store());
  store_.reset();
  auto const before = files();
  auto const directory = fs::path{db.file()}.parent_path().string();
  auto const r = run("bench", {"--time", "1s", "--yes", "--plain"});
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_THAT(r.err, HasSubstr("the file " + directory + "/" + place_in(r.err)));
  EXPECT_EQ(files(), before);
  EXPECT_THAT(r.out, HasSubstr("write_one_per_second\t"));
}

TEST_F(BenchOnSqlite, ADirectoryThatIsNotThereIsAnErrorAndIsNotMade) {
  auto const r = run_tool({"bench", "--db", "sqlite:" + db.file() + "/none/a.db", "--time", "1s", "--yes"});
  EXPECT_EQ(r.status, 1);
  EXPECT_THAT(r.err, HasSubstr("cannot make the file"));
}

TEST_F(BenchOnSqlite, TheEndOfTheTerminalOrASupervisorsSignalCleansUpToo) {
  for (int const signal : {SIGHUP, SIGTERM}) {
    running_tool tool{{"bench", "--db", db.url(), "--time", "10min", "--yes"}};
    ASSERT_TRUE(eventually([&] { return tool.err().find("writes on one connection") != std::string::npos; }));
    tool.signal(signal);
    auto const r = tool.wait();
    EXPECT_EQ(r.status, 130);
    EXPECT_FALSE(is_there(db, place_in(r.err)));
  }
}

TEST_F(BenchOnSqlite, ThePlotsFitTheLineAndHaveAnAxisWithUnits) {
  auto const r = run("bench", {"--time", "1s", "--yes", "--pretty"});
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("one write on one connection"));
  EXPECT_THAT(r.out, HasSubstr("commit to listener"));
  EXPECT_THAT(r.out, AnyOf(HasSubstr("█"), HasSubstr("▁")));
  int axes = 0;
  std::istringstream lines{r.out};
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(std::ranges::count_if(line, [](char c) { return (c & 0xC0) != 0x80; }), 100) << line;  // UTF-8
    if (line.find("└┬") == std::string::npos) continue;
    ++axes;
    ASSERT_TRUE(std::getline(lines, line));
    EXPECT_THAT(line, ::testing::ContainsRegex("[0-9] (µs|ms|s)"));
  }
  EXPECT_EQ(axes, 2);
  EXPECT_THAT(r.err, HasSubstr("promise nothing"));
}

TEST_F(BenchOnSqlite, MemoryIsRefusedByItsName) {
  auto const r = run_tool({"bench", "--db", "memory:", "--yes"});
  EXPECT_EQ(r.status, 2);
  EXPECT_THAT(r.err, HasSubstr("memory:"));
}

TEST_F(BenchOnSqlite, TimesThatMakeNoSenseAreRefused) {
  for (auto const* const time : {"0s", "999ms", "11min", "soon"}) {
    auto const r = run("bench", {"--time", time, "--yes"});
    EXPECT_EQ(r.status, 2) << time;
    EXPECT_THAT(r.err, HasSubstr("--time")) << time;
  }
}

TEST_F(BenchOnSqlite, TheDatabaseOfAConfigurationIsMeasured) {
  temporary_directory const dir;
  auto const file = dir / "relay.toml";
  std::ofstream{file} << "mode = \"single_node\"\n[store]\nurl = \"" << db.url()
                      << "\"\n[sinks.out]\ntype = \"json_lines\"\npath = \"" << dir / "out.jsonl"
                      << "\"\n[[routes]]\nevent_type = \"*\"\nsink = \"out\"\n";
  auto const r = run_tool({"bench", "--config", file, "--time", "1s", "--yes", "--plain"});
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_THAT(r.err, HasSubstr(fs::path{db.file()}.parent_path().string() + "/outbox_bench_"));
}

#ifdef OUTBOX_HAS_POSTGRES
/// A role that may make the place, if it is allowed to; gone with the test.
class BenchOnPostgres : public verb_fixture<tool_on_postgres> {
 protected:
  BenchOnPostgres() {
    db.execute("CREATE ROLE " + role + " LOGIN");
    db.execute("GRANT USAGE ON SCHEMA " + db.database().schema() + " TO " + role);
  }
  ~BenchOnPostgres() override { db.execute("DROP OWNED BY " + role + "; DROP ROLE " + role); }

  void allow() { db.execute("GRANT CREATE ON DATABASE postgres TO " + role); }
  [[nodiscard]] std::string url() const {
    auto text = db.url();
    return text.replace(text.find("outbox@"), 6, role);
  }
  /// Returns the name of the place when the run has written some events there, and goes on with that.
  std::string place_of(running_tool const& tool) {
    EXPECT_TRUE(eventually([&] { return tool.err().find("writes on one connection") != std::string::npos; }));
    auto const place = place_in(tool.err());
    EXPECT_TRUE(eventually([&] {
      bool const made = db.database().ask("SELECT to_regclass($1)::text", place + ".writes") != "";
      return made && std::stoi(db.database().ask("SELECT count(*) FROM " + place + ".writes")) > 3;
    }));
    return place;
  }
  std::string const role = "bench_" + db.database().schema();
};

TEST_F(BenchOnPostgres, WithoutTheRightToMakeThePlaceItSaysWhichIsMissing) {
  auto const r = run_tool({"bench", "--db", url(), "--time", "1s", "--yes"});
  EXPECT_EQ(r.status, 6) << r.err;
  EXPECT_THAT(r.err, HasSubstr("permission denied"));
  EXPECT_THAT(r.err, HasSubstr("CREATE on the database"));
  EXPECT_FALSE(is_there(db, place_in(r.err)));
}

TEST_F(BenchOnPostgres, ALostConnectionIsAnErrorAndThePlaceIsDropped) {
  allow();
  running_tool tool{{"bench", "--db", url(), "--time", "10min", "--yes"}};
  auto const place = place_of(tool);
  db.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '" + role + "'");
  auto const r = tool.wait();
  EXPECT_THAT(r.status, AnyOf(1, 4)) << r.err;
  EXPECT_FALSE(is_there(db, place)) << r.err;
  EXPECT_EQ(r.out, "");
}

TEST_F(BenchOnPostgres, IfThePlaceCannotBeDroppedItPrintsTheStatementThatDoes) {
  allow();
  running_tool tool{{"bench", "--db", url(), "--time", "10min", "--yes"}};
  auto const place = place_of(tool);
  db.execute("ALTER ROLE " + role + " NOLOGIN");
  tool.signal(SIGINT);
  auto const r = tool.wait();
  EXPECT_EQ(r.status, 130);
  EXPECT_TRUE(is_there(db, place));
  EXPECT_THAT(r.err, Not(HasSubstr("nothing is left behind")));
  std::smatch statement;
  ASSERT_TRUE(std::regex_search(r.err, statement, std::regex{"This drops it: (.*;)"})) << r.err;
  db.execute(statement.str(1));
  EXPECT_FALSE(is_there(db, place));
}

TEST_F(BenchOnPostgres, AServerThatDoesNotAnswerIsSaidOnce) {
  auto const r = run_tool({"bench", "--db", "postgresql://x@127.0.0.1:1/x", "--time", "1s", "--yes"});
  EXPECT_EQ(r.status, 4);
  EXPECT_THAT(r.err, Not(HasSubstr("Cannot drop"))) << "nothing was made";
}
#endif

#ifdef OUTBOX_HAS_MYSQL
TEST(BenchOnMysql, WithoutTheRightToMakeThePlaceItSaysWhichIsMissing) {
  tool_on_mysql db;
  auto const user = "bench_" + db.database().database();
  db.execute("CREATE USER " + user);
  db.execute("GRANT ALL ON " + db.database().database() + ".* TO " + user);
  auto url = db.url();
  auto const from = url.find("://") + 3;
  url.replace(from, url.find('@') - from, user);
  auto const r = run_tool({"bench", "--db", url, "--time", "1s", "--yes"});
  EXPECT_EQ(r.status, 6) << r.err;
  EXPECT_THAT(r.err, HasSubstr("denied"));
  EXPECT_THAT(r.err, HasSubstr("GRANT ALL ON"));
  EXPECT_FALSE(is_there(db, place_in(r.err)));
  db.execute(R"(GRANT ALL ON `outbox\_bench\_%`.* TO )" + user);
  EXPECT_EQ(run_tool({"bench", "--db", url, "--time", "1s", "--yes"}).status, 0) << "that was enough";
  db.execute("DROP USER " + user);
}
#endif

#ifdef OUTBOX_HAS_REDIS
/// A server of its own: users belong to a whole server.
class BenchOnRedis : public ::testing::Test {
 protected:
  [[nodiscard]] std::string url() const {
    auto text = server.url();
    return text.insert(text.find("://") + 3, "bench:pw@");
  }
  redis_server server;
};

TEST_F(BenchOnRedis, WithoutTheRightToMakeThePlaceItSaysWhichIsMissing) {
  server.ask({"ACL", "SETUSER", "bench", "on", ">pw", "+@all", "~other:*"});
  auto const r = run_tool({"bench", "--db", url(), "--time", "1s", "--yes"});
  EXPECT_EQ(r.status, 6) << r.err;
  EXPECT_THAT(r.err, HasSubstr("ACL SETUSER … ~{outbox_bench_* &{outbox_bench_* +@all"));
  server.ask({"ACL", "SETUSER", "bench", "~{outbox_bench_*", "&{outbox_bench_*"});
  EXPECT_EQ(run_tool({"bench", "--db", url(), "--time", "1s", "--yes"}).status, 0) << "that was enough";
  EXPECT_EQ(server.ask({"DBSIZE"}), "0");
}

TEST_F(BenchOnRedis, IfItIsKilledThePrintedCommandDropsThePlace) {
  server.ask({"ACL", "SETUSER", "bench", "on", ">pw", "+@all", "~*", "&*"});
  running_tool tool{{"bench", "--db", url(), "--time", "10min", "--yes"}};
  ASSERT_TRUE(eventually([&] { return tool.err().find("writes on one connection") != std::string::npos; }));
  ASSERT_TRUE(eventually([&] { return server.ask({"DBSIZE"}) != "0"; }));
  tool.signal(SIGKILL);
  auto const r = tool.wait();
  std::smatch command;
  ASSERT_TRUE(std::regex_search(r.err, command, std::regex{"this drops it: (.*UNLINK)"})) << r.err;
  server.ask({"SET", "mine", "1"});
  auto const local = std::regex_replace(command.str(1), std::regex{"redis-cli"}, "redis-cli -s " + server.socket());
  ASSERT_EQ(std::system((local + " > /dev/null").c_str()), 0) << local;
  EXPECT_EQ(server.ask({"KEYS", "*"}), "mine");
}
#endif

}  // namespace
}  // namespace outbox

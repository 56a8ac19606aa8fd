// `outbox doctor` as a black box: what it finds about nodes, routes and files, how it prints it, and how it ends.
#include <sys/stat.h>

#include <regex>

#include "fault/tool/verb_fixture.hpp"
#include "support/free_port.hpp"

namespace outbox {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// The finding of this check; null if there is none.
nlohmann::json finding_in(nlohmann::json const& report, std::string const& code) {
  for (auto const& f : report.at("findings")) {
    if (f.at("code") == code) return f;
  }
  return {};
}

template <class Database>
class ToolDoctor : public verb_fixture<Database> {
 protected:
  // The servers of the tests have problems of their own (fsync = off), so the status is not looked at here.
  nlohmann::json report(std::vector<std::string> more = {}) {
    more.emplace_back("--json");
    auto const r = this->run("doctor", std::move(more));
    EXPECT_THAT(r.status, ::testing::AnyOf(0, 1)) << r.out << r.err;
    auto parsed = nlohmann::json::parse(r.out, nullptr, false);
    EXPECT_FALSE(parsed.is_discarded()) << r.out << r.err;
    return parsed;
  }
  std::string level(std::string const& code) {
    auto const f = finding_in(report(), code);
    return f.is_null() ? "none" : f.at("level").template get<std::string>();
  }
  void heartbeat(std::string const& name, std::string const& version, std::vector<node_route> routes) {
    this->store().heartbeat({.incarnation = name + ":1:x",
                             .name = name,
                             .version = version,
                             .lease = 1h,
                             .active = true,
                             .routes = std::move(routes)});
  }
};
TYPED_TEST_SUITE(ToolDoctor, tool_databases, name_of_tool_database);

TYPED_TEST(ToolDoctor, CountsAgreeWithTheFindingsAndEachSaysWhatToDo) {
  static_cast<void>(this->store());
  this->heartbeat("a", "1", {{"any"}});
  auto const r = this->report();
  std::map<std::string, int> counts;
  for (auto const& f : r.at("findings")) {
    ++counts[f.at("level")];
    EXPECT_NE(f.at("text"), "");
    EXPECT_NE(f.at("why"), "");
    if (f.at("level") == "problem" || f.at("level") == "warning") {
      EXPECT_NE(f.at("fix"), "") << f;
    }
  }
  EXPECT_EQ(r.at("problems"), counts["problem"]);
  EXPECT_EQ(r.at("warnings"), counts["warning"]);
  EXPECT_EQ(r.at("passed"), counts["passed"]);
  EXPECT_EQ(r.at("skipped"), counts["skipped"]) << r;
  EXPECT_GE(counts["passed"], 12);
}

TYPED_TEST(ToolDoctor, ATableThatIsNotThereIsAFindingWithTheFix) {
  auto const r = this->run("doctor", {"--json"});
  EXPECT_EQ(r.status, 5) << r.err;
  auto const f = finding_in(nlohmann::json::parse(r.out), "schema_version");
  ASSERT_FALSE(f.is_null()) << r.out;
  EXPECT_EQ(f.at("level"), "problem");
  EXPECT_THAT(f.at("text").template get<std::string>(), HasSubstr("there is no outbox table"));
  EXPECT_THAT(f.at("fix").template get<std::string>(), HasSubstr("outbox migrate --db '"));
  EXPECT_EQ(this->run("migrate", {"up"}).status, 0);
  EXPECT_EQ(this->level("schema_version"), "passed");
}

TYPED_TEST(ToolDoctor, ANewerSchemaIsAFinding) {
  static_cast<void>(this->store());
  make_newer(this->db);
  auto const r = this->run("doctor", {"--json"});
  EXPECT_EQ(r.status, 5) << r.err;
  auto const f = finding_in(nlohmann::json::parse(r.out), "schema_version");
  EXPECT_THAT(f.at("text").template get<std::string>(), HasSubstr("99"));
  EXPECT_THAT(f.at("fix").template get<std::string>(), Not(HasSubstr("migrate")));
}

TYPED_TEST(ToolDoctor, WithoutALiveNodeEventsThatWaitAreAProblem) {
  static_cast<void>(this->store());
  EXPECT_EQ(this->level("live_nodes"), "warning") << "nothing waits";
  this->put("a", "order.placed");
  EXPECT_EQ(this->level("live_nodes"), "problem");
  EXPECT_EQ(this->level("unserved_types"), "skipped") << "routes are not known";
  this->heartbeat("n", "1", {{"any"}});
  EXPECT_EQ(this->level("live_nodes"), "passed");
}

TYPED_TEST(ToolDoctor, NodesOfSeveralVersionsAreAWarning) {
  this->heartbeat("a", "1.0", {{"any"}});
  this->heartbeat("b", "1.0", {{"any"}});
  EXPECT_EQ(this->level("node_versions"), "passed");
  this->heartbeat("c", "1.1", {{"any"}});
  auto const f = finding_in(this->report(), "node_versions");
  EXPECT_EQ(f.at("level"), "warning");
  EXPECT_THAT(f.at("text").template get<std::string>(), HasSubstr("1.0: a, b; 1.1: c"));
}

TYPED_TEST(ToolDoctor, ANodeThatIsNotWellIsAWarning) {
  this->heartbeat("a", "1", {});
  EXPECT_EQ(this->level("unwell_node"), "passed");
  this->store().heartbeat({.incarnation = "a:1:x", .name = "a", .version = "1", .lease = 1h, .reason = "hangs"});
  EXPECT_EQ(this->level("unwell_node"), "warning");
}

TYPED_TEST(ToolDoctor, EventTypesWithoutARouteAreFound) {
  this->put("a", "order.placed", {.aggregate = {"order", "1"}});
  this->heartbeat("n", "1", {{"carrier", "order.placed", "invoice"}, {"mail", "mail"}});
  auto const f = finding_in(this->report(), "unserved_types");
  EXPECT_EQ(f.at("level"), "problem");
  EXPECT_THAT(f.at("text").template get<std::string>(), HasSubstr("order.placed of order"));
  EXPECT_THAT(f.at("fix").template get<std::string>(), HasSubstr("--type order.placed"));
  for (node_route const& r : {node_route{"carrier", "order.placed", "order"}, node_route{"all", "order.placed"},
                              node_route{"any"}, node_route{"invoices and the rest", "", "order"}}) {
    this->heartbeat("n", "1", {r});
    EXPECT_EQ(this->level("unserved_types"), "passed") << r.name;
  }
  this->heartbeat("n", "1", {{"order.placed", "", "", false}});
  EXPECT_EQ(this->level("unserved_types"), "skipped") << "an earlier library wrote only the name";
  this->heartbeat("n", "1", {{"mail", "mail"}});
  this->settle("a", spi::outcome::dead, "no listener");
  EXPECT_EQ(this->level("unserved_types"), "warning") << "it is dead already";
}

TYPED_TEST(ToolDoctor, WhatARealNodeServesIsKnown) {
  this->put("a", "order.placed", {.deliver_after = 1h});
  multi_node_options o{.store = this->store_, .log = nullptr};
  o.listeners.on("mail", [](delivery const&) {});
  auto n = multi_node(std::move(o));
  n.start();
  EXPECT_TRUE(eventually([&] { return !this->store_->inspect().nodes().empty(); }));
  EXPECT_EQ(this->level("unserved_types"), "problem");
  n.stop();
  multi_node_options any{.store = this->store_, .log = nullptr};
  any.listeners.on_any([](delivery const&) {});
  auto all = multi_node(std::move(any));
  all.start();
  EXPECT_TRUE(eventually([&] { return !this->store_->inspect().nodes().empty(); }));
  EXPECT_EQ(this->level("unserved_types"), "passed");
}

TYPED_TEST(ToolDoctor, EventsThatWaitForLongAndDeadOnesAreFound) {
  this->put("a", "t");
  EXPECT_EQ(this->level("oldest_pending"), "passed");
  EXPECT_EQ(this->level("dead_events"), "passed");
  EXPECT_EQ(finding_in(this->report({"--max-lag", "0s"}), "oldest_pending").at("level"), "problem");
  this->settle("a", spi::outcome::dead, "no");
  EXPECT_EQ(this->level("dead_events"), "warning");
  EXPECT_EQ(this->level("oldest_pending"), "passed");
}

TYPED_TEST(ToolDoctor, TheClockOfAServerIsCompared) {
  static_cast<void>(this->store());
  EXPECT_EQ(this->level("clock_skew"), std::string{TypeParam::name} == "sqlite" ? "none" : "passed");
}

TYPED_TEST(ToolDoctor, ItChangesNothing) {
  this->put_one_of_each();
  auto const before = this->store_->inspect().find("new").value();
  static_cast<void>(this->report());
  auto const after = this->store_->inspect().find("new").value();
  EXPECT_EQ(after.locked_by, before.locked_by);
  EXPECT_EQ(after.attempts, before.attempts);
  EXPECT_EQ(this->json("audit"), nlohmann::json::array());
}

class ToolDoctorOnSqlite : public ToolDoctor<tool_on_sqlite> {
 protected:
  ToolDoctorOnSqlite() { heartbeat("web-1", "0.1.0", {{"any"}}); }
};

TEST_F(ToolDoctorOnSqlite, TheStatusTellsProblemsFromWarnings) {
  EXPECT_EQ(run("doctor").status, 0);
  EXPECT_EQ(run("doctor", {"--strict"}).status, 0);
  put("a", "t");
  settle("a", spi::outcome::dead, "no");
  EXPECT_EQ(run("doctor").status, 0) << "a warning";
  EXPECT_EQ(run("doctor", {"--strict"}).status, 1);
  db.execute("DROP INDEX outbox_event_dead");
  EXPECT_EQ(run("doctor").status, 1);
}

TEST_F(ToolDoctorOnSqlite, PassedChecksAreShownOnlyIfAsked) {
  EXPECT_THAT(run("doctor", {"--pretty"}).out, Not(HasSubstr("journal_mode")));
  EXPECT_THAT(run("doctor", {"--pretty", "-v"}).out, HasSubstr("journal_mode"));
  EXPECT_EQ(run("doctor", {"--plain"}).out, "");
}

TEST_F(ToolDoctorOnSqlite, TextsOfOtherProgramsDoNotReachTheTerminal) {
  db.execute(
      "INSERT INTO outbox_event (event_id, event_type, payload, available_at, created_at, locked_by, locked_at) "
      "VALUES ('a', 't' || char(27) || '[2J', '1', '2020-01-01 00:00:00.000000', 'x', 'evil' || char(27) || "
      "'[2J', 'x')");
  auto const r = run("doctor", {"--pretty"});
  EXPECT_THAT(r.out, HasSubstr("foreign_owner"));
  EXPECT_THAT(r.out, Not(HasSubstr("\033[2J")));
}

TEST_F(ToolDoctorOnSqlite, AConfigurationWithAPasswordMustNotBeReadableByOthers) {
  temporary_directory const dir;
  auto const file = dir / "relay.toml";
  auto const write = [&](std::string const& extra, ::mode_t mode) {
    std::ofstream{file} << "mode = \"writer_only\"\n[store]\nurl = \"" << db.url() << "\"\n" << extra;
    ::chmod(file.c_str(), mode);
  };
  auto const found = [&] {
    auto const r = run_tool({"doctor", "--config", file, "--json"});
    auto const parsed = nlohmann::json::parse(r.out, nullptr, false);
    EXPECT_FALSE(parsed.is_discarded()) << r.out << r.err;
    return parsed.is_discarded() ? nlohmann::json{} : finding_in(parsed, "config_file");
  };
  write("", 0644);
  ASSERT_FALSE(found().is_null());
  EXPECT_EQ(found().at("level"), "passed");
  write("# store = \"postgresql://ann:geheim@db1/shop\"\n", 0644);
  EXPECT_EQ(found().at("level"), "problem");
  EXPECT_EQ(found().at("fix"), "chmod o-rwx '" + file + "'");
  write("# store = \"postgresql://ann:geheim@db1/shop\"\n", 0640);
  EXPECT_EQ(found().at("level"), "passed");
  write("# store = \"postgresql://ann:${PASSWORD}@db1/shop\"\n", 0644);
  EXPECT_EQ(found().at("level"), "passed") << "it is in the environment";
}

#ifdef OUTBOX_HAS_POSTGRES
TEST(ToolDoctorOnPostgres, AServerWhoseClockIsAheadIsAProblem) {
  postgres_server server{{.environment = {"LD_PRELOAD=/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1",
                                          "FAKETIME=+2h", "FAKETIME_DONT_FAKE_MONOTONIC=1"}}};
  postgres_database const own{"postgres", server};
  static_cast<void>(own.open());
  auto const r = run_tool(
      {"doctor", "--json", "--db",
       "postgresql://outbox@127.0.0.1:" + std::to_string(server.port()) + "/postgres?outbox.schema=" + own.schema()});
  EXPECT_EQ(r.status, 1) << r.err;
  auto const f = finding_in(nlohmann::json::parse(r.out), "clock_skew");
  EXPECT_EQ(f.at("level"), "problem") << r.out;
  EXPECT_THAT(f.at("text").get<std::string>(), HasSubstr("ahead of this machine's"));
}

TEST(ToolDoctorWithoutServer, ADatabaseThatDoesNotAnswerIsAFindingAndAStatus) {
  auto const r = run_tool({"doctor", "--json", "--timeout", "500ms", "--db",
                           "postgresql://ann:geheim@127.0.0.1:" + std::to_string(free_port()) + "/shop"});
  EXPECT_EQ(r.status, 4) << r.err;
  auto const f = finding_in(nlohmann::json::parse(r.out), "connection");
  EXPECT_EQ(f.at("level"), "problem");
  EXPECT_THAT(r.out, Not(HasSubstr("geheim")));
}
#endif

#ifdef OUTBOX_HAS_REDIS
// No node would start there, so the tool must be able to say why.
TEST(ToolDoctorOnRedis, AServerThatEvictsKeysIsAProblem) {
  redis_server server;
  EXPECT_EQ(migrate_store(server.url()).change, migration::kind::created);
  server.ask({"CONFIG", "SET", "maxmemory-policy", "allkeys-lru"});
  auto const r = run_tool({"doctor", "--json", "--db", server.url()});
  EXPECT_EQ(r.status, 1) << r.err;
  auto const f = finding_in(nlohmann::json::parse(r.out), "eviction");
  EXPECT_EQ(f.at("level"), "problem") << r.out;
  EXPECT_EQ(f.at("fix"), "CONFIG SET maxmemory-policy noeviction");
}

TEST(ToolDoctorOnRedis, AReplicaIsAProblem) {
  redis_server const primary;
  EXPECT_EQ(migrate_store(primary.url()).change, migration::kind::created);
  redis_server const replica{{.replica_of = primary.port()}};
  auto const r = run_tool({"doctor", "--json", "--db", replica.url()});
  EXPECT_EQ(r.status, 1) << r.err;
  EXPECT_EQ(finding_in(nlohmann::json::parse(r.out), "read_only_server").at("level"), "problem") << r.out;
  for (auto const& verb :
       std::vector<std::vector<std::string>>{{"migrate", "status"}, {"list"}, {"audit"}, {"nodes"}}) {
    auto arguments = verb;
    arguments.insert(arguments.end(), {"--db", replica.url()});
    EXPECT_EQ(run_tool(arguments).status, 0) << verb.front() << " only reads";
  }
}
#endif

}  // namespace
}  // namespace outbox

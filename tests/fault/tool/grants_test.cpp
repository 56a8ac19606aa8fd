// `outbox grants`: for each role, a user that has only these rights can do its work, and the server refuses the rest.
#include <fstream>

#include "fault/tool/verb_fixture.hpp"

namespace outbox {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

std::string in_quotes(std::string const& name, char quote) {
  std::string text{quote};
  for (char const c : name) text += c == quote ? std::string(2, quote) : std::string{c};
  return text + quote;
}

#ifdef OUTBOX_HAS_POSTGRES
struct on_postgres : tool_on_postgres {
  using connection = postgres::connection;
  using transaction = postgres::transaction;
  static std::string quoted(std::string const& user) { return in_quotes(user, '"'); }
  void add_user(std::string const& user) { execute("CREATE ROLE " + quoted(user) + " LOGIN"); }
  void drop_user(std::string const& user) { execute("DROP OWNED BY " + quoted(user) + "; DROP ROLE " + quoted(user)); }
  [[nodiscard]] std::string prefix() { return database().schema() + "."; }
};
#endif
#ifdef OUTBOX_HAS_MYSQL
struct on_mysql : tool_on_mysql {
  using connection = mysql::connection;
  using transaction = mysql::transaction;
  static std::string quoted(std::string const& user) { return in_quotes(user, '`') + "@`%`"; }
  void add_user(std::string const& user) { execute("CREATE USER " + quoted(user)); }
  void drop_user(std::string const& user) { execute("DROP USER " + quoted(user)); }
  [[nodiscard]] std::string prefix() { return database().database() + "."; }
};
#endif

/// On servers, which have users.
template <class Database>
class Grants : public verb_fixture<Database> {
 protected:
  ~Grants() override {
    this->store_.reset();
    for (auto const& u : users_) this->db.drop_user(u);
  }

  /// Makes a user and runs what the verb prints for it. Returns the name.
  std::string user_with(std::string const& role) {
    auto name = role + "_" + this->db.prefix();
    name.pop_back();
    make(name);
    run_grants(role, name);
    return name;
  }
  void make(std::string const& name) {
    this->db.add_user(name);
    users_.push_back(name);
  }
  void run_grants(std::string const& role, std::string const& user) {
    auto const j = this->json("grants", {role, "--user", user});
    ASSERT_FALSE(j.at("statements").empty());
    for (auto const& statement : j.at("statements")) this->db.execute(statement);
  }

  [[nodiscard]] std::string url_as(std::string const& user) const {
    auto url = this->db.url();
    auto const from = url.find("://") + 3;
    return url.replace(from, url.find('@') - from, user);
  }
  [[nodiscard]] std::string connection_as(std::string const& user) const {
    auto const url = url_as(user);
    return url.substr(0, url.find('?'));
  }
  /// As a service with few rights opens it.
  [[nodiscard]] std::shared_ptr<outbox::store> open_as(std::string const& user) const {
    return open_store(url_as(user), {.migrate = false, .log = nullptr});
  }
  tool_result run_as(std::string const& user, std::vector<std::string> arguments) {
    arguments.insert(arguments.begin() + 1, {"--db", url_as(user)});
    return run_tool(std::move(arguments));
  }

  void expect_refused(std::string const& user, std::string const& sql) {
    typename Database::connection as_user{connection_as(user)};
    try {
      as_user.execute(sql);
      ADD_FAILURE() << user << " may: " << sql;
    } catch (error const& e) {
      EXPECT_TRUE(e.sqlstate() == "42501" || std::string{e.what()}.find("denied") != std::string::npos)
          << sql << ": " << e.what();
    }
  }
  [[nodiscard]] std::string table(std::string const& name) { return this->db.prefix() + name; }

 private:
  std::vector<std::string> users_;
};

using servers = ::testing::Types<
#ifdef OUTBOX_HAS_POSTGRES
    on_postgres
#endif
#if defined OUTBOX_HAS_POSTGRES && defined OUTBOX_HAS_MYSQL
    ,
#endif
#ifdef OUTBOX_HAS_MYSQL
    on_mysql
#endif
    >;
#if defined OUTBOX_HAS_POSTGRES || defined OUTBOX_HAS_MYSQL
TYPED_TEST_SUITE(Grants, servers, name_of_tool_database);

TYPED_TEST(Grants, AWriterWritesInItsTransactionsAndCannotReadOrChangeEvents) {
  this->put("other", "t");
  auto const user = this->user_with("writer");
  auto box = writer_only({.store = this->open_as(user), .log = nullptr});
  box.start();
  typename TypeParam::connection as_writer{this->connection_as(user)};
  {
    typename TypeParam::transaction tx{as_writer};
    box.writer().write(tx, "t", "1", {.id = "mine"});
    tx.commit();
  }
  EXPECT_EQ(this->status_of("mine"), event_status::created);
  box.stop();
  this->expect_refused(user, "SELECT payload FROM " + this->table("outbox_event"));
  this->expect_refused(user, "UPDATE " + this->table("outbox_event") + " SET status = 1");
  this->expect_refused(user, "DELETE FROM " + this->table("outbox_event"));
  this->expect_refused(user, "UPDATE " + this->table("outbox_meta") + " SET value = ''");
  this->expect_refused(user, "SELECT * FROM " + this->table("outbox_node"));
}

// The right to read event_id and locked_by is what makes it hot after a savepoint, and on MariaDB always.
TYPED_TEST(Grants, AWriterBesideADispatcherUsesTheHotPath) {
  static_cast<void>(this->store());
  auto const writer = this->user_with("writer"), dispatcher = this->user_with("dispatcher");
  tally hot;
  multi_node_options o{.store = this->open_as(dispatcher), .log = nullptr};
  o.poll.every = 1h;
  o.listeners.on("t", [&](delivery const& d) {
    if (d.path == path::hot) hot.add(d.id);
  });
  auto box = multi_node(std::move(o));
  box.start();
  typename TypeParam::connection as_writer{this->connection_as(writer)};
  typename TypeParam::transaction tx{as_writer};
  tx.execute("SAVEPOINT s");
  box.writer().write(tx, "t", "1", {.id = "undone"});
  tx.execute("ROLLBACK TO SAVEPOINT s");
  box.writer().write(tx, "t", "1", {.id = "kept"});
  tx.commit();
  EXPECT_TRUE(hot.reach(1));
  EXPECT_EQ(hot.of("undone"), 0);
}

// It may not read the columns that tell where an event stands, so the dispatcher's connection is asked.
TYPED_TEST(Grants, AWriterBesideAKeyedDispatcherUsesTheHotPath) {
  ASSERT_EQ(this->run("migrate", {"up", "--keyed"}).status, 0);
  auto const writer = this->user_with("writer"), dispatcher = this->user_with("dispatcher");
  tally hot;
  keyed_options o{.store = this->open_as(dispatcher), .log = nullptr};
  o.poll.every = 1h;
  o.listeners.on("t", [&](delivery const& d) {
    if (d.path == path::hot) hot.add(d.id);
  });
  auto box = keyed(std::move(o));
  box.start();
  typename TypeParam::connection as_writer{this->connection_as(writer)};
  for (auto const* const id : {"first", "second"}) {
    typename TypeParam::transaction tx{as_writer};
    box.writer().write(tx, "t", "1", {.id = id, .ordering_key = "k"});
    tx.commit();
  }
  EXPECT_TRUE(hot.reach(2)) << box.health().reason;
}

TYPED_TEST(Grants, ADispatcherDeliversPausesAndPurgesAndCannotWriteEvents) {
  this->put("a", "t");
  auto const user = this->user_with("dispatcher");
  for (bool const single : {true, false}) {
    auto const id = single ? "a" : "b";
    tally seen;
    multi_node_options o{.store = this->open_as(user), .log = nullptr};
    o.poll.every = 10ms;
    o.purge = purge_options{.keep = 0ms, .dead = true};
    o.listeners.on("t", [&](delivery const& d) { seen.add(d.id); });
    o.listeners.on("failing", [](delivery const&) -> result { return failed{"no"}; });
    auto box = single ? single_node(std::move(o)) : multi_node(std::move(o));
    box.start();
    if (!single) this->put("b", "t");
    ASSERT_TRUE(seen.reach(1)) << box.health().reason;
    this->put(std::string{"failing-"} + id, "failing");
    EXPECT_TRUE(eventually([&] { return box.counters().failed > 0; }));
    EXPECT_TRUE(box.pause({.event_type = "x"}));
    EXPECT_TRUE(box.resume({.event_type = "x"}));
    EXPECT_TRUE(eventually([&] { return this->status_of(id) == event_status::delivered; }));
    EXPECT_EQ(box.purge_once(), 1U);
    EXPECT_TRUE(box.cancel(std::string{"failing-"} + id, "enough"));
    EXPECT_EQ(box.purge_once(), 1U);
    EXPECT_TRUE(box.health().healthy) << box.health().reason;
    EXPECT_FALSE(this->store_->inspect().nodes().empty()) << "it reports";
    EXPECT_TRUE(box.stop());
  }
  this->expect_refused(user, "INSERT INTO " + this->table("outbox_event") +
                                 " (event_id, event_type, payload, available_at, created_at) VALUES ('forged', 't', "
                                 "'1', current_timestamp, current_timestamp)");
  this->expect_refused(user, "SELECT * FROM " + this->table("outbox_audit"));
  this->expect_refused(user, "DROP TABLE " + this->table("outbox_event"));
}

TYPED_TEST(Grants, AnOperatorRunsTheVerbsThatChangeAndCannotEraseTheAudit) {
  this->put_one_of_each();
  this->put("purged", "t");
  this->settle("purged", spi::outcome::delivered);
  auto const user = this->user_with("operator");
  for (auto const& arguments : std::vector<std::vector<std::string>>{{"list"},
                                                                     {"show", "dead"},
                                                                     {"discard", "dead", "--yes"},
                                                                     {"replay", "dead", "--yes"},
                                                                     {"cancel", "new", "--yes", "--reason", "r"},
                                                                     {"purge", "purged", "--yes"},
                                                                     {"pause", "t"},
                                                                     {"resume", "t"},
                                                                     {"unkey", "--yes"},
                                                                     {"audit"}}) {
    auto const r = this->run_as(user, arguments);
    EXPECT_EQ(r.status, 0) << arguments.front() << ": " << r.err;
  }
  EXPECT_EQ(this->status_of("dead"), event_status::created);
  EXPECT_EQ(this->status_of("new"), event_status::dead);
  EXPECT_FALSE(this->store_->inspect().find("purged"));
  EXPECT_GE(this->json("audit").size(), 3U);
  this->expect_refused(user, "DELETE FROM " + this->table("outbox_audit"));
  this->expect_refused(user, "INSERT INTO " + this->table("outbox_event") +
                                 " (event_id, event_type, payload, available_at, created_at) VALUES ('forged', 't', "
                                 "'1', current_timestamp, current_timestamp)");
  this->expect_refused(user, "DELETE FROM " + this->table("outbox_node"));
}

TYPED_TEST(Grants, AReaderRunsTheVerbsThatReadAndTheServerRefusesItsChanges) {
  this->put_one_of_each();
  auto const user = this->user_with("reader");
  for (auto const& arguments : std::vector<std::vector<std::string>>{{"list"},
                                                                     {"show", "dead"},
                                                                     {"errors"},
                                                                     {"nodes"},
                                                                     {"audit"},
                                                                     {"tail", "--no-follow"},
                                                                     {"migrate", "status"}}) {
    auto const r = this->run_as(user, arguments);
    EXPECT_EQ(r.status, 0) << arguments.front() << ": " << r.err;
  }
  EXPECT_EQ(this->run_as(user, {"status"}).status, 1) << "an event is dead, and no node is there";
  EXPECT_NO_THROW(static_cast<void>(this->open_as(user)->backend().findings())) << "what doctor looks at";
  for (auto const& arguments : std::vector<std::vector<std::string>>{{"discard", "dead", "--yes"},
                                                                     {"unkey", "--yes"},
                                                                     {"replay", "dead", "--yes"},
                                                                     {"cancel", "new", "--yes"},
                                                                     {"purge", "done", "--yes"},
                                                                     {"pause", "t"}}) {
    auto const r = this->run_as(user, arguments);
    EXPECT_THAT(r.status, ::testing::AnyOf(6, 7)) << arguments.front() << ": " << r.err;
    EXPECT_THAT(r.err, HasSubstr("denied")) << arguments.front();
  }
  EXPECT_EQ(this->status_of("dead"), event_status::dead);
  this->expect_refused(user, "DELETE FROM " + this->table("outbox_event"));
}

TYPED_TEST(Grants, AnOwnerMakesTheTablesAndSeesNoOthers) {
  this->db.execute("CREATE TABLE " + this->table("orders") + " (id int)");
  auto const user = this->user_with("owner");
  auto const r = this->run_as(user, {"migrate", "up", "--plain"});
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_EQ(r.out, "created\n");
  EXPECT_EQ(this->run_as(user, {"migrate", "status"}).status, 0);
  this->put("a", "t");
  EXPECT_EQ(this->status_of("a"), event_status::created);
  this->expect_refused(user, "SELECT * FROM " + this->table("orders"));
  this->expect_refused(user, "INSERT INTO " + this->table("orders") + " VALUES (1)");
}

TYPED_TEST(Grants, AHostileNameOfAUserIsANameAndNothingElse) {
  static_cast<void>(this->store());
  for (std::string const name :
       {"a\"; DROP TABLE x; --", "b`; DROP TABLE x; #", "c'; DROP TABLE x; --", "d\\", "e /* é */"}) {
    this->make(name);
    this->run_grants("reader", name);
    EXPECT_EQ(this->run("list").status, 0) << name;
  }
}

TYPED_TEST(Grants, ATableOfAnotherNameHasItsOwnCompanions) {
  auto const url = this->db.url() + (this->db.url().find('?') == std::string::npos ? "?" : "&") + "outbox.table=mails";
  auto const r = run_tool({"grants", "operator", "--user", "u", "--db", url});
  EXPECT_EQ(r.status, 0) << r.err;
  for (auto const* const name : {"mails", "mails_meta", "mails_node", "mails_audit"}) {
    EXPECT_THAT(r.out, ::testing::ContainsRegex(std::string{"[\"`]"} + name + "[\"`]"));
  }
  EXPECT_THAT(r.out, Not(HasSubstr("outbox_")));
}
#endif

std::vector<std::string> lines_of(std::string const& text) {
  std::vector<std::string> all;
  std::istringstream in{text};
  for (std::string line; std::getline(in, line);) all.push_back(line);
  return all;
}

TEST(GrantsText, NothingIsConnectedToIfTheUrlSaysEverything) {
  auto const pg =
      run_tool({"grants", "writer", "--user", "shop", "--db", "postgresql://x:secret@127.0.0.1:1/x?outbox.schema=s"});
  EXPECT_EQ(pg.status, 0) << pg.err;
  EXPECT_THAT(pg.out, HasSubstr("GRANT INSERT ON \"s\".\"outbox_event\" TO \"shop\";\n"));
  EXPECT_THAT(pg.out + pg.err, Not(HasSubstr("secret")));
  auto const my =
      run_tool({"grants", "writer", "--user", "shop", "--host", "10.%", "--db", "mysql://127.0.0.1:1/a%60b"});
  EXPECT_EQ(my.status, 0) << my.err;
  EXPECT_THAT(my.out, HasSubstr("GRANT INSERT ON `a``b`.`outbox_event` TO `shop`@`10.%`;\n"));
}

#ifdef OUTBOX_HAS_POSTGRES
TEST(GrantsText, TheSchemaIsAskedForIfTheUrlDoesNotNameIt) {
  auto const server = "postgresql://outbox@127.0.0.1:" + std::to_string(postgres_server::shared().port()) + "/postgres";
  auto const found = run_tool({"grants", "reader", "--user", "u", "--db", server});
  EXPECT_THAT(found.out, HasSubstr("GRANT USAGE ON SCHEMA \"public\" TO \"u\";\n")) << found.err;
  EXPECT_EQ(run_tool({"grants", "reader", "--user", "u", "--db", "postgresql://x@127.0.0.1:1/x"}).status, 4);
}
#endif

TEST(GrantsText, WhatNoQuotingHelpsWithIsRefused) {
  auto const grants = [](std::string const& user, std::string const& url) {
    return run_tool({"grants", "reader", "--user", user, "--db", url});
  };
  for (std::string const url : {"postgresql://127.0.0.1:1/x?outbox.schema=s", "mysql://127.0.0.1:1/x"}) {
    for (auto const& user : {std::string{}, std::string{"a\nDROP TABLE x;"}, std::string{"a\x1b[2J"},
                             std::string{"a\xff"}, std::string(81, 'x'), std::string{"a\u202eb"}}) {
      auto const r = grants(user, url);
      EXPECT_EQ(r.status, 2) << user;
      EXPECT_THAT(r.out, IsEmpty());
      EXPECT_THAT(r.err, HasSubstr("--user"));
    }
  }
  EXPECT_EQ(grants(std::string(64, 'x'), "postgresql://127.0.0.1:1/x?outbox.schema=s").status, 2)
      << "the server would cut it to the name of another";
  EXPECT_EQ(grants("u", "postgresql://127.0.0.1:1/x?outbox.schema=s&outbox.table=a;b").status, 2);
  EXPECT_EQ(grants("u", "mysql://127.0.0.1:1").status, 2) << "no database";
  EXPECT_EQ(grants("u", "memory:").status, 2);
  EXPECT_EQ(run_tool({"grants", "god", "--user", "u", "--db", "mysql://127.0.0.1:1/x"}).status, 2);
}

TEST(GrantsText, OnSqliteModesOfFilesAreExplainedAndNothingIsAStatement) {
  for (auto const* const role : {"writer", "dispatcher", "operator", "reader", "owner"}) {
    auto const r = run_tool({"grants", role, "--db", "sqlite:shop.db"});
    EXPECT_EQ(r.status, 0) << r.err;
    EXPECT_THAT(lines_of(r.out), Each(StartsWith("-- ")));
    EXPECT_THAT(r.out, HasSubstr("-shm"));
  }
}

TEST(GrantsText, ATableWithALayoutIsRefused) {
  temporary_directory const dir;
  auto const file = dir / "relay.toml";
  std::ofstream{file} << "mode = \"single_node\"\n[store]\nurl = \"postgresql://127.0.0.1:1/x\"\n[store.layout]\n"
                         "profile = \"polled_outbox\"\n[sinks.out]\ntype = \"json_lines\"\npath = \"/dev/null\"\n"
                         "[[routes]]\nevent_type = \"*\"\nsink = \"out\"\n";
  auto const r = run_tool({"grants", "reader", "--user", "u", "--config", file});
  EXPECT_EQ(r.status, 2);
  EXPECT_THAT(r.err, HasSubstr("layout"));
}

}  // namespace
}  // namespace outbox

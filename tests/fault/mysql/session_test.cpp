// Callers' sessions with settings of their own, hostile values, and servers whose defaults are hostile to us.
#include <algorithm>

#include "join_fixture.hpp"

namespace outbox {
namespace {

// So many characters of four bytes.
std::string rockets(std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += "\xF0\x9F\x9A\x80";
  return text;
}

std::string const every_byte = [] {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  return bytes;
}();

// Whatever could be mistaken for the end of a text, or for another text. The prefix has at most eight characters.
std::vector<event> hostile_events(std::string const& prefix) {
  instant const at = std::chrono::sys_days{std::chrono::year{2040} / 1 / 2} + 3h + std::chrono::microseconds{123'456};
  std::string const payload =
      "\"\xF0\x9F\x9A\x80 \xD7\xA9\xD7\x9C \xC3\xA9\\\\ \xE2\x82\xAC\\\" 'quoted' \\\\' \\u0041 ?1 $1 '; DROP TABLE "
      "outbox_event; -- \xC3\xBC\"";
  std::vector<event> all{
      event::json("t", payload,
                  {.id = prefix + "x'; DROP TABLE o; --",
                   .aggregate = {"o'r\\der\xE2\x82\xAC\\", "7\\"},
                   .tenant = "\xC3\xA9\\'\"`",
                   .headers = {{"k'\\", "\xE2\x82\xAC\\'\"\t\xF0\x9F\x9A\x80"}, {"NULL", "NULL"}},
                   .ordering_key = "\\"}),
      event::bytes("t", every_byte, "x/'\\\xE2\x82\xAC\\", {.id = prefix + "bytes"}),
      event::bytes("t", "", "x", {.id = prefix + "empty"}),
      event::json("t", "1", {.id = prefix + rockets(36 - prefix.size())}),
      event::json("t", "1",
                  {.id = prefix + "NULL", .aggregate = {"NULL", "NULL"}, .tenant = "NULL", .ordering_key = "NULL"}),
      event::json("u", "1", {.id = prefix + "later", .occurred_at = at - 1h, .available_at = at})};
  for (std::string const id : {"a", "A", "\xC3\xA1", "a ", "a  ", "a\t", "a\\", "a'", "a''", "a\\'", "\xEF\xBD\x81",
                               "\x01\x1a\x7f\n\r\b", "\xE2\x82\xAC\\", "\xE2\x82\xAC\\' OR 1 -- ", "\xC2\xBF\\'"}) {
    all.push_back(event::json("t", "1", {.id = prefix + id}));
  }
  return all;
}

class MysqlSession : public MysqlJoin {
 protected:
  using MysqlJoin::MysqlJoin;

  // All but one of these events are due.
  static std::size_t due(std::vector<event> const& events) { return events.size() - 1; }

  void expect_stored(std::vector<event> const& events, std::string const& why) {
    for (auto const& e : events) {
      auto const found = store->inspect().find(e.id());
      ASSERT_TRUE(found) << why << ": " << e.id();
      EXPECT_EQ(found->event.id(), e.id()) << why;
      EXPECT_EQ(found->event.type(), e.type()) << why << ": " << e.id();
      EXPECT_EQ(found->event.payload(), e.payload()) << why << ": " << e.id();
      EXPECT_EQ(found->event.kind(), e.kind()) << why << ": " << e.id();
      EXPECT_EQ(found->event.headers(), e.headers()) << why << ": " << e.id();
      EXPECT_EQ(found->event.aggregate_type(), e.aggregate_type()) << why << ": " << e.id();
      EXPECT_EQ(found->event.aggregate_id(), e.aggregate_id()) << why << ": " << e.id();
      EXPECT_EQ(found->event.tenant(), e.tenant()) << why << ": " << e.id();
      EXPECT_EQ(found->event.ordering_key(), e.ordering_key()) << why << ": " << e.id();
      EXPECT_EQ(found->event.content_type(), e.content_type()) << why << ": " << e.id();
      if (e.available_at()) {
        EXPECT_EQ(found->available_at, *e.available_at()) << why;
        EXPECT_EQ(found->event.occurred_at(), e.occurred_at()) << why;
      }
    }
  }

  // Runs these statements on a handle of the application and on a connection of ours, and expects no harm to what is
  // written there. Does nothing if the server does not know them.
  void expect_unharmed_after(std::string const& sql) {
    plain_handle h{db.url()};
    mysql::connection c{db.url()};
    auto const refused = h.attempt(sql);
    constexpr unsigned unknown_variable = 1193, unknown_value = 1231;
    ASSERT_TRUE(refused == 0 || refused == unknown_variable || refused == unknown_value) << sql << ": " << refused;
    if (refused != 0) return;
    auto* const handle = h.get();
    expect_unharmed(handle, handle, sql + " on a handle");
    c.execute(sql);
    expect_unharmed(c, c.handle(), sql + " on a connection");
  }

  // Writes in every way on a session, and expects every byte and the hot path.
  template <class Target>
  void expect_unharmed(Target& target, st_mysql* h, std::string const& why) {
    auto const before_hot = hot.total();
    auto const before = seen.total();
    auto const name = std::to_string(++rounds_);
    auto const one_by_one = hostile_events("i" + name + " ");
    auto const at_once = hostile_events("a" + name + " ");
    auto const by_hand = hostile_events("h" + name + " ");
    {
      mysql::transaction tx{target};
      tx.execute(insert(rounds_));
      for (auto const& e : one_by_one) box->writer().write(tx, e);
      tx.savepoint("s");
      box->writer().write_all(tx, hostile_events("u" + name + " "));
      tx.rollback_to("s");
      box->writer().write_all(tx, at_once);
      tx.commit();
    }
    ASSERT_TRUE(hot.reach(before_hot + due(one_by_one) + due(at_once))) << why << ": all of them are hot";
    ASSERT_EQ(mysql_query(h, "START TRANSACTION"), 0);
    box->writer().write_all(h, by_hand);
    ASSERT_EQ(mysql_query(h, "COMMIT AND NO CHAIN NO RELEASE"), 0);
    box->wake();
    ASSERT_TRUE(seen.reach(before + due(one_by_one) + due(at_once) + due(by_hand))) << why;
    for (auto const* const events : {&one_by_one, &at_once, &by_hand}) expect_stored(*events, why);
    EXPECT_FALSE(store->inspect().find("u" + name + " a")) << why;
    EXPECT_EQ(db.ask("SELECT count(*) FROM " + db.table("orders") + " WHERE id = ?", rounds_), "1") << why;
  }

  std::shared_ptr<outbox::store> store = db.open();

 private:
  int rounds_ = 0;
};

TEST_F(MysqlSession, I11_TheModeOfTheSessionDoesNotChangeWhatIsWritten) {
  for (std::string const mode : {"",
                                 "ANSI",
                                 "ANSI_QUOTES",
                                 "NO_BACKSLASH_ESCAPES",
                                 "ANSI_QUOTES,NO_BACKSLASH_ESCAPES",
                                 "TRADITIONAL",
                                 "PIPES_AS_CONCAT",
                                 "HIGH_NOT_PRECEDENCE",
                                 "IGNORE_SPACE",
                                 "NO_UNSIGNED_SUBTRACTION",
                                 "PAD_CHAR_TO_FULL_LENGTH",
                                 "STRICT_ALL_TABLES",
                                 "ONLY_FULL_GROUP_BY",
                                 "NO_ZERO_DATE,NO_ZERO_IN_DATE",
                                 "ORACLE",
                                 "MSSQL",
                                 "DB2",
                                 "EMPTY_STRING_IS_NULL",
                                 "SIMULTANEOUS_ASSIGNMENT",
                                 "TIME_ROUND_FRACTIONAL"}) {
    expect_unharmed_after("SET sql_mode = '" + mode + "'");
  }
}

TEST_F(MysqlSession, I11_TheModeMayChangeInTheMiddle) {
  mysql::connection c{db.url()};
  for (int i = 0; i < 3; ++i) {
    c.execute("SET sql_mode = 'NO_BACKSLASH_ESCAPES'");
    expect_unharmed(c, c.handle(), "without backslashes");
    c.execute("SET sql_mode = ''");
    expect_unharmed(c, c.handle(), "with backslashes");
  }
}

TEST_F(MysqlSession, I11_TheCharacterSetOfTheSessionDoesNotChangeWhatIsWritten) {
  for (std::string const name : {"utf8mb4", "utf8mb3", "latin1", "latin2", "cp1251", "koi8r", "cp850", "greek", "ascii",
                                 "binary", "ujis", "eucjpms", "euckr", "tis620", "swe7"}) {
    expect_unharmed_after("SET NAMES " + name);
  }
}

// What a session sends is converted on the way if it wants to have it in another character set.
TEST_F(MysqlSession, I11_WhatASessionConvertsIsNotConverted) {
  for (std::string const settings :
       {"CHARACTER SET utf8mb4", "CHARACTER SET latin1", "character_set_connection = latin1",
        "collation_connection = latin1_german1_ci", "character_set_results = latin1", "character_set_results = NULL",
        "collation_connection = utf8mb4_general_ci"}) {
    expect_unharmed_after("SET " + settings);
  }
}

TEST_F(MysqlSession, I11_WhatAServerDoesNotReportDoesNoHarm) {
  for (std::string const name : {"latin1", "utf8mb3", "gbk", "sjis", "cp932", "big5"}) {
    plain_handle h{db.url()};
    if (h.attempt("SET session_track_system_variables = ''") != 0) GTEST_SKIP() << "this server does not have it";
    h.execute("SET NAMES " + name);
    auto* const handle = h.get();
    expect_unharmed(handle, handle, name);
  }
}

// A byte of one of their characters may be a quote or a backslash.
TEST_F(MysqlSession, CharacterSetsThatCannotBeQuotedAreRefusedAndTheTransactionGoesOn) {
  for (std::string const name : {"gbk", "sjis", "cp932", "big5"}) {
    plain_handle h{db.url()};
    h.execute("START TRANSACTION");
    h.execute("INSERT INTO " + db.table("orders") + " (id) VALUES (1)");
    h.execute("SET NAMES " + name);
    auto const e = thrown_by([&] { write(h.get(), "a"); });
    EXPECT_EQ(e.code(), errc::wrong_transaction) << name;
    EXPECT_THAT(e.what(), HasSubstr(name));
    EXPECT_THAT(e.what(), HasSubstr("utf8mb4")) << "what to do";
    h.execute("SET NAMES utf8mb4");
    write(h.get(), name);
    h.execute("COMMIT");
    EXPECT_TRUE(store->inspect().find(name));
    EXPECT_EQ(rows("orders"), "1");
    db.execute("DELETE FROM " + db.table("orders"));
  }
  EXPECT_FALSE(store->inspect().find("a"));
}

// The transaction ends all the same.
TEST_F(MysqlSession, ACharacterSetThatCannotBeQuotedDoesNotKeepATransactionOpen) {
  plain_handle h{db.url()};
  for (bool const commits : {true, false}) {
    {
      mysql::transaction tx{h.get()};
      tx.execute(insert(commits ? 1 : 2));
      write(tx, commits ? "kept" : "undone");
      tx.execute("SET NAMES gbk");
      if (commits) tx.commit();
    }
    EXPECT_EQ(h.ask("SELECT @@in_transaction"), "0");
    h.execute("SET NAMES utf8mb4");
  }
  ASSERT_TRUE(seen.reach(1)) << "if not hot, then by the poller";
  ASSERT_TRUE(all_settled());
  EXPECT_EQ(seen.total(), 1U);
  EXPECT_EQ(rows("orders"), "1");
}

TEST_F(MysqlSession, I11_OtherSettingsDoNotMatter) {
  for (std::string const settings : {"SESSION time_zone = '+13:00'",
                                     "SESSION time_zone = '-11:30'",
                                     "SESSION sql_select_limit = 1",
                                     "SESSION sql_safe_updates = 1",
                                     "SESSION max_statement_time = 30",
                                     "SESSION completion_type = 'CHAIN'",
                                     "SESSION completion_type = 'RELEASE'",
                                     "SESSION unique_checks = 0, foreign_key_checks = 0",
                                     "SESSION sql_auto_is_null = 1",
                                     "SESSION sql_big_selects = 0, max_join_size = 1000",
                                     "SESSION auto_increment_increment = 7, auto_increment_offset = 3",
                                     "SESSION optimizer_switch = 'default'",
                                     "SESSION innodb_lock_wait_timeout = 1",
                                     "SESSION group_concat_max_len = 4",
                                     "SESSION max_sort_length = 8",
                                     "SESSION sql_quote_show_create = 0",
                                     "SESSION lc_time_names = 'de_DE'",
                                     "SESSION default_week_format = 3",
                                     "SESSION query_cache_type = OFF",
                                     "SESSION eq_range_index_dive_limit = 1",
                                     "SESSION old_mode = ''",
                                     "SESSION big_tables = 1",
                                     "SESSION autocommit = 0"}) {
    expect_unharmed_after("SET " + settings);
  }
}

TEST_F(MysqlSession, I11_AnyIsolationWorks) {
  for (std::string const level : {"READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"}) {
    auto const set = "SET SESSION TRANSACTION ISOLATION LEVEL " + level;
    expect_unharmed_after(set);
    // Its view of the table is older than what follows.
    auto const before = seen.total();
    plain_handle h{db.url()};
    h.execute(set);
    mysql::transaction tx{h.get()};
    tx.execute("SELECT count(*) FROM " + db.table("orders"));
    mysql::connection other{db.url()};
    mysql::transaction elsewhere{other};
    write(elsewhere, "other " + level);
    elsewhere.commit();
    ASSERT_TRUE(seen.reach(before + 1));
    write(tx, level);
    tx.commit();
    ASSERT_TRUE(eventually([&] { return hot.of(level) == 1; })) << level;
  }
}

TEST_F(MysqlSession, AChainOfTheApplicationGoesOn) {
  plain_handle h{db.url()};
  h.execute("SET SESSION completion_type = 'CHAIN'");
  h.execute("START TRANSACTION");
  write(h.get(), "a");
  h.execute("COMMIT");  // the next one is open
  write(h.get(), "b");
  h.execute("COMMIT");
  write(h.get(), "c");
  h.execute("ROLLBACK AND NO CHAIN");
  EXPECT_EQ(thrown_by([&] { write(h.get(), "d"); }).code(), errc::no_transaction);
  box->wake();
  ASSERT_TRUE(seen.reach(2));
  ASSERT_TRUE(all_settled());
  EXPECT_EQ(seen.of("c"), 0);
}

TEST_F(MysqlSession, ATransactionOfOursWorksWithAutocommitOff) {
  plain_handle h{db.url()};
  h.execute("SET autocommit = 0");
  {
    mysql::transaction tx{h.get()};
    tx.execute(insert(1));
    write(tx, "a");
    tx.commit();
    EXPECT_FALSE(tx.active());
  }
  ASSERT_TRUE(hot.reach(1));
  {
    mysql::transaction tx{h.get()};
    write(tx, "b");
  }
  h.execute(insert(2));  // begins one
  EXPECT_EQ(thrown_by([&] { mysql::transaction{h.get()}; }).code(), errc::no_transaction);
  h.execute("COMMIT");
  EXPECT_EQ(rows("orders"), "2");
  EXPECT_EQ(rows(), "1");
}

// An id is its bytes.
TEST_F(MysqlSession, I11_IdsThatLookAlikeAreDifferentEvents) {
  std::vector<std::string> const ids{"a",        "A",   "\xC3\xA1",  "a\xCC\x81",    "\xC3\x81", "a ",       "a  ",
                                     " a",       "a\t", "a\xC2\xA0", "\xEF\xBD\x81", "ss",       "\xC3\x9F", "SS",
                                     "\xC7\x86", "i",   "I",         "\xC4\xB1",     "\xC4\xB0", "a\x01",    "a\x7f"};
  mysql::connection c{db.url()};
  for (auto const& id : ids) {
    mysql::transaction tx{c};
    ASSERT_NO_THROW(write(tx, id)) << id;
    tx.commit();
  }
  ASSERT_TRUE(hot.reach(ids.size()));
  ASSERT_TRUE(all_settled());
  for (auto const& id : ids) {
    EXPECT_EQ(hot.of(id), 1) << id;
    ASSERT_TRUE(store->inspect().find(id)) << id;
    EXPECT_EQ(store->inspect().find(id)->event.id(), id);
    mysql::transaction tx{c};
    EXPECT_EQ(thrown_by([&] { write(tx, id); }).code(), errc::duplicate_event) << id;
  }
}

// Cold, too: claims, renewals and settlements name rows by texts of their own.
TEST_F(MysqlSession, I11_HostileIdsAreClaimedAndSettled) {
  ASSERT_TRUE(box->stop());
  auto const w = writer_only({.store = store, .log = nullptr});
  auto const events = hostile_events("c ");
  mysql::connection c{db.url()};
  mysql::transaction tx{c};
  w.writer().write_all(tx, events);
  tx.commit();
  auto& backend = store->backend();
  auto const claimed = backend.claim({.token = "n'\\/1", .limit = 100, .lease = 30s});
  ASSERT_EQ(claimed.rows.size(), due(events));
  std::vector<spi::row_handle> handles;
  for (auto const& r : claimed.rows) handles.push_back(r.handle);
  EXPECT_EQ(backend.renew(handles, 30s), std::vector<bool>(handles.size(), true));
  std::vector<spi::settlement> ends;
  for (std::size_t i = 0; i < handles.size(); ++i) {
    spi::settlement s{.row = handles[i], .error = "\xE2\x82\xAC\\'\n\x01 \xF0\x9F\x9A\x80", .progress = "\\'\""};
    s.outcome = i % 3 == 0 ? spi::outcome::retry : i % 3 == 1 ? spi::outcome::dead : spi::outcome::defer;
    ends.push_back(s);
  }
  EXPECT_EQ(backend.settle(ends).applied, std::vector<bool>(ends.size(), true));
  for (auto const& s : ends) {
    auto const found = store->inspect().find(s.row.id);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->last_error, s.error);
    EXPECT_EQ(found->progress, s.progress);
  }
}

TEST_F(MysqlSession, ColumnsTakeAsManyCharactersAsTheyPromise) {
  mysql::connection c{db.url()};
  mysql::transaction tx{c};
  auto const e = event::json(rockets(128), "1",
                             {.id = rockets(36),
                              .aggregate = {rockets(64), rockets(128)},
                              .tenant = rockets(64),
                              .ordering_key = rockets(128)});
  box->writer().write(tx, e);
  tx.commit();
  expect_stored({e}, "rockets");
}

TEST_F(MysqlSession, TheFirstAndTheLastInstantAreKept) {
  instant const first = std::chrono::sys_days{std::chrono::year{1} / 1 / 1};
  instant const last = std::chrono::sys_days{std::chrono::year{9999} / 12 / 31} + 24h - std::chrono::microseconds{1};
  mysql::connection c{db.url()};
  mysql::transaction tx{c};
  auto const e = event::json("u", "1", {.id = "a", .occurred_at = first, .available_at = last});
  box->writer().write(tx, e);
  tx.commit();
  expect_stored({e}, "instants");
  EXPECT_TRUE(store->backend().claim({.token = "n/1", .lease = 1h}).rows.empty());
}

// Servers whose operators have set defaults for all sessions. init_connect is not for accounts that may do everything.
class MysqlDefaults : public MysqlSession {
 protected:
  MysqlDefaults() : MysqlSession{own_server()} {}
  void TearDown() override {
    db.execute("SET GLOBAL init_connect = ''");
    db.execute("SET GLOBAL sql_mode = DEFAULT");
    db.execute(
        "SET GLOBAL completion_type = DEFAULT, sql_select_limit = DEFAULT, tx_isolation = DEFAULT, "
        "max_statement_time = DEFAULT, sql_safe_updates = 0, time_zone = DEFAULT, group_concat_max_len = "
        "DEFAULT, in_predicate_conversion_threshold = DEFAULT");
  }

  // A store of this account makes its table, and delivers, puts off and gives up.
  void expect_a_working_store(std::string const& why) {
    auto o = db.options();
    o.table = "box" + std::to_string(++stores_);
    auto const s = mysql::open(account.url(), o);
    tally delivered, hot_ones;
    multi_node_options n{.store = s, .log = nullptr};
    n.poll.every = 20ms;
    n.retry.max_attempts = 2;
    n.retry.backoff = {.base = 1ms, .cap = 2ms};
    n.listeners.on("t", [&](delivery const& d) -> result {
      if (d.id.ends_with("bytes") && d.attempt == 1) return failed{"once"};
      if (d.id.ends_with("empty")) return failed{"'always\\"};
      if (d.path == path::hot) hot_ones.add(d.id);
      delivered.add(d.id);
      return done;
    });
    auto worker = multi_node(std::move(n));
    worker.start();
    mysql::connection c{account.url()};
    c.execute("SET SESSION TRANSACTION READ WRITE");  // what the application must do itself
    auto const events = hostile_events("d ");
    {
      mysql::transaction tx{c};
      worker.writer().write_all(tx, events);
      tx.commit();
    }
    ASSERT_TRUE(delivered.reach(due(events) - 1)) << why;
    EXPECT_TRUE(eventually([&] { return s->inspect().counts().dead == 1; })) << why;
    worker.stop();
    EXPECT_GE(hot_ones.total(), due(events) - 2) << why;
    EXPECT_EQ(s->inspect().counts().done, due(events) - 1) << why;
    EXPECT_EQ(s->inspect().find("d empty")->last_error, "'always\\") << why;
    EXPECT_EQ(s->backend().purge({.retention = 0ms}), due(events)) << why;
  }

  mysql_account account{db, "clerk", {"ALL ON " + db.database() + ".*"}};

 private:
  int stores_ = 0;
};

TEST_F(MysqlDefaults, TheStoreDoesNotDependOnThem) {
  for (std::string const defaults :
       {"sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT,NO_ZERO_DATE'", "sql_mode = ''",
        "sql_mode = 'ORACLE'", "sql_mode = 'EMPTY_STRING_IS_NULL,SIMULTANEOUS_ASSIGNMENT,TRADITIONAL'",
        "completion_type = 'CHAIN'", "completion_type = 'RELEASE'", "sql_select_limit = 1",
        "tx_isolation = SERIALIZABLE", "tx_isolation = 'READ-UNCOMMITTED'", "sql_safe_updates = 1",
        "time_zone = '-09:00'", "group_concat_max_len = 4", "in_predicate_conversion_threshold = 2"}) {
    db.execute("SET GLOBAL " + defaults);
    expect_a_working_store(defaults);
    TearDown();
  }
}

TEST_F(MysqlDefaults, TheStoreDoesNotDependOnWhatRunsAtEachConnect) {
  for (std::string const first :
       {"SET autocommit = 0", "SET NAMES latin1", "SET NAMES gbk", "SET CHARACTER SET latin1",
        "SET sql_mode = 'NO_BACKSLASH_ESCAPES'", "SET autocommit = 0; SET NAMES utf8; SET sql_mode = 'ANSI'",
        "SET SESSION TRANSACTION READ ONLY", "SET SESSION sql_select_limit = 1", "DO 1"}) {
    db.execute("SET GLOBAL init_connect = ?", first);
    expect_a_working_store(first);
  }
}

// "Its character set is utf8mb4", and it can begin a transaction.
TEST_F(MysqlDefaults, AConnectionOfOursDoesNotDependOnWhatRunsAtEachConnect) {
  db.execute("CREATE TABLE " + db.table("texts") + " (v varchar(100) CHARACTER SET utf8mb4)");
  std::string const text = "\xF0\x9F\x9A\x80 \xE2\x82\xAC\\' \\";
  for (std::string const first : {"SET NAMES latin1", "SET NAMES gbk", "SET CHARACTER SET latin1",
                                  "SET sql_mode = 'NO_BACKSLASH_ESCAPES'", "SET autocommit = 0"}) {
    db.execute("SET GLOBAL init_connect = ?", first);
    mysql::connection c{account.url()};
    EXPECT_EQ(c.query_one<std::string>("SELECT ?", text), text) << first;
    mysql::transaction tx{c};
    tx.execute("INSERT INTO " + db.table("texts") + " VALUES (?)", text);
    EXPECT_EQ(tx.query_one<std::string>("SELECT v FROM " + db.table("texts")), text) << first;
  }
}

// The first statement comes before the server has said that it reads texts in another way than it does by default.
TEST_F(MysqlDefaults, AHostileTextInTheFirstStatementIsAValueAndNotSql) {
  db.execute("SET GLOBAL sql_mode = 'NO_BACKSLASH_ESCAPES'");
  db.execute("SET GLOBAL init_connect = 'SET sql_mode = \"\"'");
  mysql::connection c{account.url()};
  EXPECT_EQ(c.query_one<std::string>("SELECT concat(?, ?)", "\\", ", 'x') -- "), "\\, 'x') -- ");
}

}  // namespace
}  // namespace outbox

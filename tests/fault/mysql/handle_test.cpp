// A bare handle of the application that is in a transaction already: what the store can do with it, and what it
// notices.
#include "join_fixture.hpp"

namespace outbox {
namespace {

class MysqlHandle : public MysqlJoin {
 protected:
  void begin() { h.execute("START TRANSACTION"); }
  void commit() { h.execute("COMMIT"); }

  plain_handle h{db.url()};
};

TEST_F(MysqlHandle, ItsEventsWaitForThePollerAndWakeCallsIt) {
  begin();
  h.execute(insert(1));
  write(h.get(), "a");
  commit();
  EXPECT_EQ(db.ask("SELECT count(*) FROM " + db.table() + " WHERE locked_by IS NULL AND lease_until IS NULL"), "1");
  EXPECT_TRUE(nothing_held()) << "nothing tells the node that it was committed";
  box->wake();
  ASSERT_TRUE(seen.reach(1));
  ASSERT_TRUE(all_settled());
  EXPECT_EQ(hot.total(), 0U);
  EXPECT_EQ(seen.of("a"), 1);
  EXPECT_EQ(rows("orders"), "1");
}

TEST_F(MysqlHandle, I2_ARollbackLeavesNothing) {
  begin();
  write(h.get(), "a");
  h.execute("SAVEPOINT s");
  write(h.get(), "b");
  h.execute("ROLLBACK TO s");
  h.execute("ROLLBACK");
  box->wake();
  expect_nothing();
}

TEST_F(MysqlHandle, I2_ASavepointTakesItsEventsAlong) {
  begin();
  write(h.get(), "a");
  h.execute("SAVEPOINT s");
  write(h.get(), "b");
  h.execute("ROLLBACK TO s");
  write(h.get(), "c");
  commit();
  box->wake();
  ASSERT_TRUE(seen.reach(2));
  ASSERT_TRUE(all_settled());
  EXPECT_EQ(seen.of("b"), 0);
  EXPECT_EQ(rows(), "2");
}

TEST_F(MysqlHandle, OutsideATransactionItIsRefused) {
  EXPECT_EQ(thrown_by([&] { write(h.get(), "a"); }).code(), errc::no_transaction);
  begin();
  commit();
  EXPECT_EQ(thrown_by([&] { write(h.get(), "b"); }).code(), errc::no_transaction);
  begin();
  h.execute("CREATE TABLE " + db.table("another") + " (id int)");  // commits
  EXPECT_EQ(thrown_by([&] { write(h.get(), "c"); }).code(), errc::no_transaction);
  EXPECT_EQ(thrown_by([&] { write(static_cast<st_mysql*>(nullptr), "d"); }).code(), errc::no_transaction);
  expect_nothing();
}

TEST_F(MysqlHandle, WithAutocommitOffThereIsAlwaysATransaction) {
  h.execute("SET autocommit = 0");
  write(h.get(), "a");
  EXPECT_EQ(rows(), "0") << "not committed yet";
  commit();
  write(h.get(), "b");
  h.execute("ROLLBACK");
  h.execute(insert(1));
  write(h.get(), "c");
  h.execute("SET autocommit = 1");  // commits
  box->wake();
  ASSERT_TRUE(seen.reach(2));
  ASSERT_TRUE(all_settled());
  EXPECT_EQ(seen.of("b"), 0);
}

TEST_F(MysqlHandle, AnotherServerIsRefusedAndTheTransactionGoesOn) {
  mysql_database elsewhere{own_server()};
  auto n = multi_node({.store = elsewhere.open(), .log = nullptr});
  begin();
  h.execute(insert(1));
  auto const e = thrown_by([&] { n.writer().write(h.get(), "t", "1"); });
  EXPECT_EQ(e.code(), errc::wrong_transaction) << e.what();
  write(h.get(), "a");
  commit();
  EXPECT_EQ(rows("orders"), "1");
  EXPECT_EQ(rows(), "1");
}

// A database of the same name that another table was made in: the names alone do not tell.
TEST_F(MysqlHandle, ATableThatWasMadeAgainIsAnotherOne) {
  auto n = multi_node({.store = db.open(), .log = nullptr});
  mysql::migrate(db.url(), db.options());
  db.execute("DROP TABLE " + db.table() + ", " + db.table("outbox_meta") + ", " + db.table("outbox_node") + ", " +
             db.table("outbox_audit"));
  begin();
  EXPECT_EQ(thrown_by([&] { n.writer().write(h.get(), "t", "1"); }).code(), errc::wrong_transaction);
  h.execute("ROLLBACK");
  mysql::migrate(db.url(), db.options());
  begin();
  EXPECT_EQ(thrown_by([&] { n.writer().write(h.get(), "t", "1"); }).code(), errc::wrong_transaction);
  commit();
  EXPECT_EQ(rows(), "0");
}

TEST_F(MysqlHandle, TheCurrentDatabaseOfTheSessionDoesNotMatter) {
  begin();
  h.execute("USE information_schema");
  write(h.get(), "a");
  commit();
  box->wake();
  ASSERT_TRUE(seen.reach(1));
}

TEST_F(MysqlHandle, ATransactionOfAnotherKindIsRefused) {
  static constexpr transaction_operations other{
      .kind = "postgres",
      .active = [](void const*) noexcept { return true; },
      .enlist = [](void*, std::shared_ptr<transaction_observer>) { return false; }};
  static constexpr transaction_operations nothing{.kind = "mysql", .active = other.active, .enlist = other.enlist};
  for (auto const* const operations : {&other, &nothing}) {
    EXPECT_EQ(thrown_by([&] { write(transaction_ref{nullptr, *operations}, "a"); }).code(), errc::wrong_transaction);
  }
}

// Results that were not read, in every way in which that can be.
TEST_F(MysqlHandle, AConnectionWithUnreadResultsIsBusyAndTheTransactionGoesOn) {
  begin();
  for (bool const first : {true, false}) {  // the first write of a session asks where it leads
    ASSERT_EQ(mysql_query(h.get(), "SELECT 1 UNION SELECT 2"), 0);
    auto* const rows = mysql_use_result(h.get());
    ASSERT_NE(rows, nullptr);
    EXPECT_EQ(thrown_by([&] { write(h.get(), "a"); }).code(), errc::connection_busy);
    EXPECT_NE(mysql_fetch_row(rows), nullptr);
    EXPECT_EQ(thrown_by([&] { write(h.get(), "a"); }).code(), errc::connection_busy);
    mysql_free_result(rows);
    write(h.get(), first ? "a" : "b");
  }
  ASSERT_EQ(mysql_query(h.get(), "SELECT 1"), 0);  // not even looked at
  EXPECT_EQ(thrown_by([&] { write(h.get(), "c"); }).code(), errc::connection_busy);
  mysql_free_result(mysql_store_result(h.get()));
  ASSERT_EQ(mysql_set_server_option(h.get(), MYSQL_OPTION_MULTI_STATEMENTS_ON), 0);
  ASSERT_EQ(mysql_query(h.get(), "SELECT 1; SELECT 2"), 0);
  mysql_free_result(mysql_store_result(h.get()));
  EXPECT_EQ(thrown_by([&] { write(h.get(), "c"); }).code(), errc::connection_busy) << "there is a second result";
  while (mysql_next_result(h.get()) == 0) mysql_free_result(mysql_store_result(h.get()));
  write(h.get(), "c");
  commit();
  EXPECT_EQ(rows(), "3");
}

TEST_F(MysqlHandle, RowsOfAPreparedStatementThatWereNotReadMakeItBusy) {
  begin();
  auto* const s = mysql_stmt_init(h.get());
  std::string_view const sql = "SELECT 1 UNION SELECT 2";
  ASSERT_EQ(mysql_stmt_prepare(s, sql.data(), sql.size()), 0);
  ASSERT_EQ(mysql_stmt_execute(s), 0);
  EXPECT_EQ(thrown_by([&] { write(h.get(), "a"); }).code(), errc::connection_busy);
  mysql_stmt_close(s);
  write(h.get(), "a");
  commit();
  EXPECT_EQ(rows(), "1");
}

// Transactions that the server has ended.

TEST_F(MysqlHandle, I2_AfterADeadlockItIsRefused) {
  db.execute("INSERT INTO " + db.table("orders") + " (id) VALUES (1), (2)");
  for (bool const goes_on : {false, true}) {
    begin();
    h.execute(update(1));
    write(h.get(), "a");
    meet_a_deadlock([&] { EXPECT_EQ(h.attempt(update(2)), 1213U); });
    if (goes_on) h.execute("SELECT 1");
    EXPECT_EQ(thrown_by([&] { write(h.get(), "b"); }).code(), errc::no_transaction);
    begin();
    h.execute("ROLLBACK");
  }
  expect_nothing();
}

// What else rolls back everything: a lock that was waited for too long, if the server is told so.
TEST_F(MysqlHandle, I2_AfterAnErrorThatRolledBackEverythingItIsRefused) {
  if (h.attempt("SET SESSION innodb_snapshot_isolation = ON") != 0) GTEST_SKIP() << "this server does not have it";
  db.execute("INSERT INTO " + db.table("orders") + " (id) VALUES (1)");
  begin();
  h.execute("SELECT * FROM " + db.table("orders"));  // the snapshot
  write(h.get(), "a");
  db.execute(update(1));
  EXPECT_NE(h.attempt(update(1)), 0U) << "the row is not that of the snapshot";
  EXPECT_EQ(thrown_by([&] { write(h.get(), "b"); }).code(), errc::no_transaction);
  expect_nothing();
}

// Other errors undo one statement.
TEST_F(MysqlHandle, AfterAnErrorThatUndoesAStatementTheTransactionGoesOn) {
  begin();
  h.execute(insert(1));
  EXPECT_EQ(h.attempt(insert(1)), 1062U);
  write(h.get(), "a");
  EXPECT_NE(h.attempt("nonsense"), 0U);
  write(h.get(), "b");
  EXPECT_EQ(thrown_by([&] { write(h.get(), "b"); }).code(), errc::duplicate_event);
  write(h.get(), "c");
  commit();
  EXPECT_EQ(rows(), "3");
  EXPECT_EQ(rows("orders"), "1");
}

// The client library forgets the error when the statement is closed, and believes that the transaction goes on.
TEST_F(MysqlHandle, I2_AnEventIsNotCommittedByItself) {
  db.execute("INSERT INTO " + db.table("orders") + " (id) VALUES (1), (2)");
  begin();
  h.execute(update(1));
  write(h.get(), "a");
  meet_a_deadlock([&] {
    auto* const s = mysql_stmt_init(h.get());
    auto const sql = update(2);
    EXPECT_EQ(mysql_stmt_prepare(s, sql.data(), sql.size()), 0);
    EXPECT_NE(mysql_stmt_execute(s), 0);
    mysql_stmt_close(s);
  });
  EXPECT_EQ(thrown_by([&] { write(h.get(), "b"); }).code(), errc::no_transaction);
  expect_nothing();
}

// On MySQL there is nothing in a statement that asks for a transaction, so the error comes too late, and says so.
TEST_F(MysqlHandle, I1_WithTheStatementsOfMysqlAnEventThatWasCommittedByItselfIsAnError) {
  auto o = db.options();
  o.flavour = mysql::flavour::mysql;
  auto const n = multi_node({.store = mysql::open(db.url(), o), .log = nullptr});
  begin();
  n.writer().write(h.get(), "t", "1", {.id = "a"});
  ASSERT_EQ(mysql_reset_connection(h.get()), 0);  // rolls back, and the client library does not note it
  EXPECT_TRUE(thrown_by([&] { n.writer().write(h.get(), "t", "1", {.id = "b"}); }).in_doubt());
  EXPECT_EQ(rows(), "1");
}

TEST_F(MysqlHandle, I2_ASessionThatWasEndedIsUnavailableAndNothingIsWritten) {
  begin();
  write(h.get(), "a");
  end_session(h.id());
  auto const e = thrown_by([&] { write(h.get(), "b"); });
  EXPECT_EQ(e.code(), errc::unavailable) << e.what();
  EXPECT_THROW(write(h.get(), "c"), error);
  expect_nothing();
}

// The client makes the connection again by itself, and the transaction is gone: the next event would be alone.
TEST_F(MysqlHandle, I2_AConnectionThatIsMadeAgainByItselfWritesNoEventAlone) {
  for (bool const known : {false, true}) {
    for (auto const* const first : {"START TRANSACTION", "SET autocommit = 0"}) {
      plain_handle again{db.url(), true};
      if (known) {
        again.execute("START TRANSACTION");
        write(again.get(), "first");
        again.execute("ROLLBACK");
      }
      again.execute(first);
      auto const id = again.id();
      end_session(id);
      for (int i = 0; i < 3; ++i) {
        EXPECT_THROW(write(again.get(), "e" + std::to_string(i)), error) << first << ", attempt " << i;
      }
      EXPECT_EQ(rows(), "0") << first << (known ? ", known" : "");
      EXPECT_EQ(again.attempt("START TRANSACTION"), 0U);
      EXPECT_NE(again.id(), id);
      EXPECT_NO_THROW(write(again.get(), "last"));
      again.execute("ROLLBACK");
    }
  }
  expect_nothing();
}

// The first phase of two makes it prepared: it is no transaction of the session then.
TEST_F(MysqlHandle, AnXaTransactionIsDeliveredWhenItIsCommitted) {
  h.execute("XA START 'x" + db.database() + "'");
  try {
    write(h.get(), "a");
  } catch (error const& e) {
    h.execute("XA END 'x" + db.database() + "'");
    h.execute("XA ROLLBACK 'x" + db.database() + "'");
    FAIL() << e.what();
  }
  h.execute("XA END 'x" + db.database() + "'");
  h.execute("XA PREPARE 'x" + db.database() + "'");
  EXPECT_THROW(write(h.get(), "b"), error);
  EXPECT_EQ(seen.total(), 0U);
  h.execute("XA COMMIT 'x" + db.database() + "'");
  box->wake();
  ASSERT_TRUE(seen.reach(1));
  ASSERT_TRUE(all_settled());
  EXPECT_EQ(seen.total(), 1U);
}

TEST_F(MysqlHandle, ATransactionThatMayOnlyReadRefusesTheEvent) {
  h.execute("START TRANSACTION READ ONLY");
  auto const e = thrown_by([&] { write(h.get(), "a"); });
  EXPECT_EQ(e.sqlstate(), "25006") << e.what();
  h.execute("ROLLBACK");
  expect_nothing();
}

// Where the connection leads.

TEST_F(MysqlHandle, SeveralStoresOnOneHandle) {
  auto o = db.options();
  o.table = "billing";
  mysql_database elsewhere{server};
  tally others;
  std::vector<node> nodes;
  for (auto const& store : {mysql::open(db.url(), o), elsewhere.open()}) {
    multi_node_options n{.store = store, .log = nullptr};
    n.poll.every = 1h;
    n.listeners.on("t", [&](delivery const& d) { others.add(d.id); });
    nodes.push_back(multi_node(std::move(n)));
    nodes.back().start();
  }
  begin();
  write(h.get(), "same");
  for (auto& n : nodes) n.writer().write(h.get(), "t", "1", {.id = "same"});
  commit();
  box->wake();
  for (auto& n : nodes) n.wake();
  ASSERT_TRUE(seen.reach(1));
  ASSERT_TRUE(others.reach(2));
  for (auto& n : nodes) n.stop();
  EXPECT_EQ(others.of("same"), 2);
}

TEST_F(MysqlHandle, WhereASessionLeadsIsAskedOnce) {
  auto const second = multi_node({.store = db.open(), .log = nullptr});  // another store on the same table
  auto const sent = [&](int events, writer const& w) {
    auto const before = h.statements();
    for (int i = 0; i < events; ++i) w.write(h.get(), "t", "1");
    return h.statements() - before - 1;
  };
  begin();
  EXPECT_EQ(sent(1, box->writer()), 2) << "the question and the INSERT";
  EXPECT_EQ(sent(3, box->writer()), 3);
  EXPECT_EQ(sent(3, second.writer()), 3);
  commit();
  begin();
  EXPECT_EQ(sent(1, box->writer()), 1);
  commit();
  auto o = db.options();
  o.table = "billing";
  auto const third = multi_node({.store = mysql::open(db.url(), o), .log = nullptr});
  begin();
  EXPECT_EQ(sent(2, third.writer()), 3) << "another table is another question";
  EXPECT_EQ(sent(1, box->writer()), 1);
  EXPECT_EQ(sent(1, third.writer()), 1);
  commit();
}

TEST_F(MysqlHandle, EveryEventOfAWriteOfManyIsOneStatement) {
  begin();
  write(h.get(), "first");
  auto const before = h.statements();
  box->writer().write_all(h.get(), std::vector{event::json("t", "1"), event::json("t", "2"), event::json("t", "3")});
  EXPECT_EQ(h.statements() - before - 1, 1);
  commit();
  EXPECT_EQ(rows(), "4");
}

// What the session was told about the table outlives neither the session nor, if it says so, the handle.
TEST_F(MysqlHandle, ASessionThatWasResetGoesOn) {
  auto const a = mysql::parse_url(db.url());
  auto const write_one = [&](std::string const& id) {
    begin();
    write(h.get(), id);
    commit();
  };
  write_one("a");
  ASSERT_EQ(mysql_reset_connection(h.get()), 0);
  write_one("b");
  ASSERT_EQ(
      mysql_change_user(h.get(), a.user.c_str(), a.password.empty() ? nullptr : a.password.c_str(), a.database.c_str()),
      0);
  write_one("c");
  EXPECT_EQ(rows(), "3");
  begin();
  write(h.get(), "undone");
  ASSERT_EQ(mysql_reset_connection(h.get()), 0);  // rolls back, and the client library does not note it
  EXPECT_EQ(thrown_by([&] { write(h.get(), "d"); }).code(), errc::no_transaction);
  begin();
  write(h.get(), "undone");
  ASSERT_EQ(
      mysql_change_user(h.get(), a.user.c_str(), a.password.empty() ? nullptr : a.password.c_str(), a.database.c_str()),
      0);
  EXPECT_EQ(thrown_by([&] { write(h.get(), "e"); }).code(), errc::no_transaction);
  EXPECT_EQ(rows(), "3");
}

TEST_F(MysqlHandle, AnotherUserOfTheSameSessionNeedsItsOwnRights) {
  begin();
  write(h.get(), "a");
  commit();
  mysql_account const guest{db, "guest", {"SELECT ON " + db.table("orders")}};
  ASSERT_EQ(mysql_change_user(h.get(), guest.name().c_str(), nullptr, db.database().c_str()), 0);
  begin();
  auto const e = thrown_by([&] { write(h.get(), "b"); });
  EXPECT_EQ(e.code(), errc::store_failure) << e.what();
  h.execute("ROLLBACK");
  EXPECT_EQ(rows(), "1");
}

TEST_F(MysqlHandle, AConnectionThatWasMadeAgainIsAskedAgain) {
  plain_handle again{db.url(), true};
  again.execute("START TRANSACTION");
  write(again.get(), "a");
  again.execute("COMMIT");
  end_session(again.id());
  static_cast<void>(again.attempt("DO 1"));  // notices, and the next one connects
  again.execute("START TRANSACTION");
  auto const before = again.statements();
  write(again.get(), "b");
  EXPECT_EQ(again.statements() - before - 1, 2);
  again.execute("COMMIT");
  EXPECT_EQ(rows(), "2");
}

TEST_F(MysqlHandle, WithoutTheRightToReadTheCompanionTheErrorSaysWhatToGrant) {
  mysql_account const clerk{db, "clerk", {"INSERT ON " + db.table(), "SELECT, INSERT ON " + db.table("orders")}};
  plain_handle c{clerk.url()};
  c.execute("START TRANSACTION");
  auto const e = thrown_by([&] { write(c.get(), "a"); });
  EXPECT_EQ(e.code(), errc::store_failure);
  EXPECT_THAT(e.what(), HasSubstr("GRANT SELECT"));
  EXPECT_THAT(e.what(), HasSubstr("outbox_meta"));
  c.execute(insert(1));
  c.execute("COMMIT");
  EXPECT_EQ(rows("orders"), "1") << "the transaction lives";
}

}  // namespace
}  // namespace outbox

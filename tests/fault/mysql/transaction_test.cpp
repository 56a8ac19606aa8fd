// mysql::transaction on a connection of ours and on a handle of the application: every way in which it can end.
#include <functional>

#include "join_fixture.hpp"

namespace outbox {
namespace {

// The two things that a transaction can begin on.
struct on_connection {
  static constexpr char const* name = "connection";
  explicit on_connection(std::string const& url) : c{url} {}
  mysql::connection& target() { return c; }
  [[nodiscard]] st_mysql* handle() const { return c.handle(); }
  mysql::connection c;
};

struct on_handle {
  static constexpr char const* name = "handle";
  explicit on_handle(std::string const& url) : c{url} {}
  st_mysql* target() { return c.get(); }
  [[nodiscard]] st_mysql* handle() const { return c.get(); }
  plain_handle c;
};

struct client_name {
  template <class Client>
  static std::string GetName(int /*index*/) {
    return Client::name;
  }
};

// Returns the number of the error; 0: none.
unsigned attempt(st_mysql* c, std::string const& sql) {
  if (mysql_real_query(c, sql.data(), sql.size()) != 0) return mysql_errno(c);
  if (auto* const rows = mysql_store_result(c)) mysql_free_result(rows);
  return mysql_errno(c);
}
void run(st_mysql* c, std::string const& sql) { ASSERT_EQ(attempt(c, sql), 0U) << sql << ": " << mysql_error(c); }

template <class Client>
class MysqlTransaction : public MysqlJoin {
 protected:
  tcp_proxy proxy{server.port()};
  std::string through_proxy = server.connection_through(proxy.port(), db.database());
  Client client{through_proxy};
};

using Clients = ::testing::Types<on_connection, on_handle>;
TYPED_TEST_SUITE(MysqlTransaction, Clients, client_name);

TYPED_TEST(MysqlTransaction, ACommitHandsTheEventOver) {
  mysql::transaction tx{this->client.target()};
  EXPECT_TRUE(tx.active());
  EXPECT_EQ(tx.handle(), this->client.handle());
  tx.execute(this->insert(1));
  this->write(tx, "a");
  tx.commit();
  EXPECT_FALSE(tx.active());
  ASSERT_TRUE(this->seen.reach(1));
  EXPECT_EQ(this->hot.of("a"), 1);
  ASSERT_TRUE(this->all_settled());
  EXPECT_EQ(this->rows("orders"), "1");
  EXPECT_EQ(this->box->counters().cold_enqueued, 0U);
}

TYPED_TEST(MysqlTransaction, OneAfterTheOtherOnOneConnection) {
  for (int i = 0; i < 20; ++i) {
    mysql::transaction tx{this->client.target()};
    tx.execute(this->insert(i));
    this->write(tx, "e" + std::to_string(i));
    if (i % 2 == 0) {
      tx.commit();
    } else if (i % 4 == 1) {
      tx.rollback();
    }  // else its destructor rolls back
  }
  ASSERT_TRUE(this->seen.reach(10));
  ASSERT_TRUE(this->all_settled());
  ASSERT_TRUE(this->nothing_held());
  EXPECT_EQ(this->hot.total(), 10U);
  EXPECT_EQ(this->seen.of("e1"), 0);
  EXPECT_EQ(this->seen.of("e3"), 0);
  EXPECT_EQ(this->rows("orders"), "10");
}

TYPED_TEST(MysqlTransaction, I2_ARollbackLeavesNothing) {
  {
    mysql::transaction tx{this->client.target()};
    this->write(tx, "a");
    tx.rollback();
    EXPECT_FALSE(tx.active());
    EXPECT_NO_THROW(tx.rollback());
    EXPECT_EQ(thrown_by([&] { tx.commit(); }).code(), errc::no_transaction);
    EXPECT_EQ(thrown_by([&] { tx.execute("DO 1"); }).code(), errc::no_transaction);
    EXPECT_EQ(thrown_by([&] { this->write(tx, "b"); }).code(), errc::no_transaction);
    EXPECT_EQ(thrown_by([&] { tx.savepoint("s"); }).code(), errc::no_transaction);
  }
  {
    mysql::transaction tx{this->client.target()};
    this->write(tx, "c");
  }
  this->expect_nothing();
}

TYPED_TEST(MysqlTransaction, ASecondOneOnTheSameConnectionIsRefused) {
  mysql::transaction tx{this->client.target()};
  EXPECT_EQ(thrown_by([&] { mysql::transaction{this->client.target()}; }).code(), errc::no_transaction);
  EXPECT_TRUE(tx.active());
  this->write(tx, "a");
  tx.commit();
  ASSERT_TRUE(this->hot.reach(1));
}

// Savepoints.

TYPED_TEST(MysqlTransaction, I2_ASavepointTakesItsEventsAlong) {
  mysql::transaction tx{this->client.target()};
  this->write(tx, "a");
  tx.savepoint("outer_one");
  this->write(tx, "b");
  tx.savepoint("select");  // a reserved word is a name like any other
  this->write(tx, "c");
  tx.rollback_to("select");
  tx.release_savepoint("select");
  EXPECT_EQ(thrown_by([&] { tx.rollback_to("select"); }).code(), errc::store_failure);
  EXPECT_TRUE(tx.active());
  tx.rollback_to("outer_one");
  this->write(tx, "d");
  tx.savepoint("outer_one");  // replaces the first one
  tx.rollback_to("outer_one");
  tx.commit();
  ASSERT_TRUE(this->seen.reach(2));
  ASSERT_TRUE(this->all_settled());
  ASSERT_TRUE(this->nothing_held());
  EXPECT_EQ(this->hot.of("a"), 1);
  EXPECT_EQ(this->hot.of("d"), 1);
  EXPECT_EQ(this->seen.total(), 2U);
  EXPECT_EQ(this->rows(), "2");
}

TYPED_TEST(MysqlTransaction, BadNamesOfSavepointsAreRefusedBeforeAnyStatement) {
  mysql::transaction tx{this->client.target()};
  for (std::string const& name :
       std::vector<std::string>{"", "a b", "a`b", "1a", "a;DROP TABLE x", "a-b", "\xC3\xA9", std::string(49, 'a')}) {
    for (auto const mark :
         {&mysql::transaction::savepoint, &mysql::transaction::rollback_to, &mysql::transaction::release_savepoint}) {
      auto const e = thrown_by([&] { (tx.*mark)(name); });
      EXPECT_EQ(e.code(), errc::invalid_option) << name;
      EXPECT_EQ(e.field(), "name") << name;
    }
  }
  // The server does not tell capitals from small letters here.
  for (auto const* const ours : {"outbox_write", "OUTBOX_WRITE", "Outbox_Write"}) {
    EXPECT_EQ(thrown_by([&] { tx.savepoint(ours); }).code(), errc::invalid_option) << ours;
  }
  EXPECT_NO_THROW(tx.savepoint(std::string(48, 'a')));
  EXPECT_EQ(thrown_by([&] { tx.rollback_to("nowhere"); }).code(), errc::store_failure);
  EXPECT_EQ(thrown_by([&] { tx.release_savepoint("nowhere"); }).code(), errc::store_failure);
  this->write(tx, "a");
  tx.commit();
  ASSERT_TRUE(this->hot.reach(1));
}

TYPED_TEST(MysqlTransaction, I2_ASavepointBySqlOnTheHandleTakesItsEventsAlong) {
  mysql::transaction tx{this->client.target()};
  this->write(tx, "first");
  for (int i = 0; i < 30; ++i) {
    run(tx.handle(), "SAVEPOINT s");
    this->write(tx, "undone" + std::to_string(i));
    run(tx.handle(), "ROLLBACK TO s");
  }
  this->write(tx, "last");
  tx.commit();
  ASSERT_TRUE(this->seen.reach(2));
  ASSERT_TRUE(this->all_settled());
  ASSERT_TRUE(this->nothing_held());
  EXPECT_EQ(this->hot.of("first"), 1);
  EXPECT_EQ(this->hot.of("last"), 1);
  EXPECT_EQ(this->seen.total(), 2U);
}

// A retry within the transaction, with the same event. A second node polls as fast as it can, to be quicker than the
// first one's commit.
TYPED_TEST(MysqlTransaction, I7_AnEventWrittenAgainAfterASavepointIsDeliveredOnce) {
  auto o = this->node_options(this->db.open());
  o.poll.every = 1ms;
  auto fast = multi_node(std::move(o));
  fast.start();
  for (int i = 0; i < 30; ++i) {
    auto const e = event::json("t", "1");
    mysql::transaction tx{this->client.target()};
    tx.savepoint("s");
    this->box->writer().write(tx, e);
    tx.rollback_to("s");
    this->box->writer().write(tx, e);
    tx.commit();
  }
  ASSERT_TRUE(this->seen.reach(30));
  ASSERT_TRUE(this->all_settled());
  fast.stop();
  this->box->stop();
  EXPECT_EQ(this->seen.total(), 30U) << "each once";
}

// The rows of a piece that was sent before must not be committed without the rest.
TYPED_TEST(MysqlTransaction, I2_AWriteOfManyThatFailsLeavesNothingOfItself) {
  {
    mysql::transaction tx{this->client.target()};
    this->write(tx, "e2400");
    tx.commit();
  }
  ASSERT_TRUE(this->hot.reach(1));
  std::vector<event> events;
  for (int i = 0; i < 2500; ++i) events.push_back(event::json("t", "1", {.id = "e" + std::to_string(i)}));
  mysql::transaction tx{this->client.target()};
  this->write(tx, "before");
  EXPECT_EQ(thrown_by([&] { this->box->writer().write_all(tx, events); }).code(), errc::duplicate_event);
  EXPECT_TRUE(tx.active());
  this->write(tx, "after");
  tx.commit();
  ASSERT_TRUE(this->hot.reach(3));
  ASSERT_TRUE(this->nothing_held());
  EXPECT_EQ(this->rows(), "3") << "the one that was there, before and after";
}

// The same for a statement that waits too long, which the server undoes alone: the transaction goes on.
TYPED_TEST(MysqlTransaction, I2_AWriteOfManyThatWaitsTooLongLeavesNothingOfItself) {
  plain_handle other{this->db.url()};
  other.execute("START TRANSACTION");
  other.execute("INSERT INTO " + this->db.table() +
                " (event_id, event_type, payload, available_at, created_at) VALUES ('e9', 't', '1', utc_timestamp(6), "
                "utc_timestamp(6))");
  std::string const large = '"' + std::string(900'000, 'x') + '"';
  std::vector<event> events;
  for (int i = 0; i < 10; ++i) events.push_back(event::json("t", large, {.id = "e" + std::to_string(i)}));
  mysql::transaction tx{this->client.target()};
  tx.execute("SET SESSION innodb_lock_wait_timeout = 1");
  auto const e = thrown_by([&] { this->box->writer().write_all(tx, events); });
  EXPECT_EQ(e.code(), errc::unavailable) << e.what();
  EXPECT_EQ(e.sqlstate(), "HYT00") << e.what();
  EXPECT_TRUE(tx.active());
  this->write(tx, "after");
  tx.commit();
  other.execute("ROLLBACK");
  ASSERT_TRUE(this->hot.reach(1));
  ASSERT_TRUE(this->nothing_held());
  EXPECT_EQ(this->rows(), "1");
}

TYPED_TEST(MysqlTransaction, I2_ADuplicateIdIsRefusedAtOnceAndTheTransactionGoesOn) {
  for (int i = 0; i < 2; ++i) {
    mysql::transaction tx{this->client.target()};
    if (i == 0) {
      this->write(tx, "same");
    } else {
      EXPECT_EQ(thrown_by([&] { this->write(tx, "same"); }).code(), errc::duplicate_event);
      EXPECT_TRUE(tx.active());
      this->write(tx, "other");
    }
    tx.commit();
  }
  ASSERT_TRUE(this->hot.reach(2));
  ASSERT_TRUE(this->all_settled());
  ASSERT_TRUE(this->nothing_held());
  EXPECT_EQ(this->seen.of("same"), 1);
  EXPECT_EQ(this->seen.of("other"), 1);
}

TYPED_TEST(MysqlTransaction, ManyEventsAtOnce) {
  std::vector<event> events;
  for (int i = 0; i < 1000; ++i) events.push_back(event::json("t", std::to_string(i), {.id = "e" + std::to_string(i)}));
  mysql::transaction tx{this->client.target()};
  EXPECT_EQ(this->box->writer().write_all(tx, events).size(), 1000U);
  tx.commit();
  ASSERT_TRUE(this->seen.reach(1000));
  ASSERT_TRUE(this->all_settled());
  EXPECT_EQ(this->rows(), "1000");
  EXPECT_EQ(this->seen.total(), 1000U);
}

// SQL that ends the transaction behind the back of the object.

TYPED_TEST(MysqlTransaction, I1_SqlThatCommitsImplicitlyLosesNothing) {
  mysql::transaction tx{this->client.target()};
  this->write(tx, "a");
  tx.execute("CREATE TABLE " + this->db.table("another") + " (id int)");
  EXPECT_FALSE(tx.active());
  EXPECT_EQ(thrown_by([&] { this->write(tx, "b"); }).code(), errc::no_transaction);
  EXPECT_EQ(thrown_by([&] { tx.execute(this->insert(1)); }).code(), errc::no_transaction) << "it would be alone";
  EXPECT_EQ(thrown_by([&] { tx.commit(); }).code(), errc::no_transaction);
  ASSERT_TRUE(this->seen.reach(1)) << "the node was told that the end is in doubt";
  ASSERT_TRUE(this->all_settled());
  EXPECT_EQ(this->seen.of("a"), 1);
  EXPECT_EQ(this->hot.total(), 0U);
  EXPECT_EQ(this->rows("orders"), "0");
}

TYPED_TEST(MysqlTransaction, I1_ACommitBySqlOnTheHandleLosesNothing) {
  for (bool const asks : {true, false}) {
    auto const id = asks ? "asked" : "destroyed";
    mysql::transaction tx{this->client.target()};
    this->write(tx, id);
    run(tx.handle(), "COMMIT");
    EXPECT_FALSE(tx.active());
    if (asks) {
      EXPECT_EQ(thrown_by([&] { tx.commit(); }).code(), errc::no_transaction);
    }
  }
  ASSERT_TRUE(this->seen.reach(2));
  ASSERT_TRUE(this->all_settled());
  EXPECT_EQ(this->seen.total(), 2U);
}

TYPED_TEST(MysqlTransaction, I2_ARollbackBySqlOnTheHandleDeliversNothing) {
  for (bool const asks : {true, false}) {
    mysql::transaction tx{this->client.target()};
    this->write(tx, "a");
    run(tx.handle(), "ROLLBACK");
    EXPECT_FALSE(tx.active());
    if (asks) {
      EXPECT_EQ(thrown_by([&] { tx.commit(); }).code(), errc::no_transaction);
    }
  }
  this->expect_nothing();
}

// Another transaction is open at the end, so that nothing but the rows tells what happened.
TYPED_TEST(MysqlTransaction, I2_WhatAnotherTransactionOnTheHandleHasUndoneIsNotDelivered) {
  mysql::transaction tx{this->client.target()};
  this->write(tx, "undone");
  run(tx.handle(), "ROLLBACK");
  run(tx.handle(), "START TRANSACTION");
  this->write(tx, "kept");
  tx.commit();
  ASSERT_TRUE(this->seen.reach(1));
  ASSERT_TRUE(this->all_settled());
  ASSERT_TRUE(this->nothing_held());
  EXPECT_EQ(this->hot.of("kept"), 1);
  EXPECT_EQ(this->seen.total(), 1U);
}

TYPED_TEST(MysqlTransaction, I1_WhatAnotherTransactionOnTheHandleHasCommittedIsDelivered) {
  auto o = this->node_options(this->db.open());
  o.lease.duration = 1s;  // the rows that were told to be rolled back have an owner
  o.poll.every = 20ms;
  auto n = multi_node(std::move(o));
  n.start();
  for (bool const commits : {true, false}) {
    auto const id = commits ? "then committed" : "then rolled back";
    mysql::transaction tx{this->client.target()};
    n.writer().write(tx, "t", "1", {.id = id});
    run(tx.handle(), "COMMIT");
    run(tx.handle(), "START TRANSACTION");
    if (commits) tx.commit();
  }
  ASSERT_TRUE(this->seen.reach(2));
  ASSERT_TRUE(this->all_settled());
  n.stop();
  EXPECT_EQ(this->seen.total(), 2U);
  EXPECT_EQ(this->hot.of("then committed"), 1);
}

// Deadlocks: the server has rolled back everything, and its answer does not say so.

TYPED_TEST(MysqlTransaction, I2_ADeadlockEndsTheTransaction) {
  this->db.execute("INSERT INTO " + this->db.table("orders") + " (id) VALUES (1), (2)");
  {
    mysql::transaction tx{this->client.target()};
    tx.execute(this->update(1));
    this->write(tx, "a");
    this->meet_a_deadlock([&] {
      auto const e = thrown_by([&] { tx.execute(this->update(2)); });
      EXPECT_EQ(e.code(), errc::unavailable) << e.what();
      EXPECT_EQ(e.sqlstate(), "40001");
    });
    EXPECT_FALSE(tx.active());
    EXPECT_EQ(thrown_by([&] { tx.execute(this->insert(7)); }).code(), errc::no_transaction);
    EXPECT_EQ(thrown_by([&] { this->write(tx, "b"); }).code(), errc::no_transaction);
    EXPECT_EQ(thrown_by([&] { tx.commit(); }).code(), errc::no_transaction);
  }
  this->expect_nothing();
  EXPECT_EQ(this->rows("orders"), "2");
  mysql::transaction again{this->client.target()};  // as the class comment advises
  again.execute(this->update(1));
  this->write(again, "a");
  again.commit();
  ASSERT_TRUE(this->hot.reach(1));
}

TYPED_TEST(MysqlTransaction, I2_ADeadlockInWriteEndsTheTransaction) {
  this->db.execute("INSERT INTO " + this->db.table("orders") + " (id) VALUES (1), (2)");
  plain_handle other{this->db.url()};
  other.execute("START TRANSACTION");
  for (int i = 100; i < 140; ++i) other.execute(this->insert(i));
  other.execute("INSERT INTO " + this->db.table() +
                " (event_id, event_type, payload, available_at, created_at) VALUES ('same', 't', '1', "
                "utc_timestamp(6), utc_timestamp(6))");
  {
    mysql::transaction tx{this->client.target()};
    tx.execute(this->update(1));
    std::jthread const second{[&] {
      EXPECT_EQ(other.attempt(this->update(1)), 0U);
      other.execute("ROLLBACK");
    }};
    auto const e = thrown_by([&] { this->write(tx, "same"); });
    EXPECT_EQ(e.sqlstate(), "40001") << e.what();
    EXPECT_FALSE(tx.active());
    EXPECT_EQ(thrown_by([&] { tx.execute(this->insert(7)); }).code(), errc::no_transaction);
    EXPECT_EQ(thrown_by([&] { tx.commit(); }).code(), errc::no_transaction);
  }
  this->expect_nothing();
  EXPECT_EQ(this->rows("orders"), "2");
}

TYPED_TEST(MysqlTransaction, I2_ADeadlockThatTheApplicationSwallowsEndsTheTransaction) {
  this->db.execute("INSERT INTO " + this->db.table("orders") + " (id) VALUES (1), (2)");
  for (bool const goes_on : {false, true}) {
    mysql::transaction tx{this->client.target()};
    tx.execute(this->update(1));
    this->write(tx, "a");
    this->meet_a_deadlock([&] { EXPECT_EQ(attempt(tx.handle(), this->update(2)), 1213U); });
    if (goes_on) run(tx.handle(), "SELECT 1");
    EXPECT_FALSE(tx.active());
    EXPECT_EQ(thrown_by([&] { this->write(tx, "b"); }).code(), errc::no_transaction);
    EXPECT_EQ(thrown_by([&] { tx.execute(this->insert(7)); }).code(), errc::no_transaction);
    EXPECT_EQ(thrown_by([&] { tx.commit(); }).code(), errc::no_transaction);
  }
  this->expect_nothing();
  EXPECT_EQ(this->rows("orders"), "2");
}

// There are other errors after which the server has rolled back everything.
TYPED_TEST(MysqlTransaction, I2_AnyErrorThatRollsBackEverythingEndsTheTransaction) {
  this->db.execute("INSERT INTO " + this->db.table("orders") + " (id) VALUES (1)");
  {
    mysql::transaction tx{this->client.target()};
    try {
      tx.execute("SET SESSION innodb_snapshot_isolation = ON");
    } catch (error const&) {
      GTEST_SKIP() << "this server does not have it";
    }
    EXPECT_EQ(tx.query_one<int>("SELECT n FROM " + this->db.table("orders")), 0);  // the snapshot
    this->write(tx, "a");
    this->db.execute(this->update(1));
    EXPECT_THROW(tx.execute(this->update(1)), error) << "the row is not that of the snapshot";
    EXPECT_EQ(thrown_by([&] { this->write(tx, "b"); }).code(), errc::no_transaction);
    EXPECT_EQ(thrown_by([&] { tx.execute(this->insert(7)); }).code(), errc::no_transaction);
    EXPECT_EQ(thrown_by([&] { tx.commit(); }).code(), errc::no_transaction);
  }
  this->expect_nothing();
  EXPECT_EQ(this->rows("orders"), "1");
  EXPECT_NO_THROW(mysql::transaction{this->client.target()});
}

// What COMMIT can meet.

// A question that the server refuses for a reason nobody has thought of leaves the transaction as it was.
TYPED_TEST(MysqlTransaction, I1_AQuestionThatTheServerRefusesDoesNotKeepItFromCommitting) {
  std::vector<event> events;
  for (int i = 0; i < 50; ++i) events.push_back(event::json("t", "1"));
  {
    mysql::transaction tx{this->client.target()};
    this->box->writer().write_all(tx, events);
    tx.execute(this->insert(1));
    tx.execute("SET SESSION max_join_size = 1, sql_big_selects = 0");
    EXPECT_NO_THROW(tx.commit());
  }
  EXPECT_EQ(this->rows("orders"), "1");
  ASSERT_TRUE(this->seen.reach(50)) << "if not hot, then by the poller";
  ASSERT_TRUE(this->all_settled());
  EXPECT_EQ(this->seen.total(), 50U);
  EXPECT_NO_THROW(mysql::transaction{this->client.target()}) << "nothing is open";
}

TYPED_TEST(MysqlTransaction, ASessionThatEndedBeforeCommitIsInDoubtAndNothingIsDelivered) {
  {
    mysql::transaction tx{this->client.target()};
    tx.execute(this->insert(1));
    this->write(tx, "a");
    this->end_session(mysql_thread_id(tx.handle()));
    auto const e = thrown_by([&] { tx.commit(); });
    EXPECT_TRUE(e.in_doubt()) << e.what();
    EXPECT_FALSE(tx.active());
    EXPECT_EQ(thrown_by([&] { tx.commit(); }).code(), errc::no_transaction);
  }
  this->expect_nothing();
  EXPECT_EQ(this->rows("orders"), "0");
  EXPECT_EQ(thrown_by([&] { mysql::transaction{this->client.target()}; }).code(), errc::unavailable);
}

TYPED_TEST(MysqlTransaction, ASessionThatEndedBeforeAStatementIsUnavailable) {
  {
    mysql::transaction tx{this->client.target()};
    this->write(tx, "a");
    this->end_session(mysql_thread_id(tx.handle()));
    EXPECT_EQ(thrown_by([&] { tx.execute(this->insert(1)); }).code(), errc::unavailable);
    EXPECT_THROW(this->write(tx, "b"), error);
    EXPECT_THROW(tx.commit(), error);
  }
  this->expect_nothing();
}

TYPED_TEST(MysqlTransaction, I2_AConnectionCutInCommitIsInDoubt) {
  mysql::transaction tx{this->client.target()};
  this->write(tx, "a");
  this->proxy.cut_commit(tcp_proxy::cut::before_request);
  auto const e = thrown_by([&] { tx.commit(); });
  EXPECT_TRUE(e.in_doubt()) << e.what();
  this->expect_nothing();
}

TYPED_TEST(MysqlTransaction, I1_AConnectionCutAfterCommitLosesNothing) {
  mysql::transaction tx{this->client.target()};
  tx.execute(this->insert(1));
  this->write(tx, "a");
  this->proxy.cut_commit(tcp_proxy::cut::before_reply);
  auto const e = thrown_by([&] { tx.commit(); });
  EXPECT_TRUE(e.in_doubt()) << e.what();
  ASSERT_TRUE(this->seen.reach(1));
  ASSERT_TRUE(this->all_settled());
  EXPECT_EQ(this->hot.total(), 0U) << "no node knew that it was committed";
  EXPECT_EQ(this->seen.total(), 1U);
  EXPECT_EQ(this->rows("orders"), "1");
}

TYPED_TEST(MysqlTransaction, ABusyConnectionIsAnErrorAndTheTransactionStaysOpen) {
  {
    mysql::transaction tx{this->client.target()};
    this->write(tx, "a");
    ASSERT_EQ(mysql_query(tx.handle(), "SELECT 1 UNION SELECT 2"), 0);
    auto* const rows = mysql_use_result(tx.handle());
    ASSERT_NE(rows, nullptr);
    EXPECT_EQ(thrown_by([&] { tx.execute("SELECT 1"); }).code(), errc::connection_busy);
    EXPECT_EQ(thrown_by([&] { this->write(tx, "b"); }).code(), errc::connection_busy);
    EXPECT_EQ(thrown_by([&] { tx.savepoint("s"); }).code(), errc::connection_busy);
    EXPECT_EQ(thrown_by([&] { tx.commit(); }).code(), errc::connection_busy);
    mysql_free_result(rows);
    EXPECT_TRUE(tx.active());
    tx.commit();
  }
  ASSERT_TRUE(this->seen.reach(1));
  EXPECT_EQ(this->hot.of("a"), 1);
  EXPECT_EQ(this->seen.total(), 1U);
  ASSERT_EQ(mysql_query(this->client.handle(), "SELECT 1"), 0);
  auto* const rows = mysql_use_result(this->client.handle());
  EXPECT_EQ(thrown_by([&] { mysql::transaction{this->client.target()}; }).code(), errc::connection_busy);
  mysql_free_result(rows);
  EXPECT_NO_THROW(mysql::transaction{this->client.target()});
}

// Two tables, two nodes, one transaction; and whoever is told may use the connection at once.

TYPED_TEST(MysqlTransaction, SeveralOutboxesInOneTransaction) {
  auto o = this->db.options();
  o.table = "billing";
  mysql_database elsewhere{this->server};
  tally second_hot;
  std::vector<node> nodes;
  for (auto const& store : {mysql::open(this->db.url(), o), elsewhere.open()}) {
    multi_node_options n{.store = store, .log = nullptr};
    n.poll.every = 1h;
    n.listeners.on("t", [&](delivery const& d) {
      if (d.path == path::hot) second_hot.add(d.id);
    });
    nodes.push_back(multi_node(std::move(n)));
    nodes.back().start();
  }
  mysql::transaction tx{this->client.target()};
  this->write(tx, "same");
  for (auto& n : nodes) n.writer().write(tx, "t", "1", {.id = "same"});
  tx.savepoint("s");
  this->write(tx, "undone");
  nodes.front().writer().write(tx, "t", "1", {.id = "undone"});
  tx.rollback_to("s");
  tx.commit();
  ASSERT_TRUE(this->hot.reach(1));
  ASSERT_TRUE(second_hot.reach(2));
  for (auto& n : nodes) n.stop();
  EXPECT_EQ(this->seen.of("undone"), 0);
  EXPECT_EQ(second_hot.of("same"), 2);
  EXPECT_EQ(second_hot.total(), 2U);
}

// Of the first table there is nothing to ask. The answers must still be told apart.
TYPED_TEST(MysqlTransaction, AnOutboxWithoutHotEventsDoesNotSpoilTheOther) {
  auto o = this->db.options();
  o.table = "billing";
  auto const n = writer_only({.store = mysql::open(this->db.url(), o), .log = nullptr});
  mysql::transaction tx{this->client.target()};
  n.writer().write(tx, "t", "1", {.id = "a"});
  this->write(tx, "b");
  tx.commit();
  ASSERT_TRUE(this->nothing_held());
  ASSERT_TRUE(this->seen.reach(1));
  EXPECT_EQ(this->hot.of("b"), 1);
}

// Uses the connection while the transaction tells how it ended.
class nested_hook final : public writer_hook {
 public:
  void after_commit(std::span<event const> events) override { again("c", events); }
  void after_rollback(std::span<event const> events) override { again("r", events); }
  std::function<void(std::string const& id)> write;

 private:
  void again(std::string const& letter, std::span<event const> events) {
    if (events.front().id().size() < 4) write(events.front().id() + letter);
  }
};

TYPED_TEST(MysqlTransaction, I7_AHookMayBeginAnotherTransactionOnTheSameConnection) {
  auto const hook = std::make_shared<nested_hook>();
  auto o = this->node_options(this->db.open());
  o.hook = hook;
  auto n = multi_node(std::move(o));
  n.start();
  auto const transact = [&](std::string const& id, bool commit) {
    mysql::transaction tx{this->client.target()};
    n.writer().write(tx, "t", "1", {.id = id});
    if (commit) tx.commit();
  };
  hook->write = [&](std::string const& id) { transact(id, id.size() != 3); };
  transact("a", true);  // and in it the hook commits "ac", rolls back "acc" and commits "accr"
  ASSERT_TRUE(this->hot.reach(3));
  n.stop();
  EXPECT_EQ(this->hot.total(), 3U);
  EXPECT_EQ(this->hot.of("acc"), 0);
  EXPECT_EQ(this->hot.of("accr"), 1);
}

// A hook hears only of events whose rows were committed.
TYPED_TEST(MysqlTransaction, AHookHearsWhatWasCommitted) {
  struct listening final : writer_hook {
    void after_commit(std::span<event const> events) override {
      for (auto const& e : events) committed.push_back(e.id());
    }
    void after_rollback(std::span<event const> events) override {
      for (auto const& e : events) undone.push_back(e.id());
    }
    std::vector<std::string> committed, undone;
  };
  auto const hook = std::make_shared<listening>();
  auto n = writer_only({.store = this->db.open(), .hook = hook, .log = nullptr});
  {
    mysql::transaction tx{this->client.target()};
    n.writer().write(tx, "t", "1", {.id = "a"});
    tx.savepoint("s");
    n.writer().write(tx, "t", "1", {.id = "b"});
    tx.rollback_to("s");
    tx.commit();
  }
  {
    mysql::transaction tx{this->client.target()};
    n.writer().write(tx, "t", "1", {.id = "c"});
  }
  EXPECT_THAT(hook->committed, ElementsAre("a"));
  EXPECT_THAT(hook->undone, ElementsAre("c"));
}

TYPED_TEST(MysqlTransaction, ItMayOutliveItsNode) {
  mysql::transaction tx{this->client.target()};
  this->write(tx, "a");
  auto const writer = this->box->writer();
  this->box.reset();
  tx.commit();
  EXPECT_EQ(this->rows(), "1");
  EXPECT_EQ(this->seen.total(), 0U);
}

TYPED_TEST(MysqlTransaction, AnotherServerIsRefusedAndTheTransactionLives) {
  mysql_database elsewhere{own_server()};
  auto n = multi_node({.store = elsewhere.open(), .log = nullptr});
  mysql::transaction tx{this->client.target()};
  tx.execute(this->insert(1));
  EXPECT_EQ(thrown_by([&] { n.writer().write(tx, "t", "1"); }).code(), errc::wrong_transaction);
  this->write(tx, "a");
  tx.commit();
  ASSERT_TRUE(this->hot.reach(1));
  EXPECT_EQ(this->rows("orders"), "1");
}

// A trigger of the table's owner that gives rows another id: those that were written are not there.
TYPED_TEST(MysqlTransaction, I2_ARowThatATriggerChangesIsNotTakenForTheOneThatWasWritten) {
  this->db.execute("CREATE TRIGGER renamed BEFORE INSERT ON " + this->db.table() +
                   " FOR EACH ROW IF NEW.event_id LIKE 'gone%' THEN SET NEW.event_id = uuid(), NEW.event_type = "
                   "'other', NEW.locked_by = NULL, NEW.locked_at = NULL, NEW.lease_until = NULL; END IF");
  mysql::transaction tx{this->client.target()};
  this->write(tx, "gone1");
  this->write(tx, "kept");
  tx.commit();
  ASSERT_TRUE(this->seen.reach(1));
  ASSERT_TRUE(this->nothing_held());
  EXPECT_EQ(this->hot.of("kept"), 1);
  EXPECT_EQ(this->seen.total(), 1U);
}

// Round trips.

TYPED_TEST(MysqlTransaction, ItTakesOneRoundTripForEachStatementAndOneToCommit) {
  auto const trips = [&](std::string const& id) {
    auto const before = this->proxy.round_trips();
    mysql::transaction tx{this->client.target()};
    this->write(tx, id);
    tx.commit();
    return this->proxy.round_trips() - before;
  };
  trips("first");  // asks once where the connection leads
  EXPECT_EQ(trips("second"), 3) << "START TRANSACTION, INSERT, COMMIT";
  ASSERT_TRUE(this->hot.reach(2));
  auto const before = this->proxy.round_trips();
  {
    mysql::transaction tx{this->client.target()};
    tx.commit();
  }
  EXPECT_EQ(this->proxy.round_trips(), before + 2);
}

class MysqlTransactionOnHandle : public MysqlTransaction<on_handle> {};

TEST_F(MysqlTransactionOnHandle, SeveralStatementsInOneTextStayForbidden) {
  EXPECT_NE(attempt(client.handle(), "SELECT 1; SELECT 2"), 0U);
  for (bool const commits : {true, false}) {
    mysql::transaction tx{client.target()};
    write(tx, commits ? "a" : "b");
    EXPECT_EQ(thrown_by([&] { tx.execute("SELECT 1; SELECT 2"); }).code(), errc::store_failure);
    if (commits) tx.commit();
  }
  ASSERT_TRUE(hot.reach(1));
  EXPECT_NE(attempt(client.handle(), "SELECT 1; SELECT 2"), 0U);
  EXPECT_EQ(attempt(client.handle(), "SELECT 1"), 0U);
}

// Nothing stays prepared either, and no setting has changed.
TEST_F(MysqlTransactionOnHandle, NothingOfTheSessionChanges) {
  auto& c = client.c;
  std::string const all =
      "SELECT concat_ws('|', @@sql_mode, @@autocommit, @@tx_isolation, @@character_set_client, @@collation_connection, "
      "@@time_zone, @@completion_type, @@innodb_lock_wait_timeout, @@max_statement_time, @@sql_select_limit)";
  auto const before = c.ask(all);
  {
    mysql::transaction tx{c.get()};
    write(tx, "a");
    tx.commit();
  }
  EXPECT_EQ(c.ask(all), before);
  EXPECT_EQ(c.ask("SHOW SESSION STATUS LIKE 'Com_stmt_prepare'", 1), "0");
  ASSERT_TRUE(hot.reach(1));
}

// As it is on MySQL, which has no statement of several.
TEST_F(MysqlTransactionOnHandle, WithTheStatementsOfMysqlTheQuestionIsARoundTripOfItsOwn) {
  auto o = db.options();
  o.flavour = mysql::flavour::mysql;
  auto n = multi_node(node_options(mysql::open(db.url(), o)));
  n.start();
  auto const trips = [&](std::string const& id) {
    auto const before = proxy.round_trips();
    mysql::transaction tx{client.target()};
    n.writer().write(tx, "t", "1", {.id = id});
    tx.savepoint("s");
    n.writer().write(tx, "t", "1", {.id = "undone"});
    tx.rollback_to("s");
    tx.commit();
    return proxy.round_trips() - before;
  };
  trips("first");
  EXPECT_EQ(trips("second"), 7) << "five statements, the question and COMMIT";
  ASSERT_TRUE(hot.reach(2));
  n.stop();
  EXPECT_EQ(seen.total(), 2U);
}

TEST_F(MysqlTransactionOnHandle, ANullHandleIsRefused) {
  EXPECT_EQ(thrown_by([] { mysql::transaction{static_cast<st_mysql*>(nullptr)}; }).code(), errc::no_transaction);
}

TEST_F(MysqlTransactionOnHandle, AConnectionThatWasNeverOpenedIsRefused) {
  std::unique_ptr<MYSQL, decltype(&mysql_close)> const c{mysql_init(nullptr), &mysql_close};
  EXPECT_EQ(thrown_by([&] { mysql::transaction{c.get()}; }).code(), errc::unavailable);
}

// Settings of the whole server: on one of this program's own.
class MysqlTransactionOnOwnServer : public MysqlJoin {
 protected:
  MysqlTransactionOnOwnServer() : MysqlJoin{own_server()} {}
  void TearDown() override {
    db.execute("SET GLOBAL read_only = 0");
    db.execute("UNLOCK TABLES");
  }
  mysql_account account{db, "clerk", {"ALL ON " + db.database() + ".*"}};
};

TEST_F(MysqlTransactionOnOwnServer, I2_ACommitThatTheServerRefusesRollsBack) {
  for (bool const ours : {true, false}) {
    mysql::connection c{account.url()};
    plain_handle h{account.url()};
    {
      auto tx = ours ? std::make_unique<mysql::transaction>(c) : std::make_unique<mysql::transaction>(h.get());
      tx->execute(insert(1));
      write(*tx, "a");
      db.execute("SET GLOBAL read_only = 1");
      auto const e = thrown_by([&] { tx->commit(); });
      EXPECT_EQ(e.code(), errc::unavailable) << e.what();
      EXPECT_EQ(e.sqlstate(), "25006");
      EXPECT_FALSE(tx->active());
      db.execute("SET GLOBAL read_only = 0");
    }
    expect_nothing();
    EXPECT_EQ(rows("orders"), "0");
    auto const tx = ours ? std::make_unique<mysql::transaction>(c) : std::make_unique<mysql::transaction>(h.get());
    tx->execute("DO 1");
    tx->rollback();
  }
}

// An operator may have set that a lock which is waited for too long undoes the whole transaction.
TEST_F(MysqlTransactionOnOwnServer, I2_ALockThatIsWaitedForTooLongMayEndTheTransaction) {
  mysql_server strict{{.settings = {"innodb-rollback-on-timeout=ON"}}};
  for (auto* const on : {&server, &strict}) {
    mysql_database own{*on};
    own.execute("CREATE TABLE " + own.table("orders") + " (id int PRIMARY KEY)");
    own.execute("INSERT INTO " + own.table("orders") + " VALUES (1)");
    auto const n = writer_only({.store = own.open(), .log = nullptr});
    plain_handle other{own.url()};
    other.execute("START TRANSACTION");
    other.execute("SELECT * FROM " + own.table("orders") + " WHERE id = 1 FOR UPDATE");
    mysql::connection c{own.url()};
    c.execute("SET innodb_lock_wait_timeout = 1");
    {
      mysql::transaction tx{c};
      tx.execute("INSERT INTO " + own.table("orders") + " VALUES (2)");
      n.writer().write(tx, "t", "1");
      auto const e = thrown_by([&] { tx.execute("UPDATE " + own.table("orders") + " SET id = 3 WHERE id = 1"); });
      EXPECT_TRUE(e.transient()) << e.what();
      EXPECT_EQ(tx.active(), on == &server);
      if (tx.active()) {
        n.writer().write(tx, "t", "1");
        tx.commit();
      } else {
        EXPECT_EQ(thrown_by([&] { n.writer().write(tx, "t", "1"); }).code(), errc::no_transaction);
        EXPECT_EQ(thrown_by([&] { tx.commit(); }).code(), errc::no_transaction);
      }
    }
    EXPECT_EQ(own.ask("SELECT count(*) FROM " + own.table()), on == &server ? "2" : "0");
    EXPECT_EQ(own.ask("SELECT count(*) FROM " + own.table("orders")), on == &server ? "2" : "1");
    EXPECT_NO_THROW(mysql::transaction{c});
  }
}

// COMMIT waits, and is ended there. Whatever the server made of it, the connection has no transaction afterwards.
TEST_F(MysqlTransactionOnOwnServer, I2_ACommitThatIsInterruptedLeavesNothingOpen) {
  for (bool const ours : {true, false}) {
    mysql::connection c{account.url()};
    plain_handle h{account.url()};
    auto const id = mysql_thread_id(ours ? c.handle() : h.get());
    {
      auto tx = ours ? std::make_unique<mysql::transaction>(c) : std::make_unique<mysql::transaction>(h.get());
      tx->execute(insert(1));
      write(*tx, "a");
      db.execute("FLUSH TABLES WITH READ LOCK");
      {
        std::jthread const second{[&] {
          EXPECT_TRUE(eventually([&] {
            return db
                .ask("SELECT coalesce(max(state), '') FROM information_schema.processlist WHERE id = ?",
                     static_cast<std::int64_t>(id))
                .starts_with("Waiting for");
          }));
          db.execute("KILL QUERY ?", static_cast<std::int64_t>(id));
        }};
        EXPECT_THROW(tx->commit(), error);
      }
      db.execute("UNLOCK TABLES");
      EXPECT_FALSE(tx->active());
    }
    EXPECT_TRUE(nothing_held());
    EXPECT_TRUE(eventually([&] {
      return db.ask("SELECT count(*) FROM information_schema.innodb_trx WHERE trx_mysql_thread_id = ?",
                    static_cast<std::int64_t>(id)) == "0";
    })) << "it holds no locks";
    EXPECT_EQ(rows(), rows("orders")) << "both or neither";
    auto const tx = ours ? std::make_unique<mysql::transaction>(c) : std::make_unique<mysql::transaction>(h.get());
    EXPECT_TRUE(tx->active());
    tx->rollback();
    db.execute("DELETE FROM " + db.table("orders"));
    db.execute("DELETE FROM " + db.table());
  }
}

}  // namespace
}  // namespace outbox

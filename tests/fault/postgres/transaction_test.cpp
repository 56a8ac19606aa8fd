// What only postgres::transaction can do.
#include "join_fixture.hpp"

namespace outbox {
namespace {

class PostgresTransaction : public PostgresJoin<raii_client<postgres::send_mode::immediate>> {};

TEST_F(PostgresTransaction, APipelinedTransactionIsOneRoundTrip) {
  postgres::connection c{proxy.connection()};
  {
    postgres::transaction tx{c, postgres::send_mode::pipelined};  // the connection gets to know the table
    box->writer().write(tx, "t", "1", {.id = "first"});
    tx.commit();
  }
  auto const before = proxy.round_trips();
  postgres::transaction tx{c, postgres::send_mode::pipelined};
  tx.enqueue("INSERT INTO " + db.table("orders") + " VALUES ($1, $2)", 5, std::nullopt);
  box->writer().write(tx, "t", "1", {.id = "second"});
  auto* const refused = PQexec(c.handle(), "SELECT 1");
  EXPECT_NE(PQresultStatus(refused), PGRES_TUPLES_OK) << "nothing may slip in before BEGIN";
  PQclear(refused);
  EXPECT_EQ(rows("orders"), "0") << "nothing was sent yet";
  EXPECT_EQ(proxy.round_trips(), before);
  tx.commit();
  EXPECT_EQ(proxy.round_trips(), before + 1);
  EXPECT_EQ(rows("orders"), "1");
  EXPECT_TRUE(hot.reach(2));
}

// The hot path reads nothing back, and a second event of the same shape is not parsed again.
TEST_F(PostgresTransaction, EventsAddNoRoundTripAndNoParsing) {
  postgres::connection c{proxy.connection()};
  auto const write_one = [&](std::string const& id) {
    postgres::transaction tx{c};
    box->writer().write(tx, "t", "1", {.id = id});
    tx.commit();
  };
  write_one("first");
  auto const trips = proxy.round_trips();
  auto const parsed = proxy.parsed();
  write_one("second");
  EXPECT_EQ(proxy.round_trips(), trips + 2) << "BEGIN, and COMMIT with the event";
  EXPECT_EQ(proxy.parsed(), parsed);
  EXPECT_TRUE(hot.reach(2));
  EXPECT_EQ(proxy.round_trips(), trips + 2) << "nor was anything asked after the commit";
}

TEST_F(PostgresTransaction, FlushShowsErrorsAtOnce) {
  postgres::connection c{db.connection()};
  postgres::transaction tx{c, postgres::send_mode::pipelined};
  tx.enqueue("INSERT INTO nowhere VALUES (1)");
  try {
    tx.flush();
    FAIL() << "accepted";
  } catch (error const& e) {
    EXPECT_EQ(e.sqlstate(), "42P01");
    EXPECT_FALSE(e.transient());
  }
  EXPECT_FALSE(tx.active());
  tx.rollback();
  postgres::transaction next{c};
  EXPECT_TRUE(next.active());
}

TEST_F(PostgresTransaction, ADuplicateIdSurfacesAtCommit) {
  postgres::connection c{db.connection()};
  for (int i = 0; i < 2; ++i) {
    postgres::transaction tx{c};
    box->writer().write(tx, "t", "1", {.id = "same"});
    if (i == 0) {
      tx.commit();
      continue;
    }
    try {
      tx.commit();
      FAIL() << "accepted";
    } catch (error const& e) {
      EXPECT_EQ(e.code(), errc::duplicate_event);
    }
  }
  ASSERT_TRUE(all_settled());
  EXPECT_EQ(seen.of("same"), 1);
}

// As docs/reference/errors.md has it: only what travels with events may be taken for one of them.
TEST_F(PostgresTransaction, AUniqueConstraintOfAnotherTableHasTwoCodes) {
  db.execute(insert(1));
  postgres::connection c{db.connection()};
  auto const code = [](auto&& f) {
    try {
      f();
    } catch (error const& e) {
      EXPECT_EQ(e.sqlstate(), "23505");
      return e.code();
    }
    return errc::lifecycle;
  };
  EXPECT_EQ(code([&] { c.execute(insert(1)); }), errc::store_failure);
  for (auto const how : {postgres::send_mode::immediate, postgres::send_mode::pipelined}) {
    postgres::transaction tx{c, how};
    EXPECT_EQ(code([&] {
                tx.enqueue(insert(1));
                tx.commit();
              }),
              errc::duplicate_event);
  }
}

TEST_F(PostgresTransaction, ASerializationFailureIsTransient) {
  db.execute(insert(1));
  postgres::connection c{db.connection()};
  postgres::transaction tx{c};
  check(c.handle(), "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ");
  check(c.handle(), ("SELECT * FROM " + db.table("orders")).c_str());
  db.execute("UPDATE " + db.table("orders") + " SET of = 1");
  try {
    tx.enqueue("UPDATE " + db.table("orders") + " SET of = NULL");
    box->writer().write(tx, "t", "1", {.id = "a"});
    tx.commit();
    FAIL() << "committed";
  } catch (error const& e) {
    EXPECT_TRUE(e.transient()) << e.what();
    EXPECT_EQ(e.sqlstate(), "40001");
  }
  ASSERT_TRUE(nothing_held());
  EXPECT_EQ(rows("outbox_event"), "0");
}

TEST_F(PostgresTransaction, ATransactionThatSqlEndedIsAnError) {
  postgres::connection c{db.connection()};
  postgres::transaction tx{c};
  box->writer().write(tx, "t", "1", {.id = "a"});
  c.execute("COMMIT");
  try {
    tx.commit();
    FAIL() << "committed";
  } catch (error const& e) {
    EXPECT_EQ(e.code(), errc::no_transaction);
    EXPECT_THAT(e.what(), ::testing::HasSubstr("had not been sent"));
  }
}

// A destructor cannot throw, so it goes to the log.
TEST_F(PostgresTransaction, ATransactionThatSqlCommittedLogsTheEventsThatAreLost) {
  std::vector<std::string> said;
  auto o = db.options();
  o.log = [&](log_line const& line) {
    if (line.level == log_level::error) said.push_back(line.text());
  };
  auto n = writer_only({.store = postgres::open(db.connection(), o), .log = nullptr});
  postgres::connection c{db.connection()};
  int order = 0;
  for (auto const* const sql : {"COMMIT", "COMMIT AND CHAIN"}) {
    for (bool const destroyed : {false, true}) {
      said.clear();
      {
        postgres::transaction tx{c};
        c.execute(insert(++order));
        n.writer().write(tx, "t", "1");
        n.writer().write_all(tx, std::vector{event::json("t", "1"), event::json("t", "2")});
        c.execute(sql);
        if (PQtransactionStatus(c.handle()) == PQTRANS_INTRANS) c.execute(insert(1000));
        if (!destroyed) tx.rollback();
      }
      EXPECT_THAT(said, ::testing::ElementsAre(::testing::AllOf(::testing::HasSubstr("'outbox_event'"),
                                                                ::testing::HasSubstr("are lost: 3"))))
          << sql;
      EXPECT_EQ(PQtransactionStatus(c.handle()), PQTRANS_IDLE) << sql;
      EXPECT_EQ(rows("orders"), std::to_string(order)) << "what SQL began is rolled back";
    }
  }
  said.clear();
  for (auto const* const sql : {"ROLLBACK", "ROLLBACK AND CHAIN", "SELECT 1"}) {
    postgres::transaction tx{c};
    n.writer().write(tx, "t", "1");
    check(c.handle(), sql);
  }
  EXPECT_THAT(said, ::testing::IsEmpty()) << "nothing was committed, so nothing is lost";
  EXPECT_EQ(rows("outbox_event"), "0");
}

// The next transaction is open already, and what was written for the last one must not go into it.
TEST_F(PostgresTransaction, I2_ATransactionThatSqlChainedIsAnError) {
  postgres::connection c{db.connection()};
  for (auto const* const sql : {"COMMIT AND CHAIN", "ROLLBACK AND CHAIN"}) {
    for (bool const by_flush : {false, true}) {
      postgres::transaction tx{c};
      box->writer().write(tx, "t", "1");
      c.execute(sql);
      try {
        by_flush ? tx.flush() : tx.commit();
        FAIL() << "accepted after " << sql;
      } catch (error const& e) {
        EXPECT_EQ(e.code(), errc::no_transaction) << e.what();
        EXPECT_THAT(e.what(), ::testing::HasSubstr("events: 1"));
      }
      EXPECT_FALSE(tx.active());
      EXPECT_EQ(PQtransactionStatus(c.handle()), PQTRANS_IDLE);
    }
  }
  ASSERT_TRUE(nothing_held());
  EXPECT_EQ(rows("outbox_event"), "0");
}

// Events written before a savepoint outlive it, no matter how often it is rolled back and what is sent in between.
TEST_F(PostgresTransaction, I1_EventsFromBeforeASavepointOutliveIt) {
  postgres::connection c{db.connection()};
  postgres::transaction tx{c};
  box->writer().write(tx, "t", "1", {.id = "first"});
  for (int i = 0; i < 30; ++i) {
    c.execute("SAVEPOINT s");
    box->writer().write(tx, "t", "1", {.id = "undone" + std::to_string(i)});
    tx.enqueue(insert(i));
    tx.flush();
    c.execute("ROLLBACK TO s");
    tx.flush();
  }
  tx.commit();
  ASSERT_TRUE(seen.reach(1));
  ASSERT_TRUE(all_settled());
  EXPECT_EQ(rows("outbox_event"), "1");
  EXPECT_EQ(seen.of("first"), 1);
}

// A retry within the transaction, with the same event. The row of the second write has no owner; the ticket of the
// first must not be taken for it. A second node polls as fast as it can, to be quicker than the first one's commit.
TEST_F(PostgresTransaction, I7_AnEventWrittenAgainAfterASavepointIsDeliveredOnce) {
  for (bool const beside_another : {false, true}) {
    postgres_database own;
    tally all, hot_ones;
    std::vector<node> nodes;
    for (int i = 0; i < (beside_another ? 2 : 1); ++i) {
      multi_node_options o{.store = own.open(), .log = nullptr};
      o.poll.every = i == 0 ? 1h : 1ms;
      o.hook = std::make_shared<writer_hook>();  // with one, every event is asked for by id and token
      o.listeners.on("t", [&](delivery const& d) {
        if (d.path == path::hot) hot_ones.add(d.id);
        all.add(d.id);
      });
      nodes.push_back(multi_node(std::move(o)));
      nodes.back().start();
    }
    postgres::connection c{own.connection()};
    for (int i = 0; i < 50; ++i) {
      auto const e = event::json("t", "1");
      postgres::transaction tx{c};
      c.execute("SAVEPOINT s");
      nodes.front().writer().write(tx, e);
      c.execute("ROLLBACK TO s");
      nodes.front().writer().write(tx, e);
      tx.commit();
    }
    ASSERT_TRUE(all.reach(50));
    ASSERT_TRUE(
        eventually([&] { return own.ask("SELECT count(*) FROM " + own.table() + " WHERE status <> 1") == "0"; }));
    for (auto& n : nodes) n.stop();
    EXPECT_EQ(all.total(), 50U) << "each once";
    EXPECT_EQ(hot_ones.total(), 0U);
  }
}

TEST_F(PostgresTransaction, I7_AHookMayBeginAnotherTransactionOnTheSameConnection) {
  for (auto const how : {postgres::send_mode::immediate, postgres::send_mode::pipelined}) {
    postgres_database own;
    auto const hook = std::make_shared<nested_hook>();
    tally delivered;
    multi_node_options o{.store = own.open(), .log = nullptr};
    o.poll.every = 1h;
    o.hook = hook;
    o.listeners.on("t", [&](delivery const& d) {
      if (d.path == path::hot) delivered.add(d.id);
    });
    auto n = multi_node(std::move(o));
    n.start();
    postgres::connection c{own.connection()};
    auto const transact = [&](std::string const& id, bool commit) {
      postgres::transaction tx{c, how};
      n.writer().write(tx, "t", "1", {.id = id});
      if (commit) tx.commit();
    };
    hook->write = [&](std::string const& id) { transact(id, id.size() != 3); };
    transact("a", true);
    ASSERT_TRUE(delivered.reach(3));
    n.stop();
    EXPECT_EQ(delivered.total(), 3U);
    EXPECT_EQ(delivered.of("acc"), 0);
    EXPECT_EQ(delivered.of("accr"), 1);
  }
}

TEST_F(PostgresTransaction, I1_EventsThatCouldNotBeSentBehindASavepointFailTheTransaction) {
  postgres::connection c{db.connection()};
  {
    postgres::transaction tx{c};
    box->writer().write(tx, "t", "1", {.id = "same"});
    tx.commit();
  }
  postgres::transaction tx{c};
  box->writer().write(tx, "t", "1", {.id = "same"});  // refused when it is sent
  c.execute("SAVEPOINT s");
  EXPECT_THROW(box->writer().write(tx, "t", "1", {.id = "other"}), error);
  c.execute("ROLLBACK TO s");
  EXPECT_FALSE(tx.active());
  EXPECT_THROW(tx.commit(), error) << "it would commit without an event that write() had accepted";
  EXPECT_EQ(rows("outbox_event"), "1");
}

TEST_F(PostgresTransaction, I2_ABeginInTheMiddleHidesNoSavepoint) {
  postgres::connection c{db.connection()};
  postgres::transaction tx{c};
  c.execute("SAVEPOINT s");
  c.execute("BEGIN");  // a warning, no more
  box->writer().write(tx, "t", "1", {.id = "undone"});
  c.execute("ROLLBACK TO s");
  tx.commit();
  ASSERT_TRUE(nothing_held());
  EXPECT_EQ(rows("outbox_event"), "0");
  EXPECT_EQ(seen.total(), 0U);
}

TEST_F(PostgresTransaction, ABusyConnectionIsAnErrorAndTheTransactionStaysOpen) {
  postgres::connection c{db.connection()};
  postgres::transaction tx{c};
  box->writer().write(tx, "t", "1", {.id = "a"});
  ASSERT_EQ(PQsendQuery(c.handle(), "SELECT 1"), 1);
  try {
    tx.commit();
    FAIL() << "committed";
  } catch (error const& e) {
    EXPECT_EQ(e.code(), errc::connection_busy) << e.what();
  }
  while (auto* const r = PQgetResult(c.handle())) PQclear(r);
  tx.commit();
  ASSERT_TRUE(seen.reach(1));
  EXPECT_EQ(hot.of("a"), 1);
}

TEST_F(PostgresTransaction, AConnectionOfOursThatWasResetWorksAgain) {
  postgres::connection c{proxy.connection()};
  {
    postgres::transaction tx{c};
    box->writer().write(tx, "t", "1", {.id = "lost"});
    proxy.cut_all();
    EXPECT_THROW(tx.commit(), error);
  }
  PQreset(c.handle());
  postgres::transaction tx{c};
  box->writer().write(tx, "t", "1", {.id = "kept"});
  tx.commit();
  ASSERT_TRUE(seen.reach(1));
  EXPECT_EQ(hot.of("kept"), 1);
}

TEST_F(PostgresTransaction, ADroppedStatementIsPreparedAgain) {
  postgres::connection c{db.connection()};
  auto const write_one = [&](std::string const& id) {
    postgres::transaction tx{c};
    box->writer().write(tx, "t", "1", {.id = id});
    tx.commit();
  };
  write_one("a");
  c.execute("DEALLOCATE ALL");
  EXPECT_THROW(write_one("b"), error);
  write_one("c");
  EXPECT_TRUE(seen.reach(2));
}

TEST_F(PostgresTransaction, AStatementWhoseResultChangedIsPreparedAgain) {
  postgres::connection c{db.connection()};
  auto const look = [&] {
    postgres::transaction tx{c};
    tx.enqueue("SELECT * FROM " + db.table("orders"));
    tx.commit();
  };
  look();
  db.execute("ALTER TABLE " + db.table("orders") + " ADD COLUMN note text");
  EXPECT_THROW(look(), error);
  EXPECT_NO_THROW(look());
}

// Sent by itself it would be committed by itself.
TEST_F(PostgresTransaction, I2_NothingIsSentAfterTheTransactionWasEndedBySql) {
  postgres::connection c{db.connection()};
  postgres::transaction tx{c};
  box->writer().write(tx, "t", "1", {.id = "a"});
  c.execute("ROLLBACK");
  try {
    tx.flush();
    FAIL() << "sent";
  } catch (error const& e) {
    EXPECT_EQ(e.code(), errc::no_transaction) << e.what();
  }
  EXPECT_THROW(tx.commit(), error);
  ASSERT_TRUE(nothing_held());
  EXPECT_EQ(rows("outbox_event"), "0");
}

TEST_F(PostgresTransaction, I2_NothingIsSentOnAConnectionThatWasReset) {
  postgres::connection c{db.connection()};
  postgres::transaction tx{c, postgres::send_mode::pipelined};
  tx.enqueue(insert(1));
  tx.flush();
  db.execute("SELECT pg_terminate_backend($1)", PQbackendPID(c.handle()));
  PQreset(c.handle());  // as a health check does
  try {
    tx.enqueue(insert(2));
    box->writer().write(tx, "t", "1", {.id = "a"});
    tx.commit();
    FAIL() << "committed half of it";
  } catch (error const& e) {
    EXPECT_EQ(e.code(), errc::no_transaction) << e.what();
  }
  EXPECT_EQ(rows("orders"), "0");
  EXPECT_EQ(rows("outbox_event"), "0");
}

// The server says why it ends a session, and that it has not come to COMMIT.
TEST_F(PostgresTransaction, ASessionThatEndedBeforeCommitHasNotCommitted) {
  for (auto const how : {postgres::send_mode::immediate, postgres::send_mode::pipelined}) {
    postgres::connection c{db.connection()};
    auto const pid = PQbackendPID(c.handle());
    {
      postgres::transaction first{c, how};  // the connection gets to know the table
      box->writer().write(first, "t", "1");
      first.rollback();
    }
    postgres::transaction tx{c, how};
    tx.enqueue("SET LOCAL idle_in_transaction_session_timeout = 20");
    tx.flush();
    box->writer().write(tx, "t", "1", {.id = "a"});  // waits for COMMIT
    ASSERT_TRUE(eventually([&] { return db.ask("SELECT count(*) FROM pg_stat_activity WHERE pid = $1", pid) == "0"; }));
    try {
      tx.commit();
      FAIL() << "committed";
    } catch (error const& e) {
      EXPECT_TRUE(e.transient()) << e.what();
      EXPECT_FALSE(e.in_doubt()) << e.what();
      EXPECT_EQ(e.sqlstate(), "25P03");
    }
  }
  ASSERT_TRUE(nothing_held());
  EXPECT_EQ(rows("outbox_event"), "0");
}

TEST_F(PostgresTransaction, AStatementThatCannotBePipelinedIsRefused) {
  postgres::connection c{db.connection()};
  {
    postgres::transaction tx{c, postgres::send_mode::pipelined};
    tx.enqueue("");
    tx.enqueue("-- nothing");
    tx.enqueue(insert(1));
    tx.commit();
    EXPECT_EQ(rows("orders"), "1");
  }
  postgres::transaction tx{c, postgres::send_mode::pipelined};
  tx.enqueue("COPY " + db.table("orders") + " FROM STDIN");
  try {
    tx.commit();
    FAIL() << "accepted";
  } catch (error const& e) {
    EXPECT_THAT(e.what(), ::testing::HasSubstr("COPY")) << e.what();
  }
}

TEST_F(PostgresTransaction, TextWithANulIsRefused) {
  postgres::connection c{db.connection()};
  postgres::transaction tx{c};
  EXPECT_THROW(tx.enqueue("SELECT $1::text", std::string_view{"a\0b", 3}), error);
}

TEST_F(PostgresTransaction, ASecondTransactionOnTheSameConnectionIsRefused) {
  postgres::connection c{db.connection()};
  postgres::transaction tx{c};
  EXPECT_THROW(postgres::transaction{c}, error);
  EXPECT_TRUE(tx.active());
}

}  // namespace
}  // namespace outbox

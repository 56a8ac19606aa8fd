// What every adapter must do, on every database that its client reaches. A client is a class with a connection: it
// begins and ends transactions as its users do, and runs SQL in them.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <outbox/memory.hpp>
#include <outbox/outbox.hpp>
#include <string>
#include <thread>

#include "fault/adapt/databases.hpp"
#include "support/waiting.hpp"

namespace outbox {

using namespace std::chrono_literals;

struct client_name {
  template <class Client>
  static std::string GetName(int /*index*/) {
    return Client::database::name;
  }
};

template <class Client>
class AdapterJoin : public ::testing::Test {
 protected:
  using database = typename Client::database;

  AdapterJoin() {
    multi_node_options o{.store = db.open(), .log = nullptr};
    o.poll.every = 1h;       // an event that is delivered was handed over, or the poller was woken
    o.stop_timeout = 100ms;  // some transactions are open when it is destroyed
    o.listeners.on("t", [this](delivery const& d) {
      if (d.path == path::hot) hot.add(d.id);
      seen.add(d.id);
    });
    box.emplace(multi_node(std::move(o)));
    box->start();
  }

  void write(std::string const& id) {
    client.join([&](auto& tx) { box->writer().write(tx, "t", "1", {.id = id}); });
  }
  void insert(int id, std::string const& parent = "NULL") {
    client.execute("INSERT INTO " + db.table("orders") + " VALUES (" + std::to_string(id) + ", " + parent + ")");
  }
  void commit() {
    client.commit();
    if (!database::sees_commits) box->wake();  // what the page asks of the application
  }
  errc refusal(node const& n) {
    try {
      client.join([&](auto& tx) { n.writer().write(tx, "t", "1"); });
    } catch (error const& e) {
      EXPECT_STRNE(e.what(), "");
      return e.code();
    }
    ADD_FAILURE() << "accepted";
    return errc::store_failure;
  }
  std::string rows(std::string const& table) { return db.ask("SELECT count(*) FROM " + db.table(table)); }
  bool nothing_held() {
    return eventually([&] { return box->counters().held == 0; });
  }
  bool all_settled() {
    return eventually(
        [&] { return db.ask("SELECT count(*) FROM " + db.table("outbox_event") + " WHERE status <> 1") == "0"; });
  }

  // Nothing was written, and the node waits for nothing.
  void expect_nothing() {
    EXPECT_TRUE(nothing_held());
    EXPECT_TRUE(eventually([&] { return rows("outbox_event") == "0"; }));
    EXPECT_EQ(seen.total(), 0U);
  }

  database db;
  Client client{db};
  tally seen, hot;
  std::optional<node> box;
};

TYPED_TEST_SUITE_P(AdapterJoin);

TYPED_TEST_P(AdapterJoin, ACommitDeliversTheEventOnceAndOnThePathOfTheTable) {
  this->client.begin();
  this->insert(1);
  this->write("a");
  this->commit();
  ASSERT_TRUE(this->seen.reach(1));
  ASSERT_TRUE(this->all_settled());
  EXPECT_EQ(this->seen.total(), 1U);
  EXPECT_EQ(this->hot.total(), TypeParam::database::way == path::hot ? 1U : 0U);
  EXPECT_EQ(this->rows("orders"), "1");
}

TYPED_TEST_P(AdapterJoin, OneTransactionAfterTheOtherOnOneConnection) {
  for (int i = 0; i < 20; ++i) {
    this->client.begin();
    this->insert(i);
    this->write("e" + std::to_string(i));
    if (i % 2 == 0) {
      this->commit();
    } else {
      this->client.rollback();
    }
  }
  ASSERT_TRUE(this->seen.reach(10));
  ASSERT_TRUE(this->all_settled());
  ASSERT_TRUE(this->nothing_held());
  EXPECT_EQ(this->seen.total(), 10U);
  EXPECT_EQ(this->seen.of("e1"), 0);
  EXPECT_EQ(this->rows("orders"), "10");
}

TYPED_TEST_P(AdapterJoin, I11_EveryByteArrivesAsItWas) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  std::string const text = "\"\xF0\x9F\x9A\x80 \xD7\xA9\xD7\x9C\xD7\x95\xD7\x9D 'quoted' \\\\ $1 ? :a \\u0041\"";
  this->client.begin();
  this->client.join([&](auto& tx) {
    this->box->writer().write_all(tx, std::vector{event::bytes("t", bytes, "application/x-all", {.id = "bytes"}),
                                                  event::json("t", text, {.id = "text"})});
  });
  this->commit();
  ASSERT_TRUE(this->seen.reach(2));
  auto const store = this->db.open();
  EXPECT_EQ(store->inspect().find("bytes")->event.payload(), bytes);
  EXPECT_EQ(store->inspect().find("text")->event.payload(), text);
}

TYPED_TEST_P(AdapterJoin, I2_ARollbackDeliversNothing) {
  this->client.begin();
  this->insert(1);
  this->write("undone");
  this->client.rollback();
  this->expect_nothing();
  EXPECT_EQ(this->rows("orders"), "0");
}

TYPED_TEST_P(AdapterJoin, I2_ASavepointTakesBackOnlyTheEventsBehindIt) {
  this->client.begin();
  this->write("a");
  this->client.execute("SAVEPOINT s");
  this->write("b");
  this->client.execute("ROLLBACK TO SAVEPOINT s");
  this->write("c");
  this->commit();
  ASSERT_TRUE(this->seen.reach(2));
  ASSERT_TRUE(this->all_settled());
  EXPECT_EQ(this->seen.of("a"), 1);
  EXPECT_EQ(this->seen.of("b"), 0);
  EXPECT_EQ(this->seen.of("c"), 1);
  EXPECT_EQ(this->rows("outbox_event"), "2");
}

TYPED_TEST_P(AdapterJoin, I2_AConnectionThatIsClosedInATransactionDeliversNothing) {
  this->client.begin();
  this->insert(1);
  this->write("a");
  this->client.close();
  this->expect_nothing();
  EXPECT_EQ(this->rows("orders"), "0");
}

TYPED_TEST_P(AdapterJoin, AWriteOutsideATransactionIsRefused) {
  EXPECT_EQ(this->refusal(*this->box), errc::no_transaction);
  this->client.begin();
  this->write("a");
  this->commit();
  EXPECT_EQ(this->refusal(*this->box), errc::no_transaction) << "after the end";
  ASSERT_TRUE(this->seen.reach(1));
  EXPECT_EQ(this->rows("outbox_event"), "1");
}

TYPED_TEST_P(AdapterJoin, AWriteOnAConnectionThatIsNotOpenIsRefused) {
  this->client.close();
  EXPECT_EQ(this->refusal(*this->box), errc::no_transaction);
}

TYPED_TEST_P(AdapterJoin, AnotherDatabaseIsRefusedAndTheTransactionLives) {
  auto const elsewhere = multi_node({.store = this->db.open_elsewhere(), .log = nullptr});
  auto const of_another_kind = single_node({.store = memory::open(), .log = nullptr});
  this->client.begin();
  this->insert(1);
  EXPECT_EQ(this->refusal(elsewhere), errc::wrong_transaction);
  EXPECT_EQ(this->refusal(of_another_kind), errc::wrong_transaction);
  this->write("a");
  this->commit();
  ASSERT_TRUE(this->seen.reach(1));
  EXPECT_EQ(this->rows("orders"), "1");
}

// What the page offers where the client's own transactions are not hot.
TYPED_TEST_P(AdapterJoin, ATransactionOfOursOnTheClientsHandleIsHot) {
  for (int i = 0; i < 2; ++i) {
    typename TypeParam::database::transaction tx{this->client.handle()};
    this->insert(i);
    this->box->writer().write(tx, "t", "1", {.id = "ours" + std::to_string(i)});
    if (i == 0) tx.commit();
  }
  ASSERT_TRUE(this->seen.reach(1));
  EXPECT_EQ(this->hot.of("ours0"), 1);
  EXPECT_EQ(this->rows("orders"), "1");
  this->client.begin();  // nothing of it is left on the connection
  this->insert(2);
  this->write("theirs");
  this->commit();
  ASSERT_TRUE(this->seen.reach(2));
  ASSERT_TRUE(this->all_settled());
  EXPECT_EQ(this->seen.of("ours1"), 0);
}

REGISTER_TYPED_TEST_SUITE_P(AdapterJoin, ACommitDeliversTheEventOnceAndOnThePathOfTheTable,
                            OneTransactionAfterTheOtherOnOneConnection, I11_EveryByteArrivesAsItWas,
                            I2_ARollbackDeliversNothing, I2_ASavepointTakesBackOnlyTheEventsBehindIt,
                            I2_AConnectionThatIsClosedInATransactionDeliversNothing, AWriteOutsideATransactionIsRefused,
                            AWriteOnAConnectionThatIsNotOpenIsRefused, AnotherDatabaseIsRefusedAndTheTransactionLives,
                            ATransactionOfOursOnTheClientsHandleIsHot);

// On databases that check a constraint when the transaction commits.
template <class Client>
class AdapterConstraint : public AdapterJoin<Client> {};
TYPED_TEST_SUITE_P(AdapterConstraint);

TYPED_TEST_P(AdapterConstraint, I2_ACommitThatFailsDeliversNothing) {
  this->client.begin();
  this->insert(1, "77");  // its parent is not there
  this->write("a");
  EXPECT_ANY_THROW(this->client.commit());
  this->client.rollback();
  this->expect_nothing();
  EXPECT_EQ(this->rows("orders"), "0");
  this->client.begin();
  this->write("b");
  this->commit();
  ASSERT_TRUE(this->seen.reach(1));
  EXPECT_EQ(this->seen.of("b"), 1);
}

REGISTER_TYPED_TEST_SUITE_P(AdapterConstraint, I2_ACommitThatFailsDeliversNothing);

// On databases with a server, which may end a session.
template <class Client>
class AdapterServer : public AdapterJoin<Client> {
 protected:
  bool end_session() { return this->db.end_session(this->client.ask(AdapterJoin<Client>::database::session_id)); }
};
TYPED_TEST_SUITE_P(AdapterServer);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(AdapterServer);

TYPED_TEST_P(AdapterServer, I2_AConnectionThatIsLostBeforeCommitDeliversNothing) {
  this->client.begin();
  this->insert(1);
  this->write("a");
  ASSERT_TRUE(this->end_session());
  EXPECT_ANY_THROW(this->client.commit());
  this->expect_nothing();
  EXPECT_EQ(this->rows("orders"), "0");
}

TYPED_TEST_P(AdapterServer, AWriteOnALostConnectionIsAnError) {
  this->client.begin();
  this->insert(1);
  ASSERT_TRUE(this->end_session());
  EXPECT_EQ(this->refusal(*this->box), errc::unavailable);
  EXPECT_ANY_THROW(this->client.commit());
  this->expect_nothing();
}

TYPED_TEST_P(AdapterServer, AConnectionThatIsMadeAgainIsJoined) {
  this->client.begin();
  this->write("a");
  ASSERT_TRUE(this->end_session());
  EXPECT_ANY_THROW(this->client.commit());
  this->client.reconnect();
  EXPECT_EQ(this->refusal(*this->box), errc::no_transaction);
  this->client.begin();
  this->insert(1);
  this->write("b");
  this->commit();
  ASSERT_TRUE(this->seen.reach(1));
  ASSERT_TRUE(this->all_settled());
  ASSERT_TRUE(this->nothing_held());
  EXPECT_EQ(this->seen.of("b"), 1);
  EXPECT_EQ(this->seen.total(), 1U);
  EXPECT_EQ(this->rows("orders"), "1");
}

REGISTER_TYPED_TEST_SUITE_P(AdapterServer, I2_AConnectionThatIsLostBeforeCommitDeliversNothing,
                            AWriteOnALostConnectionIsAnError, AConnectionThatIsMadeAgainIsJoined);

#ifdef OUTBOX_HAS_MYSQL
// The server ends the transaction of a client in the middle, and the client goes on as if it had not.
template <class Client>
class AdapterDeadlock : public AdapterJoin<Client> {
 protected:
  AdapterDeadlock() {
    for (int i = 0; i < 20; ++i) other_.execute("INSERT INTO " + orders_ + " VALUES (?, NULL)", i);
  }

  // In the transaction that the client is in. Each waits for the other, in whichever order they come. The other one has
  // changed more, so the server ends this one.
  void provoke_deadlock() {
    this->client.execute("UPDATE " + orders_ + " SET parent = 0 WHERE id = 0");
    mysql::transaction heavier{other_};
    heavier.execute("UPDATE " + orders_ + " SET parent = 1 WHERE id > 0");
    std::thread waits{[&] { heavier.execute("UPDATE " + orders_ + " SET parent = 1 WHERE id = 0"); }};
    EXPECT_ANY_THROW(this->client.execute("UPDATE " + orders_ + " SET parent = 0 WHERE id = 1"));
    waits.join();
    heavier.commit();
  }

 private:
  std::string orders_ = this->db.table("orders");
  mysql::connection other_{this->db.url()};
};
TYPED_TEST_SUITE_P(AdapterDeadlock);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(AdapterDeadlock);

TYPED_TEST_P(AdapterDeadlock, I2_ATransactionThatTheServerHasRolledBackDeliversNothing) {
  this->client.begin();
  this->write("a");
  this->provoke_deadlock();
  EXPECT_EQ(this->refusal(*this->box), errc::no_transaction);
  EXPECT_NO_THROW(this->commit()) << "the server accepts COMMIT outside a transaction";
  this->expect_nothing();
}

REGISTER_TYPED_TEST_SUITE_P(AdapterDeadlock, I2_ATransactionThatTheServerHasRolledBackDeliversNothing);
#endif

}  // namespace outbox

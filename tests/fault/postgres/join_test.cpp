// Every client that can join a transaction on PostgreSQL, and every way in which a transaction can end.
#include "join_fixture.hpp"

#ifdef __SANITIZE_ADDRESS__
// libpqxx 6.4 loses the result of a statement whose connection broke.
extern "C" char const* __lsan_default_suppressions() { return "leak:libpqxx\n"; }  // NOLINT: the sanitizer's name
#endif

namespace outbox {
namespace {

#ifdef OUTBOX_HAS_PQXX
#define OUTBOX_PQXX_CLIENT , pqxx_client
#else
#define OUTBOX_PQXX_CLIENT
#endif
using Clients = ::testing::Types<raw_client, raii_client<postgres::send_mode::immediate>,
                                 raii_client<postgres::send_mode::pipelined> OUTBOX_PQXX_CLIENT>;
TYPED_TEST_SUITE(PostgresJoin, Clients, client_name);

TYPED_TEST(PostgresJoin, ACommitHandsTheEventOver) {
  this->client.begin();
  this->client.execute(this->insert(1).c_str());
  this->write("a");
  this->client.commit();
  ASSERT_TRUE(this->seen.reach(1));
  EXPECT_EQ(this->hot.of("a"), 1);
  ASSERT_TRUE(this->all_settled());
  EXPECT_EQ(this->rows("orders"), "1");
  EXPECT_EQ(this->box->counters().cold_enqueued, 0U);
}

TYPED_TEST(PostgresJoin, OneTransactionAfterTheOtherOnOneConnection) {
  for (int i = 0; i < 20; ++i) {
    this->client.begin();
    this->client.execute(this->insert(i).c_str());
    this->write("e" + std::to_string(i));
    if (i % 2 == 0) {
      this->client.commit();
    } else {
      this->client.rollback();
    }
  }
  ASSERT_TRUE(this->seen.reach(10));
  ASSERT_TRUE(this->all_settled());
  ASSERT_TRUE(this->nothing_held());
  EXPECT_EQ(this->hot.total(), 10U);
  EXPECT_EQ(this->seen.of("e1"), 0);
  EXPECT_EQ(this->rows("orders"), "10");
}

TYPED_TEST(PostgresJoin, ManyEventsAtOnce) {
  std::vector<event> events;
  for (int i = 0; i < 2500; ++i) events.push_back(event::json("t", std::to_string(i), {.id = "e" + std::to_string(i)}));
  this->client.begin();
  this->client.join([&](auto& tx) { this->box->writer().write_all(tx, events); });
  this->client.commit();
  ASSERT_TRUE(this->seen.reach(2500));
  ASSERT_TRUE(this->all_settled());
  EXPECT_EQ(this->rows("outbox_event"), "2500");
  EXPECT_EQ(this->seen.total(), 2500U);
}

TYPED_TEST(PostgresJoin, I11_EveryByteArrivesAsItWas) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  std::string const text = "\"\xF0\x9F\x9A\x80 \xD7\xA9\xD7\x9C\xD7\x95\xD7\x9D 'quoted' \\\\ $1 \\u0041\"";
  this->client.begin();
  this->client.join([&](auto& tx) {
    this->box->writer().write(tx, event::bytes("t", bytes, "application/x-all", {.id = "one"}));
    this->box->writer().write_all(
        tx, std::vector{event::bytes("t", bytes, "application/x-all", {.id = "many"}),
                        event::json("t", text, {.id = "text", .headers = {{"k", "{\"a\",NULL}"}}})});
  });
  this->client.commit();
  ASSERT_TRUE(this->seen.reach(3));
  auto const store = this->db.open();
  EXPECT_EQ(store->inspect().find("one")->event.payload(), bytes);
  EXPECT_EQ(store->inspect().find("many")->event.payload(), bytes);
  EXPECT_EQ(store->inspect().find("text")->event.payload(), text);
  EXPECT_EQ(store->inspect().find("text")->event.headers().at("k"), "{\"a\",NULL}");
}

// A client whose INSERT answers nothing leaves the node to ask where the row stands.
TYPED_TEST(PostgresJoin, I5_AKeyedNodeDeliversHotAndInTheOrderOfTheKey) {
  ASSERT_TRUE(this->box->stop());
  std::mutex mutex;
  std::vector<std::string> delivered, written;
  keyed_options o{.store = this->db.open(), .log = nullptr};
  o.listeners.on("t", [&](delivery const& d) {
    std::lock_guard const lock{mutex};
    delivered.push_back(d.id);
  });
  auto n = keyed(std::move(o));
  n.start();
  for (int i = 0; i < 20; ++i) {
    std::vector<event> events;
    for (auto const* const part : {"a", "b", "c"}) {
      events.push_back(event::json("t", "1", {.id = std::to_string(i) + part, .aggregate = {"order", "42"}}));
    }
    this->client.begin();
    this->client.join([&](auto& tx) {
      n.writer().write(tx, events.front());
      n.writer().write_all(tx, std::span{events}.subspan(1));
    });
    if (i % 5 == 3) {
      this->client.rollback();
      continue;
    }
    this->client.commit();
    for (auto const& e : events) written.push_back(e.id());
  }
  ASSERT_TRUE(eventually([&] {
    std::lock_guard const lock{mutex};
    return delivered.size() >= written.size();
  }));
  ASSERT_TRUE(n.stop());
  EXPECT_EQ(delivered, written);
  EXPECT_GT(n.counters().hot_enqueued, 0U);
  EXPECT_EQ(n.counters().healed, 0U);
}

// What a session has set must not decide how it reads what is sent to it, one event at a time or many.
TYPED_TEST(PostgresJoin, I11_SettingsOfTheSessionDoNotChangeWhatIsWritten) {
  ASSERT_TRUE(this->box->stop());  // no node delivers them
  auto w = writer_only({.store = this->db.open(), .log = nullptr});
  std::string const bytes{"\0NULL\\\"", 7};
  instant const at = std::chrono::sys_days{std::chrono::year{2040} / 1 / 2};
  auto const events = [&](std::string const& prefix) {
    return std::vector{
        event::json("t", "1", {.id = prefix + "plain"}),
        event::json("t", "1",
                    {.id = prefix + "NULL", .aggregate = {"NULL", "NULL"}, .tenant = "NULL", .ordering_key = "NULL"}),
        event::bytes("t", bytes, "NULL", {.id = prefix + "bytes", .headers = {{"NULL", "NULL"}}}),
        event::bytes("t", "", "x", {.id = prefix + "empty"}),
        event::json("t", "1", {.id = prefix + "later", .occurred_at = at - 1h, .available_at = at})};
  };
  this->client.begin();
  for (auto const* const setting :
       {"array_nulls = off", "bytea_output = escape", "standard_conforming_strings = off", "DateStyle = 'SQL, DMY'",
        "IntervalStyle = sql_standard", "TimeZone = 'Pacific/Apia'", "search_path = pg_catalog"}) {
    this->client.execute(("SET LOCAL " + std::string{setting}).c_str());
  }
  this->client.join([&](auto& tx) {
    for (auto const& e : events("one ")) w.writer().write(tx, e);
    auto const all = events("");
    w.writer().write_all(tx, all);
    w.writer().write_all(tx, std::vector{event::json("t", "1", {.id = "bare"}), event::json("t", "1")});
  });
  this->client.commit();
  auto const store = this->db.open();
  for (auto const* const prefix : {"one ", ""}) {
    for (auto const& e : events(prefix)) {
      auto const found = store->inspect().find(e.id());
      ASSERT_TRUE(found) << e.id();
      EXPECT_EQ(found->event.aggregate_id(), e.aggregate_id()) << e.id();
      EXPECT_EQ(found->event.tenant(), e.tenant()) << e.id();
      EXPECT_EQ(found->event.ordering_key(), e.ordering_key()) << e.id();
      EXPECT_EQ(found->event.headers(), e.headers()) << e.id();
      EXPECT_EQ(found->event.content_type(), e.content_type()) << e.id();
      EXPECT_EQ(found->event.payload(), e.payload()) << e.id();
      EXPECT_EQ(found->event.kind(), e.kind()) << e.id();
      EXPECT_TRUE(!e.available_at() || found->available_at == at) << e.id();
    }
  }
  EXPECT_EQ(
      this->db.ask("SELECT count(*) FROM " + this->db.table() +
                   " WHERE locked_by IS NOT NULL OR locked_at IS NOT NULL OR lease_until IS NOT NULL OR (event_id "
                   "NOT LIKE '%NULL' AND (aggregate_id IS NOT NULL OR tenant_id IS NOT NULL OR ordering_key IS NOT "
                   "NULL)) OR (payload_bytes IS NULL) <> (content_type IS NULL) OR (content_type IS NULL AND "
                   "headers IS NOT NULL)"),
      "0")
      << "what an event does not have is NULL";
}

TYPED_TEST(PostgresJoin, I2_ARollbackLeavesNothing) {
  this->client.begin();
  this->write("undone");
  this->client.rollback();
  ASSERT_TRUE(this->nothing_held());
  EXPECT_EQ(this->rows("outbox_event"), "0");
  EXPECT_EQ(this->seen.total(), 0U);
}

TYPED_TEST(PostgresJoin, I2_ASavepointTakesItsEventsAlong) {
  this->client.begin();
  this->write("a");
  this->client.execute("SAVEPOINT s");
  this->write("b");
  this->client.execute("ROLLBACK TO s");
  this->write("c");
  this->client.commit();
  ASSERT_TRUE(this->seen.reach(2));
  ASSERT_TRUE(this->all_settled());
  EXPECT_EQ(this->seen.of("a"), 1);
  EXPECT_EQ(this->seen.of("b"), 0);
  EXPECT_EQ(this->seen.of("c"), 1);
  EXPECT_EQ(this->rows("outbox_event"), "2");
  ASSERT_TRUE(this->nothing_held());
}

TYPED_TEST(PostgresJoin, I2_ACommitThatFailsLeavesNothing) {
  this->client.begin();
  this->client.execute(this->insert(1, "77").c_str());  // refers to nothing: noticed by COMMIT
  this->write("a");
  EXPECT_ANY_THROW(this->client.commit());
  this->client.close();
  ASSERT_TRUE(this->nothing_held());
  EXPECT_EQ(this->rows("outbox_event"), "0");
  EXPECT_EQ(this->seen.total(), 0U);
}

TYPED_TEST(PostgresJoin, I2_AnErrorInTheTransactionLeavesNothing) {
  this->client.begin();
  this->write("a");
  auto const rest = [&] {
    this->client.execute("SELECT 1 / 0");
    this->client.commit();
  };
  EXPECT_ANY_THROW(rest());
  EXPECT_NO_THROW(this->client.rollback());
  this->client.begin();
  this->write("b");
  this->client.commit();
  ASSERT_TRUE(this->seen.reach(1));
  ASSERT_TRUE(this->all_settled());
  EXPECT_EQ(this->seen.of("a"), 0);
  EXPECT_EQ(this->seen.of("b"), 1);
}

TYPED_TEST(PostgresJoin, I2_AConnectionCutBeforeCommitLeavesNothing) {
  this->client.begin();
  this->write("a");
  this->proxy.cut_all();
  EXPECT_ANY_THROW(this->client.commit());
  this->client.close();
  ASSERT_TRUE(this->nothing_held());
  EXPECT_EQ(this->rows("outbox_event"), "0");
  EXPECT_EQ(this->seen.total(), 0U);
}

// The server never hears of COMMIT: the client cannot know, and says so; nothing is delivered.
TYPED_TEST(PostgresJoin, I2_AConnectionCutInCommitIsInDoubt) {
  this->client.begin();
  this->write("a");
  this->proxy.cut_commit(tcp_proxy::cut::before_request);
  try {
    this->client.commit();
    FAIL() << "committed";
  } catch (error const& e) {
    EXPECT_TRUE(e.in_doubt()) << e.what();
  } catch (std::exception const&) {
    EXPECT_FALSE(TypeParam::knows_doubt);
  }
  this->client.close();
  ASSERT_TRUE(this->nothing_held());
  EXPECT_TRUE(eventually([&] { return this->rows("outbox_event") == "0"; }));
  EXPECT_EQ(this->seen.total(), 0U);
}

// The server has committed and the client does not know: the poller delivers, once.
TYPED_TEST(PostgresJoin, I1_AConnectionCutAfterCommitLosesNothing) {
  this->client.begin();
  this->client.execute(this->insert(1).c_str());
  this->write("a");
  this->proxy.cut_commit(tcp_proxy::cut::before_reply);
  try {
    this->client.commit();
    FAIL() << "committed";
  } catch (error const& e) {
    EXPECT_TRUE(e.in_doubt()) << e.what();
  } catch (std::exception const&) {
    EXPECT_FALSE(TypeParam::knows_doubt);
  }
  this->client.close();
  ASSERT_TRUE(this->seen.reach(1));
  ASSERT_TRUE(this->all_settled());
  EXPECT_EQ(this->hot.total(), 0U) << "no node knew that it was committed";
  EXPECT_EQ(this->seen.total(), 1U);
  EXPECT_EQ(this->rows("orders"), "1");
}

// A trigger of the table's owner that keeps rows out, which only the number of inserted rows tells.
TYPED_TEST(PostgresJoin, I2_ARowThatATriggerSuppressesIsNotDelivered) {
  this->db.execute("CREATE FUNCTION " + this->db.table("suppress") +
                   "() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.event_id LIKE 'gone%' THEN RETURN NULL; END "
                   "IF; RETURN NEW; END $$");
  this->db.execute("CREATE TRIGGER suppress BEFORE INSERT ON " + this->db.table() + " FOR EACH ROW EXECUTE FUNCTION " +
                   this->db.table("suppress") + "()");
  auto const put = [&](std::vector<std::string> const& ids, bool behind_savepoint) {
    std::vector<event> events;
    for (auto const& id : ids) events.push_back(event::json("t", "1", {.id = id}));
    this->client.begin();
    if (behind_savepoint) this->client.execute("SAVEPOINT s");
    this->client.join([&](auto& tx) {
      if (events.size() == 1) {
        this->box->writer().write(tx, events.front());
      } else {
        this->box->writer().write_all(tx, events);
      }
    });
    this->client.commit();
  };
  put({"gone1"}, false);
  put({"gone2"}, true);
  put({"kept1", "gone3", "kept2"}, false);
  put({"kept3", "gone4", "kept4"}, true);
  ASSERT_TRUE(this->seen.reach(4));
  ASSERT_TRUE(this->all_settled());
  ASSERT_TRUE(this->nothing_held());
  EXPECT_EQ(this->seen.total(), 4U);
  for (auto const* const id : {"kept1", "kept2", "kept3", "kept4"}) EXPECT_EQ(this->seen.of(id), 1) << id;
  put({"kept5"}, false);
  ASSERT_TRUE(this->seen.reach(5));
  EXPECT_EQ(this->hot.of("kept5"), 1) << "the next transaction is not in doubt";
}

TYPED_TEST(PostgresJoin, ATransactionMayOutliveItsNode) {
  this->client.begin();
  this->write("a");
  auto const writer = this->box->writer();
  this->box.reset();
  this->client.commit();
  EXPECT_EQ(this->rows("outbox_event"), "1");
  EXPECT_EQ(this->seen.total(), 0U);
}

TYPED_TEST(PostgresJoin, SeveralNodesOnOneConnection) {
  postgres_database second_db;
  tally second_seen;
  multi_node_options o{.store = second_db.open(), .log = nullptr};
  o.poll.every = 1h;
  o.listeners.on("t", [&](delivery const& d) {
    if (d.path == path::hot) second_seen.add(d.id);
  });
  auto second = multi_node(std::move(o));
  second.start();
  this->client.begin();
  this->write("mine");
  this->client.join([&](auto& tx) { second.writer().write(tx, "t", "1", {.id = "other"}); });
  this->client.commit();
  ASSERT_TRUE(this->seen.reach(1));
  ASSERT_TRUE(second_seen.reach(1));
  EXPECT_EQ(this->hot.of("mine"), 1);
  EXPECT_EQ(second_seen.of("other"), 1);
}

TYPED_TEST(PostgresJoin, AnotherDatabaseIsRefusedAndTheTransactionLives) {
  postgres_database elsewhere{"outbox_other"};
  auto n = multi_node({.store = elsewhere.open(), .log = nullptr});
  this->client.begin();
  this->client.execute(this->insert(1).c_str());
  try {
    this->client.join([&](auto& tx) { n.writer().write(tx, "t", "1"); });
    FAIL() << "accepted";
  } catch (error const& e) {
    EXPECT_EQ(e.code(), errc::wrong_transaction) << e.what();
  }
  this->client.commit();
  EXPECT_EQ(this->rows("orders"), "1");
}

}  // namespace
}  // namespace outbox

// Every client that can join a transaction on PostgreSQL, and every way in which a transaction can end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <libpq-fe.h>

#ifdef OUTBOX_HAS_PQXX
#include <outbox/adapt/pqxx.hpp>
#endif
#include <outbox/outbox.hpp>
#include <outbox/postgres.hpp>

#include "support/postgres_database.hpp"
#include "support/tcp_proxy.hpp"
#include "support/waiting.hpp"

#ifdef __SANITIZE_ADDRESS__
// libpqxx 6.4 loses the result of a statement whose connection broke.
extern "C" char const* __lsan_default_suppressions() { return "leak:libpqxx\n"; }  // NOLINT: the sanitizer's name
#endif

namespace outbox {
namespace {

using namespace std::chrono_literals;

struct broken : std::runtime_error {
  using runtime_error::runtime_error;
};

void check(PGconn* c, char const* sql) {
  auto* const r = PQexec(c, sql);
  auto const status = PQresultStatus(r);
  bool const rolled_back = std::string_view{PQcmdStatus(r)} == "ROLLBACK" && std::string_view{sql} == "COMMIT";
  PQclear(r);
  if ((status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) || rolled_back) throw broken{PQerrorMessage(c)};
}

// BEGIN and COMMIT of the application's own on a libpq handle.
class raw_client {
 public:
  static constexpr char const* name = "libpq";
  static constexpr bool knows_doubt = false;  ///< Nobody but the application sees the error.
  explicit raw_client(std::string const& connection) : c_{std::make_unique<postgres::connection>(connection)} {}
  void begin() { execute("BEGIN"); }
  void execute(char const* sql) { check(c_->handle(), sql); }
  template <class F>
  void join(F&& f) {
    auto* handle = c_->handle();
    f(handle);
  }
  void commit() { execute("COMMIT"); }
  void rollback() { execute("ROLLBACK"); }
  void close() { c_.reset(); }

 private:
  std::unique_ptr<postgres::connection> c_;
};

// Our own transaction.
template <postgres::send_mode How>
class raii_client {
 public:
  static constexpr char const* name = How == postgres::send_mode::immediate ? "direct" : "pipelined";
  static constexpr bool knows_doubt = true;
  explicit raii_client(std::string const& connection) : c_{std::make_unique<postgres::connection>(connection)} {}
  void begin() { tx_.emplace(*c_, How); }
  void execute(char const* sql) {
    if (How == postgres::send_mode::pipelined) return tx_->enqueue(sql);
    check(c_->handle(), sql);
  }
  template <class F>
  void join(F&& f) {
    f(*tx_);
  }
  void commit() { tx_->commit(); }
  void rollback() { tx_->rollback(); }
  void close() {
    tx_.reset();
    c_.reset();
  }

 private:
  std::unique_ptr<postgres::connection> c_;
  std::optional<postgres::transaction> tx_;
};

class pqxx_client {
 public:
  static constexpr char const* name = "pqxx";
  static constexpr bool knows_doubt = false;
  explicit pqxx_client(std::string const& connection) : c_{std::make_unique<pqxx::connection>(connection)} {}
  void begin() { tx_ = std::make_unique<pqxx::work>(*c_); }
  void execute(char const* sql) { tx_->exec(sql); }
  template <class F>
  void join(F&& f) {
    f(*tx_);
  }
  void commit() { tx_->commit(); }
  void rollback() { tx_->abort(); }
  void close() {
    tx_.reset();
    c_.reset();
  }

 private:
  std::unique_ptr<pqxx::connection> c_;
  std::unique_ptr<pqxx::work> tx_;
};

using Clients = ::testing::Types<raw_client, raii_client<postgres::send_mode::immediate>,
                                 raii_client<postgres::send_mode::pipelined>, pqxx_client>;

struct client_name {
  template <class Client>
  static std::string GetName(int /*index*/) {
    return Client::name;
  }
};

template <class Client>
class PostgresJoin : public ::testing::Test {
 protected:
  PostgresJoin() {
    db.execute("CREATE TABLE " + db.table("orders") + " (id int PRIMARY KEY, of int REFERENCES " + db.table("orders") +
               " DEFERRABLE INITIALLY DEFERRED)");
    db.execute("SET search_path = " + db.schema());
    multi_node_options o{.store = db.open(), .log = nullptr};
    o.poll.every = 1h;       // what is delivered was handed over, or somebody woke the poller
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
  std::string insert(int id, std::string const& of = "NULL") {
    return "INSERT INTO " + db.table("orders") + " VALUES (" + std::to_string(id) + ", " + of + ")";
  }
  std::string rows(std::string const& table) { return db.ask("SELECT count(*) FROM " + db.table(table)); }
  bool nothing_held() {
    return eventually([&] { return box->counters().held == 0; });
  }
  bool all_settled() {
    return eventually([&] { return db.ask("SELECT count(*) FROM " + db.table() + " WHERE status <> 1") == "0"; });
  }

  postgres_database db;
  tcp_proxy proxy{postgres_server::shared().port()};
  Client client{proxy.connection()};
  tally seen, hot;
  std::optional<node> box;
};
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

// What a session has set must not decide how it reads what is sent to it, one event at a time or many.
TYPED_TEST(PostgresJoin, I11_SettingsOfTheSessionDoNotChangeWhatIsWritten) {
  ASSERT_TRUE(this->box->stop());  // nobody delivers them
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
  EXPECT_EQ(this->hot.total(), 0U) << "nobody knew that it was committed";
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

TYPED_TEST(PostgresJoin, ANodeThatIsGoneFirstIsNotMissed) {
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

// What only libpq's own handle can do.
class PostgresRaw : public PostgresJoin<raw_client> {};

TEST_F(PostgresRaw, WritingOutsideATransactionIsRefused) {
  postgres::connection c{db.connection()};
  EXPECT_THROW(box->writer().write(c.handle(), "t", "1"), error);
}

TEST_F(PostgresRaw, AResetConnectionIsInDoubtAndThenGoesOn) {
  postgres::connection c{db.connection()};
  check(c.handle(), "BEGIN");
  box->writer().write(c.handle(), "t", "1", {.id = "a"});
  PQreset(c.handle());
  ASSERT_TRUE(nothing_held());
  check(c.handle(), "BEGIN");
  box->writer().write(c.handle(), "t", "1", {.id = "b"});
  check(c.handle(), "COMMIT");
  ASSERT_TRUE(seen.reach(1));
  EXPECT_EQ(hot.of("b"), 1);
  EXPECT_EQ(seen.of("a"), 0);
}

TEST_F(PostgresRaw, EveryWayToCommitIsSeen) {
  postgres::connection c{db.connection()};
  int n = 0;
  for (auto const* const end : {"COMMIT", "END", "COMMIT AND NO CHAIN", "SELECT 1; COMMIT"}) {
    check(c.handle(), "START TRANSACTION");
    box->writer().write(c.handle(), "t", "1");
    check(c.handle(), end);
    ASSERT_TRUE(hot.reach(static_cast<std::size_t>(++n))) << end;
  }
  check(c.handle(), "BEGIN");
  box->writer().write(c.handle(), "t", "1");
  check(c.handle(), "COMMIT AND CHAIN");
  box->writer().write(c.handle(), "t", "1");
  check(c.handle(), "COMMIT");
  EXPECT_TRUE(hot.reach(6));
}

// Uses the connection while libpq hands out the answer to COMMIT or ROLLBACK.
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

TEST_F(PostgresRaw, I7_AHookMayUseTheConnectionOfATransactionThatHasEnded) {
  auto const hook = std::make_shared<nested_hook>();
  multi_node_options o{.store = db.open(), .log = nullptr};
  o.poll.every = 1h;
  o.hook = hook;
  o.listeners.on("t", [this](delivery const& d) {
    if (d.path == path::hot) hot.add(d.id);
    seen.add(d.id);
  });
  auto n = multi_node(std::move(o));
  n.start();
  postgres::connection c{db.connection()};
  auto const transact = [&](std::string const& id, char const* end) {
    check(c.handle(), "BEGIN");
    n.writer().write(c.handle(), "t", "1", {.id = id});
    check(c.handle(), end);
  };
  hook->write = [&](std::string const& id) { transact(id, id.size() == 3 ? "ROLLBACK" : "COMMIT"); };
  for (auto const* const id : {"a", "b", "d"}) {
    transact(id, "COMMIT");  // and in it the hook commits "ac", rolls back "acc" and commits "accr"
    check(c.handle(), "SELECT 1");
  }
  ASSERT_TRUE(seen.reach(9));
  ASSERT_TRUE(all_settled());
  n.stop();
  EXPECT_EQ(seen.total(), 9U) << "each once";
  EXPECT_EQ(hot.total(), 9U);
  EXPECT_EQ(n.counters().cold_enqueued, 0U) << "no end was in doubt";
  EXPECT_EQ(seen.of("acc"), 0);
  EXPECT_EQ(hot.of("accr"), 1);
  EXPECT_EQ(rows("outbox_event"), "9");
}

TEST_F(PostgresRaw, I2_APreparedTransactionIsThePollers) {
  postgres_server server{{.settings = {"max_prepared_transactions=4"}}};
  postgres_database own{"postgres", server};
  tally cold;
  multi_node_options o{.store = own.open(), .log = nullptr};
  o.poll.every = 20ms;
  o.lease.duration = 1s;
  o.listeners.on("t", [&](delivery const& d) {
    if (d.path == path::cold) cold.add(d.id);
  });
  auto n = multi_node(std::move(o));
  n.start();
  postgres::connection c{own.connection()};
  check(c.handle(), "BEGIN");
  n.writer().write(c.handle(), "t", "1", {.id = "a"});
  check(c.handle(), "PREPARE TRANSACTION 'x'");
  EXPECT_EQ(cold.total(), 0U);
  check(c.handle(), "COMMIT PREPARED 'x'");
  EXPECT_TRUE(cold.reach(1));
}

TEST_F(PostgresRaw, AConnectionWithAnotherEncodingIsRefused) {
  postgres::connection c{db.connection() + " client_encoding=LATIN1"};
  c.execute("SET client_encoding = 'LATIN1'");
  check(c.handle(), "BEGIN");
  EXPECT_THROW(box->writer().write(c.handle(), "t", "1"), error);
  check(c.handle(), "COMMIT");
}

TEST_F(PostgresRaw, NothingStaysPreparedOnACallersConnection) {
  postgres::connection c{db.connection()};
  for (int i = 0; i < 3; ++i) {
    check(c.handle(), "BEGIN");
    box->writer().write(c.handle(), "t", "1");
    check(c.handle(), "COMMIT");
  }
  auto* const r = PQexec(c.handle(), "SELECT count(*) FROM pg_prepared_statements");
  EXPECT_STREQ(PQgetvalue(r, 0, 0), "0");
  PQclear(r);
}

// What only our own transaction can do.
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
  tx.enqueue("INSERT INTO " + db.table("orders") + " VALUES ($1, $2)", {std::int64_t{5}, std::monostate{}});
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

TEST_F(PostgresTransaction, OneEndedBySqlSaysSo) {
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
TEST_F(PostgresTransaction, OneThatSqlCommittedSaysWhatIsLost) {
  std::vector<std::string> said;
  auto o = db.options();
  o.log = [&](log_level level, std::string_view text) {
    if (level == log_level::error) said.emplace_back(text);
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
TEST_F(PostgresTransaction, I2_OneThatWasChainedBySqlSaysSo) {
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

// What was written before a savepoint outlives it, however often that is rolled back and whatever is sent in between.
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

TEST_F(PostgresTransaction, ABusyConnectionIsSaidAndNothingIsEnded) {
  postgres::connection c{db.connection()};
  postgres::transaction tx{c};
  box->writer().write(tx, "t", "1", {.id = "a"});
  ASSERT_EQ(PQsendQuery(c.handle(), "SELECT 1"), 1);
  try {
    tx.commit();
    FAIL() << "committed";
  } catch (error const& e) {
    EXPECT_EQ(e.code(), errc::wrong_transaction) << e.what();
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

TEST_F(PostgresTransaction, AStatementThatSomebodyDroppedIsPreparedAgain) {
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
  db.execute("SELECT pg_terminate_backend(" + std::to_string(PQbackendPID(c.handle())) + ")");
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
    auto const pid = std::to_string(PQbackendPID(c.handle()));
    {
      postgres::transaction first{c, how};  // the connection gets to know the table
      box->writer().write(first, "t", "1");
      first.rollback();
    }
    postgres::transaction tx{c, how};
    tx.enqueue("SET LOCAL idle_in_transaction_session_timeout = 20");
    tx.flush();
    box->writer().write(tx, "t", "1", {.id = "a"});  // waits for COMMIT
    ASSERT_TRUE(eventually([&] { return db.ask("SELECT count(*) FROM pg_stat_activity WHERE pid = " + pid) == "0"; }));
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

TEST_F(PostgresTransaction, WhatCannotTravelIsSaid) {
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
  EXPECT_THROW(tx.enqueue("SELECT $1::text", {std::string_view{"a\0b", 3}}), error);
}

TEST_F(PostgresTransaction, ASecondOneOnTheSameConnectionIsRefused) {
  postgres::connection c{db.connection()};
  postgres::transaction tx{c};
  EXPECT_THROW(postgres::transaction{c}, error);
  EXPECT_TRUE(tx.active());
}

}  // namespace
}  // namespace outbox

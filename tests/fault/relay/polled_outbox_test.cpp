// The table `outbox` of a service that polls it, as that service created it, and the configuration that is installed
// for it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <outbox/outbox.hpp>
#include <outbox/postgres.hpp>
#include <outbox/sqlite.hpp>

#include "support/free_port.hpp"
#include "support/kafka_cluster.hpp"
#include "support/postgres_database.hpp"
#include "support/temporary_directory.hpp"
#include "support/waiting.hpp"

namespace outbox {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using namespace std::chrono_literals;

constexpr char const* order = "0190a0b0-0000-7000-8000-00000000000f";

std::string id_of(int n) { return "0190a0b0-0000-7000-8000-" + std::to_string(100000000000 + n); }

class PolledOutbox : public ::testing::Test {
 protected:
  PolledOutbox() {
    db.execute("CREATE TABLE " + table() +
               " (id UUID PRIMARY KEY, aggregate_type VARCHAR(255) NOT NULL, aggregate_id UUID NOT NULL, event_type "
               "VARCHAR(255) NOT NULL, payload TEXT NOT NULL, status VARCHAR(50) NOT NULL, created_at TIMESTAMP NOT "
               "NULL, sent_at TIMESTAMP NULL, error_message TEXT NULL)");
    db.execute("CREATE INDEX idx_outbox_status_created ON " + table() + " (status, created_at)");
    db.execute("CREATE INDEX idx_outbox_aggregate ON " + table() + " (aggregate_id)");
  }
  ~PolledOutbox() override {
    if (relay_ <= 0) return;
    ::kill(relay_, SIGKILL);
    ::waitpid(relay_, nullptr, 0);
  }

  std::string table() const { return db.table("outbox"); }

  // As a service writes it, with plain SQL.
  void insert(int from, int to) {
    db.execute("INSERT INTO " + table() +
                   " SELECT ('0190a0b0-0000-7000-8000-' || (100000000000 + n))::uuid, 'Order', $3::uuid, "
                   "'OrderCreated', '{\"n\":' "
                   "|| n || '}', 'NEW', (now() AT TIME ZONE 'UTC') + n * interval '1 millisecond' FROM "
                   "generate_series($1::int, $2::int) n",
               from, to - 1, order);
  }
  std::string status(int n) { return db.ask("SELECT status FROM " + table() + " WHERE id = $1::uuid", id_of(n)); }
  bool all(std::string const& word, int n) {
    return db.ask("SELECT count(*)::text FROM " + table() + " WHERE status = $1", word) == std::to_string(n);
  }

  std::shared_ptr<store> open(table_layout l = layouts::polled_outbox()) {
    auto o = db.options();
    o.layout = std::move(l);
    return postgres::open(db.connection(), o);
  }

  // The relay with the file as it is installed: only what every installation must set comes from variables.
  void start_relay(std::string const& brokers, std::vector<std::string> more = {}) {
    auto& server = postgres_server::shared();
    more.push_back("OUTBOX_STORE__URL=postgresql://outbox@127.0.0.1:" + std::to_string(server.port()) +
                   "/postgres?outbox.schema=" + db.schema());
    more.push_back("OUTBOX_SINKS__KAFKA__BOOTSTRAP_SERVERS=" + brokers);
    more.push_back("OUTBOX_HTTP__LISTEN=127.0.0.1:" + std::to_string(free_port()));
    more.emplace_back("DB_PASSWORD=none");
    relay_ = ::fork();
    if (relay_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      int const log = ::open((dir / "relay.log").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0666);
      ::dup2(log, STDERR_FILENO);
      for (auto const& e : more) ::putenv(const_cast<char*>(e.c_str()));
      ::execl(OUTBOX_TOOL, "outbox", "relay", "--config", OUTBOX_PROFILE, nullptr);
      ::_exit(127);
    }
  }
  std::string log() const {
    std::ifstream in{dir / "relay.log"};
    return {std::istreambuf_iterator<char>{in}, {}};
  }

  postgres_database db;
  temporary_directory dir;
  ::pid_t relay_ = -1;
};

TEST_F(PolledOutbox, TheInstalledProfileSendsWhatAServiceWrites) {
  if (auto const why = why_no_kafka(); !why.empty()) GTEST_SKIP() << why;
  kafka_cluster kafka;
  kafka.topic("OrderCreated", 1);
  insert(0, 25);
  start_relay(kafka.addresses(), {"OUTBOX_POLL__EVERY=200ms"});
  ASSERT_TRUE(eventually([&] { return all("SENT", 25); })) << log();
  EXPECT_EQ(kafka.payloads("OrderCreated").size(), 25U);
  EXPECT_EQ(kafka.messages("OrderCreated").front().key, order);
  EXPECT_EQ(db.ask("SELECT count(*)::text FROM " + table() +
                   " WHERE sent_at IS NOT NULL AND abs(extract(epoch FROM sent_at - (now() AT TIME ZONE 'UTC'))) < "
                   "3600 AND error_message IS NULL"),
            "25");
  EXPECT_THAT(log(), HasSubstr("is served as it is"));
  EXPECT_THAT(log(), HasSubstr("multi_node is refused"));
}

TEST_F(PolledOutbox, WhatTheBrokerRejectsIsFailedAndSentAgainAfterAnOperatorSaysSo) {
  if (auto const why = why_no_kafka(); !why.empty()) GTEST_SKIP() << why;
  kafka_cluster kafka;
  kafka.topic("OrderCreated", 1);
  insert(0, 2);
  // Larger than a message may be.
  db.execute("UPDATE " + table() + " SET payload = '\"' || repeat('x', 2000000) || '\"' WHERE id = $1::uuid", id_of(0));
  start_relay(kafka.addresses(), {"OUTBOX_POLL__EVERY=200ms"});
  ASSERT_TRUE(eventually([&] { return all("SENT", 1) && all("FAILED", 1); })) << log();
  EXPECT_EQ(status(0), "FAILED");
  EXPECT_NE(db.ask("SELECT error_message FROM " + table() + " WHERE status = 'FAILED'"), "");
  EXPECT_EQ(db.ask("SELECT sent_at::text FROM " + table() + " WHERE status = 'FAILED'"), "");
  EXPECT_TRUE(eventually([&] { return log().find("level=error") != std::string::npos; })) << log();
  db.execute("UPDATE " + table() + " SET payload = '{}', status = 'NEW', error_message = NULL WHERE status = 'FAILED'");
  EXPECT_TRUE(eventually([&] { return all("SENT", 2); })) << log();
}

TEST_F(PolledOutbox, FiveAttemptsThenFailedWithTheErrorAndFromTheBeginningAfterAReplay) {
  insert(0, 1);
  std::atomic<int> calls = 0;
  std::atomic<bool> broken = true;
  listeners l;
  l.on("OrderCreated", [&](delivery const&) -> result {
    ++calls;
    if (broken) return failed{"the carrier is down"};
    return done;
  });
  auto const s = open();
  auto box = single_node({.store = s,
                          .listeners = std::move(l),
                          .poll = {.every = 100ms, .batch = 10, .max_batch = 10, .drain = false},
                          .retry = {.max_attempts = 5, .backoff = {.base = 1ms, .cap = 16ms}, .jitter = false},
                          .log = nullptr});
  box.start();
  ASSERT_TRUE(eventually([&] { return status(0) == "FAILED"; }));
  EXPECT_EQ(calls, 5);
  EXPECT_EQ(db.ask("SELECT error_message FROM " + table()), "the carrier is down");
  broken = false;
  db.execute("UPDATE " + table() + " SET status = 'NEW', error_message = NULL");
  EXPECT_TRUE(eventually([&] { return status(0) == "SENT"; }));
  EXPECT_EQ(calls, 6);
}

TEST_F(PolledOutbox, ADeadRowIsReplayedByTheLibraryToo) {
  insert(0, 1);
  db.execute("UPDATE " + table() + " SET status = 'FAILED', error_message = 'why'");
  auto const s = open();
  EXPECT_EQ(s->backend().replay({.ids = {id_of(0)}}, 1), 1U);
  EXPECT_EQ(status(0), "NEW");
  EXPECT_EQ(db.ask("SELECT error_message FROM " + table()), "");
  EXPECT_EQ(s->backend().replay({.ids = {"not a uuid"}}, 1), 0U);
}

TEST_F(PolledOutbox, TenRowsPerRoundAndNoMore) {
  insert(0, 25);
  auto const s = open();
  listeners l;
  l.on("OrderCreated", [](delivery const&) -> result { return done; });
  auto box = single_node({.store = s,
                          .listeners = std::move(l),
                          .poll = {.every = 1h, .batch = 10, .max_batch = 10, .drain = false},
                          .log = nullptr});
  box.start();
  ASSERT_TRUE(eventually([&] { return all("SENT", 10); }));
  EXPECT_EQ(db.ask("SELECT max(payload) FROM (SELECT payload FROM " + table() + " WHERE status = 'SENT') x"),
            R"({"n":9})")
      << "the oldest ten";
  EXPECT_TRUE(box.stop(10s));
  EXPECT_TRUE(all("SENT", 10)) << "the rest waits for the next round";
}

TEST_F(PolledOutbox, WhatTheLibraryWritesCanBeReadByTheQueriesOfTheService) {
  auto l = layouts::polled_outbox();
  l.id_in_payload = "eventId";
  auto const s = open(l);
  auto box = single_node({.store = s, .log = nullptr});
  postgres::connection c{db.connection()};
  postgres::transaction tx{c};
  auto const id =
      box.writer().write(tx, event::json("OrderCreated", R"({"total":1})", {.aggregate = {"Order", order}}));
  tx.commit();
  std::string const text = id.str();
  EXPECT_THAT(text, MatchesRegex("[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"));
  auto const found = c.query<std::string, std::string, std::string, std::string>(
      "SELECT id::text, aggregate_id::text, payload, status FROM " + table() +
      " WHERE status = 'NEW' ORDER BY created_at ASC LIMIT 10");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0], (std::tuple<std::string, std::string, std::string, std::string>{
                          text, order, "{\"eventId\":\"" + text + "\",\"total\":1}", "NEW"}));
}

TEST_F(PolledOutbox, TheIdInAPayloadIsThatOfTheEventOrRefused) {
  auto l = layouts::polled_outbox();
  l.id_in_payload = "eventId";
  auto box = single_node({.store = open(l), .log = nullptr});
  postgres::connection c{db.connection()};
  int n = 0;
  auto const write = [&](std::string const& payload) {
    auto const id = id_of(++n);
    postgres::transaction tx{c};
    try {
      box.writer().write(tx, event::json("OrderCreated", payload, {.id = id, .aggregate = {"Order", order}}));
    } catch (error const& e) {
      return "refused: " + std::string{e.field()};
    }
    tx.commit();
    return db.ask("SELECT payload FROM " + table() + " WHERE id = $1::uuid", id);
  };
  auto const next = [&] { return "\"eventId\":\"" + id_of(n + 1) + '"'; };
  auto expected = "{" + next() + "}";
  EXPECT_EQ(write("{}"), expected);
  expected = "{ \"a\":1, " + next() + "}";
  EXPECT_EQ(write(expected), expected) << "it is there already";
  expected = "{" + next() + R"(,"a":{"eventId":"x"},"b":"\"eventId\":"})";
  EXPECT_EQ(write(R"({"a":{"eventId":"x"},"b":"\"eventId\":"})"), expected) << "only the object's own members count";
  EXPECT_EQ(write(R"({"eventId":"another"})"), "refused: payload");
  EXPECT_EQ(write(R"({"eventId":null})"), "refused: payload");
  EXPECT_EQ(write(R"(["eventId"])"), "refused: payload");
  EXPECT_TRUE(all("NEW", 3)) << "nothing of what was refused is there";
}

TEST_F(PolledOutbox, WhatTheTableCannotKeepIsRefusedByNameBeforeAnySql) {
  auto const s = open();
  auto box = single_node({.store = s, .log = nullptr});
  postgres::connection c{db.connection()};
  postgres::transaction tx{c};
  aggregate const a{"Order", order};
  auto const field_of = [&](event const& e) -> std::string {
    try {
      box.writer().write(tx, e);
      return "accepted";
    } catch (error const& refused) {
      EXPECT_EQ(refused.code(), errc::invalid_event) << refused.what();
      return std::string{refused.field()};
    }
  };
  EXPECT_EQ(field_of(event::json("t", "{}", {.id = "42", .aggregate = a})), "id");
  EXPECT_EQ(field_of(event::json("t", "{}", {.aggregate = {"Order", "42"}})), "aggregate.id");
  EXPECT_EQ(field_of(event::json("t", "{}")), "aggregate.type");
  EXPECT_EQ(field_of(event::json("t", "{}", {.aggregate = a, .headers = {{"h", "1"}}})), "headers");
  EXPECT_EQ(field_of(event::json("t", "{}", {.aggregate = a, .tenant = "x"})), "tenant");
  EXPECT_EQ(field_of(event::json("t", "{}", {.aggregate = a, .deliver_after = 1s})), "deliver_after");
  EXPECT_EQ(field_of(event::json("t", "{}", {.aggregate = a, .ordering_key = "k"})), "ordering_key");
  EXPECT_EQ(field_of(event::bytes("t", std::string{"x"}, "text/plain", {.aggregate = a})), "payload");
  EXPECT_EQ(field_of(event::json("t", "{}", {.aggregate = a})), "accepted") << "the transaction goes on";
  tx.commit();
  EXPECT_TRUE(all("NEW", 1));
}

TEST_F(PolledOutbox, ModesAndListenersThatNeedMoreAreRefused) {
  auto const s = open();
  auto many = multi_node({.store = s, .log = nullptr});
  try {
    many.start();
    ADD_FAILURE() << "it must not start";
  } catch (error const& e) {
    EXPECT_EQ(e.code(), errc::unsupported);
    EXPECT_THAT(e.what(), HasSubstr("single_node"));
  }
  listeners several;
  several.on("OrderCreated", fan_out<>{}.to("a", [](delivery const&) -> result { return done; }));
  EXPECT_THROW(single_node({.store = s, .listeners = std::move(several), .log = nullptr}), error);
  EXPECT_THROW(s->backend().pause({"OrderCreated", ""}), error);
}

TEST_F(PolledOutbox, MigrateNeverTouchesTheTable) {
  auto o = db.options();
  o.layout = layouts::polled_outbox();
  EXPECT_THROW(postgres::migrate(db.connection(), o), error);
  static_cast<void>(open());
  EXPECT_EQ(
      db.ask("SELECT count(*)::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname "
             "= $1 AND c.relkind = 'r'",
             db.schema()),
      "1")
      << "no companion either";
}

TEST_F(PolledOutbox, ATableThatIsNotAsDescribedIsRefusedByName) {
  auto l = layouts::polled_outbox();
  l.error = "no_such_column";
  try {
    static_cast<void>(open(l));
    ADD_FAILURE() << "it must not open";
  } catch (error const& e) {
    EXPECT_EQ(e.code(), errc::store_failure);
    EXPECT_THAT(e.what(), HasSubstr("no_such_column"));
  }
}

TEST_F(PolledOutbox, CleanupAfterThirtyDaysDeletesOnlyWhatWasSent) {
  insert(0, 4);
  db.execute("UPDATE " + table() +
             " SET status = 'SENT', sent_at = now() AT TIME ZONE 'UTC' - interval '31 days' WHERE "
             "payload = '{\"n\":0}'");
  db.execute("UPDATE " + table() +
             " SET status = 'SENT', sent_at = now() AT TIME ZONE 'UTC' - interval '29 days' WHERE "
             "payload = '{\"n\":1}'");
  db.execute("UPDATE " + table() +
             " SET status = 'FAILED', created_at = created_at - interval '31 days' WHERE payload "
             "= '{\"n\":2}'");
  EXPECT_EQ(open()->backend().purge({.retention = 24h * 30, .dead = false}), 1U);
  EXPECT_THAT(db.lines("SELECT payload FROM " + table() + " ORDER BY payload"),
              ElementsAre(R"({"n":1})", R"({"n":2})", R"({"n":3})"));
}

TEST(TableLayout, MistakesAreNamed) {
  auto const field_of = [](table_layout const& l) -> std::string {
    try {
      check(l);
      return "accepted";
    } catch (error const& e) {
      EXPECT_EQ(e.code(), errc::invalid_option);
      return std::string{e.field()};
    }
  };
  auto const with = [](auto change) {
    auto l = layouts::polled_outbox();
    change(l);
    return l;
  };
  EXPECT_EQ(field_of(layouts::polled_outbox()), "accepted");
  EXPECT_EQ(field_of({}), "layout.table");
  EXPECT_EQ(field_of(with([](auto& l) { l.table = "a.b.c"; })), "layout.table");
  EXPECT_EQ(field_of(with([](auto& l) { l.payload = "pay load"; })), "layout.payload");
  EXPECT_EQ(field_of(with([](auto& l) { l.error = "id"; })), "layout.error");
  EXPECT_EQ(field_of(with([](auto& l) { l.done = "it's"; })), "layout.done");
  EXPECT_EQ(field_of(with([](auto& l) { l.dead = "NEW"; })), "layout.dead");
  EXPECT_EQ(field_of(with([](auto& l) { l.remembered = 1; })), "layout.remembered");
}

}  // namespace
}  // namespace outbox

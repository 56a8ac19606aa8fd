// SQL of the application through `postgres::connection` and `postgres::transaction`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <libpq-fe.h>

#include <limits>
#include <outbox/outbox.hpp>
#include <outbox/postgres.hpp>
#include <outbox/spi/sql_connection.hpp>
#include <string>
#include <tuple>

#include "support/postgres_database.hpp"

namespace outbox {
namespace {

using ::testing::ElementsAre;
using octets = std::vector<std::byte>;

class PostgresExecute : public ::testing::Test {
 protected:
  PostgresExecute() {
    db.execute("SET search_path = " + own.schema());
    db.execute("CREATE TABLE t (a text, b bigint)");
  }

  template <class F>
  static error refused(F&& f) {
    try {
      f();
    } catch (error const& e) {
      return e;
    }
    ADD_FAILURE() << "accepted";
    return {errc::lifecycle, ""};
  }
  [[nodiscard]] int count() { return db.query_one<int>("SELECT count(*) FROM t"); }

  postgres_database own;
  postgres::connection db{own.connection()};
};

TEST_F(PostgresExecute, AHostileTextIsAValueAndNotSql) {
  std::string const hostile = "'); DROP TABLE t; --";
  EXPECT_EQ(db.execute("INSERT INTO t VALUES ($1, $2)", hostile, 1), 1);
  EXPECT_THAT(db.query<std::string>("SELECT a FROM t WHERE a = $1", hostile), ElementsAre(hostile));
}

TEST_F(PostgresExecute, EveryTypeComesBackAsItWas) {
  octets const blob{std::byte{0}, std::byte{255}, std::byte{'\''}};
  auto const least = std::numeric_limits<std::int64_t>::min();
  auto const got = db.query_one<std::int64_t, std::int64_t, double, bool, std::string, octets, std::optional<int>>(
      "SELECT $1::bigint, $2::bigint, $3::float8, $4::boolean, $5::text, $6::bytea, $7::int",
      std::numeric_limits<std::int64_t>::max(), least, 0.1 + 0.2, true, "\\x41", blob, std::nullopt);
  EXPECT_EQ(got, std::tuple(std::numeric_limits<std::int64_t>::max(), least, 0.1 + 0.2, true, std::string{"\\x41"},
                            blob, std::optional<int>{}));
}

TEST_F(PostgresExecute, ItReturnsTheNumberOfRowsThatChanged) {
  EXPECT_EQ(db.execute("INSERT INTO t (b) VALUES (1), (2), (3)"), 3);
  EXPECT_EQ(db.execute("UPDATE t SET a = $1 WHERE b > $2", "x", 1), 2);
  EXPECT_EQ(db.execute("SELECT * FROM t"), 0);
}

TEST_F(PostgresExecute, ValuesThatPostgresCannotStoreAreRefused) {
  auto const nul = refused([&] { db.execute("INSERT INTO t VALUES ($1)", std::string_view{"a\0b", 3}); });
  EXPECT_EQ(nul.code(), errc::type_mismatch);
  EXPECT_EQ(nul.field(), "argument 1");
  auto const not_utf8 = refused([&] { db.execute("INSERT INTO t VALUES ($1)", "\xff\xfe"); });
  EXPECT_EQ(not_utf8.code(), errc::store_failure);
  EXPECT_EQ(not_utf8.sqlstate(), "22021");
  EXPECT_EQ(refused([&] { db.execute("SELECT $1", std::numeric_limits<std::uint64_t>::max()); }).code(),
            errc::type_mismatch);
  EXPECT_EQ(refused([&] { db.execute(std::string_view{"SELECT 1\0; DROP TABLE t", 23}); }).field(), "sql");
  EXPECT_EQ(count(), 0);
}

TEST_F(PostgresExecute, AWrongNumberOfArgumentsIsRefusedAndTheConnectionGoesOn) {
  auto const few = refused([&] { db.execute("INSERT INTO t VALUES ($1, $2)", "a"); });
  EXPECT_EQ(few.code(), errc::type_mismatch) << few.what();
  EXPECT_EQ(refused([&] { db.execute("INSERT INTO t VALUES ($1, 2)", "a", 2); }).code(), errc::type_mismatch);
  EXPECT_EQ(count(), 0);
}

TEST_F(PostgresExecute, SeveralStatementsRunWithoutArgumentsOnly) {
  EXPECT_EQ(db.execute("INSERT INTO t (b) VALUES (1); INSERT INTO t (b) VALUES (2), (3)"), 2);
  EXPECT_EQ(refused([&] { db.execute("DELETE FROM t WHERE b = $1; DROP TABLE t", 1); }).code(), errc::store_failure);
  EXPECT_EQ(count(), 3);
}

TEST_F(PostgresExecute, AResultThatDoesNotFitNamesItsColumn) {
  db.execute("INSERT INTO t VALUES ($1, $2)", "text", std::nullopt);
  EXPECT_EQ(refused([&] { (void)db.query<std::string, int>("SELECT a, b FROM t"); }).field(), "column 2");
  EXPECT_EQ(refused([&] { (void)db.query<int>("SELECT a FROM t"); }).field(), "column 1");
  EXPECT_EQ(refused([&] { (void)db.query<int>("SELECT 4294967296"); }).field(), "column 1");
  EXPECT_EQ(refused([&] { (void)db.query<std::string>("SELECT a, b FROM t"); }).code(), errc::type_mismatch);
}

TEST_F(PostgresExecute, AUniqueConstraintOfTheApplicationIsNoDuplicateEvent) {
  db.execute("CREATE UNIQUE INDEX u ON t (a)");
  db.execute("INSERT INTO t (a) VALUES ($1)", "x");
  auto const e = refused([&] { db.execute("INSERT INTO t (a) VALUES ($1)", "x"); });
  EXPECT_EQ(e.code(), errc::store_failure);
  EXPECT_EQ(e.sqlstate(), "23505");
}

TEST_F(PostgresExecute, ATransactionRunsStatementsInBothModesUntilItEnds) {
  for (auto const mode : {postgres::send_mode::immediate, postgres::send_mode::pipelined}) {
    postgres::transaction tx{db, mode};
    tx.enqueue("INSERT INTO t (b) VALUES ($1)", 1);
    EXPECT_EQ(tx.execute("INSERT INTO t (b) VALUES ($1)", 2), 1);
    EXPECT_THAT(tx.query<int>("SELECT b FROM t ORDER BY b"), ElementsAre(1, 2));
    tx.enqueue("INSERT INTO t (b) VALUES ($1)", 3);
    tx.commit();
    EXPECT_EQ(refused([&] { tx.execute("DELETE FROM t WHERE b > $1", 0); }).code(), errc::no_transaction);
    EXPECT_EQ(db.execute("DELETE FROM t"), 3);
  }
}

TEST_F(PostgresExecute, AStatementThatFailsInAPipelinedTransactionRollsItBack) {
  postgres::transaction tx{db, postgres::send_mode::pipelined};
  tx.enqueue("INSERT INTO t (b) VALUES ($1)", 1);
  EXPECT_EQ(refused([&] { (void)tx.query<int>("SELECT 1 / $1", 0); }).sqlstate(), "22012");
  EXPECT_EQ(refused([&] { tx.commit(); }).code(), errc::store_failure);
  EXPECT_EQ(count(), 0);
}

TEST_F(PostgresExecute, AConnectionWithUnreadResultsIsBusy) {
  postgres::transaction tx{db};
  ASSERT_EQ(PQsendQuery(db.handle(), "SELECT 1"), 1);
  EXPECT_EQ(refused([&] { db.execute("SELECT 1"); }).code(), errc::connection_busy);
  EXPECT_EQ(refused([&] { tx.enqueue("SELECT 1"); }).code(), errc::connection_busy);
  EXPECT_EQ(refused([&] { tx.commit(); }).code(), errc::connection_busy);
  while (auto* const r = PQgetResult(db.handle())) PQclear(r);
  tx.commit();

  ASSERT_EQ(PQsendQuery(db.handle(), "SELECT 1"), 1);
  EXPECT_EQ(refused([&] { postgres::transaction{db}; }).code(), errc::connection_busy);
  while (auto* const r = PQgetResult(db.handle())) PQclear(r);
  EXPECT_EQ(db.query_one<int>("SELECT 1"), 1);
}

// An adapter that passes a connection of its own making: the store must find out and not take it for its own.
TEST_F(PostgresExecute, AConnectionThatTheStoreDoesNotKnowIsRefused) {
  struct unknown final : sql::connection {
    [[nodiscard]] bool in_transaction() const noexcept override { return true; }
    std::int64_t execute(std::string_view, std::span<sql::value const>, sql::row_function const&) override {
      ADD_FAILURE() << "used";
      return 0;
    }
  };
  static constexpr transaction_operations wrong{
      .kind = "postgres",
      .active = [](void const*) noexcept { return true; },
      .enlist = [](void*, std::shared_ptr<transaction_observer>) { return false; },
      .run =
          [](void* t, void (*use)(void*, void*), void* what) {
            sql::connection& on = *static_cast<unknown*>(t);
            use(what, &on);
          }};
  static constexpr transaction_operations nothing{.kind = "postgres", .active = wrong.active, .enlist = wrong.enlist};
  auto const n = writer_only({.store = own.open(), .log = nullptr});
  unknown c;
  EXPECT_EQ(refused([&] { n.writer().write(transaction_ref{&c, wrong}, "t", "1"); }).code(), errc::wrong_transaction);
  EXPECT_EQ(refused([&] { n.writer().write(transaction_ref{&c, nothing}, "t", "1"); }).code(), errc::wrong_transaction);
}

}  // namespace
}  // namespace outbox

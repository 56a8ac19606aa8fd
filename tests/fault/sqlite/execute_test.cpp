// SQL of the application through `sqlite::connection` and `sqlite::transaction`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <outbox/outbox.hpp>
#include <outbox/spi/sql_connection.hpp>
#include <outbox/sqlite.hpp>
#include <string>
#include <tuple>

#include "support/temporary_directory.hpp"

namespace outbox {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using octets = std::vector<std::byte>;

class SqliteExecute : public ::testing::Test {
 protected:
  SqliteExecute() { db.execute("CREATE TABLE t (a, b)"); }

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

  temporary_directory dir;
  sqlite::connection db{dir / "a.db"};
};

TEST_F(SqliteExecute, AHostileTextIsAValueAndNotSql) {
  std::string const hostile = "'); DROP TABLE t; --";
  EXPECT_EQ(db.execute("INSERT INTO t VALUES (?, ?)", hostile, "b"), 1);
  EXPECT_THAT(db.query<std::string>("SELECT a FROM t WHERE a = ?1", hostile), ElementsAre(hostile));
}

TEST_F(SqliteExecute, EveryTypeComesBackAsItWas) {
  octets const blob{std::byte{0}, std::byte{255}, std::byte{'\''}};
  auto const least = std::numeric_limits<std::int64_t>::min();
  auto const got = db.query_one<std::int64_t, std::int64_t, double, bool, std::string, octets, std::optional<int>>(
      "SELECT ?, ?, ?, ?, ?, ?, ?", std::numeric_limits<std::int64_t>::max(), least, 0.1 + 0.2, true,
      std::string_view{"a\0b", 3}, blob, std::nullopt);
  EXPECT_EQ(got, std::tuple(std::numeric_limits<std::int64_t>::max(), least, 0.1 + 0.2, true, std::string("a\0b", 3),
                            blob, std::optional<int>{}));
}

TEST_F(SqliteExecute, AnOptionalIsItsValueOrNull) {
  db.execute("INSERT INTO t VALUES (?, ?)", std::optional<std::string>{"x"}, std::optional<int>{});
  auto const rows = db.query<std::optional<std::string>, std::optional<int>>("SELECT a, b FROM t");
  EXPECT_THAT(rows, ElementsAre(std::tuple(std::optional<std::string>{"x"}, std::optional<int>{})));
}

TEST_F(SqliteExecute, TextThatIsNotUtf8ComesBackByteForByte) {
  db.execute("INSERT INTO t (a) VALUES (?)", "\xff\xfe");
  EXPECT_EQ(db.query_one<std::string>("SELECT a FROM t"), "\xff\xfe");
}

TEST_F(SqliteExecute, ItReturnsTheNumberOfRowsThatChanged) {
  db.execute("INSERT INTO t (a) VALUES (1), (2), (3)");
  EXPECT_EQ(db.execute("UPDATE t SET b = ? WHERE a > ?", "x", 1), 2);
  EXPECT_EQ(db.execute("CREATE TABLE u (a)"), 0) << "not the number of the statement before";
  EXPECT_EQ(db.execute("DELETE FROM t WHERE a > ?", 9), 0);
}

TEST_F(SqliteExecute, SeveralStatementsRunWithoutArgumentsOnly) {
  EXPECT_EQ(db.execute("INSERT INTO t (a) VALUES (1); INSERT INTO t (a) VALUES (2), (3); -- end\n"), 2);
  auto const e = refused([&] { db.execute("DELETE FROM t WHERE a = ?; DROP TABLE t", 1); });
  EXPECT_EQ(e.code(), errc::type_mismatch) << e.what();
  EXPECT_EQ(e.field(), "sql");
}

TEST_F(SqliteExecute, AWrongNumberOfArgumentsIsRefused) {
  EXPECT_EQ(refused([&] { db.execute("INSERT INTO t VALUES (?, ?)", 1); }).code(), errc::type_mismatch);
  EXPECT_EQ(refused([&] { db.execute("INSERT INTO t VALUES (1, 2)", 1); }).code(), errc::type_mismatch);
  EXPECT_EQ(refused([&] { db.execute("INSERT INTO t VALUES (?, 2)"); }).code(), errc::type_mismatch);
  EXPECT_EQ(count(), 0);
}

TEST_F(SqliteExecute, AResultThatDoesNotFitNamesItsColumn) {
  db.execute("INSERT INTO t VALUES (?, ?)", "text", std::nullopt);
  auto const null = refused([&] { (void)db.query<std::string, int>("SELECT a, b FROM t"); });
  EXPECT_EQ(null.code(), errc::type_mismatch);
  EXPECT_EQ(null.field(), "column 2");
  EXPECT_THAT(null.what(), HasSubstr("NULL"));
  EXPECT_EQ(refused([&] { (void)db.query<int>("SELECT a FROM t"); }).field(), "column 1") << "not a number";
  EXPECT_EQ(refused([&] { (void)db.query<std::int8_t>("SELECT 128"); }).field(), "column 1") << "too large";
  EXPECT_EQ(refused([&] { (void)db.query<unsigned>("SELECT -1"); }).field(), "column 1") << "negative";
  EXPECT_EQ(refused([&] { (void)db.query<bool>("SELECT 2"); }).field(), "column 1");
  EXPECT_EQ(refused([&] { (void)db.query<int>("SELECT 1.5"); }).field(), "column 1");
  EXPECT_EQ(refused([&] { (void)db.query<std::string>("SELECT a, b FROM t"); }).code(), errc::type_mismatch);
}

TEST_F(SqliteExecute, QueryOneWantsExactlyOneRow) {
  EXPECT_EQ(refused([&] { (void)db.query_one<int>("SELECT a FROM t"); }).code(), errc::type_mismatch);
  db.execute("INSERT INTO t (a) VALUES (1), (2)");
  EXPECT_EQ(refused([&] { (void)db.query_one<int>("SELECT a FROM t"); }).code(), errc::type_mismatch);
  EXPECT_EQ(db.query_one<int>("SELECT a FROM t WHERE a = ?", 2), 2);
}

TEST_F(SqliteExecute, ValuesThatSqliteCannotStoreAreRefused) {
  EXPECT_EQ(refused([&] { db.execute("SELECT ?", std::numeric_limits<std::uint64_t>::max()); }).code(),
            errc::type_mismatch);
  EXPECT_EQ(refused([&] { db.execute("SELECT ?", std::nan("")); }).field(), "argument 1");
  EXPECT_EQ(refused([&] { db.execute(std::string_view{"SELECT 1\0; DROP TABLE t", 23}); }).field(), "sql");
}

TEST_F(SqliteExecute, AUniqueConstraintOfTheApplicationIsNoDuplicateEvent) {
  db.execute("CREATE UNIQUE INDEX u ON t (a)");
  db.execute("INSERT INTO t (a) VALUES (?)", 1);
  EXPECT_EQ(refused([&] { db.execute("INSERT INTO t (a) VALUES (?)", 1); }).code(), errc::store_failure);
  EXPECT_EQ(refused([&] { db.execute("INSERT INTO t (a) VALUES (1)"); }).code(), errc::store_failure);
}

TEST_F(SqliteExecute, ATransactionRunsStatementsUntilItEnds) {
  sqlite::transaction tx{db};
  EXPECT_EQ(tx.execute("INSERT INTO t (a) VALUES (?)", 1), 1);
  EXPECT_EQ(tx.query_one<int>("SELECT count(*) FROM t"), 1);
  tx.rollback();
  EXPECT_EQ(refused([&] { tx.execute("INSERT INTO t (a) VALUES (?)", 2); }).code(), errc::no_transaction);
  EXPECT_EQ(count(), 0);
}

// An adapter that passes a connection of its own making: the store must find out and not take it for its own.
TEST_F(SqliteExecute, AConnectionThatTheStoreDoesNotKnowIsRefused) {
  struct unknown final : sql::connection {
    [[nodiscard]] bool in_transaction() const noexcept override { return true; }
    std::int64_t execute(std::string_view, std::span<sql::value const>, sql::row_function const&) override {
      ADD_FAILURE() << "used";
      return 0;
    }
  };
  static constexpr transaction_operations wrong{
      .kind = "sqlite",
      .active = [](void const*) noexcept { return true; },
      .enlist = [](void*, std::shared_ptr<transaction_observer>) { return false; },
      .run =
          [](void* t, void (*use)(void*, void*), void* what) {
            sql::connection& on = *static_cast<unknown*>(t);
            use(what, &on);
          }};
  static constexpr transaction_operations nothing{.kind = "sqlite", .active = wrong.active, .enlist = wrong.enlist};
  auto const n = writer_only({.store = sqlite::open(dir / "a.db"), .log = nullptr});
  unknown c;
  EXPECT_EQ(refused([&] { n.writer().write(transaction_ref{&c, wrong}, "t", "1"); }).code(), errc::wrong_transaction);
  EXPECT_EQ(refused([&] { n.writer().write(transaction_ref{&c, nothing}, "t", "1"); }).code(), errc::wrong_transaction);
}

}  // namespace
}  // namespace outbox

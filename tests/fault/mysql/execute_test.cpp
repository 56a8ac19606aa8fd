// SQL of the application through `mysql::connection` and `mysql::transaction`.
#include <cmath>
#include <limits>
#include <outbox/spi/sql_connection.hpp>
#include <tuple>

#include "join_fixture.hpp"

namespace outbox {
namespace {

using octets = std::vector<std::byte>;

class MysqlExecute : public ::testing::Test {
 protected:
  MysqlExecute() { db.execute("CREATE TABLE t (a text CHARACTER SET utf8mb4, b bigint)"); }

  [[nodiscard]] int count() { return db.query_one<int>("SELECT count(*) FROM t"); }

  mysql_database own;
  mysql::connection db{own.url()};
};

TEST_F(MysqlExecute, AHostileTextIsAValueAndNotSql) {
  for (std::string const& hostile :
       {std::string{"'); DROP TABLE t; --"}, std::string{"\\'); DROP TABLE t; --"}, std::string{"\\"},
        std::string{"\\\\'"}, std::string{"\"`'?"}, std::string{"\xF0\x9F\x9A\x80'"}, std::string{"a\0'b", 4},
        std::string{"\x1a\n\r\t\b%_"}, std::string{}}) {
    EXPECT_EQ(db.execute("INSERT INTO t VALUES (?, ?)", hostile, 1), 1);
    EXPECT_THAT(db.query<std::string>("SELECT a FROM t WHERE a = ?", hostile), ElementsAre(hostile));
    EXPECT_EQ(db.execute("DELETE FROM t WHERE a = ?", hostile), 1);
  }
}

TEST_F(MysqlExecute, EveryTypeComesBackAsItWas) {
  octets const blob{std::byte{0}, std::byte{255}, std::byte{'\''}, std::byte{'\\'}, std::byte{10}};
  auto const most = std::numeric_limits<std::int64_t>::max();
  auto const least = std::numeric_limits<std::int64_t>::min();
  auto const got =
      db.query_one<std::int64_t, std::int64_t, double, bool, bool, std::string, octets, octets, std::optional<int>>(
          "SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?", most, least, 0.1 + 0.2, true, false, "\\x41", blob, octets{},
          std::nullopt);
  EXPECT_EQ(
      got, std::tuple(most, least, 0.1 + 0.2, true, false, std::string{"\\x41"}, blob, octets{}, std::optional<int>{}));
  db.execute("CREATE TABLE k (i bigint, d double, b bool, s varchar(20), x varbinary(20), n int)");
  EXPECT_EQ(
      db.execute("INSERT INTO k VALUES (?, ?, ?, ?, ?, ?), (?, ?, ?, ?, ?, ?)", most, -0.1, true, "x", blob,
                 std::optional<int>{}, least, 1e300, false, std::string_view{"y"}, octets{}, std::optional<int>{7}),
      2);
  EXPECT_THAT((db.query<std::int64_t, double, bool, std::string, octets, std::optional<int>>("SELECT * FROM k ORDER BY "
                                                                                             "s")),
              ElementsAre(std::tuple(most, -0.1, true, std::string{"x"}, blob, std::optional<int>{}),
                          std::tuple(least, 1e300, false, std::string{"y"}, octets{}, std::optional<int>{7})));
  EXPECT_EQ(db.query_one<std::uint64_t>("SELECT 18446744073709551615"), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(db.query_one<std::string>("SELECT ? - ?", 5, -3), "8") << "a sign is no comment";
}

TEST_F(MysqlExecute, DoublesAreExact) {
  db.execute("CREATE TABLE d (v double)");
  using limits = std::numeric_limits<double>;
  for (double const v : {0.0, 1.0, -1.0, 0.1, 0.1 + 0.2, 1.0 / 3, 1e22, 123456789012345680.0, 4503599627370497.5,
                         limits::max(), limits::lowest(), limits::min(), limits::epsilon(), 5e-310, 1e-300}) {
    db.execute("INSERT INTO d VALUES (?)", v);
    EXPECT_EQ(db.query_one<double>("SELECT v FROM d"), v) << v;
    EXPECT_EQ(db.query_one<int>("SELECT count(*) FROM d WHERE v = ?", v), 1) << v;
    db.execute("DELETE FROM d");
  }
}

TEST_F(MysqlExecute, ItReturnsTheNumberOfRowsThatMatched) {
  EXPECT_EQ(db.execute("INSERT INTO t (b) VALUES (1), (2), (3)"), 3);
  EXPECT_EQ(db.execute("UPDATE t SET a = ? WHERE b > ?", "x", 1), 2);
  EXPECT_EQ(db.execute("UPDATE t SET a = ? WHERE b > ?", "x", 1), 2) << "also those that stay the same";
  EXPECT_EQ(db.execute("SELECT * FROM t"), 0);
  EXPECT_EQ(db.execute("DELETE FROM t"), 3);
}

TEST_F(MysqlExecute, AQuestionMarkInATextANameOrACommentIsNone) {
  EXPECT_EQ(db.query_one<std::string>("SELECT concat('?', \"?\", ?)", "x"), "??x");
  EXPECT_EQ(db.query_one<std::string>("SELECT concat('it''s ?', 'a\\'?', \"say \"\"?\", \"\\\"?\", '\\\\', ?)", "x"),
            "it's ?a'?say \"?\"?\\x");
  EXPECT_EQ(db.query_one<int>("SELECT `?` FROM (SELECT ? AS `?`) `a``?`", 7), 7);
  EXPECT_EQ(db.query_one<int>("SELECT `\\` + ? FROM (SELECT 1 AS `\\`) s", 7), 8) << "no escape in a name";
  EXPECT_EQ(db.query_one<int>("SELECT /* ? ' */ ? -- ? it's\n + ? # ? \"\n + /*?*/ ?", 1, 2, 3), 6);
  EXPECT_EQ(db.query_one<int>("SELECT 5--?", -2), 3) << "no comment: nothing follows that makes it one";
  EXPECT_EQ(db.query_one<int>("SELECT ?/**/+/**/?--\t?\n", 1, 2), 3);
  EXPECT_EQ(db.query_one<int>("SELECT ? --\n+ ?", 1, 2), 3);
  EXPECT_EQ(db.query_one<int>("SELECT ? -- ?", 1), 1) << "up to the end of the text";
  EXPECT_EQ(db.query_one<std::string>("SELECT '?'"), "?") << "without arguments there is no placeholder";
  EXPECT_EQ(db.query_one<std::string>("SELECT concat(?, ?)", "?", "'?"), "?'?") << "nor in a value";
}

// How the session reads a text decides where it ends.
TEST_F(MysqlExecute, AQuestionMarkIsFoundWhateverTheModeOfTheSession) {
  db.execute("SET sql_mode = 'NO_BACKSLASH_ESCAPES'");
  EXPECT_EQ(db.query_one<std::string>("SELECT concat('\\', ?)", "x\\y'z"), "\\x\\y'z");
  db.execute("SET sql_mode = 'ANSI_QUOTES'");
  EXPECT_EQ(db.query_one<std::string>("SELECT concat(\"?\", ?) FROM (SELECT 'a' AS \"?\") s", "x"), "ax");
  db.execute("SET sql_mode = ''");
  EXPECT_EQ(db.query_one<std::string>("SELECT concat('\\'?', ?)", "x"), "'?x");
}

// As with a placeholder of the server: what stands beside it is not a part of the value.
TEST_F(MysqlExecute, AValueDoesNotRunIntoWhatStandsBesideIt) {
  EXPECT_EQ(db.query_one<int>("SELECT 3 WHERE 1=?AND 2=?", 1, 2), 3);
  EXPECT_EQ(db.query_one<int>("SELECT?", 3), 3);
  EXPECT_THROW(static_cast<void>(db.query_one<int>("SELECT ?1", 5)), error) << "not 51";
  EXPECT_THROW(static_cast<void>(db.query_one<int>("SELECT ?1 + ?2", 5, 6)), error) << "numbers of SQLite";
  EXPECT_THROW(static_cast<void>(db.query_one<double>("SELECT ?.5", 5)), error);
  EXPECT_EQ(db.query_one<double>("SELECT ?e2", 5), 5) << "not 500";
  EXPECT_THROW(static_cast<void>(db.query_one<std::string>("SELECT x?", "41")), error) << "not bytes";
}

TEST_F(MysqlExecute, AWrongNumberOfArgumentsIsRefusedAndTheConnectionGoesOn) {
  auto const few = thrown_by([&] { db.execute("INSERT INTO t VALUES (?, ?)", "a"); });
  EXPECT_EQ(few.code(), errc::type_mismatch) << few.what();
  EXPECT_EQ(few.field(), "sql");
  EXPECT_THAT(few.what(), HasSubstr("2 placeholders for 1 arguments"));
  EXPECT_EQ(thrown_by([&] { db.execute("INSERT INTO t VALUES (?, 2)", "a", 2); }).code(), errc::type_mismatch);
  EXPECT_EQ(thrown_by([&] { db.execute("INSERT INTO t VALUES ('?', 2)", "a"); }).code(), errc::type_mismatch);
  EXPECT_THROW(db.execute("INSERT INTO t VALUES (?, 2)"), error);
  EXPECT_EQ(count(), 0);
}

TEST_F(MysqlExecute, ValuesThatCannotBeSentAreRefused) {
  for (double const v : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    auto const e = thrown_by([&] { db.execute("INSERT INTO t VALUES (?, ?)", "a", v); });
    EXPECT_EQ(e.code(), errc::type_mismatch);
    EXPECT_EQ(e.field(), "argument 2");
  }
  EXPECT_EQ(thrown_by([&] { db.execute("SELECT ?", std::numeric_limits<std::uint64_t>::max()); }).code(),
            errc::type_mismatch);
  db.execute("SET sql_mode = 'STRICT_TRANS_TABLES'");
  EXPECT_EQ(thrown_by([&] { db.execute("INSERT INTO t VALUES (?, 1)", "\xff\xfe"); }).code(), errc::store_failure);
  EXPECT_EQ(count(), 0);
}

TEST_F(MysqlExecute, SeveralStatementsRunWithoutArguments) {
  EXPECT_EQ(db.execute("INSERT INTO t (b) VALUES (1); INSERT INTO t (b) VALUES (2), (3)"), 2);
  EXPECT_EQ(db.query_one<int>("SELECT 'x'; SELECT count(*) FROM t"), 3) << "the result of the last one";
  EXPECT_EQ(thrown_by([&] { db.execute("INSERT INTO t (b) VALUES (4); nonsense; DROP TABLE t"); }).code(),
            errc::store_failure);
  EXPECT_EQ(count(), 4) << "up to the first that fails";
  EXPECT_EQ(db.execute("DELETE FROM t;"), 4) << "a semicolon at the end is no second statement";
}

TEST_F(MysqlExecute, AHostileTextMakesNoSecondStatement) {
  EXPECT_EQ(db.query_one<std::string>("SELECT ?", "1; DROP TABLE t"), "1; DROP TABLE t");
  EXPECT_EQ(count(), 0);
}

TEST_F(MysqlExecute, AResultThatDoesNotFitNamesItsColumn) {
  db.execute("INSERT INTO t VALUES (?, ?)", "text", std::nullopt);
  EXPECT_EQ(thrown_by([&] { (void)db.query<std::string, int>("SELECT a, b FROM t"); }).field(), "column 2");
  EXPECT_EQ(thrown_by([&] { (void)db.query<int>("SELECT a FROM t"); }).field(), "column 1");
  EXPECT_EQ(thrown_by([&] { (void)db.query<int>("SELECT 4294967296"); }).field(), "column 1");
  EXPECT_EQ(thrown_by([&] { (void)db.query<std::string>("SELECT a, b FROM t"); }).code(), errc::type_mismatch);
  EXPECT_EQ(thrown_by([&] { (void)db.query_one<int>("SELECT b FROM t WHERE b = 1"); }).code(), errc::type_mismatch);
}

TEST_F(MysqlExecute, AUniqueConstraintOfTheApplicationIsNoDuplicateEvent) {
  db.execute("CREATE TABLE u (a int PRIMARY KEY)");
  db.execute("INSERT INTO u VALUES (1)");
  auto const e = thrown_by([&] { db.execute("INSERT INTO u VALUES (?)", 1); });
  EXPECT_EQ(e.code(), errc::store_failure);
  EXPECT_EQ(e.sqlstate(), "23000");
  mysql::transaction tx{db};
  EXPECT_EQ(thrown_by([&] { tx.execute("INSERT INTO u VALUES (1)"); }).code(), errc::store_failure);
  EXPECT_TRUE(tx.active());
}

TEST_F(MysqlExecute, ATransactionRunsStatementsUntilItEnds) {
  mysql::transaction tx{db};
  EXPECT_EQ(tx.execute("INSERT INTO t (b) VALUES (?)", 1), 1);
  EXPECT_EQ(tx.execute("INSERT INTO t (b) VALUES (2); INSERT INTO t (b) VALUES (3)"), 1);
  EXPECT_THAT(tx.query<int>("SELECT b FROM t ORDER BY b"), ElementsAre(1, 2, 3));
  EXPECT_EQ(thrown_by([&] { tx.execute("nonsense"); }).sqlstate(), "42000");
  EXPECT_TRUE(tx.active()) << "an error undoes its own statement only";
  tx.commit();
  EXPECT_EQ(thrown_by([&] { tx.execute("DELETE FROM t WHERE b > ?", 0); }).code(), errc::no_transaction);
  EXPECT_EQ(thrown_by([&] { (void)tx.query<int>("SELECT 1"); }).code(), errc::no_transaction);
  EXPECT_EQ(db.execute("DELETE FROM t"), 3);
}

TEST_F(MysqlExecute, AResultOfManyRowsIsReadWhole) {
  for (int i = 0; i < 12; ++i) {
    db.execute(i == 0 ? "INSERT INTO t (a, b) VALUES (repeat('x', 100), 1)" : "INSERT INTO t SELECT * FROM t");
  }
  EXPECT_EQ(db.query<std::string>("SELECT a FROM t").size(), 2048U);
  EXPECT_EQ(db.query_one<std::string>("SELECT repeat('y', 3000000)").size(), 3'000'000U);
}

TEST_F(MysqlExecute, TheRowsOfAProcedureAreRead) {
  db.execute("CREATE PROCEDURE p(n int) SELECT n + 1");
  EXPECT_THAT(db.query<int>("CALL p(?)", 41), ElementsAre(42));
  EXPECT_EQ(db.query_one<int>("SELECT 1"), 1) << "and nothing is left of it";
}

TEST_F(MysqlExecute, AConnectionWithUnreadResultsIsBusy) {
  ASSERT_EQ(mysql_query(db.handle(), "SELECT 1"), 0);
  EXPECT_EQ(thrown_by([&] { db.execute("SELECT 1"); }).code(), errc::connection_busy);
  mysql_free_result(mysql_store_result(db.handle()));
  EXPECT_EQ(db.query_one<int>("SELECT 1"), 1);
}

TEST_F(MysqlExecute, AConnectionThatWasEndedIsUnavailable) {
  own.execute("KILL ?", static_cast<std::int64_t>(mysql_thread_id(db.handle())));
  EXPECT_TRUE(thrown_by([&] {
                for (int i = 0; i < 100; ++i) db.execute("SELECT 1");
              }).transient());
}

// An adapter that passes a connection of its own making: the store must find out and not take it for its own.
TEST_F(MysqlExecute, AConnectionThatTheStoreDoesNotKnowIsRefused) {
  struct unknown final : sql::connection {
    [[nodiscard]] bool in_transaction() const noexcept override { return true; }
    std::int64_t execute(std::string_view, std::span<sql::value const>, sql::row_function const&) override {
      ADD_FAILURE() << "used";
      return 0;
    }
  };
  static constexpr transaction_operations wrong{
      .kind = "mysql",
      .active = [](void const*) noexcept { return true; },
      .enlist = [](void*, std::shared_ptr<transaction_observer>) { return false; },
      .run =
          [](void* t, void (*use)(void*, void*), void* what) {
            sql::connection& on = *static_cast<unknown*>(t);
            use(what, &on);
          }};
  static constexpr transaction_operations nothing{.kind = "mysql", .active = wrong.active, .enlist = wrong.enlist};
  auto const n = writer_only({.store = own.open(), .log = nullptr});
  unknown c;
  EXPECT_EQ(thrown_by([&] { n.writer().write(transaction_ref{&c, wrong}, "t", "1"); }).code(), errc::wrong_transaction);
  EXPECT_EQ(thrown_by([&] {
              n.writer().write(transaction_ref{&c, nothing}, "t", "1");
            }).code(),
            errc::wrong_transaction);
}

}  // namespace
}  // namespace outbox

// Transactions of SQLiteCpp.
#include <SQLiteCpp/SQLiteCpp.h>
#include <SQLiteCpp/Savepoint.h>

#include <outbox/adapt/sqlitecpp.hpp>

#include "fault/adapt/join_cases.hpp"

namespace outbox {
namespace {

class sqlitecpp_client {
 public:
  using database = on_sqlite;

  explicit sqlitecpp_client(on_sqlite const& db) {
    db_.emplace(db.file(), SQLite::OPEN_READWRITE, 20'000);
    db_->exec("PRAGMA foreign_keys = ON");
  }
  void begin() { tx_.emplace(*db_); }
  void execute(std::string const& sql) { db_->exec(sql); }
  template <class F>
  void join(F&& f) {
    f(*db_);
  }
  sqlite3* handle() { return db_->getHandle(); }
  void commit() {
    tx_->commit();
    tx_.reset();
  }
  void rollback() { tx_.reset(); }
  // A SQLite::Database cannot be closed. One that was moved from has no handle.
  void close() {
    { SQLite::Database const gone{std::move(*db_)}; }
    tx_.reset();
  }

 private:
  std::optional<SQLite::Database> db_;
  std::optional<SQLite::Transaction> tx_;
};

INSTANTIATE_TYPED_TEST_SUITE_P(SqliteCpp, AdapterJoin, ::testing::Types<sqlitecpp_client>, client_name);
INSTANTIATE_TYPED_TEST_SUITE_P(SqliteCpp, AdapterConstraint, ::testing::Types<sqlitecpp_client>, client_name);

using SqliteCpp = AdapterJoin<sqlitecpp_client>;

TEST_F(SqliteCpp, I2_ASavepointObjectTakesBackOnlyTheEventsBehindIt) {
  client.begin();
  write("a");
  client.join([&](SQLite::Database& d) {
    SQLite::Savepoint s{d, "s"};
    write("b");
  });  // without release() its destructor rolls back
  commit();
  ASSERT_TRUE(seen.reach(1));
  ASSERT_TRUE(all_settled());
  EXPECT_EQ(seen.of("a"), 1);
  EXPECT_EQ(seen.of("b"), 0);
}

// A savepoint outside a transaction begins one.
TEST_F(SqliteCpp, ASavepointAloneIsATransaction) {
  client.join([&](SQLite::Database& d) {
    SQLite::Savepoint s{d, "s"};
    write("a");
    s.release();
  });
  ASSERT_TRUE(seen.reach(1));
  EXPECT_EQ(seen.of("a"), 1);
}

TEST_F(SqliteCpp, AConstDatabaseIsJoinedToo) {
  client.begin();
  client.join([&](SQLite::Database const& d) { box->writer().write(d, "t", "1", {.id = "a"}); });
  commit();
  ASSERT_TRUE(seen.reach(1));
}

}  // namespace
}  // namespace outbox

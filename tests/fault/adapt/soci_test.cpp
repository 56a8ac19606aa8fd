// Transactions of SOCI sessions.
#include <outbox/adapt/soci_sqlite.hpp>
#ifdef OUTBOX_HAS_POSTGRES
#include <outbox/adapt/soci_postgres.hpp>
#endif
#ifdef OUTBOX_HAS_MYSQL
#include <outbox/adapt/soci_mysql.hpp>
#endif

#include "fault/adapt/join_cases.hpp"
#include "fault/adapt/unknown_backend.hpp"

namespace outbox {
namespace {

void connect(soci::session& session, on_sqlite const& db) {
  session.open(soci::sqlite3, "dbname=" + db.file() + " timeout=20");
  session << "PRAGMA foreign_keys = ON";
}
sqlite3* handle_of(soci::session& session, on_sqlite const& /*db*/) { return adapt::sqlite_handle(session); }

#ifdef OUTBOX_HAS_POSTGRES
void connect(soci::session& session, on_postgres const& db) { session.open(soci::postgresql, db.connection()); }
pg_conn* handle_of(soci::session& session, on_postgres const& /*db*/) { return adapt::postgres_handle(session); }
#endif

#ifdef OUTBOX_HAS_MYSQL
std::string parameters(on_mysql const& db) {
  auto const to = db.address();
  return "db=" + to.database + " user=" + to.user + " host=" + to.host + " port=" + std::to_string(to.port) +
         (to.password.empty() ? "" : " password=" + to.password);
}
void connect(soci::session& session, on_mysql const& db) { session.open(soci::mysql, parameters(db)); }
st_mysql* handle_of(soci::session& session, on_mysql const& /*db*/) { return adapt::mysql_handle(session); }
#endif

template <class Database>
class soci_client {
 public:
  using database = Database;

  explicit soci_client(Database const& db) : db_{db} { connect(session_, db); }
  void begin() { tx_.emplace(session_); }
  void execute(std::string const& sql) { session_ << sql; }
  long long ask(std::string const& sql) {
    long long answer = 0;
    session_ << sql, soci::into(answer);
    return answer;
  }
  template <class F>
  void join(F&& f) {
    f(session_);
  }
  auto* handle() { return handle_of(session_, db_); }
  void commit() {
    tx_->commit();
    tx_.reset();
  }
  void rollback() { tx_.reset(); }  // its destructor rolls back
  void close() {
    session_.close();
    tx_.reset();
  }
  void reconnect() {
    tx_.reset();
    session_.reconnect();
  }

 private:
  Database const& db_;
  soci::session session_;
  std::optional<soci::transaction> tx_;
};

// ---- SQLite

INSTANTIATE_TYPED_TEST_SUITE_P(SociSqlite, AdapterJoin, soci_client<on_sqlite>, client_name);
INSTANTIATE_TYPED_TEST_SUITE_P(SociSqlite, AdapterConstraint, soci_client<on_sqlite>, client_name);

using Soci = AdapterJoin<soci_client<on_sqlite>>;

errc code_of(auto const& call) {
  try {
    call();
  } catch (error const& e) {
    return e.code();
  }
  ADD_FAILURE() << "accepted";
  return errc::store_failure;
}

TEST_F(Soci, ASessionOfAPoolIsJoined) {
  soci::connection_pool pool{2};
  for (std::size_t i = 0; i < 2; ++i) connect(pool.at(i), db);
  soci::session session{pool};
  soci::transaction tx{session};
  box->writer().write(session, "t", "1", {.id = "pooled"});
  tx.commit();
  ASSERT_TRUE(seen.reach(1));
  EXPECT_EQ(seen.of("pooled"), 1);
}

TEST_F(Soci, ABackendThatIsNotKnownIsRefused) {
  unknown_backend const factory{"carrier_pigeon"};
  soci::session session{factory, ""};
  EXPECT_EQ(code_of([&] { box->writer().write(session, "t", "1"); }), errc::wrong_transaction);
}

TEST_F(Soci, TheHandleOfAnotherBackendIsRefused) {
  unknown_backend const factory{"carrier_pigeon"};
  soci::session session{factory, ""};
  EXPECT_EQ(code_of([&] { adapt::sqlite_handle(session); }), errc::wrong_transaction);
  soci::session closed;
  EXPECT_EQ(code_of([&] { adapt::sqlite_handle(closed); }), errc::no_transaction);
}

// ---- PostgreSQL

#ifdef OUTBOX_HAS_POSTGRES
INSTANTIATE_TYPED_TEST_SUITE_P(SociPostgres, AdapterJoin, soci_client<on_postgres>, client_name);
INSTANTIATE_TYPED_TEST_SUITE_P(SociPostgres, AdapterConstraint, soci_client<on_postgres>, client_name);
INSTANTIATE_TYPED_TEST_SUITE_P(SociPostgres, AdapterServer, soci_client<on_postgres>, client_name);

template <class Client>
class SociOn : public AdapterJoin<Client> {};
TYPED_TEST_SUITE(SociOn, ::testing::Types<soci_client<on_postgres>>, client_name);

// The page warns of this: SOCI does not look at what the server answers to COMMIT.
TYPED_TEST(SociOn, I2_CommitOfAFailedTransactionIsSilentAndDeliversNothing) {
  this->client.begin();
  this->write("a");
  EXPECT_ANY_THROW(this->client.execute("SELECT 1 / 0"));
  EXPECT_NO_THROW(this->client.commit());
  this->expect_nothing();
}
#endif

// ---- MySQL

#ifdef OUTBOX_HAS_MYSQL
INSTANTIATE_TYPED_TEST_SUITE_P(SociMysql, AdapterJoin, soci_client<on_mysql>, client_name);
INSTANTIATE_TYPED_TEST_SUITE_P(SociMysql, AdapterServer, soci_client<on_mysql>, client_name);
INSTANTIATE_TYPED_TEST_SUITE_P(SociMysql, AdapterDeadlock, soci_client<on_mysql>, client_name);

template <class Client>
class SociDeadlock : public AdapterDeadlock<Client> {};
TYPED_TEST_SUITE(SociDeadlock, ::testing::Types<soci_client<on_mysql>>, client_name);

TYPED_TEST(SociDeadlock, I2_ATransactionOfOursThatTheServerHasRolledBackDeliversNothing) {
  mysql::transaction tx{this->client.handle()};
  this->box->writer().write(tx, "t", "1", {.id = "a"});
  this->provoke_deadlock();
  EXPECT_THROW(this->box->writer().write(tx, "t", "1", {.id = "b"}), error);
  EXPECT_THROW(tx.commit(), error);
  this->expect_nothing();
}

template <class Client>
class SociOnMysql : public AdapterJoin<Client> {};
TYPED_TEST_SUITE(SociOnMysql, ::testing::Types<soci_client<on_mysql>>, client_name);

// The page warns of this: the transaction ends with its connection, and what follows is committed statement by
// statement. No event is written there.
TYPED_TEST(SociOnMysql, I2_ASessionThatReconnectsByItselfWritesNoEventOutsideItsTransaction) {
  soci::session session{soci::mysql, parameters(this->db) + " reconnect=1"};
  auto const write = [&] { return code_of([&] { this->box->writer().write(session, "t", "1"); }); };
  long long id = 0;
  session << on_mysql::session_id, soci::into(id);
  soci::transaction tx{session};
  session << "INSERT INTO " + this->db.table("orders") + " VALUES (1, NULL)";
  ASSERT_TRUE(this->db.end_session(id));
  EXPECT_EQ(write(), errc::unavailable);
  EXPECT_NO_THROW(session << "INSERT INTO " + this->db.table("orders") + " VALUES (2, NULL)");  // reconnects
  EXPECT_EQ(write(), errc::no_transaction);
  EXPECT_NO_THROW(tx.commit());
  this->expect_nothing();
  EXPECT_EQ(this->rows("orders"), "1");
}
#endif

}  // namespace
}  // namespace outbox

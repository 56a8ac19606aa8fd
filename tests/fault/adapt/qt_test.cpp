// Transactions of Qt's databases.
#include <dlfcn.h>

#include <QtCore/QCoreApplication>
#include <QtSql/QSqlError>
#include <QtSql/QSqlQuery>
#include <atomic>
#include <filesystem>
#include <outbox/adapt/qt_sqlite.hpp>
#ifdef OUTBOX_HAS_POSTGRES
#include <outbox/adapt/qt_postgres.hpp>
#endif
#ifdef OUTBOX_HAS_MYSQL
#include <outbox/adapt/qt_mysql.hpp>
#endif

#include "fault/adapt/foreign_driver.hpp"
#include "fault/adapt/join_cases.hpp"

Q_DECLARE_OPAQUE_POINTER(sqlite3*)  // as Qt's driver does

struct MYSQL {  // as Oracle's libmysqlclient names it; that of MariaDB Connector/C is st_mysql
  int of_another_layout = 0;
};

namespace outbox {
namespace {

struct broken : std::runtime_error {
  explicit broken(QSqlError const& e) : runtime_error{e.text().toStdString()} {}
};

void set_up(QSqlDatabase& q, on_sqlite const& db) {
  q.setDatabaseName(QString::fromStdString(db.file()));
  q.setConnectOptions("QSQLITE_BUSY_TIMEOUT=20000");
}
sqlite3* handle_of(QSqlDatabase const& q, on_sqlite const& /*db*/) { return adapt::sqlite_handle(q); }

#ifdef OUTBOX_HAS_POSTGRES
void set_up(QSqlDatabase& q, on_postgres const& /*db*/) {
  auto const& server = postgres_server::shared();
  q.setHostName("127.0.0.1");
  q.setPort(server.port());
  q.setUserName("outbox");
  q.setDatabaseName("postgres");
}
pg_conn* handle_of(QSqlDatabase const& q, on_postgres const& /*db*/) { return adapt::postgres_handle(q); }
#endif

#ifdef OUTBOX_HAS_MYSQL
void set_up(QSqlDatabase& q, on_mysql const& db) {
  auto const to = db.address();
  q.setHostName(QString::fromStdString(to.host));
  q.setPort(static_cast<int>(to.port));
  q.setUserName(QString::fromStdString(to.user));
  q.setPassword(QString::fromStdString(to.password));
  q.setDatabaseName(QString::fromStdString(to.database));
}
st_mysql* handle_of(QSqlDatabase const& q, on_mysql const& /*db*/) { return adapt::mysql_handle(q); }
#endif

char const* driver_of(std::string_view database) {
  return database == "sqlite" ? "QSQLITE" : database == "postgres" ? "QPSQL" : "QMYSQL";
}

template <class Database>
class qt_client {
 public:
  using database = Database;

  explicit qt_client(Database const& db) : db_{db} {
    static std::atomic<int> next = 0;
    name_ = QString::number(++next);
    q_ = QSqlDatabase::addDatabase(driver_of(Database::name), name_);
    set_up(q_, db);
    reconnect();
  }
  qt_client(qt_client const&) = delete;
  qt_client& operator=(qt_client const&) = delete;
  ~qt_client() { remove(); }

  void begin() { check(q_.transaction()); }
  void execute(std::string const& sql) {
    QSqlQuery query{q_};
    if (!query.exec(QString::fromStdString(sql))) throw broken{query.lastError()};
  }
  long long ask(std::string const& sql) {
    QSqlQuery query{QString::fromStdString(sql), q_};
    if (!query.next()) throw broken{query.lastError()};
    return query.value(0).toLongLong();
  }
  template <class F>
  void join(F&& f) {
    f(q_);
  }
  auto* handle() { return handle_of(q_, db_); }
  void commit() { check(q_.commit()); }
  void rollback() { q_.rollback(); }  // false if the connection is lost, or if a failed COMMIT has done it
  void close() { q_.close(); }
  void remove() {
    q_ = {};
    QSqlDatabase::removeDatabase(name_);
  }
  void reconnect() {
    q_.close();
    check(q_.open());
    if (std::string_view{Database::name} == "sqlite") execute("PRAGMA foreign_keys = ON");
  }

 private:
  void check(bool done) const {
    if (!done) throw broken{q_.lastError()};
  }

  Database const& db_;
  QString name_;
  QSqlDatabase q_;
};

errc code_of(auto const& call) {
  try {
    call();
  } catch (error const& e) {
    return e.code();
  }
  ADD_FAILURE() << "accepted";
  return errc::store_failure;
}

// ---- SQLite

INSTANTIATE_TYPED_TEST_SUITE_P(QtSqlite, AdapterJoin, qt_client<on_sqlite>, client_name);
INSTANTIATE_TYPED_TEST_SUITE_P(QtSqlite, AdapterConstraint, qt_client<on_sqlite>, client_name);

using Qt6 = AdapterJoin<qt_client<on_sqlite>>;

TEST_F(Qt6, ACopyOfTheDatabaseObjectIsTheSameTransaction) {
  client.begin();
  client.join([&](QSqlDatabase const& q) {
    box->writer().write(QSqlDatabase::database(q.connectionName()), "t", "1", {.id = "a"});
  });
  commit();
  ASSERT_TRUE(seen.reach(1));
}

TEST_F(Qt6, AnObjectWithoutADriverIsRefused) {
  EXPECT_EQ(code_of([&] { box->writer().write(QSqlDatabase{}, "t", "1"); }), errc::no_transaction);
}

TEST_F(Qt6, ADriverWithoutAHandleIsRefused) {
  foreign_database const without{QVariant{}};
  EXPECT_EQ(code_of([&] { box->writer().write(without.get(), "t", "1"); }), errc::wrong_transaction);
}

TEST_F(Qt6, AHandleOfAnotherTypeIsRefused) {
  MYSQL oracle;
  foreign_database const odd{QVariant::fromValue(&oracle)};
  EXPECT_EQ(adapt::handle_type(odd.get()), "MYSQL*");
  EXPECT_EQ(code_of([&] { box->writer().write(odd.get(), "t", "1"); }), errc::wrong_transaction);
  EXPECT_EQ(code_of([&] { adapt::sqlite_handle(odd.get()); }), errc::wrong_transaction);
}

TEST_F(Qt6, ADriverWithAnotherVersionOfSqliteIsRefused) {
  int not_a_database = 0;  // never looked at
  auto* const handle = reinterpret_cast<sqlite3*>(&not_a_database);
  foreign_database const other{QVariant::fromValue(handle), "2001-01-01 00:00:00"};
  ASSERT_EQ(adapt::handle_type(other.get()), "sqlite3*");
  EXPECT_EQ(code_of([&] { box->writer().write(other.get(), "t", "1"); }), errc::wrong_transaction);
}

// The same version of SQLite twice in one process: the copy is loaded as a plugin would load it.
TEST_F(Qt6, ADriverWithACopyOfSqliteInsideIsRefused) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers do not allow a library that binds its own functions first";
#else
  Dl_info ours{};
  ASSERT_NE(::dladdr(reinterpret_cast<void*>(&sqlite3_open), &ours), 0);
  temporary_directory const dir;
  std::filesystem::copy_file(ours.dli_fname, dir / "copy.so");
  void* const copy = ::dlopen((dir / "copy.so").c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  ASSERT_NE(copy, nullptr) << ::dlerror();
  auto* const open = reinterpret_cast<decltype(&sqlite3_open)>(::dlsym(copy, "sqlite3_open"));
  auto* const close = reinterpret_cast<decltype(&sqlite3_close)>(::dlsym(copy, "sqlite3_close"));
  auto* const exec = reinterpret_cast<decltype(&sqlite3_exec)>(::dlsym(copy, "sqlite3_exec"));
  ASSERT_NE(open, &sqlite3_open);
  sqlite3* handle = nullptr;
  ASSERT_EQ(open(db.file().c_str(), &handle), SQLITE_OK);
  ASSERT_EQ(exec(handle, "BEGIN", nullptr, nullptr, nullptr), SQLITE_OK);
  {
    foreign_database const other{QVariant::fromValue(handle), sqlite3_sourceid()};
    EXPECT_EQ(code_of([&] { box->writer().write(other.get(), "t", "1"); }), errc::wrong_transaction);
  }
  close(handle);
#endif
}

// ---- PostgreSQL

#ifdef OUTBOX_HAS_POSTGRES
INSTANTIATE_TYPED_TEST_SUITE_P(QtPostgres, AdapterJoin, qt_client<on_postgres>, client_name);
INSTANTIATE_TYPED_TEST_SUITE_P(QtPostgres, AdapterConstraint, qt_client<on_postgres>, client_name);
INSTANTIATE_TYPED_TEST_SUITE_P(QtPostgres, AdapterServer, qt_client<on_postgres>, client_name);

template <class Client>
class QtOn : public AdapterJoin<Client> {};
TYPED_TEST_SUITE(QtOn, ::testing::Types<qt_client<on_postgres>>, client_name);

TYPED_TEST(QtOn, I2_CommitOfAFailedTransactionFailsAndDeliversNothing) {
  this->client.begin();
  this->write("a");
  EXPECT_ANY_THROW(this->client.execute("SELECT 1 / 0"));
  EXPECT_ANY_THROW(this->client.commit());
  this->expect_nothing();
}

// The page warns of this: the rows of such a query wait in the connection, which is then not seen to be in a
// transaction.
TYPED_TEST(QtOn, AForwardOnlyQueryThatIsNotFinishedRefusesTheWrite) {
  this->client.begin();
  this->client.join([&](QSqlDatabase& q) {
    QSqlQuery query{q};
    query.setForwardOnly(true);
    ASSERT_TRUE(query.exec("SELECT generate_series(1, 1000)"));
    ASSERT_TRUE(query.next());
    EXPECT_EQ(this->refusal(*this->box), errc::no_transaction);
    query.finish();
  });
  this->write("a");
  this->commit();
  ASSERT_TRUE(this->seen.reach(1));
}
#endif

// ---- MySQL

#ifdef OUTBOX_HAS_MYSQL
INSTANTIATE_TYPED_TEST_SUITE_P(QtMysql, AdapterJoin, qt_client<on_mysql>, client_name);
INSTANTIATE_TYPED_TEST_SUITE_P(QtMysql, AdapterServer, qt_client<on_mysql>, client_name);
INSTANTIATE_TYPED_TEST_SUITE_P(QtMysql, AdapterDeadlock, qt_client<on_mysql>, client_name);

template <class Client>
class QtOnMysql : public AdapterJoin<Client> {};
TYPED_TEST_SUITE(QtOnMysql, ::testing::Types<qt_client<on_mysql>>, client_name);

// The page warns of this: when its last database is removed, Qt ends the client library, which the store uses too.
TYPED_TEST(QtOnMysql, TheStoreSurvivesTheEndOfTheLastDatabaseOfQt) {
  this->client.begin();
  this->write("a");
  this->commit();
  ASSERT_TRUE(this->seen.reach(1));
  this->client.remove();
  mysql::connection c{this->db.url()};
  mysql::transaction tx{c};
  this->box->writer().write(tx, "t", "1", {.id = "b"});
  tx.commit();
  ASSERT_TRUE(this->seen.reach(2));
  ASSERT_TRUE(this->all_settled());
}
#endif

}  // namespace
}  // namespace outbox

int main(int argc, char** argv) {
  ::testing::InitGoogleMock(&argc, argv);
  QCoreApplication const application{argc, argv};
  return RUN_ALL_TESTS();
}

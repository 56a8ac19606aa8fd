// A program that uses Qt on SQLite alone: it is linked without the libraries of other databases, and says what is
// missing if a QSqlDatabase on another one comes along.
#include <gtest/gtest.h>

#include <QtCore/QCoreApplication>
#include <outbox/adapt/qt_sqlite.hpp>
#include <outbox/outbox.hpp>

#include "fault/adapt/foreign_driver.hpp"
#include "support/temporary_directory.hpp"

struct pg_conn {  // only the names of these types matter
  int nothing = 0;
};
struct st_mysql {
  int nothing = 0;
};

namespace outbox {
namespace {

TEST(QtSqliteAlone, WritesOnSqlite) {
  temporary_directory const dir;
  auto const store = sqlite::open(dir / "test.db");
  auto const box = writer_only({.store = store, .log = nullptr});
  {
    auto db = QSqlDatabase::addDatabase("QSQLITE", "alone");
    db.setDatabaseName(QString::fromStdString(dir / "test.db"));
    ASSERT_TRUE(db.open());
    ASSERT_TRUE(db.transaction());
    box.writer().write(db, "t", "1", {.id = "a"});
    ASSERT_TRUE(db.commit());
  }
  QSqlDatabase::removeDatabase("alone");
  EXPECT_TRUE(store->inspect().find("a"));
}

TEST(QtSqliteAlone, ADatabaseOfAnotherKindNamesTheHeaderThatIsMissing) {
  temporary_directory const dir;
  auto const box = writer_only({.store = sqlite::open(dir / "test.db"), .log = nullptr});
  pg_conn postgres;
  st_mysql mysql;
  for (auto const& [handle, header] :
       {std::pair{QVariant::fromValue(&postgres), "qt_postgres.hpp"}, {QVariant::fromValue(&mysql), "qt_mysql.hpp"}}) {
    foreign_database const other{handle};
    try {
      box.writer().write(other.get(), "t", "1");
      ADD_FAILURE() << "accepted";
    } catch (error const& e) {
      EXPECT_EQ(e.code(), errc::wrong_transaction);
      EXPECT_NE(std::string{e.what()}.find(header), std::string::npos) << e.what();
    }
  }
}

}  // namespace
}  // namespace outbox

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  QCoreApplication const application{argc, argv};
  return RUN_ALL_TESTS();
}

// A program that uses SOCI on SQLite alone: it is linked without the libraries of other databases, and says what is
// missing if a session on another one comes along.
#include <gtest/gtest.h>

#include <outbox/adapt/soci_sqlite.hpp>
#include <outbox/outbox.hpp>

#include "fault/adapt/unknown_backend.hpp"
#include "support/temporary_directory.hpp"

namespace outbox {
namespace {

TEST(SociSqliteAlone, WritesOnSqlite) {
  temporary_directory const dir;
  auto const store = sqlite::open(dir / "test.db");
  auto const box = writer_only({.store = store, .log = nullptr});
  soci::session session{soci::sqlite3, "dbname=" + (dir / "test.db") + " timeout=20"};
  soci::transaction tx{session};
  box.writer().write(session, "t", "1", {.id = "a"});
  tx.commit();
  EXPECT_TRUE(store->inspect().find("a"));
}

TEST(SociSqliteAlone, ASessionOnAnotherDatabaseNamesTheHeaderThatIsMissing) {
  temporary_directory const dir;
  auto const box = writer_only({.store = sqlite::open(dir / "test.db"), .log = nullptr});
  for (auto const& [backend, header] : {std::pair{"postgresql", "soci_postgres.hpp"}, {"mysql", "soci_mysql.hpp"}}) {
    unknown_backend const factory{backend};
    soci::session session{factory, ""};
    try {
      box.writer().write(session, "t", "1");
      ADD_FAILURE() << "accepted " << backend;
    } catch (error const& e) {
      EXPECT_EQ(e.code(), errc::wrong_transaction);
      EXPECT_NE(std::string{e.what()}.find(header), std::string::npos) << e.what();
    }
  }
}

}  // namespace
}  // namespace outbox

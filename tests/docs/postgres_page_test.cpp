// What docs/reference/postgres.md says about text that a database cannot keep, under "Encoding and depth".
#include <gtest/gtest.h>

#include <outbox/outbox.hpp>
#include <outbox/postgres.hpp>
#include <string>

#include "support/postgres_database.hpp"

namespace outbox {
namespace {

// Commits one event; what the server says of it.
std::string sqlstate_of(std::string const& connection, std::shared_ptr<store> const& table, std::string const& payload,
                        std::string const& id = "") {
  auto const box = writer_only({.store = table, .limits = {.json_depth = 5000}, .log = nullptr});
  postgres::connection db{connection};
  postgres::transaction tx{db};
  box.writer().write(tx, "order.placed", payload, {.id = id});
  try {
    tx.commit();
  } catch (error const& e) {
    EXPECT_EQ(e.code(), errc::store_failure) << e.what();
    return std::string{e.sqlstate()};
  }
  return "none";
}

TEST(PostgresPage, JsonbThatIsKeptRefusesSomeJsonAndCollapsesKeys) {
  postgres_database database;
  database.execute("CREATE TABLE " + database.table() +
                   " (event_id varchar(36) PRIMARY KEY, event_type varchar(128) NOT NULL, payload jsonb NOT NULL, "
                   "status smallint NOT NULL, available_at timestamptz NOT NULL, created_at timestamptz NOT NULL)");
  auto options = database.options();
  options.adopt_jsonb = postgres::jsonb::keep;
  auto const table = postgres::open(database.connection(), options);
  EXPECT_EQ(sqlstate_of(database.connection(), table, R"(["a\u0000b"])"), "22P05");
  EXPECT_EQ(sqlstate_of(database.connection(), table, "1e200000"), "22003");
  EXPECT_EQ(sqlstate_of(database.connection(), table, R"({"a":1,"a":2})", "twice"), "none");
  EXPECT_EQ(table->inspect().find("twice")->event.payload(), R"({"a": 2})");
}

TEST(PostgresPage, JsonKeepsWhatJsonbRefuses) {
  postgres_database database;
  auto const table = database.open();
  for (auto const* payload : {R"(["a\u0000b"])", "1e200000", R"({"a":1,"a":2})"}) {
    EXPECT_EQ(sqlstate_of(database.connection(), table, payload, "same"), "none");
    EXPECT_EQ(table->inspect().find("same")->event.payload(), payload);
    database.execute("DELETE FROM " + database.table());
  }
}

TEST(PostgresPage, ADatabaseOfAnotherEncodingRefusesCharactersThatItLacks) {
  postgres_database{}.execute(
      "CREATE DATABASE outbox_latin1 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0");
  {
    postgres_database database{"outbox_latin1"};
    auto const table = database.open();
    EXPECT_EQ(sqlstate_of(database.connection(), table, R"("caf\u00e9 café")", "latin"), "none");
    EXPECT_EQ(table->inspect().find("latin")->event.payload(), R"("caf\u00e9 café")");
    EXPECT_EQ(sqlstate_of(database.connection(), table, R"("5 €")"), "22P05");
  }
  postgres_database{}.execute("DROP DATABASE outbox_latin1 WITH (FORCE)");
}

TEST(PostgresPage, DeepJsonMayExceedASmallStackOfTheServer) {
  postgres_database database;
  auto const table = database.open();
  auto const deep = std::string(5000, '[') + std::string(5000, ']');
  EXPECT_EQ(sqlstate_of(database.connection(), table, deep), "none") << "with the default stack";
  EXPECT_EQ(sqlstate_of(database.connection() + " options='-c max_stack_depth=100kB'", table, deep), "54001");
}

}  // namespace
}  // namespace outbox

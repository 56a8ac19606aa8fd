// The SQL that pages give to operators and to programs in other languages, run as it stands there.
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <outbox/outbox.hpp>
#include <outbox/postgres.hpp>
#include <outbox/sqlite.hpp>
#include <regex>
#include <string>

#include "support/postgres_database.hpp"
#include "support/temporary_directory.hpp"

namespace outbox {
namespace {

using namespace std::chrono_literals;
using execute = std::function<void(std::string const& sql)>;

// The SQL block of a page whose first line is "-- <database>".
std::string block_for(std::string const& database, std::string const& page) {
  std::ifstream in{OUTBOX_SOURCE_DIR "/docs/" + page};
  std::string block;
  bool inside = false;
  for (std::string line; std::getline(in, line);) {
    if (line == "-- " + database) {
      inside = true;
    } else if (inside && line == "```") {
      return block;
    } else if (inside) {
      block += line + "\n";
    }
  }
  ADD_FAILURE() << page << " has no SQL for " << database;
  return {};
}

constexpr auto replay_page = "how-to/retries-and-dead-letters.md";
constexpr auto insert_page = "reference/table.md";

std::string event_id_in(std::string const& sql) {
  std::smatch match;
  EXPECT_TRUE(std::regex_search(sql, match, std::regex{"event_id = '([^']+)'"})) << sql;
  return match[1];
}

void expect_that_it_replays(std::shared_ptr<store> const& table, std::function<void(std::string const&)> const& write,
                            std::string const& sql, std::string const& long_ago, execute const& run) {
  auto const id = event_id_in(sql);
  int calls = 0;
  single_node_options options{.store = table, .log = nullptr};
  options.listeners.on("order.placed", [&](delivery const&) { ++calls; });
  auto box = single_node(std::move(options));
  write(id);
  // The owner of its last try is gone, as those before it.
  run("UPDATE outbox_event SET crashes = 4, locked_by = 'gone/1', locked_at = " + long_ago +
      ", lease_until = " + long_ago);
  box.run_until_idle();
  ASSERT_EQ(box.counters().killed, 1U) << "the crashes are used up";

  run("UPDATE outbox_event SET status = 0, done_at = NULL");
  box.run_until_idle();
  EXPECT_EQ(calls, 0) << "with its crashes it dies again";
  ASSERT_EQ(table->inspect().find(id)->status, event_status::dead);

  run(sql);
  EXPECT_EQ(box.run_until_idle(), 1U);
  EXPECT_EQ(calls, 1);
  auto const row = table->inspect().find(id).value();
  EXPECT_EQ(row.status, event_status::delivered);
  EXPECT_EQ(row.attempts, 0);

  run(sql);
  EXPECT_EQ(box.run_until_idle(), 0U) << "what is done is not touched";
}

void expect_that_it_inserts(std::shared_ptr<store> const& table, std::string const& sql, execute const& run) {
  std::vector<event> delivered;
  single_node_options options{.store = table, .log = nullptr};
  options.listeners.on("order", "order.placed", [&](delivery const& d) { delivered.push_back(d.event); });
  auto box = single_node(std::move(options));
  run(sql);
  EXPECT_EQ(box.run_until_idle(), 1U);
  ASSERT_EQ(delivered.size(), 1U);
  EXPECT_EQ(delivered[0].payload(), R"({"order":"42"})");
  EXPECT_EQ(delivered[0].aggregate_id(), "42");
  EXPECT_LT(std::chrono::abs(delivered[0].occurred_at() - table->now()), 10min) << "UTC, whatever the machine's zone";
}

TEST(SqlOfPages, ReplaysOnSqlite) {
  temporary_directory const directory;
  auto const path = directory / "shop.db";
  auto const table = sqlite::open(path);
  sqlite::connection db{path};
  auto const write = [&](std::string const& id) {
    auto const box = writer_only({.store = table, .log = nullptr});
    sqlite::transaction tx{db};
    box.writer().write(tx, "order.placed", "1", {.id = id});
    tx.commit();
  };
  expect_that_it_replays(table, write, block_for("SQLite", replay_page), "'2020-01-01 00:00:00.000000'",
                         [&](std::string const& sql) { db.execute(sql); });
}

TEST(SqlOfPages, InsertsOnSqlite) {
  temporary_directory const directory;
  auto const path = directory / "shop.db";
  auto const table = sqlite::open(path);
  sqlite::connection db{path};
  expect_that_it_inserts(table, block_for("SQLite", insert_page), [&](std::string const& sql) { db.execute(sql); });
}

TEST(SqlOfPages, InsertsOnPostgres) {
  postgres_database database;
  auto const table = database.open();
  database.execute("SET search_path = " + database.schema());
  expect_that_it_inserts(table, block_for("PostgreSQL", insert_page),
                         [&](std::string const& sql) { database.execute(sql); });
}

TEST(SqlOfPages, ReplaysOnPostgres) {
  postgres_database database;
  auto const table = database.open();
  database.execute("SET search_path = " + database.schema());
  auto const write = [&](std::string const& id) {
    auto const box = writer_only({.store = table, .log = nullptr});
    postgres::connection db{database.connection()};
    postgres::transaction tx{db};
    box.writer().write(tx, "order.placed", "1", {.id = id});
    tx.commit();
  };
  expect_that_it_replays(table, write, block_for("PostgreSQL", replay_page), "timestamptz '2020-01-01'",
                         [&](std::string const& sql) { database.execute(sql); });
}

}  // namespace
}  // namespace outbox

// The SQL and the scripts that pages give to operators and to programs in other languages, run as they are printed.
#include <gtest/gtest.h>
#include <libpq-fe.h>
#include <sqlite3.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <outbox/outbox.hpp>
#include <outbox/postgres.hpp>
#include <outbox/sqlite.hpp>
#include <regex>
#include <string>

#include "mysql/url.hpp"
#include "support/mysql_database.hpp"
#include "support/postgres_database.hpp"
#include "support/temporary_directory.hpp"

namespace outbox {
namespace {

using namespace std::chrono_literals;
using execute = std::function<void(std::string const& sql)>;

// The block of a page whose first line is a comment with this title: "-- SQLite", or "# SQLite" in Python.
std::string block_for(std::string const& title, std::string const& page, std::string const& comment = "-- ") {
  std::ifstream in{OUTBOX_SOURCE_DIR "/docs/" + page};
  std::string block;
  bool inside = false;
  for (std::string line; std::getline(in, line);) {
    if (line == comment + title) {
      inside = true;
    } else if (inside && line == "```") {
      return block;
    } else if (inside) {
      block += line + "\n";
    }
  }
  ADD_FAILURE() << page << " has no block for " << title;
  return {};
}

constexpr auto replay_page = "how-to/retries-and-dead-letters.md";
constexpr auto insert_page = "how-to/insert-from-other-languages.md";

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
  ASSERT_EQ(box.counters().claimed_dead, 1U) << "the crashes are used up";

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

// The parameters of the INSERT, in their order.
constexpr std::array<char const*, 5> event_values{"9b2f7c1e-0d5a-4c43-8f57-6e1f3a2b4c5d", "order.placed", "order", "42",
                                                  R"({"order":"42"})"};

void expect_that_it_inserts(std::shared_ptr<store> const& table, std::function<void()> const& insert) {
  std::vector<event> delivered;
  single_node_options options{.store = table, .log = nullptr};
  options.listeners.on("order", "order.placed", [&](delivery const& d) { delivered.push_back(d.event); });
  auto box = single_node(std::move(options));
  insert();
  EXPECT_EQ(box.run_until_idle(), 1U);
  ASSERT_EQ(delivered.size(), 1U);
  EXPECT_EQ(delivered[0].payload(), R"({"order":"42"})");
  EXPECT_EQ(delivered[0].aggregate_id(), "42");
  EXPECT_LT(std::chrono::abs(delivered[0].occurred_at() - table->now()), 10min) << "UTC, whatever the machine's zone";
}

// Runs the text with another program: the block is written to a file that the command reads.
void run_with(std::string const& file, std::string const& text, std::string const& command) {
  std::ofstream{file} << text;
  EXPECT_EQ(std::system(command.c_str()), 0) << command << "\n" << text;  // NOLINT(concurrency-mt-unsafe)
}

bool installed(std::string const& program) {
  return std::system(("command -v " + program + " > /dev/null").c_str()) == 0;  // NOLINT(concurrency-mt-unsafe)
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
  expect_that_it_inserts(table, [&] {
    sqlite3_stmt* insert = nullptr;
    auto const sql = block_for("SQLite", insert_page);
    ASSERT_EQ(sqlite3_prepare_v2(db.handle(), sql.c_str(), -1, &insert, nullptr), SQLITE_OK);
    for (std::size_t i = 0; i < event_values.size(); ++i) {
      sqlite3_bind_text(insert, static_cast<int>(i) + 1, event_values[i], -1, SQLITE_STATIC);
    }
    EXPECT_EQ(sqlite3_step(insert), SQLITE_DONE);
    sqlite3_finalize(insert);
  });
}

TEST(SqlOfPages, ThePythonProgramInsertsOnSqlite) {
  if (!installed("python3")) GTEST_SKIP() << "python3 is not installed";
  temporary_directory const directory;
  auto const path = directory / "shop.db";
  auto const table = sqlite::open(path);
  sqlite::connection{path}.execute("CREATE TABLE orders (id TEXT PRIMARY KEY)");
  expect_that_it_inserts(table, [&] {
    auto const program = directory / "insert.py";
    run_with(program, block_for("SQLite", insert_page, "# "), "python3 " + program + " " + path);
  });
}

TEST(SqlOfPages, TheSqliteShellInserts) {
  if (!installed("sqlite3")) GTEST_SKIP() << "the sqlite3 shell is not installed";
  temporary_directory const directory;
  auto const path = directory / "shop.db";
  auto const table = sqlite::open(path);
  expect_that_it_inserts(table, [&] {
    auto const script = directory / "insert.sql";
    run_with(script, block_for("sqlite3 shell", insert_page), "sqlite3 -bail " + path + " < " + script);
  });
}

TEST(SqlOfPages, InsertsOnPostgres) {
  postgres_database database;
  auto const table = database.open();
  expect_that_it_inserts(table, [&] {
    postgres::connection db{database.connection()};
    db.execute("SET search_path = " + database.schema());
    auto const sql = block_for("PostgreSQL", insert_page);
    auto* const r = PQexecParams(db.handle(), sql.c_str(), static_cast<int>(event_values.size()), nullptr,
                                 event_values.data(), nullptr, nullptr, 0);
    EXPECT_EQ(PQresultStatus(r), PGRES_COMMAND_OK) << PQresultErrorMessage(r);
    PQclear(r);
  });
}

TEST(SqlOfPages, PsqlInserts) {
  if (!installed("psql")) GTEST_SKIP() << "psql is not installed";
  temporary_directory const directory;
  postgres_database database;
  auto const table = database.open();
  expect_that_it_inserts(table, [&] {
    auto const script = directory / "insert.sql";
    run_with(script, "SET search_path = " + database.schema() + ";\n" + block_for("psql", insert_page),
             "psql -q -X -v ON_ERROR_STOP=1 -d \"" + database.connection() + "\" -f " + script);
  });
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

TEST(SqlOfPages, InsertsOnMariadb) {
  mysql_database database;
  auto const table = database.open();
  expect_that_it_inserts(table, [&] {
    auto const& v = event_values;
    auto sql = block_for("MariaDB and MySQL", insert_page);
    sql.erase(sql.find(';'));
    database.execute(sql, std::string{v[0]}, std::string{v[1]}, std::string{v[2]}, std::string{v[3]},
                     std::string{v[4]});
  });
}

TEST(SqlOfPages, TheMariadbClientInserts) {
  if (!installed("mariadb")) GTEST_SKIP() << "the mariadb client is not installed";
  temporary_directory const directory;
  mysql_database database;
  auto const table = database.open();
  auto const at = mysql::parse_url(database.url());
  expect_that_it_inserts(table, [&] {
    auto const script = directory / "insert.sql";
    run_with(script, block_for("mariadb", insert_page),
             "MYSQL_PWD='" + at.password + "' mariadb --no-defaults --protocol=TCP -h " + at.host + " -P " +
                 std::to_string(at.port) + " -u " + at.user + " " + database.database() + " < " + script);
  });
}

TEST(SqlOfPages, ReplaysOnMariadb) {
  mysql_database database;
  auto const table = database.open();
  auto const write = [&](std::string const& id) {
    auto const box = writer_only({.store = table, .log = nullptr});
    mysql::connection db{database.url()};
    mysql::transaction tx{db};
    box.writer().write(tx, "order.placed", "1", {.id = id});
    tx.commit();
  };
  auto sql = block_for("MariaDB and MySQL", replay_page);
  sql.erase(sql.find(';'));
  expect_that_it_replays(table, write, sql, "'2020-01-01'", [&](std::string const& text) { database.execute(text); });
}

}  // namespace
}  // namespace outbox

// Whole nodes on a store, as a user has them.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <outbox/memory.hpp>
#include <outbox/outbox.hpp>
#include <outbox/postgres.hpp>
#include <outbox/sqlite.hpp>
#include <string>

#include "support/postgres_database.hpp"
#include "support/temporary_directory.hpp"
#include "support/waiting.hpp"

namespace outbox::acceptance {

using namespace std::chrono_literals;

struct memory_database {
  static constexpr char const* name = "memory";
  std::shared_ptr<outbox::store> store = memory::open();

  template <class F>
  void transact(bool commit, F&& f) {
    memory::transaction tx{*store};
    f(tx);
    if (commit) tx.commit();
  }
};

struct sqlite_database {
  static constexpr char const* name = "sqlite";
  temporary_directory dir{};
  std::shared_ptr<outbox::store> store = sqlite::open(dir / "test.db", {.busy_timeout = 20s});
  sqlite::connection connection{dir / "test.db", 20s};

  std::shared_ptr<outbox::store> open(std::string const& table) {
    return sqlite::open(dir / "test.db", {.table = table, .busy_timeout = 20s});
  }

  template <class F>
  void transact(bool commit, F&& f) {
    sqlite::transaction tx{connection};
    f(tx);
    if (commit) tx.commit();
  }
};

struct postgres_database {
  static constexpr char const* name = "postgres";
  outbox::postgres_database db{};
  std::shared_ptr<outbox::store> store = db.open();
  postgres::connection connection{db.connection()};

  std::shared_ptr<outbox::store> open(std::string const& table) {
    auto o = db.options();
    o.table = table;
    return postgres::open(db.connection(), o);
  }

  /// By SQL on the handle, as an application does that has no class for it.
  template <class F>
  void transact_by_hand(bool commit, F&& f) {
    connection.execute("BEGIN");
    f(connection.handle());
    connection.execute(commit ? "COMMIT" : "ROLLBACK");
  }

  template <class F>
  void transact(bool commit, F&& f) {
    postgres::transaction tx{connection};
    f(tx);
    if (commit) tx.commit();
  }
};

template <class Database>
class Acceptance : public ::testing::Test {
 protected:
  single_node_options options() {
    single_node_options o{.store = db.store, .log = nullptr};
    o.poll.every = 20ms;
    o.retry.backoff = {.base = 1ms, .cap = 2ms};
    return o;
  }
  void start(node& n) {
    n.start();
    ASSERT_TRUE(eventually([&] { return n.health().active; }));
  }
  void write(node& n, std::string const& id, event_options o = {}, bool commit = true) {
    o.id = id;
    db.transact(commit, [&](auto& tx) { n.writer().write(tx, "t", "1", std::move(o)); });
  }
  template <class Tx>
  void savepoint(Tx& tx) {
    if constexpr (requires { tx.savepoint("s"); }) {
      tx.savepoint("s");
    } else {
      db.connection.execute("SAVEPOINT s");
    }
  }
  template <class Tx>
  void rollback_to_savepoint(Tx& tx) {
    if constexpr (requires { tx.rollback_to("s"); }) {
      tx.rollback_to("s");
    } else {
      db.connection.execute("ROLLBACK TO s");
    }
  }
  row_view row(std::string const& id) { return db.store->inspect().find(id).value(); }
  bool settled() {
    return eventually([&] { return db.store->inspect().counts().pending() == 0; });
  }

  Database db;
  tally seen;
};

using Databases = ::testing::Types<memory_database, sqlite_database, postgres_database>;

struct database_name {
  template <class Database>
  static std::string GetName(int /*index*/) {
    return Database::name;
  }
};

}  // namespace outbox::acceptance

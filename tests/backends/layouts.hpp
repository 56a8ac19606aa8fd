// Tables of another shape in tests: another program's table, with other names and words, on each SQL database.
#pragma once

#include <outbox/table_layout.hpp>
#include <outbox/testing.hpp>

#include "backends/caller.hpp"
#include "backends/left_out_of_layouts.hpp"

#ifdef OUTBOX_HAS_SQLITE
#include <outbox/sqlite.hpp>

#include "support/temporary_directory.hpp"
#endif
#ifdef OUTBOX_HAS_POSTGRES
#include <outbox/postgres.hpp>

#include "support/postgres_database.hpp"
#endif
#ifdef OUTBOX_HAS_MYSQL
#include <outbox/mysql.hpp>

#include "support/mysql_database.hpp"
#endif

namespace outbox {

/// What the tables of the three databases have in common. `manual` is the clock of what the process remembers.
class layout_backend : public contract::backend {
 public:
  [[nodiscard]] std::string left_out(std::string_view name) const override {
    return why_left_out(left_out_of_layouts, name);
  }

 protected:
  static std::shared_ptr<testing::manual_clock> clock_of_today() {
    return std::make_shared<testing::manual_clock>(
        std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now()));
  }
  [[nodiscard]] table_layout described(std::string table) const {
    return {.table = std::move(table),
            .id = "Message",
            .event_type = "kind",
            .aggregate_type = "about",
            .aggregate_id = "about_id",
            .payload = "body",
            .status = "state",
            .created_at = "born",
            .done_at = "ended",
            .error = "problem",
            .pending = "waiting",
            .done = "gone",
            .dead = "broken",
            .needs_aggregate = false,
            .clock = manual_};
  }

  std::shared_ptr<testing::manual_clock> manual_ = clock_of_today();
};

#ifdef OUTBOX_HAS_SQLITE
/// With columns for all that a layout can have.
class sqlite_layout_backend final : public layout_backend {
 public:
  static constexpr char const* name = "sqlite_layout";

  sqlite_layout_backend() {
    connection_.execute(
        "CREATE TABLE message (Message TEXT PRIMARY KEY, kind TEXT NOT NULL, about TEXT, about_id TEXT, body TEXT NOT "
        "NULL, state TEXT NOT NULL, born TEXT NOT NULL, ended TEXT, problem TEXT, tenant TEXT, headers TEXT, tries "
        "INT)");
    auto l = described("message");
    l.tenant = "tenant";
    l.headers = "headers";
    l.attempts = "tries";
    store_ = sqlite::open(path_, {.busy_timeout = std::chrono::seconds{20}, .clock = manual_, .log = {}, .layout = l});
  }
  spi::store& store() override { return store_->backend(); }
  std::unique_ptr<contract::caller_transaction> begin() override {
    return std::make_unique<caller<sqlite_layout_backend, sqlite::transaction>>(*this, connection_);
  }
  void advance(std::chrono::milliseconds by) override { manual_->advance(by); }
  std::unique_ptr<backend> other() override { return std::make_unique<sqlite_layout_backend>(); }
  void savepoint(sqlite::transaction& /*tx*/, std::string const& mark) { connection_.execute("SAVEPOINT " + mark); }
  void rollback_to(sqlite::transaction& /*tx*/, std::string const& mark) { connection_.execute("ROLLBACK TO " + mark); }

 private:
  temporary_directory dir_;
  std::string path_ = dir_ / "test.db";
  sqlite::connection connection_{path_, std::chrono::seconds{20}};
  std::shared_ptr<outbox::store> store_;
};
#endif

#ifdef OUTBOX_HAS_POSTGRES
/// With as few columns as a layout allows, and instants without a time zone.
class postgres_layout_backend final : public layout_backend {
 public:
  static constexpr char const* name = "postgres_layout";

  explicit postgres_layout_backend(std::string const& database = "postgres") : db_{database} {
    db_.execute("CREATE TABLE " + db_.table("message") +
                " (\"Message\" text PRIMARY KEY, kind text NOT NULL, about text, about_id text, body text NOT NULL, "
                "state text NOT NULL, born timestamp NOT NULL, ended timestamp, problem text)");
    auto o = db_.options();
    o.layout = described("message");
    store_ = postgres::open(db_.connection(), o);
  }
  [[nodiscard]] std::string left_out(std::string_view of) const override {
    auto why = why_left_out(left_out_of_narrow_layouts, of);
    return why.empty() ? layout_backend::left_out(of) : why;
  }
  spi::store& store() override { return store_->backend(); }
  std::unique_ptr<contract::caller_transaction> begin() override {
    return std::make_unique<caller<postgres_layout_backend, postgres::transaction>>(*this, connection_);
  }
  void advance(std::chrono::milliseconds by) override {
    manual_->advance(by);
    std::string const t = " - $1::bigint * interval '1 millisecond'";
    db_.execute("UPDATE " + db_.table("message") + " SET born = born" + t + ", ended = ended" + t, by.count());
  }
  std::unique_ptr<backend> other() override { return std::make_unique<postgres_layout_backend>("outbox_other"); }
  template <class Transaction>
  void savepoint(Transaction& /*tx*/, std::string const& mark) {
    connection_.execute("SAVEPOINT " + mark);
  }
  template <class Transaction>
  void rollback_to(Transaction& /*tx*/, std::string const& mark) {
    connection_.execute("ROLLBACK TO " + mark);
  }

 private:
  postgres_database db_;
  postgres::connection connection_{db_.connection()};
  std::shared_ptr<outbox::store> store_;
};
#endif

#ifdef OUTBOX_HAS_MYSQL
/// As on PostgreSQL, with the collation that a database has by default, and with TIMESTAMP columns.
class mysql_layout_backend final : public layout_backend {
 public:
  static constexpr char const* name = "mysql_layout";

  explicit mysql_layout_backend(mysql_server& server = mysql_server::shared()) : db_{server} {
    db_.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED");
    db_.execute("CREATE TABLE " + db_.table("message") +
                " (`Message` varchar(36) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PRIMARY KEY, kind varchar(255) "
                "CHARACTER SET utf8mb4 NOT NULL, about varchar(255) CHARACTER SET utf8mb4, about_id varchar(255) "
                "CHARACTER SET utf8mb4, body longtext CHARACTER SET utf8mb4 NOT NULL, state varchar(50) NOT NULL, born "
                "timestamp(6) NOT NULL DEFAULT current_timestamp(6), ended timestamp(6) NULL, problem mediumtext "
                "CHARACTER SET utf8mb4, KEY (state, born))");
    auto o = db_.options();
    o.layout = described("message");
    store_ = mysql::open(db_.url(), o);
  }
  [[nodiscard]] std::string left_out(std::string_view of) const override {
    auto why = why_left_out(left_out_of_narrow_layouts, of);
    if (why.empty()) why = why_left_out(left_out_on_mysql, of);
    return why.empty() ? layout_backend::left_out(of) : why;
  }
  spi::store& store() override { return store_->backend(); }
  std::unique_ptr<contract::caller_transaction> begin() override {
    return std::make_unique<caller<mysql_layout_backend, mysql::transaction>>(*this, connection_);
  }
  void advance(std::chrono::milliseconds by) override {
    manual_->advance(by);
    auto const us = std::chrono::microseconds{by}.count();
    std::string const t = " - INTERVAL ? MICROSECOND";
    db_.execute("UPDATE " + db_.table("message") + " SET born = born" + t + ", ended = ended" + t, us, us);
  }
  std::unique_ptr<backend> other() override {
    static mysql_server another;
    return std::make_unique<mysql_layout_backend>(another);
  }
  template <class Transaction>
  void savepoint(Transaction& /*tx*/, std::string const& mark) {
    connection_.execute("SAVEPOINT " + mark);
  }
  template <class Transaction>
  void rollback_to(Transaction& /*tx*/, std::string const& mark) {
    connection_.execute("ROLLBACK TO SAVEPOINT " + mark);
  }

 private:
  mysql_database db_;
  mysql::connection connection_{db_.url()};
  std::shared_ptr<outbox::store> store_;
};
#endif

}  // namespace outbox

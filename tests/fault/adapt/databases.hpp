// The databases that the adapters are tested on: a table of the application on each, and what is documented for it.
#pragma once

#include <outbox/outbox.hpp>
#include <outbox/sqlite.hpp>
#include <string>

#include "support/temporary_directory.hpp"
#include "support/waiting.hpp"
#ifdef OUTBOX_HAS_POSTGRES
#include <outbox/postgres.hpp>

#include "support/postgres_database.hpp"
#endif
#ifdef OUTBOX_HAS_MYSQL
#include <outbox/mysql.hpp>

#include "mysql/url.hpp"
#include "support/mysql_database.hpp"
#endif

namespace outbox {

// Parents of rows are checked by COMMIT, where a database can do that.
inline std::string orders_definition(std::string const& table, bool deferred) {
  return "CREATE TABLE " + table + " (id INT PRIMARY KEY, parent INT" +
         (deferred ? " REFERENCES " + table + " (id) DEFERRABLE INITIALLY DEFERRED)" : ")");
}

class on_sqlite {
 public:
  using transaction = sqlite::transaction;
  static constexpr char const* name = "sqlite";
  static constexpr path way = path::cold;     ///< Of an event in a transaction that the client ends.
  static constexpr bool sees_commits = true;  ///< A node need not be woken.

  on_sqlite() { admin_.execute(orders_definition("orders", true)); }

  [[nodiscard]] std::string const& file() const { return file_; }
  [[nodiscard]] std::shared_ptr<store> open() const { return sqlite::open(file_, {.log = nullptr}); }
  [[nodiscard]] std::shared_ptr<store> open_elsewhere() const {
    return sqlite::open(dir_ / "other.db", {.log = nullptr});
  }
  [[nodiscard]] static std::string table(std::string const& bare) { return bare; }
  std::string ask(std::string const& sql) { return admin_.query_one<std::string>(sql); }

 private:
  temporary_directory dir_;
  std::string file_ = dir_ / "test.db";
  sqlite::connection admin_{file_, std::chrono::seconds{20}};
};

#ifdef OUTBOX_HAS_POSTGRES
class on_postgres {
 public:
  using transaction = postgres::transaction;
  static constexpr char const* name = "postgres";
  static constexpr path way = path::hot;
  static constexpr bool sees_commits = true;
  static constexpr char const* session_id = "SELECT pg_backend_pid()";

  on_postgres() { db_.execute(orders_definition(table("orders"), true)); }

  [[nodiscard]] std::string const& connection() const { return db_.connection(); }
  [[nodiscard]] std::shared_ptr<store> open() const { return db_.open(); }
  [[nodiscard]] std::shared_ptr<store> open_elsewhere() { return elsewhere_.open(); }
  [[nodiscard]] std::string table(std::string const& bare) const { return db_.table(bare); }
  std::string ask(std::string const& sql) { return db_.ask(sql); }

  /// Ends another session, and waits until the server has undone its work.
  bool end_session(long long id) {
    db_.ask("SELECT pg_terminate_backend($1)", id);
    return eventually([&] { return db_.ask("SELECT count(*) FROM pg_stat_activity WHERE pid = $1", id) == "0"; });
  }

 private:
  postgres_database db_;
  postgres_database elsewhere_{"outbox_other"};
};
#endif

#ifdef OUTBOX_HAS_MYSQL
class on_mysql {
 public:
  using transaction = mysql::transaction;
  static constexpr char const* name = "mysql";
  static constexpr path way = path::cold;
  static constexpr bool sees_commits = false;
  static constexpr char const* session_id = "SELECT CONNECTION_ID()";

  on_mysql() { db_.execute(orders_definition(table("orders"), false)); }

  [[nodiscard]] std::string const& url() const { return db_.url(); }
  [[nodiscard]] mysql::address address() const { return mysql::parse_url(db_.url()); }
  [[nodiscard]] std::shared_ptr<store> open() const { return db_.open(); }
  // A transaction reaches every database of its server, so this is on another one.
  [[nodiscard]] std::shared_ptr<store> open_elsewhere() {
    server_ = std::make_unique<mysql_server>();
    elsewhere_ = std::make_unique<mysql_database>(*server_);
    return elsewhere_->open();
  }
  [[nodiscard]] std::string table(std::string const& bare) const { return db_.table(bare); }
  std::string ask(std::string const& sql) { return db_.ask(sql); }

  bool end_session(long long id) {
    db_.execute("KILL ?", id);
    return eventually(
        [&] { return db_.ask("SELECT count(*) FROM information_schema.processlist WHERE id = ?", id) == "0"; });
  }

 private:
  mysql_database db_;
  std::unique_ptr<mysql_server> server_;
  std::unique_ptr<mysql_database> elsewhere_;
};
#endif

}  // namespace outbox

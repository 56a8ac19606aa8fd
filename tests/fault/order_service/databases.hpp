// A database of its own for each case of the order service, and what a case asks it directly.
#pragma once

#include <outbox/sqlite.hpp>
#include <string>
#include <vector>

#include "support/temporary_directory.hpp"
#ifdef OUTBOX_HAS_POSTGRES
#include "support/postgres_database.hpp"
#endif
#ifdef OUTBOX_HAS_MYSQL
#include "support/mysql_database.hpp"
#endif

namespace outbox::order_service_test {

struct on_sqlite {
  static constexpr char const* name = "sqlite";
  [[nodiscard]] std::string url() const { return "sqlite:" + file; }
  template <class T>
  [[nodiscard]] std::vector<T> query(std::string const& sql) const {
    return sqlite::connection{file}.query<T>(sql);
  }
  void execute(std::string const& sql) const { sqlite::connection{file}.execute(sql); }

  temporary_directory directory;
  std::string file = directory / "orders.db";
};

#ifdef OUTBOX_HAS_POSTGRES
struct on_postgres {
  static constexpr char const* name = "postgres";
  [[nodiscard]] std::string url() const {
    return "postgresql://outbox@127.0.0.1:" + std::to_string(postgres_server::shared().port()) +
           "/postgres?options=-csearch_path%3D" + database.schema() + "&outbox.schema=" + database.schema();
  }
  template <class T>
  [[nodiscard]] std::vector<T> query(std::string const& sql) const {
    postgres::connection db{database.connection()};
    db.execute("SET search_path TO " + database.schema());
    return db.query<T>(sql);
  }
  void execute(std::string const& sql) const {
    postgres::connection db{database.connection()};
    db.execute("SET search_path TO " + database.schema());
    db.execute(sql);
  }

  postgres_database database;
};
#endif

#ifdef OUTBOX_HAS_MYSQL
struct on_mysql {
  static constexpr char const* name = "mysql";
  [[nodiscard]] std::string url() const { return database.url(); }
  template <class T>
  [[nodiscard]] std::vector<T> query(std::string const& sql) const {
    return mysql::connection{database.url()}.query<T>(sql);
  }
  void execute(std::string const& sql) const { mysql::connection{database.url()}.execute(sql); }

  mysql_database database;
};
#endif

}  // namespace outbox::order_service_test

// Databases for black-box tests of the tool: each has a URL, a store of the test's own, and SQL of another program.
#pragma once

#include <outbox/open_store.hpp>
#include <outbox/outbox.hpp>
#include <outbox/spi/store.hpp>
#include <outbox/sqlite.hpp>
#include <string>

#include "support/temporary_directory.hpp"
#ifdef OUTBOX_HAS_POSTGRES
#include "support/postgres_database.hpp"
#endif
#ifdef OUTBOX_HAS_MYSQL
#include "mysql/url.hpp"
#include "support/mysql_database.hpp"
#endif

namespace outbox {

class tool_on_sqlite {
 public:
  static constexpr char const* name = "sqlite";
  [[nodiscard]] std::string url() const { return "sqlite:" + file(); }
  [[nodiscard]] std::string file() const { return dir_ / "a.db"; }
  void execute(std::string const& sql) { sqlite::connection{file()}.execute(sql); }
  [[nodiscard]] static std::string table() { return "outbox_event"; }

  template <class F>
  void transact(F&& f) {
    sqlite::connection db{file()};
    sqlite::transaction tx{db};
    f(tx);
    tx.commit();
  }

 private:
  temporary_directory dir_;
};

#ifdef OUTBOX_HAS_POSTGRES
class tool_on_postgres {
 public:
  static constexpr char const* name = "postgres";
  [[nodiscard]] std::string url() const {
    return "postgresql://outbox@127.0.0.1:" + std::to_string(postgres_server::shared().port()) +
           "/postgres?outbox.schema=" + db_.schema();
  }
  void execute(std::string const& sql) { db_.execute(sql); }
  [[nodiscard]] std::string table() const { return db_.table(); }
  [[nodiscard]] postgres_database& database() noexcept { return db_; }

  template <class F>
  void transact(F&& f) {
    postgres::connection db{db_.connection()};
    postgres::transaction tx{db};
    f(tx);
    tx.commit();
  }

 private:
  postgres_database db_;
};
#endif

#ifdef OUTBOX_HAS_MYSQL
class tool_on_mysql {
 public:
  static constexpr char const* name = "mysql";
  [[nodiscard]] std::string url() const { return db_.url(); }
  void execute(std::string const& sql) { db_.execute(sql); }
  [[nodiscard]] std::string table() const { return db_.table(); }
  [[nodiscard]] mysql_database& database() noexcept { return db_; }

  template <class F>
  void transact(F&& f) {
    mysql::connection db{db_.url()};
    mysql::transaction tx{db};
    f(tx);
    tx.commit();
  }

 private:
  mysql_database db_;
};
#endif

using tool_databases = ::testing::Types<tool_on_sqlite
#ifdef OUTBOX_HAS_POSTGRES
                                        ,
                                        tool_on_postgres
#endif
#ifdef OUTBOX_HAS_MYSQL
                                        ,
                                        tool_on_mysql
#endif
                                        >;

struct name_of_tool_database {
  template <class Database>
  static std::string GetName(int /*index*/) {
    return Database::name;
  }
};

}  // namespace outbox

// Databases for black-box tests of the tool: each has a URL, transactions of the test's own, and, but for Redis, SQL of
// another program.
#pragma once

#include <outbox/open_store.hpp>
#include <outbox/outbox.hpp>
#include <outbox/spi/store.hpp>
#include <outbox/sqlite.hpp>
#include <string>

#ifdef OUTBOX_HAS_REDIS
#include <unistd.h>

#include <atomic>
#include <outbox/redis.hpp>

#include "support/redis_server.hpp"
#endif
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

#ifdef OUTBOX_HAS_REDIS
/// An outbox of its own on the shared server. Rows of delivered events stay, as on the other databases.
class tool_on_redis {
 public:
  static constexpr char const* name = "redis";
  tool_on_redis() = default;
  tool_on_redis(tool_on_redis const&) = delete;
  tool_on_redis& operator=(tool_on_redis const&) = delete;
  ~tool_on_redis() {
    try {
      for (auto const& key : keys("{" + outbox_ + "}:*")) connection_.command("UNLINK", key);
    } catch (std::exception const&) {  // a server that is gone has no keys
    }
  }

  [[nodiscard]] std::string url() const {
    auto const server = redis_server::shared().url();
    return server + (server.find('?') == std::string::npos ? "?" : "&") + "outbox.name=" + outbox_ +
           "&outbox.done_rows=keep";
  }
  [[nodiscard]] std::string key(std::string const& which) const { return "{" + outbox_ + "}:" + which; }
  template <class... Words>
  redis::value command(Words const&... words) {
    return connection_.command(words...);
  }
  std::vector<std::string> keys(std::string const& pattern) {
    std::vector<std::string> all;
    for (auto const& k : connection_.command("KEYS", pattern).elements) all.push_back(k.text);
    return all;
  }

  /// As a keyed claim notes that a row waits for another one.
  void block(std::string const& id) {
    command("EVAL", R"lua(
      local p, row = KEYS[1], KEYS[1] .. 'event:' .. ARGV[1]
      local m = string.format('%016d', tonumber(redis.call('HGET', row, 'seq'))) .. ARGV[1]
      redis.call('HSET', row, 'blocked', '1')
      redis.call('ZREM', p .. 'due', m)
      redis.call('ZREM', p .. 'leased', m)
      redis.call('ZADD', p .. 'blocked', string.sub(m, 1, 16), m)
      return 1)lua",
            1, key(""), id);
  }

  template <class F>
  void transact(F&& f) {
    redis::transaction tx{connection_};
    f(tx);
    tx.commit();
  }

 private:
  static std::string new_name() {
    static std::atomic<int> cases{0};
    return "tool-" + std::to_string(::getpid()) + "-" + std::to_string(++cases);
  }
  std::string outbox_ = new_name();
  redis::connection connection_{redis_server::shared().url()};
};
#endif

/// Leaves the outbox as a newer library does, which an older one must not touch.
template <class Database>
void make_newer(Database& db) {
  auto meta = db.table();
  meta.replace(meta.find("outbox_event"), std::string{"outbox_event"}.size(), "outbox_meta");
  db.execute("UPDATE " + meta + " SET value = '99' WHERE name IN ('schema_version', 'oldest_library')");
}
#ifdef OUTBOX_HAS_REDIS
inline void make_newer(tool_on_redis& db) { db.command("HSET", db.key("meta"), "version", 99, "oldest_library", 99); }
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
#ifdef OUTBOX_HAS_REDIS
                                        ,
                                        tool_on_redis
#endif
                                        >;

struct name_of_tool_database {
  template <class Database>
  static std::string GetName(int /*index*/) {
    return Database::name;
  }
};

}  // namespace outbox

#include "bench/place.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <outbox/open_store.hpp>
#include <outbox/sqlite.hpp>
#ifdef OUTBOX_HAS_POSTGRES
#include <outbox/postgres.hpp>
#endif
#ifdef OUTBOX_HAS_MYSQL
#include <outbox/mysql.hpp>
#endif
#ifdef OUTBOX_HAS_REDIS
#include <outbox/redis.hpp>
#endif
#include <random>
#include <system_error>

#include "cli/tool_error.hpp"

namespace outbox_tool {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view event_type = "outbox.bench";

// Nothing else has this name: it may be dropped without another look.
std::string new_name() {
  constexpr std::string_view digits = "0123456789abcdef";
  std::random_device random;
  std::string name = "outbox_bench_";
  for (int i = 0; i < 12; ++i) name += digits[random() % digits.size()];
  return name;
}

template <class Connection, class Transaction>
class session_on final : public bench_session {
 public:
  explicit session_on(std::string const& where) : db_{where} {}

  void ask() override { static_cast<void>(db_.template query_one<int>("SELECT 1")); }

  void write(outbox::writer const& w, std::string const& payload) override {
    Transaction tx{db_};
    w.write(tx, event_type, payload);
    tx.commit();
  }

  void write_all(outbox::writer const& w, std::span<outbox::event const> events) override {
    Transaction tx{db_};
    w.write_all(tx, events);
    tx.commit();
  }

 private:
  Connection db_;
};

std::shared_ptr<outbox::store> open_quietly(store_url const& url) {
  return outbox::open_store(url.text(), {.log = nullptr, .layout = {}});
}

// The user's table, and what only makes sense for it.
store_url without_table(store_url url) {
  for (auto const* const name : {"table", "schema", "database", "name", "migrate"}) url.ours.erase(name);
  return url;
}

class sqlite_place final : public bench_place {
 public:
  explicit sqlite_place(store_url url) : url_{without_table(std::move(url))} {
    if (url_.connection.empty()) refuse("the URL names no file", "Write sqlite:path/to/file.db");
    // SQLite follows links too: the file must be on the disk of the database.
    auto const database = fs::weakly_canonical(fs::absolute(url_.connection));
    file_ = database.parent_path() / (new_name() + ".db");
    url_.connection = file_.string();
  }

  std::string name() const override { return "the file " + file_.string(); }
  std::string drop_text() const override {
    std::string quoted;
    for (char const c : file_.string()) quoted += c == '\'' ? "'\\''" : std::string{c};
    return "rm -f '" + quoted + "'*";
  }
  std::string rights() const override { return "It needs the right to write in " + file_.parent_path().string() + "."; }

  void create() override {
    int const made = ::open(file_.c_str(), O_CREAT | O_EXCL | O_CLOEXEC | O_RDWR, 0600);
    if (made < 0) throw std::system_error{errno, std::generic_category(), "cannot create " + file_.string()};
    ::close(made);
    begun_ = true;
  }
  void drop() override {
    if (!begun_) return;
    std::vector<fs::path> all;
    for (auto const& entry : fs::directory_iterator{file_.parent_path()}) {
      if (entry.path().filename().string().starts_with(file_.filename().string())) all.push_back(entry.path());
    }
    for (auto const& one : all) fs::remove(one);
  }

  std::string product() const override {
    outbox::sqlite::connection db{file_.string()};
    return "SQLite " + db.query_one<std::string>("SELECT sqlite_version()");
  }
  int round_trips() const noexcept override { return 0; }
  std::unique_ptr<bench_session> connect() const override {
    return std::make_unique<session_on<outbox::sqlite::connection, outbox::sqlite::transaction>>(file_.string());
  }
  std::shared_ptr<outbox::store> open(std::string const& table) const override {
    auto url = url_;
    url.ours["table"] = table;
    return open_quietly(url);
  }

 private:
  store_url url_;
  fs::path file_;
  bool begun_ = false;
};

// What the places on servers share. `Way` has the statements of one.
template <class Way>
class server_place final : public bench_place {
 public:
  server_place(store_url url, std::chrono::milliseconds timeout) : url_{without_table(std::move(url))} {
    url_.ours.emplace("timeout", std::to_string(timeout.count()));
    url_.ours[Way::parameter] = name_;
  }

  std::string name() const override { return Way::what + (" " + name_); }
  std::string drop_text() const override { return Way::drop(name_) + ";"; }
  std::string rights() const override { return Way::rights; }

  void create() override {
    connection db{url_.connection};
    begun_ = true;
    db.execute(Way::create(name_));
  }

  // Another session that reads the catalogue may hold a lock for a moment, and must not hold up the end for ever.
  void drop() override {
    if (!begun_) return;
    connection db{url_.connection};
    db.execute(Way::patience);
    db.execute(Way::drop(name_));
  }

  std::string product() const override {
    return Way::product(connection{url_.connection}.template query_one<std::string>(Way::version));
  }
  int round_trips() const noexcept override { return Way::round_trips; }
  std::unique_ptr<bench_session> connect() const override {
    return std::make_unique<session_on<connection, typename Way::transaction>>(url_.connection);
  }
  std::shared_ptr<outbox::store> open(std::string const& table) const override {
    auto url = url_;
    url.ours["table"] = table;
    return open_quietly(url);
  }

 private:
  using connection = typename Way::connection;
  store_url url_;
  std::string name_ = new_name();
  bool begun_ = false;
};

#ifdef OUTBOX_HAS_POSTGRES
struct on_postgres {
  using connection = outbox::postgres::connection;
  using transaction = outbox::postgres::transaction;
  static constexpr char const* what = "the schema";
  static constexpr char const* parameter = "schema";
  static constexpr char const* rights = "The role needs CREATE on the database: GRANT CREATE ON DATABASE … TO ….";
  static constexpr char const* patience = "SET lock_timeout = '10s'; SET client_min_messages = warning";
  static constexpr char const* version = "SHOW server_version";
  static constexpr int round_trips = 2;  // BEGIN; the event and COMMIT
  static std::string create(std::string const& name) { return "CREATE SCHEMA " + name; }
  static std::string drop(std::string const& name) { return "DROP SCHEMA IF EXISTS " + name + " CASCADE"; }
  static std::string product(std::string const& said) { return "PostgreSQL " + said; }
};
#endif

#ifdef OUTBOX_HAS_MYSQL
struct on_mysql {
  using connection = outbox::mysql::connection;
  using transaction = outbox::mysql::transaction;
  static constexpr char const* what = "the database";
  static constexpr char const* parameter = "database";
  static constexpr char const* rights =
      "The user needs all rights on such databases: GRANT ALL ON `outbox\\_bench\\_%`.* TO ….";
  static constexpr char const* patience = "SET SESSION lock_wait_timeout = 10";
  static constexpr char const* version = "SELECT version()";
  static constexpr int round_trips = 3;  // START TRANSACTION; the event; a look and COMMIT
  static std::string create(std::string const& name) { return "CREATE DATABASE " + name; }
  static std::string drop(std::string const& name) { return "DROP DATABASE IF EXISTS " + name; }
  static std::string product(std::string const& said) {
    return said.find("MariaDB") == std::string::npos ? "MySQL " + said : said;
  }
};
#endif

#ifdef OUTBOX_HAS_REDIS
class redis_session final : public bench_session {
 public:
  explicit redis_session(std::string const& where) : db_{where} {}

  void ask() override { db_.command("PING"); }

  void write(outbox::writer const& w, std::string const& payload) override {
    outbox::redis::transaction tx{db_};
    w.write(tx, event_type, payload);
    tx.commit();
  }

  void write_all(outbox::writer const& w, std::span<outbox::event const> events) override {
    outbox::redis::transaction tx{db_};
    w.write_all(tx, events);
    tx.commit();
  }

 private:
  outbox::redis::connection db_;
};

// Outboxes whose keys begin with the same name in braces. Its first key says that the place is there.
class redis_place final : public bench_place {
 public:
  redis_place(store_url url, std::chrono::milliseconds timeout) : url_{without_table(std::move(url))} {
    url_.ours.emplace("timeout", std::to_string(timeout.count()));
  }

  std::string name() const override { return "the outbox " + name_; }
  std::string drop_text() const override {
    return "redis-cli --scan --pattern '" + prefix_ + "*' | xargs redis-cli UNLINK";
  }
  std::string rights() const override {
    return "The user needs all rights on such keys: ACL SETUSER … ~{outbox_bench_* &{outbox_bench_* +@all.";
  }

  void create() override {
    outbox::redis::connection db{url_.connection};
    begun_ = true;
    try {
      db.command("SET", prefix_ + "place", "outbox bench");
    } catch (outbox::error const& e) {
      if (std::string_view{e.what()}.find("MOVED") == std::string_view::npos) throw;
      begun_ = false;
      refuse("bench cannot measure a cluster of several servers", "Name a server that is in none.");
    }
  }

  void drop() override {
    if (!begun_) return;
    outbox::redis::connection db{url_.connection};
    std::string at = "0";
    do {
      auto const some = db.command("SCAN", at, "MATCH", prefix_ + "*", "COUNT", 1000);
      for (auto const& key : some.elements.at(1).elements) db.command("UNLINK", key.text);
      at = some.elements.at(0).text;
    } while (at != "0");
  }

  std::string product() const override {
    outbox::redis::connection db{url_.connection};
    auto const info = db.command("INFO", "server").text;
    constexpr std::string_view label = "redis_version:";
    auto const from = std::min(info.find(label), info.size() - label.size()) + label.size();
    return "Redis " + info.substr(from, info.find('\r', from) - from);
  }
  int round_trips() const noexcept override { return 1; }  // MULTI, the event and EXEC are sent together
  std::unique_ptr<bench_session> connect() const override { return std::make_unique<redis_session>(url_.connection); }
  std::shared_ptr<outbox::store> open(std::string const& table) const override {
    auto url = url_;
    url.ours["name"] = prefix_ + table;
    return open_quietly(url);
  }

 private:
  store_url url_;
  std::string name_ = new_name();
  std::string prefix_ = "{" + name_ + "}:";
  bool begun_ = false;
};
#endif

}  // namespace

std::unique_ptr<bench_place> choose_place(store_url const& url, std::chrono::milliseconds timeout) {
  static_cast<void>(timeout);
  switch (url.kind) {
    case database_kind::sqlite: return std::make_unique<sqlite_place>(url);
    case database_kind::postgres:
#ifdef OUTBOX_HAS_POSTGRES
      return std::make_unique<server_place<on_postgres>>(url, timeout);
#else
      refuse("this tool was built without PostgreSQL");
#endif
    case database_kind::mysql:
#ifdef OUTBOX_HAS_MYSQL
      return std::make_unique<server_place<on_mysql>>(url, timeout);
#else
      refuse("this tool was built without MariaDB and MySQL");
#endif
    case database_kind::redis:
#ifdef OUTBOX_HAS_REDIS
      return std::make_unique<redis_place>(url, timeout);
#else
      refuse("this tool was built without Redis");
#endif
  }
  refuse("the URL names no database that this tool knows");
}

}  // namespace outbox_tool

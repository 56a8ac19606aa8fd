// The fixture of the tests that join a caller's transaction on MariaDB.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mysql.h>

#include <optional>
#include <outbox/mysql.hpp>
#include <outbox/outbox.hpp>
#include <outbox/spi/store.hpp>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "mysql/url.hpp"
#include "support/mysql_database.hpp"
#include "support/tcp_proxy.hpp"
#include "support/waiting.hpp"

namespace outbox {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <class F>
error thrown_by(F&& f) {
  try {
    f();
  } catch (error const& e) {
    return e;
  }
  ADD_FAILURE() << "nothing was thrown";
  return {errc::lifecycle, "nothing"};
}

// A connection as an application opens it that knows nothing of this library: one statement at a time, no flags.
class plain_handle {
 public:
  explicit plain_handle(std::string const& url, bool reconnects = false) : c_{mysql_init(nullptr)} {
    auto const a = mysql::parse_url(url);
    my_bool const again = reconnects ? 1 : 0;
    mysql_optionsv(c_, MYSQL_OPT_RECONNECT, &again);
    mysql_optionsv(c_, MYSQL_SET_CHARSET_NAME, "utf8mb4");
    if (mysql_real_connect(c_, a.host.c_str(), a.user.c_str(), a.password.empty() ? nullptr : a.password.c_str(),
                           a.database.c_str(), a.port, nullptr, 0) == nullptr) {
      std::string const text = mysql_error(c_);
      mysql_close(c_);
      throw std::runtime_error{text};
    }
  }
  plain_handle(plain_handle const&) = delete;
  plain_handle& operator=(plain_handle const&) = delete;
  ~plain_handle() { mysql_close(c_); }

  [[nodiscard]] st_mysql* get() const noexcept { return c_; }
  [[nodiscard]] unsigned long id() const noexcept { return mysql_thread_id(c_); }

  /// Returns the number of the error; 0: none.
  unsigned attempt(std::string const& sql) {
    if (mysql_real_query(c_, sql.data(), sql.size()) != 0) return mysql_errno(c_);
    if (auto* const rows = mysql_store_result(c_)) mysql_free_result(rows);
    return mysql_errno(c_);
  }
  void execute(std::string const& sql) {
    if (attempt(sql) != 0) throw std::runtime_error{sql + ": " + mysql_error(c_)};
  }

  /// Returns a column of the first row.
  std::string ask(std::string const& sql, unsigned column = 0) {
    if (mysql_real_query(c_, sql.data(), sql.size()) != 0) throw std::runtime_error{sql + ": " + mysql_error(c_)};
    auto* const rows = mysql_store_result(c_);
    if (rows == nullptr) throw std::runtime_error{sql + ": no rows"};
    auto const row = mysql_fetch_row(rows);
    std::string text = row != nullptr && row[column] != nullptr ? row[column] : "";
    mysql_free_result(rows);
    return text;
  }

  /// The number of statements that the server has got in this session, this one included.
  int statements() { return std::stoi(ask("SHOW SESSION STATUS LIKE 'Questions'", 1)); }

 private:
  st_mysql* c_;
};

// Another account of the server, with its rights, which is dropped with the test.
class mysql_account {
 public:
  mysql_account(mysql_database& db, std::string const& name, std::vector<std::string> const& grants)
      : db_{db}, name_{name + "_" + db.database()} {
    db_.execute("CREATE USER " + name_);
    for (auto const& g : grants) db_.execute("GRANT " + g + " TO " + name_);
  }
  mysql_account(mysql_account const&) = delete;
  mysql_account& operator=(mysql_account const&) = delete;
  ~mysql_account() {
    try {
      db_.execute("DROP USER " + name_);
    } catch (error const&) {  // NOLINT(bugprone-empty-catch): the server may be gone on purpose
    }
  }

  [[nodiscard]] std::string const& name() const noexcept { return name_; }
  void grant(std::string const& what) { db_.execute("GRANT " + what + " TO " + name_); }

  /// The URL of the database for this account.
  [[nodiscard]] std::string url() const {
    auto const a = mysql::parse_url(db_.url());
    return "mysql://" + name_ + "@" + a.host + ":" + std::to_string(a.port) + "/" + a.database;
  }

 private:
  mysql_database& db_;
  std::string name_;
};

// A server of this program's own, for what changes the settings of all sessions.
inline mysql_server& own_server() {
  static mysql_server server;
  return server;
}

class MysqlJoin : public ::testing::Test {
 protected:
  explicit MysqlJoin(mysql_server& s = mysql_server::shared()) : db{s}, server{s} {
    db.execute("CREATE TABLE " + db.table("orders") + " (id int PRIMARY KEY, n int NOT NULL DEFAULT 0)");
    box.emplace(multi_node(node_options(db.open())));
    box->start();
  }

  multi_node_options node_options(std::shared_ptr<outbox::store> s) {
    multi_node_options o{.store = std::move(s), .log = nullptr};
    o.poll.every = 1h;       // an event that is delivered was handed over, or the poller was woken
    o.stop_timeout = 100ms;  // some transactions are open when it is destroyed
    o.listeners.on("t", [this](delivery const& d) {
      if (d.path == path::hot) hot.add(d.id);
      seen.add(d.id);
    });
    return o;
  }

  template <class Tx>
  void write(Tx&& tx, std::string const& id) {
    box->writer().write(tx, "t", "1", {.id = id});
  }
  [[nodiscard]] std::string insert(int id) const {
    return "INSERT INTO " + db.table("orders") + " (id) VALUES (" + std::to_string(id) + ")";
  }
  [[nodiscard]] std::string update(int id) const {
    return "UPDATE " + db.table("orders") + " SET n = n + 1 WHERE id = " + std::to_string(id);
  }
  std::string rows(std::string const& table = "outbox_event") {
    return db.ask("SELECT count(*) FROM " + db.table(table));
  }
  bool nothing_held() {
    return eventually([&] { return box->counters().held == 0; });
  }
  bool all_settled() {
    return eventually([&] { return db.ask("SELECT count(*) FROM " + db.table() + " WHERE status <> 1") == "0"; });
  }
  void end_session(unsigned long id) {
    db.execute("KILL ?", static_cast<std::int64_t>(id));
    ASSERT_TRUE(eventually([&] {
      return db.ask("SELECT count(*) FROM information_schema.processlist WHERE id = ?",
                    static_cast<std::int64_t>(id)) == "0";
    }));
  }

  // Nothing was written, and the node waits for nothing.
  void expect_nothing() {
    EXPECT_TRUE(nothing_held());
    EXPECT_TRUE(eventually([&] { return rows() == "0"; }));
    EXPECT_EQ(seen.total(), 0U);
  }

  // Two sessions that each wait for a row of the other, in whatever order that happens. The server rolls back the one
  // that has changed less. Its transaction has changed row 1, and `blocked` changes row 2.
  template <class F>
  void meet_a_deadlock(F&& blocked) {
    plain_handle other{db.url()};
    other.execute("START TRANSACTION");
    for (int i = 100; i < 140; ++i) other.execute(insert(i));
    other.execute(update(2));
    std::jthread const second{[&] {
      EXPECT_EQ(other.attempt(update(1)), 0U);
      other.execute("ROLLBACK");
    }};
    std::forward<F>(blocked)();
  }

  mysql_database db;
  mysql_server& server;
  tally seen, hot;
  std::optional<node> box;
};

}  // namespace outbox

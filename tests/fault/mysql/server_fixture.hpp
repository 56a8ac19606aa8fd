// The fixture of the tests that do things to a MariaDB server.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mysql.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <outbox/mysql.hpp>
#include <outbox/outbox.hpp>
#include <outbox/spi/store.hpp>
#include <outbox/testing.hpp>
#include <string>
#include <thread>
#include <vector>

#include "support/mysql_database.hpp"
#include "support/waiting.hpp"

namespace outbox {

using namespace spi;

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

template <class F>
error thrown_by(F&& f) {
  try {
    f();
  } catch (error const& e) {
    return e;
  }
  throw std::runtime_error{"nothing was thrown"};
}

/// A URL with another account, as in "user:password".
[[nodiscard]] inline std::string with_account(std::string url, std::string const& account) {
  auto const from = url.find("://") + 3;
  return url.replace(from, url.find('@') - from, account);
}

/// A URL with a parameter more.
[[nodiscard]] inline std::string with_parameter(std::string const& url, std::string const& parameter) {
  return url + (url.find('?') == std::string::npos ? "?" : "&") + parameter;
}

/// A derived table with the column i: the numbers from 1 to `count`, which is 100,000 at most.
[[nodiscard]] inline std::string numbers_to(int count) {
  std::string const digits =
      "(SELECT 0 AS d UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5 "
      "UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9)";
  return "(SELECT i FROM (SELECT 1 + a.d + 10 * b.d + 100 * c.d + 1000 * e.d + 10000 * f.d AS i FROM " + digits +
         " a, " + digits + " b, " + digits + " c, " + digits + " e, " + digits +
         " f) x WHERE i <= " + std::to_string(count) + ") n";
}

/// An account of its own that may do everything in one database and nothing elsewhere, gone when the test is. Its
/// sessions are counted and ended by its name.
class mysql_account {
 public:
  explicit mysql_account(mysql_database& db, std::string const& suffix = "u") : db_{db}, name_{db.database() + suffix} {
    db_.execute("CREATE USER " + quoted());
    db_.execute("GRANT ALL ON `" + db_.database() + "`.* TO " + quoted());
  }
  mysql_account(mysql_account const&) = delete;
  mysql_account& operator=(mysql_account const&) = delete;
  ~mysql_account() {
    try {
      db_.execute("DROP USER IF EXISTS " + quoted());
    } catch (error const&) {  // NOLINT(bugprone-empty-catch): the server may be gone on purpose
    }
  }

  [[nodiscard]] std::string const& name() const noexcept { return name_; }
  [[nodiscard]] std::string quoted() const { return "'" + name_ + "'@'%'"; }
  [[nodiscard]] std::string url(std::string const& password = {}) const {
    return with_account(db_.url(), password.empty() ? name_ : name_ + ":" + password);
  }

  /// The ids of its sessions.
  [[nodiscard]] std::vector<std::string> session_ids() {
    // One row at least: the database class wants it.
    auto ids = db_.lines(
        "SELECT id FROM information_schema.processlist WHERE user = ? UNION ALL SELECT NULL ORDER BY id IS NULL, id",
        name_);
    ids.pop_back();
    return ids;
  }
  [[nodiscard]] std::size_t sessions() { return session_ids().size(); }
  void end_sessions() {
    for (auto const& id : session_ids()) {
      try {
        db_.execute("KILL " + id);
      } catch (error const& e) {  // it may have ended by itself
        if (e.sqlstate() != "HY000") throw;
      }
    }
  }

 private:
  mysql_database& db_;
  std::string name_;
};

class MysqlServer : public ::testing::Test {
 protected:
  multi_node_options options(std::shared_ptr<outbox::store> s) {
    multi_node_options o{.store = std::move(s), .log = nullptr};
    o.poll.every = 20ms;
    o.listeners.on("t", [this](delivery const& d) { seen.add(d.id); });
    return o;
  }
  static void write_on(std::string const& url, node& n, std::string const& id) {
    mysql::connection c{url};
    mysql::transaction tx{c};
    n.writer().write(tx, "t", "1", {.id = id});
    tx.commit();
  }
  void write(node& n, std::string const& id, event_options o = {}) {
    o.id = id;
    mysql::transaction tx{caller};
    n.writer().write(tx, "t", "1", std::move(o));
    tx.commit();
  }
  bool settled() {
    return eventually([&] { return db.ask("SELECT count(*) FROM " + db.table() + " WHERE status IN (0, 2)") == "0"; });
  }
  /// Asks the store until it answers. Until then its errors must be transient.
  static bool answers_again(outbox::store& s) {
    return eventually([&] {
      try {
        static_cast<void>(s.inspect().counts());
        return true;
      } catch (error const& e) {
        EXPECT_TRUE(e.transient()) << e.what();
        return false;
      }
    });
  }

  mysql_database db;
  mysql::connection caller{db.url()};
  tally seen;
};

}  // namespace outbox

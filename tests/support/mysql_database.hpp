// A database of its own on the shared server, gone when the test is.
#pragma once

#include <unistd.h>

#include <atomic>
#include <memory>
#include <optional>
#include <outbox/mysql.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/mysql_server.hpp"

namespace outbox {

class mysql_database {
 public:
  explicit mysql_database(mysql_server& server = mysql_server::shared())
      : database_{next_name()}, url_{made(server, database_)}, admin_{std::make_unique<mysql::connection>(url_)} {}
  mysql_database(mysql_database const&) = delete;
  mysql_database& operator=(mysql_database const&) = delete;
  ~mysql_database() {
    try {
      admin_->execute("DROP DATABASE IF EXISTS " + database_);
    } catch (error const&) {  // NOLINT(bugprone-empty-catch): the server may be gone on purpose
    }
  }

  [[nodiscard]] std::string const& url() const noexcept { return url_; }
  [[nodiscard]] std::string const& database() const noexcept { return database_; }
  [[nodiscard]] std::string table(std::string const& name = "outbox_event") const {
    return "`" + database_ + "`.`" + name + "`";
  }
  [[nodiscard]] mysql::options options() const {
    mysql::options o;
    o.log = nullptr;
    return o;
  }
  [[nodiscard]] std::shared_ptr<store> open() const { return mysql::open(url_, options()); }

  template <class... Args>
  void execute(std::string const& sql, Args const&... args) {
    admin_->execute(sql, args...);
  }

  /// After the server was gone.
  void reconnect() { admin_ = std::make_unique<mysql::connection>(url_); }

  /// Returns the only column of the first row as text; empty for NULL.
  template <class... Args>
  std::string ask(std::string const& sql, Args const&... args) {
    return lines(sql, args...).front();
  }

  /// Returns the only column of all rows, which must be one at least.
  template <class... Args>
  std::vector<std::string> lines(std::string const& sql, Args const&... args) {
    std::vector<std::string> all;
    for (auto& text : admin_->query<std::optional<std::string>>(sql, args...)) {
      all.push_back(std::move(text).value_or(""));
    }
    if (all.empty()) throw std::runtime_error{sql + ": no rows"};
    return all;
  }

 private:
  static std::string next_name() {
    static std::atomic<int> next = 0;
    return "t" + std::to_string(::getpid()) + "_" + std::to_string(++next);
  }

  // A server that runs elsewhere may have one that a process of the same id has left behind.
  static std::string made(mysql_server& server, std::string const& name) {
    mysql::connection c{server.connection()};
    c.execute("DROP DATABASE IF EXISTS " + name);
    c.execute("CREATE DATABASE " + name);
    return server.connection(name);
  }

  std::string database_;
  std::string url_;
  std::unique_ptr<mysql::connection> admin_;
};

}  // namespace outbox

// What one would write against MariaDB Connector/C without this library, on the same table.
#pragma once

#include <mysql.h>

#include <memory>
#include <string>
#include <vector>

#include "support/mysql_server.hpp"

namespace bench::my {

struct close_handle {
  void operator()(MYSQL* c) const noexcept { mysql_close(c); }
};
struct close_statement {
  void operator()(MYSQL_STMT* s) const noexcept { mysql_stmt_close(s); }
};
struct free_rows {
  void operator()(MYSQL_RES* r) const noexcept { mysql_free_result(r); }
};
using result = std::unique_ptr<MYSQL_RES, free_rows>;

/// A database with our table and a business table, on a server of the benchmark's own.
struct place {
  std::string url, database;
  [[nodiscard]] std::string table() const { return database + ".outbox_event"; }
  [[nodiscard]] std::string orders() const { return database + ".orders"; }
};

/// A connection; every failure throws.
class client {
 public:
  client();
  [[nodiscard]] MYSQL* handle() const noexcept { return c_.get(); }
  void run(std::string const& sql) const;
  [[nodiscard]] result rows(std::string const& sql) const;
  [[nodiscard]] std::string ask(std::string const& sql) const;
  [[nodiscard]] std::string quoted(std::string const& text) const;

 private:
  std::unique_ptr<MYSQL, close_handle> c_;
};

/// A statement whose parameters are texts, prepared by the application on a connection that it has.
class prepared {
 public:
  prepared(MYSQL* c, std::string const& sql);
  void run(std::vector<std::string const*> const& values) const;

 private:
  std::unique_ptr<MYSQL_STMT, close_statement> s_;
};

/// Starts the server with the first call. Default durability: every commit is flushed.
[[nodiscard]] outbox::mysql_server& server();

/// A new and empty one; an older one of the same name is dropped.
[[nodiscard]] place new_place(std::string const& name);

/// The statement of an event, as our store sends it less what only our store needs.
[[nodiscard]] std::string insert_event_sql(place const& p, std::string const& id, std::string const& payload);
[[nodiscard]] std::string insert_order_sql(place const& p, std::string const& id);

/// Business row and event in one transaction: four round trips, prepared statements.
class writer_by_hand {
 public:
  explicit writer_by_hand(place const& p);
  void write(std::string const& id, std::string const& payload) const;
  void event(std::string const& id, std::string const& payload) const { event_.run({&id, &payload}); }
  [[nodiscard]] client const& db() const noexcept { return c_; }

 private:
  client c_;
  prepared order_;
  prepared event_;
};

/// A transaction that claims rows, and a statement that marks or deletes them.
class drainer_by_hand {
 public:
  drainer_by_hand(place p, bool erase) : p_{std::move(p)}, erase_{erase} {}
  [[nodiscard]] std::size_t drain_some(std::size_t limit) const;

 private:
  place p_;
  bool erase_;
  client c_;
};

/// `count` rows that are due.
void fill(place const& p, int count, std::string const& payload);

}  // namespace bench::my

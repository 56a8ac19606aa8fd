// What one would write against libpq without this library, on the same table.
#pragma once

#include <libpq-fe.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "support/postgres_server.hpp"

namespace bench::pg {

struct finish {
  void operator()(PGconn* c) const noexcept { PQfinish(c); }
};
struct clear {
  void operator()(PGresult* r) const noexcept { PQclear(r); }
};
using result = std::unique_ptr<PGresult, clear>;

/// A connection; every failure throws.
class client {
 public:
  explicit client(std::string const& connection);

  [[nodiscard]] PGconn* handle() const noexcept { return c_.get(); }
  void run(std::string const& sql) const;
  [[nodiscard]] std::string ask(std::string const& sql) const;
  void prepare(char const* name, std::string const& sql) const;
  result execute(char const* name, std::vector<char const*> const& values) const;
  result execute_params(std::string const& sql, std::vector<char const*> const& values) const;

 private:
  void check(PGresult const* r) const;
  std::unique_ptr<PGconn, finish> c_;
};

/// A statement with one parameter, prepared by the application on a connection that it has.
class prepared_insert {
 public:
  prepared_insert(PGconn* c, std::string const& sql);
  void run(std::string const& value) const;

 private:
  PGconn* c_;
};

/// A schema with our table and a business table, on a server of the benchmark's own.
struct place {
  std::string connection, schema;
  [[nodiscard]] std::string table() const { return schema + ".outbox_event"; }
  [[nodiscard]] std::string orders() const { return schema + ".orders"; }
};

/// Starts the server with the first call. Default durability: fsync on.
[[nodiscard]] outbox::postgres_server& server();

/// A new and empty one; an older one of the same name is dropped.
[[nodiscard]] place new_place(std::string const& name, std::string const& database = "postgres");

/// The statement of an event, as our store sends it less what only our store needs.
[[nodiscard]] std::string insert_event_sql(place const& p);
[[nodiscard]] std::string insert_order_sql(place const& p);

/// Business row and event in one transaction: four round trips, prepared statements.
class writer_by_hand {
 public:
  explicit writer_by_hand(place const& p);
  void write(std::string const& id, std::string const& payload) const;
  void write_pipelined(std::string const& id, std::string const& payload) const;  ///< The same in one round trip.
  void event(std::string const& id, std::string const& payload) const;
  [[nodiscard]] client const& db() const noexcept { return c_; }

 private:
  client c_;
};

class drainer_by_hand {
 public:
  enum class kind {
    mark,             ///< A statement that claims and one that marks as DONE, each a transaction of its own.
    erase,            ///< The same, but it deletes.
    one_transaction,  ///< A SELECT that locks and an UPDATE to DONE in one transaction, without a lease.
  };
  drainer_by_hand(place const& p, kind how);
  [[nodiscard]] std::size_t drain_some(std::size_t limit) const;

 private:
  kind how_;
  client c_;
};

/// `count` rows that are due, by one statement.
void fill(place const& p, int count, std::string const& payload);

}  // namespace bench::pg

// The clients that can join a transaction on PostgreSQL, and the fixture that runs a case with one of them.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <libpq-fe.h>

#ifdef OUTBOX_HAS_PQXX
#include <outbox/adapt/pqxx.hpp>
#endif
#include <outbox/outbox.hpp>
#include <outbox/postgres.hpp>

#include "support/postgres_database.hpp"
#include "support/tcp_proxy.hpp"
#include "support/waiting.hpp"

namespace outbox {

using namespace std::chrono_literals;

struct broken : std::runtime_error {
  using runtime_error::runtime_error;
};

inline void check(PGconn* c, char const* sql) {
  auto* const r = PQexec(c, sql);
  auto const status = PQresultStatus(r);
  bool const rolled_back = std::string_view{PQcmdStatus(r)} == "ROLLBACK" && std::string_view{sql} == "COMMIT";
  PQclear(r);
  if ((status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) || rolled_back) throw broken{PQerrorMessage(c)};
}

// BEGIN and COMMIT that the application sends on a libpq handle.
class raw_client {
 public:
  static constexpr char const* name = "libpq";
  static constexpr bool knows_doubt = false;  ///< Only the application sees the error.
  explicit raw_client(std::string const& connection) : c_{std::make_unique<postgres::connection>(connection)} {}
  void begin() { execute("BEGIN"); }
  void execute(char const* sql) { check(c_->handle(), sql); }
  template <class F>
  void join(F&& f) {
    auto* handle = c_->handle();
    f(handle);
  }
  void commit() { execute("COMMIT"); }
  void rollback() { execute("ROLLBACK"); }
  void close() { c_.reset(); }

 private:
  std::unique_ptr<postgres::connection> c_;
};

// Our own transaction.
template <postgres::send_mode How>
class raii_client {
 public:
  static constexpr char const* name = How == postgres::send_mode::immediate ? "immediate" : "pipelined";
  static constexpr bool knows_doubt = true;
  explicit raii_client(std::string const& connection) : c_{std::make_unique<postgres::connection>(connection)} {}
  void begin() { tx_.emplace(*c_, How); }
  void execute(char const* sql) {
    if (How == postgres::send_mode::pipelined) return tx_->enqueue(sql);
    check(c_->handle(), sql);
  }
  template <class F>
  void join(F&& f) {
    f(*tx_);
  }
  void commit() { tx_->commit(); }
  void rollback() { tx_->rollback(); }
  void close() {
    tx_.reset();
    c_.reset();
  }

 private:
  std::unique_ptr<postgres::connection> c_;
  std::optional<postgres::transaction> tx_;
};

#ifdef OUTBOX_HAS_PQXX
// A transaction of libpqxx.
class pqxx_client {
 public:
  static constexpr char const* name = "pqxx";
  static constexpr bool knows_doubt = false;
  explicit pqxx_client(std::string const& connection) : c_{std::make_unique<pqxx::connection>(connection)} {}
  void begin() { tx_ = std::make_unique<pqxx::work>(*c_); }
  void execute(char const* sql) { tx_->exec(sql); }
  template <class F>
  void join(F&& f) {
    f(*tx_);
  }
  void commit() { tx_->commit(); }
  void rollback() { tx_->abort(); }
  void close() {
    tx_.reset();
    c_.reset();
  }

 private:
  std::unique_ptr<pqxx::connection> c_;
  std::unique_ptr<pqxx::work> tx_;
};
#endif

struct client_name {
  template <class Client>
  static std::string GetName(int /*index*/) {
    return Client::name;
  }
};

template <class Client>
class PostgresJoin : public ::testing::Test {
 protected:
  PostgresJoin() {
    db.execute("CREATE TABLE " + db.table("orders") + " (id int PRIMARY KEY, of int REFERENCES " + db.table("orders") +
               " DEFERRABLE INITIALLY DEFERRED)");
    db.execute("SET search_path = " + db.schema());
    multi_node_options o{.store = db.open(), .log = nullptr};
    o.poll.every = 1h;       // an event that is delivered was handed over, or the poller was woken
    o.stop_timeout = 100ms;  // some transactions are open when it is destroyed
    o.listeners.on("t", [this](delivery const& d) {
      if (d.path == path::hot) hot.add(d.id);
      seen.add(d.id);
    });
    box.emplace(multi_node(std::move(o)));
    box->start();
  }

  void write(std::string const& id) {
    client.join([&](auto& tx) { box->writer().write(tx, "t", "1", {.id = id}); });
  }
  std::string insert(int id, std::string const& of = "NULL") {
    return "INSERT INTO " + db.table("orders") + " VALUES (" + std::to_string(id) + ", " + of + ")";
  }
  std::string rows(std::string const& table) { return db.ask("SELECT count(*) FROM " + db.table(table)); }
  bool nothing_held() {
    return eventually([&] { return box->counters().held == 0; });
  }
  bool all_settled() {
    return eventually([&] { return db.ask("SELECT count(*) FROM " + db.table() + " WHERE status <> 1") == "0"; });
  }

  postgres_database db;
  tcp_proxy proxy{postgres_server::shared().port()};
  Client client{proxy.connection()};
  tally seen, hot;
  std::optional<node> box;
};

// Uses the connection while libpq hands out the answer to COMMIT or ROLLBACK.
class nested_hook final : public writer_hook {
 public:
  void after_commit(std::span<event const> events) override { again("c", events); }
  void after_rollback(std::span<event const> events) override { again("r", events); }
  std::function<void(std::string const& id)> write;

 private:
  void again(std::string const& letter, std::span<event const> events) {
    if (events.front().id().size() < 4) write(events.front().id() + letter);
  }
};

}  // namespace outbox

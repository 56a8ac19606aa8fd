#include "postgres_by_hand.hpp"

#include <outbox/postgres.hpp>
#include <stdexcept>

namespace bench::pg {

client::client(std::string const& connection) : c_{PQconnectdb(connection.c_str())} {
  if (PQstatus(c_.get()) != CONNECTION_OK) throw std::runtime_error{PQerrorMessage(c_.get())};
  PQsetNoticeProcessor(
      c_.get(), [](void*, char const*) {}, nullptr);
}

void client::check(PGresult const* r) const {
  auto const s = PQresultStatus(r);
  if (s != PGRES_COMMAND_OK && s != PGRES_TUPLES_OK) throw std::runtime_error{PQerrorMessage(c_.get())};
}

void client::run(std::string const& sql) const { check(result{PQexec(c_.get(), sql.c_str())}.get()); }

std::string client::ask(std::string const& sql) const {
  result const r{PQexec(c_.get(), sql.c_str())};
  check(r.get());
  return PQgetvalue(r.get(), 0, 0);
}

void client::prepare(char const* name, std::string const& sql) const {
  check(result{PQprepare(c_.get(), name, sql.c_str(), 0, nullptr)}.get());
}

result client::execute(char const* name, std::vector<char const*> const& values) const {
  result r{PQexecPrepared(c_.get(), name, static_cast<int>(values.size()), values.data(), nullptr, nullptr, 0)};
  check(r.get());
  return r;
}

result client::execute_params(std::string const& sql, std::vector<char const*> const& values) const {
  result r{PQexecParams(c_.get(), sql.c_str(), static_cast<int>(values.size()), nullptr, values.data(), nullptr,
                        nullptr, 0)};
  check(r.get());
  return r;
}

namespace {

void check_result(PGconn* c, result const& r) {
  if (PQresultStatus(r.get()) != PGRES_COMMAND_OK) throw std::runtime_error{PQerrorMessage(c)};
}

}  // namespace

prepared_insert::prepared_insert(PGconn* c, std::string const& sql) : c_{c} {
  check_result(c_, result{PQprepare(c_, "order_row", sql.c_str(), 0, nullptr)});
}

void prepared_insert::run(std::string const& value) const {
  char const* const values[] = {value.c_str()};
  check_result(c_, result{PQexecPrepared(c_, "order_row", 1, values, nullptr, nullptr, 0)});
}

outbox::postgres_server& server() {
  static outbox::postgres_server one{{.settings = {"max_wal_size=4GB"}, .durable = true}};
  return one;
}

place new_place(std::string const& name, std::string const& database) {
  client const any{server().connection()};
  if (any.ask("SELECT count(*) FROM pg_database WHERE datname = '" + database + "'") == "0") {
    any.run("CREATE DATABASE " + database);
  }
  place p{server().connection(database), name};
  client const c{p.connection};
  c.run("DROP SCHEMA IF EXISTS " + name + " CASCADE");
  c.run("CREATE SCHEMA " + name);
  c.run("CREATE TABLE " + p.orders() + " (id text PRIMARY KEY, cents int NOT NULL)");
  outbox::postgres::options o;
  o.schema = name;
  outbox::postgres::migrate(p.connection, o);
  return p;
}

std::string insert_event_sql(place const& p) {
  return "INSERT INTO " + p.table() +
         " (event_id, event_type, aggregate_type, payload, available_at, created_at) VALUES ($1, 'order.placed', "
         "'__GLOBAL__', $2::json, clock_timestamp(), clock_timestamp())";
}

std::string insert_order_sql(place const& p) { return "INSERT INTO " + p.orders() + " (id, cents) VALUES ($1, 1999)"; }

writer_by_hand::writer_by_hand(place const& p) : c_{p.connection} {
  c_.prepare("order_row", insert_order_sql(p));
  c_.prepare("event_row", insert_event_sql(p));
  c_.prepare("begin", "BEGIN");
  c_.prepare("commit", "COMMIT");
}

void writer_by_hand::event(std::string const& id, std::string const& payload) const {
  c_.execute("event_row", {id.c_str(), payload.c_str()});
}

void writer_by_hand::write(std::string const& id, std::string const& payload) const {
  c_.run("BEGIN");
  c_.execute("order_row", {id.c_str()});
  event(id, payload);
  c_.run("COMMIT");
}

void writer_by_hand::write_pipelined(std::string const& id, std::string const& payload) const {
  auto* const c = c_.handle();
  PQenterPipelineMode(c);
  auto const send = [&](char const* name, std::vector<char const*> const& values) {
    PQsendQueryPrepared(c, name, static_cast<int>(values.size()), values.data(), nullptr, nullptr, 0);
  };
  send("begin", {});
  send("order_row", {id.c_str()});
  send("event_row", {id.c_str(), payload.c_str()});
  send("commit", {});
  PQpipelineSync(c);
  for (int i = 0; i < 4; ++i) {
    check_result(c, result{PQgetResult(c)});
    PQgetResult(c);  // the null that ends it
  }
  result const sync{PQgetResult(c)};
  PQexitPipelineMode(c);
}

drainer_by_hand::drainer_by_hand(place const& p, kind how) : how_{how}, c_{p.connection} {
  std::string const columns = "event_id, event_type, aggregate_type, aggregate_id, payload, headers, attempts";
  auto const due = [&](std::string const& what) {
    return "SELECT " + what + " FROM " + p.table() +
           " WHERE status IN (0, 2) AND blocked IS NOT TRUE AND greatest(available_at, lease_until) <= now() ORDER BY "
           "greatest(available_at, lease_until), seq LIMIT $1::int FOR UPDATE SKIP LOCKED";
  };
  std::string const by_id = " WHERE event_id = ANY($1::text[])";
  if (how == kind::one_transaction) {
    c_.prepare("claim", due(columns));
    c_.prepare("mark", "UPDATE " + p.table() + " SET status = 1, done_at = now()" + by_id);
    return;
  }
  c_.prepare("claim", "UPDATE " + p.table() +
                          " SET locked_by = 'me', locked_at = now(), lease_until = now() + interval '30 s' WHERE "
                          "event_id IN (" +
                          due("event_id") + ") RETURNING " + columns);
  c_.prepare("mark", (how == kind::erase ? "DELETE FROM " + p.table()
                                         : "UPDATE " + p.table() +
                                               " SET status = 1, done_at = now(), locked_by = NULL, locked_at = NULL, "
                                               "lease_until = NULL") +
                         by_id + " AND locked_by = 'me'");
}

std::size_t drainer_by_hand::drain_some(std::size_t limit) const {
  bool const one_transaction = how_ == kind::one_transaction;
  if (one_transaction) c_.run("BEGIN");
  auto const count = std::to_string(limit);
  auto const claimed = c_.execute("claim", {count.c_str()});
  std::string ids = "{";
  std::vector<std::string> payloads;  // what the listener would get
  for (int i = 0; i < PQntuples(claimed.get()); ++i) {
    if (i > 0) ids += ',';
    ids += PQgetvalue(claimed.get(), i, 0);
    payloads.emplace_back(PQgetvalue(claimed.get(), i, 4));
  }
  ids += '}';
  if (!payloads.empty()) c_.execute("mark", {ids.c_str()});
  if (one_transaction) c_.run("COMMIT");
  return payloads.size();
}

void fill(place const& p, int count, std::string const& payload) {
  client const c{p.connection};
  c.run("INSERT INTO " + p.table() +
        " (event_id, event_type, aggregate_type, payload, available_at, created_at) SELECT '0000000000000000-' || i, "
        "'order.placed', '__GLOBAL__', '" +
        payload + "', now(), now() FROM generate_series(1, " + std::to_string(count) + ") i");
  c.run("VACUUM ANALYZE " + p.table());
  c.run("CHECKPOINT");
}

}  // namespace bench::pg

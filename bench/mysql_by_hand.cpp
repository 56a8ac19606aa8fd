#include "mysql_by_hand.hpp"

#include <outbox/mysql.hpp>
#include <stdexcept>

namespace bench::my {

client::client() : c_{mysql_init(nullptr)} {
  if (mysql_real_connect(c_.get(), "127.0.0.1", "root", nullptr, nullptr, static_cast<unsigned>(server().port()),
                         nullptr, 0) == nullptr) {
    throw std::runtime_error{mysql_error(c_.get())};
  }
}

void client::run(std::string const& sql) const { static_cast<void>(rows(sql)); }

result client::rows(std::string const& sql) const {
  if (mysql_real_query(c_.get(), sql.data(), sql.size()) != 0) throw std::runtime_error{mysql_error(c_.get())};
  return result{mysql_store_result(c_.get())};
}

std::string client::ask(std::string const& sql) const {
  auto const r = rows(sql);
  auto const row = mysql_fetch_row(r.get());
  return row == nullptr || row[0] == nullptr ? "" : row[0];
}

std::string client::quoted(std::string const& text) const {
  std::string out(text.size() * 2 + 3, '\0');
  auto const size = mysql_real_escape_string(c_.get(), out.data() + 1, text.data(), text.size());
  out.resize(size + 2);
  out.front() = out.back() = '\'';
  return out;
}

prepared::prepared(MYSQL* c, std::string const& sql) : s_{mysql_stmt_init(c)} {
  if (mysql_stmt_prepare(s_.get(), sql.data(), sql.size()) != 0) throw std::runtime_error{mysql_stmt_error(s_.get())};
}

void prepared::run(std::vector<std::string const*> const& values) const {
  MYSQL_BIND binds[4] = {};
  for (std::size_t i = 0; i < values.size(); ++i) {
    binds[i].buffer_type = MYSQL_TYPE_STRING;
    binds[i].buffer = const_cast<char*>(values[i]->data());
    binds[i].buffer_length = values[i]->size();
  }
  if (mysql_stmt_bind_param(s_.get(), binds) != 0 || mysql_stmt_execute(s_.get()) != 0) {
    throw std::runtime_error{mysql_stmt_error(s_.get())};
  }
}

outbox::mysql_server& server() {
  static outbox::mysql_server one{{.settings = {"innodb-buffer-pool-size=512M", "innodb-log-file-size=512M",
                                                "innodb-monitor-enable=trx_rw_commits"},
                                   .durable = true}};
  return one;
}

place new_place(std::string const& name) {
  static_cast<void>(server());
  client const c;
  c.run("DROP DATABASE IF EXISTS " + name);
  c.run("CREATE DATABASE " + name);
  place p{server().connection(name), name};
  c.run("CREATE TABLE " + p.orders() + " (id varchar(64) PRIMARY KEY, cents int NOT NULL)");
  outbox::mysql::migrate(p.url);
  return p;
}

namespace {

std::string event_row(std::string const& id, std::string const& payload) {
  return "(" + id + ", 'order.placed', '__GLOBAL__', " + payload + ", utc_timestamp(6), utc_timestamp(6))";
}

std::string event_columns(place const& p) {
  return "INSERT INTO " + p.table() +
         " (event_id, event_type, aggregate_type, payload, available_at, created_at) VALUES ";
}

}  // namespace

std::string insert_event_sql(place const& p, std::string const& id, std::string const& payload) {
  return event_columns(p) + event_row(id, payload);
}

std::string insert_order_sql(place const& p, std::string const& id) {
  return "INSERT INTO " + p.orders() + " (id, cents) VALUES (" + id + ", 1999)";
}

writer_by_hand::writer_by_hand(place const& p)
    : order_{c_.handle(), insert_order_sql(p, "?")}, event_{c_.handle(), insert_event_sql(p, "?", "?")} {}

void writer_by_hand::write(std::string const& id, std::string const& payload) const {
  c_.run("START TRANSACTION");
  order_.run({&id});
  event(id, payload);
  c_.run("COMMIT");
}

std::size_t drainer_by_hand::drain_some(std::size_t limit) const {
  c_.run("START TRANSACTION");
  auto const claimed =
      c_.rows("SELECT seq, event_id, event_type, aggregate_type, aggregate_id, payload, headers, attempts FROM " +
              p_.table() + " WHERE due_at <= utc_timestamp(6) ORDER BY due_at, seq LIMIT " + std::to_string(limit) +
              " FOR UPDATE SKIP LOCKED");
  std::string numbers;
  std::vector<std::string> payloads;  // what the listener would get
  while (auto const row = mysql_fetch_row(claimed.get())) {
    numbers += (numbers.empty() ? "" : ",") + std::string{row[0]};
    payloads.emplace_back(row[5]);
  }
  if (payloads.empty()) {
    c_.run("COMMIT");
    return 0;
  }
  auto const these = " WHERE seq IN (" + numbers + ")";
  c_.run("UPDATE " + p_.table() +
         " SET locked_by = 'me', locked_at = utc_timestamp(6), lease_until = utc_timestamp(6) + INTERVAL 30 SECOND" +
         these);
  c_.run("COMMIT");
  c_.run((erase_ ? "DELETE FROM " + p_.table()
                 : "UPDATE " + p_.table() +
                       " SET status = 1, done_at = utc_timestamp(6), locked_by = NULL, locked_at = NULL, lease_until = "
                       "NULL") +
         these + " AND locked_by = 'me'");
  return payloads.size();
}

void fill(place const& p, int count, std::string const& payload) {
  client const c;
  auto const text = c.quoted(payload);
  for (int from = 0; from < count; from += 5000) {
    std::string sql = event_columns(p);
    for (int i = from; i < std::min(count, from + 5000); ++i) {
      if (i > from) sql += ',';
      sql += event_row("'0000000000000000-" + std::to_string(i) + "'", text);
    }
    c.run(sql);
  }
  c.run("ANALYZE TABLE " + p.table());
}

}  // namespace bench::my

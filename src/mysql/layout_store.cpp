#include "mysql/layout_store.hpp"

#include <map>
#include <outbox/error.hpp>

#include "core/base/log_book.hpp"
#include "core/base/pool.hpp"
#include "mysql/connector.hpp"
#include "mysql/dispatch_lock.hpp"
#include "mysql/driver.hpp"
#include "mysql/migrate.hpp"
#include "mysql/own_connection.hpp"
#include "mysql/reach.hpp"
#include "mysql/server.hpp"
#include "sql/layout_store.hpp"

namespace outbox::inline v0::mysql {
namespace {

struct column_type {
  std::string type;       ///< "datetime", …
  std::string charset;    ///< Empty for a column that is not text.
  std::string collation;  ///< The same.
};

std::map<std::string, column_type> types_of(driver& d, std::string_view database, std::string_view table) {
  std::map<std::string, column_type> types;
  d.execute(
      "SELECT column_name, data_type, coalesce(character_set_name, ''), coalesce(collation_name, '') FROM "
      "information_schema.columns WHERE table_schema = ?1 AND table_name = ?2",
      {database, table}, [&](sql::row const& r) {
        types.emplace(r.text(0), column_type{std::string{r.text(1)}, std::string{r.text(2)}, std::string{r.text(3)}});
        return true;
      });
  return types;
}

// What the columns mean. DATETIME holds UTC; the server converts TIMESTAMP to and from the time zone of the session.
struct shape {
  bool timestamp = false;
  column_type id;
};

shape shape_of(driver& d, table_layout const& l, std::string const& database, std::string const& table) {
  auto const types = types_of(d, database, table);
  if (types.empty()) throw error{errc::store_failure, "there is no table " + database + "." + table, "42S02"};
  auto const type = [&](std::string const& column) {
    auto const at = types.find(column);
    if (at == types.end()) {
      throw error{errc::store_failure, "table " + database + "." + table + " has no column '" + column + "'", "42S22"};
    }
    return at->second;
  };
  auto const created = type(l.created_at);
  if (!l.done_at.empty() && type(l.done_at).type != created.type) {
    throw error::about(errc::invalid_option, "layout.done_at",
                       "must have the type of layout.created_at, " + created.type);
  }
  return {created.type == "timestamp", type(l.id)};
}

sql::layout_forms forms(shape const& s) {
  auto const as_it_is = [](std::string const& x) { return x; };
  sql::layout_forms::form to_session = as_it_is;
  sql::layout_forms::form to_utc = as_it_is;
  if (s.timestamp) {
    to_session = [](std::string const& x) { return "convert_tz(" + x + ", '+00:00', @@session.time_zone)"; };
    to_utc = [](std::string const& x) { return "convert_tz(" + x + ", @@session.time_zone, '+00:00')"; };
  }
  // In the collation of the column, so that its index is used.
  auto const in_its_charset =
      s.id.charset.empty() ? std::string{} : " CHARACTER SET " + s.id.charset + " COLLATE " + s.id.collation;
  return {.kind = "mysql",
          .begin = "START TRANSACTION",
          .quote = '`',
          .integer = as_it_is,
          .bytes = [](std::string const& c) { return "octet_length(" + c + ")"; },
          .text = as_it_is,
          .id = as_it_is,
          .ids =
              [in_its_charset](std::string const& p) {
                return "(SELECT j.id FROM JSON_TABLE(" + p + ", '$[*]' COLUMNS (id varchar(255)" + in_its_charset +
                       " PATH '$')) j)";
              },
          .aggregate = as_it_is,
          .from_now = to_session,
          .at = to_session,
          .time = to_utc,
          .sortable = as_it_is,
          .compared = to_session,
          .finish = as_it_is};
}

class mysql_layout_store final : public sql::layout_store {
 public:
  mysql_layout_store(connector how, options const& o, table_layout const& l, table_identity to, shape const& s,
                     std::string lock)
      : layout_store{l, forms(s), l.table},
        connector_{std::move(how)},
        timeout_{o.timeout},
        identity_{std::move(to)},
        events_{sql::quoted_table(l, '`'), "`" + l.id + "`", "''"},
        lock_name_{std::move(lock)},
        pool_{[this] { return std::make_unique<own_connection>(connector_.open(timeout_)); }, o.connections, timeout_} {
    check_shape();
  }

  instant now() override {
    instant at{};
    with_reader([&](sql::connection& c) { at = c.ask<instant>("SELECT utc_timestamp(6)").value_or(instant{}); });
    return at;
  }
  spi::subscription on_wait(std::function<void(std::chrono::nanoseconds)> callback) override {
    return pool_.on_wait(std::move(callback));
  }

 protected:
  void with_writer(work const& f) override {
    pool_.with([&](own_connection& c) { f(c.statements); });
  }
  void with_reader(work const& f) override { with_writer(f); }
  void with_caller(transaction_ref tx, work const& f) override {
    if (tx.kind() != "mysql") {
      throw error{errc::wrong_transaction, "a store on MariaDB or MySQL needs a transaction on one"};
    }
    bool const joined = tx.run<sql::connection>([&](sql::connection& on) {
      auto* const c = dynamic_cast<caller_connection*>(&on);
      if (c == nullptr) {
        throw error{errc::wrong_transaction, "the transaction is not one that stores on MariaDB and MySQL can join"};
      }
      c->limit_packets(check_reaches(*c, identity_));
      c->writes_to(events_, false);
      f(*c);
    });
    if (!joined) throw error{errc::wrong_transaction, "the transaction gives its store nothing to work on"};
  }
  void send_insert(sql::connection& c, std::string const& sql, std::span<sql::value const> values,
                   std::size_t /*rows*/) override {
    auto& caller = static_cast<caller_connection&>(c);
    auto t = caller.line().text();
    t.statement(sql, values);
    check_size(t, caller.packet());
    caller.insert(t);
  }
  // The leases are in memory, so the session of the lock runs no statement for them.
  std::unique_ptr<spi::dispatch_lock> try_lock(std::string_view incarnation) override {
    return try_named_lock(connector_, timeout_, lock_name_, incarnation, {});
  }

 private:
  connector const connector_;
  milliseconds const timeout_;
  table_identity identity_;
  event_table const events_;
  std::string const lock_name_;
  core::pool<own_connection> pool_;
};

}  // namespace

std::shared_ptr<store> open_layout(std::string const& url, options o) {
  sql::check_options_of_layout(*o.layout, o.table, o.done_rows);
  check_options(o);
  connector how{url, o.connect};
  if (o.read_only) how.only_read();
  auto c = how.open(o.timeout);
  auto const s = look_at_server(c.get());
  if (s.clustered) {
    throw error{
        errc::unsupported,
        "a table that has a layout needs a dispatch lock, and locks by name hold on one server of a cluster only"};
  }
  auto l = *o.layout;
  auto const dot = l.table.find('.');
  if (dot == std::string::npos) l.table = resolve_database(c.get(), o) + "." + l.table;
  auto const at = l.table.find('.');
  auto const database = l.table.substr(0, at);
  auto const table = l.table.substr(at + 1);
  o.log = core::limited(std::move(o.log), "the store of " + l.table, {{"table", l.table}});
  driver d{c.get()};
  auto const columns = shape_of(d, l, database, table);
  table_identity to{table, database, d.ask<std::string>(server_identity).value_or(""), true};
  auto lock = lock_name(d, "dispatch", to.id + "/" + l.table);
  return std::make_shared<mysql_layout_store>(std::move(how), o, l, std::move(to), columns, std::move(lock));
}

}  // namespace outbox::inline v0::mysql

#include "postgres/layout_store.hpp"

#include <map>
#include <outbox/error.hpp>

#include "core/base/log_book.hpp"
#include "core/base/pool.hpp"
#include "postgres/connector.hpp"
#include "postgres/dispatch_lock.hpp"
#include "postgres/driver.hpp"
#include "postgres/migrate.hpp"
#include "postgres/own_connection.hpp"
#include "postgres/reach.hpp"
#include "sql/layout_store.hpp"

namespace outbox::inline v0::postgres {
namespace {

using form = sql::layout_forms::form;

form behind(std::string suffix) {
  return [suffix = std::move(suffix)](std::string const& x) { return x + suffix; };
}

// The types of the table's columns.
std::map<std::string, std::string> types_of(driver& d, std::string_view table) {
  std::map<std::string, std::string> types;
  d.execute(
      "SELECT a.attname::text, format_type(a.atttypid, NULL) FROM pg_attribute a WHERE a.attrelid = to_regclass($1) "
      "AND "
      "a.attnum > 0 AND NOT a.attisdropped",
      {table}, [&](sql::row const& r) {
        types.emplace(r.text(0), r.text(1));
        return true;
      });
  return types;
}

// An instant without a time zone is UTC.
sql::layout_forms forms(table_layout const& l, bool zoned) {
  std::string const utc = zoned ? "" : " AT TIME ZONE 'UTC'";
  std::string const id_type = l.ids == id_kind::uuid ? "::uuid" : "::text";
  auto const instant_of = [utc](std::string const& p) { return "(" + p + "::timestamptz" + utc + ")"; };
  return {
      .kind = "postgres",
      .begin = "BEGIN ISOLATION LEVEL READ COMMITTED",
      .partial = false,
      .integer = behind("::bigint"),
      .bytes = [](std::string const& c) { return "octet_length(" + c + "::text)"; },
      .text = behind("::text"),
      .id = behind(id_type),
      .ids = [id_type](
                 std::string const& p) { return "(SELECT json_array_elements_text(" + p + "::json)" + id_type + ")"; },
      .aggregate = behind(l.aggregate_ids == id_kind::uuid ? "::uuid" : "::text"),
      .from_now =
          [utc](std::string const& p) {
            return "((statement_timestamp() + " + p + "::bigint * interval '1 microsecond')" + utc + ")";
          },
      .at = instant_of,
      .time = [utc](std::string const& c) { return "(" + c + utc + ")"; },
      .sortable = behind(""),
      .compared = instant_of,
      .finish = [](std::string const& text) { return numbered(text); }};
}

// Database and table by their numbers, and the cluster that these belong to: copies are told apart.
std::string identity_sql(std::string const& table) {
  return "SELECT (SELECT system_identifier FROM pg_control_system()) || '/' || d.oid || '/' || to_regclass('" + table +
         "')::oid FROM pg_database d WHERE d.datname = current_database()";
}

class postgres_layout_store final : public sql::layout_store {
 public:
  postgres_layout_store(connector how, options const& o, table_layout l, table_identity to, bool zoned, bool pooled)
      : layout_store{l, forms(l, zoned), l.table},
        connector_{std::move(how)},
        timeout_{o.timeout},
        identity_{std::move(to)},
        exists_{numbered("SELECT t.\"" + l.id + "\"::text, u.token FROM " + identity_.table +
                         " t JOIN unnest(?1::text[], ?2::text[]) u(id, token) ON t.\"" + l.id + "\" = u.id" +
                         (l.ids == id_kind::uuid ? "::uuid" : ""))},
        pooled_{pooled},
        log_{std::make_shared<log_function const>(o.log)},
        pool_{[this] { return connect_own(connector_, timeout_); }, o.connections, timeout_} {
    check_shape();
  }

  store_capabilities capabilities() const noexcept override {
    auto can = layout_store::capabilities();
    if (pooled_) {
      can.dispatch_lock = lock_kind::none;
      can.no_lock_reason = pooler_reason;
    }
    return can;
  }

  instant now() override {
    instant at{};
    with_reader([&](sql::connection& c) { at = c.ask<instant>("SELECT clock_timestamp()").value_or(instant{}); });
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
    if (tx.kind() != "postgres") {
      throw error{errc::wrong_transaction, "a PostgreSQL store needs a PostgreSQL transaction"};
    }
    bool const joined = tx.run<sql::connection>([&](sql::connection& on) {
      auto* const c = dynamic_cast<caller_connection*>(&on);
      if (c == nullptr) {
        throw error{errc::wrong_transaction, "the transaction is not one that PostgreSQL stores can join"};
      }
      bool const may_look = check_reaches(*c, identity_);
      c->writes_to({identity_.table, may_look ? std::string_view{exists_} : std::string_view{}, log_});
      f(*c);
    });
    if (!joined) throw error{errc::wrong_transaction, "the transaction gives its store nothing to work on"};
  }
  void send_insert(sql::connection& c, std::string const& sql, std::span<sql::value const> values,
                   std::size_t rows) override {
    std::vector<parameter> const parameters{values.begin(), values.end()};
    static_cast<caller_connection&>(c).insert(sql, parameters, rows);
  }
  // The leases are in memory, so the session of the lock runs no statement for them.
  std::unique_ptr<spi::dispatch_lock> try_lock(std::string_view incarnation) override {
    return try_advisory_lock(connector_, timeout_, identity_.id, incarnation, {}).lock;
  }

 private:
  connector const connector_;
  milliseconds const timeout_;
  table_identity identity_;
  std::string exists_;
  bool const pooled_;
  std::shared_ptr<log_function const> log_;  ///< Shared with transactions that wrote to the store.
  core::pool<own_connection> pool_;
};

// True if the instants of the table have a time zone.
bool has_zone(driver& d, table_layout const& l, std::string const& table) {
  auto const types = types_of(d, table);
  if (types.empty()) throw error{errc::store_failure, "there is no table " + table, "42P01"};
  auto const type = [&](std::string const& column) {
    auto const at = types.find(column);
    if (at == types.end())
      throw error{errc::store_failure, "table " + table + " has no column '" + column + "'", "42703"};
    return at->second;
  };
  auto const created = type(l.created_at);
  if (!l.done_at.empty() && type(l.done_at) != created) {
    throw error::about(errc::invalid_option, "layout.done_at", "must have the type of layout.created_at, " + created);
  }
  if (l.ids == id_kind::text && type(l.id) == "uuid") {
    throw error::about(errc::invalid_option, "layout.ids", "must be uuid: the column has that type");
  }
  return created == "timestamp with time zone";
}

}  // namespace

std::shared_ptr<store> open_layout(std::string const& connection, options o) {
  sql::check_options_of_layout(*o.layout, o.table, o.done_rows);
  if (o.notify) throw error::about(errc::invalid_option, "notify", "must be false on a table that has a layout");
  if (o.ordered) throw error::about(errc::invalid_option, "ordered", "must be false on a table that has a layout");
  check_options(o);
  connector how{connection, o.connect};
  if (o.read_only) how.only_read();
  auto const c = how.open(o.timeout);
  bool const pooled = behind_pooler(c.get(), o.timeout);
  auto l = *o.layout;
  if (l.table.find('.') == std::string::npos) l.table = resolve_schema(c.get(), o) + "." + l.table;
  auto const table = sql::quoted_table(l, '"');
  o.log = core::limited(std::move(o.log), "the store of " + l.table, {{"table", l.table}});
  driver d{c.get(), prepared::once, o.timeout};
  bool const zoned = has_zone(d, l, table);
  auto const ask = identity_sql(table);
  table_identity to{table, {}, d.ask<std::string>(ask).value_or(""), ask};
  return std::make_shared<postgres_layout_store>(std::move(how), o, l, std::move(to), zoned, pooled);
}

}  // namespace outbox::inline v0::postgres

#include "postgres/migrate.hpp"

#include <algorithm>
#include <map>
#include <outbox/error.hpp>

#include "postgres/connector.hpp"
#include "postgres/driver.hpp"
#include "postgres/own_connection.hpp"
#include "postgres/upgrade.hpp"
#include "sql/layout_store.hpp"
#include "sql/schema.hpp"
#include "sql/table_name.hpp"

namespace outbox::inline v0::postgres {
namespace {

using sql::with_table;
using column_types = std::map<std::string, std::string, std::less<>>;  ///< Name and type.

column_types columns_of(driver& d, std::string const& table, std::string const& schema) {
  column_types found;
  d.execute(
      "SELECT column_name::text, data_type::text FROM information_schema.columns WHERE table_schema = $1 AND "
      "table_name = $2",
      {std::string_view{schema}, std::string_view{table}}, [&](sql::row const& r) {
        found.emplace(r.text(0), r.text(1));
        return true;
      });
  return found;
}

bool exists(driver& d, std::string const& name) {
  return d.ask<std::string>("SELECT to_regclass($1)::oid::text", {std::string_view{name}}).has_value();
}

// 0 if the table does not have this library's schema.
int version_of(driver& d, std::string const& table, std::string const& schema) {
  if (!exists(d, with_table("outbox_meta", table, schema))) return 0;
  return sql::read_schema_version(d, {.table = table, .schema = schema});
}

// Every statement finds its row by the id, so ids must be unique.
void refuse_doubles(driver& d, std::string const& table, std::string const& schema) {
  auto const on = with_table("outbox_event", table, schema);
  auto const unique = d.any(
      "SELECT 'unique' FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = "
      "i.indkey[0] WHERE i.indrelid = to_regclass($1) AND a.attname = 'event_id' AND i.indisunique "
      "AND i.indisvalid AND i.indnkeyatts = 1 AND i.indpred IS NULL",
      {std::string_view{on}});
  if (unique) return;
  sql::refuse("table '" + table +
              "' cannot be adopted: its event_id is not unique; add a primary key or a unique index");
}

// Columns of other programs stay, but a row must be insertable without them.
void refuse_foreign_columns(driver& d, std::string const& table, std::string const& schema, column_types const& have) {
  std::vector<std::string> missing;
  for (auto const* const name : {"event_id", "event_type", "payload", "status", "available_at", "created_at"}) {
    if (!have.contains(name)) missing.emplace_back(name);
  }
  if (auto const id = have.find("event_id");
      id != have.end() && id->second != "character varying" && id->second != "text") {
    sql::refuse("table '" + table + "' cannot be adopted: its event_id is of type " + id->second + ", not varchar");
  }
  if (!missing.empty()) {
    sql::refuse("there is a table '" + table + "' that is not an outbox table: it has no column " +
                sql::listed(missing));
  }
  refuse_doubles(d, table, schema);
  std::vector<std::string> needed;
  d.execute(
      "SELECT column_name::text FROM information_schema.columns WHERE table_schema = $1 AND table_name = $2 AND "
      "is_nullable = 'NO' AND column_default IS NULL AND is_identity = 'NO'",
      {std::string_view{schema}, std::string_view{table}}, [&](sql::row const& r) {
        if (!sql::is_adoptable(r.text(0))) needed.emplace_back(r.text(0));
        return true;
      });
  if (!needed.empty()) {
    sql::refuse("table '" + table +
                "' cannot be adopted: it has columns without a default that this library would not fill (" +
                sql::listed(needed) + "); use a table of another name, or give them one");
  }
}

// The columns that a table made by the plain DDL lacks, taken from the text of the schema.
std::string added_columns(column_types const& have) {
  std::string text;
  static constexpr std::string_view begin = "CREATE TABLE outbox_event (";
  auto rest = schema_sql.substr(schema_sql.find(begin) + begin.size());
  rest = rest.substr(0, rest.find("\n);"));
  while (!rest.empty()) {
    auto const end = std::min(rest.find('\n'), rest.size());
    auto line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    line = line.substr(0, line.find("--"));
    auto const first = line.find_first_not_of(' ');
    if (first == std::string_view::npos) continue;
    line.remove_prefix(first);
    line = line.substr(0, line.find_last_not_of(" ,") + 1);
    if (have.contains(line.substr(0, line.find(' ')))) continue;
    text += (text.empty() ? "ADD COLUMN " : ", ADD COLUMN ") + std::string{line};
  }
  return text;
}

std::string changed_columns(column_types const& have, jsonb what, migration& report) {
  std::string text;
  auto const add = [&](std::string const& change) { text += (text.empty() ? "" : ", ") + change; };
  for (auto const* const name : {"available_at", "created_at", "done_at", "locked_at"}) {
    auto const c = have.find(name);
    if (c == have.end() || c->second != "timestamp without time zone") continue;
    add("ALTER COLUMN " + std::string{name} + " TYPE timestamptz USING " + name + " AT TIME ZONE 'UTC'");
    report.warnings.push_back("column " + std::string{name} + " had no time zone: its values are taken for UTC");
  }
  for (auto const* const name : {"payload", "headers"}) {
    auto const c = have.find(name);
    if (c == have.end() || c->second == "json") continue;
    if (c->second == "jsonb" && what == jsonb::keep) {
      report.warnings.push_back("column " + std::string{name} +
                                " stays jsonb: what is written comes back with other spacing and order");
      continue;
    }
    add("ALTER COLUMN " + std::string{name} + " TYPE json USING nullif(btrim(" + name + "::text), '')::json");
  }
  for (auto const* const name : {"status", "attempts"}) {
    if (have.contains(name)) add("ALTER COLUMN " + std::string{name} + " SET DEFAULT 0");
  }
  return text;
}

// One change of the schema. If it fails, the error says which; if the role may not make it, also what it needs.
struct change {
  PGconn* c;
  std::string doing;
  std::string needs;

  void run(std::string const& sql) const {
    try {
      postgres::run(c, sql, doing);
    } catch (error const& e) {
      if (e.sqlstate() != "42501") throw;
      throw error{e.code(),
                  std::string{e.what()} + "; " + needs +
                      ", or another role must call outbox::postgres::migrate() and this one open with .migrate = false",
                  std::string{e.sqlstate()}};
    }
  }
};

// For a new table. DROP INDEX must name the schema, which the text does not.
void add_version_2(change const& c, std::string const& table, std::string const& schema) {
  c.run(with_table(schema_2_sql.substr(0, schema_2_sql.find("DROP INDEX")), table, schema));
  c.run("DROP INDEX " + quoted_index(schema, table + "_due"));
}

// Numbers the rows that are there by age. The server numbers those that follow.
void number_rows(change const& c, std::string const& table, std::string const& schema) {
  auto const run_on = [&](std::string_view sql) { c.run(with_table(sql, table, schema)); };
  run_on(
      "UPDATE outbox_event SET seq = n.seq FROM (SELECT event_id AS id, row_number() OVER (ORDER BY created_at, "
      "event_id) "
      "AS seq FROM outbox_event) n WHERE event_id = n.id");
  run_on(
      "ALTER TABLE outbox_event ALTER COLUMN seq SET NOT NULL, ALTER COLUMN seq ADD GENERATED BY DEFAULT AS IDENTITY");
  run_on(
      "SELECT setval(pg_get_serial_sequence('outbox_event', 'seq'), (SELECT coalesce(max(seq), 0) + 1 FROM "
      "outbox_event), "
      "false)");
}

// Rows keep their order as seq. Rows that another program has locked may be in its hands: they stay locked, for as long
// as a lease.
void adopt(PGconn* conn, options const& o, std::string const& schema, column_types const& have, migration& report) {
  auto const t = [&](std::string_view sql) { return with_table(sql, o.table, schema); };
  change const c{conn, "cannot adopt table '" + o.table + "' in schema '" + schema + "'",
                 "the role must own the table"};
  c.run(t("LOCK TABLE outbox_event IN ACCESS EXCLUSIVE MODE"));
  auto added = added_columns(have);
  // Identity would number rows as they lie in the table. They are numbered by age, below.
  auto const identity = added.find("seq ");
  if (identity != std::string::npos) {
    auto const end = std::min(added.find(", ADD", identity), added.size());
    added.replace(identity, end - identity, "seq bigint");
  }
  auto const changed = changed_columns(have, o.adopt_jsonb, report);
  c.run(t("ALTER TABLE outbox_event " + added + (added.empty() || changed.empty() ? "" : ", ") + changed));
  // Columns that were just added have a default, which is wrong for old rows.
  std::string known =
      "locked_by = CASE WHEN status IN (0, 2) AND locked_at IS NOT NULL THEN locked_by END, locked_at = CASE WHEN "
      "status IN (0, 2) THEN locked_at END, lease_until = NULL, done_at = CASE WHEN status IN (1, 3) THEN "
      "coalesce(done_at, created_at) END";
  if (!have.contains("inserted_at")) known += ", inserted_at = created_at";
  if (!have.contains("written_by")) known += ", written_by = NULL";
  c.run(t("UPDATE outbox_event SET " + known));
  if (!have.contains("seq")) number_rows(c, o.table, schema);
  auto const rest = schema_sql.substr(schema_sql.find("\n);") + 3);
  c.run(t(rest));
  add_version_2(c, o.table, schema);
}

// Writers wait while it is made, so only if it does not exist.
void add_order_index(PGconn* c, driver& d, options const& o, std::string const& schema, migration& report) {
  if (auto const valid = index_is_valid(d, o.table, schema, order_index)) {
    if (*valid) return;
    report.warnings.push_back("index " + o.table +
                              "_in_order is not valid: CREATE INDEX CONCURRENTLY is still at it, or has failed; if it "
                              "has, drop the index and make it again");
    return;
  }
  change const add{c, "cannot add index " + o.table + "_in_order in schema '" + schema + "'",
                   "the role must own the table"};
  add.run(with_table(ordered_sql, o.table, schema));
  if (report.change == migration::kind::nothing) report.change = migration::kind::indexed;
}

}  // namespace

std::optional<bool> index_is_valid(sql::connection& c, std::string const& table, std::string const& schema,
                                   std::string_view suffix) {
  auto const name = table + std::string{suffix};
  auto const on = with_table("outbox_event", table, schema);
  return c.ask<bool>(
      "SELECT i.indisvalid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE i.indrelid = to_regclass($1) "
      "AND c.relname = $2",
      {std::string_view{on}, std::string_view{name}});
}

std::string_view missing_key_index(sql::connection& c, std::string const& table, std::string const& schema) {
  for (auto const suffix : key_indexes) {
    if (index_is_valid(c, table, schema, suffix) != true) return suffix;
  }
  return {};
}

std::string table_id_sql(std::string const& meta) {
  return "SELECT value || '/' || (SELECT oid FROM pg_database WHERE datname = current_database()) || '/' || tableoid "
         "FROM " +
         meta + " WHERE name = 'table_id'";
}

std::string_view older_table_id(std::string_view table_id) noexcept { return table_id.substr(0, table_id.rfind('/')); }

void check_options(options const& o) {
  sql::check_table_name(o.table);
  if (!o.schema.empty()) sql::check_table_name(o.schema, "schema");
  auto const range = [](char const* field, auto value, auto least, auto most, char const* unit) {
    if (value >= least && value <= most) return;
    throw error::about(errc::invalid_option, field,
                       "is " + std::to_string(value) + unit + ", allowed are " + std::to_string(least) + " to " +
                           std::to_string(most) + unit);
  };
  range("connections", o.connections, std::size_t{1}, std::size_t{100}, "");
  range("timeout", o.timeout.count(), milliseconds::rep{100}, milliseconds::rep{600'000}, " ms");
}

std::string resolve_schema(PGconn* c, options const& o) {
  driver d{c, prepared::once, o.timeout};
  if (o.schema.empty()) {
    auto const current = d.ask<std::string>("SELECT current_schema()::text");
    if (!current)
      throw error::about(errc::invalid_option, "schema", "is not set, and no schema of the search path exists");
    return *current;
  }
  if (!d.any("SELECT 1 FROM pg_namespace WHERE nspname = $1", {std::string_view{o.schema}})) {
    throw error::about(errc::invalid_option, "schema", "'" + o.schema + "' does not exist");
  }
  return o.schema;
}

migration migrate_connection(PGconn* c, options const& o, std::string const& schema) {
  constexpr int oldest = 130'000;
  if (PQserverVersion(c) < oldest) {
    sql::refuse("this library needs PostgreSQL 13 or later; the server is " +
                std::to_string(PQserverVersion(c) / 10'000));
  }
  driver d{c, prepared::once};
  migration report;
  run(c, "BEGIN ISOLATION LEVEL READ COMMITTED");
  try {
    auto const lock = "outbox migrate " + schema + "." + o.table;
    d.execute("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", {std::string_view{lock}});
    auto const version = version_of(d, o.table, schema);
    sql::refuse_newer_schema(d, {.table = o.table, .schema = schema}, version);
    if (version == 0) {
      if (auto const have = columns_of(d, o.table, schema); have.empty()) {
        change const create{c, "cannot create table '" + o.table + "' in schema '" + schema + "'",
                            "the role needs CREATE on the schema"};
        create.run(with_table(schema_sql, o.table, schema));
        add_version_2(create, o.table, schema);
        report.change = migration::kind::created;
      } else {
        refuse_foreign_columns(d, o.table, schema, have);
        adopt(c, o, schema, have, report);
        report.change = migration::kind::adopted;
      }
    }
    if (o.ordered) add_order_index(c, d, o, schema, report);
    run(c, "COMMIT");
    if (version == 1) {
      if (behind_pooler(c, o.timeout)) {
        sql::refuse("table '" + o.table + "' in schema '" + schema +
                    "' has schema version 1, and a pooler stands before the server: call outbox::postgres::migrate() "
                    "on a direct connection, because the upgrade needs one session");
      }
      upgrade(c, o, schema);
      report.change = migration::kind::upgraded;
    }
    if (version == 1 || version == sql::schema_version) drop_old_index(c, o, schema, report);
    if (o.keyed && add_key_indexes(c, o, schema) && report.change == migration::kind::nothing) {
      report.change = migration::kind::indexed;
    }
    return report;
  } catch (...) {
    result_handle const undone{PQexec(c, "ROLLBACK")};
    throw;
  }
}

std::string check_schema(PGconn* c, std::string const& table, std::string const& schema) {
  driver d{c, prepared::once};
  auto const version = version_of(d, table, schema);
  sql::refuse_newer_schema(d, {.table = table, .schema = schema}, version);
  sql::refuse_older_schema(version, "'" + table + "' in schema '" + schema + "'", "outbox::postgres::migrate()");
  if (!exists(d, with_table("outbox_event", table, schema))) {
    sql::refuse("table '" + table + "' in schema '" + schema + "' is gone; its companions are there");
  }
  auto id = d.ask<std::string>(table_id_sql(with_table("outbox_meta", table, schema)));
  if (!id) sql::refuse("the companion of table '" + table + "' has no table_id: it was changed by hand");
  return *id;
}

schema_state schema_of(std::string const& connection, options const& o) {
  check_options(o);
  auto const c = connector{connection, o.connect}.open(o.timeout);
  auto const schema = resolve_schema(c.get(), o);
  driver d{c.get(), prepared::once, o.timeout};
  auto state = sql::state_of(version_of(d, o.table, schema), exists(d, with_table("outbox_event", o.table, schema)));
  if (state.found == schema_state::kind::none) state.sql = with_table(schema_sql, o.table, schema);
  if (state.sql.empty() && state.found != schema_state::kind::older) return state;
  state.sql += with_table(schema_2_sql.substr(0, schema_2_sql.find("DROP INDEX")), o.table, schema);
  state.sql += "DROP INDEX IF EXISTS " + quoted_index(schema, o.table + "_due") + ";\n";
  return state;
}

migration migrate(std::string const& connection, options const& o) {
  if (o.layout) sql::refuse_to_migrate(*o.layout);
  check_options(o);
  auto const c = connector{connection, o.connect}.open(o.timeout);
  return migrate_connection(c.get(), o, resolve_schema(c.get(), o));
}

}  // namespace outbox::inline v0::postgres

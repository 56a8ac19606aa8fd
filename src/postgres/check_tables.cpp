// Whether the tables are as this library creates them.
#include <charconv>

#include "postgres/checks.hpp"
#include "sql/findings.hpp"

namespace outbox::inline v0::postgres {
namespace {

using sql::column_shape;

// As the server describes what schema/postgres creates. A test compares them with a new table.
std::vector<column_shape> event_columns() {
  return {{"event_id", "character varying(36)", true, ""},
          {"event_type", "character varying(128)", true, ""},
          {"aggregate_type", "character varying(64)", false, ""},
          {"aggregate_id", "character varying(128)", false, ""},
          {"tenant_id", "character varying(64)", false, ""},
          {"payload", "json", true, ""},
          {"headers", "json", false, ""},
          {"status", "smallint", true, "0"},
          {"attempts", "integer", true, "0"},
          {"available_at", "timestamp with time zone", true, ""},
          {"created_at", "timestamp with time zone", true, ""},
          {"done_at", "timestamp with time zone", false, ""},
          {"last_error", "text", false, ""},
          {"locked_by", "character varying(128)", false, ""},
          {"locked_at", "timestamp with time zone", false, ""},
          {"lease_until", "timestamp with time zone", false, ""},
          {"crashes", "integer", true, "0"},
          {"written_by", "xid8", false, "pg_current_xact_id()"},
          {"seq", "bigint", true, "", true},
          {"inserted_at", "timestamp with time zone", false, "clock_timestamp()"},
          {"ordering_key", "character varying(128)", false, ""},
          {"progress", "text", false, ""},
          {"content_type", "character varying(128)", false, ""},
          {"payload_bytes", "bytea", false, ""},
          {"blocked", "boolean", false, "false"}};
}

std::vector<column_shape> node_columns() {
  return {{"incarnation", "character varying(128)", true, ""},
          {"name", "character varying(128)", true, ""},
          {"version", "character varying(32)", true, ""},
          {"mode", "character varying(16)", true, ""},
          {"lease_ms", "bigint", true, ""},
          {"held", "bigint", true, ""},
          {"lease_until", "timestamp with time zone", true, ""},
          {"started_at", "timestamp with time zone", false, ""},
          {"active", "boolean", true, "false"},
          {"reason", "text", true, "''::text"},
          {"lock_key", "text", true, "''::text"},
          {"done", "bigint", true, "0"},
          {"failed", "bigint", true, "0"},
          {"dead", "bigint", true, "0"},
          {"erased", "bigint", true, "0"},
          {"routes", "text", true, "'[]'::text"}};
}

std::vector<column_shape> audit_columns() {
  return {{"id", "bigint", true, "", true},
          {"at", "timestamp with time zone", true, ""},
          {"who", "character varying(128)", true, ""},
          {"verb", "character varying(32)", true, ""},
          {"filter", "text", true, ""},
          {"reason", "text", true, ""},
          {"matched", "bigint", true, ""},
          {"changed", "bigint", false, ""},
          {"ended_at", "timestamp with time zone", false, ""}};
}

std::vector<column_shape> meta_columns() {
  return {{"name", "character varying(64)", true, ""}, {"value", "text", true, ""}};
}

std::vector<column_shape> columns_of(driver& d, std::string const& table) {
  std::vector<column_shape> all;
  d.execute(
      "SELECT a.attname::text, format_type(a.atttypid, a.atttypmod), a.attnotnull::int::bigint, "
      "coalesce(pg_get_expr(x.adbin, x.adrelid), ''), (a.attidentity <> '' OR a.attgenerated <> '')::int::bigint FROM "
      "pg_attribute a LEFT JOIN pg_attrdef x ON x.adrelid = a.attrelid AND x.adnum = a.attnum WHERE a.attrelid = "
      "to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum",
      {std::string_view{table}}, [&](sql::row const& r) {
        all.push_back({std::string{r.text(0)}, std::string{r.text(1)}, r.integer(2) != 0, std::string{r.text(3)},
                       r.integer(4) != 0});
        return true;
      });
  return all;
}

constexpr std::string_view varying = "character varying";

// The longest text that a column of this type takes; 0 for a type that is not text.
int width_of(std::string_view type) {
  constexpr int unlimited = 1 << 30;
  if (type == "text" || type == varying) return unlimited;
  if (!type.starts_with(varying)) return 0;
  int width = 0;
  type.remove_prefix(std::min(varying.size() + 1, type.size()));
  std::from_chars(type.data(), type.data() + type.size(), width);
  return width;
}

bool holds(std::string const& found, std::string const& wanted) {
  if (found == wanted) return true;
  if (int const width = width_of(wanted); width > 0) return width_of(found) >= width;
  if (wanted == "smallint") return found == "integer" || found == "bigint";
  return wanted == "integer" && found == "bigint";
}

std::string retype(std::string const& table, column_shape const& wanted) {
  auto const& name = wanted.name;
  bool const instant = wanted.type == "timestamp with time zone";
  return "ALTER TABLE " + table + " ALTER COLUMN " + name + " TYPE " + wanted.type + " USING " + name +
         (instant ? " AT TIME ZONE 'UTC'" : "::text::" + wanted.type) + ";";
}

std::string add(std::string const& table, column_shape const& wanted) {
  return "ALTER TABLE " + table + " ADD COLUMN " + wanted.name + " " + wanted.type +
         (wanted.supplied ? " GENERATED BY DEFAULT AS IDENTITY" : "") +
         (wanted.standard.empty() ? "" : " DEFAULT " + wanted.standard) + ";";
}

std::string set_default(std::string const& table, column_shape const& wanted) {
  return "ALTER TABLE " + table + " ALTER COLUMN " + wanted.name + " SET DEFAULT " + wanted.standard + ";";
}

std::string drop_required(std::string const& table, column_shape const& found) {
  return "ALTER TABLE " + table + " ALTER COLUMN \"" + found.name + "\" DROP NOT NULL;";
}

}  // namespace

void check_tables(checked const& on) {
  sql::check_version(on.d, {.table = on.table, .schema = on.schema}, on.found);
  std::vector<sql::table_shape> tables;
  auto const look = [&](std::string_view name, std::vector<column_shape> expected) {
    auto const full = on.named(name);
    tables.push_back({full, columns_of(on.d, full), std::move(expected)});
  };
  look("outbox_event", event_columns());
  look("outbox_node", node_columns());
  look("outbox_meta", meta_columns());
  look("outbox_audit", audit_columns());
  sql::check_columns(tables, {add, retype, set_default, drop_required, holds}, on.found);
}

}  // namespace outbox::inline v0::postgres

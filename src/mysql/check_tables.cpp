// Whether the tables are as this library creates them.
#include <algorithm>
#include <array>
#include <charconv>

#include "mysql/checks.hpp"
#include "sql/findings.hpp"

namespace outbox::inline v0::mysql {
namespace {

using spi::check;
using sql::column_shape;

// As a server describes what schema/mysql creates, without the widths of numbers. A test compares them with a new
// table.
std::vector<column_shape> event_columns() {
  return {{"seq", "bigint", true, "", true},
          {"event_id", "varchar(36)", true, ""},
          {"event_type", "varchar(128)", true, ""},
          {"aggregate_type", "varchar(64)", false, ""},
          {"aggregate_id", "varchar(128)", false, ""},
          {"tenant_id", "varchar(64)", false, ""},
          {"payload", "longtext", true, ""},
          {"headers", "longtext", false, ""},
          {"status", "tinyint", true, "0"},
          {"attempts", "int", true, "0"},
          {"available_at", "datetime(6)", true, ""},
          {"created_at", "datetime(6)", true, ""},
          {"done_at", "datetime(6)", false, ""},
          {"last_error", "text", false, ""},
          {"locked_by", "varchar(128)", false, ""},
          {"locked_at", "datetime(6)", false, ""},
          {"lease_until", "datetime(6)", false, ""},
          {"crashes", "int", true, "0"},
          {"inserted_at", "datetime(6)", false, "utc_timestamp(6)"},
          {"ordering_key", "varchar(128)", false, ""},
          {"progress", "longtext", false, ""},
          {"content_type", "varchar(128)", false, ""},
          {"payload_bytes", "longblob", false, ""},
          {"blocked", "tinyint", false, "0"},
          {"due_at", "datetime(6)", false, "", true},
          {"ended_at", "datetime(6)", false, "", true}};
}

std::vector<column_shape> node_columns() {
  return {{"incarnation", "varchar(128)", true, ""},
          {"name", "varchar(128)", true, ""},
          {"version", "varchar(32)", true, ""},
          {"mode", "varchar(16)", true, ""},
          {"lease_ms", "bigint", true, ""},
          {"held", "bigint", true, ""},
          {"lease_until", "datetime(6)", true, ""},
          {"started_at", "datetime(6)", true, ""},
          {"active", "tinyint", true, "0"},
          {"reason", "text", true, ""},
          {"lock_key", "text", true, ""},
          {"done", "bigint", true, "0"},
          {"failed", "bigint", true, "0"},
          {"dead", "bigint", true, "0"},
          {"erased", "bigint", true, "0"},
          {"routes", "longtext", true, ""}};
}

std::vector<column_shape> audit_columns() {
  return {{"id", "bigint", true, "", true},  {"at", "datetime(6)", true, ""},  {"who", "varchar(128)", true, ""},
          {"verb", "varchar(32)", true, ""}, {"filter", "text", true, ""},     {"reason", "text", true, ""},
          {"matched", "bigint", true, ""},   {"changed", "bigint", false, ""}, {"ended_at", "datetime(6)", false, ""}};
}

std::vector<column_shape> meta_columns() {
  return {{"name", "varchar(64)", true, ""}, {"value", "longtext", true, ""}};
}

constexpr std::array<std::string_view, 5> integers{"tinyint", "smallint", "mediumint", "int", "bigint"};

// The width of a number says how it is shown, and only some servers tell it.
std::string without_width(std::string_view type) {
  auto const name = type.substr(0, type.find_first_of("( "));
  bool const number = std::ranges::find(integers, name) != integers.end();
  return std::string{number ? name : type};
}

std::vector<column_shape> columns_of(checked const& on, std::string const& table) {
  std::vector<column_shape> all;
  on.d.execute(
      "SELECT column_name, column_type, is_nullable = 'NO', coalesce(column_default, ''), extra, "
      "coalesce(collation_name, "
      "'') FROM information_schema.columns WHERE table_schema = ?1 AND table_name = ?2 ORDER BY ordinal_position",
      {std::string_view{on.database}, std::string_view{table}}, [&](sql::row const& r) {
        column_shape c{.name = std::string{r.text(0)}, .type = without_width(r.text(1))};
        c.required = r.integer(2) != 0;
        if (r.text(3) != "NULL") c.standard = r.text(3);
        auto const extra = r.text(4);
        c.supplied = extra.find("auto_increment") != std::string_view::npos ||
                     extra.find("STORED") != std::string_view::npos || extra.find("VIRTUAL") != std::string_view::npos;
        if (auto const collation = r.text(5); !collation.empty() && collation != on.server.collation) {
          c.type += " COLLATE " + std::string{collation};
        }
        all.push_back(std::move(c));
        return true;
      });
  return all;
}

int width_of(std::string_view type) {
  constexpr int unlimited = 1 << 30;
  if (type == "text" || type == "mediumtext" || type == "longtext") return unlimited;
  constexpr std::string_view varchar = "varchar(";
  int width = 0;
  if (!type.starts_with(varchar)) return 0;
  auto const [end, code] = std::from_chars(type.data() + varchar.size(), type.data() + type.size(), width);
  return std::string_view(end, type.data() + type.size()) == ")" ? width : 0;
}

bool holds(std::string const& found, std::string const& wanted) {
  if (found == wanted) return true;
  auto const rank = [](std::string const& type) { return std::ranges::find(integers, type) - integers.begin(); };
  constexpr auto none = static_cast<std::ptrdiff_t>(integers.size());
  if (rank(wanted) != none) return rank(found) != none && rank(found) >= rank(wanted);
  if (wanted.starts_with("varchar")) return width_of(found) >= width_of(wanted);
  return wanted == "text" && (found == "mediumtext" || found == "longtext");
}

std::string definition(column_shape const& c) {
  return c.name + " " + c.type + (c.required ? " NOT NULL" : "") +
         (c.standard.empty() ? "" : " DEFAULT (" + c.standard + ")") + ";";
}

std::string add(std::string const& table, column_shape const& wanted) {
  if (wanted.supplied) return "See schema/mysql/0002.sql for the definition of " + wanted.name + " in " + table + ".";
  return "ALTER TABLE " + table + " ADD COLUMN " + definition(wanted);
}

std::string modify(std::string const& table, column_shape const& wanted) {
  return "ALTER TABLE " + table + " MODIFY COLUMN " + definition(wanted);
}

std::string drop_required(std::string const& table, column_shape const& found) {
  return "ALTER TABLE " + table + " MODIFY COLUMN `" + found.name + "` " + found.type + " NULL;";
}

void check_engine(checked const& on) {
  check const here{on.found, "table_engine", "Other engines than InnoDB have no transactions, so events get lost."};
  std::string text, fix;
  for (auto const* const name : {"outbox_event", "outbox_node", "outbox_meta", "outbox_audit"}) {
    auto const table = on.plain(name);
    auto const engine = on.d.ask<std::string>(
        "SELECT engine FROM information_schema.tables WHERE table_schema = ?1 AND table_name = ?2",
        {std::string_view{on.database}, std::string_view{table}});
    if (!engine || *engine == "InnoDB") continue;
    text += (text.empty() ? "" : ", ") + table + " has " + *engine;
    fix += (fix.empty() ? "" : "\n") + ("ALTER TABLE " + on.named(name) + " ENGINE = InnoDB;");
  }
  if (text.empty()) return here.passed("The tables have the engine InnoDB.");
  here.problem("Tables with another engine than InnoDB: " + text + ".", fix);
}

}  // namespace

void check_tables(checked const& on) {
  sql::check_version(on.d, {.table = on.table, .schema = on.database, .quote = '`'}, on.found);
  std::vector<sql::table_shape> tables;
  auto const look = [&](std::string_view name, std::vector<column_shape> expected) {
    tables.push_back({on.named(name), columns_of(on, on.plain(name)), std::move(expected)});
  };
  look("outbox_event", event_columns());
  look("outbox_node", node_columns());
  look("outbox_meta", meta_columns());
  look("outbox_audit", audit_columns());
  sql::check_columns(tables, {add, modify, modify, drop_required, holds}, on.found);
  check_engine(on);
}

}  // namespace outbox::inline v0::mysql

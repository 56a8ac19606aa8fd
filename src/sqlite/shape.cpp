#include "sqlite/shape.hpp"

#include <algorithm>
#include <cctype>

#include "sql/table_name.hpp"
#include "sqlite/migrate.hpp"

namespace outbox::inline v0::sqlite {
namespace {

std::vector<sql::column_shape> column_shapes_of(driver& d, std::string const& table) {
  std::vector<sql::column_shape> all;
  d.execute("SELECT name, type, \"notnull\", dflt_value, pk FROM pragma_table_info(?1)", {std::string_view{table}},
            [&](sql::row const& r) {
              all.push_back({.name = std::string{r.text(0)},
                             .type = std::string{r.text(1)},
                             .required = r.integer(2) != 0,
                             .standard = std::string{r.text(3)},
                             .supplied = r.integer(4) != 0});
              return true;
            });
  return all;
}

std::vector<index_shape> indexes_of(driver& d, std::string const& table) {
  std::vector<index_shape> all;
  d.execute(
      "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND tbl_name = ?1 COLLATE NOCASE AND sql IS NOT NULL "
      "ORDER BY name",
      {std::string_view{table}}, [&](sql::row const& r) {
        all.push_back({std::string{r.text(0)}, std::string{r.text(1)}});
        return true;
      });
  return all;
}

bool same_name(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

// The rules of SQLite: the type of a column is a hint, and only these kinds differ.
char kind_of(std::string const& type) {
  std::string upper{type};
  std::ranges::transform(upper, upper.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  auto const has = [&](std::string_view part) { return upper.find(part) != std::string::npos; };
  if (has("INT")) return 'i';
  if (has("CHAR") || has("CLOB") || has("TEXT")) return 't';
  if (upper.empty() || has("BLOB")) return 'b';
  return has("REAL") || has("FLOA") || has("DOUB") ? 'r' : 'n';
}

std::string rebuild(std::string const& table) {
  return "ALTER TABLE " + table + " RENAME TO " + table + "_old; -- then outbox migrate, and copy the rows";
}

}  // namespace

shape shape_of(driver& d, std::string const& table) {
  sqlite3* raw = nullptr;
  int const code = sqlite3_open_v2(":memory:", &raw, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr);
  handle const fresh{raw};
  if (code != SQLITE_OK) throw error_of(raw, code, "cannot open a database in memory");
  run(fresh.get(), sql::with_table(schema_sql, table));
  run(fresh.get(), sql::with_table(schema_2_sql, table));
  auto const clock = machine_clock();
  driver wanted{fresh.get(), *clock, prepared::once};
  shape s;
  auto const prefix = table == "outbox_event" ? std::string{"outbox"} : table;
  for (auto const& name : {table, prefix + "_node", prefix + "_meta", prefix + "_audit"}) {
    s.tables.push_back({name, column_shapes_of(d, name), column_shapes_of(wanted, name)});
  }
  s.expected = indexes_of(wanted, table);
  auto const have = indexes_of(d, table);
  for (auto const& e : s.expected) {
    auto const at = std::ranges::find_if(have, [&](index_shape const& i) { return same_name(i.name, e.name); });
    s.found.push_back(at == have.end() ? index_shape{e.name, {}} : *at);
  }
  return s;
}

sql::column_changes column_changes() noexcept {
  using sql::column_shape;
  return {
      .add =
          [](std::string const& table, column_shape const& wanted) {
            return "ALTER TABLE " + table + " ADD COLUMN " + wanted.name + " " + wanted.type +
                   (wanted.required ? " NOT NULL" : "") +
                   (wanted.standard.empty() ? "" : " DEFAULT " + wanted.standard) + ";";
          },
      .retype = [](std::string const& table, column_shape const&) { return rebuild(table); },
      .set_default = [](std::string const& table, column_shape const&) { return rebuild(table); },
      .drop_required = [](std::string const& table, column_shape const&) { return rebuild(table); },
      .holds = [](std::string const& found, std::string const& wanted) { return kind_of(found) == kind_of(wanted); }};
}

}  // namespace outbox::inline v0::sqlite

#include "sqlite/migrate.hpp"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <outbox/error.hpp>
#include <vector>

#include "sql/layout_store.hpp"
#include "sql/schema.hpp"
#include "sql/table_name.hpp"
#include "sqlite/driver.hpp"

namespace outbox::inline v0::sqlite {
namespace {

using sql::with_table;

std::vector<std::string> columns_of(driver& d, std::string const& table) {
  std::vector<std::string> names;
  d.execute("SELECT name FROM pragma_table_info(?1)", {std::string_view{table}}, [&](sql::row const& r) {
    names.emplace_back(r.text(0));
    return true;
  });
  return names;
}

// 0 if the table does not have this library's schema.
int version_of(driver& d, std::string const& table) {
  if (columns_of(d, table == "outbox_event" ? "outbox_meta" : table + "_meta").empty()) return 0;
  return sql::read_schema_version(d, {.table = table});
}

bool has_index(sql::connection& c, std::string const& name) {
  return c.any("SELECT 1 FROM sqlite_master WHERE type = 'index' AND name = ?1 COLLATE NOCASE",
               {std::string_view{name}});
}

constexpr std::string_view odd_index = "_odd";

// A claim does not work without it, so `migrate` makes it again if it was dropped.
void add_odd_index(driver& d, std::string const& table) {
  if (has_index(d, table + std::string{odd_index})) return;
  auto const begin = schema_2_sql.find("CREATE INDEX outbox_event" + std::string{odd_index} + " ");
  run(d.raw(), with_table(schema_2_sql.substr(begin, schema_2_sql.find(';', begin) - begin), table));
}

// A node of version 1 that runs beside us. It writes no started_at.
bool version_1_is_live(driver& d, std::string const& table) {
  return d.any(with_table("SELECT 1 FROM outbox_node WHERE started_at IS NULL AND lease_until > ?1", table),
               {sql::from_now{}});
}

// The indexes of version 1 go when no node needs them any more.
void drop_old_indexes(driver& d, std::string const& table) {
  if (!has_index(d, table + "_due") || version_1_is_live(d, table)) return;
  run(d.raw(), with_table("DROP INDEX outbox_event_due; DROP INDEX IF EXISTS outbox_event_foreign", table));
}

// From version 1. Everything but the old indexes, which a node of version 1 may still need.
void upgrade(driver& d, std::string const& table) {
  run(d.raw(), with_table(schema_2_sql.substr(0, schema_2_sql.find("DROP INDEX")), table));
  drop_old_indexes(d, table);
}

// A column that would be lost belongs to another program, which needs it.
void refuse_unknown_columns(std::string const& table, std::vector<std::string> const& have) {
  std::vector<std::string> unknown;
  std::ranges::remove_copy_if(have, std::back_inserter(unknown), sql::is_adoptable);
  if (unknown.empty()) return;
  sql::refuse("table '" + table + "' cannot be adopted: it has columns that this library does not know (" +
              sql::listed(unknown) + "); use a table of another name, or remove them");
}

// Renames the old table, creates the new one, copies the rows in their order and drops the old table. Rows that another
// program has locked may be in its hands: they stay locked, for as long as a lease.
void adopt(sqlite3* db, std::string const& table, std::vector<std::string> const& have) {
  auto const columns = sql::listed(have);
  auto const t = [&](std::string const& sql) { return with_table(sql, table); };
  run(db, t("ALTER TABLE outbox_event RENAME TO outbox_event_adopted"));
  run(db, t(std::string{schema_sql}));
  run(db, t(std::string{schema_2_sql}));
  run(db, t("INSERT INTO outbox_event (" + columns + ") SELECT " + columns +
            " FROM outbox_event_adopted ORDER BY created_at, event_id"));
  // Terminal rows of such a table may lack done_at, from which purge counts.
  run(db, t("UPDATE outbox_event SET done_at = created_at WHERE status IN (1, 3) AND done_at IS NULL"));
  run(db, t("UPDATE outbox_event SET locked_by = NULL, locked_at = NULL WHERE status IN (1, 3) OR locked_at IS NULL"));
  run(db, t("DROP TABLE outbox_event_adopted"));
}

}  // namespace

bool has_key_index(sql::connection& c, std::string const& table) { return has_index(c, table + "_keyed"); }

std::string key_index(std::string const& table) {
  auto const begin = keyed_sql.find("CREATE INDEX");
  return with_table(keyed_sql.substr(begin, keyed_sql.find(';', begin) - begin), table);
}

migration migrate_handle(sqlite3* db, std::string const& table, bool keyed) {
  auto const clock = machine_clock();
  driver d{db, *clock, prepared::once};
  d.execute("BEGIN IMMEDIATE");
  try {
    auto const version = version_of(d, table);
    sql::refuse_newer_schema(d, {.table = table}, version);
    migration result;
    if (version == 0) {
      auto const have = columns_of(d, table);
      if (have.empty()) {
        run(db, with_table(schema_sql, table));
        run(db, with_table(schema_2_sql, table));
        result.change = migration::kind::created;
      } else if (std::ranges::find(have, "event_id") != have.end() &&
                 std::ranges::find(have, "available_at") != have.end()) {
        refuse_unknown_columns(table, have);
        adopt(db, table, have);
        result.change = migration::kind::adopted;
      } else {
        sql::refuse("there is a table '" + table +
                    "' that is not an outbox table: it has no event_id or no available_at");
      }
    }
    if (version == 1) {
      upgrade(d, table);
      result.change = migration::kind::upgraded;
    } else if (version == sql::schema_version) {
      drop_old_indexes(d, table);
    }
    add_odd_index(d, table);
    if (keyed && !has_key_index(d, table)) {
      run(d.raw(), key_index(table));
      if (result.change == migration::kind::nothing) result.change = migration::kind::indexed;
    }
    d.execute("COMMIT");
    return result;
  } catch (...) {
    if (d.in_transaction()) sqlite3_exec(db, "ROLLBACK", nullptr, nullptr, nullptr);
    throw;
  }
}

void check_schema(sqlite3* db, std::string const& table) {
  auto const clock = machine_clock();
  driver d{db, *clock, prepared::once};
  auto const version = version_of(d, table);
  sql::refuse_newer_schema(d, {.table = table}, version);
  sql::refuse_older_schema(version, "'" + table + "'", "outbox::sqlite::migrate()");
  if (auto const index = table + std::string{odd_index}; !has_index(d, index)) {
    sql::refuse("table '" + table + "' has no index '" + index +
                "': call outbox::sqlite::migrate(), or open with .migrate = true");
  }
}

schema_state schema_of(std::string const& path, options const& o) {
  sql::check_table_name(o.table);
  schema_state state = sql::state_of(0, false);
  if (o.connect || std::filesystem::exists(path)) {
    auto const db = open_handle(path, o.connect, o.busy_timeout, o.synchronous, true);
    inside_sqlite const here;
    auto const clock = machine_clock();
    driver d{db.get(), *clock, prepared::once};
    naming_file(path, [&] { state = sql::state_of(version_of(d, o.table), !columns_of(d, o.table).empty()); });
  }
  if (state.found == schema_state::kind::none) state.sql = with_table(schema_sql, o.table);
  if (!state.sql.empty() || state.found == schema_state::kind::older) state.sql += with_table(schema_2_sql, o.table);
  if (!state.sql.empty() && o.keyed) state.sql += with_table(keyed_sql, o.table);
  return state;
}

migration migrate(std::string const& path, options const& o) {
  if (o.layout) sql::refuse_to_migrate(*o.layout);
  sql::check_table_name(o.table);
  patience wait{o.busy_timeout, waiting::in_short_steps};
  auto const db = open_handle(path, o.connect, o.busy_timeout);
  wait.attach(db.get());
  inside_sqlite const here;
  return naming_file(o.connect ? file_name(db.get()) : path,
                     [&] { return migrate_handle(db.get(), o.table, o.keyed); });
}

}  // namespace outbox::inline v0::sqlite

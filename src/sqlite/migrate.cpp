#include "sqlite/migrate.hpp"

#include <algorithm>
#include <outbox/error.hpp>
#include <vector>

#include "sql/table_name.hpp"
#include "sqlite/driver.hpp"

namespace outbox::inline v0::sqlite {
namespace {

using sql::with_table;

// The columns that a table made by the plain outbox DDL has, and nothing of ours.
constexpr std::string_view adoptable_columns =
    "event_id, event_type, aggregate_type, aggregate_id, tenant_id, payload, headers, status, attempts, available_at, "
    "created_at, "
    "done_at, last_error, locked_by, locked_at";

std::vector<std::string> columns_of(driver& d, std::string const& table) {
  std::vector<std::string> names;
  d.execute("SELECT name FROM pragma_table_info(?1)", {std::string_view{table}}, [&](sql::row const& r) {
    names.emplace_back(r.text(0));
    return true;
  });
  return names;
}

// 0: no schema of ours.
int version_of(driver& d, std::string const& table) {
  if (columns_of(d, table == "outbox_event" ? "outbox_meta" : table + "_meta").empty()) return 0;
  int version = 0;
  d.execute(with_table("SELECT value FROM outbox_meta WHERE name = 'schema_version'", table), {},
            [&](sql::row const& r) {
              version = static_cast<int>(r.integer(0));
              return false;
            });
  return version;
}

[[noreturn]] void refuse(std::string const& text) { throw error{errc::store_failure, text}; }

void refuse_newer(int version) {
  if (version <= schema_version) return;
  refuse("the outbox table has schema version " + std::to_string(version) + ", this library knows up to " +
         std::to_string(schema_version) + ": use a newer library");
}

bool has_index(driver& d, std::string const& name) {
  bool found = false;
  d.execute("SELECT 1 FROM sqlite_master WHERE type = 'index' AND name = ?1 COLLATE NOCASE", {std::string_view{name}},
            [&](sql::row const&) { return !(found = true); });
  return found;
}

constexpr std::string_view foreign_index = "_foreign";

// Tables of version 1 that were made before it belonged to the schema lack it.
void add_foreign_index(driver& d, std::string const& table) {
  if (has_index(d, table + std::string{foreign_index})) return;
  auto const begin = schema_sql.find("CREATE INDEX outbox_event" + std::string{foreign_index} + " ");
  run(d.raw(), with_table(schema_sql.substr(begin, schema_sql.find(';', begin) - begin), table));
}

// What we would not carry over we do not touch: another program has put it there and needs it.
void refuse_unknown_columns(std::string const& table, std::vector<std::string> const& have) {
  std::string unknown;
  for (auto const& name : have) {
    auto const at = adoptable_columns.find(name);
    bool const known = at != std::string_view::npos && (at == 0 || adoptable_columns[at - 1] == ' ') &&
                       (at + name.size() == adoptable_columns.size() || adoptable_columns[at + name.size()] == ',');
    if (!known) unknown += (unknown.empty() ? "" : ", ") + name;
  }
  if (!unknown.empty()) {
    refuse("table '" + table + "' cannot be adopted: it has columns that this library does not know (" + unknown +
           "); use a table of another name, or remove them");
  }
}

// The old table is renamed, the new one made, the rows copied in their order, the old one dropped. Another program may
// be at work on what it has locked: that stays locked, for as long as a lease.
void adopt(sqlite3* db, std::string const& table, std::vector<std::string> const& have) {
  std::string columns;
  for (std::size_t at = 0; at < adoptable_columns.size();) {
    auto const end = std::min(adoptable_columns.find(", ", at), adoptable_columns.size());
    std::string const name{adoptable_columns.substr(at, end - at)};
    at = end + 2;
    if (std::ranges::find(have, name) == have.end()) continue;
    columns += (columns.empty() ? "" : ", ") + name;
  }
  auto const t = [&](std::string const& sql) { return with_table(sql, table); };
  run(db, t("ALTER TABLE outbox_event RENAME TO outbox_event_adopted"));
  run(db, t(std::string{schema_sql}));
  run(db, t("INSERT INTO outbox_event (" + columns + ") SELECT " + columns +
            " FROM outbox_event_adopted ORDER BY created_at, event_id"));
  // Terminal rows of such a table may lack their end; purge counts from it.
  run(db, t("UPDATE outbox_event SET done_at = created_at WHERE status IN (1, 3) AND done_at IS NULL"));
  run(db, t("UPDATE outbox_event SET locked_by = NULL, locked_at = NULL WHERE status IN (1, 3) OR locked_at IS NULL"));
  run(db, t("DROP TABLE outbox_event_adopted"));
}

}  // namespace

migration migrate_handle(sqlite3* db, std::string const& table) {
  auto const clock = machine_clock();
  driver d{db, *clock, prepared::once};
  d.execute("BEGIN IMMEDIATE");
  try {
    auto const version = version_of(d, table);
    refuse_newer(version);
    auto result = migration::nothing;
    if (version == 0) {
      auto const have = columns_of(d, table);
      if (have.empty()) {
        run(db, with_table(schema_sql, table));
        result = migration::created;
      } else if (std::ranges::find(have, "event_id") != have.end() &&
                 std::ranges::find(have, "available_at") != have.end()) {
        refuse_unknown_columns(table, have);
        adopt(db, table, have);
        result = migration::adopted;
      } else {
        refuse("there is a table '" + table + "' that is not an outbox table: it has no event_id or no available_at");
      }
    }
    add_foreign_index(d, table);
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
  refuse_newer(version);
  if (version < schema_version) {
    refuse("table '" + table + "' has no outbox schema of version " + std::to_string(schema_version) +
           ": call outbox::sqlite::migrate(), or open with .migrate = true");
  }
  if (auto const index = table + std::string{foreign_index}; !has_index(d, index)) {
    refuse("table '" + table + "' has no index '" + index +
           "': call outbox::sqlite::migrate(), or open with .migrate = true");
  }
}

migration migrate(std::string const& path, options const& o) {
  sql::check_table_name(o.table);
  auto const db = open_file(path, o.busy_timeout);
  return naming_file(path, [&] { return migrate_handle(db.get(), o.table); });
}

}  // namespace outbox::inline v0::sqlite

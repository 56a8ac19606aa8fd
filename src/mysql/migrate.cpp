#include "mysql/migrate.hpp"

#include <outbox/error.hpp>
#include <thread>

#include "mysql/adopt.hpp"
#include "mysql/connector.hpp"
#include "mysql/dispatch_lock.hpp"
#include "sql/layout_store.hpp"
#include "sql/schema.hpp"
#include "sql/table_name.hpp"

namespace outbox::inline v0::mysql {
namespace {

sql::layout layout_of(std::string const& table, std::string const& database) {
  return {.table = table, .schema = database, .quote = '`'};
}

bool exists(sql::connection& c, std::string const& table, std::string const& database) {
  return c.any("SELECT 1 FROM information_schema.tables WHERE table_schema = ?1 AND table_name = ?2",
               {std::string_view{database}, std::string_view{table}});
}

std::string companion(std::string const& table, std::string_view suffix) {
  return (table == "outbox_event" ? "outbox" : table) + std::string{suffix};
}

// 0 if the table does not have this library's schema.
int version_of(driver& d, std::string const& table, std::string const& database) {
  if (!exists(d, companion(table, "_meta"), database)) return 0;
  return sql::read_schema_version(d, layout_of(table, database));
}

// The schema from `from` on, with the names and the collation of this table.
std::string schema_text(std::string_view from, std::string const& table, std::string const& database, server const& s) {
  constexpr std::string_view default_collation = "utf8mb4_nopad_bin";
  std::string text{from};
  for (auto at = text.find(default_collation); at != std::string::npos;
       at = text.find(default_collation, at + s.collation.size())) {
    text.replace(at, default_collation.size(), s.collation);
  }
  return sql::with_table(text, table, database, '`');
}

void run_schema(driver& d, std::string_view from, std::string const& table, std::string const& database,
                server const& s) {
  d.send(sql_text{{}} << schema_text(from.substr(0, from.rfind(';')), table, database, s));
}

// Held until it is given back or the session ends.
class migration_lock {
 public:
  migration_lock(driver& d, std::string const& table, std::string const& database, milliseconds timeout)
      : d_{d}, name_{lock_name(d, "migrate", database + "." + table)} {
    auto const seconds = std::chrono::ceil<std::chrono::seconds>(timeout).count();
    if (!d_.ask<bool>("SELECT get_lock(?1, ?2)", {std::string_view{name_}, std::int64_t{seconds}}).value_or(false)) {
      throw error{errc::unavailable, "another process is changing the schema of table '" + table + "'"};
    }
  }
  migration_lock(migration_lock const&) = delete;
  migration_lock& operator=(migration_lock const&) = delete;
  ~migration_lock() {
    try {
      d_.execute("DO release_lock(?1)", {std::string_view{name_}});
    } catch (error const&) {  // NOLINT(bugprone-empty-catch): the end of the session gives it back
    }
  }

 private:
  driver& d_;
  std::string name_;
};

// If a user may not make the change, the error says what it needs.
template <class F>
void changing(MYSQL* c, std::string const& doing, F&& change) {
  try {
    change();
  } catch (error const& e) {
    auto const number = mysql_errno(c);
    auto const text = doing + ": " + e.what();
    if (number != code::access_denied_to_table && number != code::access_denied_to_database &&
        number != code::access_denied_to_column) {
      throw error{e.code(), text, std::string{e.sqlstate()}};
    }
    throw error{e.code(),
                text +
                    "; the user needs CREATE, ALTER, INDEX, DROP and LOCK TABLES on the database, or another user must "
                    "call outbox::mysql::migrate() and this one open with .migrate = false",
                std::string{e.sqlstate()}};
  }
}

bool has_key_column(driver& d, std::string const& table, std::string const& database) {
  return d.any(
      "SELECT 1 FROM information_schema.columns WHERE table_schema = ?1 AND table_name = ?2 AND column_name = "
      "'key_in_line'",
      {std::string_view{database}, std::string_view{table}});
}

// What is missing of schema/mysql/keyed.sql: the column and the index, or the index. Each is a statement of its own:
// together the server would make writers wait.
std::string_view missing_for_keys(driver& d, std::string const& table, std::string const& database) {
  constexpr std::string_view statement = "ALTER TABLE";
  return keyed_sql.substr(has_key_column(d, table, database) ? keyed_sql.rfind(statement) : keyed_sql.find(statement));
}

// It waits a second at most for transactions that use the table, because every writer waits behind it meanwhile, and
// then tries again a little later.
bool add_keys(MYSQL* c, driver& d, options const& o, std::string const& database, server const& s) {
  constexpr int most_attempts = 60;
  constexpr milliseconds pause_between_attempts{500};
  if (has_key_index(d, o.table, database)) return false;
  changing(c, "cannot add an index to table '" + o.table + "' in database '" + database + "'", [&] {
    d.execute("SET SESSION lock_wait_timeout = 1");
    for (int attempt = 1;; ++attempt) {
      try {
        return run_schema(d, missing_for_keys(d, o.table, database), o.table, database, s);
      } catch (error const&) {
        if (mysql_errno(c) != code::lock_wait_timeout || attempt == most_attempts) throw;
      }
      std::this_thread::sleep_for(pause_between_attempts);
    }
  });
  return true;
}

}  // namespace

bool has_key_index(driver& d, std::string const& table, std::string const& database) {
  auto const name = table + std::string{key_index};
  return d.ask<std::string>(
             "SELECT group_concat(column_name ORDER BY seq_in_index SEPARATOR ', ') FROM information_schema.statistics "
             "WHERE table_schema = ?1 AND table_name = ?2 AND index_name = ?3",
             {std::string_view{database}, std::string_view{table}, std::string_view{name}}) == "key_in_line, seq";
}

std::string key_schema(driver& d, std::string const& table, std::string const& database, server const& s) {
  auto text = schema_text(missing_for_keys(d, table, database), table, database, s);
  return text.substr(0, text.rfind(';') + 1);
}

bool add_key_index(MYSQL* c, options const& o, std::string const& database, server const& s) {
  driver d{c};
  migration_lock const lock{d, o.table, database, o.timeout};
  return add_keys(c, d, o, database, s);
}

void check_options(options const& o) {
  sql::check_table_name(o.table);
  auto const range = [](char const* field, auto value, auto least, auto most, char const* unit) {
    if (value >= least && value <= most) return;
    throw error::about(errc::invalid_option, field,
                       "is " + std::to_string(value) + unit + ", allowed are " + std::to_string(least) + " to " +
                           std::to_string(most) + unit);
  };
  range("connections", o.connections, std::size_t{1}, std::size_t{100}, "");
  range("timeout", o.timeout.count(), milliseconds::rep{100}, milliseconds::rep{600'000}, " ms");
}

std::string resolve_database(MYSQL* c, options const& o) {
  driver d{c};
  if (o.database.empty()) {
    auto current = d.ask<std::string>("SELECT database()");
    if (!current) {
      throw error::about(errc::invalid_option, "database", "is not set, and the connection names none either");
    }
    return *current;
  }
  std::string_view const wanted = o.database;
  auto found =
      d.ask<std::string>("SELECT schema_name FROM information_schema.schemata WHERE schema_name = ?1", {wanted});
  if (!found) throw error::about(errc::invalid_option, "database", "'" + o.database + "' does not exist");
  return *found;
}

migration migrate_connection(MYSQL* c, options const& o, std::string const& database, server const& s) {
  driver d{c};
  migration report;
  migration_lock const lock{d, o.table, database, o.timeout};
  auto const version = version_of(d, o.table, database);
  sql::refuse_newer_schema(d, layout_of(o.table, database), version);
  if (version != 0) {
    if (o.keyed && add_keys(c, d, o, database, s)) report.change = migration::kind::indexed;
    return report;
  }
  auto const where = "table '" + o.table + "' in database '" + database + "'";
  auto const have = columns_of(d, o.table, database);
  if (have.empty()) {
    changing(c, "cannot create " + where, [&] { run_schema(d, schema_sql, o.table, database, s); });
    if (o.keyed) add_keys(c, d, o, database, s);
    report.change = migration::kind::created;
    return report;
  }
  check_adoptable(d, o.table, database, have);
  changing(c, "cannot adopt " + where, [&] {
    adopt(d, o, database, s, have, report);
    run_schema(d, schema_sql.substr(schema_sql.find("CREATE TABLE IF NOT EXISTS outbox_node")), o.table, database, s);
  });
  if (o.keyed) add_keys(c, d, o, database, s);
  report.change = migration::kind::adopted;
  return report;
}

std::string check_schema(MYSQL* c, std::string const& table, std::string const& database) {
  driver d{c};
  auto const version = version_of(d, table, database);
  auto const where = "'" + table + "' in database '" + database + "'";
  sql::refuse_newer_schema(d, layout_of(table, database), version);
  sql::refuse_older_schema(version, where, "outbox::mysql::migrate()");
  if (!exists(d, table, database)) sql::refuse("table " + where + " is gone; its companions are there");
  auto id = d.ask<std::string>(table_id_sql(sql::with_table("outbox_meta", table, database, '`')));
  if (!id) sql::refuse("the companion of table '" + table + "' has no table_id: it was changed by hand");
  return *id;
}

schema_state schema_of(std::string const& url, options const& o) {
  check_options(o);
  auto const c = connector{url, o.connect}.open(o.timeout);
  auto const s = look_at_server(c.get());
  auto const database = resolve_database(c.get(), o);
  driver d{c.get()};
  auto state = sql::state_of(version_of(d, o.table, database), exists(d, o.table, database));
  if (state.found == schema_state::kind::none) state.sql = schema_text(schema_sql, o.table, database, s);
  return state;
}

migration migrate(std::string const& url, options const& o) {
  if (o.layout) sql::refuse_to_migrate(*o.layout);
  check_options(o);
  auto const c = connector{url, o.connect}.open_for_changes(o.timeout);
  return migrate_connection(c.get(), o, resolve_database(c.get(), o), look_at_server(c.get()));
}

}  // namespace outbox::inline v0::mysql

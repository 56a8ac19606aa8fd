#include "postgres/upgrade.hpp"

#include <chrono>
#include <thread>

#include "postgres/driver.hpp"
#include "postgres/migrate.hpp"
#include "postgres/own_connection.hpp"
#include "sql/schema.hpp"
#include "sql/table_name.hpp"

namespace outbox::inline v0::postgres {
namespace {

using sql::with_table;

// How often a program that waits for another one's upgrade looks again.
constexpr std::chrono::milliseconds look_again{20};

constexpr std::string_view no_lock_in_time = "55P03";
constexpr int most_lock_attempts = 60;
constexpr std::chrono::milliseconds pause_between_attempts{500};

// Held for the whole upgrade, which is several transactions. It is asked for and never waited for: a statement that
// waits holds a snapshot, and CREATE INDEX CONCURRENTLY waits for every snapshot.
class upgrade_lock {
 public:
  upgrade_lock(driver& d, std::string const& name) : d_{d}, name_{"outbox upgrade " + name} {
    while (!d_.ask<bool>("SELECT pg_try_advisory_lock(hashtextextended($1, 0))", {std::string_view{name_}})
                .value_or(false)) {
      std::this_thread::sleep_for(look_again);
    }
  }
  upgrade_lock(upgrade_lock const&) = delete;
  upgrade_lock& operator=(upgrade_lock const&) = delete;
  ~upgrade_lock() {
    try {
      d_.execute("SELECT pg_advisory_unlock(hashtextextended($1, 0))", {std::string_view{name_}});
    } catch (error const&) {  // NOLINT(bugprone-empty-catch): the end of the session gives it back
    }
  }

 private:
  driver& d_;
  std::string name_;
};

class upgrade_steps {
 public:
  /// `doing` is for errors: "upgrade", say.
  upgrade_steps(PGconn* c, options const& o, std::string const& schema, std::string doing)
      : c_{c}, o_{o}, schema_{schema}, doing_{std::move(doing)} {}

  // In one transaction. Each statement leaves alone what is there already. It waits a second at most for transactions
  // that use the table, because every writer waits behind it meanwhile, and then tries again a little later.
  void add_columns_and_tables() {
    for (int attempt = 1;; ++attempt) {
      begin();
      run(c_, "SET LOCAL lock_timeout = '1s'");
      try {
        run_text(schema_2_sql.substr(0, index_at));
        return commit();
      } catch (error const& e) {
        if (e.sqlstate() != no_lock_in_time || attempt == most_lock_attempts) throw;
      }
      std::this_thread::sleep_for(pause_between_attempts);
    }
  }

  [[nodiscard]] bool is_empty() { return !d_.any(with_table("SELECT 1 FROM outbox_event LIMIT 1", o_.table, schema_)); }

  void add_index(bool concurrently) {
    constexpr std::string_view create = "CREATE INDEX IF NOT EXISTS";
    add_index("_ready", schema_2_sql.substr(index_at), create, concurrently);
  }

  // Returns false if it is there. Its statement begins `text` with the words `create`.
  bool add_index(std::string_view suffix, std::string_view text, std::string_view create, bool concurrently) {
    auto valid = index_is_valid(d_, o_.table, schema_, suffix);
    if (valid == false) {
      wait_for_others();
      valid = index_is_valid(d_, o_.table, schema_, suffix);
    }
    if (valid == true) return false;
    auto const name = o_.table + std::string{suffix};
    if (valid == false) run_text("DROP INDEX CONCURRENTLY " + quoted_index(schema_, name), false);
    std::string one{text.substr(0, text.find(';'))};
    if (!concurrently && run_without_waiting(one)) return true;
    one.replace(0, create.size(), "CREATE INDEX CONCURRENTLY");
    run_text(one);
    return true;
  }

  void set_version() { run_text("UPDATE outbox_meta SET value = '2' WHERE name = 'schema_version'"); }

 private:
  // The statement, not a comment that mentions it.
  static inline std::size_t const index_at = schema_2_sql.find("\nCREATE INDEX") + 1;

  // An index is not valid while another session makes it, which has this lock meanwhile. Writers do not wait for it.
  void wait_for_others() {
    begin();
    run_text("LOCK TABLE outbox_event IN SHARE UPDATE EXCLUSIVE MODE");
    commit();
  }

  // A table without rows may be in use all the same. Its writers wait behind this statement, so it waits for those that
  // were there before for a second at most. Returns false if that was not enough.
  bool run_without_waiting(std::string const& text) {
    run(c_, "SET lock_timeout = '1s'");
    bool done = false;
    try {
      run_text(text);
      done = true;
    } catch (error const& e) {
      if (e.sqlstate() != no_lock_in_time) throw;
    }
    run(c_, "RESET lock_timeout");
    return done;
  }

  void begin() { run(c_, "BEGIN ISOLATION LEVEL READ COMMITTED"); }
  void commit() { run(c_, "COMMIT"); }
  void run_text(std::string_view text, bool in_table = true) {
    auto const doing = "cannot " + doing_ + " table '" + o_.table + "' in schema '" + schema_ + "'";
    try {
      run(c_, in_table ? with_table(text, o_.table, schema_) : std::string{text}, doing);
    } catch (error const& e) {
      if (PQtransactionStatus(c_) != PQTRANS_IDLE) result_handle const undone{PQexec(c_, "ROLLBACK")};
      if (e.sqlstate() != "42501") throw;
      throw error{e.code(),
                  std::string{e.what()} +
                      "; the role must own the table, or another role must call outbox::postgres::migrate() and this "
                      "one open with .migrate = false",
                  std::string{e.sqlstate()}};
    }
  }

  PGconn* c_;
  options const& o_;
  std::string const& schema_;
  std::string const doing_;
  driver d_{c_, prepared::once};
};

}  // namespace

std::string quoted_index(std::string const& schema, std::string const& index) {
  return "\"" + schema + "\".\"" + index + "\"";
}

void upgrade(PGconn* c, options const& o, std::string const& schema) {
  driver d{c, prepared::once};
  upgrade_lock const lock{d, schema + "." + o.table};
  if (sql::read_schema_version(d, {.table = o.table, .schema = schema}) >= sql::schema_version) return;
  upgrade_steps steps{c, o, schema, "upgrade to schema version 2"};
  run(c, "SET statement_timeout = 0");  // a limit for queries must not end the making of an index again and again
  steps.add_columns_and_tables();
  steps.add_index(/*concurrently=*/!steps.is_empty());
  steps.set_version();
  run(c, "RESET statement_timeout");
}

bool add_key_indexes(PGconn* c, options const& o, std::string const& schema) {
  driver d{c, prepared::once};
  auto const missing = missing_key_index(d, o.table, schema);
  if (missing.empty()) return false;
  if (behind_pooler(c, o.timeout)) {
    sql::refuse("table '" + o.table + "' in schema '" + schema + "' has no index " + o.table + std::string{missing} +
                ", and a pooler stands before the server: call outbox::postgres::migrate() with .keyed = true on a "
                "direct connection, because making the index needs one session");
  }
  upgrade_lock const lock{d, schema + "." + o.table};
  run(c, "SET statement_timeout = 0");
  bool made = false;
  for (auto const suffix : key_indexes) {
    upgrade_steps steps{c, o, schema, "add index " + o.table + std::string{suffix} + " to"};
    constexpr std::string_view create = "CREATE INDEX";
    auto const begin = std::string{create} + " outbox_event" + std::string{suffix} + " ";
    auto const text = keyed_sql.substr(keyed_sql.find(begin));
    if (steps.add_index(suffix, text, create, /*concurrently=*/!steps.is_empty())) made = true;
  }
  run(c, "RESET statement_timeout");
  return made;
}

void drop_old_index(PGconn* c, options const& o, std::string const& schema, migration& report) {
  driver d{c, prepared::once};
  if (!index_is_valid(d, o.table, schema, "_due")) return;
  auto const live = with_table("SELECT 1 FROM outbox_node WHERE started_at IS NULL AND lease_until > clock_timestamp()",
                               o.table, schema);
  if (d.any(live) || behind_pooler(c, o.timeout)) return;
  try {
    run(c, "SET lock_timeout = '2s'");  // it waits for transactions that use the table
    run(c, "DROP INDEX CONCURRENTLY IF EXISTS " + quoted_index(schema, o.table + "_due"), "cannot drop it");
  } catch (error const& e) {
    report.warnings.push_back("no node needs index " + o.table + "_due any more: " + e.what());
  }
  run(c, "RESET lock_timeout");
}

}  // namespace outbox::inline v0::postgres

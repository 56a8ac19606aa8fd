// Whether the server removes old versions of rows, and what keeps it from that.
#include "postgres/checks.hpp"
#include "sql/findings.hpp"

namespace outbox::inline v0::postgres {
namespace {

using spi::check;
using spi::finding_level;
using std::chrono::seconds;

constexpr std::string_view horizon =
    "While it is open, vacuum removes nothing that is younger, claims get slower, and ordered nodes wait.";

void check_autovacuum(checked const& on) {
  check const here{on.found, "autovacuum", "Each event leaves old versions of its row, which only vacuum removes."};
  auto const event = on.named("outbox_event");
  auto const off = on.d.ask<std::string>(
      "SELECT o.option_value FROM pg_class c, pg_options_to_table(c.reloptions) o WHERE c.oid = to_regclass($1) AND "
      "o.option_name = 'autovacuum_enabled'",
      {std::string_view{event}});
  for (std::string const setting : {"autovacuum", "track_counts"}) {
    if (on.d.ask<std::string>("SELECT current_setting($1)", {std::string_view{setting}}) != "off") continue;
    return here.problem("The server has " + setting + " = off.",
                        "ALTER SYSTEM SET " + setting + " = on; SELECT pg_reload_conf();");
  }
  if (off && (*off == "false" || *off == "off" || *off == "0" || *off == "no")) {
    return here.problem("The table has autovacuum_enabled = " + *off + ".",
                        "ALTER TABLE " + event + " RESET (autovacuum_enabled);");
  }
  here.passed("Autovacuum is on for the server and for the table.");
}

void check_dead_versions(checked const& on) {
  check const here{on.found, "dead_versions", "Claims read past the old versions of rows until vacuum removes them."};
  auto const event = on.named("outbox_event");
  std::optional<std::uint64_t> live, dead;
  std::string last;
  on.d.execute(
      "SELECT n_live_tup, n_dead_tup, coalesce(to_char(greatest(last_vacuum, last_autovacuum) AT TIME ZONE 'UTC', "
      "'YYYY-MM-DD HH24:MI'), '') FROM pg_stat_user_tables WHERE relid = to_regclass($1)",
      {std::string_view{event}}, [&](sql::row const& r) {
        live = static_cast<std::uint64_t>(r.integer(0));
        dead = static_cast<std::uint64_t>(r.integer(1));
        last = r.text(2);
        return false;
      });
  if (!live || !dead) return here.skipped("The server has no statistics of the table.", "ANALYZE " + event + ";");
  auto const all = *live + *dead;
  auto const percent = all == 0 ? 0 : *dead * 100 / all;
  auto const level = std::min(on.limits.dead_percent.judge(percent), on.limits.dead_versions.judge(*dead));
  here.says(level,
            "The table has " + std::to_string(*dead) + " dead versions of rows beside " + std::to_string(*live) +
                " live ones (" + std::to_string(percent) + " %); " +
                (last.empty() ? "it was never vacuumed." : "it was last vacuumed at " + last + " UTC."),
            level == finding_level::passed
                ? ""
                : "VACUUM (ANALYZE) " + event + ";\nALTER TABLE " + event +
                      " SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);");
}

void check_transactions(checked const& on) {
  check const here{on.found, "old_transaction", horizon};
  std::string fix, oldest;
  seconds age{0};
  on.d.execute(
      "SELECT pid::text, coalesce(state, ''), coalesce(application_name, ''), extract(epoch FROM clock_timestamp() - "
      "xact_start)::bigint FROM pg_stat_activity WHERE datname = current_database() AND (backend_xid IS NOT NULL OR "
      "backend_xmin IS NOT NULL) AND pid <> pg_backend_pid() AND xact_start IS NOT NULL AND backend_type = 'client "
      "backend' ORDER BY xact_start LIMIT 1",
      {}, [&](sql::row const& r) {
        age = seconds{r.integer(3)};
        oldest = "process " + std::string{r.text(0)} + ", " + std::string{r.text(1)} + ", application '" +
                 std::string{r.text(2)} + "'";
        fix = "SELECT pg_terminate_backend(" + std::string{r.text(0)} + ");";
        return false;
      });
  auto const level = on.limits.transaction_age.judge(age);
  if (level != finding_level::passed) {
    return here.says(level, "The oldest transaction is open for " + sql::duration_text(age) + " (" + oldest + ").",
                     fix);
  }
  auto const hidden = on.d.ask<std::int64_t>(
      "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query = '<insufficient "
      "privilege>'");
  if (hidden.value_or(0) > 0) {
    return here.skipped("This role may not see the transactions of " +
                            sql::counted(static_cast<std::uint64_t>(*hidden), "session") + " of other roles.",
                        "GRANT pg_read_all_stats TO CURRENT_USER; -- as a superuser, with the name of the role");
  }
  here.passed(oldest.empty() ? "No transaction holds back vacuum."
                             : "The oldest transaction is open for " + sql::duration_text(age) + ".");
}

void check_prepared(checked const& on) {
  check const here{on.found, "prepared_transaction", horizon};
  std::string gid;
  seconds age{0};
  on.d.execute(
      "SELECT gid, extract(epoch FROM clock_timestamp() - prepared)::bigint FROM pg_prepared_xacts WHERE database = "
      "current_database() ORDER BY prepared LIMIT 1",
      {}, [&](sql::row const& r) {
        gid = r.text(0);
        age = seconds{r.integer(1)};
        return false;
      });
  if (gid.empty()) return here.passed("No transaction is prepared.");
  auto const level = on.limits.transaction_age.judge(age);
  std::string quoted;
  for (char const c : gid) quoted += c == '\'' ? "''" : std::string{c};
  here.says(level, "The transaction '" + gid + "' is prepared for " + sql::duration_text(age) + ".",
            level == finding_level::passed ? "" : "ROLLBACK PREPARED '" + quoted + "'; -- or COMMIT PREPARED");
}

void check_slots(checked const& on) {
  check const here{on.found, "replication_slot",
                   "The server keeps its log, and with some slots old versions of rows, for a reader that is away."};
  here.attempt([&] {
    std::string text, fix;
    auto level = finding_level::passed;
    on.d.execute(
        "SELECT slot_name::text, (xmin IS NOT NULL)::int::bigint, coalesce(pg_wal_lsn_diff(CASE WHEN "
        "pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END, restart_lsn), 0)::bigint "
        "FROM "
        "pg_replication_slots WHERE NOT active ORDER BY 3 DESC",
        {}, [&](sql::row const& r) {
          auto const bytes = static_cast<std::uint64_t>(std::max<std::int64_t>(r.integer(2), 0));
          bool const holds_rows = r.integer(1) != 0;
          auto const one =
              std::max(on.limits.slot_bytes.judge(bytes), holds_rows ? finding_level::warning : finding_level::passed);
          if (one == finding_level::passed) return true;
          level = std::max(level, one);
          auto const name = std::string{r.text(0)};
          text += (text.empty() ? "" : "; ") + name + " keeps " + sql::size_text(bytes) + " of the log" +
                  (holds_rows ? " and old versions of rows" : "");
          fix += (fix.empty() ? "" : "\n") + ("SELECT pg_drop_replication_slot('" + name + "');");
          return true;
        });
    if (text.empty()) return here.passed("No replication slot without a reader holds much.");
    here.says(level, "Replication slots without a reader: " + text + ".", fix);
  });
}

}  // namespace

void check_vacuum(checked const& on) {
  check_autovacuum(on);
  check_dead_versions(on);
  check_transactions(on);
  check_prepared(on);
  check_slots(on);
}

}  // namespace outbox::inline v0::postgres

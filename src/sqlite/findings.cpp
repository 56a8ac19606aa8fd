#include "sqlite/findings.hpp"

#include <fcntl.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <outbox/spi/check.hpp>
#include <system_error>

#include "sql/findings.hpp"
#include "sqlite/migrate.hpp"
#include "sqlite/shape.hpp"

namespace outbox::inline v0::sqlite {
namespace {

using spi::check;
using spi::finding_level;
using all_findings = std::vector<spi::finding>;
using namespace std::chrono_literals;

// Statements are compared without regard to blanks: a tool may have written the schema with others.
std::string without_blanks(std::string_view sql) {
  std::string text;
  for (char const c : sql) {
    if (std::strchr(" \t\r\n", c) == nullptr) text += c;
  }
  return text;
}

void check_indexes(shape const& s, all_findings& found) {
  check const missing{found, "missing_index", "Without it statements read the whole table, or fail."};
  check const differs{found, "index_definition", "SQLite uses an index only if its definition is to the letter."};
  std::string absent, absent_fix, changed, changed_fix;
  for (std::size_t i = 0; i < s.expected.size(); ++i) {
    auto const& want = s.expected[i];
    auto const& have = s.found[i];
    if (have.sql.empty()) {
      absent += (absent.empty() ? "" : ", ") + want.name;
      absent_fix += (absent_fix.empty() ? "" : "\n") + want.sql + ";";
    } else if (without_blanks(have.sql) != without_blanks(want.sql)) {
      changed += (changed.empty() ? "" : ", ") + have.name;
      changed_fix += (changed_fix.empty() ? "" : "\n") + ("DROP INDEX " + have.name + "; ") + want.sql + ";";
    }
  }
  if (absent.empty()) {
    missing.passed("All " + std::to_string(s.expected.size()) + " indexes of the table are there.");
  } else {
    missing.problem("Missing indexes: " + absent + ".", absent_fix);
  }
  if (changed.empty()) {
    differs.passed("The indexes of the table are defined as this library creates them.");
  } else {
    differs.warning("Indexes with another definition than this library creates: " + changed + ".", changed_fix);
  }
}

void check_shape(driver& d, checked_table const& t, all_findings& found) {
  check const here{found, "schema_columns", "Statements name these columns, and other programs rely on the defaults."};
  here.attempt([&] {
    auto const s = shape_of(d, t.table);
    sql::check_columns(s.tables, column_changes(), found);
    check_indexes(s, found);
  });
}

void check_plan(driver& d, checked_table const& t, all_findings& found) {
  check const here{found, "claim_plan", "A claim that does not use its index reads the whole table."};
  here.attempt([&] {
    auto const index = t.table + "_ready";
    bool used = false;
    std::string plan;
    auto const clock = machine_clock();
    driver once{d.raw(), *clock, prepared::once};  // SQLite does not make the plan of a statement that is kept again
    once.execute("EXPLAIN QUERY PLAN " + t.due, {sql::from_now{}, std::string_view{""}}, [&](sql::row const& r) {
      plan += (plan.empty() ? "" : "; ") + std::string{r.text(3)};
      used = used || r.text(3).find("INDEX " + index) != std::string_view::npos;
      return true;
    });
    if (used) return here.passed("A claim uses the index " + index + ".");
    here.warning("A claim does not use the index " + index + ": " + plan + ".", "REINDEX; ANALYZE;");
  });
}

void check_durability(driver& d, all_findings& found) {
  check const journal{found, "journal_mode", "In other modes than WAL, readers and writers wait for each other."};
  journal.attempt([&] {
    auto const mode = d.ask<std::string>("PRAGMA journal_mode").value_or("");
    if (mode == "wal") return journal.passed("The journal mode is WAL.");
    journal.warning("The journal mode is '" + mode + "'.", "PRAGMA journal_mode = WAL;");
  });
  // The setting belongs to a connection. One that only reads says nothing about those that write.
  if (d.ask<bool>("PRAGMA query_only").value_or(false)) return;
  check const sync{found, "synchronous",
                   "With less than FULL, commits may be gone after a power failure, and events delivered again."};
  sync.attempt([&] {
    constexpr std::string_view names[] = {"OFF", "NORMAL", "FULL", "EXTRA"};
    auto const value = std::min<std::int64_t>(d.ask<std::int64_t>("PRAGMA synchronous").value_or(0), 3);
    auto const text = "The store's connections have synchronous = " + std::string{names[value]} + ".";
    auto const level = value == 0 ? finding_level::warning : value == 1 ? finding_level::note : finding_level::passed;
    sync.says(level, text, value < 2 ? "Open the store with synchronous=full." : "");
  });
}

void check_log(std::string const& path, spi::finding_limits const& limits, all_findings& found) {
  check const here{found, "wal_size",
                   "A connection that reads for long keeps SQLite from reusing the log, and reads get slower."};
  std::error_code failed;
  auto const size = std::filesystem::file_size(path + "-wal", failed);
  if (failed) return here.passed("There is no log file beside the database.");
  auto const level = limits.wal_bytes.judge(size);
  here.says(level, "The log " + path + "-wal has " + sql::size_text(size) + ".",
            level == finding_level::passed
                ? ""
                : "fuser -v '" + path + "'\nsqlite3 '" + path + "' 'PRAGMA wal_checkpoint(TRUNCATE);'");
}

void check_file_system(std::string const& path, all_findings& found) {
  check const here{found, "file_system", "The locks of SQLite do not hold reliably on network file systems."};
  struct ::statfs about {};
  if (::statfs(path.c_str(), &about) != 0) {
    return here.skipped("The file system of " + path +
                        " could not be asked: " + std::generic_category().message(errno) + ".");
  }
  auto const name = network_file_system(static_cast<long>(about.f_type));
  if (name.empty()) return here.passed("The file is on no network file system that is known.");
  here.problem("The file is on " + std::string{name} + ".", "Move " + path + " to a local disk.");
}

void check_rights(std::string const& path, all_findings& found) {
  check const here{found, "privileges", "A node writes to the file, and SQLite makes files beside it."};
  auto const directory = std::filesystem::path{path}.parent_path().string();
  auto const writable = [](std::string const& name) {
    return ::faccessat(AT_FDCWD, name.c_str(), W_OK, AT_EACCESS) == 0;
  };
  std::string missing, fix;
  auto const user = std::to_string(::geteuid());
  if (!writable(path)) {
    missing = "the file " + path;
    fix = "chown " + user + " '" + path + "'";
  }
  if (!writable(directory)) {
    missing += (missing.empty() ? "" : " and ") + ("the directory " + directory);
    fix += (fix.empty() ? "" : "\n") + ("chown " + user + " '" + directory + "'");
  }
  if (missing.empty()) return here.passed("This user may write to the file and to its directory.");
  here.problem("The user with the id " + user + " may not write to " + missing + ".", fix);
}

bool is_keyed(driver& d, checked_table const& t) {
  bool keyed = false;
  d.execute(t.statements.read_settings, {}, [&](sql::row const& r) {
    keyed = keyed || (r.text(0) == "keyed" && r.text(1) == "1");
    return true;
  });
  return keyed;
}

void check_key_index(driver& d, checked_table const& t, all_findings& found) {
  check const here{found, "keyed_index", "Without it, each look at the row before another reads the whole table."};
  here.attempt([&] {
    if (!is_keyed(d, t)) return here.passed("The table keeps no order per key.");
    auto const wanted = key_index(t.table);
    auto const name = t.table + "_keyed";
    auto const have = d.ask<std::string>(
        "SELECT sql FROM sqlite_master WHERE type = 'index' AND name = ?1 COLLATE NOCASE", {std::string_view{name}});
    if (!have) return here.problem("The table keeps an order per key and has no index " + name + ".", wanted + ";");
    if (without_blanks(*have) == without_blanks(wanted)) return here.passed("The table has the index " + name + ".");
    here.warning("The index " + name + " has another definition than this library creates.",
                 "DROP INDEX " + name + "; " + wanted + ";");
  });
}

}  // namespace

std::string_view network_file_system(long type) noexcept {
  switch (static_cast<unsigned long>(type) & 0xFFFFFFFFUL) {
    case 0x6969: return "NFS";
    case 0x517B: return "SMB";
    case 0xFE534D42: return "SMB2";
    case 0xFF534D42: return "CIFS";
    case 0x5346414F: return "AFS";
    case 0x01021997: return "9P";
    default: return {};
  }
}

all_findings findings_of(driver& d, checked_table const& t, spi::finding_limits const& limits) {
  all_findings found;
  sql::check_version(d, {.table = t.table}, found);
  check_shape(d, t, found);
  check_plan(d, t, found);
  check_key_index(d, t, found);
  check_durability(d, found);
  auto const path = file_name(d.raw());
  check_log(path, limits, found);
  check_file_system(path, found);
  check_rights(path, found);
  sql::check_owners(d, {t.statements.owners, t.statements.nodes, t.table}, limits, found);
  return found;
}

}  // namespace outbox::inline v0::sqlite

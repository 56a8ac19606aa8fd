// Whether the indexes of the table are there, valid and used.
#include "postgres/checks.hpp"
#include "postgres/columns.hpp"
#include "postgres/migrate.hpp"
#include "sql/findings.hpp"
#include "sql/table_name.hpp"

namespace outbox::inline v0::postgres {
namespace {

using spi::check;

// Those that the table must have.
std::vector<std::string_view> suffixes(checked const& on) {
  std::vector<std::string_view> all{"_ready", "_ended", "_dead"};
  if (on.d.any("SELECT 1 FROM " + on.named("outbox_meta") + " WHERE name = 'keyed' AND value = '1'")) {
    all.insert(all.end(), std::begin(key_indexes), std::end(key_indexes));
  }
  return all;
}

// The statement of the schema that makes the index, in the form that lets others write meanwhile.
std::string create(checked const& on, std::string_view suffix) {
  auto const name = "outbox_event" + std::string{suffix};
  for (auto const schema : {schema_2_sql, schema_sql, keyed_sql}) {
    for (std::string const begin : {"CREATE INDEX IF NOT EXISTS ", "CREATE INDEX "}) {
      auto const at = schema.find(begin + name + " ");
      if (at == std::string_view::npos) continue;
      auto const rest = schema.substr(at + begin.size());
      return "CREATE INDEX CONCURRENTLY " + on.named(rest.substr(0, rest.find(';'))) + ";";
    }
  }
  return {};
}

std::string drop(checked const& on, std::string const& name) {
  return "DROP INDEX CONCURRENTLY \"" + on.schema + "\".\"" + name + "\";";
}

void add_line(std::string& text, std::string const& line) { text += (text.empty() ? "" : "\n") + line; }

void check_presence(checked const& on) {
  check const missing{on.found, "missing_index", "Without it statements read the whole table."};
  check const invalid{on.found, "invalid_index",
                      "The server keeps an invalid index up to date, and no statement uses it."};
  std::string absent, absent_fix, broken, broken_fix;
  auto const event = on.named("outbox_event");
  for (auto const suffix : suffixes(on)) {
    auto const name = on.table + std::string{suffix};
    auto const valid = index_is_valid(on.d, on.table, on.schema, suffix);
    if (!valid) {
      absent += (absent.empty() ? "" : ", ") + name;
      add_line(absent_fix, create(on, suffix));
    } else if (!*valid) {
      broken += (broken.empty() ? "" : ", ") + name;
      add_line(broken_fix, drop(on, name) + "\n" + create(on, suffix));
    }
  }
  bool const unique = on.d.any(
      "SELECT 1 FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0] WHERE "
      "i.indrelid = to_regclass($1) AND a.attname = 'event_id' AND i.indisunique AND i.indisvalid AND i.indnkeyatts = "
      "1 "
      "AND i.indpred IS NULL",
      {std::string_view{event}});
  if (!unique) {
    absent += (absent.empty() ? "" : ", ") + std::string{"a unique one on event_id"};
    add_line(absent_fix, "CREATE UNIQUE INDEX CONCURRENTLY \"" + on.table + "_id\" ON " + event + " (event_id);");
  }
  if (absent.empty()) {
    missing.passed("The table has every index that this library creates.");
  } else {
    missing.problem("Missing indexes: " + absent + ".", absent_fix);
  }
  if (broken.empty()) return invalid.passed("No index of this library is invalid.");
  invalid.problem("Invalid indexes: " + broken + ".", broken_fix);
}

void check_use(checked const& on) {
  check const here{on.found, "unused_index", "Claims that do not use their index read the whole table."};
  constexpr std::int64_t much = 10'000, few = 10;  // the checks themselves use the index, too
  auto const event = on.named("outbox_event");
  auto const name = on.table + "_ready";
  std::optional<std::int64_t> scans, rows;
  on.d.execute(
      "SELECT i.idx_scan, t.n_tup_ins + t.n_tup_upd FROM pg_stat_user_tables t JOIN pg_stat_user_indexes i USING "
      "(relid) WHERE t.relid = to_regclass($1) AND i.indexrelname = $2",
      {std::string_view{event}, std::string_view{name}}, [&](sql::row const& r) {
        if (!r.null(0)) scans = r.integer(0);
        if (!r.null(1)) rows = r.integer(1);
        return false;
      });
  if (!scans || !rows)
    return here.skipped("The server has no statistics of the index " + name + ".", "ANALYZE " + event + ";");
  auto const text = "The index " + name + " was used " + sql::counted(static_cast<std::uint64_t>(*scans), "time") +
                    " while " + std::to_string(*rows) + " rows were written.";
  if (*scans >= few || *rows < much) return here.passed(text);
  here.warning(text, "EXPLAIN SELECT 1 FROM " + event +
                         " WHERE status IN (0, 2) AND blocked IS NOT TRUE AND greatest(available_at, lease_until) <= "
                         "now() ORDER BY greatest(available_at, lease_until), seq LIMIT 50;");
}

void check_plan(checked const& on) {
  check const here{on.found, "claim_plan", "A claim that does not use its index reads and sorts the whole table."};
  if (!on.d.owns_session()) {
    return here.skipped("A pooler stands before the server, so this session is not planned like that of a claim.",
                        "outbox doctor --db URL-OF-THE-SERVER-ITSELF");
  }
  here.attempt([&] {
    auto look = candidates(on.arrays, {.token = "doctor", .limit = 50}, 51);
    look.sql = "EXPLAIN " + look.sql;
    auto const index = on.table + "_ready";
    bool used = false;
    std::string first;
    auto const answers = on.d.send_or_throw(std::span{&look, 1});
    result_rows{answers.front().get()}.show([&](sql::row const& r) {
      auto const line = r.text(0);
      used = used || line.find("using " + index) != std::string_view::npos ||
             line.find("using \"" + index + "\"") != std::string_view::npos;
      if (line.find("Scan") != std::string_view::npos) first = line.substr(line.find_first_not_of(" ->"));
      return true;
    });
    if (used) return here.passed("A claim uses the index " + index + ".");
    here.warning("A claim does not use the index " + index + ": the plan has " + first + ".",
                 drop(on, index) + "\n" + create(on, "_ready") + "\nANALYZE " + on.named("outbox_event") + ";");
  });
}

}  // namespace

void check_indexes(checked const& on) {
  check_presence(on);
  check_use(on);
  check_plan(on);
}

}  // namespace outbox::inline v0::postgres

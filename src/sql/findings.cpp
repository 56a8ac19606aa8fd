#include "sql/findings.hpp"

#include <algorithm>
#include <optional>
#include <outbox/spi/check.hpp>

#include "sql/schema.hpp"

namespace outbox::inline v0::sql {

using spi::check;
using spi::finding_level;

std::string counted(std::uint64_t n, std::string_view one) {
  return std::to_string(n) + " " + std::string{one} + (n == 1 ? "" : "s");
}

std::string duration_text(std::chrono::milliseconds d) {
  using namespace std::chrono;
  auto const s = duration_cast<seconds>(d).count();
  if (s < 120) return std::to_string(s) + " s";
  if (s < 7200) return std::to_string(s / 60) + " min";
  if (s < 172'800) return std::to_string(s / 3600) + " h";
  return std::to_string(s / 86'400) + " days";
}

std::string size_text(std::uint64_t bytes) {
  constexpr std::string_view units[] = {"bytes", "kB", "MB", "GB", "TB"};
  std::size_t unit = 0;
  auto tenths = bytes * 10;
  while (tenths >= 10'000 && unit + 1 < std::size(units)) {
    tenths /= 1000;
    ++unit;
  }
  auto const fraction = unit > 0 && tenths < 100 ? "." + std::to_string(tenths % 10) : std::string{};
  return std::to_string(tenths / 10) + fraction + " " + std::string{units[unit]};
}

void check_version(connection& c, layout const& table, std::vector<finding>& found) {
  check const here{found, "schema_version", "A library works only on a schema that it knows."};
  here.attempt([&] {
    auto const version = read_schema_version(c, table);
    auto const text = "The table " + table.table + " has schema version " + std::to_string(version);
    auto const wanted = std::to_string(schema_version);
    if (version < schema_version) {
      here.problem(text + ", this library needs " + wanted + ".", "outbox migrate");
    } else if (version > schema_version) {
      here.note(text + ", which is newer than the " + wanted + " of this library and allows it.",
                "Upgrade the nodes that have this library.");
    } else {
      here.passed(text + ".");
    }
  });
}

namespace {

// What differs in one table, as sentences and as the commands that mend it.
class differences {
 public:
  differences(table_shape const& t, column_changes const& change) : t_{t}, change_{change} {
    for (auto const& wanted : t.expected) compare(wanted);
    for (auto const& have : t.found) look_at_foreign(have);
  }

  finding_level level = finding_level::passed;
  std::vector<std::string> texts, fixes;

 private:
  static column_shape const* find(std::vector<column_shape> const& all, std::string const& name) {
    auto const at = std::ranges::find(all, name, &column_shape::name);
    return at == all.end() ? nullptr : &*at;
  }

  void add(finding_level l, std::string const& text, std::string fix) {
    level = std::max(level, l);
    texts.push_back(text);
    fixes.push_back(std::move(fix));
  }

  void compare(column_shape const& wanted) {
    auto const* const have = find(t_.found, wanted.name);
    auto const name = t_.name + "." + wanted.name;
    if (have == nullptr) return add(finding_level::problem, name + " is missing", change_.add(t_.name, wanted));
    if (!change_.holds(have->type, wanted.type)) {
      add(finding_level::warning, name + " is " + have->type + " instead of " + wanted.type,
          change_.retype(t_.name, wanted));
    }
    if (!wanted.standard.empty() && have->standard != wanted.standard) {
      add(finding_level::warning,
          name + " has " + (have->standard.empty() ? "no default" : "the default " + have->standard) + " instead of " +
              wanted.standard,
          change_.set_default(t_.name, wanted));
    }
    if (have->required && !wanted.required && have->standard.empty() && !have->supplied) {
      add(finding_level::problem, name + " must not be NULL, and this library leaves it NULL",
          change_.drop_required(t_.name, *have));
    }
  }

  // A row must be insertable without the columns of other programs.
  void look_at_foreign(column_shape const& have) {
    if (find(t_.expected, have.name) != nullptr || !have.required || !have.standard.empty() || have.supplied) return;
    add(finding_level::problem, t_.name + "." + have.name + " is of another program, must not be NULL, has no default",
        change_.drop_required(t_.name, have));
  }

  table_shape const& t_;
  column_changes const& change_;
};

std::string joined(std::vector<std::string> const& parts, std::string_view between) {
  std::string text;
  for (auto const& p : parts) text += (text.empty() ? "" : std::string{between}) + p;
  return text;
}

}  // namespace

void check_columns(std::vector<table_shape> const& tables, column_changes const& change, std::vector<finding>& found) {
  check const here{found, "schema_columns", "Statements name these columns, and other programs rely on the defaults."};
  auto level = finding_level::passed;
  std::vector<std::string> texts, fixes;
  std::size_t columns = 0;
  for (auto const& t : tables) {
    columns += t.expected.size();
    if (t.found.empty()) {
      level = finding_level::problem;
      texts.push_back("table " + t.name + " is missing");
      fixes.emplace_back("outbox migrate");
      continue;
    }
    differences const d{t, change};
    level = std::max(level, d.level);
    texts.insert(texts.end(), d.texts.begin(), d.texts.end());
    fixes.insert(fixes.end(), d.fixes.begin(), d.fixes.end());
  }
  if (texts.empty()) {
    return here.passed("All " + std::to_string(columns) + " columns of " + counted(tables.size(), "table") +
                       " are as this library creates them.");
  }
  here.says(level, "The tables differ from what this library creates: " + joined(texts, "; ") + ".",
            joined(fixes, "\n"));
}

namespace {

std::uint64_t number(row const& r, int column) { return static_cast<std::uint64_t>(r.integer(column)); }

struct owners {
  std::uint64_t looked = 0, expired = 0, foreign = 0;
  std::optional<instant> first_end, last_lock;
  std::string owner, foreign_owner;
};

owners read_owners(connection& c, std::string const& statement, spi::finding_limits const& limits) {
  owners o;
  c.execute(statement, {static_cast<std::int64_t>(limits.rows), from_now{-limits.expired_lease}}, [&](row const& r) {
    o.looked = number(r, 0);
    o.expired = number(r, 1);
    o.foreign = number(r, 4);
    o.first_end = r.time(2);
    o.owner = r.text(3);
    o.foreign_owner = r.text(5);
    o.last_lock = r.time(6);
    return false;
  });
  return o;
}

}  // namespace

void check_owners(connection& c, owner_statements const& statements, spi::finding_limits const& limits,
                  std::vector<finding>& found) {
  check const leases{found, "expired_leases", "Their events are not delivered until a node claims the rows."};
  check const foreign{found, "foreign_owner",
                      "Two dispatchers on one table deliver events twice or leave each other's rows locked."};
  std::optional<owners> read;
  bool dispatched = false;
  leases.attempt([&] {
    c.execute(statements.nodes, {from_now{}}, [&](row const& r) { return !(dispatched = r.text(3) != "writer_only"); });
    read = read_owners(c, statements.owners, limits);
  });
  if (!read) return foreign.skipped("This could not be asked, because the check before it failed.");
  auto const of = " of " + counted(read->looked, "pending row");
  auto const long_ago = "more than " + duration_text(limits.expired_lease) + " ago";
  if (read->expired == 0) {
    leases.passed("No lease" + of + " ended " + long_ago + ".");
  } else {
    leases.says(dispatched ? finding_level::warning : finding_level::problem,
                "The leases of " + std::to_string(read->expired) + of + " ended " + long_ago + ", one of '" +
                    read->owner + "', and " +
                    (dispatched ? "the live nodes do not claim them." : "no live node dispatches from the table."),
                dispatched ? "outbox status" : "outbox relay --config /etc/outbox/relay.toml");
  }
  if (read->foreign == 0) return foreign.passed("None" + of + " is locked without a lease.");
  foreign.problem("Another program dispatches from this table: '" + read->foreign_owner + "' has locked " +
                      std::to_string(read->foreign) + of + " without a lease.",
                  "SELECT locked_by, count(*), max(locked_at) FROM " + statements.table +
                      " WHERE status IN (0, 2) AND locked_by IS NOT NULL AND lease_until IS NULL GROUP BY locked_by; "
                      "-- then stop that program");
}

std::string owners_text(pending_forms const& f) {
  auto const expired = "o IS NOT NULL AND l IS NOT NULL AND l <= " + f.instant;
  std::string const foreign = "o IS NOT NULL AND l IS NULL";
  return "SELECT count(*), count(CASE WHEN " + expired + " THEN 1 END), min(CASE WHEN " + expired +
         " THEN l END), min(CASE WHEN " + expired + " THEN o END), count(CASE WHEN " + foreign +
         " THEN 1 END), min(CASE WHEN " + foreign + " THEN o END), max(CASE WHEN " + foreign +
         " THEN a END) FROM (SELECT nullif({locked_by}, '') AS o, {lease_until} AS l, {locked_at} AS a FROM " +
         f.pending + " ORDER BY " + f.claimable + " LIMIT " + f.limit + ") x";
}

std::string waiting_types_text(pending_forms const& f) {
  std::string const columns =
      "SELECT {event_type} AS t, coalesce({aggregate_type}, '__GLOBAL__') AS a, {status} AS s FROM ";
  return "SELECT t, a, s, count(*) FROM (SELECT * FROM (" + columns + f.pending + " ORDER BY " + f.claimable +
         " LIMIT " + f.limit + ") p UNION ALL SELECT * FROM (" + columns + f.dead + " LIMIT " + f.limit +
         ") d) x GROUP BY t, a, s ORDER BY t, a";
}

}  // namespace outbox::inline v0::sql

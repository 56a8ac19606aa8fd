// `outbox doctor`: makes every check of a table, its database and its nodes, and says what to do.
#include <algorithm>
#include <memory>

#include "cli/console.hpp"
#include "cli/report.hpp"
#include "cli/shown_text.hpp"
#include "cli/target.hpp"
#include "cli/time_text.hpp"
#include "cli/tool_error.hpp"
#include "doctor_checks.hpp"
#include "verbs/verbs.hpp"

namespace outbox_tool {
namespace {

using nlohmann::ordered_json;
using outbox::spi::finding;
using outbox::spi::finding_level;
using findings = std::vector<finding>;

struct doctor_options {
  target_options table;
  output_options output;
  bool verbose = false, strict = false;
  std::string max_lag = "5min", old_transaction = "5min";
};

struct shape_of_level {
  finding_level level;
  char const* symbol;
  look how;
  char const* one;
  char const* many;
};

// In the order in which they are printed: the worst first.
constexpr shape_of_level levels[] = {{finding_level::problem, "✖", look::bad, "problem", "problems"},
                                     {finding_level::warning, "▲", look::warning, "warning", "warnings"},
                                     {finding_level::skipped, "⊘", look::faint, "skipped", "skipped"},
                                     {finding_level::note, "·", look::normal, "note", "notes"},
                                     {finding_level::passed, "✔", look::good, "passed", "passed"}};

std::size_t count(findings const& all, finding_level l) {
  return static_cast<std::size_t>(std::ranges::count(all, l, &finding::level));
}

std::string summary(console const& to, findings const& all) {
  std::string text;
  for (auto const l : {finding_level::passed, finding_level::problem, finding_level::warning, finding_level::skipped,
                       finding_level::note}) {
    auto const& s = *std::ranges::find(levels, l, &shape_of_level::level);
    auto const n = count(all, l);
    auto const words = std::string{s.symbol} + " " + std::to_string(n) + " " + (n == 1 ? s.one : s.many);
    text += (text.empty() ? "" : "   ") + to.painted(words, n == 0 ? look::faint : s.how);
  }
  return text;
}

// Every line of a fix can be copied: what stands before the first is as wide as what stands before the others.
void print_pretty(console& to, finding const& f, shape_of_level const& s) {
  constexpr std::string_view indent = "     ";
  to.out(to.painted(s.symbol, s.how) + " " + to.painted(f.code, look::bold) + "  " + shown(f.text) + "\n");
  if (f.level == finding_level::passed) return;
  to.out(std::string{indent} + to.painted("why", look::faint) + "  " + shown(f.why) + "\n");
  std::string_view rest = f.fix;
  for (auto const* label = "fix"; !rest.empty(); label = "   ") {
    auto const end = std::min(rest.find('\n'), rest.size());
    to.out(std::string{indent} + to.painted(label, look::faint) + "  " + shown(rest.substr(0, end)) + "\n");
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
}

ordered_json json_of(findings const& all, std::string const& database) {
  ordered_json j{{"database", database}};
  for (auto const& s : levels) j[s.many] = count(all, s.level);
  auto list = ordered_json::array();
  for (auto const& s : levels) {
    for (auto const& f : all) {
      if (f.level != s.level) continue;
      list.push_back({{"level", name(f.level)}, {"code", f.code}, {"text", f.text}, {"why", f.why}, {"fix", f.fix}});
    }
  }
  j["findings"] = std::move(list);
  return j;
}

void print(console& to, findings const& all, std::string const& database, bool verbose) {
  if (to.chosen() == form::json) return to.document(json_of(all, database));
  if (to.chosen() == form::pretty) to.out(summary(to, all) + "   " + to.painted(database, look::faint) + "\n");
  report lines{{{"level", "LEVEL"}, {"code", "CODE"}, {"text", "TEXT"}, {"why", "WHY"}, {"fix", "FIX"}}};
  for (auto const& s : levels) {
    for (auto const& f : all) {
      if (f.level != s.level || (s.level == finding_level::passed && !verbose)) continue;
      if (to.chosen() == form::pretty) {
        print_pretty(to, f, s);
      } else {
        lines.add({text_cell(name(f.level)), text_cell(f.code), text_cell(f.text), text_cell(f.why), text_cell(f.fix)});
      }
    }
  }
  if (!lines.empty()) lines.print(to);
}

// The commands of this tool in a fix, with the options that name the table: they can be copied.
std::string with_table(std::string_view fix, std::string const& options) {
  std::string text;
  while (!fix.empty()) {
    auto const end = std::min(fix.find('\n'), fix.size());
    std::string line{fix.substr(0, end)};
    fix.remove_prefix(std::min(end + 1, fix.size()));
    constexpr std::string_view tool = "outbox ";
    bool const complete = line.find("--db") != std::string::npos || line.find("--config") != std::string::npos;
    if (line.starts_with(tool) && !complete) {
      line.insert(std::min(line.find(' ', tool.size()), line.size()), " " + options);
    }
    text += (text.empty() ? "" : "\n") + line;
  }
  return text;
}

// A database that does not answer, or refuses the user, ends with the status that the other verbs end with.
struct diagnosis {
  findings found;
  int status = exit_good;
};

diagnosis diagnose(target const& from, doctor_limits const& limits) {
  diagnosis d;
  check_config_file(from.config_file(), d.found);
  try {
    auto const s = from.open(access::read);
    check_store(*s, limits, d.found);
  } catch (tool_error const& e) {
    if (e.status() != exit_schema) throw;
    add_schema_problem(e.what(), from.schema().found == outbox::schema_state::kind::newer, d.found);
    d.status = exit_schema;
  } catch (outbox::error const& e) {
    if (e.code() == outbox::errc::invalid_option) throw;
    add_connection_problem(e, d.found);
    d.status = status_of(e);
  }
  for (auto& f : d.found) f.fix = with_table(f.fix, from.options());
  return d;
}

int run(doctor_options const& o) {
  console to{o.output};
  target const from{o.table};
  auto const time = [](char const* option, std::string const& text) {
    if (auto const t = parse_duration(text)) return *t;
    refuse(std::string{option} + " is '" + text + "': write a time, as in 500ms, 30s or 2min");
  };
  doctor_limits limits{.lag = time("--max-lag", o.max_lag)};
  limits.store.transaction_age.warning = time("--old-transaction", o.old_transaction);
  limits.store.transaction_age.problem =
      std::max(limits.store.transaction_age.problem, limits.store.transaction_age.warning);
  auto const d = diagnose(from, limits);
  print(to, d.found, from.shown(), o.verbose);
  to.flush();
  if (d.status != exit_good) return d.status;
  bool const failed = count(d.found, finding_level::problem) > 0;
  return failed || (o.strict && count(d.found, finding_level::warning) > 0) ? exit_failed : exit_good;
}

}  // namespace

void add_doctor(command_tree& tree) {
  auto const o = std::make_shared<doctor_options>();
  auto& verb = tree.add(
      "doctor",
      {.summary = "check a table, its database and its nodes, and say what to do about what is wrong",
       .details =
           "Each finding says what was measured, why it matters and the command or SQL that mends it. A check that "
           "could not be made is skipped, which is not passed: it says what it lacks. Every code is explained in "
           "docs/reference/doctor.md.\n\nIt changes nothing, and reads catalogs, indexes and at most 100,000 rows. "
           "Connect as the user that the nodes have: the rights that are checked are those of this connection.",
       .examples = {{"outbox doctor --db sqlite:shop.db", "what is wrong?"},
                    {"outbox doctor --config /etc/outbox/relay.toml --verbose", "show what passed, too"},
                    {"outbox doctor --strict --json", "for monitoring: the database is in OUTBOX_DB"}},
       .status = "0 no problem; 1 a problem, or with --strict a warning; 4 the database does not answer; 5 no outbox "
                 "table, or another schema; 6 the database refuses the user."},
      [o] { return run(*o); });
  verb.add_flag("-v,--verbose", o->verbose, "show the checks that passed, too");
  verb.add_flag("--strict", o->strict, "warnings count as problems for the exit status");
  verb.add_option("--max-lag", o->max_lag,
                  "an event that waits for longer is a warning, twelve times that a problem (5min)")
      ->type_name("TIME");
  verb.add_option("--old-transaction", o->old_transaction, "a transaction that is open for longer is a warning (5min)")
      ->type_name("TIME");
  o->table.add_to(verb);
  o->output.add_to(verb);
}

}  // namespace outbox_tool

#include "cli/target.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/time_text.hpp"
#include "cli/tool_error.hpp"

namespace outbox_tool {
namespace {

std::string list_of(std::vector<std::string> const& names) {
  std::string text;
  for (auto const& n : names) text += (text.empty() ? "" : ", ") + n;
  return text;
}

std::string problem_of(outbox::schema_state const& s) {
  using kind = outbox::schema_state::kind;
  switch (s.found) {
    case kind::none: return "there is no outbox table";
    case kind::adoptable: return "the table was made by another program";
    case kind::older:
      return "the table has schema version " + std::to_string(s.version) + ", this tool needs " +
             std::to_string(s.wanted);
    case kind::newer:
      return "the table has schema version " + std::to_string(s.version) + ", and this tool knows up to " +
             std::to_string(s.wanted);
    case kind::current: break;
  }
  return {};
}

}  // namespace

void target_options::add_to(CLI::App& verb) {
  verb.add_option("--db", db,
                  "the table's database: sqlite:FILE, postgresql://…, mysql://…, redis://…; or the variable OUTBOX_DB")
      ->type_name("URL")
      ->group("Table");
  verb.add_option("--config", config, "a configuration of the relay instead; or the variable OUTBOX_CONFIG")
      ->type_name("FILE")
      ->group("Table");
  verb.add_option("--table", table, "which table of the configuration, if it has several")
      ->type_name("LABEL")
      ->group("Table");
  verb.add_option("--timeout", timeout, "how long the database may take for an answer (10s)")
      ->type_name("TIME")
      ->group("Table");
}

target::target(target_options const& o) : options_{o} {
  auto const variable = [](char const* name) {
    char const* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nothing changes the environment
    return std::string{value == nullptr ? "" : value};
  };
  auto const time = parse_duration(o.timeout);
  if (!time || time->count() < 100 || *time > std::chrono::minutes{10}) {
    refuse("--timeout is '" + o.timeout + "': write a time from 100ms to 10min");
  }
  timeout_ = *time;
  if (!o.db.empty() && !o.config.empty()) refuse("--db and --config exclude each other");
  if (options_.db.empty() && options_.config.empty()) options_.db = variable("OUTBOX_DB");
  if (options_.db.empty() && options_.config.empty()) options_.config = variable("OUTBOX_CONFIG");
  if (options_.db.empty() && options_.config.empty()) {
    refuse("which table? Name its database with --db or OUTBOX_DB, or a configuration with --config",
           "For example: --db sqlite:shop.db");
  }
  if (!options_.db.empty()) {
    if (!o.table.empty()) refuse("--table names a table of a configuration, and there is none");
    shown_ = outbox::shown_url(options_.db);
    return;
  }
  config_ = outbox::config::read({.file = options_.config});
  auto const labels = config_->tables();
  if (labels.size() > 1 && options_.table.empty()) {
    refuse("the configuration has several tables: choose one with --table", "It has: " + list_of(labels));
  }
  if (labels.size() == 1) options_.table = labels.front();
  if (std::ranges::find(labels, options_.table) == labels.end()) {
    refuse("the configuration has no table '" + options_.table + "'", "It has: " + list_of(labels));
  }
  shown_ = config_->url_of(options_.table);
}

std::string target::options() const {
  if (!config_) return "--db '" + shown_ + "'";
  return "--config " + options_.config + (config_->tables().size() > 1 ? " --table " + options_.table : "");
}

std::shared_ptr<outbox::store> target::try_open(access a) const {
  outbox::open_options const how{
      .read_only = a == access::read, .migrate = false, .log = nullptr, .layout = {}, .read_timeout = timeout_};
  return config_ ? config_->open_table(options_.table, how) : outbox::open_store(options_.db, how);
}

// A store that cannot be opened has many reasons. Only if the schema is at fault is there more to say.
std::shared_ptr<outbox::store> target::open(access a) const {
  try {
    return try_open(a);
  } catch (outbox::error const& e) {
    if (e.code() != outbox::errc::store_failure) throw;
    outbox::schema_state s;
    try {
      s = schema();
    } catch (outbox::error const&) {
      throw e;
    }
    auto const problem = problem_of(s);
    if (problem.empty()) throw;
    bool const newer = s.found == outbox::schema_state::kind::newer;
    throw tool_error{exit_schema, problem + " (" + shown_ + ")",
                     newer ? "Use a newer outbox." : "outbox migrate " + options() + " makes it."};
  }
}

outbox::schema_state target::schema() const {
  return config_ ? config_->schema_of_table(options_.table) : outbox::schema_of(options_.db);
}

outbox::migration target::migrate(bool keyed) const {
  return config_ ? config_->migrate_table(options_.table, keyed) : outbox::migrate_store(options_.db, keyed);
}

}  // namespace outbox_tool

#include "cli/filter_options.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/nearest.hpp"
#include "cli/time_text.hpp"
#include "cli/tool_error.hpp"

namespace outbox_tool {
namespace {

using outbox::event_status;

std::vector<event_status> statuses_of(std::string const& word) {
  if (word == "new") return {event_status::created};
  if (word == "retry") return {event_status::retry};
  if (word == "pending") return {event_status::created, event_status::retry};
  if (word == "done") return {event_status::delivered};
  if (word == "dead") return {event_status::dead};
  auto const like = nearest(word, state_words());
  refuse("--state is '" + word + "'" + (like ? ": did you mean '" + *like + "'?" : ""),
         "The states are new, retry, pending (both), done and dead.");
}

std::chrono::milliseconds duration(char const* option, std::string const& text) {
  if (auto const d = parse_duration(text)) return *d;
  refuse(std::string{option} + " is '" + text + "': write a time, as in 30s, 15min, 2h or 7d");
}

}  // namespace

std::vector<std::string> const& state_words() {
  static std::vector<std::string> const words{"new", "retry", "pending", "done", "dead"};
  return words;
}

void filter_options::add_to(CLI::App& verb, bool with_ids) {
  if (with_ids) verb.add_option("ids", ids, "events by their ids")->type_name("[ID…]");
  verb.add_option("--state", states, "new, retry, pending (both), done or dead; several divided by commas")
      ->delimiter(',')
      ->type_name("STATE")
      ->group("Which events");
  verb.add_option("--type", type, "of this event type")->type_name("TYPE")->group("Which events");
  verb.add_option("--aggregate", aggregate, "of this aggregate type, or of one aggregate: order, order/42")
      ->type_name("TYPE[/ID]")
      ->group("Which events");
  verb.add_option("--tenant", tenant, "of this tenant")->type_name("TENANT")->group("Which events");
  verb.add_option("--key", key, "of this ordering key")->type_name("KEY")->group("Which events");
  verb.add_option("--older-than", older_than, "written at least this long ago: 15min, 2h, 7d")
      ->type_name("TIME")
      ->group("Which events");
  verb.add_option("--younger-than", younger_than, "written less than this long ago")
      ->type_name("TIME")
      ->group("Which events");
}

bool filter_options::empty() const noexcept {
  return ids.empty() && states.empty() && type.empty() && aggregate.empty() && tenant.empty() && key.empty() &&
         older_than.empty() && younger_than.empty();
}

outbox::event_filter filter_options::filter() const {
  outbox::event_filter f{.ids = ids, .event_type = type, .tenant = tenant};
  for (auto const& word : states) {
    for (auto const s : statuses_of(word)) {
      if (std::ranges::find(f.statuses, s) == f.statuses.end()) f.statuses.push_back(s);
    }
  }
  if (!key.empty()) f.key = "=" + key;  // as spi::key_of() writes it
  auto const slash = std::min(aggregate.find('/'), aggregate.size());
  f.aggregate_type = aggregate.substr(0, slash);
  if (slash < aggregate.size()) f.aggregate_id = aggregate.substr(slash + 1);
  if (!older_than.empty()) f.older_than = duration("--older-than", older_than);
  if (!younger_than.empty()) f.younger_than = duration("--younger-than", younger_than);
  return f;
}

std::string filter_options::words() const {
  std::string text;
  auto const add = [&](char const* name, std::string const& value) {
    if (!value.empty()) text += (text.empty() ? "" : " ") + std::string{name} + "=" + value;
  };
  auto const joined = [](std::vector<std::string> const& all) {
    std::string list;
    for (auto const& one : all) list += (list.empty() ? "" : ",") + one;
    return list;
  };
  add("id", joined(ids));
  add("state", joined(states));
  add("type", type);
  add("aggregate", aggregate);
  add("tenant", tenant);
  add("key", key);
  add("older_than", older_than);
  add("younger_than", younger_than);
  return text.empty() ? "everything" : text;
}

}  // namespace outbox_tool

#include <algorithm>
#include <outbox/error.hpp>
#include <outbox/table_layout.hpp>
#include <string_view>
#include <utility>

namespace outbox::inline v0 {
namespace {

constexpr std::size_t longest_name = 63;
constexpr std::size_t longest_word = 50;

bool letter(char c) noexcept { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool digit(char c) noexcept { return c >= '0' && c <= '9'; }

[[noreturn]] void refuse(std::string_view field, std::string const& why) {
  throw error::about(errc::invalid_option, "layout." + std::string{field}, why);
}

void check_length(std::string_view field, std::string_view text, std::size_t most) {
  if (text.size() <= most) return;
  refuse(field, "has " + std::to_string(text.size()) + " characters, the limit is " + std::to_string(most));
}

void check_name(std::string_view field, std::string_view name) {
  if (name.empty()) refuse(field, "must not be empty");
  check_length(field, name, longest_name);
  if (!letter(name.front())) refuse(field, "must begin with a letter or an underscore");
  if (!std::ranges::all_of(name, [](char c) { return letter(c) || digit(c); })) {
    refuse(field, "may have letters, digits and underscores only");
  }
}

void check_word(std::string_view field, std::string_view word) {
  if (word.empty()) refuse(field, "must not be empty");
  check_length(field, word, longest_word);
  if (!std::ranges::all_of(word, [](char c) { return letter(c) || digit(c) || c == '-'; })) {
    refuse(field, "may have letters, digits, hyphens and underscores only");
  }
}

using named = std::pair<std::string_view, std::string const*>;

}  // namespace

void check(table_layout const& l) {
  auto const dot = l.table.find('.');
  if (dot != std::string::npos) check_name("table", std::string_view{l.table}.substr(0, dot));
  check_name("table", std::string_view{l.table}.substr(dot == std::string::npos ? 0 : dot + 1));

  std::vector<std::string_view> columns;
  auto const column = [&](named const& c, bool required) {
    if (!required && c.second->empty()) return;
    check_name(c.first, *c.second);
    if (std::ranges::find(columns, *c.second) != columns.end()) refuse(c.first, "is the name of another column too");
    columns.emplace_back(*c.second);
  };
  for (auto const& c : {named{"id", &l.id},
                        {"event_type", &l.event_type},
                        {"aggregate_type", &l.aggregate_type},
                        {"aggregate_id", &l.aggregate_id},
                        {"payload", &l.payload},
                        {"status", &l.status},
                        {"created_at", &l.created_at}}) {
    column(c, true);
  }
  for (auto const& c : {named{"done_at", &l.done_at},
                        {"error", &l.error},
                        {"tenant", &l.tenant},
                        {"headers", &l.headers},
                        {"attempts", &l.attempts}}) {
    column(c, false);
  }
  check_word("pending", l.pending);
  check_word("done", l.done);
  check_word("dead", l.dead);
  if (l.done == l.pending) refuse("done", "is the word for pending rows too");
  if (l.dead == l.pending || l.dead == l.done) refuse("dead", "is the word for other rows too");
  if (!l.id_in_payload.empty()) check_name("id_in_payload", l.id_in_payload);
  if (l.remembered < 100 || l.remembered > 1'000'000) {
    refuse("remembered", "is " + std::to_string(l.remembered) + ", it must be 100 to 1000000");
  }
}

std::vector<std::string> costs_of(table_layout const& l) {
  std::vector<std::string> all{
      "it has no columns for an owner and a lease: one node dispatches, guarded by the dispatch lock, and multi_node "
      "is "
      "refused",
      "it has no column for a due instant: retries wait in memory, a restart makes them due at once, and events with a "
      "delay are refused",
      "rows are not born with an owner: the poller delivers them, there is no hot path",
      "it has no companion tables: routes cannot be paused, and a node is known in its own process only"};
  if (l.attempts.empty()) all.emplace_back("it has no column for attempts: a restart begins every budget again");
  if (l.headers.empty()) all.emplace_back("it has no column for headers: events with headers are refused");
  if (l.tenant.empty()) all.emplace_back("it has no column for a tenant: events with a tenant are refused");
  if (l.error.empty()) all.emplace_back("it has no column for an error: only the log tells why an event is dead");
  if (l.done_at.empty()) all.emplace_back("it has no column for the end: purge counts from the creation of an event");
  all.emplace_back("payloads are JSON: events with bytes, or with an ordering key, are refused");
  return all;
}

table_layout layouts::polled_outbox() {
  return {.table = "outbox",
          .done_at = "sent_at",
          .error = "error_message",
          .ids = id_kind::uuid,
          .aggregate_ids = id_kind::uuid};
}

}  // namespace outbox::inline v0

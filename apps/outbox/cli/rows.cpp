#include "cli/rows.hpp"

#include <charconv>
#include <outbox/spi/store.hpp>

#include "cli/shown_text.hpp"
#include "cli/time_text.hpp"

namespace outbox_tool {

using outbox::event_status;
using outbox::instant;
using outbox::row_view;

std::string aggregate_text(outbox::event const& e) {
  auto const& type = e.aggregate_type();
  if (type == outbox::global_aggregate) return e.aggregate_id().empty() ? "" : "/" + e.aggregate_id();
  return e.aggregate_id().empty() ? type : type + "/" + e.aggregate_id();
}

// The length of the aggregate type tells where the id begins; it counts characters.
std::string key_text(std::string_view key) {
  if (key.starts_with('=')) return std::string{key.substr(1)};
  std::size_t characters = 0;
  auto const [end, problem] = std::from_chars(key.data(), key.data() + key.size(), characters);
  auto const begin = static_cast<std::size_t>(end - key.data()) + 1;
  if (problem != std::errc{} || begin > key.size() || *end != ':') return std::string{key};
  auto const rest = key.substr(begin);
  std::size_t at = 0;
  auto const begins_one = [&] { return (static_cast<unsigned char>(rest[at]) & 0xC0U) != 0x80U; };
  while (at < rest.size() && (!begins_one() || characters-- > 0)) ++at;
  auto const type = rest.substr(0, at);
  return (type == outbox::global_aggregate ? "" : std::string{type}) + "/" + std::string{rest.substr(at)};
}

namespace {

bool is_pending(row_view const& row) {
  return row.status == event_status::created || row.status == event_status::retry;
}

bool is_blocked(row_view const& row) { return row.blocked == true && is_pending(row); }

// Where the event stands in the order of its key.
cell place_cell(row_view const& row) {
  if (!row.blocked) return {"outside: it waits for no event, and none waits for it", "outside"};
  if (row.status == event_status::delivered) return {};
  if (row.status == event_status::dead) {
    return {"parked: those behind it wait until it is replayed or discarded", "parked", look::bad};
  }
  if (is_blocked(row)) return {"blocked: another event of its key comes first", "blocked", look::warning};
  return {"in line", "in line"};
}

}  // namespace

cell state_cell(row_view const& row, instant now) {
  std::string const name{outbox::name(row.status)};
  auto const how = row.status == event_status::dead    ? look::bad
                   : row.status == event_status::retry ? look::warning
                                                       : look::normal;
  bool const held = row.lease_until && *row.lease_until > now && !row.locked_by.empty();
  return {name + (held ? " held" : is_blocked(row) ? " blocked" : ""), name, how};
}

report event_table() {
  return report{{{"id", "ID"},
                 {"type", "TYPE"},
                 {"aggregate", "AGGREGATE"},
                 {"state", "STATE"},
                 {"attempts", "TRIES", true},
                 {"inserted_at", "WRITTEN"},
                 {"error", "ERROR", false, true}}};
}

void add_event(report& to, row_view const& row, instant now) {
  auto const& e = row.event;
  to.add({text_cell(e.id()), text_cell(e.type()), text_cell(aggregate_text(e)), state_cell(row, now),
          number_cell(static_cast<std::uint64_t>(row.attempts)), age_cell(row.inserted_at, now),
          text_cell(row.last_error)});
}

facts event_facts(row_view const& row, instant now, bool keyed) {
  auto const& e = row.event;
  facts f;
  auto const with_time = [&](std::optional<instant> at) -> cell {
    if (!at) return {};
    return {clock_text(*at) + " (" + age_text(*at, now) + ")", rfc3339(*at)};
  };
  f.add("id", "id", text_cell(e.id()));
  f.add("type", "type", text_cell(e.type()));
  f.add("aggregate_type", "aggregate type", text_cell(e.aggregate_type()));
  f.add("aggregate_id", "aggregate id", text_cell(e.aggregate_id()));
  f.add("tenant", "tenant", text_cell(e.tenant()));
  f.add("ordering_key", "ordering key", text_cell(e.ordering_key()));
  f.add("state", "state", state_cell(row, now));
  auto const key = outbox::spi::key_of(e);
  f.add("key", "key", {keyed ? text_cell(key_text(key)).text : "", text_cell(key).value});
  f.add("in_order", "in the order of its key", keyed && !key.empty() ? place_cell(row) : cell{});
  f.add("attempts", "counted failures", number_cell(static_cast<std::uint64_t>(row.attempts)));
  f.add("crashes", "crashes of owners", number_cell(static_cast<std::uint64_t>(row.crashes)));
  f.add("error", "last error", text_cell(row.last_error, look::bad));
  f.add("seq", "number of the row", {std::to_string(row.seq), row.seq});
  f.add("occurred_at", "occurred", with_time(e.occurred_at()));
  f.add("inserted_at", "written", with_time(row.inserted_at));
  f.add("available_at", "not before", with_time(row.available_at));
  f.add("done_at", "ended", with_time(row.done_at));
  f.add("locked_by", "owner", text_cell(row.locked_by));
  f.add("lease_until", "owned until", with_time(row.lease_until));
  f.add("progress", "progress", text_cell(row.progress));
  f.add("content_type", "content type", text_cell(e.content_type()));
  f.add("size", "payload bytes", number_cell(e.payload().size()));
  return f;
}

}  // namespace outbox_tool

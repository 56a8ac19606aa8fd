// What operators do with an outbox on Redis: rows by filter, audit, event types, figures, keys.
//
// What looks at many rows does so in pieces, so that the server can serve others in between. Such a read is not one
// instant of the outbox; each change of a row is, and looks at the row again.
#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <utility>

#include "core/base/text.hpp"
#include "core/events/error_groups.hpp"
#include "core/events/names_check.hpp"
#include "redis/pieces.hpp"
#include "redis/redis_store.hpp"
#include "redis/rows.hpp"

namespace outbox::inline v0::redis {
namespace {

using std::chrono::microseconds;

// As the columns of the SQL stores are.
constexpr std::size_t longest_error = 4000;
constexpr std::size_t width_of_who = 128;
constexpr std::size_t width_of_verb = 32;

// How far one call of healing goes.
constexpr int most_parts = 200;

// How many DEAD rows in line are looked at for parked keys: a relay asks often.
constexpr std::size_t most_dead = 10'000;

std::uint64_t count_of(answer_view a) noexcept {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(0, a.number()));
}

void add_age(arguments& to, std::optional<std::chrono::milliseconds> age) {
  to.add(age ? text_of(microseconds{*age}) : std::string{});
}

// The filter as page.lua wants it.
void add_filter(arguments& to, event_filter const& f, std::vector<std::string> const& ids) {
  std::string wanted;
  for (auto const s : f.statuses) wanted += std::string{stored(s)} + " ";
  to.add(wanted).add(f.newest && ids.empty() ? std::to_string(*f.newest) : std::string{});
  to.add(f.event_type).add(f.aggregate_type).add(f.aggregate_id).add(f.tenant).add(f.key);
  add_age(to, f.older_than);
  add_age(to, f.younger_than);
  to.add(f.died_by ? text_of(*f.died_by) : std::string{});
  to.add(ids.size());
  for (auto const& id : ids) to.add(id);
}

void count_status(table_counts& c, std::string_view status) noexcept {
  if (status == "NEW") ++c.created;
  if (status == "RETRY") ++c.retry;
  if (status == "DONE") ++c.done;
  if (status == "DEAD") ++c.dead;
}

std::vector<spi::event_type_counts> as_list(std::map<std::pair<std::string, std::string>, table_counts> const& types) {
  std::vector<spi::event_type_counts> all;
  all.reserve(types.size());
  for (auto const& [names, counts] : types) all.push_back({names.first, names.second, counts});
  return all;
}

}  // namespace

void redis_store::for_each(event_filter const& filter, std::string_view what, spi::list_order order,
                           std::uint64_t limit, std::function<bool(answer_view)> const& see) {
  std::vector<std::string> ids;
  std::ranges::copy_if(filter.ids, std::back_inserter(ids), core::is_possible_id);
  if (!core::is_possible(filter) || (!filter.ids.empty() && ids.empty())) return;
  std::string behind;
  while (limit > 0) {
    auto const wanted = std::min<std::uint64_t>(limit, what == "whole" ? 100 : piece);
    arguments args{what, order == spi::list_order::oldest_first ? "oldest" : "newest", behind, piece, wanted};
    add_filter(args, filter, ids);
    if (!ids.empty()) args.words()[4] = std::to_string(limit);
    auto const a = read(all_scripts().page, args, "cannot read events");
    for (std::size_t i = 0; i < a[1].size(); ++i) {
      if (!see(a[1][i])) return;
    }
    limit -= std::min<std::uint64_t>(limit, a[1].size());
    behind = a[0].text();
    if (behind.empty()) return;
  }
}

std::vector<row_view> redis_store::list(event_filter const& filter, spi::list_order order, std::size_t limit) {
  std::vector<row_view> found;
  for_each(filter, "whole", order, limit, [&](answer_view a) {
    std::string malformed;
    found.push_back(read_row(a, malformed));
    return true;
  });
  return found;
}

std::optional<row_view> redis_store::find(std::string_view id) {
  auto found = list({.ids = {std::string{id}}}, spi::list_order::oldest_first, 1);
  if (found.empty()) return std::nullopt;
  return std::move(found.front());
}

std::uint64_t redis_store::count(event_filter const& filter, std::uint64_t up_to) {
  std::uint64_t rows = 0;
  for_each(filter, "id", spi::list_order::oldest_first, up_to, [&](answer_view) {
    ++rows;
    return true;
  });
  return rows;
}

std::vector<spi::error_group> redis_store::errors(event_filter const& filter, std::size_t limit) {
  core::error_groups groups;
  for_each(filter, "head", spi::list_order::oldest_first, UINT64_MAX, [&](answer_view a) {
    std::string malformed;
    groups.add(read_row(a, malformed));
    return true;
  });
  return std::move(groups).most_frequent(limit);
}

// The rows that match are looked up first, and changed by their ids: a row that another program changed meanwhile is
// left.
std::size_t redis_store::change_rows(std::string_view verb, std::string_view reason, event_filter filter,
                                     std::vector<event_status> const& possible, std::size_t limit) {
  check_writable();
  std::vector<event_status> wanted;
  for (auto const s : possible) {
    auto const& asked = filter.statuses;
    if (asked.empty() || std::ranges::find(asked, s) != asked.end()) wanted.push_back(s);
  }
  if (wanted.empty()) return 0;
  filter.statuses = std::move(wanted);
  std::size_t changed = 0;
  arguments args{verb, reason};
  auto const apply = [&] {
    if (args.words().size() > 2) {
      changed += count_of(change(all_scripts().change, args, "cannot change events"));
    }
    args = arguments{verb, reason};
  };
  auto const which = verb == "discard" ? "parked" : "id";  // those that were discarded before stay DEAD, and match
  for_each(filter, which, spi::list_order::oldest_first, UINT64_MAX, [&](answer_view id) {
    args.add(id.text());
    if (args.words().size() - 2 + changed < limit && args.words().size() - 2 < piece) return true;
    apply();
    return changed < limit;
  });
  apply();
  return changed;
}

std::size_t redis_store::cancel(event_filter const& filter, std::string_view reason, std::size_t limit) {
  if (limit == 0) return 0;
  return change_rows("cancel", core::scrub(reason, longest_error), filter, {event_status::created, event_status::retry},
                     limit);
}

std::size_t redis_store::replay(event_filter const& filter, std::size_t limit) {
  return limit == 0 ? 0 : change_rows("replay", {}, filter, {event_status::dead}, limit);
}

std::size_t redis_store::discard(event_filter const& filter, std::size_t limit) {
  return limit == 0 ? 0 : change_rows("discard", {}, filter, {event_status::dead}, limit);
}

std::size_t redis_store::purge(event_filter const& filter, std::size_t limit) {
  return limit == 0 ? 0 : change_rows("purge", {}, filter, {event_status::delivered, event_status::dead}, limit);
}

std::size_t redis_store::purge(spi::purge_request const& request) {
  std::size_t deleted = 0;
  for (auto const* const set : {"done", "dead"}) {
    if (!(std::string_view{set} == "done" ? request.done : request.dead)) continue;
    for (std::int64_t passed = 0; deleted < request.limit;) {
      arguments const args{"ended", request.retention, set, request.limit - deleted, piece, passed};
      auto const a = change(all_scripts().purge, args, "cannot purge events");
      deleted += count_of(a[0]);
      passed = a[1].number();
      if (a[2].number() != 1) break;
    }
  }
  return deleted;
}

std::size_t redis_store::purge_by_age(spi::age_purge_request const& request) {
  std::size_t deleted = 0;
  while (deleted < request.limit) {
    auto const some = std::min(request.limit - deleted, piece);
    auto const n = count_of(change(all_scripts().purge, arguments{"age", request.age, some}, "cannot purge events"));
    deleted += n;
    if (n < some) break;
  }
  return deleted;
}

std::int64_t redis_store::begin_audit(spi::audit_entry const& entry) {
  arguments const args{"begin_audit",
                       core::scrub(entry.who, width_of_who),
                       core::scrub(entry.verb, width_of_verb),
                       core::scrub(entry.filter, longest_error),
                       core::scrub(entry.reason, longest_error),
                       entry.matched};
  return change(all_scripts().table, args, "cannot write the audit").number();
}

bool redis_store::end_audit(std::int64_t id, std::uint64_t changed) {
  return change(all_scripts().table, arguments{"end_audit", id, changed}, "cannot write the audit").number() == 1;
}

std::vector<spi::audit_entry> redis_store::audit(std::size_t limit) {
  auto const a =
      read(all_scripts().read_table, arguments{"audit", std::min<std::size_t>(limit, 10'000)}, "cannot read the audit");
  std::vector<spi::audit_entry> entries;
  for (std::size_t i = 0; i < a.size(); ++i) entries.push_back(read_audit(a[i]));
  return entries;
}

void redis_store::count_types(std::string_view set, std::size_t most, counts_by_type& into) {
  for (std::size_t rank = 0; rank < most;) {
    auto const some = std::min(piece, most - rank);
    auto const a = read(all_scripts().look, arguments{"types", set, rank, some}, "cannot count event types");
    for (std::size_t i = 0; i + 2 < a.size(); i += 3) {
      if (a[i + 2].text().empty()) continue;  // its key was deleted by hand
      count_status(into[{std::string{a[i].text()}, std::string{a[i + 1].text()}}], a[i + 2].text());
    }
    rank += some;
    if (a.size() < some * 3) return;
  }
}

std::vector<spi::event_type_counts> redis_store::event_types() {
  counts_by_type types;
  for (auto const* const set : {"open", "done", "dead"}) count_types(set, SIZE_MAX, types);
  return as_list(types);
}

std::vector<spi::event_type_counts> redis_store::waiting_types(std::size_t rows) {
  counts_by_type types;
  count_types("due", rows, types);
  std::uint64_t pending = 0;
  for (auto const& [names, counts] : types) pending += counts.pending();
  count_types("leased", rows - std::min<std::uint64_t>(rows, pending), types);
  count_types("dead", rows, types);
  return as_list(types);
}

table_counts redis_store::counts() {
  auto const a = read(all_scripts().look, arguments{"counts"}, "cannot count events");
  auto const retrying = count_of(a[1]);
  return {.created = count_of(a[0]) - std::min(count_of(a[0]), retrying),
          .retry = retrying,
          .done = count_of(a[2]),
          .dead = count_of(a[3])};
}

// One script gives what the sorted sets know at once. What needs a look at rows follows in pieces.
spi::table_overview redis_store::overview(std::uint64_t limit) {
  auto const a = read(all_scripts().look, arguments{"figures"}, "cannot read the figures of the outbox");
  auto const capped = [&](std::size_t i) { return std::min(count_of(a[i]), limit); };
  spi::table_overview o{.at = instant_of(a[0]).value_or(instant{}), .limit = limit};
  o.pending = capped(1);
  o.retrying = capped(2);
  o.held = capped(3);
  o.due = capped(4);
  o.dead = capped(5);
  o.due_since = instant_of(a[6]);
  o.last_dead = instant_of(a[7]);
  o.last_ended = std::max(instant_of(a[7]), instant_of(a[8]));
  o.done_in_a_minute = capped(9);
  o.dead_in_a_minute = capped(10);
  o.blocked = capped(11);
  o.pending = std::min(o.pending + o.blocked, limit);

  // Adds up what a look says of rows, until there are no more or `limit` were looked at.
  auto const add_up = [&](auto&&... verb) {
    std::int64_t sum = 0;
    for (std::uint64_t passed = 0; passed < limit;) {
      auto const some = std::min<std::uint64_t>(piece, limit - passed);
      auto const part = read(all_scripts().look, arguments{verb..., passed, some}, "cannot look at events");
      sum += part[0].number();
      passed += count_of(part[1]);
      if (count_of(part[1]) < some) break;
    }
    return sum;
  };
  o.delayed = static_cast<std::uint64_t>(add_up("delayed"));
  for (std::uint64_t rank = 0; rank < limit; rank += piece) {
    auto const part = read(all_scripts().look, arguments{"waiting", rank, piece}, "cannot look at events");
    auto const since = instant_of(part[0]);
    if (since) o.waiting_since = std::min(o.waiting_since.value_or(*since), *since);
    if (part[1].number() == 1) break;
  }
  if (options_.done_rows == done_rows::keep && o.pending < limit) {
    o.growth = add_up("grown", "open") + add_up("grown", "done_at") + add_up("grown", "dead_at");
  }
  return o;
}

std::vector<parked_key> redis_store::parked_keys(std::size_t limit) {
  std::vector<parked_key> parked;
  constexpr std::size_t some = 100;  // of each, a hundred rows of its line are looked at
  for (std::size_t rank = 0; limit > 0 && rank < most_dead; rank += some) {
    auto const a = read(all_scripts().look, arguments{"parked", rank, some}, "cannot read parked keys");
    for (std::size_t i = 0; i < a[1].size(); ++i) {
      auto const k = a[1][i];
      parked.push_back({std::string{k[0].text()}, std::string{k[1].text()}, instant_of(k[2]), count_of(k[3])});
    }
    if (count_of(a[0]) < some || parked.size() >= limit) break;
  }
  std::ranges::sort(parked, {}, &parked_key::key);
  if (parked.size() > limit) parked.resize(limit);
  return parked;
}

std::vector<spi::place> redis_store::places(std::span<std::string const> ids) {
  std::vector<spi::place> all;
  all.reserve(ids.size());
  while (!ids.empty()) {
    auto const some = ids.first(std::min(ids.size(), piece));
    ids = ids.subspan(some.size());
    arguments args{"places"};
    for (auto const& id : some) args.add(id);
    auto const a = read(all_scripts().look, args, "cannot read where events stand");
    for (std::size_t i = 0; i < some.size(); ++i) {
      auto const told = a[i];
      bool const known = told.size() == 2;
      all.push_back({known ? told[0].number() : 0, std::string{told[1].text()}, known});
    }
  }
  return all;
}

std::size_t redis_store::clear_notes(std::string_view which, std::size_t limit, place_of_row& behind,
                                     std::string_view doing) {
  auto const a = change(all_scripts().heal, arguments{which, limit, piece, behind.row, behind.score}, doing);
  behind = {std::string{a[1].text()}, std::string{a[2].text()}};
  return count_of(a[0]);
}

// Walks the rows that are blocked. The thread that calls this renews leases too.
std::size_t redis_store::heal(std::size_t limit) {
  return healing_.go_on(limit, most_parts, [&](place_of_row& at, std::size_t most) {
    return clear_notes("heads", most, at, "cannot heal the outbox");
  });
}

// The mark goes when the notes are gone: an outbox that is marked may have some, another one may not. A node that has
// not read yet that the mark is gone may have noted rows meanwhile.
void redis_store::set_keyed(bool keyed) {
  auto const mark = [&] { change(all_scripts().table, arguments{"keyed", keyed}, "cannot mark the outbox"); };
  auto const clear = [&] {
    place_of_row at;
    do {
      clear_notes("all", SIZE_MAX, at, "cannot clear what is noted of rows");
    } while (!at.row.empty());
  };
  if (keyed) return mark();
  clear();
  mark();
  clear();
}

}  // namespace outbox::inline v0::redis

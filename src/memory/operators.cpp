// What operators do with the memory store: rows by filter, audit, event types, keys, settings of the table.
#include <algorithm>
#include <functional>
#include <map>
#include <outbox/error.hpp>
#include <outbox/spi/check.hpp>

#include "core/base/planted.hpp"
#include "core/events/error_groups.hpp"
#include "core/events/names_check.hpp"
#include "memory/database.hpp"
#include "memory/rows.hpp"

namespace outbox::inline v0::memory {

using core::has_bug;
using core::planted_bug;

void database::revive(row_view& row, instant now) {
  update(row, [&](row_view& r) {
    r.status = event_status::created;
    r.attempts = 0;
    r.crashes = 0;
    r.available_at = now;
    r.done_at.reset();
    r.last_error.clear();
    if (r.blocked) r.blocked = false;  // it may have been noted before its owner, late, made it DEAD
  });
}

spi::table_settings database::settings() {
  std::lock_guard const lock{mutex_};
  return settings_;
}

bool database::pause(route_pause const& what) {
  core::check_pause(what);
  std::lock_guard const lock{mutex_};
  auto& pauses = settings_.pauses;
  if (std::ranges::find(pauses, what) != pauses.end()) return false;
  pauses.push_back(what);
  return true;
}

bool database::resume(route_pause const& what) {
  std::lock_guard const lock{mutex_};
  return std::erase(settings_.pauses, what) > 0;
}

// The number before that of the oldest row which the filter looks at.
std::int64_t database::oldest_of(event_filter const& filter) const {
  if (!filter.newest || !filter.ids.empty() || rows_.empty()) return INT64_MIN;
  return rows_.rbegin()->first - static_cast<std::int64_t>(std::min<std::uint64_t>(*filter.newest, INT64_MAX / 2));
}

// The numbers of the first rows that match and that `wanted` accepts.
std::vector<std::int64_t> database::select(event_filter const& filter, std::size_t limit,
                                           std::function<bool(row_view const&)> const& wanted) {
  auto const at = now();
  std::vector<std::int64_t> found;
  for (auto const& [seq, row] : rows_) {
    if (found.size() >= limit) break;
    if (seq > oldest_of(filter) && wanted(row) && matches(row, filter, at)) found.push_back(seq);
  }
  return found;
}

std::vector<row_view> database::list(event_filter const& filter, spi::list_order order, std::size_t limit) {
  std::lock_guard const lock{mutex_};
  auto const at = now();
  std::vector<row_view> found;
  auto const collect = [&](auto begin, auto end) {
    for (auto r = begin; r != end && found.size() < limit; ++r) {
      if (r->first > oldest_of(filter) && matches(r->second, filter, at)) found.push_back(r->second);
    }
  };
  if (order == spi::list_order::oldest_first) {
    collect(rows_.begin(), rows_.end());
  } else {
    collect(rows_.rbegin(), rows_.rend());
  }
  return found;
}

std::uint64_t database::count(event_filter const& filter, std::uint64_t up_to) {
  std::lock_guard const lock{mutex_};
  return select(filter, up_to, [](row_view const&) { return true; }).size();
}

std::vector<spi::error_group> database::errors(event_filter const& filter, std::size_t limit) {
  std::lock_guard const lock{mutex_};
  core::error_groups groups;
  for (auto const seq : select(filter, SIZE_MAX, [](row_view const&) { return true; })) groups.add(rows_.at(seq));
  return std::move(groups).most_frequent(limit);
}

std::size_t database::cancel(event_filter const& filter, std::string_view reason, std::size_t limit) {
  std::lock_guard const lock{mutex_};
  auto const at = now();
  auto const chosen = select(filter, limit, pending);
  for (auto const seq : chosen) {
    update(rows_.at(seq), [&](row_view& r) {
      r.status = event_status::dead;
      r.done_at = at;
      r.last_error = reason;
      r.locked_by.clear();
      r.lease_until.reset();
      if (r.blocked) r.blocked = false;
    });
  }
  return chosen.size();
}

std::size_t database::replay(event_filter const& filter, std::size_t limit) {
  std::lock_guard const lock{mutex_};
  auto const chosen = select(filter, limit, [](row_view const& r) {
    return r.status == event_status::dead ||
           (r.status == event_status::delivered && has_bug(planted_bug::replay_of_a_done_row));
  });
  auto const at = now();
  for (auto const seq : chosen) revive(rows_.at(seq), at);
  return chosen.size();
}

std::size_t database::discard(event_filter const& filter, std::size_t limit) {
  std::lock_guard const lock{mutex_};
  auto const at = now();
  auto const chosen = select(filter, limit, [](row_view const& r) {
    return r.status == event_status::dead && r.blocked && !spi::key_of(r.event).empty();
  });
  for (auto const seq : chosen) update(rows_.at(seq), [](row_view& r) { r.blocked.reset(); });
  for (auto const seq : chosen) unblock_next(spi::key_of(rows_.at(seq).event), seq, at);
  return chosen.size();
}

std::size_t database::purge(event_filter const& filter, std::size_t limit) {
  std::lock_guard const lock{mutex_};
  auto const chosen = select(filter, limit, [this](row_view const& r) { return terminal(r) && !parks(r); });
  for (auto const seq : chosen) erase(seq);
  return chosen.size();
}

std::int64_t database::begin_audit(spi::audit_entry const& entry) {
  std::lock_guard const lock{mutex_};
  auto& added = audit_.emplace_back(entry);
  added.id = std::ssize(audit_);
  added.at = now();
  added.changed.reset();
  added.ended_at.reset();
  return added.id;
}

bool database::end_audit(std::int64_t id, std::uint64_t changed) {
  std::lock_guard const lock{mutex_};
  auto const entry = std::ranges::find(audit_, id, &spi::audit_entry::id);
  if (entry == audit_.end() || entry->ended_at) return false;
  entry->changed = changed;
  entry->ended_at = now();
  return true;
}

std::vector<spi::audit_entry> database::audit(std::size_t limit) {
  std::lock_guard const lock{mutex_};
  auto const n = static_cast<std::ptrdiff_t>(std::min(limit, audit_.size()));
  return {audit_.rbegin(), audit_.rbegin() + n};
}

std::vector<spi::event_type_counts> database::event_types() {
  std::lock_guard const lock{mutex_};
  std::map<std::pair<std::string, std::string>, table_counts> types;
  for (auto const& [seq, r] : rows_) count(types[{r.event.type(), r.event.aggregate_type()}], r.status);
  std::vector<spi::event_type_counts> result;
  result.reserve(types.size());
  for (auto const& [names, counts] : types) result.push_back({names.first, names.second, counts});
  return result;
}

// The rows are in memory and few, so all of them are read.
std::vector<spi::event_type_counts> database::waiting_types(std::size_t /*rows*/) {
  auto all = event_types();
  for (auto& t : all) t.counts.done = 0;
  std::erase_if(all, [](auto const& t) { return t.counts.pending() + t.counts.dead == 0; });
  return all;
}

spi::table_overview database::overview(std::uint64_t limit) {
  std::lock_guard const lock{mutex_};
  auto const at = now();
  auto const minute_ago = at - std::chrono::minutes{1};
  spi::table_overview o{.at = at, .limit = limit};
  std::int64_t growth = 0;
  auto const earlier = [](std::optional<instant>& first, instant i) { first = std::min(first.value_or(i), i); };
  auto const later = [](std::optional<instant>& last, instant i) { last = std::max(last.value_or(i), i); };
  for (auto const& [seq, r] : rows_) {
    bool const held = r.lease_until && *r.lease_until > at;
    bool const tried = r.status == event_status::retry;
    if (claimable_some_day(r)) {
      ++o.pending;
      o.retrying += tried ? 1U : 0U;
      o.held += held ? 1U : 0U;
      o.delayed += !tried && !held && claimable(r) > at ? 1U : 0U;
      o.due += claimable(r) <= at ? 1U : 0U;
      growth += r.inserted_at > minute_ago ? 1 : 0;
      if (claimable(r) <= at) earlier(o.due_since, claimable(r));
      if (tried || r.available_at <= at) {
        earlier(o.waiting_since, tried ? r.inserted_at : std::max(r.inserted_at, r.available_at));
      }
    }
    if (pending(r) && r.blocked == true) {
      ++o.pending;
      ++o.blocked;
      growth += r.inserted_at > minute_ago ? 1 : 0;
      earlier(o.waiting_since, r.inserted_at);
    }
    if (!terminal(r)) continue;
    bool const dead = r.status == event_status::dead;
    o.dead += dead ? 1U : 0U;
    if (!r.done_at) continue;
    later(o.last_ended, *r.done_at);
    if (dead) later(o.last_dead, *r.done_at);
    if (*r.done_at <= minute_ago) continue;
    ++(dead ? o.dead_in_a_minute : o.done_in_a_minute);
    growth -= r.inserted_at <= minute_ago ? 1 : 0;
  }
  for (auto* const n : {&o.pending, &o.retrying, &o.held, &o.delayed, &o.due, &o.blocked, &o.dead}) {
    *n = std::min(*n, limit);
  }
  if (options_.done_rows == done_rows::keep && o.pending < limit) o.growth = growth;
  return o;
}

std::vector<parked_key> database::parked_keys(std::size_t limit) {
  std::lock_guard const lock{mutex_};
  std::vector<parked_key> parked;
  for (auto const& [key, line] : lines_) {
    if (parked.size() >= limit) break;
    auto const& head = rows_.at(*line.begin());
    if (head.status != event_status::dead) continue;
    auto const waiting = std::ranges::count_if(line, [&](std::int64_t seq) { return pending(rows_.at(seq)); });
    parked.push_back({key, head.event.id(), head.done_at, static_cast<std::uint64_t>(waiting)});
  }
  return parked;
}

std::size_t database::heal(std::size_t limit) {
  std::lock_guard const lock{mutex_};
  auto const at = now();
  std::size_t healed = 0;
  auto const heal_one = [&](row_view& r) {
    if (healed >= limit || r.blocked != true || !pending(r)) return;
    unblock(r, at);
    ++healed;
  };
  std::vector<std::int64_t> heads;  // unblocking a row takes it out of its line for a moment, and may end the line
  heads.reserve(lines_.size());
  for (auto const& [key, line] : lines_) heads.push_back(*line.begin());
  for (auto const seq : heads) heal_one(rows_.at(seq));
  for (auto& [seq, r] : rows_) {
    if (spi::key_of(r.event).empty()) heal_one(r);  // a row without a key waits for none
  }
  return healed;
}

void database::set_keyed(bool keyed) {
  std::lock_guard const lock{mutex_};
  settings_.keyed = keyed;
  if (keyed) return;
  auto const at = now();
  for (auto& [seq, r] : rows_) {
    if (r.blocked == true && pending(r)) unblock(r, at);
  }
}

std::vector<spi::finding> database::findings(spi::finding_limits const& /*limits*/) {
  std::vector<spi::finding> found;
  spi::check const here{found, "volatile", "Events that are not delivered are lost when the process ends."};
  here.note("The store keeps its rows in memory.", "--db sqlite:outbox.db");
  return found;
}

void database::block(std::string_view id) {
  std::lock_guard const lock{mutex_};
  auto const seq = by_id_.find(std::string{id});
  if (seq != by_id_.end()) update(rows_.at(seq->second), [](row_view& r) { r.blocked = true; });
}

void database::put(row_view const& row) {
  std::lock_guard const lock{mutex_};
  auto const at = rows_.find(row.seq);
  if (at != rows_.end()) update(at->second, [&](row_view& r) { r = row; });
}

void block(store& s, std::string_view event_id) {
  auto* const table = dynamic_cast<database*>(&s);
  if (table == nullptr) throw error{errc::invalid_option, "block() is for a memory store"};
  table->block(event_id);
}

}  // namespace outbox::inline v0::memory

// What the rows of the memory store are: pending, terminal, in line, matched by a filter.
#pragma once

#include <algorithm>
#include <outbox/spi/store.hpp>
#include <string>

namespace outbox::inline v0::memory {

inline bool pending(row_view const& r) noexcept {
  return r.status == event_status::created || r.status == event_status::retry;
}

// Belongs in the index of what can be claimed.
inline bool claimable_some_day(row_view const& r) noexcept { return pending(r) && r.blocked != true; }

// A row that counts in the order of its key.
inline bool in_line(row_view const& r) noexcept { return r.status != event_status::delivered && r.blocked.has_value(); }

inline bool terminal(row_view const& r) noexcept {
  return r.status == event_status::delivered || r.status == event_status::dead;
}

// The later of the two instants: before it no claim may take the row.
inline instant claimable(row_view const& r) noexcept {
  return r.lease_until ? std::max(r.available_at, *r.lease_until) : r.available_at;
}

// Not due, and only its writer has made it wait. A row that was written or unblocked may be due later than now because
// a clock was set back or is ahead; hence the minute.
inline bool delayed_by_writer(row_view const& r, instant now) noexcept {
  auto const due = r.available_at - std::chrono::minutes{1};
  return r.status == event_status::created && due > now && due > r.inserted_at && r.locked_by.empty() &&
         r.last_error.empty() && r.attempts == 0 && r.crashes == 0;
}

inline bool same_or_any(std::string const& wanted, std::string const& value) noexcept {
  return wanted.empty() || wanted == value;
}

inline bool matches(row_view const& r, event_filter const& f, instant now) {
  auto const one_of = [](auto const& wanted, auto const& value) {
    return wanted.empty() || std::ranges::find(wanted, value) != wanted.end();
  };
  auto const& e = r.event;
  return one_of(f.ids, e.id()) && one_of(f.statuses, r.status) && same_or_any(f.event_type, e.type()) &&
         same_or_any(f.aggregate_type, e.aggregate_type()) && same_or_any(f.aggregate_id, e.aggregate_id()) &&
         same_or_any(f.tenant, e.tenant()) && (f.key.empty() || spi::key_of(e) == f.key) &&
         (!f.older_than || r.inserted_at <= now - *f.older_than) &&
         (!f.younger_than || r.inserted_at > now - *f.younger_than) &&
         (!f.died_by || (terminal(r) && r.done_at.value_or(r.inserted_at) <= *f.died_by));
}

// What a settlement does to its row.
inline void settle_row(row_view& r, spi::settlement const& s, instant now) {
  r.locked_by.clear();
  r.lease_until.reset();
  if (s.outcome == spi::outcome::release) return;
  r.crashes = 0;
  r.attempts += s.counted;
  r.progress = s.progress;
  switch (s.outcome) {
    case spi::outcome::delivered:
      r.status = event_status::delivered;
      r.done_at = now;
      r.last_error.clear();
      break;
    case spi::outcome::dead:
      r.status = event_status::dead;
      r.done_at = now;
      r.last_error = s.error;
      if (!s.key.empty()) r.blocked.reset();
      break;
    case spi::outcome::retry:
      r.status = event_status::retry;
      r.available_at = now + s.delay;
      r.last_error = s.error;
      break;
    case spi::outcome::defer:
      r.status = event_status::created;
      r.available_at = now + s.delay;
      if (!s.error.empty()) r.last_error = s.error;
      break;
    case spi::outcome::release: break;
  }
}

}  // namespace outbox::inline v0::memory

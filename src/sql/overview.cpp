#include "sql/overview.hpp"

#include <algorithm>
#include <outbox/error.hpp>

#include "sql/marks.hpp"
#include "sql/sql_store.hpp"

namespace outbox::inline v0::sql {

// Sums of conditions as counts of CASE: all databases have that.
std::string overview_text(overview_forms const& f) {
  std::string text =
      "SELECT [now], p.pending, p.retrying, p.held, p.delaying, p.due, p.due_since, p.since, p.young, d.dead, d.last, "
      "m.done, m.dead, m.old, [last_ended] FROM "
      "(SELECT count(*) AS pending, count(CASE WHEN s = {RETRY} THEN 1 END) AS retrying, "
      "count(CASE WHEN l > [now] THEN 1 END) AS held, "
      "count(CASE WHEN s = {NEW} AND c > [now] AND (l IS NULL OR l <= [now]) THEN 1 END) AS delaying, "
      "count(CASE WHEN c <= [now] THEN 1 END) AS due, min(CASE WHEN c <= [now] THEN c END) AS due_since, "
      "min(CASE WHEN s = {RETRY} THEN i WHEN a <= [now] THEN [later](i, a) END) AS since, "
      "count(CASE WHEN i > [minute_ago] THEN 1 END) AS young FROM "
      "(SELECT {status} AS s, {lease_until} AS l, [available] AS a, [claimable] AS c, [inserted] AS i FROM [pending] "
      "ORDER BY [claimable] LIMIT [limit]) q) p, "
      "(SELECT count(*) AS dead, max(e) AS last FROM (SELECT {done_at} AS e FROM [dead] LIMIT [limit]) q) d, "
      "(SELECT count(CASE WHEN s = {DONE} THEN 1 END) AS done, count(CASE WHEN s = {DEAD} THEN 1 END) AS dead, "
      "count(CASE WHEN i <= [minute_ago] THEN 1 END) AS old FROM (SELECT {status} AS s, [inserted] AS i FROM "
      "[just_ended] LIMIT [limit]) q) m";
  // Those that contain others first.
  replace_all(text, "[last_ended]", f.last_ended);
  replace_all(text, "[just_ended]", f.just_ended);
  replace_all(text, "[pending]", f.pending);
  replace_all(text, "[dead]", f.dead);
  replace_all(text, "[claimable]", f.claimable);
  replace_all(text, "[available]", f.available);
  replace_all(text, "[inserted]", f.inserted);
  replace_all(text, "[later]", f.later);
  replace_all(text, "[minute_ago]", f.minute_ago);
  replace_all(text, "[now]", f.now);
  replace_all(text, "[limit]", f.limit);
  return text;
}

std::string blocked_text(overview_forms const& f, std::string_view in_order) {
  std::string text =
      "SELECT count(*), min(i), count(CASE WHEN i > [minute_ago] THEN 1 END) FROM (SELECT {blocked} AS b, "
      "[inserted] AS i FROM [in_order] LIMIT [limit]) q WHERE b";
  replace_all(text, "[in_order]", in_order);
  replace_all(text, "[inserted]", f.inserted);
  replace_all(text, "[minute_ago]", f.minute_ago);
  replace_all(text, "[limit]", f.limit);
  return text;
}

namespace {

struct blocked_rows {
  std::uint64_t rows = 0;
  std::optional<instant> since{};
  std::int64_t young = 0;
};

// The mark is asked for first: where the index of keys is missing, the plan of the other statement alone costs too
// much.
blocked_rows look_at_blocked(connection& c, dialect const& d, std::int64_t most) {
  if (c.ask<std::string>(d.read_meta, {std::string_view{"keyed"}}) != "1") return {};
  blocked_rows found;
  c.execute(d.blocked, {most, from_now{-std::chrono::minutes{1}}}, [&](row const& r) {
    found = {static_cast<std::uint64_t>(r.integer(0)), r.time(1), r.integer(2)};
    return false;
  });
  return found;
}

std::optional<instant> earlier(std::optional<instant> a, std::optional<instant> b) {
  return a && b ? std::min(a, b) : a ? a : b;
}

}  // namespace

table_overview sql_store::overview(std::uint64_t limit) {
  if (dialect_.overview.empty()) return spi::store::overview(limit);
  table_overview o;
  auto const most = static_cast<std::int64_t>(std::min<std::uint64_t>(limit, INT64_MAX));
  with_reader([&](connection& c) {
    o = {.limit = limit};
    auto const waiting = look_at_blocked(c, dialect_, most);
    o.blocked = waiting.rows;
    c.execute(dialect_.overview, {most, from_now{}, from_now{-std::chrono::minutes{1}}}, [&](row const& r) {
      auto const count = [&](int column) { return static_cast<std::uint64_t>(r.integer(column)); };
      o.at = r.time(0).value_or(instant{});
      o.pending = std::min(count(1) + o.blocked, limit);
      o.retrying = count(2);
      o.held = count(3);
      o.delayed = count(4);
      o.due = count(5);
      o.due_since = r.time(6);
      o.waiting_since = earlier(r.time(7), waiting.since);
      o.dead = count(9);
      o.last_dead = r.time(10);
      o.done_in_a_minute = count(11);
      o.dead_in_a_minute = count(12);
      o.last_ended = r.time(14);
      bool const whole = o.pending < limit && o.done_in_a_minute + o.dead_in_a_minute < limit;
      if (whole && capabilities().keeps_done_rows) o.growth = r.integer(8) + waiting.young - r.integer(13);
      return false;
    });
  });
  return o;
}

}  // namespace outbox::inline v0::sql

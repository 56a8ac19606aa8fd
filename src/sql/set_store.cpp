#include "sql/set_store.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <outbox/error.hpp>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "sql/sql_rows.hpp"

namespace outbox::inline v0::sql {
namespace {

using std::chrono::milliseconds;

// How often a statement is sent that meets conflicts. Two transactions that deadlock once hardly ever do so four times:
// the stores lock rows in the order of their ids.
constexpr int most_attempts = 4;

// One write_all is sent in pieces of at most this size, so that neither side keeps it in memory several times.
constexpr std::size_t most_rows = 1000;
constexpr std::size_t most_bytes = 8U << 20U;

// How often a claim is divided to find rows that cannot be claimed: about six times each, if a claim takes fifty rows.
constexpr std::size_t most_isolation_tries = 60;

// How many keys one statement of healing looks at, and how many notes one transaction clears.
constexpr std::size_t keys_of_a_page = 10'000;
constexpr int most_heal_pages = 20;
constexpr std::size_t notes_at_once = 1000;

// So many delivered rows of one claim get a statement of their own, which needs no join.
constexpr std::size_t worth_a_statement = 20;

// Of a claim that takes so many rows, few notes may wait for the next claim.
constexpr std::size_t wide_claim = 200;

// A serialization failure, a deadlock, or a lock that was waited for too long: the same transaction may succeed the
// next time.
bool is_conflict(error const& e) noexcept {
  return e.sqlstate() == "40001" || e.sqlstate() == "40P01" || e.sqlstate() == "HYT00";
}

template <class F>
void retrying(F&& f) {
  for (int attempt = 1;; ++attempt) {
    try {
      return f();
    } catch (error const& e) {
      if (!is_conflict(e) || attempt == most_attempts) throw;
    }
  }
}

// If this fails too, the next statement on the connection says so.
void roll_back(connection& c, std::string_view rollback) noexcept {
  try {
    if (c.in_transaction()) c.execute(rollback);
  } catch (std::exception const&) {  // NOLINT(bugprone-empty-catch)
  }
}

optional_text or_nothing(std::string const& s) { return s.empty() ? optional_text{} : optional_text{s}; }

// The group of each settlement: its outcome and, if it goes with many others of the same claim, their token.
class grouping {
 public:
  using key = std::pair<outcome, std::string_view>;

  explicit grouping(std::span<settlement const> items) {
    for (auto const& s : items) {
      if (simple(s)) ++rows_of_[s.row.token];
    }
  }
  [[nodiscard]] key group_of(settlement const& s) const {
    bool const own = simple(s) && rows_of_.at(s.row.token) >= worth_a_statement;
    return {s.outcome, own ? std::string_view{s.row.token} : std::string_view{}};
  }

 private:
  [[nodiscard]] static bool simple(settlement const& s) noexcept {
    return s.outcome == outcome::delivered && s.progress.empty();
  }

  std::unordered_map<std::string_view, std::size_t> rows_of_;
};

// Puts what a later part of a claim brought behind what the earlier parts did.
void append(claim_reply& whole, claim_reply part) {
  if (!whole.rows.empty()) part.oldest_lag = whole.oldest_lag;
  part.noted += whole.noted;
  if (whole.next_due) part.next_due = std::min(part.next_due.value_or(*whole.next_due), *whole.next_due);
  auto const behind = [](auto& first, auto& second) {
    std::ranges::move(second, std::back_inserter(first));
    second = std::move(first);
  };
  behind(whole.refused, part.refused);
  behind(whole.rows, part.rows);
  behind(whole.dead, part.dead);
  whole = std::move(part);
}

}  // namespace

void settle_group::add(std::size_t index, settlement const& s) {
  using std::chrono::microseconds;
  indexes.push_back(index);
  id.emplace_back(s.row.id);
  token.emplace_back(s.row.token);
  locator.push_back(s.row.locator);
  progress.push_back(or_nothing(s.progress));
  error.push_back(s.outcome == outcome::defer ? or_nothing(s.error) : optional_text{s.error});
  delay.push_back(microseconds{s.delay}.count());
  counted.push_back(s.counted);
  leaves.push_back(s.key.empty() ? 0 : 1);
}

void settle_group::add_from(settle_group const& other, std::size_t i) {
  indexes.push_back(other.indexes[i]);
  id.push_back(other.id[i]);
  token.push_back(other.token[i]);
  locator.push_back(other.locator[i]);
  progress.push_back(other.progress[i]);
  error.push_back(other.error[i]);
  delay.push_back(other.delay[i]);
  counted.push_back(other.counted[i]);
  leaves.push_back(other.leaves[i]);
}

void settle_group::apply(std::string_view row_id, std::vector<bool>& applied) const {
  auto const at = std::ranges::lower_bound(id, optional_text{row_id});
  if (at != id.end() && *at == row_id) applied[indexes[static_cast<std::size_t>(at - id.begin())]] = true;
}

set_store::set_store(dialect d) : sql_store{std::move(d)} {}
set_store::~set_store() = default;

void set_store::with_writer(work const& f) {
  retrying([&] { with_connection(f); });
}

// A statement that fails makes the whole transaction fail, or all of it since a savepoint: nothing is left of the
// pieces before it.
void set_store::insert(transaction_ref tx, std::span<insertion const> rows,
                       std::shared_ptr<insert_receipt> const& receipt) {
  with_caller(tx, [&](connection& c) {
    auto const before = receipt ? receipt->rows.size() : 0;
    if (receipt) receipt->rows.resize(before + rows.size(), {.known = false});
    if (rows.size() == 1) send_insert(c, stored_event{rows.front()}, receipt, before);
    for (std::size_t at = rows.size() == 1 ? 1 : 0; at < rows.size();) {
      std::size_t bytes = 0;
      auto const first = at;
      for (; at < rows.size() && at - first < most_rows && bytes < most_bytes; ++at) {
        bytes += rows[at].event->size_bytes();
      }
      send_insert(c, rows.subspan(first, at - first), receipt, before + first);
    }
  });
}

// Two round trips: the look, then the taking of the rows that were chosen; a keyed claim makes one more if there are
// runs to take. Between them the rows are locked, so that no other node chooses them.
claim_reply set_store::claim(claim_request const& request) {
  claim_reply reply;
  bool partly = false;
  std::vector<settlement> behind_refused;
  retrying([&] {
    // Rows that were taken before the conflict are in no reply: the node releases them by their token.
    if (partly) throw error{errc::unavailable, "a conflict ended the claim after a part of it"};
    behind_refused.clear();
    with_connection([&](connection& c) { reply = claim_or_isolate(c, request, partly, behind_refused); });
  });
  if (!behind_refused.empty()) settle(behind_refused);
  if (request.in_order && reply.more) on_ordered_backlog();
  return reply;
}

// One row more than may be taken tells whether there are more. The look gets wider if rows that must be left fill it.
// One that follows many notes begins wider: what waits for a few rows is then noted in few claims. So does one that
// sees rows again which were left without a note.
chosen_rows set_store::look(connection& c, claim_request const& request, std::size_t most, claim_reply& reply) {
  auto const to_note = request.keyed ? std::min(last_notes_ * 2, row_chooser::most_notes) : 0;
  auto const wanted = std::max(request.limit + last_unnoted_, to_note);
  for (auto window = std::min(wanted, widest_window) + 1;;) {
    reply = {};
    row_chooser choose{request, window, most, reply};
    send_look(c, request, window, choose);
    window = choose.finish(note_pace_.stuck());
    if (window > 0) continue;
    if (!choose.heads().empty()) {
      send_run(c, choose);
      choose.finish_runs();
    }
    return std::move(choose.chosen());
  }
}

// A node that drains a backlog claims again at once, and most of what waited a moment ago waits for rows that it has
// delivered since. A note costs two changes of the row. If few rows wait, to look at them twice costs less.
bool set_store::notes_can_wait(claim_request const& request, chosen_rows const& chosen) noexcept {
  auto const taken = chosen.ids.size();
  return taken >= wide_claim && taken * 2 >= request.limit && chosen.note.size() * 4 <= taken && !chosen.note.empty();
}

// One row that cannot be changed makes the statement fail for all. The claim then tries half as many, and half of that,
// until the row is alone, and goes on without it. If a later part fails, the node releases the earlier parts by their
// token.
claim_reply set_store::claim_or_isolate(connection& c, claim_request request, bool& partly,
                                        std::vector<settlement>& behind_refused) {
  constexpr std::size_t no_limit = SIZE_MAX;
  claim_reply whole;
  std::size_t most = no_limit;
  for (std::size_t tries = 0;; ++tries) {
    claim_reply part;
    auto chosen = look(c, request, most, part);
    last_unnoted_ = 0;
    if (notes_can_wait(request, chosen)) {
      last_unnoted_ = chosen.note.size();
      chosen.note.clear();
      part.more = true;
    }
    try {
      take(c, request, chosen, part, behind_refused);
    } catch (error const& e) {
      if (e.transient() || request.in_order || chosen.size() == 0) throw;
      c.execute(statements().rollback);
      if (tries >= most_isolation_tries) {
        if (whole.refused.empty()) throw;
        whole.now = part.now;
        whole.more = true;  // the next claim goes on without the rows that were found
        return whole;
      }
      most = std::max<std::size_t>(1, chosen.size() / 2);
      if (chosen.size() > 1) continue;
      whole.refused.push_back({chosen.first_id(), chosen.first_type(), e.what()});
      request.leave.push_back(chosen.first_id());
      continue;
    }
    bool const all = most == no_limit || !part.more || chosen.ids.size() >= request.limit;
    partly = true;
    request.limit -= std::min(request.limit, chosen.ids.size());
    for (auto const& row : part.rows) request.max_bytes -= std::min(request.max_bytes, row.event.size_bytes());
    append(whole, std::move(part));
    if (all) return whole;
    most *= 2;
  }
}

// The server returns the rows in any order. What stands behind a refused row in its key goes into `behind_refused`: it
// was taken, and must not be delivered before that row.
void set_store::take(connection& c, claim_request const& request, chosen_rows const& chosen, claim_reply& reply,
                     std::vector<settlement>& behind_refused) {
  std::unordered_map<std::string_view, std::size_t> place;
  for (std::size_t i = 0; i < chosen.ids.size(); ++i) place.emplace(chosen.ids[i], i);
  std::vector<std::optional<claimed_row>> rows(chosen.ids.size());
  auto const note_failure = send_take(c, request, chosen, reply, [&](row const& r) {
    std::string malformed;
    auto v = read_row(r, malformed);
    auto const at = place.at(v.event.id());
    auto const number = v.seq;
    rows[at].emplace(spi::claim_of(std::move(v), request.token, number, std::move(malformed)));
    return true;
  });
  reply.dead = chosen.dead;
  std::unordered_set<std::string_view> held_up;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    auto const key = chosen.keys.empty() ? std::string_view{} : std::string_view{chosen.keys[i]};
    if (!rows[i]) {  // it was locked, so nothing else explains it
      reply.refused.push_back({chosen.ids[i], chosen.types[i], "a trigger or a rule suppresses the change of its row"});
      if (!key.empty()) held_up.insert(key);
    } else if (held_up.contains(key)) {
      behind_refused.push_back({.row = std::move(rows[i]->handle), .outcome = spi::outcome::release});
    } else {
      reply.rows.push_back(std::move(*rows[i]));
    }
  }
  if (request.keyed) finish_notes(c, chosen, note_failure, reply);
  if (!chosen.delayed.empty()) let_leave(c, chosen, reply);
}

// The claim itself is committed: nothing here makes it fail.
void set_store::finish_notes(connection& c, chosen_rows const& chosen, std::optional<error> const& failure,
                             claim_reply& reply) {
  if (failure && !failure->transient()) note_one_by_one(c, chosen, reply);
  last_notes_ = reply.noted;
  note_pace_.claimed(chosen.note.size(), reply.noted, reply);  // the row before one of them is locked
}

// A trigger refuses one of them, which would make the note fail for all. It is left alone, like a row that cannot be
// claimed, and still holds up what stands behind it.
void set_store::note_one_by_one(connection& c, chosen_rows const& chosen, claim_reply& reply) {
  for (auto const& id : chosen.note) {
    try {
      reply.noted += send_note(c, std::span{&id, 1});
    } catch (error const& e) {
      if (e.transient()) return;
      reply.refused.push_back({id, {}, e.what()});
    }
  }
}

// What stood behind them can be claimed at once.
void set_store::let_leave(connection& c, chosen_rows const& chosen, claim_reply& reply) {
  std::vector<std::string> ids = chosen.delayed;
  std::ranges::sort(ids);
  ids.erase(std::ranges::unique(ids).begin(), ids.end());
  if (try_to_leave(c, ids, reply) > 0) {
    reply.more = true;
  } else {
    note_pace_.look_again_soon(reply);
  }
}

// One that a trigger refuses is left alone; the others leave.
std::size_t set_store::try_to_leave(connection& c, std::span<std::string const> ids, claim_reply& reply) {
  try {
    return send_leave(c, ids);
  } catch (error const& e) {
    roll_back(c, statements().rollback);
    if (e.transient()) return 0;
    if (ids.size() == 1) reply.refused.push_back({ids.front(), {}, e.what()});
  }
  std::size_t left = 0;
  for (std::size_t i = 0; ids.size() > 1 && i < ids.size(); ++i) left += try_to_leave(c, ids.subspan(i, 1), reply);
  return left;
}

// One group per outcome, and one for each claim with many delivered rows. Rows are in the order of their ids, so that
// two nodes that settle at once lock them in the same order. If a row is named twice, the first settlement counts, as
// if they had come one by one.
settle_reply set_store::settle(std::span<settlement const> items) {
  settle_reply reply{.applied = std::vector<bool>(items.size(), false)};
  if (items.empty()) return reply;
  std::vector<std::size_t> order(items.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) -> std::string const& { return items[i].row.id; });
  grouping const keys{items};
  std::map<grouping::key, settle_group> by_key;
  std::vector<std::size_t> again;
  for (std::size_t at = 0; at < order.size(); ++at) {
    auto const& s = items[order[at]];
    if (at > 0 && items[order[at - 1]].row.id == s.row.id) {
      again.push_back(order[at]);
    } else {
      by_key[keys.group_of(s)].add(order[at], s);
    }
  }
  std::vector<settle_group> groups;
  for (auto& [key, group] : by_key) {
    group.outcome = key.first;
    group.of_one = !key.second.empty();
    groups.push_back(std::move(group));
  }
  left_rows left;
  for (auto const& s : items) {
    if (s.key.empty()) continue;
    left.key.emplace_back(s.key);
    left.id.emplace_back(s.row.id);
    left.seq.push_back(s.seq);
  }
  with_writer([&](connection& c) { send_settle(c, groups, left, reply); });
  for (auto const i : again) reply.applied[i] = settle(items.subspan(i, 1)).applied.front();
  return reply;
}

// In the order of their ids, like settlements, so that the two never wait for each other.
std::vector<bool> set_store::renew(std::span<row_handle const> rows, milliseconds lease) {
  std::vector<bool> kept(rows.size(), false);
  if (rows.empty()) return kept;
  std::multimap<std::pair<std::string_view, std::string_view>, std::size_t> place;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    place.emplace(std::pair<std::string_view, std::string_view>{rows[i].id, rows[i].token}, i);
  }
  std::vector<optional_text> ids;
  std::vector<optional_text> tokens;
  for (auto const& [row, index] : place) {
    ids.emplace_back(row.first);
    tokens.emplace_back(row.second);
  }
  with_writer([&](connection& c) {
    send_renew(c, ids, tokens, lease, [&](row const& r) {
      auto const [first, last] = place.equal_range({r.text(0), r.text(1)});
      for (auto at = first; at != last; ++at) kept[at->second] = true;
      return true;
    });
  });
  return kept;
}

std::vector<place> set_store::places(std::span<std::string const> ids) {
  std::vector<place> all;
  if (ids.empty()) return all;
  with_reader([&](connection& c) {
    all.assign(ids.size(), {.known = false});
    send_places(c, ids, all);
  });
  return all;
}

// Walks the keys and not the rows: of each, the first row in line tells whether it waits for nothing. The thread that
// calls this renews leases too.
std::size_t set_store::heal(std::size_t limit) {
  return healing_.go_on(limit, most_heal_pages, [&](std::string& at, std::size_t) {
    auto after = at;
    std::size_t found = 0;
    with_writer([&](connection& c) {
      after = at;  // it may be tried again
      found = send_heal(c, after, keys_of_a_page);
    });
    at = std::move(after);
    return found;
  });
}

// Notes are cleared before the mark is removed: if this is interrupted, no node of another mode has begun beside them.
// And behind it, because a keyed node may have noted rows until it heard of it.
void set_store::set_keyed(bool keyed) {
  if (keyed) prepare_for_keys();
  if (!keyed) clear_notes();
  sql_store::set_keyed(keyed);
  if (!keyed) clear_notes();
}

void set_store::clear_notes() {
  line_position at;
  for (bool more = true; more;) {
    with_writer([&](connection& c) { more = send_clear_notes(c, at, notes_at_once); });
  }
}

std::size_t set_store::release(std::span<owner_token const> tokens, milliseconds lease) {
  std::size_t rows = 0;
  if (tokens.empty()) return rows;
  with_writer([&](connection& c) { rows = send_release(c, tokens, lease); });
  return rows;
}

}  // namespace outbox::inline v0::sql

#include "mysql/keys.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <unordered_map>
#include <utility>

namespace outbox::inline v0::mysql {
namespace {

// So many rows are locked by one statement.
constexpr std::size_t rows_at_once = 1000;

struct line_row {
  std::int64_t seq;
  std::string id;
  bool blocked, delayed;
};

std::vector<line_row> read_line(MYSQL_RES* rows) {
  using c = neighbour_column;
  std::vector<line_row> line;
  show(rows, [&](sql::row const& r) {
    line.push_back(
        {r.integer(c::seq), std::string{r.text(c::event_id)}, r.integer(c::blocked) != 0, r.integer(c::delayed) != 0});
    return true;
  });
  std::ranges::sort(line, {}, &line_row::seq);
  return line;
}

// Fills in the rows that the line shows. Returns those that may stand further behind.
std::span<std::size_t> place_in(std::span<std::size_t> group, std::vector<line_row> const& line,
                                std::span<asked_row const> rows, std::vector<neighbours>& found) {
  auto const asked_for = group.size() + 1;
  auto const first_seq = rows[group.front()].seq;
  auto const from_there = std::ranges::count_if(line, [&](line_row const& l) { return l.seq >= first_seq; });
  bool const cut = static_cast<std::size_t>(from_there) == asked_for;
  while (!group.empty()) {
    auto const seq = rows[group.front()].seq;
    if (cut && seq > line.back().seq) return group;
    auto const at = std::ranges::lower_bound(line, seq, {}, &line_row::seq);
    auto& n = found[group.front()];
    if (at != line.end() && at->seq == seq) {
      n.in_line = true;
      if (at != line.begin()) {
        n.before = std::prev(at)->seq;
        n.before_id = std::prev(at)->id;
        n.before_is_delayed = std::prev(at)->delayed;
      }
      n.next_blocked = std::next(at) != line.end() && std::next(at)->blocked;
    }
    group = group.subspan(1);
  }
  return group;
}

std::string json_numbers(std::span<std::int64_t const> numbers) {
  std::string text = "[";
  for (auto const n : numbers) text += (text.size() > 1 ? ",[" : "[") + std::to_string(n) + "]";
  return text + "]";
}

template <class F>
void in_pieces(std::size_t count, F&& f) {
  for (std::size_t at = 0; at < count; at += rows_at_once) f(at, std::min(rows_at_once, count - at));
}

}  // namespace

// One statement for each key: the row before the first one that was asked for, and as many from there on as can be
// needed. If others stand between them, the rest is asked again.
std::vector<neighbours> key_order::beside(std::span<asked_row const> rows) const {
  std::vector<neighbours> found(rows.size());
  std::vector<std::size_t> order(rows.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) {
    return std::pair<std::string_view, std::int64_t>{rows[i].key, rows[i].seq};
  });
  std::vector<std::span<std::size_t>> groups;
  for (std::size_t first = 0; first < order.size();) {
    auto end = first + 1;
    while (end < order.size() && rows[order[end]].key == rows[order[first]].key) ++end;
    groups.emplace_back(order.data() + first, end - first);
    first = end;
  }
  while (!groups.empty()) {
    packets p{d_, packet_};
    for (auto const& g : groups) {
      auto const& row = rows[g.front()];
      p.statement([&](sql_text& t) {
        t.statement(s_.around, {std::string_view{row.key}, row.seq, static_cast<std::int64_t>(g.size()) + 1});
      });
    }
    p.flush();
    std::vector<std::span<std::size_t>> rest;
    for (std::size_t i = 0; i < groups.size(); ++i) {
      auto const left = place_in(groups[i], read_line(p.answers[i].rows.get()), rows, found);
      if (!left.empty()) rest.push_back(left);
    }
    groups = std::move(rest);
  }
  return found;
}

// What stands beside a row is read when the row is locked, by a statement of its own. A subquery of the look would read
// from a snapshot that may be older than the row: it would miss a row before it that was committed meanwhile.
void key_order::show_look(MYSQL_RES* rows, instant now, sql::row_chooser& choose) const {
  using c = candidate_column;
  std::vector<asked_row> asked;
  choose.begin(now);
  show(rows, [&](sql::row const& r) {
    choose.begin(r.time(c::now).value_or(now));
    if (!r.null(c::key)) asked.push_back({std::string{r.text(c::key)}, r.integer(c::seq)});
    return true;
  });
  auto const found = beside(asked);
  if (rows == nullptr) return;
  mysql_data_seek(rows, 0);
  std::size_t at = 0;
  show(rows, [&](sql::row const& r) {
    auto seen = candidate_in(r);
    auto const seq = r.integer(c::seq);
    if (r.null(c::key)) return choose.see(seen, {.locator = seq});
    auto const& n = found[at++];
    seen.key = r.text(c::key);
    seen.before = n.before_id;
    seen.next_blocked = n.next_blocked;
    return choose.see(seen, {.locator = seq, .seq = seq, .before_is_delayed = n.before_is_delayed});
  });
}

// First the rows behind each head, without a lock; then those of them that can be locked. One that could not be, or is
// not due any more, ends the run of its head.
void key_order::show_runs(sql::row_chooser& choose) const {
  struct row_behind {
    std::int64_t seq;
    std::string due_at;  ///< Empty: it is blocked.
  };
  std::vector<std::vector<row_behind>> runs;
  packets read{d_, packet_};
  for (auto const& h : choose.heads()) {
    read.statement([&](sql_text& t) {
      t.statement(s_.run, {std::string_view{h.key}, h.seq, static_cast<std::int64_t>(choose.longest_run())});
    });
  }
  read.flush();
  std::vector<std::int64_t> blocked;
  std::vector<row_behind> due;
  for (auto const& a : read.answers) {
    auto& run = runs.emplace_back();
    show(a.rows.get(), [&](sql::row const& r) {
      auto const& one = run.emplace_back(r.integer(0), std::string{r.text(1)});
      if (one.due_at.empty()) {
        blocked.push_back(one.seq);
      } else {
        due.push_back(one);
      }
      return true;
    });
  }
  packets lock{d_, packet_};
  in_pieces(blocked.size(), [&](std::size_t at, std::size_t n) {
    lock.statement(
        [&](sql_text& t) { add_with_rows(t, s_.lock_waiting, json_numbers(std::span{blocked}.subspan(at, n))); });
  });
  in_pieces(due.size(), [&](std::size_t at, std::size_t n) {
    std::string rows = "[";
    for (auto const& r : std::span{due}.subspan(at, n)) {
      rows += (rows.size() > 1 ? ",[" : "[") + std::to_string(r.seq) + ",\"" + r.due_at + "\"]";
    }
    lock.statement([&](sql_text& t) { add_with_rows(t, s_.lock_due, rows + "]"); });
  });
  lock.flush();
  // The texts of a row are in its result only until the next one is read.
  struct copy {
    spi::claim_filter::candidate row;
    std::vector<std::string> texts;
  };
  std::unordered_map<std::int64_t, copy> locked;
  for (auto const& a : lock.answers) {
    show(a.rows.get(), [&](sql::row const& r) {
      auto& one = locked[r.integer(candidate_column::seq)];
      one.row = candidate_in(r);
      one.texts = {std::string{one.row.id}, std::string{one.row.event_type}, std::string{one.row.aggregate_type},
                   std::string{one.row.foreign_owner}};
      one.row.id = one.texts[0];
      one.row.event_type = one.texts[1];
      one.row.aggregate_type = one.texts[2];
      one.row.foreign_owner = one.texts[3];
      return true;
    });
  }
  for (std::size_t i = 0; i < runs.size(); ++i) {
    for (auto const& r : runs[i]) {
      auto const at = locked.find(r.seq);
      bool const ours = at != locked.end();
      if (ours) at->second.row.key = choose.heads()[i].key;
      choose.see_behind(i, ours ? at->second.row : spi::claim_filter::candidate{}, {.locator = r.seq, .seq = r.seq},
                        ours);
      if (!ours) break;
    }
  }
}

// Which rows stand before them is read without locks. A row before another one is that until it leaves the line, so it
// is enough to see, with both locked, that it has not.
std::size_t key_order::note(std::span<std::string const> ids) const {
  auto ask = d_.text();
  add_with_list(ask, s_.waiting, ids);
  std::vector<asked_row> asked;
  std::vector<std::string> due_at;
  show(d_.send(ask).front().rows.get(), [&](sql::row const& r) {
    asked.push_back({std::string{r.text(1)}, r.integer(0)});
    due_at.emplace_back(r.text(2));
    return true;
  });
  auto const found = beside(asked);
  std::string rows;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    if (!found[i].in_line || found[i].before == 0) continue;
    rows += (rows.empty() ? "[[" : ",[") + std::to_string(asked[i].seq) + "," + std::to_string(found[i].before) +
            ",\"" + due_at[i] + "\"]";
  }
  if (rows.empty()) return 0;
  auto t = d_.text();
  add_with_rows(t, blocks_ ? s_.note_block : s_.note, rows + "]");
  t << ";" << s_.noted;
  std::size_t noted = 0;
  try {
    show(d_.send(t).back().rows.get(), [&](sql::row const& r) {
      noted = static_cast<std::size_t>(r.integer(0));
      return false;
    });
  } catch (error const&) {
    end_transaction();
    throw;
  }
  return noted;
}

// At once: the rows before the ones to be noted are those of other nodes.
void key_order::end_transaction() const noexcept {
  try {
    d_.execute("ROLLBACK");
  } catch (std::exception const&) {  // NOLINT(bugprone-empty-catch): the end of the session does the same
  }
}

// Behind the lowest is enough if the rows between them have left in this transaction too. A row between them that is in
// line may be leaving it in another one, which does not see what this one changes: neither would unblock what waits
// behind the highest.
void key_order::add_unblock(packets& p, sql::left_rows const& left, behind which) const {
  p.statement([&](sql_text& t) { t << s_.begin_unblock; });
  std::map<std::string_view, std::int64_t> lowest;
  for (std::size_t i = 0; i < left.key.size(); ++i) {
    std::string_view const key = *left.key[i];
    auto const seq = left.seq[i];
    if (which == behind::lowest) {
      auto& s = lowest.try_emplace(key, seq).first->second;
      s = std::min(s, seq);
    } else {
      p.statement([&](sql_text& t) { t.statement(s_.add_next_if_left, {key, seq, std::string_view{*left.id[i]}}); });
    }
  }
  for (auto const& [key, seq] : lowest) {
    p.statement([&](sql_text& t) { t.statement(s_.add_next, {key, seq}); });
  }
  p.statement([&](sql_text& t) { t << s_.unblock; });
}

std::size_t key_order::let_leave(std::span<std::string const> ids, sql::dialect const& dialect) const {
  auto t = d_.text();
  t << dialect.begin << ";";
  add_with_list(t, s_.delayed, ids);
  sql::left_rows left;
  auto const answers = d_.send(t);
  show(answers.back().rows.get(), [&](sql::row const& r) {
    left.key.emplace_back(r.text(0));
    left.seq.push_back(r.integer(1));
    left.id.emplace_back(r.text(2));
    return true;
  });
  packets p{d_, packet_};
  if (!left.key.empty()) {
    p.statement([&](sql_text& change) {
      change << s_.leave;
      add_numbers(change, sets_.seq, left.seq);
    });
    add_unblock(p, left, behind::each_that_left);  // others stand between them
  }
  p.statement([&](sql_text& end) { end << dialect.commit; });
  p.flush();
  return left.id.size();
}

void key_order::show_places(std::span<std::string const> ids, std::vector<spi::place>& places) const {
  packets p{d_, packet_};
  for (auto const& id : ids) {
    p.statement([&](sql_text& t) { t << s_.forget_place; });
    p.statement([&](sql_text& t) { t.statement(s_.find_place, {std::string_view{id}}); });
    p.statement([&](sql_text& t) { t << s_.place; });
  }
  p.flush();
  for (std::size_t i = 0; i < ids.size(); ++i) {
    show(p.answers[3 * i + 2].rows.get(), [&](sql::row const& r) {
      if (!r.null(0)) places[i] = {r.integer(0), std::string{r.text(1)}};
      return false;
    });
  }
}

// Of each key the lowest row in line.
std::size_t key_order::heal(std::string& after, std::size_t keys) const {
  auto t = d_.text();
  auto const limit = static_cast<std::int64_t>(keys);
  t.statement(s_.heal, {std::string_view{after}, limit}) << ";";
  t.statement(s_.healed_to, {std::string_view{after}, limit});
  auto const answers = d_.send(t);
  show(answers.back().rows.get(), [&](sql::row const& r) {
    after = r.text(0);
    return false;
  });
  return static_cast<std::size_t>(answers[answers.size() - 2].changed);
}

bool key_order::clear_notes(sql::line_position& after, std::size_t limit) const {
  auto t = d_.text();
  t.statement(s_.blocked_page, {std::string_view{after.key}, after.seq, static_cast<std::int64_t>(limit)});
  std::size_t seen = 0;
  std::vector<std::int64_t> blocked;
  auto const answers = d_.send(t);
  show(answers.front().rows.get(), [&](sql::row const& r) {
    ++seen;
    after = {std::string{r.text(0)}, r.integer(1)};
    if (r.integer(2) != 0) blocked.push_back(after.seq);
    return true;
  });
  if (!blocked.empty()) {
    auto change = d_.text();
    change << s_.clear;
    add_numbers(change, sets_.seq, blocked);
    d_.send(change);
  }
  return seen == limit;
}

}  // namespace outbox::inline v0::mysql

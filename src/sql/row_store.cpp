#include "sql/row_store.hpp"

#include <algorithm>
#include <numeric>
#include <outbox/error.hpp>
#include <utility>

#include <outbox/spi/claim_filter.hpp>
#include "sql/sql_rows.hpp"

namespace outbox::inline v0::sql {
namespace {

using std::chrono::milliseconds;

// What `due`, `in_order`, `due_keyed` and `run` select behind the columns of a row.
constexpr int locked_at_index = static_cast<int>(columns_of_a_row);
constexpr int before_index = locked_at_index + 1;
constexpr int next_blocked_index = locked_at_index + 2;
constexpr int in_form_index = locked_at_index + 1;

// Writers wait while rows are noted. The next claim finds the others.
constexpr std::size_t most_notes = 500;

// How many keys a walk of healing looks at without giving other threads the connection, and how far one call goes.
constexpr std::size_t keys_at_once = 1000;
constexpr int most_walk_pages = 200;

instant claimable_at(row_view const& v) noexcept {
  return std::max(v.available_at, v.lease_until.value_or(v.available_at));
}

std::string_view aggregate_type_of(row const& r, int column) {
  return r.null(column) ? global_aggregate : r.text(column);
}

// Rows in the order of the primary key, so that two nodes that settle at once lock them in the same order. A row that
// is named twice keeps its order.
template <class Items, class Key>
std::vector<std::size_t> in_key_order(Items const& items, Key key) {
  std::vector<std::size_t> order(items.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    auto const& x = key(items[a]);
    auto const& y = key(items[b]);
    return std::tie(x.locator, x.id) < std::tie(y.locator, y.id);
  });
  return order;
}

// Several rows, all or none, even if the caller goes on after an error: rows that a failed write left behind would
// carry a token that no node knows.
class all_or_none {
 public:
  all_or_none(connection& c, dialect const& d) : c_{c}, dialect_{d} { c_.execute(dialect_.savepoint); }
  all_or_none(all_or_none const&) = delete;
  all_or_none& operator=(all_or_none const&) = delete;
  ~all_or_none() {
    if (whole_) return;
    try {
      if (c_.in_transaction()) {
        c_.execute(dialect_.rollback_to);
        c_.execute(dialect_.release_savepoint);
      }
    } catch (error const&) {  // NOLINT(bugprone-empty-catch): the first error is the one that counts
    }
  }
  void done() {
    c_.execute(dialect_.release_savepoint);
    whole_ = true;
  }

 private:
  connection& c_;
  dialect const& dialect_;
  bool whole_ = false;
};

// A statement changed some rows of a run and does not tell which, or which must be known first. The transaction is
// rolled back.
struct incomplete_run {};

// Remembers which row it was that the statement could not change.
template <class Seen, class Statement>
void attempt(Seen& row, Statement const& statement) {
  try {
    statement();
  } catch (error const& e) {
    if (!e.transient()) row.error = e.what();
    throw;
  }
}

// The end of the run that begins at `first`: delivered rows of one claim with consecutive numbers.
std::size_t end_of_run(std::span<settlement const> items, std::span<std::size_t const> order, std::size_t first) {
  auto const plain = [](settlement const& s) {
    return s.outcome == outcome::delivered && s.progress.empty() && s.row.locator != 0;
  };
  auto end = first + 1;
  if (!plain(items[order[first]])) return end;
  auto const continues = [&](std::size_t k) {
    auto const& s = items[order[k]].row;
    auto const& before = items[order[k - 1]].row;
    return s.locator == before.locator + 1 && s.token == before.token && plain(items[order[k]]);
  };
  while (end < order.size() && continues(end)) ++end;
  return end;
}

}  // namespace

row_store::row_store(dialect d, row_statements r, done_rows done)
    : sql_store{std::move(d)}, rows_{std::move(r)}, done_{done} {}
row_store::~row_store() = default;

void row_store::insert(transaction_ref tx, std::span<insertion const> rows,
                       std::shared_ptr<insert_receipt> const& receipt) {
  with_caller(tx, [&](connection& c) {
    std::optional<all_or_none> guard;
    if (rows.size() > 1) guard.emplace(c, statements());  // a single statement is atomic by itself
    for (auto const& i : rows) insert_one(c, stored_event{i});
    if (receipt) tell(c, rows, *receipt);
    if (guard) guard->done();
  });
}

void row_store::insert_one(connection& c, stored_event const& e) {
  value const available = e.due.at ? value{*e.due.at} : value{from_now{e.due.after}};
  bool const owned = e.owned();
  c.execute(rows_.insert,
            {e.id, e.type, e.aggregate_type, or_null(e.aggregate_id), or_null(e.tenant), e.payload, or_null(e.headers),
             available, e.created_at, from_now{}, or_null(e.ordering_key), or_null(e.token),
             owned ? value{from_now{}} : value{}, owned ? value{from_now{e.lease}} : value{}, or_null(e.content_type),
             e.json ? value{} : value{blob{e.bytes}}, e.delayed() ? value{} : value{std::int64_t{0}}});
}

// Rows as they were seen. Each is taken only if a claim would still see the same.
struct row_store::candidates {
  enum class fate { open, done, missed, refused };  ///< missed: it has changed since it was seen.
  struct seen {
    owner_token owner;
    std::int64_t status = 0, attempts = 0, crashes = 0;
    std::string available_at{};  ///< As text, to compare.
    bool in_line = false;        ///< In a keyed claim: it is taken only behind what is taken.
    bool follows = false;        ///< Another row of the claim is before it in its line.
    candidates::fate fate = fate::open;
    std::string error{};

    [[nodiscard]] bool left_out() const noexcept { return fate == fate::refused || fate == fate::missed; }
  };
  std::vector<claimed_row> take;
  std::vector<seen> taken_from;  ///< One per row of `take`.
  struct doomed {
    std::int64_t seq;
    dead_row row;
    seen from;
  };
  std::vector<doomed> dead;
  std::vector<doomed> notes;  ///< Rows that wait for another row of their key.
  bool cut = false;           ///< There are more rows to note.
  bool put_out = false;       ///< A row was put outside the order, and the one behind it can be claimed.

  [[nodiscard]] bool empty() const noexcept { return take.empty() && dead.empty() && notes.empty(); }

  void add(row_view&& v, row const& r, owner_token const& token, bool in_line, bool follows, std::string malformed) {
    bool const owned = !v.locked_by.empty() && v.lease_until.has_value();
    taken_from.push_back({.owner = std::move(v.locked_by),
                          .status = r.integer(index_of(column::status)),
                          .attempts = r.integer(index_of(column::attempts)),
                          .crashes = r.integer(index_of(column::crashes)),
                          .available_at = std::string{r.text(index_of(column::available_at))},
                          .in_line = in_line,
                          .follows = follows});
    v.crashes += owned ? 1 : 0;
    auto const locator = v.seq;
    take.push_back(spi::claim_of(std::move(v), token, locator, std::move(malformed)));
  }

  /// In which order they are taken. By number, so that runs are long where keys take turns.
  [[nodiscard]] std::vector<std::size_t> order() const {
    std::vector<std::size_t> all(take.size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    std::ranges::sort(all, {}, [&](std::size_t i) { return take[i].seq; });
    return all;
  }

  // The end of the run that begins at `first` of the order: rows with consecutive numbers that were seen alike. A
  // backlog is mostly long runs, and one statement takes a run for less than its rows cost one by one.
  [[nodiscard]] std::size_t end_of_run(std::span<std::size_t const> order, std::size_t first) const {
    auto const& row = take[order[first]];
    auto const& from = taken_from[order[first]];
    auto const continues = [&](std::size_t k) {
      auto const& r = take[order[k]];
      auto const& f = taken_from[order[k]];
      return !f.left_out() && r.seq == take[order[k - 1]].seq + 1 && f.status == from.status &&
             f.attempts == from.attempts && f.crashes == from.crashes && f.owner == from.owner &&
             f.in_line == from.in_line && r.crashes == row.crashes && r.progress == row.progress;
    };
    auto end = first + 1;
    while (end < order.size() && continues(end)) ++end;
    return end;
  }

  template <class F>
  void each(F&& f) {
    for (auto& k : dead) f(k.from);
    for (auto& n : notes) f(n.from);
    for (auto& t : taken_from) f(t);
  }
};

// Looks first, without a lock, and takes second, in a transaction that does nothing else: writers wait only for the
// taking, however many rows there are to look at.
claim_reply row_store::claim(claim_request const& request) {
  claim_reply reply;
  candidates chosen;
  with_reader([&](connection& c) {
    reply.now = now();
    chosen = choose(c, request, reply);
    look_ahead(c, request, reply);
  });
  if (!chosen.empty()) take_all(request, chosen, reply);
  return reply;
}

// Walks the rows in claim order and stops when the claim has enough: rows behind that cost nothing.
row_store::candidates row_store::choose(connection& c, claim_request const& request, claim_reply& reply) {
  using choice = spi::claim_filter::choice;
  candidates chosen;
  spi::claim_filter filter{request, reply};
  auto const see = [&](row const& r) {
    // Before the whole row is read, which is expensive. One behind another row may have to be noted.
    if (paused(request.pauses, aggregate_type_of(r, index_of(column::aggregate_type)),
               r.text(index_of(column::event_type))) &&
        (!request.keyed || r.null(before_index)))
      return true;
    std::string malformed;
    auto v = read_row(r, malformed);
    auto const key = request.keyed && v.blocked ? spi::key_of(v.event) : std::string{};
    auto seen = spi::candidate_of(v, claimable_at(v), r.time(locked_at_index));
    if (!key.empty()) {
      seen.key = key;
      seen.before = r.text(before_index);
      seen.next_blocked = !r.null(next_blocked_index) && r.integer(next_blocked_index) != 0;
    }
    switch (filter.consider(seen)) {
      case choice::stop: return false;
      case choice::leave: return true;
      case choice::note:
        chosen.notes.push_back({v.seq, {v.event.id(), v.event.type(), v.crashes}, {}});
        chosen.cut = chosen.notes.size() == most_notes;
        return !chosen.cut;
      case choice::dead:
        chosen.dead.push_back(
            {v.seq, {v.event.id(), v.event.type(), v.crashes + (seen.owned ? 1 : 0)}, {std::move(v.locked_by)}});
        return true;
      case choice::take: break;
    }
    auto const seq = v.seq;
    auto const room = filter.room_behind(seen);
    bool const follows = !seen.before.empty();
    chosen.add(std::move(v), r, request.token, !key.empty(), follows, std::move(malformed));
    if (room > 0) follow(c, request, key, seq, room, filter, chosen);
    return true;
  };
  if (request.in_order) {
    c.execute(rows_.in_order, {reply.now}, see);
    return chosen;
  }
  value const floor = request.floor   ? value{*request.floor}
                      : request.reach ? value{reply.now - *request.reach}
                                      : value{std::string_view{""}};
  c.execute(request.keyed ? rows_.due_keyed : rows_.due, {reply.now, floor}, see);
  return chosen;
}

// The run of a row: those behind it that wait for it, without a gap.
void row_store::follow(connection& c, claim_request const& request, std::string const& key, std::int64_t seq,
                       std::size_t room, claim_filter& filter, candidates& chosen) const {
  auto const limit = static_cast<std::int64_t>(std::min<std::size_t>(room, INT64_MAX));
  c.execute(rows_.run, {std::string_view{key}, seq, limit}, [&](row const& r) {
    auto const status = static_cast<event_status>(r.integer(index_of(column::status)));
    bool const pending = status == event_status::created || status == event_status::retry;
    if (!pending || r.integer(index_of(column::blocked)) == 0 || r.integer(in_form_index) == 0) return false;
    std::string malformed;
    auto v = read_row(r, malformed);
    auto seen = spi::candidate_of(v, claimable_at(v), r.time(locked_at_index));
    seen.key = key;
    if (filter.follow(seen) != spi::claim_filter::choice::take) return false;
    chosen.add(std::move(v), r, request.token, true, true, std::move(malformed));
    return true;
  });
}

// One row that cannot be changed must not prevent the claim of the others: the claim is tried again row by row, and
// goes on without it. In order it holds up the rows behind it, as every unfinished row does.
void row_store::take_all(claim_request const& request, candidates& chosen, claim_reply& reply) {
  using fate = candidates::fate;
  constexpr int most_refused = 20;
  bool by_runs = true;
  for (int refused = 0;;) {
    try {
      in_transaction([&](connection& c) { take(c, request, chosen, by_runs); });
      break;
    } catch (incomplete_run const&) {
      by_runs = false;
      chosen.each([](candidates::seen& s) { s.fate = s.fate == fate::done ? fate::open : s.fate; });
    } catch (error const& e) {
      bool found = false;
      chosen.each([&](candidates::seen& s) {
        bool const culprit = s.fate != fate::refused && !s.error.empty();
        // Rows behind the last one that is isolated are left to the next claim.
        s.fate = culprit || s.fate == fate::refused ? fate::refused
                 : found && refused == most_refused ? fate::missed
                 : s.fate == fate::missed           ? fate::missed
                                                    : fate::open;
        found = found || culprit;
      });
      bool const unknown = !found && !std::exchange(by_runs, false);
      if (unknown || e.transient() || request.in_order || refused > most_refused) throw;
      by_runs = false;
      if (!found) continue;
      if (refused++ == most_refused) reply.more = true;
    }
  }
  // Another node was faster; or a trigger ignores the change, and then the next claim would find the same rows again.
  bool any = false;
  chosen.each([&](candidates::seen const& s) { any = any || s.fate != fate::missed; });
  any = any || chosen.put_out;
  reply.more = any && (reply.more || chosen.cut || chosen.put_out);
  for (auto& k : chosen.dead) {
    if (k.from.fate == fate::refused) reply.refused.push_back({k.row.id, k.row.type, k.from.error});
    if (k.from.fate == fate::done) reply.dead.push_back(std::move(k.row));
  }
  for (auto& n : chosen.notes) {
    if (n.from.fate == fate::refused) reply.refused.push_back({n.row.id, n.row.type, n.from.error});
    if (n.from.fate == fate::done) reply.noted += 1;
  }
  if (request.keyed)
    note_pace_.claimed(chosen.notes.size(), reply.noted, reply);  // the row before one has left the line
  for (std::size_t i = 0; i < chosen.take.size(); ++i) {
    auto& t = chosen.take[i];
    auto const& from = chosen.taken_from[i];
    if (from.fate == fate::refused) reply.refused.push_back({t.handle.id, t.event.type(), from.error});
    if (from.fate == fate::done) reply.rows.push_back(std::move(t));
  }
}

void row_store::take(connection& c, claim_request const& request, candidates& chosen, bool by_runs) {
  using fate = candidates::fate;
  for (auto& k : chosen.dead) {
    if (k.from.left_out()) continue;
    attempt(k.from, [&] {
      auto const why = spi::crash_budget_exhausted(k.row.crashes);
      bool const done =
          c.execute(rows_.make_dead, {from_now{}, std::string_view{why}, k.seq, or_null(k.from.owner)}) > 0;
      k.from.fate = done ? fate::done : fate::missed;
    });
  }
  auto const order = chosen.order();
  for (std::size_t k = 0, end = 0; k < order.size(); k = end) {
    end = k + 1;
    auto& first = chosen.taken_from[order[k]];
    if (first.left_out()) continue;
    if (by_runs) end = chosen.end_of_run(order, k);
    auto const run = std::span{order}.subspan(k, end - k);
    if (run.size() > 1) {
      take_run(c, request, chosen, run);
    } else {
      attempt(first, [&] { take_run(c, request, chosen, run); });
    }
  }
  note_all(c, chosen);
}

// Looks again at what stands before each row. A row of another program that was written with a delay would hold up its
// key until it is due: it is put outside the order instead.
void row_store::note_all(connection& c, candidates& chosen) {
  using fate = candidates::fate;
  chosen.put_out = false;  // it may be tried again
  for (auto& n : chosen.notes) {
    if (n.from.left_out()) continue;
    attempt(n.from, [&] {
      n.from.fate = c.execute(rows_.note, {from_now{}, n.seq}) > 0 ? fate::done : fate::missed;
      if (n.from.fate == fate::missed && c.execute(rows_.put_out_before, {from_now{}, n.seq}) > 0) {
        chosen.put_out = true;
      }
    });
  }
}

void row_store::take_run(connection& c, claim_request const& request, candidates& chosen,
                         std::span<std::size_t const> run) {
  using fate = candidates::fate;
  auto const seen = [&](std::size_t i) -> candidates::seen& { return chosen.taken_from[i]; };
  auto const& row = chosen.take[run.front()];
  auto const& from = seen(run.front());
  auto const first = row.seq;
  auto const last = chosen.take[run.back()].seq;
  auto const token = std::string_view{request.token};
  auto const due = [&](std::size_t i) { return std::string_view{seen(i).available_at}; };
  auto const [earliest, latest] = std::ranges::minmax_element(run, {}, due);
  auto const changed = c.change(
      from.in_line ? rows_.take_in_line : rows_.take,
      {token, from_now{}, from_now{request.lease}, first, last, std::int64_t{row.crashes}, from.status, from.attempts,
       from.crashes, or_null(from.owner), std::string_view{row.progress}, due(*earliest), due(*latest)});
  bool const some = changed != 0 && changed != run.size();
  // One of a key that was not taken must not leave those behind it taken.
  if (some && std::ranges::any_of(run, [&](std::size_t i) { return seen(i).follows; })) throw incomplete_run{};
  for (auto const i : run) seen(i).fate = changed == run.size() ? fate::done : fate::missed;
  if (!some) return;
  // Some of them have changed. The token says which ones are taken: no other claim has it.
  c.execute(rows_.taken, {first, last, token}, [&](sql::row const& r) {
    seen(run[static_cast<std::size_t>(r.integer(0) - first)]).fate = fate::done;
    return true;
  });
}

void row_store::look_ahead(connection& c, claim_request const& request, claim_reply& reply) {
  auto const earlier = [&](std::optional<instant> at) {
    if (at && (!reply.next_due || *at < *reply.next_due)) reply.next_due = at;
  };
  // Passes over at most a thousand paused rows. If there are more, the poller looks again when the last of those is
  // due.
  int passed = 0;
  c.execute(rows_.next_due, {reply.now}, [&](row const& r) {
    if (++passed < 1000 && paused(request.pauses, aggregate_type_of(r, 2), r.text(1))) return true;
    earlier(r.time(0));
    return false;
  });
  if (request.skip_recent.count() == 0) return;
  c.execute(rows_.next_grown, {reply.now, reply.now - request.skip_recent}, [&](row const& r) {
    auto const at = r.time(0);
    earlier(at ? std::optional{*at + request.skip_recent} : std::nullopt);
    return false;
  });
}

std::int64_t row_store::settle_one(connection& c, settlement const& s) {
  value const seq = s.row.locator;
  value const id = std::string_view{s.row.id};
  value const token = std::string_view{s.row.token};
  value const counted = std::int64_t{s.counted};
  value const error = std::string_view{s.error};
  value const progress = or_null(s.progress);
  switch (s.outcome) {
    case outcome::delivered:
      if (done_ == done_rows::erase) return c.execute(rows_.settle_erased, {seq, id, token});
      return c.execute(rows_.settle_done, {from_now{}, progress, seq, id, token});
    case outcome::retry:
      return c.execute(rows_.settle_retry, {counted, from_now{s.delay}, error, progress, seq, id, token});
    case outcome::defer:
      return c.execute(rows_.settle_defer, {from_now{s.delay}, or_null(s.error), progress, seq, id, token});
    case outcome::dead:
      return c.execute(rows_.settle_dead,
                       {counted, from_now{}, error, progress, seq, id, token, std::int64_t{!s.key.empty()}});
    case outcome::release: return c.execute(rows_.settle_release, {seq, id, token});
  }
  return 0;
}

std::int64_t row_store::settle_run(connection& c, settlement const& first, settlement const& last) {
  auto const token = std::string_view{first.row.token};
  if (done_ == done_rows::erase) {
    return c.execute(rows_.settle_erased_run, {first.row.locator, last.row.locator, token});
  }
  return c.execute(rows_.settle_done_run, {from_now{}, first.row.locator, last.row.locator, token});
}

settle_reply row_store::settle(std::span<settlement const> items) {
  if (items.empty()) return {};
  auto const order = in_key_order(items, [](settlement const& s) -> row_handle const& { return s.row; });
  try {
    return settle(items, order, true);
  } catch (incomplete_run const&) {
    return settle(items, order, false);
  }
}

settle_reply row_store::settle(std::span<settlement const> items, std::span<std::size_t const> order, bool by_runs) {
  settle_reply reply{.applied = std::vector<bool>(items.size(), false)};
  in_transaction([&](connection& c) {
    for (std::size_t k = 0, end = 0; k < order.size(); k = end) {
      end = by_runs ? end_of_run(items, order, k) : k + 1;
      if (end - k == 1) {
        reply.applied[order[k]] = settle_one(c, items[order[k]]) > 0;
        continue;
      }
      auto const changed = settle_run(c, items[order[k]], items[order[end - 1]]);
      if (static_cast<std::size_t>(changed) != end - k) throw incomplete_run{};
      for (auto const i : order.subspan(k, end - k)) reply.applied[i] = true;
    }
    reply.unblocked = unblock(c, items);
  });
  return reply;
}

std::vector<bool> row_store::renew(std::span<row_handle const> rows, milliseconds lease) {
  std::vector<bool> kept(rows.size(), false);
  if (rows.empty()) return kept;
  auto const order = in_key_order(rows, [](row_handle const& h) -> row_handle const& { return h; });
  in_transaction([&](connection& c) {
    for (auto const i : order) {
      auto const& h = rows[i];
      kept[i] = c.execute(rows_.renew, {from_now{}, from_now{lease}, h.locator, std::string_view{h.id},
                                        std::string_view{h.token}}) > 0;
    }
  });
  return kept;
}

std::size_t row_store::release(std::span<owner_token const> tokens, std::chrono::milliseconds lease) {
  std::size_t rows = 0;
  in_transaction([&](connection& c) {
    rows = 0;  // it may be tried again
    for (auto const& t : tokens) rows += c.change(rows_.release, {std::string_view{t}, from_now{}, from_now{lease}});
  });
  return rows;
}

// Looks without a lock and changes only what it has found. The thread that calls this renews leases too.
std::size_t row_store::heal(std::size_t limit) {
  return healing_.go_on(limit, most_walk_pages, [&](std::string& at, std::size_t most) {
    auto found = look_at_heads(at, most);
    std::size_t changed = 0;
    if (!found.strays.empty()) {
      in_transaction([&](connection& c) {
        changed = 0;  // it may be tried again
        for (auto const seq : found.strays) changed += c.change(rows_.unblock_head, {from_now{}, seq});
      });
    }
    at = std::move(found.last);
    return changed;
  });
}

row_store::page_of_keys row_store::look_at_heads(std::string_view after, std::size_t most) {
  page_of_keys found;
  with_reader([&](connection& c) {
    found = {};
    std::size_t keys = 0;
    c.execute(rows_.heads, {after, static_cast<std::int64_t>(keys_at_once)}, [&](row const& r) {
      ++keys;
      found.last = r.text(0);
      if (r.integer(2) != 0) found.strays.push_back(r.integer(1));
      return found.strays.size() < most;
    });
    if (keys < keys_at_once && found.strays.size() < most) found.last.clear();
  });
  return found;
}

void row_store::clear_notes() {
  constexpr std::size_t at_once = 1000;
  for (bool changed = true; std::exchange(changed, false);) {
    auto rows = numbers(rows_.blocked, {});
    std::ranges::sort(rows);  // they become due in this order
    for (std::size_t i = 0; i < rows.size(); i += at_once) {
      auto const some = std::span{rows}.subspan(i, std::min(at_once, rows.size() - i));
      in_transaction([&](connection& c) {
        for (auto const seq : some) changed = c.change(rows_.clear_note, {from_now{}, seq}) > 0 || changed;
      });
    }
  }
}

std::vector<std::int64_t> row_store::numbers(std::string const& statement, std::initializer_list<value> parameters) {
  std::vector<std::int64_t> found;
  with_reader([&](connection& c) {
    found.clear();
    c.execute(statement, parameters, [&](row const& r) {
      found.push_back(r.integer(0));
      return true;
    });
  });
  return found;
}

}  // namespace outbox::inline v0::sql

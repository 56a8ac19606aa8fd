#include "sql/row_store.hpp"

#include <algorithm>
#include <numeric>
#include <outbox/error.hpp>

#include <outbox/spi/claim_filter.hpp>
#include "sql/sql_rows.hpp"

namespace outbox::inline v0::sql {
namespace {

using std::chrono::milliseconds;

// What `due` and `in_order` select behind the columns of a row.
constexpr int claimable_index = static_cast<int>(columns_of_a_row);
constexpr int locked_at_index = claimable_index + 1;

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

// Rows as they were seen. Each is taken only if it has not changed since.
struct row_store::candidates {
  enum class fate { open, done, missed, refused };  ///< missed: it has changed since it was seen.
  struct seen {
    owner_token owner;
    std::string available_at;  ///< As text, to compare: every settlement changes it.
    candidates::fate fate = fate::open;
    std::string error{};
  };
  std::vector<claimed_row> take;
  std::vector<seen> taken_from;  ///< One per row of `take`.
  struct doomed {
    std::int64_t seq;
    dead_row row;
    seen from;
  };
  std::vector<doomed> dead;

  [[nodiscard]] bool empty() const noexcept { return take.empty() && dead.empty(); }

  template <class F>
  void each(F&& f) {
    for (auto& k : dead) f(k.from);
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
    // Before the whole row is read, which is expensive.
    if (paused(request.pauses, aggregate_type_of(r, index_of(column::aggregate_type)),
               r.text(index_of(column::event_type))))
      return true;
    std::string malformed;
    auto v = read_row(r, malformed);
    auto const seen = spi::candidate_of(v, r.time(claimable_index).value_or(reply.now), r.time(locked_at_index));
    bool const owned = seen.owned;
    switch (filter.consider(seen)) {
      case choice::stop: return false;
      case choice::leave: return true;
      case choice::dead:
        chosen.dead.push_back(
            {v.seq, {v.event.id(), v.event.type(), v.crashes + (owned ? 1 : 0)}, {std::move(v.locked_by), {}}});
        return true;
      case choice::take: break;
    }
    chosen.taken_from.push_back({std::move(v.locked_by), std::string{r.text(index_of(column::available_at))}});
    v.crashes += owned ? 1 : 0;
    auto const locator = v.seq;
    chosen.take.push_back(spi::claim_of(std::move(v), request.token, locator, std::move(malformed)));
    return true;
  };
  if (request.in_order) {
    c.execute(rows_.in_order, {reply.now}, see);
    return chosen;
  }
  value const floor = request.floor   ? value{*request.floor}
                      : request.reach ? value{reply.now - *request.reach}
                                      : value{std::string_view{""}};
  c.execute(rows_.due, {reply.now, floor}, see);
  return chosen;
}

// One row that cannot be changed must not prevent the claim of the others: the claim goes on without it. In order it
// holds up the rows behind it, as every unfinished row does.
void row_store::take_all(claim_request const& request, candidates& chosen, claim_reply& reply) {
  using fate = candidates::fate;
  constexpr int most_refused = 20;
  for (int refused = 0;; ++refused) {
    try {
      in_transaction([&](connection& c) { take(c, request, chosen); });
      break;
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
      if (!found || e.transient() || request.in_order || refused > most_refused) throw;
      if (refused == most_refused) reply.more = true;
    }
  }
  // Another node was faster; or a trigger ignores the change, and then the next claim would find the same rows again.
  bool any = false;
  chosen.each([&](candidates::seen const& s) { any = any || s.fate != fate::missed; });
  if (!any) reply.more = false;
  for (auto& k : chosen.dead) {
    if (k.from.fate == fate::refused) reply.refused.push_back({k.row.id, k.row.type, k.from.error});
    if (k.from.fate == fate::done) reply.dead.push_back(std::move(k.row));
  }
  for (std::size_t i = 0; i < chosen.take.size(); ++i) {
    auto& t = chosen.take[i];
    auto const& from = chosen.taken_from[i];
    if (from.fate == fate::refused) reply.refused.push_back({t.handle.id, t.event.type(), from.error});
    if (from.fate == fate::done) reply.rows.push_back(std::move(t));
  }
}

void row_store::take(connection& c, claim_request const& request, candidates& chosen) {
  using fate = candidates::fate;
  auto const change = [&](candidates::seen& row, std::string const& sql, std::initializer_list<value> values) {
    if (row.fate == fate::refused || row.fate == fate::missed) return;
    try {
      row.fate = c.execute(sql, values) > 0 ? fate::done : fate::missed;
    } catch (error const& e) {
      if (!e.transient()) row.error = e.what();
      throw;
    }
  };
  for (auto& k : chosen.dead) {
    auto const why = spi::crash_budget_exhausted(k.row.crashes);
    change(k.from, rows_.make_dead, {from_now{}, std::string_view{why}, k.seq, or_null(k.from.owner)});
  }
  for (std::size_t i = 0; i < chosen.take.size(); ++i) {
    auto& from = chosen.taken_from[i];
    change(from, rows_.take,
           {std::string_view{request.token}, from_now{}, from_now{request.lease}, chosen.take[i].handle.locator,
            or_null(from.owner), std::string_view{from.available_at}});
  }
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

settle_reply row_store::settle(std::span<settlement const> items) {
  settle_reply reply{.applied = std::vector<bool>(items.size(), false)};
  if (items.empty()) return reply;
  auto const order = in_key_order(items, [](settlement const& s) -> row_handle const& { return s.row; });
  in_transaction([&](connection& c) {
    for (auto const i : order) reply.applied[i] = settle_one(c, items[i]) > 0;
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

}  // namespace outbox::inline v0::sql

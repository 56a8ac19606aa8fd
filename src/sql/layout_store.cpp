#include "sql/layout_store.hpp"

#include <algorithm>
#include <deque>
#include <outbox/error.hpp>
#include <outbox/spi/claim_filter.hpp>
#include <outbox/spi/codecs.hpp>
#include <unordered_set>
#include <utility>

#include "sql/layout_events.hpp"
#include "sql/sql_rows.hpp"

namespace outbox::inline v0::sql {
namespace {

using std::chrono::milliseconds;
using choice = claim_filter::choice;

// One INSERT has at most this many rows and about this many bytes.
constexpr std::size_t rows_of_an_insert = 200;
constexpr std::size_t bytes_of_an_insert = 4U << 20U;

// The widest look for rows that a claim may take, if it must leave many.
constexpr std::size_t widest_look = 100'000;

// The text of a row's parameters with its numbers moved up.
std::string numbered_from(std::string_view row, std::size_t first) {
  std::string text;
  for (std::size_t at = 0; at < row.size(); ++at) {
    text += row[at];
    if (row[at] != '?') continue;
    std::size_t number = 0;
    while (at + 1 < row.size() && row[at + 1] >= '0' && row[at + 1] <= '9') {
      number = number * 10 + static_cast<std::size_t>(row[++at] - '0');
    }
    text += std::to_string(number + first);
  }
  return text;
}

bool ends(outcome o) noexcept { return o == outcome::delivered || o == outcome::dead; }

std::string remarks_about(table_layout const& l) {
  std::string text = "the table is served as it is:";
  for (auto const& cost : costs_of(l)) text += " " + cost + ";";
  text.back() = '.';
  return text;
}

std::vector<std::string> ids_of(std::span<row_handle const> rows) {
  std::vector<std::string> ids;
  for (auto const& r : rows) ids.push_back(r.id);
  return ids;
}

// The lock of the database, and the leases that are in memory.
class memory_lock final : public dispatch_lock {
 public:
  memory_lock(std::unique_ptr<dispatch_lock> lock, std::shared_ptr<row_memory> memory, std::shared_ptr<clock const> c,
              std::string_view incarnation)
      : lock_{std::move(lock)}, memory_{std::move(memory)}, clock_{std::move(c)}, incarnation_{incarnation} {}

  bool held() const noexcept override { return lock_->held(); }
  bool renew() override { return lock_->renew(); }
  std::size_t expire_others() override {
    if (!lock_->held()) throw error{errc::unavailable, "the dispatch lock was lost"};
    return memory_->expire_others(incarnation_, clock_->now());
  }
  std::string key() const override { return lock_->key(); }

 private:
  std::unique_ptr<dispatch_lock> lock_;
  std::shared_ptr<row_memory> memory_;
  std::shared_ptr<clock const> clock_;
  std::string incarnation_;
};

}  // namespace

// What a look shows of a pending row.
struct layout_store::seen_row {
  std::string id, event_type, aggregate_type;
  instant created_at{};
  std::size_t bytes = 0;
};

// What a claim has marked in memory.
struct layout_store::chosen {
  std::vector<std::string> take;  ///< In the order of the claim.
  std::vector<dead_row> dead;
};

layout_store::layout_store(table_layout l, layout_forms const& f, std::string full_name)
    : layout_store{l, f, make_statements(l, f), std::move(full_name)} {}

layout_store::layout_store(table_layout l, layout_forms const& f, layout_statements s, std::string full_name)
    : sql_store{s.shared},
      layout_{std::move(l)},
      sql_{std::move(s)},
      finish_{f.finish},
      partial_{f.partial},
      full_name_{std::move(full_name)},
      remarks_{remarks_about(layout_)},
      clock_{layout_.clock ? layout_.clock : machine_clock()} {}

layout_store::~layout_store() = default;

store_capabilities layout_store::capabilities() const noexcept {
  return {.kind = statements().kind,
          .table = full_name_,
          .event_filters = true,
          .event_types = true,
          .findings = true,
          .owners_in_table = false,
          .remarks = remarks_,
          .pauses = false,
          .uuid_ids = layout_.ids == id_kind::uuid};
}

void layout_store::unsupported(std::string_view what) const {
  throw error{errc::unsupported,
              std::string{what} + " is not possible on table '" + layout_.table + "': it has no companion tables"};
}

void layout_store::insert(transaction_ref tx, std::span<insertion const> rows,
                          std::shared_ptr<insert_receipt> const& receipt) {
  if (receipt) unsupported("an order per key");
  std::vector<std::string> payloads;
  for (auto const& r : rows) {
    check_event(layout_, *r.event);
    payloads.push_back(payload_of(layout_, *r.event));
  }
  with_caller(tx, [&](connection& c) {
    if (rows.size() <= rows_of_an_insert || !partial_) return insert_pieces(c, rows, payloads);
    c.execute(statements().savepoint);
    try {
      insert_pieces(c, rows, payloads);
    } catch (error const&) {
      // Some errors have ended the transaction. A second error would hide the first.
      try {
        if (c.in_transaction()) c.execute(statements().rollback_to);
      } catch (error const&) {  // NOLINT(bugprone-empty-catch): the first error is the one that counts
      }
      throw;
    }
    c.execute(statements().release_savepoint);
  });
}

void layout_store::insert_pieces(connection& c, std::span<insertion const> rows,
                                 std::span<std::string const> payloads) {
  for (std::size_t at = 0; at < rows.size();) {
    auto sql = sql_.insert;
    std::vector<value> values;
    std::deque<std::string> headers;  // a deque does not move its elements
    auto const first = at;
    for (std::size_t bytes = 0; at < rows.size() && at - first < rows_of_an_insert && bytes < bytes_of_an_insert;
         ++at) {
      auto const& e = *rows[at].event;
      sql += (at == first ? "" : ", ") + numbered_from(sql_.insert_row, values.size());
      values.insert(values.end(),
                    {std::string_view{e.id()}, std::string_view{e.type()}, std::string_view{e.aggregate_type()},
                     or_null(e.aggregate_id()), std::string_view{payloads[at]}, e.occurred_at()});
      if (!layout_.tenant.empty()) values.push_back(or_null(e.tenant()));
      if (!layout_.headers.empty()) values.push_back(or_null(headers.emplace_back(encode_headers(e.headers()))));
      bytes += e.size_bytes();
    }
    send_insert(c, finish_(sql), values, at - first);
  }
}

std::vector<layout_store::seen_row> layout_store::look(std::size_t window) {
  std::vector<seen_row> seen;
  with_reader([&](connection& c) {
    seen.clear();  // it may be tried again
    c.execute(sql_.look, {static_cast<std::int64_t>(window)}, [&](row const& r) {
      seen.push_back({std::string{r.text(0)}, std::string{r.text(1)}, std::string{r.text(2)},
                      r.time(3).value_or(instant{}), static_cast<std::size_t>(r.integer(4))});
      return true;
    });
  });
  return seen;
}

// Shows the rows to the rule of claims, and marks what it takes.
void layout_store::mark(claim_request const& request, std::vector<seen_row> const& seen, claim_reply& reply,
                        chosen& into) {
  memory_->with([&](row_memory::rows& all) {
    claim_filter filter{request, reply};
    for (auto const& s : seen) {
      auto const known = all.find(s.id);
      remembered_row const* const m = known == all.end() ? nullptr : &known->second;
      bool const owned = m != nullptr && !m->owner.empty();
      auto const claimable_at = m != nullptr ? m->claimable_at() : std::min(s.created_at, reply.now);
      if (!request.in_order && claimable_at > reply.now) continue;
      if (m == nullptr && all.size() >= layout_.remembered) continue;
      auto const grown = s.created_at + request.skip_recent;
      if (request.skip_recent.count() > 0 && grown > reply.now && (!reply.next_due || grown < *reply.next_due)) {
        reply.next_due = grown;
      }
      auto const what = filter.consider({.id = s.id,
                                         .event_type = s.event_type,
                                         .aggregate_type = s.aggregate_type,
                                         .owned = owned,
                                         .tried = m != nullptr && (m->retry || !m->error.empty()),
                                         .crashes = m == nullptr ? 0 : m->crashes,
                                         .inserted_at = s.created_at,
                                         .claimable_at = claimable_at,
                                         .bytes = s.bytes + s.id.size() + s.event_type.size()});
      if (what == choice::stop) return;
      if (what == choice::leave) continue;
      auto& r = all[s.id];
      if (m == nullptr) r = {.event_type = s.event_type, .aggregate_type = s.aggregate_type, .due = claimable_at};
      r.crashes += owned ? 1 : 0;
      r.owner = request.token;
      r.lease_until = reply.now + request.lease;
      if (what == choice::take) into.take.push_back(s.id);
      if (what == choice::dead) into.dead.push_back({s.id, s.event_type, r.crashes});
    }
  });
}

// The look gets wider if rows that must be left fill it.
layout_store::chosen layout_store::choose(claim_request const& request, claim_reply& reply) {
  auto const known = memory_->with([](row_memory::rows const& all) { return all.size(); });
  for (auto window = request.limit + known + 1;; window *= 8) {
    reply = {.now = clock_now()};
    chosen c;
    auto const seen = look(window);
    bool const all = seen.size() < window;
    mark(request, seen, reply, c);
    if (all) {
      std::unordered_set<std::string> ids;
      for (auto const& s : seen) ids.insert(s.id);
      memory_->keep_only(ids);
    }
    bool const enough = all || !c.take.empty() || !c.dead.empty() || request.in_order || window > widest_look;
    if (!enough) continue;
    if (!all && !c.take.empty()) reply.more = true;
    return c;
  }
}

void layout_store::make_dead(chosen const& c, claim_reply& reply) {
  for (auto const& d : c.dead) {
    auto const why = crash_budget_exhausted(d.crashes);
    std::size_t rows = 0;
    with_writer([&](connection& on) {
      rows = on.change(sql_.settle_dead, {std::string_view{d.id}, std::string_view{why}, std::int64_t{0}});
    });
    memory_->forget(d.id);
    if (rows > 0) reply.dead.push_back(d);
  }
}

// A row that is not pending any more was settled since the look: it is no longer remembered.
void layout_store::fetch(claim_request const& request, chosen const& c, claim_reply& reply) {
  if (c.take.empty()) return;
  auto const ids = encode_names(c.take);
  std::unordered_map<std::string, claimed_row> found;
  with_reader([&](connection& on) {
    found.clear();
    on.execute(sql_.fetch, {std::string_view{ids}}, [&](row const& r) {
      std::string malformed;
      auto view = read_row(r, malformed);
      overlay(view);
      auto id = view.event.id();
      found.emplace(std::move(id), claim_of(std::move(view), request.token, 0, std::move(malformed)));
      return true;
    });
  });
  for (auto const& id : c.take) {
    if (auto const at = found.find(id); at != found.end()) {
      reply.rows.push_back(std::move(at->second));
    } else {
      memory_->forget(id);
    }
  }
}

claim_reply layout_store::claim(claim_request const& request) {
  std::lock_guard const lock{claim_mutex_};
  claim_reply reply;
  auto const c = choose(request, reply);
  make_dead(c, reply);
  fetch(request, c, reply);
  if (auto const next = memory_->next_due(reply.now, request.pauses);
      next && (!reply.next_due || *next < *reply.next_due)) {
    reply.next_due = next;
  }
  return reply;
}

std::vector<std::string> layout_store::pending_of(std::span<row_handle const> rows) {
  std::vector<std::string> pending;
  if (rows.empty()) return pending;
  auto const ids = encode_names(ids_of(rows));
  with_reader([&](connection& c) {
    pending.clear();
    c.execute(sql_.pending_of, {std::string_view{ids}}, [&](row const& r) {
      pending.emplace_back(r.text(0));
      return true;
    });
  });
  std::ranges::sort(pending);
  return pending;
}

// In memory, as a settlement leaves a row that goes on.
void layout_store::remember(settlement const& s) {
  auto const now = clock_now();
  if (s.outcome == outcome::release) return memory_->release(s.row.id, now);
  memory_->with([&](row_memory::rows& all) {
    auto const at = all.find(s.row.id);
    if (at == all.end()) return;
    auto& r = at->second;
    r.owner.clear();
    r.lease_until.reset();
    r.due = now + s.delay;
    r.crashes = 0;
    r.progress = s.progress;
    if (s.outcome == outcome::retry || !s.error.empty()) r.error = s.error;
    r.retry = s.outcome == outcome::retry;
    if (layout_.attempts.empty()) r.attempts += s.counted;
    if (r.says_nothing(now)) all.erase(at);
  });
}

// Sends what changes the table, in one transaction. Delivered rows go together; only if some of them are not pending
// any more, one by one, to find out which.
void layout_store::settle_all(std::span<settlement const> items, std::vector<bool> const& owned, bool one_by_one,
                              settle_reply& reply) {
  std::vector<std::string> done;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (owned[i] && items[i].outcome == outcome::delivered) done.push_back(items[i].row.id);
  }
  bool again = false;
  in_transaction([&](connection& c) {
    again = false;
    reply.applied.assign(items.size(), false);
    auto const deliver = [&](std::vector<std::string> const& ids) {
      auto const list = encode_names(ids);
      return c.change(sql_.settle_done, {from_now{}, std::string_view{list}}) == ids.size();
    };
    bool const together = !one_by_one && !done.empty();
    again = together && !deliver(done);
    if (again) return;
    for (std::size_t i = 0; i < items.size(); ++i) {
      auto const& s = items[i];
      if (!owned[i]) continue;
      if (s.outcome == outcome::delivered) reply.applied[i] = together || deliver({s.row.id});
      if (s.outcome == outcome::dead) {
        reply.applied[i] = c.change(sql_.settle_dead, {std::string_view{s.row.id}, std::string_view{s.error},
                                                       std::int64_t{s.counted}}) > 0;
      }
      if (s.outcome == outcome::retry && s.counted != 0 && !sql_.count_retry.empty()) {
        c.execute(sql_.count_retry, {std::string_view{s.row.id}, std::int64_t{s.counted}});
      }
    }
  });
  if (again) settle_all(items, owned, true, reply);
}

settle_reply layout_store::settle(std::span<settlement const> items) {
  settle_reply reply;
  reply.applied.assign(items.size(), false);
  std::vector<bool> owned(items.size(), false);
  std::vector<row_handle> going_on;
  std::unordered_set<std::string_view> ids;
  bool writes = false;
  for (std::size_t i = 0; i < items.size(); ++i) {
    auto const& s = items[i];
    owned[i] = memory_->owns(s.row) && ids.insert(s.row.id).second;
    if (!owned[i]) continue;
    if (!ends(s.outcome)) going_on.push_back(s.row);
    writes = writes || ends(s.outcome) || (s.outcome == outcome::retry && !sql_.count_retry.empty());
  }
  auto const pending = pending_of(going_on);
  if (writes) settle_all(items, owned, false, reply);
  for (std::size_t i = 0; i < items.size(); ++i) {
    auto const& s = items[i];
    if (!owned[i]) continue;
    bool const goes_on = !ends(s.outcome) && std::ranges::binary_search(pending, s.row.id);
    if (goes_on) {
      reply.applied[i] = true;
      remember(s);
    } else {
      memory_->forget(s.row.id);  // it is finished, or another program has changed it
    }
  }
  return reply;
}

std::vector<bool> layout_store::renew(std::span<row_handle const> rows, milliseconds lease) {
  auto const pending = pending_of(rows);
  auto const until = clock_now() + lease;
  std::vector<bool> kept;
  for (auto const& r : rows) {
    bool const there = std::ranges::binary_search(pending, r.id);
    if (!there && memory_->owns(r)) memory_->forget(r.id);
    kept.push_back(there && memory_->renew(r, until));
  }
  return kept;
}

std::size_t layout_store::release(std::span<owner_token const> tokens, milliseconds lease) {
  auto const now = clock_now();
  return memory_->release(tokens, now, now + lease);
}

std::unique_ptr<dispatch_lock> layout_store::try_dispatch_lock(std::string_view incarnation, milliseconds /*lease*/) {
  auto lock = try_lock(incarnation);
  if (!lock) return nullptr;
  return std::make_unique<memory_lock>(std::move(lock), memory_, clock_, incarnation);
}

void layout_store::overlay(row_view& r) {
  if (r.status != event_status::created) return;
  auto m = memory_->find(r.event.id());
  if (!m) return;
  if (layout_.attempts.empty()) r.attempts = m->attempts;
  r.crashes = m->crashes;
  r.available_at = m->due;
  r.locked_by = std::move(m->owner);
  r.lease_until = m->lease_until;
  r.last_error = std::move(m->error);
  r.progress = std::move(m->progress);
  if (m->retry) r.status = event_status::retry;
}

void layout_store::check_shape() {
  try {
    with_reader([&](connection& c) {
      c.execute(sql_.shared.find, {std::string_view{"00000000-0000-0000-0000-000000000000"}});
      c.execute(sql_.look, {std::int64_t{0}});
    });
  } catch (error const& e) {
    if (e.transient()) throw;
    throw error{errc::store_failure, "table '" + full_name_ + "' is not as its layout describes it: " + e.what(),
                std::string{e.sqlstate()}};
  }
}

void check_options_of_layout(table_layout const& l, std::string_view table, done_rows done) {
  check(l);
  if (table != "outbox_event") {
    throw error::about(errc::invalid_option, "table", "is set, and the layout names the table");
  }
  if (done != done_rows::keep) {
    throw error::about(errc::invalid_option, "done_rows", "must be keep on a table that has a layout");
  }
}

void refuse_to_migrate(table_layout const& l) {
  throw error{errc::unsupported,
              "table '" + l.table + "' has a layout: another program created it, and migrate never " + "changes it"};
}

}  // namespace outbox::inline v0::sql

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <numeric>
#include <outbox/error.hpp>
#include <outbox/postgres.hpp>
#include <unordered_map>

#include <outbox/spi/claim_filter.hpp>
#include <outbox/spi/codecs.hpp>
#include "core/base/log_book.hpp"
#include "postgres/columns.hpp"
#include "postgres/dispatch_lock.hpp"
#include "postgres/driver.hpp"
#include "postgres/migrate.hpp"
#include "postgres/pool.hpp"
#include "postgres/statements.hpp"
#include "postgres/wake.hpp"
#include "postgres/watch.hpp"
#include "sql/sql_rows.hpp"
#include "sql/sql_store.hpp"
#include "sql/table_name.hpp"

namespace outbox::inline v0::postgres {
namespace {

using sql::value;

// Of a conflict between our own statements and others.
constexpr int most_attempts = 4;

// One write_all is sent in pieces of at most this.
constexpr std::size_t most_rows = 1000;
constexpr std::size_t most_bytes = 8U << 20U;

// Of finding rows that cannot be claimed: six each, if a claim takes fifty.
constexpr std::size_t most_isolation_tries = 60;

// How many rows a claim looks at, about.
constexpr std::size_t widest = 10'000;

// How long an ordered claim waits for a transaction that may yet commit something earlier.
constexpr milliseconds wait_for_earlier{20};

statement make(std::string const& sql, std::initializer_list<parameter> values) {
  return {sql, parameters{std::span{values.begin(), values.size()}}};
}

class postgres_store final : public sql::sql_store {
 public:
  postgres_store(std::string connection, options o, std::string schema, std::string table_id)
      : sql_store{shared_statements({.table = o.table, .schema = schema})},
        arrays_{set_statements({.table = o.table, .schema = schema})},
        table_id_{std::move(table_id)},
        table_{o.table},
        schema_{std::move(schema)},
        full_name_{schema_ + "." + table_},
        log_{std::make_shared<log_function const>(o.log)},
        pool_{std::move(connection), o.connections, o.timeout} {
    if (o.notify) wake_.emplace(pool_.connection_string(), o.timeout, table_id_, std::move(o.log));
  }

  store_capabilities capabilities() const noexcept override {
    return {.kind = "postgres", .table = full_name_, .watch_every = milliseconds{wake_ ? 5 : 0}};
  }

  void insert(transaction_ref tx, std::span<spi::insertion const> rows) override;
  spi::claim_reply claim(spi::claim_request const& request) override;
  std::vector<bool> settle(std::span<spi::settlement const> items) override;
  std::vector<bool> renew(std::span<spi::row_handle const> rows, milliseconds lease) override;
  std::size_t release(std::span<owner_token const> tokens, milliseconds lease) override;

  std::unique_ptr<spi::dispatch_lock> try_dispatch_lock(std::string_view incarnation) override {
    auto attempt = try_advisory_lock(pool_.connection_string(), pool_.timeout(), table_id_, incarnation,
                                     statements().expire_others);
    bool const said = older_said_.exchange(attempt.beside_older);
    if (attempt.beside_older && !said) {
      warn("a node of an earlier version of this library holds the dispatch lock of table '" + table_ +
           "', or of one in a copy of its schema: this node stands by until that one is stopped");
    }
    return std::move(attempt.lock);
  }

  instant now() override {
    instant at{};
    with_reader([&](sql::connection& c) {
      c.execute(arrays_.now, {}, [&](sql::row const& r) {
        at = r.time(0).value_or(instant{});
        return false;
      });
    });
    return at;
  }

  std::uint64_t change_counter() noexcept override { return wake_ ? wake_->heard() : 0; }
  void hint() noexcept override {
    if (wake_) wake_->say();
  }

 protected:
  void with_writer(work const& f) override {
    retrying([&] { pool_.with([&](driver& d) { f(d); }); });
  }
  void with_reader(work const& f) override { with_writer(f); }

 private:
  /// Runs `f` on the caller's connection. Throws `error` (wrong_transaction) if it is not to this database.
  void with_caller(transaction_ref tx, std::function<void(caller_connection&)> const& f);

  // Conflicts with others are tried again, a few times.
  template <class F>
  static void retrying(F&& f) {
    for (int attempt = 1;; ++attempt) {
      try {
        return f();
      } catch (error const& e) {
        if (!is_conflict(e) || attempt == most_attempts) throw;
      }
    }
  }

  struct chosen_rows;
  [[nodiscard]] spi::claim_reply claim_or_isolate(driver& d, spi::claim_request request, bool& partly);
  [[nodiscard]] statement candidates(spi::claim_request const& request, std::size_t window) const;
  [[nodiscard]] std::vector<result_handle> ask(driver& d, spi::claim_request const& request, std::size_t window) const;
  [[nodiscard]] chosen_rows choose(spi::claim_request const& request, std::vector<result_handle> const& answers,
                                   std::size_t window, std::size_t most, spi::claim_reply& reply) const;
  [[nodiscard]] std::vector<statement> look_ahead(spi::claim_request const& request) const;
  static void note_next_due(spi::claim_request const& request, std::span<result_handle const> answers,
                            spi::claim_reply& reply);
  void take(driver& d, spi::claim_request const& request, chosen_rows const& chosen, spi::claim_reply& reply) const;
  [[nodiscard]] statement settle_statement(spi::outcome what, settle_columns const& c) const;
  void warn(std::string const& text) const noexcept;
  void advise_on_order() noexcept;
  [[nodiscard]] bool check_reaches(caller_connection& c) const;
  [[nodiscard]] bool ask_about_table(caller_connection& c) const;
  void insert_one(caller_connection& c, spi::insertion const& i) const;

  array_statements arrays_;
  std::string table_id_;
  std::string table_;
  std::string schema_;
  std::string full_name_;
  std::shared_ptr<log_function const> log_;  ///< Transactions that were written to share it.
  std::atomic<bool> order_looked_at_ = false;
  std::atomic<bool> older_said_ = false;
  pool pool_;
  std::optional<wake_line> wake_;
};

// The first time that a connection is used for this store: that it leads to this very table, and what it may do there.
// Returns whether it may look for rows that it has written.
bool postgres_store::check_reaches(caller_connection& c) const {
  auto* const raw = c.raw();
  if (raw == nullptr) return true;  // its client does not let us keep anything on it
  if (PQtransactionStatus(raw) == PQTRANS_INERROR) {
    throw error{errc::store_failure, "the transaction has failed already and can only be rolled back", "25P02"};
  }
  std::string_view const encoding = pg_encoding_to_char(PQclientEncoding(raw));
  if (encoding != "UTF8" && encoding != "SQL_ASCII") {
    throw error{errc::wrong_transaction,
                "the connection's client_encoding is " + std::string{encoding} + ", events need UTF8"};
  }
  auto* const seen = watch::of(raw);
  if (seen == nullptr) return false;
  auto const* known = seen->find(table_id_);
  if (known == nullptr) known = seen->add({table_id_, ask_about_table(c)});
  return known->may_look;
}

// Two questions, so that a table which is not there, or may not be read, does not fail the caller's transaction.
bool postgres_store::ask_about_table(caller_connection& c) const {
  auto const refuse = [] {
    throw error{errc::wrong_transaction, "the transaction is on another database than the node's store"};
  };
  std::optional<bool> readable;
  auto const meta = sql::with_table("outbox_meta", table_, schema_);
  c.execute("SELECT has_table_privilege(to_regclass($1), 'SELECT')", {std::string_view{meta}}, [&](sql::row const& r) {
    if (!r.null(0)) readable = r.integer(0) != 0;
    return false;
  });
  if (!readable) refuse();
  if (!*readable) {
    throw error{errc::store_failure, "the role of the connection may not read " + meta + ": GRANT SELECT on it",
                "42501"};
  }
  bool same = false;
  bool may_look = false;
  auto const table = sql::with_table("outbox_event", table_, schema_);
  c.execute("SELECT (" + table_id_sql(meta) +
                "), has_column_privilege(t, 'event_id', 'SELECT') AND has_column_privilege(t, 'locked_by', 'SELECT') "
                "AND NOT row_security_active(t) FROM to_regclass($1) t",
            {std::string_view{table}}, [&](sql::row const& r) {
              same = r.text(0) == table_id_;
              may_look = r.integer(1) != 0;
              return false;
            });
  if (!same) refuse();
  return may_look;
}

void postgres_store::with_caller(transaction_ref tx, std::function<void(caller_connection&)> const& f) {
  if (tx.kind() != "postgres")
    throw error{errc::wrong_transaction, "a PostgreSQL store needs a PostgreSQL transaction"};
  bool const joined = tx.run<sql::connection>([&](sql::connection& on) {
    auto* const c = dynamic_cast<caller_connection*>(&on);
    if (c == nullptr)
      throw error{errc::wrong_transaction, "the transaction is not one that PostgreSQL stores can join"};
    bool const may_look = check_reaches(*c);
    c->writes_to({table_, may_look ? std::string_view{arrays_.exists} : std::string_view{}, log_});
    f(*c);
  });
  if (!joined) throw error{errc::wrong_transaction, "the transaction gives its store nothing to work on"};
}

void postgres_store::insert_one(caller_connection& c, spi::insertion const& i) const {
  using due = insert_shape::due;
  using sql::or_null;
  auto const& e = i.event->record();
  bool const json = e.kind == payload_kind::json;
  auto const headers = spi::encode_headers(i.event->headers());
  insert_shape shape;
  std::vector<parameter> values{std::string_view{e.id},
                                std::string_view{e.type},
                                std::string_view{e.aggregate.type},
                                or_null(e.aggregate.id),
                                json ? std::string_view{e.payload} : std::string_view{"null"},
                                e.occurred_at};
  if (i.event->delayed() && e.available_at) {
    shape.when = due::at;
    values.emplace_back(*e.available_at);
  } else if (e.deliver_after) {
    shape.when = due::after;
    values.emplace_back(micros(*e.deliver_after));
  }
  if (!i.token.empty()) {
    shape.owned = true;
    values.insert(values.end(), {i.token, micros(i.lease)});
  }
  if (!e.tenant.empty() || !headers.empty() || !e.ordering_key.empty() || !json) {
    shape.rich = true;
    values.insert(values.end(), {or_null(e.tenant), or_null(headers), or_null(e.ordering_key),
                                 json ? value{} : value{std::string_view{e.content_type}},
                                 json ? value{} : value{sql::blob{e.payload}}});
  }
  c.insert(arrays_.insert_one.at(shape.index()), values, 1);
}

void postgres_store::insert(transaction_ref tx, std::span<spi::insertion const> rows) {
  with_caller(tx, [&](caller_connection& c) {
    if (rows.size() == 1) {
      insert_one(c, rows.front());
      return;
    }
    // A statement that fails fails the whole transaction, or all since a savepoint: nothing is left of the others.
    for (std::size_t at = 0; at < rows.size();) {
      insert_columns columns;
      std::size_t bytes = 0;
      auto const first = at;
      for (; at < rows.size() && at - first < most_rows && bytes < most_bytes; ++at) {
        columns.add(rows[at]);
        bytes += rows[at].event->size_bytes();
      }
      c.insert(arrays_.insert_many.at(columns.statement()), columns.values(), at - first);
    }
  });
}

// Rows that the filter wants, locked.
struct postgres_store::chosen_rows {
  std::vector<std::string> ids;  ///< In the order of the claim.
  std::vector<std::string> types;
  std::vector<spi::killed_row> killed;
  std::size_t next_window = 0;  ///< Not 0: not all was seen that must be.

  [[nodiscard]] std::size_t size() const noexcept { return ids.size() + killed.size(); }
  [[nodiscard]] std::string const& first_id() const { return ids.empty() ? killed.front().id : ids.front(); }
  [[nodiscard]] std::string const& first_type() const { return ids.empty() ? killed.front().type : types.front(); }
};

// Two round trips: what is due, then the taking of what was chosen. The rows are locked in between, so nobody else
// chooses them; those that others have locked are passed over.
spi::claim_reply postgres_store::claim(spi::claim_request const& request) {
  spi::claim_reply reply;
  bool partly = false;
  retrying([&] {
    // What was taken before the conflict is in no reply: the node releases it by its token.
    if (partly) throw error{errc::unavailable, "a conflict broke the claim off after a part of it"};
    pool_.with([&](driver& d) { reply = claim_or_isolate(d, request, partly); });
  });
  if (request.in_order && reply.more) advise_on_order();
  return reply;
}

// One row that cannot be changed fails the statement for all. Half as many are tried then, and half of that, until the
// row is alone; the claim goes on without it. What was taken so far is released by its token if a later part fails.
spi::claim_reply postgres_store::claim_or_isolate(driver& d, spi::claim_request request, bool& partly) {
  constexpr std::size_t no_limit = SIZE_MAX;
  spi::claim_reply whole;
  std::size_t most = no_limit;
  for (std::size_t tries = 0;; ++tries) {
    spi::claim_reply part;
    chosen_rows chosen;
    // One more than may be taken tells whether there is more; and further, if rows that must be left fill the window.
    for (auto window = std::min(request.limit, widest) + 1; window > 0; window = chosen.next_window) {
      part = {};
      chosen = choose(request, ask(d, request, window), window, most, part);
    }
    try {
      take(d, request, chosen, part);
    } catch (error const& e) {
      if (e.transient() || request.in_order || chosen.size() == 0) throw;
      d.execute(statements().rollback);
      if (tries >= most_isolation_tries) {
        if (whole.refused.empty()) throw;
        whole.now = part.now;
        whole.more = true;  // the next claim goes on without those that were found
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
    std::ranges::move(part.refused, std::back_inserter(whole.refused));
    part.refused = std::move(whole.refused);
    if (!whole.rows.empty()) part.oldest_lag = whole.oldest_lag;
    std::ranges::move(part.rows, std::back_inserter(whole.rows));
    std::ranges::move(part.killed, std::back_inserter(whole.killed));
    part.rows = std::move(whole.rows);
    part.killed = std::move(whole.killed);
    whole = std::move(part);
    if (all) return whole;
    most *= 2;
  }
}

void postgres_store::warn(std::string const& text) const noexcept {
  try {
    if (*log_) (*log_)(log_level::warning, text);
  } catch (...) {  // NOLINT(bugprone-empty-catch): logging never harms delivery
  }
}

// Once, when there is a backlog. What was claimed is claimed, so nothing that fails here matters.
void postgres_store::advise_on_order() noexcept {
  if (!*log_ || order_looked_at_.exchange(true)) return;
  try {
    bool there = false;
    with_reader([&](sql::connection& c) { there = order_index(c, table_, schema_).value_or(false); });
    if (there) return;
    warn("events wait in order, and table '" + table_ + "' has no valid index " + table_ +
         "_in_order: each claim reads and sorts all that is pending. Open the store with .ordered = true, or run "
         "schema/postgres/ordered.sql");
  } catch (std::exception const&) {
    order_looked_at_ = false;
  }
}

// The answers: the time, and what is due.
std::vector<result_handle> postgres_store::ask(driver& d, spi::claim_request const& request, std::size_t window) const {
  std::vector<statement> all;
  if (!d.in_transaction()) {  // else it is a wider window of the same claim
    all.push_back(make(statements().begin, {}));
    // What is set for our own sessions is set for this transaction.
    if (!d.owns_session()) {
      for (auto const s : plan_settings) all.push_back(make("SET LOCAL " + std::string{s}, {}));
    }
  }
  auto const preamble = std::ssize(all);
  all.push_back(make("SELECT now()", {}));
  all.push_back(candidates(request, window));
  auto answers = d.send_or_throw(all);
  answers.erase(answers.begin(), answers.begin() + preamble);
  return answers;
}

statement postgres_store::candidates(spi::claim_request const& request, std::size_t window) const {
  pause_lists const paused{request.pauses};
  auto const limit = static_cast<std::int64_t>(window);
  if (request.in_order) {
    return make(arrays_.in_order, {limit, text_array{paused.types}, text_array{paused.pairs}});
  }
  bool const alone = request.suspects == spi::suspects::take_one;
  std::vector<optional_text> const left{request.leave.begin(), request.leave.end()};
  return make(arrays_.due,
              {limit, micros(request.skip_recent), std::int64_t{request.unowned_only}, text_array{paused.types},
               text_array{paused.pairs}, std::int64_t{alone ? request.max_crashes - 1 : 0},
               request.floor ? value{*request.floor} : value{}, text_array{left},
               request.reach ? value{micros(*request.reach)} : value{}});
}

postgres_store::chosen_rows postgres_store::choose(spi::claim_request const& request,
                                                   std::vector<result_handle> const& answers, std::size_t window,
                                                   std::size_t most, spi::claim_reply& reply) const {
  using choice = spi::claim_filter::choice;
  result_rows{answers[0].get()}.show([&](sql::row const& r) {
    reply.now = r.time(0).value_or(instant{});
    return false;
  });
  chosen_rows chosen;
  bool stopped = false;
  spi::claim_filter filter{request, reply};
  result_rows const rows{answers[1].get()};
  rows.show([&](sql::row const& r) {
    using c = candidate_column;
    if (chosen.size() == most) {
      reply.more = true;
      return !(stopped = true);
    }
    if (request.in_order && r.integer(c::nothing_earlier) == 0) {
      // Somebody who began earlier may yet commit a row that belongs before this one.
      reply.next_due = reply.now + wait_for_earlier;
      return !(stopped = true);
    }
    bool const owned = r.integer(c::owned) != 0;
    auto const crashes = static_cast<std::int32_t>(r.integer(c::crashes));
    switch (filter.consider({.id = r.text(c::event_id),
                             .event_type = r.text(c::event_type),
                             .aggregate_type = r.text(c::aggregate_type),
                             .owned = owned,
                             .foreign_lock = r.time(c::foreign_locked_at),
                             .foreign_owner = r.text(c::foreign_owner),
                             .tried = r.integer(c::tried) != 0,
                             .crashes = crashes,
                             .inserted_at = r.time(c::inserted_at).value_or(reply.now),
                             .claimable_at = r.time(c::claimable_at).value_or(reply.now),
                             .bytes = static_cast<std::size_t>(r.integer(c::bytes))})) {
      case choice::stop: return !(stopped = true);
      case choice::leave: return true;
      case choice::kill:
        chosen.killed.push_back(
            {std::string{r.text(c::event_id)}, std::string{r.text(c::event_type)}, crashes + (owned ? 1 : 0)});
        return true;
      case choice::take:
        chosen.ids.emplace_back(r.text(c::event_id));
        chosen.types.emplace_back(r.text(c::event_type));
        return true;
    }
    return true;
  });
  bool const more_behind = !stopped && static_cast<std::size_t>(rows.size()) == window;
  if (more_behind && window <= widest) chosen.next_window = window * 8;
  if (more_behind && !chosen.ids.empty()) reply.more = true;
  return chosen;
}

// Their answers: the next instant, and with `skip_recent` the first that grows old enough.
std::vector<statement> postgres_store::look_ahead(spi::claim_request const& request) const {
  pause_lists const paused{request.pauses};
  std::vector<statement> all;
  all.push_back(request.pauses.empty()
                    ? make(arrays_.next_due, {})
                    : make(arrays_.next_due_beside_pauses, {text_array{paused.types}, text_array{paused.pairs}}));
  if (request.skip_recent.count() > 0) all.push_back(make(arrays_.next_grown, {micros(request.skip_recent)}));
  return all;
}

void postgres_store::note_next_due(spi::claim_request const& request, std::span<result_handle const> answers,
                                   spi::claim_reply& reply) {
  auto after = milliseconds{0};
  for (auto const& a : answers) {
    result_rows{a.get()}.show([&](sql::row const& r) {
      if (auto const at = r.time(0); at && (!reply.next_due || *at + after < *reply.next_due)) {
        reply.next_due = *at + after;
      }
      return false;
    });
    after = request.skip_recent;  // the second is an insert
  }
}

void postgres_store::take(driver& d, spi::claim_request const& request, chosen_rows const& chosen,
                          spi::claim_reply& reply) const {
  // When to look again is asked if that is not at once, before anything is taken.
  auto all = reply.more ? std::vector<statement>{} : look_ahead(request);
  auto const looks = all.size();
  for (auto const& k : chosen.killed) {
    auto const why =
        "crash budget exhausted: " + std::to_string(k.crashes) + " processes ended while they held this event";
    all.push_back(make(arrays_.kill, {std::string_view{why}, std::string_view{k.id}}));
  }
  std::vector<optional_text> const ids{chosen.ids.begin(), chosen.ids.end()};
  auto const taken_at = all.size();
  if (!ids.empty()) {
    all.push_back(make(arrays_.take, {std::string_view{request.token}, micros(request.lease), text_array{ids}}));
  }
  all.push_back(make(statements().commit, {}));
  auto const answers = d.send_or_throw(all);
  note_next_due(request, std::span{answers}.first(looks), reply);
  reply.killed = chosen.killed;
  if (ids.empty()) return;
  // The server gives them back in any order.
  std::unordered_map<std::string_view, std::size_t> place;
  for (std::size_t i = 0; i < chosen.ids.size(); ++i) place.emplace(chosen.ids[i], i);
  std::vector<std::optional<spi::claimed_row>> rows(chosen.ids.size());
  result_rows{answers[taken_at].get()}.show([&](sql::row const& r) {
    std::string malformed;
    auto v = sql::read_row(r, malformed);
    auto const at = place.at(v.event.id());
    rows[at].emplace(spi::claimed_row{.handle = {v.event.id(), request.token, 0},
                                      .event = v.event,
                                      .attempts = v.attempts,
                                      .crashes = v.crashes,
                                      .tried = v.status == event_status::retry,
                                      .progress = std::move(v.progress),
                                      .malformed = std::move(malformed)});
    return true;
  });
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i]) {
      reply.rows.push_back(std::move(*rows[i]));
    } else {  // it was locked, so nothing else explains it
      reply.refused.push_back({chosen.ids[i], chosen.types[i], "a trigger or a rule suppresses the change of its row"});
    }
  }
}

statement postgres_store::settle_statement(spi::outcome what, settle_columns const& c) const {
  parameter const id = text_array{c.id};
  parameter const token = text_array{c.token};
  parameter const progress = text_array{c.progress};
  parameter const error = text_array{c.error};
  parameter const delay = integer_array{c.delay};
  parameter const counted = integer_array{c.counted};
  switch (what) {
    case spi::outcome::delivered: return make(arrays_.settle_done, {id, token, progress});
    case spi::outcome::retry: return make(arrays_.settle_retry, {id, token, progress, error, delay, counted});
    case spi::outcome::defer: return make(arrays_.settle_defer, {id, token, progress, error, delay});
    case spi::outcome::dead: return make(arrays_.settle_dead, {id, token, progress, error, counted});
    case spi::outcome::release: break;
  }
  return make(arrays_.settle_release, {id, token});
}

// One statement per outcome, all in one round trip. Of a row that is named twice the first settlement counts, as if
// they had come one by one.
std::vector<bool> postgres_store::settle(std::span<spi::settlement const> items) {
  std::vector<bool> applied(items.size(), false);
  if (items.empty()) return applied;
  std::vector<std::size_t> order(items.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) -> std::string const& { return items[i].row.id; });
  std::array<settle_columns, 5> columns;
  std::vector<std::size_t> again;
  for (std::size_t at = 0; at < order.size(); ++at) {
    auto const& s = items[order[at]];
    if (at > 0 && items[order[at - 1]].row.id == s.row.id) {
      again.push_back(order[at]);
    } else {
      columns[static_cast<std::size_t>(s.outcome)].add(order[at], s);
    }
  }
  std::vector<statement> all;
  std::vector<settle_columns const*> whose;
  for (std::size_t what = 0; what < columns.size(); ++what) {
    if (columns[what].id.empty()) continue;
    all.push_back(settle_statement(static_cast<spi::outcome>(what), columns[what]));
    whose.push_back(&columns[what]);
  }
  bool const several = all.size() > 1;
  if (several) {
    all.insert(all.begin(), make(statements().begin, {}));
    all.push_back(make(statements().commit, {}));
  }
  retrying([&] {
    pool_.with([&](driver& d) {
      auto const answers = d.send_or_throw(all);
      for (std::size_t s = 0; s < whose.size(); ++s) {
        auto const& c = *whose[s];
        result_rows{answers[s + (several ? 1 : 0)].get()}.show([&](sql::row const& r) {
          auto const at = std::ranges::lower_bound(c.id, optional_text{r.text(0)});
          if (at != c.id.end() && *at == r.text(0))
            applied[c.indexes[static_cast<std::size_t>(at - c.id.begin())]] = true;
          return true;
        });
      }
    });
  });
  for (auto const i : again) applied[i] = settle(items.subspan(i, 1)).front();
  return applied;
}

// In the order of their ids, as settlements are, so that the two never wait for each other.
std::vector<bool> postgres_store::renew(std::span<spi::row_handle const> rows, milliseconds lease) {
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
  with_writer([&](sql::connection& c) {
    auto const one = make(arrays_.renew, {text_array{ids}, text_array{tokens}, micros(lease)});
    auto const answer = static_cast<driver&>(c).send_or_throw(std::span{&one, 1});
    result_rows{answer.front().get()}.show([&](sql::row const& r) {
      auto const [first, last] = place.equal_range({r.text(0), r.text(1)});
      for (auto at = first; at != last; ++at) kept[at->second] = true;
      return true;
    });
  });
  return kept;
}

std::size_t postgres_store::release(std::span<owner_token const> tokens, milliseconds lease) {
  if (tokens.empty()) return 0;
  std::vector<optional_text> const all{tokens.begin(), tokens.end()};
  std::int64_t rows = 0;
  with_writer([&](sql::connection& c) {
    auto const one = make(arrays_.release, {text_array{all}, micros(lease)});
    rows = result_rows{static_cast<driver&>(c).send_or_throw(std::span{&one, 1}).front().get()}.changed();
  });
  return static_cast<std::size_t>(rows);
}

// What the server promises less than the store's users may expect.
void warn_of_weak_durability(PGconn* c, options const& o) {
  result_handle const r{PQexec(c, "SELECT current_setting('synchronous_commit'), current_setting('fsync')")};
  if (PQresultStatus(r.get()) != PGRES_TUPLES_OK || !o.log) return;
  std::string_view const commit = PQgetvalue(r.get(), 0, 0);
  std::string_view const sync = PQgetvalue(r.get(), 0, 1);
  if (commit == "off" || sync == "off") {
    o.log(log_level::warning, std::string{"the server has "} + (sync == "off" ? "fsync" : "synchronous_commit") +
                                  " = off: a commit that was delivered may be gone after a power failure");
  }
}

}  // namespace

std::shared_ptr<store> open(std::string const& connection, options o) {
  check_options(o);
  auto const c = connect(connection, o.timeout);
  auto const schema = resolve_schema(c.get(), o);
  o.log = core::limited(std::move(o.log), "the store of " + schema + "." + o.table + ": ");
  if (o.migrate) {
    for (auto const& w : migrate_connection(c.get(), o, schema).warnings) {
      if (o.log) o.log(log_level::warning, w);
    }
  }
  auto table_id = check_schema(c.get(), o.table, schema);
  warn_of_weak_durability(c.get(), o);
  return std::make_shared<postgres_store>(connection, std::move(o), schema, std::move(table_id));
}

}  // namespace outbox::inline v0::postgres

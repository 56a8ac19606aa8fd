#include <atomic>
#include <outbox/error.hpp>
#include <outbox/postgres.hpp>
#include <outbox/spi/claim_filter.hpp>

#include "core/base/log_book.hpp"
#include "core/base/pool.hpp"
#include "postgres/columns.hpp"
#include "postgres/connector.hpp"
#include "postgres/dispatch_lock.hpp"
#include "postgres/driver.hpp"
#include "postgres/findings.hpp"
#include "postgres/layout_store.hpp"
#include "postgres/migrate.hpp"
#include "postgres/own_connection.hpp"
#include "postgres/reach.hpp"
#include "postgres/statements.hpp"
#include "postgres/turns.hpp"
#include "postgres/upgrade.hpp"
#include "postgres/wake.hpp"
#include "sql/set_store.hpp"
#include "sql/table_name.hpp"

namespace outbox::inline v0::postgres {
namespace {

constexpr std::string_view lock_not_available = "55P03";

class postgres_store final : public sql::set_store {
 public:
  postgres_store(connector how, options o, std::string schema, std::string table_id, bool pooled)
      : set_store{shared_statements({.table = o.table, .schema = schema})},
        arrays_{set_statements({.table = o.table, .schema = schema}, o.done_rows)},
        done_{o.done_rows},
        connector_{std::move(how)},
        timeout_{o.timeout},
        identity_{o.table, std::move(schema), std::move(table_id)},
        may_migrate_{o.migrate},
        full_name_{identity_.schema + "." + identity_.table},
        turns_{identity_.id},
        log_{std::make_shared<log_function const>(o.log)},
        pooled_{pooled},
        pool_{[this] { return connect_own(connector_, timeout_); }, o.connections, timeout_} {
    if (o.notify) wake_.emplace(connector_, timeout_, identity_.id, std::move(o.log));
  }

  store_capabilities capabilities() const noexcept override {
    return {.kind = "postgres",
            .keeps_done_rows = done_ == done_rows::keep,
            .table = full_name_,
            .dispatch_lock = pooled_ ? lock_kind::none : lock_kind::session,
            .no_lock_reason = pooled_ ? pooler_reason : std::string_view{},
            .event_filters = true,
            .audit = true,
            .event_types = true,
            .keys = true,
            .findings = true,
            .overview = true,
            .waiting_types = true};
  }

  std::vector<spi::finding> findings(spi::finding_limits const& limits) override {
    std::vector<spi::finding> found;
    with_reader([&](sql::connection& c) {
      found.clear();
      make_checks({own(c), identity_.table, identity_.schema, statements(), arrays_, limits, found});
    });
    return found;
  }

  std::unique_ptr<spi::dispatch_lock> try_dispatch_lock(std::string_view incarnation, milliseconds /*lease*/) override {
    auto attempt = try_advisory_lock(connector_, timeout_, identity_.id, incarnation, statements().expire_others);
    bool const said = older_said_.exchange(attempt.beside_older);
    if (attempt.beside_older && !said) {
      warn("a node of an earlier version of this library holds the dispatch lock of table '" + identity_.table +
           "', or of one in a copy of its schema: this node stands by until that one is stopped");
    }
    return std::move(attempt.lock);
  }

  instant now() override {
    instant at{};
    with_reader([&](sql::connection& c) { at = c.ask<instant>(arrays_.now).value_or(instant{}); });
    return at;
  }

  spi::subscription on_change(std::function<void()> callback) override {
    return wake_ ? wake_->subscribe(std::move(callback)) : spi::subscription{};
  }
  void hint() noexcept override {
    if (wake_) wake_->say();
  }
  spi::subscription on_wait(std::function<void(std::chrono::nanoseconds)> callback) override {
    return pool_.on_wait(std::move(callback));
  }

 protected:
  void with_connection(work const& f) override {
    pool_.with([&](own_connection& c) { f(c.statements); });
  }
  void with_caller(transaction_ref tx, work const& f) override;

  void send_insert(sql::connection& c, sql::stored_event const& e, std::shared_ptr<spi::insert_receipt> const& receipt,
                   std::size_t at) override;
  void send_insert(sql::connection& c, std::span<spi::insertion const> rows,
                   std::shared_ptr<spi::insert_receipt> const& receipt, std::size_t at) override;
  void send_look(sql::connection& c, spi::claim_request const& request, std::size_t window,
                 sql::row_chooser& choose) override;
  void send_run(sql::connection& c, sql::row_chooser& choose) override;
  std::optional<error> send_take(sql::connection& c, spi::claim_request const& request, sql::chosen_rows const& chosen,
                                 spi::claim_reply& reply, sql::row_function const& on_row) override;
  std::size_t send_note(sql::connection& c, std::span<std::string const> ids) override;
  std::size_t send_leave(sql::connection& c, std::span<std::string const> ids) override;
  void send_places(sql::connection& c, std::span<std::string const> ids, std::vector<spi::place>& places) override;
  std::size_t send_heal(sql::connection& c, std::string& after, std::size_t keys) override;
  bool send_clear_notes(sql::connection& c, sql::line_position& after, std::size_t limit) override;
  void prepare_for_keys() override;
  void send_settle(sql::connection& c, std::span<sql::settle_group const> groups, sql::left_rows const& left,
                   spi::settle_reply& reply) override;
  void send_renew(sql::connection& c, std::span<optional_text const> ids, std::span<optional_text const> tokens,
                  milliseconds lease, sql::row_function const& on_row) override;
  std::size_t send_release(sql::connection& c, std::span<owner_token const> tokens, milliseconds lease) override;
  void on_ordered_backlog() noexcept override;

 private:
  // Connections of the pool are drivers.
  static driver& own(sql::connection& c) noexcept { return static_cast<driver&>(c); }

  void send_insert(sql::connection& c, std::string const& sql, std::span<parameter const> values,
                   std::span<event const* const> events, std::shared_ptr<spi::insert_receipt> const& receipt,
                   std::size_t at);
  void look(driver& d, spi::claim_request const& request, std::size_t window, sql::row_chooser& choose, bool in_turn);
  [[nodiscard]] statement note_of(std::span<std::string const> ids) const;
  [[nodiscard]] statement unblock_of(sql::left_rows const& left) const;
  void warn(std::string const& text) const noexcept;

  array_statements arrays_;
  done_rows const done_;
  connector const connector_;
  milliseconds const timeout_;
  table_identity identity_;
  bool const may_migrate_;
  std::string full_name_;
  turns turns_;
  std::shared_ptr<log_function const> log_;  ///< Shared with transactions that wrote to the store.
  std::atomic<bool> order_looked_at_ = false;
  std::atomic<bool> older_said_ = false;
  bool const pooled_;  ///< A pooler answered when the store was opened.
  core::pool<own_connection> pool_;
  std::optional<wake_line> wake_;
};

void postgres_store::with_caller(transaction_ref tx, work const& f) {
  if (tx.kind() != "postgres")
    throw error{errc::wrong_transaction, "a PostgreSQL store needs a PostgreSQL transaction"};
  bool const joined = tx.run<sql::connection>([&](sql::connection& on) {
    auto* const c = dynamic_cast<caller_connection*>(&on);
    if (c == nullptr)
      throw error{errc::wrong_transaction, "the transaction is not one that PostgreSQL stores can join"};
    bool const may_look = check_reaches(*c, identity_);
    c->writes_to({identity_.table, may_look ? std::string_view{arrays_.exists} : std::string_view{}, log_});
    f(*c);
  });
  if (!joined) throw error{errc::wrong_transaction, "the transaction gives its store nothing to work on"};
}

void postgres_store::send_insert(sql::connection& c, sql::stored_event const& e,
                                 std::shared_ptr<spi::insert_receipt> const& receipt, std::size_t at) {
  insert_parameters const p{e};
  send_insert(c, arrays_.insert_one.at(p.shape.index()), p.values, std::span{&e.source, 1}, receipt, at);
}

void postgres_store::send_insert(sql::connection& c, std::span<spi::insertion const> rows,
                                 std::shared_ptr<spi::insert_receipt> const& receipt, std::size_t at) {
  insert_columns const columns{rows};
  std::vector<event const*> events;
  for (auto const& r : rows) events.push_back(r.event);
  send_insert(c, arrays_.insert_many.at(columns.statement()), columns.values(), events, receipt, at);
}

void postgres_store::send_insert(sql::connection& c, std::string const& sql, std::span<parameter const> values,
                                 std::span<event const* const> events,
                                 std::shared_ptr<spi::insert_receipt> const& receipt, std::size_t at) {
  auto& caller = static_cast<caller_connection&>(c);
  // A role that may not read the table would be refused. The node then asks on its store's own connection.
  if (!receipt || !may_read(caller, identity_)) return caller.insert(sql, values, events.size());
  std::vector<parameter> with_bound{values.begin(), values.end()};
  with_bound.emplace_back(receipt->finished);
  auto told = arrays_.told;
  constexpr std::string_view mark = "[finished]";
  auto const bound = "$" + std::to_string(with_bound.size());
  for (auto p = told.find(mark); p != std::string::npos; p = told.find(mark, p)) told.replace(p, mark.size(), bound);
  caller.insert_and_tell(sql, told, with_bound, events.size(), answer_for(events, receipt, at));
}

void postgres_store::send_look(sql::connection& c, spi::claim_request const& request, std::size_t window,
                               sql::row_chooser& choose) {
  auto& d = own(c);
  bool const in_turn = !d.in_transaction() && !request.in_order && turns_.worth_waiting();
  try {
    look(d, request, window, choose, in_turn);
  } catch (error const& e) {
    if (!in_turn || e.sqlstate() != lock_not_available) throw;
    turns_.missed();
    d.execute(statements().rollback);
    look(d, request, window, choose, false);
  }
}

void postgres_store::look(driver& d, spi::claim_request const& request, std::size_t window, sql::row_chooser& choose,
                          bool in_turn) {
  std::vector<statement> all;
  if (!d.in_transaction()) {
    all.push_back(make(statements().begin, {}));
    // Sessions of the library have these settings; the session of a pooler gets them for this transaction.
    if (!d.owns_session()) {
      for (auto const s : plan_settings) all.push_back(make("SET LOCAL " + std::string{s}, {}));
    }
  }
  auto const preamble = all.size();
  all.push_back(in_turn ? make(arrays_.begin_in_turn, {turns_.name(), turns::longest_wait})
                        : make(arrays_.begin_without_turn, {}));
  all.push_back(candidates(arrays_, request, window));
  auto const answers = d.send_or_throw(all);
  instant now{};
  result_rows{answers[preamble].get()}.show([&](sql::row const& r) {
    now = r.time(0).value_or(instant{});
    return false;
  });
  show_candidates(answers[preamble + 1].get(), now, request.keyed, choose);
}

void postgres_store::send_run(sql::connection& c, sql::row_chooser& choose) {
  auto const one = runs(arrays_, choose);
  show_runs(own(c).send_or_throw(std::span{&one, 1}).front().get(), choose.now(), choose);
}

// When to look again is asked before anything is taken.
std::optional<error> postgres_store::send_take(sql::connection& c, spi::claim_request const& request,
                                               sql::chosen_rows const& chosen, spi::claim_reply& reply,
                                               sql::row_function const& on_row) {
  auto all = reply.more ? std::vector<statement>{} : look_ahead(arrays_, request);
  auto const looks = all.size();
  for (auto const& k : chosen.dead) {
    auto const why = spi::crash_budget_exhausted(k.crashes);
    all.push_back(make(arrays_.make_dead, {std::string_view{why}, std::string_view{k.id}}));
  }
  std::vector<optional_text> const ids{chosen.ids.begin(), chosen.ids.end()};
  auto const taken_at = all.size();
  if (!ids.empty()) {
    all.push_back(make(arrays_.take, {std::string_view{request.token}, micros(request.lease), text_array{ids}}));
  }
  all.push_back(make(statements().commit, {}));
  auto const claim = all.size();
  if (!chosen.note.empty()) all.push_back(note_of(chosen.note));
  auto answers = own(c).send(all);
  if (answers.failure && answers.results.size() < claim) throw *answers.failure;
  note_next_due(request, std::span{answers.results}.first(looks), reply);
  if (!ids.empty()) result_rows{answers.results[taken_at].get()}.show(on_row);
  if (!answers.failure && all.size() > claim) {
    reply.noted = static_cast<std::size_t>(result_rows{answers.results[claim].get()}.changed());
  }
  return std::move(answers.failure);
}

statement postgres_store::note_of(std::span<std::string const> ids) const {
  std::vector<optional_text> const rows{ids.begin(), ids.end()};
  return make(arrays_.note, {text_array{rows}});
}

std::size_t postgres_store::send_note(sql::connection& c, std::span<std::string const> ids) {
  auto const one = note_of(ids);
  auto const answers = own(c).send_or_throw(std::span{&one, 1});
  return static_cast<std::size_t>(result_rows{answers.front().get()}.changed());
}

// The rows behind are unblocked by a statement of its own, which sees what this transaction has changed.
std::size_t postgres_store::send_leave(sql::connection& c, std::span<std::string const> ids) {
  auto& d = own(c);
  std::vector<optional_text> const rows{ids.begin(), ids.end()};
  statement const leave[] = {make(statements().begin, {}), make(arrays_.leave, {text_array{rows}})};
  auto const answers = d.send_or_throw(leave);
  sql::left_rows left;
  result_rows{answers.back().get()}.show([&](sql::row const& r) {
    left.key.emplace_back(r.text(0));
    left.seq.push_back(r.integer(1));
    left.id.emplace_back(r.text(2));
    return true;
  });
  statement const unblock[] = {unblock_of(left), make(statements().commit, {})};
  std::ignore = d.send_or_throw(unblock);
  return left.id.size();
}

statement postgres_store::unblock_of(sql::left_rows const& left) const {
  return make(arrays_.unblock, {text_array{left.key}, integer_array{left.seq}});
}

void postgres_store::send_places(sql::connection& c, std::span<std::string const> ids,
                                 std::vector<spi::place>& places) {
  std::vector<optional_text> const rows{ids.begin(), ids.end()};
  auto const one = make(arrays_.places, {text_array{rows}});
  result_rows{own(c).send_or_throw(std::span{&one, 1}).front().get()}.show([&](sql::row const& r) {
    places[static_cast<std::size_t>(r.integer(0)) - 1] = {r.integer(1), std::string{r.text(2)}};
    return true;
  });
}

std::size_t postgres_store::send_heal(sql::connection& c, std::string& after, std::size_t keys) {
  std::size_t rows = 0;
  c.execute(arrays_.heal_keys, {std::string_view{after}, static_cast<std::int64_t>(keys)}, [&](sql::row const& r) {
    rows = static_cast<std::size_t>(r.integer(0));
    after = r.text(1);
    return false;
  });
  return rows;
}

bool postgres_store::send_clear_notes(sql::connection& c, sql::line_position& after, std::size_t limit) {
  bool more = false;
  c.execute(arrays_.clear_notes, {std::string_view{after.key}, after.seq, static_cast<std::int64_t>(limit)},
            [&](sql::row const& r) {
              after = {std::string{r.text(0)}, r.integer(1)};
              more = true;
              return false;
            });
  return more;
}

void postgres_store::prepare_for_keys() {
  std::string_view missing;
  bool counts_bytes = false;
  with_reader([&](sql::connection& c) {
    counts_bytes = c.ask<std::string>("SELECT current_setting('server_encoding')") == "SQL_ASCII";
    missing = missing_key_index(c, identity_.table, identity_.schema);
  });
  if (counts_bytes) {
    throw error{errc::unsupported,
                "a keyed node needs to know how many characters a key has, and the server does not: the encoding of "
                "this database is SQL_ASCII"};
  }
  if (missing.empty()) return;
  if (!may_migrate_) {
    throw error{errc::store_failure,
                "table '" + identity_.table + "' in schema '" + identity_.schema + "' has no valid index " +
                    identity_.table + std::string{missing} +
                    ", which a keyed node needs: call outbox::postgres::migrate() with .keyed = true, or run "
                    "schema/postgres/keyed.sql"};
  }
  auto const conn = connector_.open(timeout_);
  options o;
  o.table = identity_.table;
  o.timeout = timeout_;
  add_key_indexes(conn.get(), o, identity_.schema);
}

// One statement per group, all in one round trip.
void postgres_store::send_settle(sql::connection& c, std::span<sql::settle_group const> groups,
                                 sql::left_rows const& left, spi::settle_reply& reply) {
  bool const unblocks = !left.key.empty();
  bool const several = groups.size() > 1 || unblocks;
  std::vector<statement> all;
  if (several) all.push_back(make(statements().begin, {}));
  for (auto const& g : groups) all.push_back(settle_statement(arrays_, g));
  if (unblocks) all.push_back(unblock_of(left));
  if (several) all.push_back(make(statements().commit, {}));
  auto const answers = own(c).send_or_throw(all);
  for (std::size_t i = 0; i < groups.size(); ++i) {
    result_rows{answers[i + (several ? 1 : 0)].get()}.show([&](sql::row const& r) {
      groups[i].apply(r.text(0), reply.applied);
      return true;
    });
  }
  if (unblocks) reply.unblocked = static_cast<std::size_t>(result_rows{answers[groups.size() + 1].get()}.changed());
}

void postgres_store::send_renew(sql::connection& c, std::span<optional_text const> ids,
                                std::span<optional_text const> tokens, milliseconds lease,
                                sql::row_function const& on_row) {
  auto const one = make(arrays_.renew, {text_array{ids}, text_array{tokens}, micros(lease)});
  result_rows{own(c).send_or_throw(std::span{&one, 1}).front().get()}.show(on_row);
}

std::size_t postgres_store::send_release(sql::connection& c, std::span<owner_token const> tokens, milliseconds lease) {
  std::vector<optional_text> const all{tokens.begin(), tokens.end()};
  auto const one = make(arrays_.release, {text_array{all}, micros(lease)});
  auto const answers = own(c).send_or_throw(std::span{&one, 1});
  return static_cast<std::size_t>(result_rows{answers.front().get()}.changed());
}

void postgres_store::warn(std::string const& text) const noexcept {
  try {
    if (*log_) (*log_)({log_level::warning, text});
  } catch (...) {  // NOLINT(bugprone-empty-catch): logging never harms delivery
  }
}

// Advises once. The rows are claimed already, so a failure here does not matter.
void postgres_store::on_ordered_backlog() noexcept {
  if (!*log_ || order_looked_at_.exchange(true)) return;
  try {
    auto const& table = identity_.table;
    bool there = false;
    with_reader(
        [&](sql::connection& c) { there = index_is_valid(c, table, identity_.schema, order_index).value_or(false); });
    if (there) return;
    warn("events wait in order, and table '" + table + "' has no valid index " + table +
         "_in_order: each claim reads and sorts all that is pending. Open the store with .ordered = true, or run "
         "schema/postgres/ordered.sql");
  } catch (std::exception const&) {
    order_looked_at_ = false;
  }
}

// Warns if the server promises less than users of the store may expect.
void warn_of_weak_durability(PGconn* c, options const& o) {
  result_handle const r{PQexec(c, "SELECT current_setting('synchronous_commit'), current_setting('fsync')")};
  if (PQresultStatus(r.get()) != PGRES_TUPLES_OK || !o.log) return;
  std::string_view const commit = PQgetvalue(r.get(), 0, 0);
  std::string_view const sync = PQgetvalue(r.get(), 0, 1);
  if (commit == "off" || sync == "off") {
    auto const text = std::string{"the server has "} + (sync == "off" ? "fsync" : "synchronous_commit") +
                      " = off: a commit that was delivered may be gone after a power failure";
    o.log({log_level::warning, text});
  }
}

}  // namespace

std::shared_ptr<store> open(std::string const& connection, options o) {
  if (o.layout) return open_layout(connection, std::move(o));
  check_options(o);
  connector how{connection, o.connect};
  if (o.read_only) {
    how.only_read();
    o.migrate = false;
  }
  auto const c = how.open(o.timeout);
  bool const pooled = behind_pooler(c.get(), o.timeout);
  auto const schema = resolve_schema(c.get(), o);
  auto const full_name = schema + "." + o.table;
  o.log = core::limited(std::move(o.log), "the store of " + full_name, {{"table", full_name}});
  if (o.migrate) {
    for (auto const& w : migrate_connection(c.get(), o, schema).warnings) {
      if (o.log) o.log({log_level::warning, w});
    }
  }
  auto table_id = check_schema(c.get(), o.table, schema);
  warn_of_weak_durability(c.get(), o);
  how.expect(sql::with_table("outbox_meta", o.table, schema), table_id);
  return std::make_shared<postgres_store>(std::move(how), std::move(o), schema, std::move(table_id), pooled);
}

}  // namespace outbox::inline v0::postgres

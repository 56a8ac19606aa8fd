#include <algorithm>
#include <outbox/error.hpp>
#include <outbox/postgres.hpp>
#include <outbox/spi/postgres_adapter.hpp>
#include <set>
#include <utility>

#include "postgres/driver.hpp"
#include "postgres/pool.hpp"
#include "postgres/watch.hpp"

namespace outbox::inline v0 {
namespace postgres {
namespace {

// What waits in a queue is sent when it is this much: it is kept twice meanwhile.
constexpr std::size_t longest_queue = 1U << 20U;

// Makes an INSERT one that may be sent again.
constexpr std::string_view unless_there = " ON CONFLICT DO NOTHING";

// Of whoever connects.
constexpr milliseconds patience{10'000};

statement plain(char const* sql) { return {sql, parameters{{}}}; }

}  // namespace

// A connection of ours, and what is prepared on it.
class session {
 public:
  explicit session(handle c, milliseconds timeout)
      : conn{std::move(c)}, statements{conn.get(), /*keep=*/!behind_pooler(conn.get(), timeout)} {}
  handle conn;
  driver statements;
};

// A table that was written.
struct target {
  std::string name;
  std::string exists;  ///< Empty: it may not be asked.
  std::weak_ptr<log_function const> log;
};

// What one call of `write()` left behind.
struct written {
  static constexpr std::size_t no_table = SIZE_MAX;
  std::shared_ptr<transaction_observer> observer;  ///< May be null.
  std::size_t table = no_table;  ///< Of `transaction::state::tables`; none until the store says that it writes.
  bool uncertain = false;        ///< Which of its rows are there cannot be found out.
};

// Also the connection that the store sees: it does not wait for statements whose answers nobody needs.
struct transaction::state final : caller_connection {
  state(PGconn* c, send_mode t) : conn{c}, how{t}, borrowed{std::in_place, c, /*keep=*/false}, line{*borrowed} {}
  state(session& s, send_mode t) : conn{s.conn.get()}, how{t}, line{s.statements} {}

  void begin();
  void enqueue(std::string_view sql, std::span<sql::value const> values);
  void flush();
  void commit();
  void rollback() noexcept;

  // The store's side.
  [[nodiscard]] bool in_transaction() const noexcept override;
  std::int64_t execute(std::string_view sql, std::span<sql::value const> values,
                       sql::row_function const& on_row) override;
  pg_conn* raw() const noexcept override { return conn; }
  void writes_to(write_target const& to) override;
  void insert(std::string_view sql, std::span<sql::value const> values, std::size_t rows) override;

  // Whoever is told may begin another transaction on the connection.
  template <class F>
  void end(F&& tell) noexcept {
    over = true;
    waiting.clear();
    early.clear();
    if (PQpipelineStatus(conn) != PQ_PIPELINE_OFF) PQexitPipelineMode(conn);
    auto const told = std::exchange(writes, {});
    for (auto const& w : told) {
      if (w.observer) tell(w);
    }
  }
  void end_rolled_back() noexcept {
    end([](written const& w) { w.observer->rolled_back(); });
  }
  void end_in_doubt() noexcept {
    end([](written const& w) { w.observer->in_doubt(); });
  }

  [[nodiscard]] bool pipelined() const noexcept { return how == send_mode::pipelined; }
  [[nodiscard]] bool rows_may_be_gone() const noexcept { return seen->setbacks() != setbacks; }
  void wait_with(statement s);
  void restore_early();
  [[nodiscard]] std::vector<std::size_t> add_existence_checks();
  void note_absences(std::size_t table, PGresult* answer) const;
  void check_may_commit();
  [[nodiscard]] bool ended_by_others() const noexcept;
  [[noreturn]] void give_up_what_waits();
  void roll_back_what_is_open() noexcept;
  [[nodiscard]] bool committed_by_others() const noexcept;
  [[nodiscard]] std::size_t unsent_events(std::size_t table) const noexcept;
  void say_what_is_lost() const noexcept;
  void note_suppressed(std::span<statement const> sent, std::span<result_handle const> answers);
  [[noreturn]] void commit_failed(driver::replies const& replies);

  PGconn* conn;
  send_mode how;
  std::optional<driver> borrowed;  ///< For a handle of the application's.
  driver& line;
  watch* seen = nullptr;
  std::uint64_t setbacks = 0;  ///< Of the connection, when this one began. So are the next two.
  std::uint64_t commits = 0;
  std::uint64_t ends = 0;
  bool begun = false;              ///< BEGIN was sent.
  bool over = false;               ///< The observers know.
  bool failed = false;             ///< What was sent for it failed: it can only be rolled back.
  std::vector<statement> waiting;  ///< Not sent yet. Direct: nothing but events, from before any savepoint.
  std::size_t waiting_bytes = 0;
  std::vector<statement> early;      ///< Such events that were sent behind a savepoint all the same.
  std::uint64_t early_setbacks = 0;  ///< When they were sent.
  std::vector<target> tables;
  std::vector<written> writes;
};

void transaction::state::begin() {
  if (PQstatus(conn) != CONNECTION_OK) throw error_of(conn, nullptr, "cannot begin a transaction");
  if (PQtransactionStatus(conn) != PQTRANS_IDLE) {
    throw error{errc::no_transaction, "the connection is busy or in a transaction already: pass its handle to write()"};
  }
  seen = watch::of(conn);
  if (seen == nullptr) throw error{errc::unavailable, "libpq has no memory for an event procedure"};
  seen->idle();
  commits = seen->commits();
  ends = seen->ends();
  if (pipelined()) {
    setbacks = seen->setbacks();
    waiting.push_back(plain("BEGIN"));
    if (PQenterPipelineMode(conn) == 0) throw error_of(conn, nullptr, "cannot begin a pipeline");
    return;
  }
  run(conn, "BEGIN");
  begun = true;
  setbacks = seen->setbacks();
}

bool transaction::state::in_transaction() const noexcept {
  if (over || failed) return false;
  if (pipelined()) return PQstatus(conn) == CONNECTION_OK;
  return postgres::in_transaction(conn);
}

void transaction::state::wait_with(statement s) {
  waiting_bytes += s.sql.size() + s.values.bytes();
  waiting.push_back(std::move(s));
  if (waiting_bytes > longest_queue) flush();
}

void transaction::state::enqueue(std::string_view sql, std::span<sql::value const> values) {
  if (pipelined()) return wait_with({std::string{sql}, parameters{values}});
  line.execute(sql, values, {});
}

std::int64_t transaction::state::execute(std::string_view sql, std::span<sql::value const> values,
                                         sql::row_function const& on_row) {
  if (pipelined()) flush();
  return line.execute(sql, values, on_row);
}

// Nobody needs the answer at once, so it may wait for COMMIT. Not if there is a savepoint: what is rolled back to it
// must not be sent afterwards.
void transaction::state::insert(std::string_view sql, std::span<sql::value const> values, std::size_t rows) {
  statement s{std::string{sql}, parameters{values}, rows, writes.size() - 1};
  if (pipelined() || !seen->savepoints()) return wait_with(std::move(s));
  flush();
  note_suppressed(std::span{&s, 1}, line.send_or_throw(std::span{&s, 1}));
}

// A trigger or a rule of the table's owner may have kept rows out, or put them elsewhere. What is sent a second time
// leaves out the rows that are there; then it is the question at COMMIT that counts.
void transaction::state::note_suppressed(std::span<statement const> sent, std::span<result_handle const> answers) {
  for (std::size_t i = 0; i < std::min(sent.size(), answers.size()); ++i) {
    auto const& s = sent[i];
    bool const again = s.sql.ends_with(unless_there);
    if (again || result_rows{answers[i].get()}.changed() >= static_cast<std::int64_t>(s.rows)) continue;
    writes[s.write].uncertain = true;
  }
}

void transaction::state::flush() {
  if (over) return;
  if (ended_by_others()) give_up_what_waits();
  auto const before = seen->setbacks();
  bool const behind_savepoint = !pipelined() && seen->savepoints();
  restore_early();
  if (waiting.empty()) return;
  auto sent = std::exchange(waiting, {});
  waiting_bytes = 0;
  if (!std::exchange(begun, true)) ++setbacks;  // BEGIN counts as one
  auto const replies = line.send(sent);
  if (replies.failure) {
    failed = true;
    throw *replies.failure;
  }
  note_suppressed(sent, replies.results);
  if (!behind_savepoint) return;
  // They were written before the savepoint and must not be rolled back with it.
  early = std::move(sent);
  early_setbacks = before;
  for (auto& s : early) {
    if (!s.sql.ends_with(unless_there)) s.sql += unless_there;
  }
}

// What was written before any savepoint, sent behind one, and rolled back with it: again.
void transaction::state::restore_early() {
  if (early.empty() || early_setbacks == seen->setbacks()) return;
  auto all = std::exchange(early, {});
  std::ranges::move(waiting, std::back_inserter(all));
  waiting = std::move(all);
}

// The observer of a write is enlisted first, if it has one; then the store says which table it writes to.
void transaction::state::writes_to(write_target const& to) {
  auto const known =
      std::ranges::find_if(tables, [&](target const& t) { return t.name == to.table && t.exists == to.exists; });
  auto const table = static_cast<std::size_t>(known - tables.begin());
  if (known == tables.end()) tables.push_back({std::string{to.table}, std::string{to.exists}, to.log});
  if (writes.empty() || writes.back().table != written::no_table) writes.push_back({});
  for (auto w = writes.rbegin(); w != writes.rend() && w->table == written::no_table; ++w) w->table = table;
}

// A savepoint that was rolled back has taken rows along, or none: asked in the same round trip as COMMIT. Each table is
// asked for the rows that were written to it: the same event may have gone to another one. A table that this role may
// not read is not asked, because that would fail the transaction. Returns the tables that are.
std::vector<std::size_t> transaction::state::add_existence_checks() {
  std::vector<std::size_t> asked;
  if (!rows_may_be_gone()) return asked;
  for (std::size_t table = 0; table < tables.size(); ++table) {
    std::vector<std::optional<std::string_view>> ids;
    std::vector<std::optional<std::string_view>> tokens;
    for (auto& w : writes) {
      if (w.table != table || !w.observer) continue;
      if (tables[table].exists.empty()) w.uncertain = true;
      for (std::size_t i = 0; !w.uncertain && i < w.observer->size(); ++i) {
        ids.emplace_back(w.observer->event_id(i));
        tokens.emplace_back(w.observer->token(i));
      }
    }
    if (ids.empty()) continue;
    sql::value const values[] = {sql::text_array{ids}, sql::text_array{tokens}};
    waiting.push_back({tables[table].exists, parameters{values}});
    asked.push_back(table);
  }
  return asked;
}

// A row with the same id and another token is another write's. Of two writes that cannot be told apart the later one
// counts: it could not have been made while the earlier one's row was there.
void transaction::state::note_absences(std::size_t table, PGresult* answer) const {
  auto const text = [&](int row, int column) {
    return std::string_view{PQgetvalue(answer, row, column),
                            static_cast<std::size_t>(PQgetlength(answer, row, column))};
  };
  std::set<std::pair<std::string_view, std::string_view>> present;
  for (int row = 0; row < PQntuples(answer); ++row) present.emplace(text(row, 0), text(row, 1));
  for (auto w = writes.rbegin(); w != writes.rend(); ++w) {
    if (w->table != table || !w->observer || w->uncertain) continue;
    for (std::size_t i = 0; i < w->observer->size(); ++i) {
      if (present.erase({w->observer->event_id(i), w->observer->token(i)}) == 0) w->observer->absent(i);
    }
  }
}

void transaction::state::check_may_commit() {
  if (over) throw error{errc::no_transaction, "commit() after the end of the transaction"};
  if (failed) {
    rollback();
    throw error{errc::store_failure, "the transaction was rolled back: what had been sent for it failed", "25P02"};
  }
  if (!pipelined() && PQstatus(conn) == CONNECTION_OK && PQtransactionStatus(conn) == PQTRANS_ACTIVE) {
    throw error{errc::wrong_transaction, "the connection is busy: read the results of its last statement first"};
  }
  if (ended_by_others()) give_up_what_waits();
}

// What is sent outside of the transaction would be committed by itself, or by the next one.
bool transaction::state::ended_by_others() const noexcept {
  if (!begun || PQstatus(conn) != CONNECTION_OK) return false;
  return PQtransactionStatus(conn) == PQTRANS_IDLE || seen->ends() != ends;
}

bool transaction::state::committed_by_others() const noexcept {
  if (!begun || PQstatus(conn) != CONNECTION_OK) return false;
  if (seen->commits() != commits) return true;
  // Without a trace of how it ended. One that failed has left one, on its way here or on the connection.
  return !pipelined() && !failed && !rows_may_be_gone() && PQtransactionStatus(conn) == PQTRANS_IDLE;
}

std::size_t transaction::state::unsent_events(std::size_t table) const noexcept {
  std::size_t events = 0;
  for (auto const& s : waiting) {
    if (s.rows > 0 && writes[s.write].table == table) events += s.rows;
  }
  return events;
}

void transaction::state::roll_back_what_is_open() noexcept {
  if (PQpipelineStatus(conn) != PQ_PIPELINE_OFF) PQexitPipelineMode(conn);
  if (PQstatus(conn) != CONNECTION_OK || PQtransactionStatus(conn) == PQTRANS_IDLE) return;
  result_handle const done{PQexec(conn, "ROLLBACK")};
}

void transaction::state::give_up_what_waits() {
  std::size_t events = 0;
  for (std::size_t table = 0; table < tables.size(); ++table) events += unsent_events(table);
  auto const others = static_cast<std::size_t>(std::ranges::count(waiting, std::size_t{0}, &statement::rows));
  std::string text =
      committed_by_others()
          ? "SQL on the connection has committed or prepared the transaction before commit() was called"
          : "SQL on the connection, or a reset of it, has ended the transaction before commit() was called";
  if (events + others > 0) {
    text += ". What had not been sent by then is lost: events: " + std::to_string(events) +
            ", other statements: " + std::to_string(others);
  }
  roll_back_what_is_open();  // the next one, after AND CHAIN
  end_in_doubt();
  throw error{errc::no_transaction, text};
}

// Nobody asks for an answer any more, so the log gets it.
void transaction::state::say_what_is_lost() const noexcept {
  for (std::size_t table = 0; table < tables.size(); ++table) {
    auto const events = unsent_events(table);
    auto const log = tables[table].log.lock();
    if (events == 0 || !log || !*log) continue;
    try {
      (*log)(log_level::error,
             "a postgres::transaction was committed or prepared by SQL on its connection instead of commit(): "
             "events of table '" +
                 tables[table].name + "' that had not been sent by then are lost: " + std::to_string(events));
    } catch (...) {  // NOLINT(bugprone-empty-catch): a log that throws must not harm the caller
    }
  }
}

void transaction::state::commit() {
  check_may_commit();
  restore_early();
  auto const first_check = waiting.size();
  auto const asked = add_existence_checks();
  waiting.push_back(plain("COMMIT"));
  auto const sent = std::exchange(waiting, {});
  setbacks = seen->setbacks() + (std::exchange(begun, true) ? 0 : 1);
  auto const replies = line.send(sent);
  bool const answered = replies.results.size() == sent.size();  // the connection may be gone all the same
  if (replies.failure && !answered) commit_failed(replies);
  if (std::string_view{PQcmdStatus(replies.results.back().get())} != "COMMIT") {
    end_rolled_back();
    throw error{errc::store_failure, "the transaction was rolled back by the server: a statement in it had failed",
                "25P02"};
  }
  note_suppressed(sent, replies.results);
  if (seen->setbacks_at_commit() != setbacks) {  // a savepoint was queued, and rolled back
    return end([](written const& w) { w.observer->committed_in_part(); });
  }
  for (std::size_t i = 0; i < asked.size(); ++i) note_absences(asked[i], replies.results[first_check + i].get());
  end([](written const& w) { w.uncertain ? w.observer->committed_in_part() : w.observer->committed(); });
}

void transaction::state::commit_failed(driver::replies const& replies) {
  auto const e = *replies.failure;
  if (replies.unsent || replies.refused || !replies.broken) {
    failed = true;
    rollback();
    throw e;
  }
  end_in_doubt();
  throw error{errc::commit_in_doubt, e.what(), std::string{e.sqlstate()}};
}

// A connection that is lost has rolled back, or will when the server notices.
void transaction::state::rollback() noexcept {
  if (over) return;
  if (!committed_by_others()) {
    roll_back_what_is_open();
    return end_rolled_back();
  }
  say_what_is_lost();
  roll_back_what_is_open();  // the next one, after AND CHAIN
  end_in_doubt();
}

transaction::transaction(pg_conn* connection, send_mode how) : state_{std::make_unique<state>(connection, how)} {
  state_->begin();
}

transaction::transaction(connection& c, send_mode how) : state_{std::make_unique<state>(*c.session_, how)} {
  state_->begin();
}

transaction::~transaction() { rollback(); }

bool transaction::active() const noexcept { return state_->in_transaction(); }

pg_conn* transaction::handle() const noexcept { return state_->conn; }

void transaction::enqueue(std::string_view sql, std::initializer_list<sql::value> values) {
  enqueue(sql, std::span{values.begin(), values.size()});
}

void transaction::enqueue(std::string_view sql, std::span<sql::value const> values) {
  if (!active()) throw error{errc::no_transaction, "enqueue() after the end of the transaction"};
  state_->enqueue(sql, values);
}

void transaction::flush() { state_->flush(); }
void transaction::commit() { state_->commit(); }
void transaction::rollback() noexcept { state_->rollback(); }

struct transaction_access {
  static transaction::state& state(void* tx) noexcept { return *static_cast<transaction*>(tx)->state_; }
};

bool in_transaction(pg_conn const* connection) noexcept {
  auto const s = connection == nullptr ? PQTRANS_UNKNOWN : PQtransactionStatus(connection);
  return s == PQTRANS_INTRANS || s == PQTRANS_INERROR;
}

connection::connection(std::string const& connection_string)
    : session_{std::make_unique<session>(connect(connection_string, patience), patience)} {}
connection::~connection() = default;
pg_conn* connection::handle() const noexcept { return session_->conn.get(); }
void connection::execute(std::string const& sql) { run(handle(), sql); }

}  // namespace postgres

transaction_ref transaction_traits<postgres::transaction>::join(postgres::transaction& tx) noexcept {
  using postgres::transaction_access;
  static constexpr transaction_operations operations{
      .kind = "postgres",
      .active = [](void const* t) noexcept { return static_cast<postgres::transaction const*>(t)->active(); },
      .enlist =
          [](void* t, std::shared_ptr<transaction_observer> observer) {
            transaction_access::state(t).writes.push_back({std::move(observer)});
            return true;
          },
      .run = [](void* t, void (*use)(void*, sql::connection&),
                void* what) { use(what, transaction_access::state(t)); }};
  return {&tx, operations};
}

transaction_ref transaction_traits<pg_conn*>::join(pg_conn* connection) noexcept {
  static constexpr transaction_operations operations{
      .kind = "postgres",
      .active = [](void const* t) noexcept { return postgres::in_transaction(static_cast<PGconn const*>(t)); },
      .enlist =
          [](void* t, std::shared_ptr<transaction_observer> observer) {
            return postgres::watch_transaction(static_cast<PGconn*>(t), std::move(observer));
          },
      .run =
          [](void* t, void (*use)(void*, sql::connection&), void* what) {
            postgres::driver d{static_cast<PGconn*>(t), /*keep=*/false};
            use(what, d);
          }};
  return {connection, operations};
}

}  // namespace outbox::inline v0

#include <algorithm>
#include <outbox/detail/postgres_adapter.hpp>
#include <outbox/error.hpp>
#include <outbox/postgres.hpp>

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

statement plain(char const* sql) { return {sql, parameters{{}}}; }

}  // namespace

// A connection of ours, and what is prepared on it.
class session {
 public:
  explicit session(handle c) : conn{std::move(c)}, statements{conn.get(), /*keep=*/!behind_pooler(conn.get())} {}
  handle conn;
  driver statements;
};

// Also the connection that the store sees: it does not wait for statements whose answers nobody needs.
struct transaction::state final : caller_connection {
  state(PGconn* c, travel t) : conn{c}, how{t}, borrowed{std::in_place, c, /*keep=*/false}, line{*borrowed} {}
  state(session& s, travel t) : conn{s.conn.get()}, how{t}, line{s.statements} {}

  void begin();
  void queue(std::string_view sql, std::span<sql::value const> values, bool event = false);
  void flush();
  void restore_early();
  void commit();
  void rollback() noexcept;

  // The store's side.
  [[nodiscard]] bool in_transaction() const noexcept override;
  std::int64_t execute(std::string_view sql, std::span<sql::value const> values,
                       sql::row_function const& on_row) override;
  pg_conn* raw() const noexcept override { return conn; }
  void wrote(std::string_view exists) override {
    if (std::ranges::find(tables, exists) == tables.end()) tables.emplace_back(exists);
  }

  template <class F>
  void end(F&& tell) noexcept {
    over = true;
    waiting.clear();
    leave_pipeline();
    for (auto const& o : observers) tell(*o);
    observers.clear();
  }
  void end_rolled_back() noexcept {
    end([](transaction_observer& o) { o.rolled_back(); });
  }
  void end_in_doubt() noexcept {
    end([](transaction_observer& o) { o.in_doubt(); });
  }

  void leave_pipeline() noexcept {
    if (PQpipelineStatus(conn) != PQ_PIPELINE_OFF) PQexitPipelineMode(conn);
  }
  [[nodiscard]] bool began_on_server() const noexcept { return how == travel::direct || flushed; }
  [[nodiscard]] bool rows_may_be_gone() const noexcept { return seen->setbacks() != setbacks; }
  [[nodiscard]] std::size_t add_existence_checks();
  void note_absences(std::vector<result_handle> const& results, std::size_t first);
  [[noreturn]] void refuse_ended();
  [[noreturn]] void commit_failed(driver::replies const& replies);

  PGconn* conn;
  travel how;
  std::optional<driver> borrowed;  ///< For a handle of the application's.
  driver& line;
  watch* seen = nullptr;
  std::uint64_t setbacks = 0;  ///< When it began.
  bool over = false;
  bool flushed = false;            ///< Pipelined: BEGIN was sent.
  bool failed = false;             ///< Pipelined: a statement failed, and the transaction with it.
  std::vector<statement> waiting;  ///< Not sent yet.
  std::size_t waiting_bytes = 0;
  std::vector<statement> early;      ///< Events from before the first savepoint that were sent behind it.
  std::uint64_t early_setbacks = 0;  ///< When they were sent.
  std::vector<std::string> tables;   ///< One `exists` statement per table that was written.
  std::vector<std::shared_ptr<transaction_observer>> observers;
};

void transaction::state::begin() {
  if (PQstatus(conn) != CONNECTION_OK) throw error_of(conn, nullptr, "cannot begin a transaction");
  if (PQtransactionStatus(conn) != PQTRANS_IDLE) {
    throw error{errc::no_transaction, "the connection is busy or in a transaction already: pass its handle to write()"};
  }
  seen = watch::of(conn);
  if (seen == nullptr) throw error{errc::unavailable, "libpq has no memory for an event procedure"};
  setbacks = seen->setbacks();
  if (how == travel::direct) {
    run(conn, "BEGIN");
    return;
  }
  waiting.push_back(plain("BEGIN"));
  if (PQenterPipelineMode(conn) == 0) throw error_of(conn, nullptr, "cannot begin a pipeline");
}

bool transaction::state::in_transaction() const noexcept {
  if (over) return false;
  if (how == travel::pipelined) return !failed && PQstatus(conn) == CONNECTION_OK;
  auto const s = PQtransactionStatus(conn);
  return s == PQTRANS_INTRANS || s == PQTRANS_INERROR;
}

void transaction::state::queue(std::string_view sql, std::span<sql::value const> values, bool event) {
  waiting.push_back({std::string{sql}, parameters{values}, event});
  waiting_bytes += sql.size() + waiting.back().values.bytes();
  if (waiting_bytes > longest_queue) flush();
}

// A statement whose answer is not asked for may wait for COMMIT. Not if there is a savepoint: what is rolled back to it
// must not be sent afterwards.
std::int64_t transaction::state::execute(std::string_view sql, std::span<sql::value const> values,
                                         sql::row_function const& on_row) {
  if (!on_row && !(began_on_server() && seen->savepoints())) {
    queue(sql, values, /*event=*/true);
    return 0;
  }
  restore_early();
  flush();
  return line.execute(sql, values, on_row);
}

void transaction::state::flush() {
  if (waiting.empty()) return;
  auto sent = std::exchange(waiting, {});
  waiting_bytes = 0;
  flushed = true;
  auto const replies = line.travel(sent);
  if (replies.failure) {
    failed = true;
    throw *replies.failure;
  }
  // Behind a savepoint that was set after they were written they might be rolled back with it, and must not be.
  if (how == travel::direct && seen->savepoints()) {
    early_setbacks = seen->setbacks();
    std::ranges::copy_if(std::make_move_iterator(sent.begin()), std::make_move_iterator(sent.end()),
                         std::back_inserter(early), [](statement const& s) { return s.event; });
    for (auto& s : early) s.sql += s.sql.ends_with(unless_there) ? std::string_view{} : unless_there;
  }
}

// What was written before any savepoint, sent behind one, and rolled back with it: again.
void transaction::state::restore_early() {
  if (early.empty() || early_setbacks == seen->setbacks()) return;
  early_setbacks = seen->setbacks();
  auto all = early;
  std::ranges::move(waiting, std::back_inserter(all));
  waiting = std::move(all);
}

// A savepoint that was rolled back has taken rows along, or none: asked in the same round trip as COMMIT.
std::size_t transaction::state::add_existence_checks() {
  if (!rows_may_be_gone()) return 0;
  std::size_t checks = 0;
  for (auto const& o : observers) {
    for (std::size_t i = 0; i < o->size(); ++i) {
      for (auto const& exists : tables) {
        sql::value const values[] = {std::string_view{o->event_id(i)}, std::string_view{o->token(i)}};
        waiting.push_back({exists, parameters{values}});
        ++checks;
      }
    }
  }
  return checks;
}

void transaction::state::note_absences(std::vector<result_handle> const& results, std::size_t at) {
  for (auto const& o : observers) {
    for (std::size_t i = 0; i < o->size(); ++i) {
      bool present = false;
      for (std::size_t t = 0; t < tables.size(); ++t) present = PQntuples(results[at++].get()) > 0 || present;
      if (!present) o->absent(i);
    }
  }
}

void transaction::state::refuse_ended() {
  auto const unsent = waiting.size();
  end_in_doubt();
  throw error{errc::no_transaction, "the transaction was ended by a statement of the application's: how, is not known" +
                                        (unsent == 0 ? std::string{}
                                                     : "; " + std::to_string(unsent) +
                                                           " statements with events had not been sent and are lost")};
}

void transaction::state::commit() {
  if (over) throw error{errc::no_transaction, "commit() after the end of the transaction"};
  if (how == travel::direct && PQstatus(conn) == CONNECTION_OK && !in_transaction()) refuse_ended();
  restore_early();
  auto const first_check = waiting.size();
  auto const checks = add_existence_checks();
  waiting.push_back(plain("COMMIT"));
  auto const sent = std::exchange(waiting, {});
  setbacks = seen->setbacks();
  auto const replies = line.travel(sent);
  if (replies.failure) commit_failed(replies);
  if (std::string_view{PQcmdStatus(replies.results.back().get())} != "COMMIT") {
    end_rolled_back();
    throw error{errc::store_failure, "the transaction was rolled back by the server: a statement in it had failed",
                "25P02"};
  }
  if (rows_may_be_gone()) return end_in_doubt();  // a savepoint that was queued, and rolled back, on the way
  if (checks > 0) note_absences(replies.results, first_check);
  end([](transaction_observer& o) { o.committed(); });
}

void transaction::state::commit_failed(driver::replies const& replies) {
  auto const& e = *replies.failure;
  if (replies.unsent) {
    end_rolled_back();
    throw e;
  }
  // An error that the server sent came before COMMIT, or instead of it.
  bool const answered = !e.sqlstate().empty() && !e.sqlstate().starts_with("57P") && !e.sqlstate().starts_with("08");
  if (!replies.broken || answered) {
    rollback();
    throw e;
  }
  end_in_doubt();
  throw error{errc::commit_in_doubt, e.what(), std::string{e.sqlstate()}};
}

void transaction::state::rollback() noexcept {
  if (over) return;
  waiting.clear();
  if (!began_on_server()) return end_rolled_back();
  leave_pipeline();
  if (PQstatus(conn) == CONNECTION_OK && PQtransactionStatus(conn) == PQTRANS_IDLE && how == travel::direct &&
      !failed && !rows_may_be_gone()) {
    return end_in_doubt();  // ended by a statement of the application's
  }
  // A connection that is lost has rolled back, or will when the server notices.
  if (PQstatus(conn) == CONNECTION_OK) result_handle const done{PQexec(conn, "ROLLBACK")};
  end_rolled_back();
}

transaction::transaction(pg_conn* connection, travel how) : state_{std::make_unique<state>(connection, how)} {
  state_->begin();
}

transaction::transaction(connection& c, travel how) : state_{std::make_unique<state>(*c.session_, how)} {
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
  state_->queue(sql, values);
}

void transaction::flush() { state_->flush(); }
void transaction::commit() { state_->commit(); }
void transaction::rollback() noexcept { state_->rollback(); }

struct transaction_access {
  static transaction::state& state(void* tx) noexcept { return *static_cast<transaction*>(tx)->state_; }
};

connection::connection(std::string const& connection_string)
    : session_{std::make_unique<session>(connect(connection_string, std::chrono::seconds{10}))} {}
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
            transaction_access::state(t).observers.push_back(std::move(observer));
            return true;
          },
      .run = [](void* t, void (*use)(void*, sql::connection&),
                void* what) { use(what, transaction_access::state(t)); }};
  return {&tx, operations};
}

transaction_ref transaction_traits<pg_conn*>::join(pg_conn* connection) noexcept {
  static constexpr transaction_operations operations{
      .kind = "postgres",
      .active =
          [](void const* t) noexcept {
            auto const s = PQtransactionStatus(static_cast<PGconn const*>(t));
            return s == PQTRANS_INTRANS || s == PQTRANS_INERROR;
          },
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

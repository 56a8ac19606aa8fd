// What a `postgres::transaction` sends before it ends, and when.
#include <algorithm>
#include <iterator>
#include <outbox/error.hpp>
#include <utility>

#include "postgres/execute.hpp"
#include "postgres/transaction_state.hpp"

namespace outbox::inline v0::postgres {
namespace {

// A queue that is longer than this is sent: libpq keeps a copy of it while it is sent.
constexpr std::size_t longest_queue = 1U << 20U;

// BEGIN, one statement of the application, an event, COMMIT.
constexpr std::size_t usual_queue = 4;

// Makes an INSERT one that may be sent again.
constexpr std::string_view unless_there = " ON CONFLICT DO NOTHING";
constexpr std::string_view answer_follows = " RETURNING ";

}  // namespace

void transaction::state::begin() {
  if (PQstatus(conn) != CONNECTION_OK) throw error_of(conn, nullptr, "cannot begin a transaction");
  if (PQtransactionStatus(conn) == PQTRANS_ACTIVE) throw connection_is_busy();
  if (PQtransactionStatus(conn) != PQTRANS_IDLE) {
    throw error{errc::no_transaction, "the connection is in a transaction already: pass its handle to write()"};
  }
  seen = watch::of(conn);
  if (seen == nullptr) throw error{errc::unavailable, "libpq has no memory for an event procedure"};
  seen->idle();
  began = seen->now();
  waiting.reserve(usual_queue);
  if (pipelined()) {
    waiting.push_back({"BEGIN", parameters{}});
    if (PQenterPipelineMode(conn) == 0) throw error_of(conn, nullptr, "cannot begin a pipeline");
    return;
  }
  run(conn, "BEGIN");
  begun = true;
}

bool transaction::state::in_transaction() const noexcept {
  if (over || failed) return false;
  if (pipelined()) return PQstatus(conn) == CONNECTION_OK;
  return postgres::in_transaction(conn);
}

void transaction::state::check_open(std::string const& call) const {
  if (in_transaction()) return;
  bool const busy = PQstatus(conn) == CONNECTION_OK && PQtransactionStatus(conn) == PQTRANS_ACTIVE;
  if (!over && !failed && busy) throw connection_is_busy();
  throw error{errc::no_transaction, call + " after the end of the transaction"};
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
  if (pipelined() || !waiting.empty()) flush();  // it may ask about rows that wait
  return line.execute(sql, values, on_row);
}

// The application waits for the answer, so the queue is sent first, and the pipeline ends for the time of the
// statement.
sql::result transaction::state::execute(std::string_view sql, std::span<sql::argument const> args) {
  if (!pipelined()) return execute_on(conn, sql, args);
  flush();
  if (PQexitPipelineMode(conn) == 0) throw error_of(conn, nullptr, "cannot leave the pipeline");
  struct enter_again {
    ~enter_again() { PQenterPipelineMode(conn); }
    PGconn* conn;
  } const later{conn};
  return execute_on(conn, sql, args);
}

// Only the end needs the answer, so the INSERT may wait for COMMIT. Not if there is a savepoint: a statement that the
// application rolls back to a savepoint must not be sent afterwards.
void transaction::state::send_insert(statement s) {
  if (pipelined() || !seen->savepoints()) return wait_with(std::move(s));
  flush();
  note_inserted(std::span{&s, 1}, line.send_or_throw(std::span{&s, 1}));
}

void transaction::state::insert(std::string_view sql, std::span<parameter const> values, std::size_t rows) {
  send_insert({std::string{sql}, parameters{values}, rows, write});
}

void transaction::state::insert_and_tell(std::string_view sql, std::string_view returning,
                                         std::span<parameter const> values, std::size_t rows,
                                         std::shared_ptr<insert_answer> answer) {
  send_insert({std::string{sql}.append(returning), parameters{values}, rows, write, std::move(answer)});
}

// A trigger or a rule of the table may have suppressed rows or moved them elsewhere. A statement that is sent a second
// time leaves out the rows that are there; then the existence check at COMMIT counts.
void transaction::state::note_inserted(std::span<statement const> sent,
                                       std::span<result_handle const> answers) noexcept {
  for (std::size_t i = 0; i < std::min(sent.size(), answers.size()); ++i) {
    auto const& s = sent[i];
    if (s.answer) s.answer->tell(result_rows{answers[i].get()});
    bool const again = s.sql.ends_with(unless_there);
    if (s.rows == 0 || again || result_rows{answers[i].get()}.changed() >= static_cast<std::int64_t>(s.rows)) continue;
    writes.doubt(s.write);
  }
}

void transaction::state::flush() {
  if (over) return;
  if (ended_by_others()) give_up_what_waits();
  auto const before = seen->now();
  bool const behind_savepoint = !pipelined() && seen->savepoints();
  restore_early();
  if (waiting.empty()) return;
  auto sent = std::exchange(waiting, {});
  waiting_bytes = 0;
  begun = true;
  auto const replies = line.send(sent);
  if (replies.failure) {
    failed = true;
    throw *replies.failure;
  }
  note_inserted(sent, replies.results);
  if (!behind_savepoint) return;
  // They were written before the savepoint and must not be rolled back with it.
  early = std::move(sent);
  early_sent = before;
  for (auto& s : early) {
    if (s.answer) {  // a row that is inserted anew gets another number
      s.answer->forget();
      s.answer.reset();
      s.sql.resize(s.sql.rfind(answer_follows));
      s.values.drop_last();
    }
    if (!s.sql.ends_with(unless_there)) s.sql += unless_there;
  }
}

// Sends events again that were written before any savepoint, sent behind one, and perhaps rolled back with it.
void transaction::state::restore_early() {
  if (early.empty() || seen->unchanged_since(early_sent)) return;
  auto all = std::exchange(early, {});
  std::ranges::move(waiting, std::back_inserter(all));
  waiting = std::move(all);
}

void transaction::state::writes_to(write_target const& to) {
  auto const known =
      std::ranges::find_if(tables, [&](target const& t) { return t.name == to.table && t.exists == to.exists; });
  auto const table = static_cast<std::size_t>(known - tables.begin());
  if (known == tables.end()) tables.push_back({std::string{to.table}, std::string{to.exists}, to.log});
  write = writes.writes_to(table);
}

}  // namespace outbox::inline v0::postgres

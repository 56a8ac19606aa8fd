// How a `postgres::transaction` ends, and what is done if SQL on its connection has ended it before.
#include <algorithm>
#include <outbox/error.hpp>
#include <set>
#include <utility>

#include "postgres/transaction_state.hpp"

namespace outbox::inline v0::postgres {

// Ready before the observers are told: one of them may begin another transaction on the connection.
void transaction::state::end(void (spi::enlisted::*outcome)() noexcept) noexcept {
  over = true;
  waiting.clear();
  early.clear();
  if (PQpipelineStatus(conn) != PQ_PIPELINE_OFF) PQexitPipelineMode(conn);
  (writes.*outcome)();
}

// Rolling back to a savepoint may have removed rows. This asks in the same round trip as COMMIT. Each table is asked
// for the rows that were written to it: the same event may have gone to another one. A table that this role may not
// read is not asked, because that would fail the transaction. Returns the tables that are asked.
std::vector<std::size_t> transaction::state::add_existence_checks() {
  std::vector<std::size_t> asked;
  if (seen->unchanged_since(began)) return asked;
  struct columns {
    std::vector<std::optional<std::string_view>> ids, tokens;
  };
  std::vector<columns> rows(tables.size());
  for (std::size_t table = 0; table < tables.size(); ++table) {
    if (tables[table].exists.empty()) writes.doubt_table(table);
  }
  writes.for_each_row([&](spi::enlisted::row const& r) {
    if (r.table == spi::enlisted::no_table) return;
    rows[r.table].ids.emplace_back(r.event_id);
    rows[r.table].tokens.emplace_back(r.token);
  });
  for (std::size_t table = 0; table < tables.size(); ++table) {
    if (rows[table].ids.empty()) continue;
    parameter const values[] = {text_array{rows[table].ids}, text_array{rows[table].tokens}};
    waiting.push_back({tables[table].exists, parameters{values}});
    asked.push_back(table);
  }
  return asked;
}

// Tells the observers what the existence checks answered. Returns false if there is no memory to do so.
bool transaction::state::confirm(std::span<std::size_t const> asked, std::span<result_handle const> answers) noexcept
    try {
  if (asked.empty()) return true;
  std::set<std::tuple<std::size_t, std::string_view, std::string_view>> present;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    auto* const answer = answers[i].get();
    auto const text = [&](int row, int column) {
      return std::string_view{PQgetvalue(answer, row, column),
                              static_cast<std::size_t>(PQgetlength(answer, row, column))};
    };
    for (int row = 0; row < PQntuples(answer); ++row) present.emplace(asked[i], text(row, 0), text(row, 1));
  }
  writes.confirm([&](spi::enlisted::row const& r) { return present.contains({r.table, r.event_id, r.token}); });
  return true;
} catch (std::bad_alloc const&) {
  return false;
}

void transaction::state::check_may_commit() {
  if (over) throw error{errc::no_transaction, "commit() after the end of the transaction"};
  if (failed) {
    rollback();
    throw error{errc::store_failure, "the transaction was rolled back: a statement that was sent for it had failed",
                "25P02"};
  }
  if (!pipelined() && PQstatus(conn) == CONNECTION_OK && PQtransactionStatus(conn) == PQTRANS_ACTIVE) {
    throw connection_is_busy();
  }
  if (ended_by_others()) give_up_what_waits();
}

// A statement that is sent outside of the transaction would be committed by itself, or by the next transaction.
bool transaction::state::ended_by_others() const noexcept {
  if (!begun || PQstatus(conn) != CONNECTION_OK) return false;
  return PQtransactionStatus(conn) == PQTRANS_IDLE || seen->ended_since(began);
}

bool transaction::state::committed_by_others() const noexcept {
  if (!begun || PQstatus(conn) != CONNECTION_OK) return false;
  if (seen->committed_since(began)) return true;
  // It ended without a trace. A failed transaction has left one, here or on the connection.
  return !pipelined() && !failed && seen->unchanged_since(began) && PQtransactionStatus(conn) == PQTRANS_IDLE;
}

std::size_t transaction::state::unsent_events(std::size_t table) const noexcept {
  std::size_t events = 0;
  for (auto const& s : waiting) {
    if (s.rows > 0 && writes.table_of(s.write) == table) events += s.rows;
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
  end(&spi::enlisted::in_doubt);
  throw error{errc::no_transaction, text};
}

// The caller gets no error from a rollback, so the log gets it.
void transaction::state::log_lost_events() const noexcept {
  for (std::size_t table = 0; table < tables.size(); ++table) {
    auto const events = unsent_events(table);
    auto const log = tables[table].log.lock();
    if (events == 0 || !log || !*log) continue;
    try {
      auto const number = std::to_string(events);
      auto const text =
          "a postgres::transaction was committed or prepared by SQL on its connection instead of commit(): "
          "events of table '" +
          tables[table].name + "' that had not been sent by then are lost: " + number;
      log_field const lost{"lost", number};
      (*log)({.level = log_level::error, .message = text, .fields = {&lost, 1}});
    } catch (...) {  // NOLINT(bugprone-empty-catch): a log that throws must not harm the caller
    }
  }
}

void transaction::state::commit() {
  check_may_commit();
  restore_early();
  auto const first_check = waiting.size();
  auto const asked = add_existence_checks();
  waiting.push_back({"COMMIT", parameters{}});
  auto const sent = std::exchange(waiting, {});
  auto const before = seen->now();
  begun = true;
  auto const replies = line.send(sent);
  bool const answered = replies.results.size() == sent.size();  // the connection may be lost even so
  if (replies.failure && !answered) commit_failed(replies);
  if (std::string_view{PQcmdStatus(replies.results.back().get())} != "COMMIT") {
    end(&spi::enlisted::rolled_back);
    throw error{errc::store_failure, "the transaction was rolled back by the server: a statement in it had failed",
                "25P02"};
  }
  note_inserted(sent, replies.results);
  // A savepoint in the queue may have been rolled back between the INSERT and COMMIT.
  bool const known =
      seen->was_unchanged_at_commit(before) && confirm(asked, std::span{replies.results}.subspan(first_check));
  end(known ? &spi::enlisted::committed : &spi::enlisted::committed_in_part);
}

void transaction::state::commit_failed(driver::replies const& replies) {
  auto const e = *replies.failure;
  if (replies.unsent || replies.refused || !replies.broken) {
    failed = true;
    rollback();
    throw e;
  }
  end(&spi::enlisted::in_doubt);
  throw error{errc::commit_in_doubt, e.what(), std::string{e.sqlstate()}};
}

// The server rolls back a connection that is lost as soon as it notices.
void transaction::state::rollback() noexcept {
  if (over) return;
  if (!committed_by_others()) {
    roll_back_what_is_open();
    return end(&spi::enlisted::rolled_back);
  }
  log_lost_events();
  roll_back_what_is_open();  // the next one, after AND CHAIN
  end(&spi::enlisted::in_doubt);
}

}  // namespace outbox::inline v0::postgres

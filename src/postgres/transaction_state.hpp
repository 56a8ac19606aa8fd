// What a `postgres::transaction` knows: its queue, the tables that were written, and how it may end.
#pragma once

#include <optional>
#include <outbox/postgres.hpp>
#include <outbox/spi/enlisted.hpp>
#include <outbox/spi/postgres_adapter.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "postgres/driver.hpp"
#include "postgres/session.hpp"
#include "postgres/watch.hpp"

namespace outbox::inline v0::postgres {

/// A table that was written.
struct target {
  std::string name;
  std::string exists;                     ///< Finds rows by id and token; empty: this role may not read the table.
  std::weak_ptr<log_function const> log;  ///< The store's log.
};

/// Also the connection that the store sees. Its INSERT does not wait for an answer: it may be sent with COMMIT.
/// transaction_queue.cpp has what is sent before the end, transaction_end.cpp how it ends.
struct transaction::state final : caller_connection {
  state(PGconn* c, send_mode t) : conn{c}, how{t}, borrowed{std::in_place, c, prepared::once}, line{*borrowed} {}
  state(session& s, send_mode t) : conn{s.conn.get()}, how{t}, line{s.statements} {}

  void begin();
  void enqueue(std::string_view sql, std::span<sql::value const> values);
  [[nodiscard]] sql::result execute(std::string_view sql, std::span<sql::argument const> args);
  void flush();
  void commit();
  void rollback() noexcept;

  // The store's side.
  [[nodiscard]] bool in_transaction() const noexcept override;
  std::int64_t execute(std::string_view sql, std::span<sql::value const> values,
                       sql::row_function const& on_row) override;
  pg_conn* raw() const noexcept override { return conn; }
  void writes_to(write_target const& to) override;
  void insert(std::string_view sql, std::span<parameter const> values, std::size_t rows) override;
  void insert_and_tell(std::string_view sql, std::string_view returning, std::span<parameter const> values,
                       std::size_t rows, std::shared_ptr<insert_answer> answer) override;

  // The queue.
  void check_open(std::string const& call) const;
  [[nodiscard]] bool pipelined() const noexcept { return how == send_mode::pipelined; }
  void wait_with(statement s);
  void restore_early();
  void send_insert(statement s);
  void note_inserted(std::span<statement const> sent, std::span<result_handle const> answers) noexcept;

  // The end.
  void end(void (spi::enlisted::*outcome)() noexcept) noexcept;
  [[nodiscard]] std::vector<std::size_t> add_existence_checks();
  [[nodiscard]] bool confirm(std::span<std::size_t const> asked, std::span<result_handle const> answers) noexcept;
  void check_may_commit();
  [[nodiscard]] bool ended_by_others() const noexcept;
  [[nodiscard]] bool committed_by_others() const noexcept;
  [[noreturn]] void give_up_what_waits();
  void roll_back_what_is_open() noexcept;
  [[nodiscard]] std::size_t unsent_events(std::size_t table) const noexcept;
  void log_lost_events() const noexcept;
  [[noreturn]] void commit_failed(driver::replies const& replies);

  PGconn* conn;
  send_mode how;
  std::optional<driver> borrowed;  ///< For a handle of the application.
  driver& line;
  watch* seen = nullptr;
  watch::mark began{};             ///< What the connection had seen when this transaction began.
  bool begun = false;              ///< BEGIN was sent.
  bool over = false;               ///< The observers were told.
  bool failed = false;             ///< A statement that was sent has failed: it can only be rolled back.
  std::vector<statement> waiting;  ///< Not sent yet. Immediate mode: only events, from before any savepoint.
  std::size_t waiting_bytes = 0;
  std::vector<statement> early;  ///< Events from before any savepoint that were sent behind one.
  watch::mark early_sent{};      ///< What the connection had seen before they were sent.
  std::vector<target> tables;
  spi::enlisted writes;
  std::size_t write = 0;  ///< The one that the store makes now.
};

}  // namespace outbox::inline v0::postgres

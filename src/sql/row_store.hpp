// Writes, claims, settles and renews row by row: for databases in the same process, where a statement needs no round
// trip.
#pragma once

#include <outbox/spi/claim_filter.hpp>

#include "core/base/resumed_walk.hpp"
#include "sql/note_pace.hpp"
#include "sql/sql_store.hpp"
#include "sql/stored_event.hpp"

namespace outbox::inline v0::sql {

/// The statements of a database that works row by row.
struct row_statements {
  // event_id, event_type, aggregate_type, aggregate_id, tenant_id, payload, headers, available_at, created_at,
  // inserted_at, ordering_key, locked_by, locked_at, lease_until, content_type, payload_bytes, blocked
  std::string insert;

  std::string due;       ///< now, floor -> claimable rows in claim order: `{row}`, locked_at
  std::string in_order;  ///< now -> pending rows by seq except delayed ones: the columns of `due`
  // token, now, lease end, first and last seq, crashes; what was seen: status, attempts, crashes, owner or NULL,
  // progress, earliest and latest available_at
  std::string take;
  std::string due_keyed;  ///< as `due`; behind its columns: the id of the row before it, whether the next is blocked
  std::string run;  ///< key, seq, limit -> the rows in line behind it: the columns of `due`, whether it is in form
  /// As `take`, for rows in line, blocked or not: takes a row only if nothing is before it or that row has the token.
  std::string take_in_line;
  std::string note;            ///< now, seq of a row. Changes nothing if nothing is before it, or a delayed row is.
  std::string put_out_before;  ///< now, seq: puts the row before this one outside the order, if its writer delayed it
  std::string taken;           ///< first and last seq, token -> seq
  std::string make_dead;       ///< now, error, seq, the owner that was seen
  std::string next_due;        ///< now -> claimable instants after it, event_type, aggregate_type
  std::string next_grown;      ///< now, skip_recent -> the first insert that is due and still too young
  std::string exists;          ///< event_id, token

  // Each ends with: seq, event_id, token. With seq 0 the row is found by its id.
  std::string settle_done;     ///< now, progress
  std::string settle_retry;    ///< counted, due, error, progress
  std::string settle_defer;    ///< due, error or NULL, progress
  std::string settle_erased;   ///< (nothing); deletes the row
  std::string settle_dead;     ///< counted, now, error, progress; behind the token: does it leave the line of its key?
  std::string settle_release;  ///< (nothing)

  // A run: rows of one claim with consecutive numbers.
  std::string settle_done_run;    ///< now, first and last seq, token; no progress
  std::string settle_erased_run;  ///< first and last seq, token

  std::string release;  ///< token, now, the last instant that its lease may reach
  std::string renew;    ///< now, lease end

  std::string heads;         ///< key, limit -> the keys behind it; seq of the first row in line, is that one blocked?
  std::string unblock_head;  ///< now, seq of such a row that is blocked
  std::string blocked;       ///< -> seq of rows that are blocked
  std::string clear_note;    ///< now, seq
};

class OUTBOX_SQL_EXPORT row_store : public sql_store {
 public:
  ~row_store() override;

  using sql_store::insert;
  void insert(transaction_ref tx, std::span<insertion const> rows,
              std::shared_ptr<insert_receipt> const& receipt) override;
  claim_reply claim(claim_request const& request) override;
  settle_reply settle(std::span<settlement const> items) override;
  std::vector<bool> renew(std::span<row_handle const> rows, std::chrono::milliseconds lease) override;
  std::size_t release(std::span<owner_token const> tokens, std::chrono::milliseconds lease) override;
  std::size_t heal(std::size_t limit) override;

 protected:
  row_store(dialect d, row_statements r, done_rows done);

  [[nodiscard]] row_statements const& row_by_row() const noexcept { return rows_; }

  /// Afterwards no row is blocked. In transactions of 1000 rows, so that writers wait for one of them at most.
  void clear_notes();

 private:
  struct candidates;

  /// A part of the walk of healing.
  struct page_of_keys {
    std::vector<std::int64_t> strays;  ///< seq of rows that are blocked although they are the first of their key.
    std::string last;                  ///< The last key that was looked at. Empty: there are no more.
  };

  void insert_one(connection& c, stored_event const& e);
  [[nodiscard]] candidates choose(connection& c, claim_request const& request, claim_reply& reply);
  void follow(connection& c, claim_request const& request, std::string const& key, std::int64_t seq, std::size_t room,
              claim_filter& filter, candidates& chosen) const;
  void take_all(claim_request const& request, candidates& chosen, claim_reply& reply);
  void take(connection& c, claim_request const& request, candidates& chosen, bool by_runs);
  void note_all(connection& c, candidates& chosen);
  void take_run(connection& c, claim_request const& request, candidates& chosen, std::span<std::size_t const> run);
  [[nodiscard]] std::vector<std::int64_t> numbers(std::string const& statement,
                                                  std::initializer_list<value> parameters);
  [[nodiscard]] page_of_keys look_at_heads(std::string_view after, std::size_t most);
  void look_ahead(connection& c, claim_request const& request, claim_reply& reply);
  [[nodiscard]] std::int64_t settle_one(connection& c, settlement const& s);
  [[nodiscard]] std::int64_t settle_run(connection& c, settlement const& first, settlement const& last);
  [[nodiscard]] settle_reply settle(std::span<settlement const> items, std::span<std::size_t const> order,
                                    bool by_runs);

  row_statements rows_;
  done_rows done_;
  note_pace note_pace_;
  core::resumed_walk<std::string> healing_;  ///< Behind a key.
};

}  // namespace outbox::inline v0::sql

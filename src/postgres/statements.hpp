// The statements of the PostgreSQL store, made from a layout.
#pragma once

#include <array>
#include <cstddef>
#include <outbox/detail/postgres_export.hpp>
#include <string>

#include <outbox/store.hpp>

#include "sql/dialect.hpp"
#include "sql/layout.hpp"

namespace outbox::inline v0::postgres {

/// The columns that the INSERT of one event needs: parsing a statement that is not prepared costs time for each column.
struct insert_shape {
  enum class due { now, after, at } when = due::now;
  bool owned = false;
  bool rich = false;   ///< It has a tenant, headers, an ordering key or a payload of bytes.
  bool about = false;  ///< It names an aggregate.

  static constexpr std::size_t count = 24;
  [[nodiscard]] std::size_t index() const noexcept {
    return static_cast<std::size_t>(when) * 8 + (owned ? 4 : 0) + (rich ? 2 : 0) + (about ? 1 : 0);
  }
};

/// The columns of a candidate: what a claim must know of a row before it takes it.
struct candidate_column {
  enum {
    event_id,
    event_type,
    aggregate_type,
    owned,
    tried,
    crashes,
    inserted_at,
    claimable_at,
    bytes,
    nothing_earlier,    ///< True unless a transaction that began to write earlier may still commit; only `in_order`.
    foreign_locked_at,  ///< When a program without leases locked it, else NULL; likewise the next one.
    foreign_owner,

    // Of a keyed claim only. A run has no columns of what stands beside the row; they follow its number and key.
    key,
    seq,
    moved,  ///< It was made due later than it was inserted.
    before,
    before_is_delayed,
    next_blocked,
  };
};

/// The statements for many rows at once, whose parameters are arrays. Every instant is the server's own.
struct array_statements {
  // event_id, event_type, payload, created_at; then, as the shape has it, aggregate_type; available_at as an instant or
  // as microseconds from now; aggregate_id; token, lease; tenant_id, headers, ordering_key, content_type,
  // payload_bytes.
  std::array<std::string, insert_shape::count> insert_one;

  // event_id, event_type, aggregate_type, aggregate_id, payload, created_at, token as arrays, lease; for delayed rows
  // then available_at and microseconds from now; for rich ones tenant_id, headers, ordering_key, content_type,
  // payload_bytes. A column that a row does not have is empty. The index is 2 for rich plus 1 for delayed.
  std::array<std::string, 4> insert_many;

  /// the turn's name, how long to wait -> the instant of the claim. Waits for the turn of this transaction; fails with
  /// lock_not_available (55P03) if it does not come in time.
  std::string begin_in_turn;
  std::string begin_without_turn;  ///< -> the instant of the claim

  // Parameters: limit, skip_recent, unowned only?, paused types, paused pairs of type and aggregate type, crashes of a
  // suspect or 0 for every row, the first claimable instant to look at or NULL, ids to leave, how far back to look or
  // NULL. Result: `candidate_column`.
  std::string due;          ///< By claimable instant. Locks the rows, passing over those that others have locked.
  std::string due_in_keys;  ///< The same, and what stands beside each row in its key.
  std::string run;          ///< keys, seqs, limit -> a head's number, `candidate_column` up to seq, id, locked?
  std::string note;         ///< ids
  std::string leave;        ///< ids -> key, seq, id of those that left the line
  std::string in_order;     ///< limit, paused types, paused pairs. By seq. Locks the rows.
  std::string next_due;     ///< -> the first claimable instant after now

  /// paused types, paused pairs -> the same among rows that are not paused; if very many are paused, when to look again
  std::string next_due_beside_pauses;
  std::string next_grown;  ///< skip_recent -> the first insert that is due and still too young
  std::string take;        ///< token, lease, ids -> `{claimed}`
  std::string make_dead;   ///< error, event_id

  // The parameters of each begin with ids, tokens. Each returns the ids of the rows that it settled.
  std::string settle_done;         ///< progress
  std::string settle_done_of_one;  ///< (nothing); a single token instead of tokens
  std::string settle_retry;        ///< progress, errors, delays, counted
  std::string settle_defer;        ///< progress, errors, delays
  std::string settle_dead;         ///< progress, errors, counted, do they leave the line of their key?
  std::string settle_release;      ///< (nothing)
  std::string release;             ///< tokens, the longest lease in microseconds
  std::string renew;               ///< lease -> ids and tokens

  std::string told;         ///< Behind an INSERT: [finished] -> seq, the row before it, is that known?
  std::string places;       ///< ids -> number from 1, seq, the row before it
  std::string heal_keys;    ///< behind this key, number of keys -> healed rows, the last key; NULL behind the last one
  std::string clear_notes;  ///< key, seq, limit -> the last row's
  std::string unblock;      ///< keys, seqs of rows that were settled

  std::string exists;  ///< ids, tokens -> the ids and tokens of the rows that exist
  std::string now;     ///< -> the server's time
};

[[nodiscard]] OUTBOX_POSTGRES_EXPORT sql::dialect shared_statements(sql::layout const& table);
[[nodiscard]] OUTBOX_POSTGRES_EXPORT array_statements set_statements(sql::layout const& table, done_rows done);

}  // namespace outbox::inline v0::postgres

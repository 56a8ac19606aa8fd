// The statements of the PostgreSQL store, made from a layout.
#pragma once

#include <array>
#include <cstddef>
#include <outbox/detail/postgres_export.hpp>
#include <string>

#include "sql/dialect.hpp"
#include "sql/layout.hpp"

namespace outbox::inline v0::postgres {

/// What one event needs of its INSERT: a statement that is not prepared costs by the column.
struct insert_shape {
  enum class due { now, after, at } when = due::now;
  bool owned = false;
  bool rich = false;  ///< Has a tenant, headers, an ordering key or a payload of bytes.

  static constexpr std::size_t count = 12;
  [[nodiscard]] std::size_t index() const noexcept {
    return static_cast<std::size_t>(when) * 4 + (owned ? 2 : 0) + (rich ? 1 : 0);
  }
};

/// What a claim asks of a row before it takes it.
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
    nothing_earlier,    ///< No transaction that began to write before its writer can still commit.
    foreign_locked_at,  ///< Of a program that knows no leases, like the next one; else NULL.
    foreign_owner,
  };
};

/// The statements for many rows at once, whose parameters are arrays. Every instant is the server's own.
struct array_statements {
  // event_id, event_type, aggregate_type, aggregate_id, payload, created_at; then, as the shape has it, available_at as
  // an instant or as microseconds from now; token, lease; tenant_id, headers, ordering_key, content_type,
  // payload_bytes.
  std::array<std::string, insert_shape::count> insert_one;

  // event_id, event_type, aggregate_type, aggregate_id, payload, created_at, token as arrays, lease; for delayed rows
  // then available_at and microseconds from now; for rich ones tenant_id, headers, ordering_key, content_type,
  // payload_bytes. Empty for what a row does not have. By 2 for rich and 1 for delayed.
  std::array<std::string, 4> insert_many;

  // Arguments: limit, skip_recent, unowned only?, types that are paused, types with aggregate types that are paused,
  // crashes of a suspect or 0 for every row, the first claimable instant to look at or NULL, ids that are left, or how
  // far back to look (or NULL). Result: `candidate_column`.
  std::string due;       ///< By claimable instant; locked, without waiting for what others have locked.
  std::string in_order;  ///< By seq; locked.
  std::string next_due;  ///< -> the first claimable instant after now

  /// paused, paused pairs -> the same, without what is paused; or, if there is much of that, when to look again
  std::string next_due_beside_pauses;
  std::string next_grown;  ///< skip_recent -> the first insert that is due and still too young
  std::string take;        ///< token, lease, ids -> `{row}`
  std::string kill;        ///< error, event_id

  // Each begins with: ids, tokens; and returns the ids of the rows that it changed.
  std::string settle_done;     ///< progress
  std::string settle_retry;    ///< progress, errors, delays, counted
  std::string settle_defer;    ///< progress, errors, delays
  std::string settle_dead;     ///< progress, errors, counted
  std::string settle_release;  ///< (nothing)
  std::string release;         ///< tokens, microseconds that their leases may last
  std::string renew;           ///< lease -> the tokens too

  std::string exists;  ///< ids, tokens -> the ids and tokens of the rows that are there
  std::string now;     ///< -> the server's time
};

[[nodiscard]] OUTBOX_POSTGRES_EXPORT sql::dialect shared_statements(sql::layout const& table);
[[nodiscard]] OUTBOX_POSTGRES_EXPORT array_statements set_statements(sql::layout const& table);

}  // namespace outbox::inline v0::postgres

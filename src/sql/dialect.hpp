// The statements of one database, with the table's name in them.
//
// Parameters are positional and the same for every dialect; an instant that the database computes is a `from_now`. A
// statement that ends rows repeats every condition: id, token, unfinished.
#pragma once

#include <array>
#include <cstddef>
#include <outbox/detail/sql_export.hpp>
#include <string>

namespace outbox::inline v0::sql {

/// What every store sends alike.
struct dialect {
  std::string kind;  ///< "sqlite", …
  std::string begin, commit, rollback;

  std::string lock_meta;   ///< So that nobody else changes it meanwhile; empty where `begin` does that.
  std::string read_meta;   ///< name -> value
  std::string write_meta;  ///< name, value

  std::string expire_others;     ///< now, incarnation + "/"
  std::string find;              ///< event_id -> `row_columns`
  std::string counts;            ///< -> status, count
  std::string heartbeat;         ///< incarnation, name, version, mode, lease ms, held, lease end
  std::string forget_old_nodes;  ///< a day ago
  std::string retire;            ///< incarnation
  std::string nodes;             ///< now -> incarnation, name, version, mode, lease ms, held
  std::string purge;             ///< done?, dead?, ended before, limit
  std::string purge_by_age;      ///< inserted before, now, limit
  std::string dead;              ///< type or NULL, aggregate or NULL, limit -> `row_columns`
  std::string count_dead;        ///< type or NULL, aggregate or NULL
  std::string replay;            ///< now, event_id
  std::string replay_some;       ///< now, type or NULL, aggregate or NULL, died by, limit
};

/// What a database does row by row.
struct row_statements {
  // event_id, event_type, aggregate_type, aggregate_id, tenant_id, payload, headers, available_at, created_at,
  // inserted_at, ordering_key, locked_by, locked_at, lease_until, content_type, payload_bytes
  std::string insert;

  std::string due;         ///< now, floor -> claimable rows in claim order: `row_columns`, claimable instant, locked_at
  std::string in_order;    ///< now -> pending rows by seq, without those that are delayed: the columns of `due`
  std::string take;        ///< token, now, lease end, seq; the owner or NULL and the available_at that were seen
  std::string kill;        ///< now, error, seq, the owner that was seen
  std::string next_due;    ///< now -> claimable instants after it, event_type, aggregate_type
  std::string next_grown;  ///< now, skip_recent -> the first insert that is due and still too young
  std::string exists;      ///< event_id, token

  // Each ends with: seq, event_id, token. With seq 0 the row is found by its id.
  std::string settle_done;     ///< now, progress
  std::string settle_retry;    ///< counted, due, error, progress
  std::string settle_defer;    ///< due, error or NULL, progress
  std::string settle_dead;     ///< counted, now, error, progress
  std::string settle_release;  ///< (nothing)
  std::string release;         ///< token, now, the last instant that its lease may reach
  std::string renew;           ///< now, lease end
};

/// How the SQLite store puts rows of other programs in form. All in one transaction.
struct foreign_statements {
  std::string find;  ///< limit -> seq, is the id text?, the id or its literal, event_type, available_at
  std::string mend;  ///< available_at, seq
  std::string kill;  ///< now, error, seq
};

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

/// What a database with arrays does for many rows at once. Every instant is the server's own.
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
  std::string take;        ///< token, lease, ids -> `row_columns`
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

[[nodiscard]] OUTBOX_SQL_EXPORT dialect postgres_statements(std::string const& table, std::string const& schema);
[[nodiscard]] OUTBOX_SQL_EXPORT array_statements postgres_array_statements(std::string const& table,
                                                                           std::string const& schema);

[[nodiscard]] OUTBOX_SQL_EXPORT dialect sqlite_statements(std::string const& table);
[[nodiscard]] OUTBOX_SQL_EXPORT row_statements sqlite_row_statements(std::string const& table);
[[nodiscard]] OUTBOX_SQL_EXPORT foreign_statements sqlite_foreign_statements(std::string const& table);

}  // namespace outbox::inline v0::sql

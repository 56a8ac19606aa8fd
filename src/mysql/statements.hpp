// The statements of the store on MariaDB and MySQL, made from a layout.
#pragma once

#include <outbox/detail/mysql_export.hpp>
#include <outbox/store.hpp>
#include <string>

#include "sql/dialect.hpp"
#include "sql/layout.hpp"

namespace outbox::inline v0::mysql {

/// The columns of a candidate: what a claim must know of a row before it takes it.
struct candidate_column {
  enum {
    seq,
    event_id,
    event_type,
    aggregate_type,
    owned,
    tried,
    crashes,
    inserted_at,
    claimable_at,
    bytes,
    foreign_locked_at,  ///< When a program without leases locked it, else NULL; likewise the next one.
    foreign_owner,
    now,  ///< The server's time of the look.
    key,  ///< Of a keyed look only: the row's key, or NULL.
  };
};

/// Parts of the statements for many rows. Lists and conditions are added where they are sent, see rows.hpp; in the
/// complete ones, `[rows]` stands for a JSON array with an array for each row.
struct set_statements {
  std::string table;                   ///< Its name.
  std::string insert_columns;          ///< INSERT INTO … (the columns that every event has
  std::string guard, guard_end;        ///< Around the first id: makes the INSERT fail outside a transaction.
  std::string rich_columns;            ///< , the columns that most events leave NULL
  std::string look;                    ///< SELECT `candidate_column` FROM … WHERE …, up to the first condition
  std::string look_in_keys;            ///< The same for a claim that keeps the order of keys
  std::string look_end;                ///< ORDER BY … LIMIT
  std::string order_branch;            ///< The same for a claim in order, for one status; the number of that at its end
  std::string order_begin;             ///< Around the two branches
  std::string order_end;               ///< Behind them
  std::string ours;                    ///< Condition: the owner is a node of this library.
  std::string inserted_at;             ///< When the row was inserted.
  std::string not_paused_type;         ///< event_type
  std::string not_paused_pair;         ///< (event_type, aggregate_type)
  std::string next_due;                ///< -> the first claimable instant after now
  std::string next_due_beside_pauses;  ///< [paused] stands for the condition
  std::string next_grown;              ///< ?1 skip_recent in microseconds -> the first insert that is too young
  std::string take;                    ///< ?1 token, ?2 lease. Conditions follow.
  std::string taken;                   ///< SELECT `{claimed}` … ?1 token. Conditions follow.
  std::string make_dead;               ///< ?1 error, ?2 event_id

  // Rows are [id, token, …]. Each changes the rows that carry their token and are unfinished.
  std::string settle_done;     ///< progress
  std::string settle_retry;    ///< progress, error, delay, counted
  std::string settle_defer;    ///< progress, error, delay
  std::string settle_dead;     ///< progress, error, counted, leaves?
  std::string settle_release;  ///< (nothing)
  std::string renew;           ///< ?1 lease
  std::string owned;           ///< -> id and token of the rows that such a statement would change; locks them

  // Without a join, for rows of one token, or with tokens among the conditions. Conditions follow.
  std::string settle_done_plain;   ///< (nothing)
  std::string settle_done_of_one;  ///< ?1 token
  std::string owned_of_one;        ///< ?1 token -> ids, locked

  std::string release;                                    ///< ?1 longest lease; [tokens] stands for their list
  std::string seq, event_id, status, locked_by, crashes;  ///< Names of columns.
};

/// `collation` is that of the table, which compares bytes. `mariadb`: statements that only MariaDB knows are allowed.
[[nodiscard]] OUTBOX_MYSQL_EXPORT sql::dialect shared_statements(sql::layout const& table,
                                                                 std::string const& collation);
[[nodiscard]] OUTBOX_MYSQL_EXPORT set_statements statements_for_sets(sql::layout const& table, done_rows done,
                                                                     std::string const& collation, bool mariadb);

}  // namespace outbox::inline v0::mysql

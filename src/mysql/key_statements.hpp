// The statements of the store on MariaDB and MySQL that keep the order of keys.
#pragma once

#include <string>

#include "sql/layout.hpp"

namespace outbox::inline v0::mysql {

/// The columns of `key_statements::around`.
struct neighbour_column {
  enum { seq, event_id, blocked, delayed };
};

/// Complete statements, except for `[rows]`: a JSON array with an array for each row, or a list in parentheses. Those
/// that change rows read which ones first, without a lock, see statement_parts.hpp.
///
/// The place of a row in its key is read by statements that name the key and the number as values. In a statement that
/// takes them from another table, the server finds the key by the index, and then reads all of its rows.
struct key_statements {
  std::string around;  ///< ?1 key, ?2 seq, ?3 limit -> the row in line before seq, and those from seq on

  std::string waiting;  ///< ids -> seq, key, due_at of rows that a claim could note

  // Notes rows [seq, seq of the row before, due_at]. Never waits: it skips what others have locked, and it locks a row
  // where claims do, in the index of due rows, because a claim that has skipped a row keeps its lock there.
  // It blocks nothing on a table that is not marked.
  std::string note;        ///< Several statements
  std::string note_block;  ///< The same as one statement of MariaDB, which ends its transaction even if it fails
  std::string noted;       ///< -> how many they were

  std::string run;           ///< ?1 key, ?2 seq, ?3 limit -> seq and due_at of the rows behind it
  std::string lock_due;      ///< rows [seq, due_at] -> `candidate_column` of those that are locked now
  std::string lock_waiting;  ///< rows [seq], the same for blocked ones

  // Each row that is to be unblocked is added to @outbox_next, and then all are changed.
  std::string begin_unblock;
  std::string add_next;          ///< ?1 key, ?2 seq
  std::string add_next_if_left;  ///< ?1 key, ?2 seq, ?3 id; if that row is not in line
  std::string unblock;

  std::string delayed;  ///< ids -> @outbox_rows; then key, seq and id of those that another program has delayed, locked
  std::string leave;    ///< Conditions follow.

  std::string forget_place;  ///< Before `find_place`
  std::string find_place;    ///< ?1 id -> @outbox_seq, @outbox_key
  std::string place;         ///< -> seq, the row before it

  std::string heal;          ///< ?1 key, ?2 number of keys. Two statements
  std::string healed_to;     ///< ?2 -> the last key, if there may be more
  std::string blocked_page;  ///< ?1 key, ?2 seq, ?3 limit -> key, seq, blocked
  std::string clear;         ///< Conditions follow.
};

/// `indexed`: the table has what schema/mysql/keyed.sql adds.
[[nodiscard]] key_statements statements_for_keys(sql::layout const& table, std::string const& collation, bool indexed);

}  // namespace outbox::inline v0::mysql

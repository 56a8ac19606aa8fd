// The statements that every SQL store sends, made for one layout of one database.
//
// Parameters are positional and the same for every database. Texts are written with ?1, ?2, …; a database that wants
// other placeholders rewrites each text once. An instant that the database computes is a `from_now`. A statement that
// ends rows repeats every condition: id, token, unfinished.
#pragma once

#include <array>
#include <functional>
#include <string>

namespace outbox::inline v0::sql {

/// The parts of statements whose conditions depend on a filter. In a statement, `[rows]` stands for the table and
/// `[filter]` for the conditions, each with " AND " before it. In a condition, `[?]` stands for its parameter.
struct filter_texts {
  std::string rows;                   ///< The table.
  std::string dead_rows;              ///< The table, read through the index of DEAD rows.
  std::string status_column;          ///< Its name.
  std::array<std::string, 4> status;  ///< The values, by `event_status`.
  std::string id_in;                  ///< The parameter is a JSON array of ids.
  std::string event_type, aggregate_type, aggregate_id, tenant, key;  ///< The parameter is text.
  std::string inserted_by;                                            ///< The parameter is a `from_now`.
  std::string inserted_after;                                         ///< The parameter is a `from_now`.
  std::string newest;    ///< The parameter is a number of rows. Empty: the database cannot find the newest cheaply.
  std::string ended_by;  ///< The parameter is an instant.
  std::function<std::string(std::string const&)> finish;  ///< Makes the text that the database gets.
};

struct dialect {
  std::string kind;  ///< "sqlite", …
  std::string begin;

  // The same in every database so far. The savepoint belongs to the library.
  std::string commit = "COMMIT";
  std::string rollback = "ROLLBACK";
  std::string savepoint = "SAVEPOINT outbox_write";
  std::string release_savepoint = "RELEASE SAVEPOINT outbox_write";
  std::string rollback_to = "ROLLBACK TO SAVEPOINT outbox_write";

  std::string lock_meta;      ///< Keeps others from changing the meta table; empty where `begin` does that.
  std::string read_meta;      ///< name -> value
  std::string read_settings;  ///< -> name, value of pauses, oldest_library and keyed
  std::string write_meta;     ///< name, value

  std::string expire_others;  ///< now, incarnation + "/"
  std::string find;           ///< event_id -> `{row}`
  std::string counts;         ///< -> status, count
  // incarnation, name, version, mode, lease ms, held, lease end, now, active, reason, lock key, done, failed, dead,
  // erased, routes
  std::string heartbeat;
  std::string forget_old_nodes;  ///< a day ago. Empty: `heartbeat` forgets them too, and has that parameter at its end
  std::string retire;            ///< incarnation
  // now -> incarnation, name, version, mode, lease ms, held, started_at, active, reason, lock key, done, failed, dead,
  // erased, routes
  std::string nodes;
  std::string purge;         ///< done?, dead?, ended before, limit
  std::string purge_by_age;  ///< inserted before, now, limit

  // By filter. The texts have the marks of `filter_texts`, and the first parameter is a limit.
  filter_texts filter;
  std::string list, list_newest;  ///< -> `{row}`
  std::string count;              ///< -> count
  std::string errors;             ///< -> error, rows, DEAD rows, first, last, an id, a type, types. Empty: no column
  std::string cancel;             ///< now, reason
  std::string replay;             ///< now
  std::string purge_rows;         ///< (nothing)
  std::string parked_rows;        ///< -> event_id, key, seq of DEAD rows in line, locked

  // Order per key.
  std::string leave_line;    ///< event_id of a DEAD row
  std::string unblock_next;  ///< now, key, seq and event_id of a row. Changes nothing while that row is in line.
  std::string placed;        ///< event_id -> seq, the id of the row before it
  std::string parked_keys;   ///< limit -> key, event_id, done_at, rows that wait

  // The same for a table with an index for keys, where they name it. Empty: the server chooses by itself.
  std::string unblock_next_by_index, parked_keys_by_index;

  std::string overview;       ///< limit, now, a minute ago -> as `overview_text()` selects. Empty: there is none.
  std::string blocked;        ///< limit, a minute ago -> as `blocked_text()` selects
  std::string event_types;    ///< -> event_type, aggregate_type, status, count, sorted
  std::string waiting_types;  ///< limit -> event_type, aggregate_type, status, count, sorted. Empty: not cheap here.
  std::string owners;         ///< limit, an instant -> as `owners_text()` selects. Empty: owners are in memory.
  std::string begin_audit;    ///< now, who, verb, filter, reason, matched; -> id, unless there is `last_audit`
  std::string last_audit;     ///< -> id
  std::string end_audit;      ///< now, changed, id
  std::string audit;          ///< limit -> id, at, who, verb, filter, reason, matched, changed, ended_at
};

}  // namespace outbox::inline v0::sql

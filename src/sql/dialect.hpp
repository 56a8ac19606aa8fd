// The statements that every SQL store sends, made for one layout of one database.
//
// Parameters are positional and the same for every database. Texts are written with ?1, ?2, …; a database that wants
// other placeholders rewrites each text once. An instant that the database computes is a `from_now`. A statement that
// ends rows repeats every condition: id, token, unfinished.
#pragma once

#include <string>

namespace outbox::inline v0::sql {

struct dialect {
  std::string kind;  ///< "sqlite", …
  std::string begin, commit, rollback;
  std::string savepoint, release_savepoint, rollback_to;  ///< Of one savepoint of the library.

  std::string lock_meta;   ///< Keeps others from changing the meta table; empty where `begin` does that.
  std::string read_meta;   ///< name -> value
  std::string write_meta;  ///< name, value

  std::string expire_others;     ///< now, incarnation + "/"
  std::string find;              ///< event_id -> `{row}`
  std::string counts;            ///< -> status, count
  std::string heartbeat;         ///< incarnation, name, version, mode, lease ms, held, lease end
  std::string forget_old_nodes;  ///< a day ago
  std::string retire;            ///< incarnation
  std::string nodes;             ///< now -> incarnation, name, version, mode, lease ms, held
  std::string purge;             ///< done?, dead?, ended before, limit
  std::string purge_by_age;      ///< inserted before, now, limit
  std::string dead;              ///< type or NULL, aggregate or NULL, limit -> `{row}`
  std::string count_dead;        ///< type or NULL, aggregate or NULL
  std::string replay;            ///< now, event_id
  std::string replay_some;       ///< now, type or NULL, aggregate or NULL, died by, limit
};

}  // namespace outbox::inline v0::sql

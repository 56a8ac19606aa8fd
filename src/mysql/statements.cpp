#include "mysql/statements.hpp"

#include "mysql/statement_parts.hpp"
#include "sql/findings.hpp"
#include "sql/overview.hpp"

namespace outbox::inline v0::mysql {
namespace {

// Pending rows in the line of a key, blocked ones too. Only a table that is marked keyed is asked, and it has the
// column.
#define IN_ORDER "{outbox_event} WHERE key_in_line IS NOT NULL AND " PENDING("")

void add_purge(sql::dialect& d, in_layout const& t) {
#define ENDED(flag, which, more)                                                                                  \
  "(SELECT {seq} FROM {outbox_event} FORCE INDEX ({outbox_event_ended}) WHERE " flag " = 1 AND {status} = " which \
  " AND ended_at <= ?3" more " ORDER BY ended_at LIMIT ?4)"
  d.purge = t(CHOOSE("SELECT x.{seq} FROM (" ENDED("?1", "{DONE}", "") " UNION ALL " ENDED(
      "?2", "{DEAD}", " AND " NOT_PARKING) ") x ORDER BY x.{seq} LIMIT ?4") "DELETE t FROM " CHOSEN
                                                                            " WHERE t.ended_at <= ?3 AND ((?1 = 1 AND "
                                                                            "t.{status} = {DONE}) OR (?2 = 1 AND "
                                                                            "t.{status} = {DEAD}))");
#undef ENDED
  // Rows are inserted in the order of seq, so the oldest are found without an index of their own.
  d.purge_by_age =
      t(CHOOSE("SELECT {seq} FROM {outbox_event} WHERE " INSERTED_AT
               " <= ?1 AND NOT EXISTS (SELECT 1 FROM {outbox_node} WHERE mode <> 'writer_only' AND lease_until > ?2) "
               "ORDER BY {seq} LIMIT ?3") "DELETE t FROM " CHOSEN);
}

// Those that have a limit, a filter, and the marks of sql::filter_texts.
void add_filter_statements(sql::dialect& d, in_layout const& t) {
  auto& f = d.filter;
  f.rows = t("{outbox_event}");
  f.dead_rows = t("{outbox_event} FORCE INDEX ({outbox_event_ended})");
  f.status_column = t("{status}");
  f.status = {t("{NEW}"), t("{DONE}"), t("{RETRY}"), t("{DEAD}")};
  f.id_in = t("{event_id} IN (SELECT j.id FROM JSON_TABLE([?], '$[*]' COLUMNS (id varchar(36) [utf8] PATH '$')) j)");
  f.event_type = t("{event_type} = [?]");
  f.aggregate_type = t("coalesce({aggregate_type}, '__GLOBAL__') = [?]");
  f.aggregate_id = t("{aggregate_id} = [?]");
  f.tenant = t("{tenant_id} = [?]");
  f.key = t(KEY("") " = [?]");
  f.inserted_by = t(INSERTED_AT " <= [?]");
  f.inserted_after = t(INSERTED_AT " > [?]");
  f.newest = t("{seq} > (SELECT n.last FROM (SELECT max({seq}) AS last FROM {outbox_event}) n) - [?]");
  f.ended_by = "ended_at <= [?]";

#define FILTERED(conditions) CHOOSE("SELECT {seq} FROM [rows] WHERE " conditions "[filter] ORDER BY {seq} LIMIT ?1")
  d.list = t("SELECT {row} FROM [rows] WHERE true[filter] ORDER BY {seq} LIMIT ?1");
  d.list_newest = t("SELECT {row} FROM [rows] WHERE true[filter] ORDER BY {seq} DESC LIMIT ?1");
  d.count = t("SELECT count(*) FROM (SELECT 1 FROM [rows] WHERE true[filter] LIMIT ?1) x");
  d.errors =
      t("SELECT e, count(*), count(CASE WHEN s = {DEAD} THEN 1 END), min(a), max(a), min(i), min(y), count(DISTINCT y) "
        "FROM (SELECT {last_error} AS e, {status} AS s, coalesce({done_at}, " INSERTED_AT
        ") AS a, {event_id} AS i, {event_type} AS y FROM [rows] WHERE {last_error} IS NOT NULL[filter]) q GROUP BY e "
        "ORDER BY 2 DESC, e LIMIT ?1");
  d.cancel =
      t(FILTERED(PENDING("")) "UPDATE " CHOSEN " SET {status} = {DEAD}, {done_at} = ?2, {last_error} = ?3, " NO_NOTE
                              ", " NO_OWNER " WHERE " PENDING("t."));
  d.replay = t(FILTERED("{status} = {DEAD}") "UPDATE " CHOSEN
                                             " SET {status} = {NEW}, {attempts} = 0, {crashes} = 0, {available_at} = "
                                             "?2, {done_at} = NULL, "
                                             "{last_error} = NULL, " NO_NOTE " WHERE t.{status} = {DEAD}");
  d.purge_rows = t(FILTERED("{status} IN ({DONE}, {DEAD}) AND " NOT_PARKING) "DELETE t FROM " CHOSEN
                                                                             " WHERE t.{status} IN ({DONE}, {DEAD})");
#undef FILTERED
  d.parked_rows = t("SELECT {event_id}, " KEY(
      "") ", {seq} FROM [rows] WHERE {status} = {DEAD} AND {blocked} IS NOT "
          "NULL AND " KEY("") " IS NOT NULL[filter] ORDER BY {seq} LIMIT ?1 FOR UPDATE");
}

std::string overview_of(in_layout const& t) {
  return t(sql::overview_text(
      {.limit = "?1",
       .now = "?2",
       .minute_ago = "?3",
       .later = "greatest",
       .claimable = "due_at",
       .available = "{available_at}",
       .inserted = INSERTED_AT,
       .pending = "{outbox_event} FORCE INDEX ({outbox_event_due}) WHERE due_at IS NOT NULL",
       .dead = "{outbox_event} FORCE INDEX ({outbox_event_ended}) WHERE {status} = {DEAD}",
       .just_ended =
           "{outbox_event} FORCE INDEX ({outbox_event_ended}) WHERE {status} IN ({DONE}, {DEAD}) AND ended_at "
           "> ?3",
       // Two looks at the end of an index, not one at all terminal rows.
       .last_ended = "(SELECT max(x.e) FROM ((SELECT max(ended_at) AS e FROM {outbox_event} FORCE INDEX "
                     "({outbox_event_ended}) WHERE {status} = {DONE}) UNION ALL (SELECT max(ended_at) FROM "
                     "{outbox_event} FORCE INDEX ({outbox_event_ended}) WHERE {status} = {DEAD})) x)"}));
}

std::string blocked_of(in_layout const& t) {
  return t(sql::blocked_text({.limit = "?1", .minute_ago = "?2", .inserted = INSERTED_AT}, IN_ORDER));
}

sql::pending_forms pending_forms() {
  return {.limit = "?1",
          .instant = "?2",
          .claimable = "due_at",
          .pending = "{outbox_event} FORCE INDEX ({outbox_event_due}) WHERE due_at IS NOT NULL",
          .dead = "{outbox_event} FORCE INDEX ({outbox_event_ended}) WHERE {status} = {DEAD}"};
}

// Operators also work on tables that have no index for keys.
void add_key_statements(sql::dialect& d, in_layout const& t) {
  d.leave_line = t("UPDATE {outbox_event} SET {blocked} = NULL WHERE {event_id} = ?1 AND {status} = {DEAD}");
  for (bool const indexed : {false, true}) {
    auto const unblock_next = t(
        in_line(CHOOSE("SELECT x.{seq} FROM [line:x] WHERE [key:x] = ?2 AND x.{seq} > ?3 AND NOT EXISTS (SELECT 1 FROM "
                       "{outbox_event} p WHERE p.{event_id} = ?4 AND " IN_LINE(
                           "p.") ") ORDER BY x.{seq} LIMIT 1") "UPDATE " CHOSEN " SET {blocked} = 0, {available_at} = "
                                                               "greatest(t.{available_at}, ?1) WHERE t.{blocked} = 1 "
                                                               "AND " PENDING("t."),
                indexed));
    auto const parked_keys =
        t(in_line("SELECT r.k, r.id, r.at, (SELECT count(*) FROM [line:w] WHERE [key:w] = r.k AND w.{status} IN "
                  "({NEW}, {RETRY})) "
                  "FROM (SELECT [key:x] AS k, x.{event_id} AS id, x.{done_at} AS at, x.{seq} AS s FROM {outbox_event} "
                  "x FORCE INDEX "
                  "({outbox_event_ended}) WHERE x.{status} = {DEAD} AND x.{blocked} IS NOT NULL) r WHERE r.k IS NOT "
                  "NULL AND r.s = "
                  "(SELECT p.{seq} FROM [line:p] WHERE [key:p] = r.k ORDER BY p.{seq} LIMIT 1) ORDER BY r.k LIMIT ?1",
                  indexed));
    (indexed ? d.unblock_next_by_index : d.unblock_next) = unblock_next;
    (indexed ? d.parked_keys_by_index : d.parked_keys) = parked_keys;
  }
  d.event_types =
      t("SELECT {event_type}, coalesce({aggregate_type}, '__GLOBAL__') AS a, {status}, count(*) FROM {outbox_event} "
        "GROUP BY {event_type}, a, {status} ORDER BY {event_type}, a");
  d.begin_audit =
      t("INSERT INTO {outbox_audit} (at, who, verb, filter, reason, matched) VALUES (?1, ?2, ?3, ?4, ?5, ?6)");
  d.last_audit = "SELECT last_insert_id()";
  d.end_audit = t("UPDATE {outbox_audit} SET ended_at = ?1, changed = ?2 WHERE id = ?3 AND ended_at IS NULL");
  d.audit =
      t("SELECT id, at, who, verb, filter, reason, matched, changed, ended_at FROM {outbox_audit} ORDER BY id DESC "
        "LIMIT ?1");
}

}  // namespace

sql::dialect shared_statements(sql::layout const& table, std::string const& collation) {
  auto const t = made_for(table, collation);
  sql::dialect d;
  d.kind = "mysql";
  d.begin = "START TRANSACTION";
  // A change of the settings locks this row first. Writers that ask for the identity of the table lock another one.
  d.lock_meta = t("SELECT 1 FROM {outbox_meta} WHERE name = 'schema_version' FOR UPDATE");
  d.read_meta = t("SELECT value FROM {outbox_meta} WHERE name = ?1");
  d.read_settings = t("SELECT name, value FROM {outbox_meta} WHERE name IN ('pauses', 'oldest_library', 'keyed')");
  d.write_meta =
      t("INSERT INTO {outbox_meta} (name, value) VALUES (?1, ?2) ON DUPLICATE KEY UPDATE value = VALUES(value)");
#define OTHERS(r) \
  r "{locked_by} IS NOT NULL AND " r "{lease_until} > " NOW " AND left(" r "{locked_by}, char_length(?2)) <> ?2"
  d.expire_others =
      t(CHOOSE("SELECT {seq} FROM {outbox_event} FORCE INDEX ({outbox_event_due}) WHERE due_at > " NOW " AND " OTHERS(
          "") " ORDER BY {seq}" EVERY_ROW) "UPDATE " CHOSEN
                                           " SET {lease_until} = ?1 WHERE " OTHERS("t.") " AND " PENDING("t."));
#undef OTHERS
  d.find = t("SELECT {row} FROM {outbox_event} WHERE {event_id} = ?1");
  d.counts = t("SELECT {status}, count(*) FROM {outbox_event} GROUP BY {status}");
  d.heartbeat =
      t("INSERT INTO {outbox_node} (incarnation, name, version, mode, lease_ms, held, lease_until, started_at, active, "
        "reason, lock_key, done, failed, dead, erased, routes) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, "
        "?12, ?13, ?14, ?15, ?16) ON DUPLICATE KEY UPDATE name = VALUES(name), version = VALUES(version), mode = "
        "VALUES(mode), lease_ms = VALUES(lease_ms), held = VALUES(held), lease_until = VALUES(lease_until), active = "
        "VALUES(active), reason = VALUES(reason), lock_key = VALUES(lock_key), done = VALUES(done), failed = "
        "VALUES(failed), dead = VALUES(dead), erased = VALUES(erased), routes = VALUES(routes)");
  // Nearly always there are none. A DELETE without a key would wait for the heartbeats of all others.
  d.forget_old_nodes =
      t("SELECT json_arrayagg(json_array(incarnation)) INTO @outbox_rows FROM {outbox_node} WHERE lease_until < ?1; "
        "DELETE n FROM JSON_TABLE(@outbox_rows, '$[*]' COLUMNS (old varchar(128) [utf8] PATH '$[0]')) c STRAIGHT_JOIN "
        "{outbox_node} n FORCE INDEX (PRIMARY) ON n.incarnation = c.old WHERE n.lease_until < ?1");
  d.retire = t("DELETE FROM {outbox_node} WHERE incarnation = ?1");
  d.nodes =
      t("SELECT incarnation, name, version, mode, lease_ms, held, started_at, active, reason, lock_key, done, failed, "
        "dead, erased, routes FROM {outbox_node} WHERE lease_until > ?1 ORDER BY incarnation");
  add_purge(d, t);
  d.overview = overview_of(t);
  d.blocked = blocked_of(t);
  d.waiting_types = t(sql::waiting_types_text(pending_forms()));
  d.owners = t(sql::owners_text(pending_forms()));
  add_filter_statements(d, t);
  add_key_statements(d, t);
  return d;
}

set_statements statements_for_sets(sql::layout const& table, done_rows done, std::string const& collation,
                                   bool mariadb) {
  auto const t = made_for(table, collation);
  set_statements s;
  s.table = t("{outbox_event}");
  s.seq = t("{seq}");
  s.event_id = t("{event_id}");
  s.status = t("{status}");
  s.locked_by = t("{locked_by}");
  s.crashes = t("{crashes}");
  // aggregate_id is never left out: an adopted table may have a default of its own.
  s.insert_columns =
      t("INSERT INTO {outbox_event} ({event_id}, {event_type}, {payload}, {created_at}, {aggregate_type}, "
        "{aggregate_id}, {available_at}, {inserted_at}, {locked_by}, {locked_at}, {lease_until}, {blocked}");
  // An error that no sql_mode makes a warning. MySQL does not tell a statement whether it is in a transaction.
  if (mariadb) {
    s.guard = "if(@@in_transaction OR NOT @@autocommit,";
    s.guard_end = ",18446744073709551615 + 1)";
  }
  s.rich_columns = t(", {tenant_id}, {headers}, {ordering_key}, {content_type}, {payload_bytes}");
  s.ours = t(OURS);
  s.inserted_at = t(INSERTED_AT);
  s.not_paused_type = t("{event_type}");
  s.not_paused_pair = t("({event_type}, coalesce({aggregate_type}, '__GLOBAL__'))");

  s.look = t("SELECT " CANDIDATE(
      "", "coalesce(due_at, " NOW ")") " FROM {outbox_event} FORCE INDEX ({outbox_event_due}) WHERE due_at <= " NOW);
  s.look_in_keys = t("SELECT " CANDIDATE("", "due_at") ", CASE WHEN {blocked} IS NOT NULL THEN " KEY(
      "") " END FROM {outbox_event} FORCE INDEX ({outbox_event_due}) WHERE due_at <= " NOW);
  s.look_end = t(" ORDER BY due_at, {seq} LIMIT ");
  s.order_begin = t("SELECT " CANDIDATE("t.", "coalesce(due_at, " NOW ")") " FROM (SELECT x.{seq} FROM (");
  s.order_branch =
      t("(SELECT {seq} FROM {outbox_event} FORCE INDEX ({outbox_event_ended}) WHERE ended_at IS NULL AND "
        "coalesce({blocked}, 0) = 0 AND (due_at <= " NOW
        " OR {status} = {RETRY} OR {last_error} IS NOT NULL OR {locked_by} IS NOT NULL)");
  s.order_end = t(BY_KEY " WHERE " PENDING("t.") " ORDER BY c.{seq} FOR UPDATE");
#define DUE "{outbox_event} FORCE INDEX ({outbox_event_due}) WHERE due_at "
  s.next_due = t("SELECT due_at FROM " DUE "> " NOW " ORDER BY due_at LIMIT 1");
  // Passes over at most a thousand paused rows.
  s.next_due_beside_pauses =
      t("SELECT coalesce(min(if(paused, NULL, at)), if(count(*) = 1000, max(at), NULL)) FROM (SELECT due_at AS at, "
        "NOT (true[paused]) AS paused FROM " DUE "> " NOW " ORDER BY due_at LIMIT 1000) x");
  s.next_grown =
      t("SELECT min(" INSERTED_AT ") FROM " DUE "<= " NOW " AND due_at > " NOW
        " - INTERVAL ?1 MICROSECOND - INTERVAL 1 SECOND AND " INSERTED_AT " > " NOW " - INTERVAL ?1 MICROSECOND");
#undef DUE
  // Assignments are made from left to right.
  s.take = t("UPDATE {outbox_event} SET {crashes} = {crashes} + " OURS ", {locked_by} = ?1, {locked_at} = " NOW
             ", {lease_until} = " LATER("?2") ", " NO_NOTE " WHERE " PENDING("") " AND ");
  s.taken = t("SELECT {claimed} FROM {outbox_event} WHERE {locked_by} = ?1 AND ");
  s.make_dead = t("UPDATE {outbox_event} SET {crashes} = {crashes} + " OURS ", {status} = {DEAD}, {done_at} = " NOW
                  ", {last_error} = ?1, " NO_OWNER " WHERE {event_id} = ?2 AND " PENDING(""));

// The rows that carry the token of the settlement.
#define ROWS(columns)                                                                                     \
  "JSON_TABLE([rows], '$[*]' COLUMNS (id varchar(36) [utf8] PATH '$[0]', token varchar(128) [utf8] PATH " \
  "'$[1]'" columns ")) j STRAIGHT_JOIN {outbox_event} t FORCE INDEX ({outbox_event_id}) ON t.{event_id} = j.id"
#define OWNED " WHERE t.{locked_by} = j.token AND " PENDING("t.")
#define PROGRESS ", p longtext [utf8] PATH '$[2]'"
#define ERROR ", error longtext [utf8] PATH '$[3]'"
#define NUMBER(name, at) ", " name " bigint PATH '$[" at "]'"
#define SETTLED "{crashes} = 0, " NO_OWNER
#define DELIVERED(progress) \
  " SET {status} = {DONE}, {done_at} = " NOW ", {progress} = " progress ", {last_error} = NULL, " SETTLED
  if (done == done_rows::erase) {
    s.settle_done = t("DELETE t FROM " ROWS(PROGRESS) OWNED);
    s.settle_done_of_one = t("DELETE FROM {outbox_event} WHERE {locked_by} = ?1 AND " PENDING("") " AND ");
    s.settle_done_plain = t("DELETE FROM {outbox_event} WHERE " PENDING("") " AND ");
  } else {
    s.settle_done = t("UPDATE " ROWS(PROGRESS) DELIVERED("j.p") OWNED);
    s.settle_done_of_one =
        t("UPDATE {outbox_event}" DELIVERED("NULL") " WHERE {locked_by} = ?1 AND " PENDING("") " AND ");
    s.settle_done_plain = t("UPDATE {outbox_event}" DELIVERED("NULL") " WHERE " PENDING("") " AND ");
  }
  s.settle_retry = t("UPDATE " ROWS(PROGRESS ERROR NUMBER("delay", "4") NUMBER(
      "counted", "5")) " SET {status} = {RETRY}, {attempts} = t.{attempts} + j.counted, {available_at} "
                       "= " LATER("j.delay") ", {last_error} = j.error, {progress} = j.p, " SETTLED OWNED);
  s.settle_defer =
      t("UPDATE " ROWS(PROGRESS ERROR NUMBER("delay", "4")) " SET {status} = {NEW}, {available_at} = " LATER(
          "j.delay") ", {last_error} = coalesce(j.error, t.{last_error}), {progress} = j.p, " SETTLED OWNED);
  s.settle_dead = t("UPDATE " ROWS(PROGRESS ERROR NUMBER("counted", "4") NUMBER(
      "leaves", "5")) " SET {status} = {DEAD}, {attempts} = t.{attempts} + j.counted, {done_at} = " NOW
                      ", {last_error} = j.error, {progress} = j.p, {blocked} = if(j.leaves = 1, NULL, "
                      "t.{blocked}), " SETTLED OWNED);
  s.settle_release = t("UPDATE " ROWS("") " SET " NO_OWNER OWNED);
  // locked_at too: other dispatchers on the same table know the age of a lock only by it.
  s.renew = t("UPDATE " ROWS("") " SET {locked_at} = " NOW
                                 ", {blocked} = if(t.{blocked}, 0, t.{blocked}), {lease_until} "
                                 "= " LATER("?1") OWNED);
  s.owned = t("SELECT t.{event_id}, t.{locked_by} FROM " ROWS("") OWNED " FOR UPDATE");
  s.owned_of_one = t("SELECT {event_id} FROM {outbox_event} WHERE {locked_by} = ?1 AND " PENDING("") " AND ");
  // A live lease is a claimable instant after now and not far from it, so the index skips both due and delayed rows.
  s.release = t(CHOOSE(
      "SELECT {seq} FROM {outbox_event} FORCE INDEX ({outbox_event_due}) WHERE due_at > " NOW " AND due_at <= " LATER(
          "?1") " AND {locked_by} IN [tokens] ORDER BY {seq}" EVERY_ROW) "UPDATE " CHOSEN " SET " NO_OWNER
                                                                         " WHERE t.{locked_by} IN [tokens] "
                                                                         "AND " PENDING("t."));
  return s;
}

}  // namespace outbox::inline v0::mysql

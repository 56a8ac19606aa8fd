#include "mysql/statements.hpp"

#include "sql/findings.hpp"
#include "sql/overview.hpp"

namespace outbox::inline v0::mysql {
namespace {

// The texts are templates of a layout: {event_id} is a column, {NEW} a status, {row} all columns of a row. [utf8] is
// the character set and collation of the table's texts.
//
// A change of rows that are not named by their key is two statements, in one text: the first reads which rows, without
// a lock, and the second locks them by the primary key, in its order, asking every condition again. Locking through
// another index would lock in another order than settlements do. In one statement, the server would lock what it reads:
// it would wait for every transaction that has inserted a row nearby.

#define PENDING(r) r "{status} IN ({NEW}, {RETRY})"
#define NO_OWNER "{locked_by} = NULL, {locked_at} = NULL, {lease_until} = NULL"
#define INSERTED_AT "coalesce({inserted_at}, {created_at})"
#define NOW "utc_timestamp(6)"
#define LATER(n) "(" NOW " + INTERVAL " n " MICROSECOND)"
#define EVERY_ROW " LIMIT 1000000000"

// The owner is a node of this library: it has a lease.
#define OURS "({locked_by} IS NOT NULL AND {lease_until} IS NOT NULL)"

// Clears the note that a row waits for another one. NULL stays NULL.
#define NO_NOTE "{blocked} = if({blocked}, 0, {blocked})"

// The key of the row `r`, as spi::key_of() writes it.
#define KEY(r)                                                                                                    \
  "(CASE WHEN " r "{ordering_key} <> '' THEN concat('=', " r "{ordering_key}) WHEN " r                            \
  "{aggregate_id} <> '' THEN concat(char_length(coalesce(" r "{aggregate_type}, '__GLOBAL__')), ':', coalesce(" r \
  "{aggregate_type}, '__GLOBAL__'), " r "{aggregate_id}) END)"

// The row `r` counts in the order of its key.
#define IN_LINE(r) r "{status} <> {DONE} AND " r "{blocked} IS NOT NULL"

// A table that is marked keyed keeps the DEAD rows that park a key.
#define NOT_PARKING \
  "({status} <> {DEAD} OR {blocked} IS NULL OR " KEY("") " IS NULL OR NOT EXISTS (SELECT 1 FROM {outbox_meta} WHERE " \
  "name = 'keyed' AND value = '1'))"

// Pending rows in the line of a key, blocked ones too.
#define IN_ORDER "{outbox_event} WHERE " PENDING("") " AND " IN_LINE("") " AND " KEY("") " IS NOT NULL"

// The rows that a SELECT of seq names. Each number is an array of its own, so that a list which is longer than the
// server's limit is no JSON, instead of one that ends with another number.
#define CHOOSE(rows) "SELECT json_arrayagg(json_array(c.{seq})) INTO @outbox_rows FROM (" rows ") c; "
#define CHOSEN                                                                                                    \
  "JSON_TABLE(@outbox_rows, '$[*]' COLUMNS (n bigint PATH '$[0]')) c STRAIGHT_JOIN {outbox_event} t FORCE INDEX " \
  "(PRIMARY) "                                                                                                    \
  "ON t.{seq} = c.n"

// The same for a derived table in a SELECT, which reads it without a lock.
#define BY_KEY " c STRAIGHT_JOIN {outbox_event} t FORCE INDEX (PRIMARY) ON t.{seq} = c.{seq}"

struct in_layout {
  sql::layout const& table;
  std::string utf8;  ///< CHARACTER SET … COLLATE …

  std::string operator()(std::string_view sql) const {
    auto text = table.text(sql);
    constexpr std::string_view mark = "[utf8]";
    for (auto at = text.find(mark); at != std::string::npos; at = text.find(mark, at + utf8.size())) {
      text.replace(at, mark.size(), utf8);
    }
    return text;
  }
};

in_layout made_for(sql::layout const& table, std::string const& collation) {
  return {table, "CHARACTER SET utf8mb4 COLLATE " + collation};
}

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
                                             "{last_error} = NULL WHERE t.{status} = {DEAD}");
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

void add_key_statements(sql::dialect& d, in_layout const& t) {
#define UNBLOCKED \
  " SET {blocked} = 0, {available_at} = greatest(t.{available_at}, ?1) WHERE t.{blocked} = 1 AND " PENDING("t.")
  d.leave_line = t("UPDATE {outbox_event} SET {blocked} = NULL WHERE {event_id} = ?1 AND {status} = {DEAD}");
  d.unblock_next = t(CHOOSE("SELECT x.{seq} FROM {outbox_event} x WHERE " KEY("x.") " = ?2 AND " IN_LINE(
      "x.") " AND x.{seq} > ?3 AND NOT EXISTS (SELECT 1 FROM {outbox_event} p WHERE p.{event_id} = ?4 "
            "AND " IN_LINE("p.") ") ORDER BY x.{seq} LIMIT 1") "UPDATE " CHOSEN UNBLOCKED);
  d.placed = t("SELECT r.{seq}, CASE WHEN r.{blocked} IS NOT NULL THEN (SELECT p.{event_id} FROM {outbox_event} p WHERE "
               KEY("p.") " = " KEY("r.") " AND " IN_LINE("p.") " AND p.{seq} < r.{seq} ORDER BY p.{seq} DESC LIMIT 1) "
               "END FROM {outbox_event} r WHERE r.{event_id} = ?1");
#define HEAD                                                                                     \
  "NOT EXISTS (SELECT 1 FROM {outbox_event} p WHERE " KEY("p.") " = " KEY("r.") " AND " IN_LINE( \
      "p.") " AND p.{seq} < r.{seq})"
  d.parked_keys = t("SELECT " KEY("r.") " AS k, r.{event_id}, r.{done_at}, (SELECT count(*) FROM {outbox_event} w WHERE "
                    KEY("w.") " = " KEY("r.") " AND w.{status} IN ({NEW}, {RETRY}) AND w.{blocked} IS NOT NULL) FROM "
                    "{outbox_event} r WHERE r.{status} = {DEAD} AND r.{blocked} IS NOT NULL AND " KEY("r.")
                    " IS NOT NULL AND " HEAD " ORDER BY k LIMIT ?1");
  d.heal = t(CHOOSE("SELECT r.{seq} FROM {outbox_event} r WHERE " PENDING(
      "r.") " AND r.{blocked} = 1 AND " HEAD " ORDER BY r.{seq} LIMIT ?2") "UPDATE " CHOSEN UNBLOCKED);
#undef HEAD
#undef UNBLOCKED
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

// In the order of candidate_column.
#define CANDIDATE(r)                                                                                                 \
  "SELECT " r "{seq}, {event_id}, {event_type}, coalesce({aggregate_type}, '__GLOBAL__'), " OURS                     \
  ", {status} = {RETRY} OR {last_error} IS NOT NULL, {crashes}, " INSERTED_AT ", coalesce(due_at, " NOW              \
  "), length({event_id}) + length({event_type}) + coalesce(length({aggregate_id}), 0) + length({payload}) + "        \
  "coalesce(length({payload_bytes}), 0) + coalesce(length({headers}), 0), if(" OURS ", NULL, {locked_at}), if(" OURS \
  ", NULL, {locked_by}), " NOW
  s.look = t(CANDIDATE("") " FROM {outbox_event} FORCE INDEX ({outbox_event_due}) WHERE due_at <= " NOW);
  s.look_end = t(" ORDER BY due_at, {seq} LIMIT ");
  s.order_begin = t(CANDIDATE("t.") " FROM (SELECT x.{seq} FROM (");
  s.order_branch =
      t("(SELECT {seq} FROM {outbox_event} FORCE INDEX ({outbox_event_ended}) WHERE ended_at IS NULL AND "
        "coalesce({blocked}, 0) = 0 AND (due_at <= " NOW
        " OR {status} = {RETRY} OR {last_error} IS NOT NULL OR {locked_by} IS NOT NULL)");
  s.order_end = t(BY_KEY " WHERE " PENDING("t.") " ORDER BY c.{seq} FOR UPDATE");
#undef CANDIDATE
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

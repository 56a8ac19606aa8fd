#include "sqlite/statements.hpp"

#include "sql/findings.hpp"
#include "sql/overview.hpp"

namespace outbox::inline v0::sqlite {
namespace {

// The texts are templates of a layout: {event_id} is a column, {NEW} a status, {row} all columns of a row.

// The claimable instant, to the letter as in the index of schema/sqlite: SQLite matches index expressions as text. Rows
// with another form of available_at are put in form before a claim looks.
#define CLAIMABLE "max({available_at}, coalesce({lease_until}, ''))"

#define PENDING "{status} IN ({NEW}, {RETRY})"

// Rows that a claim can compare and settle: their ids are text, and their instants sort like their text. To the letter
// as in the index of schema/sqlite.
#define IN_FORM                                                          \
  "typeof({event_id}) = 'text' AND typeof({available_at}) = 'text' AND " \
  "{available_at} GLOB '???[0-9]-?[0-9]-?[0-9] ?[0-9]:?[0-9]:?[0-9]"     \
  ".[0-9][0-9][0-9][0-9][0-9][0-9]'"

// Other programs may write an empty text where there is no owner.
#define OWNER "nullif({locked_by}, '')"

// The owner is a node of this library: it has a lease.
#define OURS OWNER " IS NOT NULL AND {lease_until} IS NOT NULL"

// The row is found by its primary key if a claim told it, and by its id if not, as for a birth.
#define OWNED(n, m, k)                                                                                              \
  " WHERE {seq} = CASE ?" #n " WHEN 0 THEN (SELECT {seq} FROM {outbox_event} WHERE {event_id} = ?" #m ") ELSE ?" #n \
  " END"                                                                                                            \
  " AND {event_id} = ?" #m " AND {locked_by} = ?" #k " AND " PENDING

#define NO_OWNER "{locked_by} = NULL, {locked_at} = NULL, {lease_until} = NULL"

// When a terminal row ended. A program that knows only the columns of the specification may have left done_at empty.
#define ENDED_AT "replace(coalesce({done_at}, {inserted_at}, {created_at}), 'T', ' ')"

// Clears the note that the row `r` waits for another one. NULL stays NULL, which `NULL AND false` would not.
#define NO_NOTE(r) "{blocked} = CASE WHEN " r "{blocked} THEN false ELSE " r "{blocked} END"

// What claims look at. To the letter as in the index of schema/sqlite.
#define CLAIMED PENDING " AND {blocked} IS NOT TRUE"

// From ?2 to now, ?1, in claim order.
#define DUE CLAIMED " AND " CLAIMABLE " >= ?2 AND " CLAIMABLE " <= ?1 AND " IN_FORM " ORDER BY " CLAIMABLE ", {seq}"

// The key of the row `r`, as spi::key_of() writes it.
#define KEY(r)                                                                  \
  "CASE WHEN " r "{ordering_key} <> '' THEN '=' || " r "{ordering_key} WHEN " r \
  "{aggregate_id} <> '' THEN "                                                  \
  "length(coalesce(" r "{aggregate_type}, '__GLOBAL__')) || ':' || coalesce(" r \
  "{aggregate_type}, '__GLOBAL__') || " r "{aggregate_id} END"

// The row `r` counts in the order of its key.
#define IN_LINE(r) r "{status} <> {DONE} AND " r "{blocked} IS NOT NULL"

// The row right before the row `r` in its line, and the one right behind it.
#define BEFORE(x)                                                                         \
  "(SELECT " x " FROM {outbox_event} p WHERE " KEY("p.") " = " KEY("r.") " AND " IN_LINE( \
      "p.") " AND p.{seq} < r.{seq} ORDER BY p.{seq} DESC LIMIT 1)"
#define NEXT(x)                                                                           \
  "(SELECT " x " FROM {outbox_event} n WHERE " KEY("n.") " = " KEY("r.") " AND " IN_LINE( \
      "n.") " AND n.{seq} > r.{seq} ORDER BY n.{seq} LIMIT 1)"

// Nothing is before the row `r` in its line.
#define HEAD BEFORE("true") " IS NULL"

// The row `p` is not due at ?1 because its writer said so, not because of a settlement. A row that was written or
// unblocked may be due later than now because a clock was set back or is ahead; hence the minute. The row may not be in
// form yet, and as text an instant with a T is later than any of its day. NULL if an instant cannot be read.
#define IN_MILLISECONDS(at, more) "strftime('%Y-%m-%d %H:%M:%f', " at more ")"
#define A_MINUTE_AFTER(at) IN_MILLISECONDS(at, ", '+1 minute'")
#define DELAYED_BY_WRITER \
  "(p.{status} = {NEW} AND " IN_MILLISECONDS("p.{available_at}", "") " > max(" A_MINUTE_AFTER(                     \
      "?1") ", " A_MINUTE_AFTER("coalesce(p.{inserted_at}, p.{created_at})") ") AND nullif(p.{locked_by}, '') IS " \
                                                                             "NULL AND nullif(p.{last_error}, '')" \
                                                                             " IS NULL AND CAST(p.{attempts} AS "  \
                                                                             "INTEGER) = 0 AND CAST(p.{crashes}"   \
                                                                             " AS INTEGER) = 0)"

// A table that is marked keyed keeps the DEAD rows that park a key.
#define MARKED "EXISTS (SELECT 1 FROM {outbox_meta} WHERE name = 'keyed' AND value = '1')"
#define NOT_PARKING "({status} <> {DEAD} OR {blocked} IS NULL OR " KEY("") " IS NULL OR NOT " MARKED ")"

// Pending rows in the order of their keys, blocked ones too.
#define IN_ORDER \
  "{outbox_event} WHERE " PENDING " AND " IN_LINE("") " AND " KEY("") " IS NOT NULL ORDER BY " KEY("") ", {seq}"

#define INSERTED_AT "replace(coalesce({inserted_at}, {created_at}), 'T', ' ')"

#define REVIVE(n)                                                          \
  "{status} = {NEW}, {attempts} = 0, {crashes} = 0, {available_at} = ?" #n \
  ", {done_at} = NULL, {last_error} = NULL, " NO_NOTE("")

#define UNBLOCK(n) "{blocked} = false, {available_at} = max(replace({available_at}, 'T', ' '), ?" #n ")"

// Those that have a limit, a filter, and the marks of sql::filter_texts.
void add_filter_statements(sql::dialect& d, sql::layout const& table) {
  auto const t = [&](std::string_view sql) { return table.text(sql); };
  auto& f = d.filter;
  f.rows = t("{outbox_event}");
  // Left alone, the planner would use the primary key or the index of terminal rows for the order. Dead rows are few.
  f.dead_rows = t("{outbox_event} INDEXED BY {outbox_event_dead}");
  f.status_column = t("{status}");
  f.status = {t("{NEW}"), t("{DONE}"), t("{RETRY}"), t("{DEAD}")};
  f.id_in = t("{event_id} IN (SELECT value FROM json_each([?]))");
  f.event_type = t("{event_type} = [?]");
  f.aggregate_type = t("coalesce({aggregate_type}, '__GLOBAL__') = [?]");
  f.aggregate_id = t("{aggregate_id} = [?]");
  f.tenant = t("{tenant_id} = [?]");
  f.key = t(KEY("") " = [?]");
  f.inserted_by = t(INSERTED_AT " <= [?]");
  f.inserted_after = t(INSERTED_AT " > [?]");
  f.newest = t("{seq} > (SELECT max({seq}) FROM {outbox_event}) - [?]");
  f.ended_by = t("{status} IN ({DONE}, {DEAD}) AND " ENDED_AT " <= [?]");

  d.list = t("SELECT {row} FROM [rows] WHERE true[filter] ORDER BY {seq} LIMIT ?1");
  d.list_newest = t("SELECT {row} FROM [rows] WHERE true[filter] ORDER BY {seq} DESC LIMIT ?1");
  d.count = t("SELECT count(*) FROM (SELECT 1 FROM [rows] WHERE true[filter] LIMIT ?1)");
  d.errors =
      t("SELECT e, count(*), count(CASE WHEN s = {DEAD} THEN 1 END), min(a), max(a), min(i), min(y), count(DISTINCT y) "
        "FROM (SELECT {last_error} AS e, {status} AS s, coalesce({done_at}, " INSERTED_AT
        ") AS a, {event_id} AS i, {event_type} AS y FROM [rows] WHERE {last_error} IS NOT NULL[filter]) q GROUP BY e "
        "ORDER BY 2 DESC, e LIMIT ?1");
  d.cancel = t("UPDATE {outbox_event} SET {status} = {DEAD}, {done_at} = ?2, {last_error} = ?3, " NO_NOTE(
      "") ", " NO_OWNER " WHERE {seq} IN (SELECT {seq} FROM [rows] WHERE " PENDING "[filter] ORDER BY {seq} LIMIT ?1)");
  d.replay = t("UPDATE {outbox_event} SET " REVIVE(
      2) " WHERE {seq} IN (SELECT {seq} FROM [rows] WHERE {status} = "
         "{DEAD}[filter] ORDER BY {seq} LIMIT ?1)");
  d.purge_rows =
      t("DELETE FROM {outbox_event} WHERE {seq} IN (SELECT {seq} FROM [rows] WHERE {status} IN ({DONE}, "
        "{DEAD}) AND " NOT_PARKING "[filter] ORDER BY {seq} LIMIT ?1)");
  d.parked_rows = t("SELECT {event_id}, " KEY(
      "") ", {seq} FROM [rows] WHERE {status} = {DEAD} AND {blocked} IS NOT "
          "NULL AND " KEY("") " IS NOT NULL[filter] ORDER BY {seq} LIMIT ?1");
}

std::string overview_of(sql::layout const& table) {
  return table.text(sql::overview_text(
      {.limit = "?1",
       .now = "?2",
       .minute_ago = "?3",
       .later = "max",
       .claimable = CLAIMABLE,
       .available = "replace({available_at}, 'T', ' ')",
       .inserted = INSERTED_AT,
       .pending = "{outbox_event} INDEXED BY {outbox_event_ready} WHERE " CLAIMED,
       .dead = "{outbox_event} INDEXED BY {outbox_event_dead} WHERE {status} = {DEAD}",
       .just_ended = "{outbox_event} INDEXED BY {outbox_event_ended} WHERE {done_at} > ?3 AND {status} IN ({DONE}, "
                     "{DEAD})",
       .last_ended = "(SELECT max({done_at}) FROM {outbox_event} WHERE {done_at} IS NOT NULL)"}));
}

std::string blocked_of(sql::layout const& table) {
  return table.text(sql::blocked_text({.limit = "?1", .minute_ago = "?2", .inserted = INSERTED_AT}, IN_ORDER));
}

sql::pending_forms pending_forms() {
  return {.limit = "?1",
          .instant = "?2",
          .claimable = CLAIMABLE,
          .pending = "{outbox_event} INDEXED BY {outbox_event_ready} WHERE " CLAIMED,
          .dead = "{outbox_event} INDEXED BY {outbox_event_dead} WHERE {status} = {DEAD}"};
}

void add_key_statements(sql::dialect& d, sql::layout const& table) {
  auto const t = [&](std::string_view sql) { return table.text(sql); };
  // The id of a row of another program may be a BLOB, which equals no text.
  d.leave_line =
      t("UPDATE {outbox_event} SET {blocked} = NULL WHERE {event_id} IN (?1, CAST(?1 AS BLOB)) AND {status} = {DEAD}");
  d.unblock_next =
      t("UPDATE {outbox_event} SET " UNBLOCK(1) " WHERE {seq} = (SELECT {seq} FROM {outbox_event} WHERE " KEY(
          "") " = ?2 AND " IN_LINE("") " AND {seq} > ?3 ORDER BY {seq} LIMIT 1) AND {blocked} IS TRUE AND " PENDING
                                       " AND NOT EXISTS (SELECT 1 FROM {outbox_event} p WHERE p.{event_id} = ?4 "
                                       "AND " IN_LINE("p.") ")");
  d.placed = t("SELECT r.{seq}, CASE WHEN r.{blocked} IS NOT NULL THEN " BEFORE(
      "p.{event_id}") " END FROM {outbox_event} r WHERE r.{event_id} = ?1");
  // A relay asks often, and most DEAD rows in line may stand behind others of their keys: it looks at some of them
  // only.
  d.parked_keys =
      t("SELECT " KEY("r.") " AS k, r.{event_id}, r.{done_at}, (SELECT count(*) FROM {outbox_event} w WHERE " KEY(
          "w.") " = " KEY("r.") " AND " IN_LINE("w.") " AND w." PENDING
                                                      ") FROM (SELECT {seq} AS s FROM {outbox_event} INDEXED BY "
                                                      "{outbox_event_dead} WHERE {status} = {DEAD} AND {blocked} IS "
                                                      "NOT NULL AND " KEY("") " IS NOT NULL LIMIT 10000) d CROSS JOIN "
                                                      "{outbox_event} r ON r.{seq} = d.s WHERE " HEAD
                                                      " ORDER BY k LIMIT ?1");
  d.event_types =
      t("SELECT {event_type}, coalesce({aggregate_type}, '__GLOBAL__') AS a, {status}, count(*) FROM "
        "{outbox_event} GROUP BY {event_type}, a, {status} ORDER BY {event_type}, a");
  d.begin_audit =
      t("INSERT INTO {outbox_audit} (at, who, verb, filter, reason, matched) VALUES (?1, ?2, ?3, ?4, ?5, ?6)");
  d.last_audit = "SELECT last_insert_rowid()";
  d.end_audit = t("UPDATE {outbox_audit} SET ended_at = ?1, changed = ?2 WHERE id = ?3 AND ended_at IS NULL");
  d.audit =
      t("SELECT id, at, who, verb, filter, reason, matched, changed, ended_at FROM {outbox_audit} ORDER BY id DESC "
        "LIMIT ?1");
}

// What only claims that keep the order of keys need, and the healing of their notes.
void add_line_statements(sql::row_statements& r, sql::layout const& table) {
  auto const t = [&](std::string_view sql) { return table.text(sql); };
#define IF_IN_LINE(x) "CASE WHEN {blocked} IS NOT NULL THEN " x " END"
  r.due_keyed = t("SELECT {row}, {locked_at}, " IF_IN_LINE(BEFORE("p.{event_id}")) ", " IF_IN_LINE(
      NEXT("n.{blocked}")) " FROM {outbox_event} r WHERE " DUE);
#undef IF_IN_LINE
  r.run = t("SELECT {row}, {locked_at}, " IN_FORM
            " FROM {outbox_event} WHERE " KEY("") " = ?1 AND " IN_LINE("") " AND {seq} > ?2 ORDER BY {seq} LIMIT ?3");
  // Without the mark, no node would clear the note.
  r.note = t("UPDATE {outbox_event} AS r SET {blocked} = true WHERE {seq} = ?2 AND " PENDING
             " AND {blocked} IS FALSE AND " CLAIMABLE
             " <= ?1 AND " BEFORE(DELAYED_BY_WRITER " IS NOT TRUE") " IS TRUE AND " MARKED);
  r.put_out_before = t("UPDATE {outbox_event} AS p SET {blocked} = NULL WHERE {seq} = (SELECT " BEFORE(
      "p.{seq}") " FROM {outbox_event} r WHERE r.{seq} = ?2 AND " PENDING
                 " AND {blocked} IS FALSE) AND " DELAYED_BY_WRITER);

  // Goes from the first row of a key to the first row of the next key.
#define FIRST_BEHIND(k)                                                                                           \
  "{outbox_event} r ON r.{seq} = (SELECT q.{seq} FROM {outbox_event} q WHERE " KEY("q.") " > " k " AND " IN_LINE( \
      "q.") " ORDER BY " KEY("q.") ", q.{seq} LIMIT 1)"
#define HEADS "SELECT " KEY("r.") ", r.{seq}, r.{blocked} IS TRUE AND r." PENDING " FROM "
  r.heads = t("WITH RECURSIVE heads (k, head, stray) AS (" HEADS "(SELECT ?1 AS k) JOIN " FIRST_BEHIND(
      "k") " UNION ALL " HEADS "heads JOIN " FIRST_BEHIND("heads.k") " LIMIT ?2) SELECT k, head, stray FROM heads");
#undef FIRST_BEHIND
#undef HEADS
  r.unblock_head = t("UPDATE {outbox_event} AS r SET " UNBLOCK(1) " WHERE {seq} = ?2 AND {blocked} IS TRUE AND " PENDING
                                                                  " AND " HEAD);
  // The order makes SQLite use the index of lines, if there is one.
  r.blocked =
      t("SELECT {seq} FROM {outbox_event} WHERE " IN_LINE("") " AND {blocked} IS TRUE ORDER BY " KEY("") ", {seq}");
  r.clear_note = t("UPDATE {outbox_event} SET " UNBLOCK(1) " WHERE {seq} = ?2 AND {blocked} IS TRUE");
}

}  // namespace

sql::dialect shared_statements(sql::layout const& table) {
  auto const t = [&](std::string_view sql) { return table.text(sql); };
  sql::dialect d;
  d.kind = "sqlite";
  d.begin = "BEGIN IMMEDIATE";
  d.read_meta = t("SELECT value FROM {outbox_meta} WHERE name = ?1");
  d.read_settings = t("SELECT name, value FROM {outbox_meta} WHERE name IN ('pauses', 'oldest_library', 'keyed')");
  d.write_meta =
      t("INSERT INTO {outbox_meta} (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = "
        "excluded.value");

  d.expire_others =
      t("UPDATE {outbox_event} SET {lease_until} = ?1 WHERE " CLAIMED " AND " CLAIMABLE
        " > ?1 AND {locked_by} IS NOT NULL AND {lease_until} > ?1 AND substr({locked_by}, 1, length(?2)) <> ?2");
  d.find = t("SELECT {row} FROM {outbox_event} WHERE {event_id} = ?1");
  d.counts = t("SELECT {status}, count(*) FROM {outbox_event} GROUP BY {status}");

  d.heartbeat = t(
      "INSERT INTO {outbox_node} (incarnation, name, version, mode, lease_ms, held, lease_until, started_at, active, "
      "reason, lock_key, done, failed, dead, erased, routes) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, "
      "?12, "
      "?13, ?14, ?15, ?16) "
      "ON CONFLICT (incarnation) DO UPDATE SET name = excluded.name, version = excluded.version, mode = excluded.mode, "
      "lease_ms = excluded.lease_ms, held = excluded.held, lease_until = excluded.lease_until, active = "
      "excluded.active, reason = excluded.reason, lock_key = excluded.lock_key, done = excluded.done, failed = "
      "excluded.failed, dead = excluded.dead, erased = excluded.erased, routes = excluded.routes");
  d.forget_old_nodes = t("DELETE FROM {outbox_node} WHERE lease_until < ?1");
  d.retire = t("DELETE FROM {outbox_node} WHERE incarnation = ?1");
  d.nodes =
      t("SELECT incarnation, name, version, mode, lease_ms, held, started_at, active, reason, lock_key, done, failed, "
        "dead, erased, routes FROM {outbox_node} WHERE lease_until > ?1 ORDER BY incarnation");

  // Rows without done_at are not in the index of terminal rows, so they are looked for when that index has no more:
  // dead rows among the dead, the others among the oldest rows, where they are found once the rows around them are
  // deleted.
  d.purge = t(
      "DELETE FROM {outbox_event} WHERE {seq} IN (SELECT {seq} FROM (SELECT {seq} FROM {outbox_event} WHERE {status} "
      "IN (CASE ?1 "
      "WHEN 1 THEN {DONE} END, CASE ?2 WHEN 1 THEN {DEAD} END) AND {done_at} <= ?3 AND " NOT_PARKING
      " ORDER BY {done_at}, {seq} LIMIT ?4) "
      "UNION ALL SELECT {seq} FROM {outbox_event} INDEXED BY {outbox_event_dead} WHERE ?2 = 1 AND {status} = {DEAD} "
      "AND {done_at} IS "
      "NULL AND " NOT_PARKING " AND " ENDED_AT
      " <= ?3 "
      "UNION ALL SELECT {seq} FROM (SELECT {seq}, {status}, {done_at}, {inserted_at}, {created_at} FROM {outbox_event} "
      "ORDER BY {seq} "
      "LIMIT 10000) WHERE ?1 = 1 AND {status} = {DONE} AND {done_at} IS NULL AND " ENDED_AT " <= ?3 LIMIT ?4)");
  // Rows are inserted in the order of seq, so the oldest are found without an index of their own.
  d.purge_by_age =
      t("DELETE FROM {outbox_event} WHERE {seq} IN (SELECT {seq} FROM {outbox_event} WHERE coalesce({inserted_at}, "
        "{created_at}) "
        "<= ?1 "
        "AND NOT EXISTS (SELECT 1 FROM {outbox_node} WHERE mode <> 'writer_only' AND lease_until > ?2) ORDER BY {seq} "
        "LIMIT ?3)");
  d.overview = overview_of(table);
  d.blocked = blocked_of(table);
  d.waiting_types = t(sql::waiting_types_text(pending_forms()));
  d.owners = t(sql::owners_text(pending_forms()));
  add_filter_statements(d, table);
  add_key_statements(d, table);
  return d;
}

sql::row_statements row_statements(sql::layout const& table) {
  auto const t = [&](std::string_view sql) { return table.text(sql); };
  sql::row_statements r;
  r.insert =
      t("INSERT INTO {outbox_event} ({event_id}, {event_type}, {aggregate_type}, {aggregate_id}, {tenant_id}, "
        "{payload}, {headers}, "
        "{status}, {attempts}, "
        "{available_at}, {created_at}, {inserted_at}, {ordering_key}, {locked_by}, {locked_at}, {lease_until}, "
        "{content_type}, "
        "{payload_bytes}, {blocked}) "
        "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, {NEW}, 0, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)");

  r.due = t("SELECT {row}, {locked_at} FROM {outbox_event} WHERE " DUE);
  // Pending rows are found in the index of claimable rows, however many rows are done, and then sorted. A row that is
  // not in form yet holds up the rows behind it.
  r.in_order =
      t("SELECT {row}, {locked_at} FROM {outbox_event} WHERE {seq} IN (SELECT {seq} FROM {outbox_event} INDEXED BY "
        "{outbox_event_ready} "
        "WHERE " CLAIMED " AND " IN_FORM " AND (" CLAIMABLE
        " <= ?1 OR {status} = {RETRY} OR {last_error} IS NOT NULL OR {locked_by} IS NOT NULL)) AND {seq} < "
        "coalesce((SELECT min({seq}) FROM {outbox_event} INDEXED BY {outbox_event_odd} WHERE " PENDING
        " AND NOT (" IN_FORM ")), 9223372036854775807) ORDER BY {seq}");
  // Numbers are compared as a look reads them: other programs may have stored text.
#define AS_SEEN                                                                                       \
  "{status} = ?7 AND CAST({attempts} AS INTEGER) = ?8 AND CAST({crashes} AS INTEGER) = ?9 AND " OWNER \
  " IS ?10 AND coalesce({progress}, '') = ?11 AND {available_at} BETWEEN ?12 AND ?13 AND " CLAIMABLE " <= ?2"
  r.take =
      t("UPDATE {outbox_event} SET {crashes} = ?6, {locked_by} = ?1, {locked_at} = ?2, {lease_until} = ?3 WHERE {seq} "
        "BETWEEN ?4 AND ?5 AND {blocked} IS NOT TRUE AND " AS_SEEN);
  // A row before it in the same run counts as taken: the caller rolls back unless the whole run is.
  r.take_in_line =
      t("UPDATE {outbox_event} AS r SET {crashes} = ?6, {locked_by} = ?1, {locked_at} = ?2, {lease_until} = ?3, "
        "{blocked} = false WHERE r.{seq} BETWEEN ?4 AND ?5 AND {blocked} IS NOT NULL AND " AS_SEEN
        " AND coalesce(" BEFORE("CASE WHEN p.{seq} >= ?4 THEN ?1 ELSE coalesce(p.{locked_by}, '') END") ", ?1) = ?1");
#undef AS_SEEN
  r.taken = t("SELECT {seq} FROM {outbox_event} WHERE {seq} BETWEEN ?1 AND ?2 AND {locked_by} = ?3");
  r.make_dead = t("UPDATE {outbox_event} SET {crashes} = {crashes} + (" OURS
                  "), {status} = {DEAD}, {done_at} = ?1, {last_error} = "
                  "?2, " NO_OWNER " WHERE {seq} = ?3 AND " PENDING " AND " CLAIMABLE " <= ?1 AND " OWNER " IS ?4");
  r.next_due = t("SELECT " CLAIMABLE ", {event_type}, {aggregate_type} FROM {outbox_event} WHERE " CLAIMED
                 " AND " CLAIMABLE " > ?1 AND " IN_FORM " ORDER BY " CLAIMABLE);
  r.next_grown = t("SELECT min(coalesce({inserted_at}, {created_at})) FROM {outbox_event} WHERE " CLAIMED
                   " AND " CLAIMABLE " <= ?1 AND coalesce({inserted_at}, {created_at}) > ?2");

  add_line_statements(r, table);

  r.settle_done =
      t("UPDATE {outbox_event} SET {status} = {DONE}, {done_at} = ?1, {progress} = ?2, {last_error} = NULL, {crashes} "
        "= 0, " NO_OWNER OWNED(3, 4, 5));
  r.settle_retry =
      t("UPDATE {outbox_event} SET {status} = {RETRY}, {attempts} = {attempts} + ?1, {available_at} = ?2, {last_error} "
        "= ?3, {progress} = "
        "?4, {crashes} = 0, " NO_OWNER OWNED(5, 6, 7));
  r.settle_defer =
      t("UPDATE {outbox_event} SET {status} = {NEW}, {available_at} = ?1, {last_error} = coalesce(?2, {last_error}), "
        "{progress} = ?3, "
        "{crashes} = 0, " NO_OWNER OWNED(4, 5, 6));
  r.settle_dead =
      t("UPDATE {outbox_event} SET {status} = {DEAD}, {attempts} = {attempts} + ?1, {done_at} = ?2, {last_error} = ?3, "
        "{progress} = ?4, "
        "{crashes} = 0, {blocked} = CASE ?8 WHEN 1 THEN NULL ELSE {blocked} END, " NO_OWNER OWNED(5, 6, 7));
  r.settle_erased = t("DELETE FROM {outbox_event}" OWNED(1, 2, 3));
  // A number is never used again and a token belongs to one claim, so the two need no id beside them.
  r.settle_done_run = t(
      "UPDATE {outbox_event} SET {status} = {DONE}, {done_at} = ?1, {progress} = NULL, {last_error} = NULL, {crashes} "
      "= 0, " NO_OWNER " WHERE {seq} BETWEEN ?2 AND ?3 AND {locked_by} = ?4 AND " PENDING);
  r.settle_erased_run = t("DELETE FROM {outbox_event} WHERE {seq} BETWEEN ?1 AND ?2 AND {locked_by} = ?3 AND " PENDING);
  r.settle_release = t("UPDATE {outbox_event} SET " NO_OWNER OWNED(1, 2, 3));
  // A live lease is a claimable instant after now and not far from it, so the index skips both due and delayed rows.
  r.release = t("UPDATE {outbox_event} SET " NO_OWNER " WHERE " CLAIMED " AND " CLAIMABLE " > ?2 AND " CLAIMABLE
                " <= ?3 AND {locked_by} = ?1");
  // locked_at too: other dispatchers on the same table know the age of a lock only by it.
  r.renew = t("UPDATE {outbox_event} SET {locked_at} = ?1, {lease_until} = ?2, " NO_NOTE("") "" OWNED(3, 4, 5));
  r.exists = t("SELECT 1 FROM {outbox_event} WHERE {event_id} = ?1 AND coalesce({locked_by}, '') = ?2");
  return r;
}

foreign_row_statements foreign_statements(sql::layout const& table) {
  auto const t = [&](std::string_view sql) { return table.text(sql); };
  foreign_row_statements f;
  f.find =
      t("SELECT {seq}, typeof({event_id}) = 'text', CASE typeof({event_id}) WHEN 'text' THEN {event_id} ELSE "
        "quote({event_id}) "
        "END, {event_type}, {available_at} FROM {outbox_event} INDEXED BY {outbox_event_odd} WHERE " PENDING
        " AND NOT (" IN_FORM ") ORDER BY {available_at} LIMIT ?1");
  f.mend = t("UPDATE {outbox_event} SET {available_at} = ?1 WHERE {seq} = ?2");
  // One whose id is not text leaves the line of its key. No node can ever deliver it under its id, not even after a
  // replay, so the rows behind it would wait for nothing. One whose instant cannot be read parks its key like any dead
  // row: a replay gives it another instant.
  f.make_dead =
      t("UPDATE {outbox_event} SET {status} = {DEAD}, {done_at} = ?1, {last_error} = ?2, {blocked} = CASE "
        "typeof({event_id}) WHEN 'text' THEN {blocked} END, " NO_OWNER " WHERE {seq} = ?3");
  // Without the mark no row waits, and there may be no index of keys.
  f.unblock_next = t("UPDATE {outbox_event} SET " UNBLOCK(1) " WHERE {seq} = CASE WHEN " MARKED " THEN (SELECT " NEXT(
      "n.{seq}") " FROM {outbox_event} r WHERE r.{seq} = ?2) END AND {blocked} IS TRUE AND " PENDING);
  return f;
}

}  // namespace outbox::inline v0::sqlite

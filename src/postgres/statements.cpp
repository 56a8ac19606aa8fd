#include "postgres/statements.hpp"

#include "postgres/parameters.hpp"
#include "sql/findings.hpp"
#include "sql/overview.hpp"

namespace outbox::inline v0::postgres {
namespace {

// The texts are templates of a layout: {event_id} is a column, {NEW} a status, {row} all columns of a row. The server's
// placeholders are made of ?N at the end.

// The claimable instant, to the letter as in the index of schema/postgres. greatest() ignores NULL.
#define CLAIMABLE "greatest({available_at}, {lease_until})"

#define PENDING "{status} IN ({NEW}, {RETRY})"
#define NO_OWNER "{locked_by} = NULL, {locked_at} = NULL, {lease_until} = NULL"
#define INSERTED_AT "coalesce({inserted_at}, {created_at})"

// The server's time when the statement begins, and an instant so many microseconds later. Both can bound an index scan;
// clock_timestamp() cannot. An INSERT uses clock_timestamp() nevertheless, because it runs in the caller's transaction
// and perhaps in one round trip with many other statements.
#define MICROSECONDS(n) "?" #n "::bigint * interval '1 microsecond'"
#define NOW "statement_timestamp()"
#define LATER(n) "(statement_timestamp() + " MICROSECONDS(n) ")"

// The statements of a claim all use the same instant: when its transaction began.
#define CLAIM_NOW "now()"

// A pair is one text, as pair_text() in postgres/columns.cpp makes it. The length of the first name makes it
// unambiguous. Without pairs, which is the rule, no such text is made of the rows.
#define NOT_PAUSED(types, pairs)                                                                               \
  " AND {event_type} <> ALL(?" #types "::text[]) AND (cardinality(?" #pairs                                    \
  "::text[]) = 0 OR (length({event_type}) || ':' || {event_type} || coalesce({aggregate_type}, '__GLOBAL__'))" \
  " <> ALL(?" #pairs "::text[]))"

// One condition whose selectivity the planner cannot estimate: from several it would conclude that hardly a row is
// left, and then read and sort all due rows.
#define ALL_OF(conditions) " AND CASE WHEN " conditions " THEN true ELSE false END"

// The owner is a node of this library: it has a lease.
#define OURS "{locked_by} IS NOT NULL AND {lease_until} IS NOT NULL"

// No transaction that is still open can commit a row that belongs before this one. Only a claim in order asks: the
// server makes a snapshot for each row that it asks about.
#define NOTHING_EARLIER                                                 \
  "coalesce({written_by} < pg_snapshot_xmin(pg_current_snapshot()) OR " \
  "{written_by} >= pg_snapshot_xmax(pg_current_snapshot()), true)"

// In the order of candidate_column.
#define CANDIDATE(nothing_earlier)                                                                         \
  "{event_id}, {event_type}, coalesce({aggregate_type}, '__GLOBAL__'), " OURS                              \
  ", {status} = {RETRY} OR {last_error} IS "                                                               \
  "NOT NULL, {crashes}, " INSERTED_AT ", " CLAIMABLE                                                       \
  ", octet_length({event_id}) + octet_length({event_type}) + coalesce(octet_length({aggregate_id}), 0) + " \
  "octet_length({payload}::text) + coalesce(octet_length({payload_bytes}), 0) + "                          \
  "coalesce(octet_length({headers}::text), "                                                               \
  "0), " nothing_earlier ", CASE WHEN NOT (" OURS                                                          \
  ") THEN {locked_at} END, "                                                                               \
  "CASE WHEN NOT (" OURS ") THEN {locked_by} END"

// The rows that carry the token of the settlement.
#define OWNED \
  " WHERE t.{event_id} = u.id AND t.{locked_by} = u.token AND t.{status} IN ({NEW}, {RETRY}) RETURNING t.{event_id}"

// The same for rows of one owner: without a join.
#define OWNED_BY_ONE \
  " WHERE {event_id} = ANY(?1::text[]) AND {locked_by} = ?2 AND {status} IN ({NEW}, {RETRY}) RETURNING {event_id}"

// Clears the note that the row `r` waits for another one. NULL stays NULL, which `NULL AND false` would not.
#define NO_NOTE(r) "{blocked} = CASE WHEN " r "{blocked} THEN false ELSE " r "{blocked} END"

#define REVIVE                                                                \
  "{status} = {NEW}, {attempts} = 0, {crashes} = 0, {available_at} = " LATER( \
      2) ", {done_at} = NULL, {last_error} = NULL, " NO_NOTE("")

// What claims look at. To the letter as in the index of schema/postgres.
#define CLAIMED PENDING " AND {blocked} IS NOT TRUE"

// The key of the row `r`, as spi::key_of() writes it. Immutable, so that an index can be made of it.
#define KEY(r)                                                                        \
  "(CASE WHEN " r "{ordering_key} <> '' THEN '=' || " r "{ordering_key} WHEN " r      \
  "{aggregate_id} <> '' THEN "                                                        \
  "length(coalesce(" r "{aggregate_type}, '__GLOBAL__'))::text || ':' || coalesce(" r \
  "{aggregate_type}, "                                                                \
  "'__GLOBAL__') || " r "{aggregate_id} END COLLATE \"C\")"

// The row `r` counts in the order of its key.
#define IN_LINE(r) r "{status} <> {DONE} AND " r "{blocked} IS NOT NULL"

// A table that is marked keyed keeps the DEAD rows that park a key.
#define NOT_PARKING \
  "({status} <> {DEAD} OR {blocked} IS NULL OR " KEY("") " IS NULL OR NOT EXISTS (SELECT 1 FROM {outbox_meta} WHERE " \
  "name = 'keyed' AND value = '1'))"

// The row in line before the row `r`, or behind it.
#define BEFORE(r, columns)                                                                      \
  "(SELECT " columns                                                                            \
  " FROM {outbox_event} p WHERE " KEY("p.") " = " r ".k AND " IN_LINE("p.") " AND p.{seq} < " r \
                                                                            ".s ORDER BY p.{seq} DESC LIMIT 1)"
#define BEHIND(r, columns)                                                                                 \
  "(SELECT " columns " FROM {outbox_event} p WHERE " KEY("p.") " = " r                                     \
                                                               ".k AND " IN_LINE("p.") " AND p.{seq} > " r \
                                                                                       ".s ORDER BY p.{seq} LIMIT 1)"

// Another program wrote the row `r` with a delay: it is not due, and only its writer has made it wait. A row that was
// written or unblocked may be due later than now because a clock was set back or is ahead; hence the minute.
#define DELAYED(r)                                                                                  \
  r "{status} = {NEW} AND " r "{available_at} > clock_timestamp() + interval '1 minute' AND " r     \
    "{available_at} > coalesce(" r "{inserted_at}, " r "{created_at}) + interval '1 minute' AND " r \
    "{locked_by} IS NULL AND " r "{last_error} IS NULL AND " r "{attempts} = 0 AND " r "{crashes} = 0"

// A transaction of another isolation level may have a snapshot that is older than the lock which puts the writers of a
// key in order; and to a serializable one, the question is a conflict with writers of other keys.
#define MAY_ASK "current_setting('transaction_isolation') = 'read committed'"
// A table that is marked keyed has an index of keys.
#define MARKED "EXISTS (SELECT 1 FROM {outbox_meta} WHERE name = 'keyed' AND value = '1')"

// The row `r` waits for another one of its key. To the letter as in the index of schema/postgres.
#define WAITS(r) r "{status} IN ({NEW}, {RETRY}) AND " r "{blocked}"

// Rows that wait, in the order of their keys.
#define WAITING \
  "{outbox_event} WHERE " WAITS("") " AND " KEY("") " IS NOT NULL AND " MARKED " ORDER BY " KEY("") ", {seq}"

#define UNBLOCK "{blocked} = false, {available_at} = greatest({available_at}, " NOW ")"

// The last condition of a statement that finds its rows by their ids. Its parts are hidden from the planner: they are
// the predicate of the index of blocked rows, which is nearly empty when the plan is made. It would read all of that
// index, and do so again when a hundred thousand rows are blocked.
#define STILL_BLOCKED ALL_OF(WAITS(""))

#define TERMINAL(done, dead)                                                                                           \
  "{status} IN ({DONE}, {DEAD}) AND (({status} = {DONE} AND ?" #done "::bigint = 1) OR ({status} = {DEAD} AND ?" #dead \
  "::bigint = 1))"

// Makes the statement that the server gets.
struct in_layout {
  sql::layout const& table;
  std::string operator()(std::string_view sql) const { return numbered(table.text(sql)); }
};

void add_operator_statements(sql::dialect& d, in_layout const& t) {
  // A program that knows only the columns of the specification may have left done_at empty. Those rows are the last in
  // the index of terminal rows. ORDER BY keeps the planner there, which expects them to be as many as the pending rows.
  d.purge = t(
      "DELETE FROM {outbox_event} WHERE {event_id} = ANY(ARRAY(SELECT {event_id} FROM (SELECT {event_id} FROM {outbox_event} "
      "WHERE " TERMINAL(1, 2) " AND " NOT_PARKING " AND {done_at} <= " LATER(
          3) " ORDER BY {done_at} LIMIT ?4::bigint FOR UPDATE SKIP LOCKED) ended UNION ALL SELECT {event_id} FROM (SELECT "
             "{event_id} FROM {outbox_event} WHERE " TERMINAL(1, 2) " AND " NOT_PARKING " AND {done_at} IS NULL AND " INSERTED_AT " <= " LATER(
                 3) " ORDER BY {done_at} LIMIT ?4::bigint FOR UPDATE SKIP LOCKED) unknown LIMIT ?4::bigint))");
  // No ORDER BY: the oldest rows are found first anyway, because the table fills from its beginning.
  d.purge_by_age = t(
      "DELETE FROM {outbox_event} WHERE {event_id} = ANY(ARRAY(SELECT {event_id} FROM {outbox_event} WHERE " INSERTED_AT
      " <= " LATER(1) " AND NOT EXISTS (SELECT 1 FROM {outbox_node} WHERE mode <> 'writer_only' AND lease_until > " LATER(
          2) ") LIMIT ?3::bigint FOR UPDATE SKIP LOCKED))");
}

// Those that have a limit, a filter, and the marks of sql::filter_texts. Their placeholders are made when the filter is
// known.
void add_filter_statements(sql::dialect& d, sql::layout const& table) {
  auto const t = [&](std::string_view sql) { return table.text(sql); };
  auto& f = d.filter;
  f.finish = [](std::string const& text) { return numbered(text); };
  f.rows = f.dead_rows = t("{outbox_event}");
  f.status_column = t("{status}");
  f.status = {t("{NEW}"), t("{DONE}"), t("{RETRY}"), t("{DEAD}")};
  f.id_in = t("{event_id} = ANY(ARRAY(SELECT json_array_elements_text([?]::json)))");
  f.event_type = t("{event_type} = [?]");
  f.aggregate_type = t("coalesce({aggregate_type}, '__GLOBAL__') = [?]");
  f.aggregate_id = t("{aggregate_id} = [?]");
  f.tenant = t("{tenant_id} = [?]");
  f.key = t(KEY("") " = [?]");
  f.inserted_by = t(INSERTED_AT " <= statement_timestamp() + [?]::bigint * interval '1 microsecond'");
  f.inserted_after = t(INSERTED_AT " > statement_timestamp() + [?]::bigint * interval '1 microsecond'");
  // There is no index by seq. Pending and terminal rows have one each by an instant, blocked rows have one of
  // their own, and within one statement a row stays where it is.
  f.newest =
      t("ctid = ANY(ARRAY((SELECT ctid FROM {outbox_event} WHERE " CLAIMED " ORDER BY " CLAIMABLE
        " DESC LIMIT [?]::bigint) UNION ALL (SELECT ctid FROM {outbox_event} WHERE {status} IN ({DONE}, {DEAD}) ORDER "
        "BY {done_at} DESC LIMIT [?]::bigint) UNION ALL (SELECT ctid FROM " WAITING " LIMIT [?]::bigint)))");
  f.ended_by = t("{status} IN ({DONE}, {DEAD}) AND coalesce({done_at}, " INSERTED_AT ") <= [?]::timestamptz");

#define CHOSEN(conditions, lock)                                           \
  "{event_id} = ANY(ARRAY(SELECT {event_id} FROM [rows] WHERE " conditions \
  "[filter] ORDER BY {seq} LIMIT ?1::bigint" lock "))"
  d.list = t("SELECT {row} FROM [rows] WHERE true[filter] ORDER BY {seq} LIMIT ?1::bigint");
  d.list_newest = t("SELECT {row} FROM [rows] WHERE true[filter] ORDER BY {seq} DESC LIMIT ?1::bigint");
  d.count = t("SELECT count(*) FROM (SELECT 1 FROM [rows] WHERE true[filter] LIMIT ?1::bigint) x");
  d.errors =
      t("SELECT e, count(*), count(CASE WHEN s = {DEAD} THEN 1 END), min(a), max(a), min(i), min(y), count(DISTINCT y) "
        "FROM (SELECT {last_error} AS e, {status} AS s, coalesce({done_at}, " INSERTED_AT
        ") AS a, {event_id} AS i, {event_type} AS y FROM [rows] WHERE {last_error} IS NOT NULL[filter]) q GROUP BY e "
        "ORDER BY 2 DESC, e LIMIT ?1::bigint");
  // The status is asked again: a row that was locked may be finished by now.
  d.cancel = t("UPDATE {outbox_event} SET {status} = {DEAD}, {done_at} = " LATER(2) ", {last_error} = ?3, " NO_NOTE(
      "") ", " NO_OWNER " WHERE " CHOSEN(PENDING, " FOR UPDATE") " AND " PENDING);
  d.replay = t("UPDATE {outbox_event} SET " REVIVE
               " WHERE " CHOSEN("{status} = {DEAD}", " FOR UPDATE") " AND {status} = {DEAD}");
  d.purge_rows = t("DELETE FROM {outbox_event} WHERE " CHOSEN("{status} IN ({DONE}, {DEAD}) AND " NOT_PARKING,
                                                              " FOR UPDATE SKIP LOCKED"));
  d.parked_rows = t("SELECT {event_id}, " KEY(
      "") ", {seq} FROM [rows] WHERE {status} = {DEAD} AND {blocked} IS NOT "
          "NULL AND " KEY("") " IS NOT NULL[filter] ORDER BY {seq} LIMIT ?1::bigint FOR UPDATE");
}

std::string overview_of(in_layout const& t) {
  return t(
      sql::overview_text({.limit = "?1::bigint",
                          .now = LATER(2),
                          .minute_ago = LATER(3),
                          .later = "greatest",
                          .claimable = CLAIMABLE,
                          .available = "{available_at}",
                          .inserted = INSERTED_AT,
                          .pending = "{outbox_event} WHERE " CLAIMED,
                          .dead = "{outbox_event} WHERE {status} = {DEAD}",
                          .just_ended = "{outbox_event} WHERE {status} IN ({DONE}, {DEAD}) AND {done_at} > " LATER(3),
                          .last_ended = "(SELECT max({done_at}) FROM {outbox_event} WHERE {status} IN ({DONE}, "
                                        "{DEAD}) AND {done_at} IS NOT NULL)"}));
}

std::string blocked_of(in_layout const& t) {
  return t(sql::blocked_text({.limit = "?1::bigint", .minute_ago = LATER(2), .inserted = INSERTED_AT}, WAITING));
}

sql::pending_forms pending_forms() {
  return {.limit = "?1::bigint",
          .instant = LATER(2),
          .claimable = CLAIMABLE,
          .pending = "{outbox_event} WHERE " CLAIMED,
          .dead = "{outbox_event} WHERE {status} = {DEAD}"};
}

void add_key_statements(sql::dialect& d, in_layout const& t) {
  d.leave_line = t("UPDATE {outbox_event} SET {blocked} = NULL WHERE {event_id} = ?1" ALL_OF("{status} = {DEAD}"));
  // The first parameter is a `from_now` of nothing: NOW is the server's own.
  d.unblock_next =
      t("UPDATE {outbox_event} SET {blocked} = false, {available_at} = greatest({available_at}, " LATER(1)
        ") WHERE {event_id} = (SELECT {event_id} FROM {outbox_event} WHERE " KEY("") " = ?2 AND " IN_LINE("")
        " AND {seq} > ?3::bigint ORDER BY {seq} LIMIT 1)" STILL_BLOCKED
        " AND NOT EXISTS (SELECT 1 FROM {outbox_event} p WHERE p.{event_id} = ?4" ALL_OF(IN_LINE("p.")) ")");
#define HEAD                                                                                     \
  "NOT EXISTS (SELECT 1 FROM {outbox_event} p WHERE " KEY("p.") " = " KEY("r.") " AND " IN_LINE( \
      "p.") " AND p.{seq} < r.{seq})"
  d.parked_keys = t("SELECT " KEY("r.") " AS k, r.{event_id}, r.{done_at}, (SELECT count(*) FROM {outbox_event} w WHERE "
                    KEY("w.") " = " KEY("r.") " AND w.{status} IN ({NEW}, {RETRY}) AND w.{blocked} IS NOT NULL) FROM "
                    "{outbox_event} r WHERE r.{status} = {DEAD} AND r.{blocked} IS NOT NULL AND " KEY("r.")
                    " IS NOT NULL AND " HEAD " ORDER BY k LIMIT ?1::bigint");
#undef HEAD
  d.event_types =
      t("SELECT {event_type}, coalesce({aggregate_type}, '__GLOBAL__'), {status}, count(*) FROM "
        "{outbox_event} GROUP BY 1, 2, 3 ORDER BY {event_type} COLLATE \"C\", 2");
  d.begin_audit = t("INSERT INTO {outbox_audit} (at, who, verb, filter, reason, matched) VALUES (" LATER(
      1) ", ?2, ?3, ?4, ?5, ?6::bigint) RETURNING id");
  d.end_audit = t("UPDATE {outbox_audit} SET ended_at = " LATER(
      1) ", changed = ?2::bigint WHERE id = ?3::bigint AND "
         "ended_at IS NULL");
  d.audit =
      t("SELECT id, at, who, verb, filter, reason, matched, changed, ended_at FROM {outbox_audit} ORDER BY id DESC "
        "LIMIT ?1::bigint");
}

std::string insert_of(insert_shape const& shape) {
  std::string columns = "{event_id}, {event_type}, {payload}, {created_at}, {aggregate_type}, {available_at}";
  std::string values = "?1, ?2, ?3::json, ?4::timestamptz, ";
  int next = 5;
  auto const parameter = [&] { return "?" + std::to_string(next++); };
  auto const later = [&] { return "clock_timestamp() + " + parameter() + "::bigint * interval '1 microsecond'"; };
  values += (shape.about ? parameter() : "'" + std::string{global_aggregate} + "'") + ", ";
  switch (shape.when) {
    case insert_shape::due::now: values += "clock_timestamp()"; break;
    case insert_shape::due::after: values += later(); break;
    case insert_shape::due::at: values += parameter() + "::timestamptz"; break;
  }
  // Never left out: an adopted table may have a default of its own.
  columns += ", {aggregate_id}";
  values += shape.about ? ", " + parameter() : ", NULL";
  if (shape.owned) {
    columns += ", {locked_by}, {locked_at}, {lease_until}";
    values += ", " + parameter() + ", clock_timestamp(), ";
    values += later();
  }
  if (shape.rich) {
    columns += ", {tenant_id}, {headers}, {ordering_key}, {content_type}, {payload_bytes}";
    values += ", " + parameter() + ", ";
    values += parameter() + "::json, ";
    values += parameter() + ", ";
    values += parameter() + ", ";
    values += parameter() + "::bytea";
  }
  if (shape.when != insert_shape::due::now) {
    columns += ", {blocked}";
    values += ", NULL";
  }
  return "INSERT INTO {outbox_event} AS n (" + columns + ") VALUES (" + values + ")";
}

// unnest() returns rows in the order of its arrays, so that seq is the order of writing. An empty text stands for NULL.
std::string insert_many(bool rich, bool delayed) {
  std::string columns =
      "{event_id}, {event_type}, {aggregate_type}, {aggregate_id}, {payload}, {created_at}, {locked_by}, {locked_at}, "
      "{lease_until}, "
      "{available_at}";
  std::string values =
      "u.id, u.type, u.aggregate, nullif(u.aggregate_id, ''), u.payload::json, u.created::timestamptz, "
      "nullif(u.token, ''), CASE WHEN u.token <> '' THEN clock_timestamp() END, "
      "CASE WHEN u.token <> '' THEN clock_timestamp() + ?8::bigint * interval '1 microsecond' END, ";
  std::string arrays = "?1::text[], ?2::text[], ?3::text[], ?4::text[], ?5::text[], ?6::text[], ?7::text[]";
  std::string names = "id, type, aggregate, aggregate_id, payload, created, token";
  int next = 9;
  auto const array = [&](char const* name, char const* type) {
    arrays += ", ?" + std::to_string(next++) + "::" + type + "[]";
    names += std::string{", "} + name;
  };
  if (delayed) {
    values += "coalesce(nullif(u.at, '')::timestamptz, clock_timestamp() + u.after * interval '1 microsecond')";
    array("at", "text");
    array("after", "bigint");
    columns += ", {blocked}";
    values += ", CASE WHEN u.at = '' AND u.after = 0 THEN false END";
  } else {
    values += "clock_timestamp()";
  }
  if (rich) {
    columns += ", {tenant_id}, {headers}, {ordering_key}, {content_type}, {payload_bytes}";
    values +=
        ", nullif(u.tenant, ''), nullif(u.headers, '')::json, nullif(u.key, ''), nullif(u.content, ''), CASE WHEN "
        "u.content <> '' THEN u.bytes END";
    for (auto const* const name : {"tenant", "headers", "key", "content"}) array(name, "text");
    array("bytes", "bytea");
  }
  return "INSERT INTO {outbox_event} AS n (" + columns + ") SELECT " + values + " FROM unnest(" + arrays + ") u(" +
         names + ")";
}

#define DUE                                                                                          \
  " FROM {outbox_event} WHERE " CLAIMED " AND " CLAIMABLE " >= coalesce(?7::timestamptz, " CLAIM_NOW \
  " - " MICROSECONDS(9) ", '-infinity') AND " CLAIMABLE " <= " CLAIM_NOW ALL_OF(                     \
      "(?2::bigint = 0 OR " INSERTED_AT " <= " CLAIM_NOW                                             \
      " - " MICROSECONDS(2) ") AND (?3::bigint = 0 OR {locked_by} IS NULL)" NOT_PAUSED(              \
          4, 5) " AND {event_id} <> ALL(?8::text[]) AND (?6::bigint = 0 OR {crashes} + (" OURS       \
                ")::int >= "                                                                         \
                "?6::bigint)") " ORDER BY " CLAIMABLE ", {seq} LIMIT ?1::bigint FOR UPDATE SKIP LOCKED"

// What a claim looks at; one that keeps the order of keys also sees what stands beside each row in its key.
//
// A wide look asks what is behind a row only if the row was made due later than it was inserted, as rows are that were
// unblocked. Behind most others nothing is blocked, and the question is a third of the look. What it misses costs a
// round: such a head is taken alone, its settlement unblocks the next row, and that one's run is seen.
#define NARROW_LOOK "200"
void add_claims(array_statements& a, in_layout const& t) {
  a.due = t("SELECT " CANDIDATE("true") DUE);
  a.due_in_keys = t("SELECT w.*, p.id, p.is_delayed, CASE WHEN ?1::bigint <= " NARROW_LOOK " OR w.moved THEN " BEHIND(
      "w", "p.{blocked}") " END FROM (SELECT " CANDIDATE("true") ", CASE WHEN {blocked} IS NOT NULL THEN " KEY(
          "") " END AS k, {seq} AS s, coalesce({available_at} > {inserted_at}, true) AS moved" DUE
              ") w LEFT JOIN LATERAL " BEFORE("w", "p.{event_id} AS id, " DELAYED("p.") " AS is_delayed") " p ON true");
  a.run = t("WITH l AS MATERIALIZED (SELECT h.n, x.* FROM unnest(?1::text[], ?2::bigint[]) WITH ORDINALITY h(k, s, n), "
            "LATERAL (SELECT " CANDIDATE("true") ", h.k AS key, {seq} AS place, {event_id} AS id FROM {outbox_event} r WHERE "
            KEY("r.") " = h.k AND " IN_LINE("r.") " AND r.{seq} > h.s ORDER BY r.{seq} LIMIT ?3::bigint) x), g AS "
            "MATERIALIZED (SELECT {event_id} FROM {outbox_event} WHERE {event_id} = ANY(ARRAY(SELECT id FROM l)) AND "
            PENDING " AND " CLAIMABLE " <= " CLAIM_NOW " FOR UPDATE SKIP LOCKED) SELECT l.*, g.{event_id} IS NOT NULL "
            "FROM l LEFT JOIN g ON g.{event_id} = l.id ORDER BY l.n, l.place");
  // "(… IN (…)) IS TRUE" keeps the subplan that is hashed. Without the mark, no node would clear the note.
  a.note = t("WITH c AS MATERIALIZED (SELECT i.id, p.prev FROM (SELECT r.{event_id} AS id, " KEY(
                 "r.") " AS k, r.{seq} AS s FROM unnest(?1::text[]) u(id) JOIN {outbox_event} r ON r.{event_id} = u.id "
             "WHERE r.{status} IN ({NEW}, {RETRY}) AND NOT r.{blocked} OFFSET 0) i, LATERAL " BEFORE(
                 "i", "p.{event_id} AS prev") " p), g AS MATERIALIZED (SELECT {event_id} FROM {outbox_event} WHERE "
             "{event_id} = ANY(ARRAY(SELECT id FROM c UNION SELECT prev FROM c))" ALL_OF(IN_LINE(
                 "")) " FOR NO KEY UPDATE SKIP LOCKED) UPDATE {outbox_event} t SET {blocked} = true FROM c WHERE "
             "t.{event_id} = c.id AND t.{status} IN ({NEW}, {RETRY}) AND NOT t.{blocked} AND "
             "greatest(t.{available_at}, t.{lease_until}) <= " NOW " AND (c.id IN (SELECT {event_id} FROM g)) IS TRUE "
             "AND (c.prev IN (SELECT {event_id} FROM g)) IS TRUE AND " MARKED);
  a.leave =
      t("UPDATE {outbox_event} SET {blocked} = NULL WHERE {event_id} = ANY(ARRAY(SELECT {event_id} FROM "
        "{outbox_event} WHERE {event_id} = ANY(?1::text[]) AND " DELAYED("") " FOR UPDATE SKIP LOCKED)) AND " DELAYED(
            "") " RETURNING " KEY("") ", {seq}, {event_id}");
}

void add_places(array_statements& a, in_layout const& t) {
  // Behind an old snapshot the index keeps what has left the line, and the question would read it each time: hence the
  // bound. A sequence that was set back is below it.
  a.told = t(" RETURNING n.{seq}, CASE WHEN n.{blocked} IS NOT NULL AND " MAY_ASK " THEN (SELECT p.{event_id} FROM "
             "{outbox_event} p WHERE " KEY("p.") " = " KEY("n.") " AND " IN_LINE("p.") " AND p.{seq} < n.{seq} AND "
             "p.{seq} > CASE WHEN n.{seq} > [finished]::bigint THEN [finished]::bigint ELSE 0 END ORDER BY p.{seq} DESC "
             "LIMIT 1) END, " MAY_ASK);
  a.places = t("SELECT u.n, i.s, " BEFORE("i", "p.{event_id}") " FROM unnest(?1::text[]) WITH ORDINALITY u(id, n) "
               "JOIN LATERAL (SELECT r.{seq} AS s, CASE WHEN r.{blocked} IS NOT NULL THEN " KEY("r.") " END AS k FROM "
               "{outbox_event} r WHERE r.{event_id} = u.id) i ON true");
  // Of each key in which a row waits, the first that does.
  a.heal_keys =
      t("WITH RECURSIVE walk(k, s, id, n) AS ((SELECT " KEY("x.") ", x.{seq}, x.{event_id}, 1::bigint FROM {outbox_event} "
        "x WHERE " WAITS("x.") " AND " KEY("x.") " > ?1 ORDER BY " KEY("x.") ", x.{seq} LIMIT 1) UNION ALL SELECT y.* FROM "
        "walk w, LATERAL (SELECT " KEY("x.") ", x.{seq}, x.{event_id}, w.n + 1 FROM {outbox_event} x WHERE " WAITS(
            "x.") " AND " KEY("x.") " > w.k ORDER BY " KEY("x.") ", x.{seq} LIMIT 1) y WHERE w.n < ?2::bigint), healed AS "
        "(UPDATE {outbox_event} SET " UNBLOCK " WHERE {event_id} = ANY(ARRAY(SELECT w.id FROM walk w WHERE " BEFORE(
            "w", "p.{event_id}") " IS NULL))" STILL_BLOCKED " RETURNING 1) SELECT (SELECT count(*) FROM healed), (SELECT "
        "k FROM walk WHERE n = ?2::bigint)");
  a.clear_notes =
      t("WITH page AS MATERIALIZED (SELECT {event_id}, " KEY("") " AS k, {seq} AS s FROM {outbox_event} WHERE " WAITS(
            "") " AND (" KEY("") ", {seq}) > (?1, ?2::bigint) ORDER BY " KEY("") ", {seq} LIMIT ?3::bigint), cleared AS "
        "(UPDATE {outbox_event} SET " UNBLOCK " WHERE {event_id} = ANY(ARRAY(SELECT {event_id} FROM page))" STILL_BLOCKED
        " RETURNING 1) SELECT k, s FROM page ORDER BY k DESC, s DESC LIMIT 1");
}
#undef NARROW_LOOK
#undef DUE

// Of each key, the first blocked row behind the lowest one that was settled. Few rows are blocked, so nearly always
// there is none, and nothing else is asked. If there is one, no row in line may stand between it and the settled row
// before it, which must have left the line itself. The settled row before it and not the lowest: a row between the two
// whose settlement was lost may be leaving the line in another transaction, and neither of the two sees the other.
std::string unblock_text() {
  return "UPDATE {outbox_event} SET " UNBLOCK " WHERE {event_id} = ANY(ARRAY(SELECT n.id FROM (SELECT u.k, min(u.s) AS s, "
         "array_agg(u.s) AS settled FROM unnest(?1::text[], ?2::bigint[]) u(k, s) GROUP BY u.k) l, LATERAL (SELECT "
         "x.{event_id} AS id, x.{seq} AS s FROM {outbox_event} x WHERE " KEY("x.") " = l.k AND " WAITS("x.") " AND x.{seq} > l.s ORDER BY x.{seq} LIMIT 1) n WHERE NOT EXISTS (SELECT 1 FROM "
         "{outbox_event} p WHERE " KEY("p.") " = l.k AND " IN_LINE("p.") " AND p.{seq} < n.s AND p.{seq} >= (SELECT max(v) "
         "FROM unnest(l.settled) v WHERE v < n.s) OFFSET 0)))" STILL_BLOCKED;
}

}  // namespace

sql::dialect shared_statements(sql::layout const& table) {
  in_layout const t{table};
  sql::dialect d;
  d.kind = "postgres";
  d.begin = "BEGIN ISOLATION LEVEL READ COMMITTED";
  d.lock_meta = t("LOCK TABLE {outbox_meta} IN SHARE ROW EXCLUSIVE MODE");
  d.read_meta = t("SELECT value FROM {outbox_meta} WHERE name = ?1");
  d.read_settings = t("SELECT name, value FROM {outbox_meta} WHERE name IN ('pauses', 'oldest_library', 'keyed')");
  d.write_meta =
      t("INSERT INTO {outbox_meta} (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = "
        "excluded.value");
  d.expire_others =
      t("UPDATE {outbox_event} SET {lease_until} = " LATER(1) " WHERE " CLAIMED " AND " CLAIMABLE " > " NOW
                                                              " AND {locked_by} IS NOT NULL AND {lease_until} > " NOW
                                                              " AND left({locked_by}, length(?2::text)) <> ?2::text");
  d.find = t("SELECT {row} FROM {outbox_event} WHERE {event_id} = ?1");
  d.counts = t("SELECT {status}, count(*) FROM {outbox_event} GROUP BY {status}");
  // In one statement, because each round trip wakes an idle process. The node's own row may be old too, if the machine
  // has slept: that one is left to the INSERT.
  auto const forget =
      t("WITH forgotten AS (DELETE FROM {outbox_node} WHERE lease_until < " LATER(17) " AND incarnation <> ?1) ");
  d.heartbeat = forget + t(
      "INSERT INTO {outbox_node} (incarnation, name, version, mode, lease_ms, held, lease_until, started_at, active, "
      "reason, lock_key, done, failed, dead, erased, routes) VALUES (?1, ?2, ?3, ?4, ?5::bigint, ?6::bigint, " LATER(7)
      ", " LATER(8) ", ?9::bigint = 1, ?10, ?11, ?12::bigint, ?13::bigint, ?14::bigint, ?15::bigint, ?16) ON CONFLICT "
      "(incarnation) DO UPDATE SET name = excluded.name, version = excluded.version, mode = excluded.mode, lease_ms = "
      "excluded.lease_ms, held = excluded.held, lease_until = excluded.lease_until, active = excluded.active, reason = "
      "excluded.reason, lock_key = excluded.lock_key, done = excluded.done, failed = excluded.failed, dead = "
      "excluded.dead, erased = excluded.erased, routes = excluded.routes");
  d.retire = t("DELETE FROM {outbox_node} WHERE incarnation = ?1");
  d.nodes =
      t("SELECT incarnation, name, version, mode, lease_ms, held, started_at, active, reason, lock_key, done, "
        "failed, dead, erased, routes FROM {outbox_node} WHERE lease_until > " LATER(1) " ORDER BY incarnation");
  add_operator_statements(d, t);
  d.overview = overview_of(t);
  d.blocked = blocked_of(t);
  d.waiting_types = t(sql::waiting_types_text(pending_forms()));
  d.owners = t(sql::owners_text(pending_forms()));
  add_filter_statements(d, table);
  add_key_statements(d, t);
  return d;
}

array_statements set_statements(sql::layout const& table, done_rows done) {
  in_layout const t{table};
  array_statements a;
  for (auto const when : {insert_shape::due::now, insert_shape::due::after, insert_shape::due::at}) {
    for (bool const owned : {false, true}) {
      for (bool const rich : {false, true}) {
        for (bool const about : {false, true}) {
          insert_shape const shape{when, owned, rich, about};
          a.insert_one.at(shape.index()) = t(insert_of(shape));
        }
      }
    }
  }
  for (bool const rich : {false, true}) {
    for (bool const delayed : {false, true})
      a.insert_many.at((rich ? 2U : 0U) + (delayed ? 1U : 0U)) = t(insert_many(rich, delayed));
  }
  // The columns of a result are computed from left to right, so that only the lock is waited for with this limit.
  a.begin_in_turn =
      t("SELECT " CLAIM_NOW
        ", set_config('lock_timeout', ?2, true), pg_advisory_xact_lock(hashtextextended(?1, 0)), "
        "set_config('lock_timeout', s.was, true) FROM (SELECT current_setting('lock_timeout') AS was OFFSET 0) s");
  a.begin_without_turn = "SELECT " CLAIM_NOW;
  add_claims(a, t);
  a.in_order = t("SELECT " CANDIDATE(
      NOTHING_EARLIER) " FROM {outbox_event} WHERE " CLAIMED " AND (" CLAIMABLE " <= " CLAIM_NOW
                       " OR {status} = {RETRY} OR {last_error} IS NOT NULL OR {locked_by} IS NOT NULL)" NOT_PAUSED(
                           2, 3) " ORDER BY {seq} LIMIT ?1::bigint FOR UPDATE");
  a.next_due = t("SELECT " CLAIMABLE " FROM {outbox_event} WHERE " CLAIMED " AND " CLAIMABLE " > " CLAIM_NOW
                 " ORDER BY " CLAIMABLE " LIMIT 1");
  // Passes over at most a thousand paused rows.
  a.next_due_beside_pauses =
      t("SELECT coalesce(min(at) FILTER (WHERE NOT paused), CASE WHEN count(*) = 1000 THEN max(at) END) FROM "
        "(SELECT " CLAIMABLE " AS at, NOT (true" NOT_PAUSED(1, 2) ") AS paused FROM {outbox_event} WHERE " CLAIMED
                                                                  " AND " CLAIMABLE " > " CLAIM_NOW
                                                                  " ORDER BY " CLAIMABLE " LIMIT 1000) x");
  a.next_grown = t("SELECT min(" INSERTED_AT ") FROM {outbox_event} WHERE " CLAIMED " AND " CLAIMABLE " <= " CLAIM_NOW
                   " AND " CLAIMABLE " > " CLAIM_NOW " - " MICROSECONDS(1) " - interval '1 second' AND " INSERTED_AT
                                                                           " > " CLAIM_NOW " - " MICROSECONDS(1));
  a.take = t("UPDATE {outbox_event} SET {crashes} = {crashes} + (" OURS
             ")::int, {locked_by} = ?1, {locked_at} = " CLAIM_NOW ", {lease_until} = " CLAIM_NOW
             " + " MICROSECONDS(2) ", " NO_NOTE("") " WHERE {event_id} = ANY(?3::text[]) AND " PENDING
                                                    " RETURNING {claimed}");
  a.make_dead =
      t("UPDATE {outbox_event} SET {crashes} = {crashes} + (" OURS ")::int, {status} = {DEAD}, {done_at} = " NOW
        ", {last_error} = ?1, " NO_OWNER " WHERE {event_id} = ?2 AND " PENDING);

  if (done == done_rows::erase) {
    a.settle_done =
        t("DELETE FROM {outbox_event} t USING unnest(?1::text[], ?2::text[], ?3::text[]) u(id, token, "
          "progress)" OWNED);
    a.settle_done_of_one = t("DELETE FROM {outbox_event}" OWNED_BY_ONE);
  } else {
#define DELIVERED(progress) \
  "{status} = {DONE}, {done_at} = " NOW ", {progress} = " progress ", {last_error} = NULL, {crashes} = 0, " NO_OWNER
    a.settle_done = t("UPDATE {outbox_event} t SET " DELIVERED(
        "u.progress") " FROM unnest(?1::text[], ?2::text[], ?3::text[]) u(id, token, progress)" OWNED);
    a.settle_done_of_one = t("UPDATE {outbox_event} SET " DELIVERED("NULL") OWNED_BY_ONE);
#undef DELIVERED
  }
  a.settle_retry = t(
      "UPDATE {outbox_event} t SET {status} = {RETRY}, {attempts} = t.{attempts} + u.counted::int, {available_at} "
      "= " NOW
      " + u.delay * interval '1 microsecond', {last_error} = u.error, {progress} = u.progress, {crashes} = 0, " NO_OWNER
      " FROM unnest(?1::text[], ?2::text[], ?3::text[], ?4::text[], ?5::bigint[], ?6::bigint[]) u(id, token, "
      "progress, error, delay, counted)" OWNED);
  a.settle_defer =
      t("UPDATE {outbox_event} t SET {status} = {NEW}, {available_at} = " NOW
        " + u.delay * interval '1 microsecond', {last_error} = coalesce(u.error, t.{last_error}), {progress} = "
        "u.progress, "
        "{crashes} = 0, " NO_OWNER
        " FROM unnest(?1::text[], ?2::text[], ?3::text[], ?4::text[], ?5::bigint[]) u(id, token, progress, error, "
        "delay)" OWNED);
  a.settle_dead = t(
      "UPDATE {outbox_event} t SET {status} = {DEAD}, {attempts} = t.{attempts} + u.counted::int, {done_at} = " NOW
      ", {last_error} = u.error, {progress} = u.progress, {crashes} = 0, {blocked} = CASE WHEN u.leaves = 1 THEN NULL "
      "ELSE t.{blocked} END, " NO_OWNER
      " FROM unnest(?1::text[], ?2::text[], ?3::text[], ?4::text[], ?5::bigint[], ?6::bigint[]) u(id, token, "
      "progress, error, counted, leaves)" OWNED);
  a.unblock = t(unblock_text());
  a.settle_release =
      t("UPDATE {outbox_event} t SET " NO_OWNER " FROM unnest(?1::text[], ?2::text[]) u(id, token)" OWNED);
  // A live lease is a claimable instant after now and not far from it, so the index skips both due and delayed rows.
  a.release = t("UPDATE {outbox_event} SET " NO_OWNER " WHERE " CLAIMED " AND " CLAIMABLE " > " NOW " AND " CLAIMABLE
                " <= " LATER(2) " AND {locked_by} = ANY(?1::text[])");
  // locked_at too: other dispatchers on the same table know the age of a lock only by it.
  a.renew = t("UPDATE {outbox_event} t SET {locked_at} = " NOW ", " NO_NOTE("t.") ", {lease_until} = " LATER(
      3) " FROM unnest(?1::text[], ?2::text[]) u(id, token)" OWNED ", u.token");
  a.exists =
      t("SELECT t.{event_id}, u.token FROM {outbox_event} t JOIN unnest(?1::text[], ?2::text[]) u(id, token) ON "
        "t.{event_id} = "
        "u.id AND coalesce(t.{locked_by}, '') = u.token");
  add_places(a, t);
  a.now = "SELECT clock_timestamp()";
  return a;
}

}  // namespace outbox::inline v0::postgres

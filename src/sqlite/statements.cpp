#include "sqlite/statements.hpp"

namespace outbox::inline v0::sqlite {
namespace {

// The texts are templates of a layout: {event_id} is a column, {NEW} a status, {row} all columns of a row.

// The claimable instant, to the letter as in the index of schema/sqlite: SQLite matches index expressions as text.
// Other programs may write a T between date and time.
#define CLAIMABLE "max(replace({available_at}, 'T', ' '), coalesce({lease_until}, ''))"

#define PENDING "{status} IN ({NEW}, {RETRY})"

// Rows that a claim can compare and settle: their ids are text, and their instants sort like their text. To the letter
// as in the index of schema/sqlite.
#define IN_FORM                                                          \
  "typeof({event_id}) = 'text' AND typeof({available_at}) = 'text' AND " \
  "{available_at} GLOB '???[0-9]-?[0-9]-?[0-9][ T]?[0-9]:?[0-9]:?[0-9]"  \
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

#define OF_KIND(type, aggregate)                                                              \
  "{status} = {DEAD} AND (?" #type " IS NULL OR {event_type} = ?" #type ") AND (?" #aggregate \
  " IS NULL OR coalesce({aggregate_type}, '__GLOBAL__') = ?" #aggregate ")"

}  // namespace

sql::dialect shared_statements(sql::layout const& table) {
  auto const t = [&](std::string_view sql) { return table.text(sql); };
  sql::dialect d;
  d.kind = "sqlite";
  d.begin = "BEGIN IMMEDIATE";
  d.commit = "COMMIT";
  d.rollback = "ROLLBACK";
  d.savepoint = "SAVEPOINT outbox_write";
  d.release_savepoint = "RELEASE SAVEPOINT outbox_write";
  d.rollback_to = "ROLLBACK TO SAVEPOINT outbox_write";
  d.read_meta = t("SELECT value FROM {outbox_meta} WHERE name = ?1");
  d.write_meta =
      t("INSERT INTO {outbox_meta} (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = "
        "excluded.value");

  d.expire_others =
      t("UPDATE {outbox_event} SET {lease_until} = ?1 WHERE " PENDING " AND " CLAIMABLE
        " > ?1 AND {locked_by} IS NOT NULL AND {lease_until} > ?1 AND substr({locked_by}, 1, length(?2)) <> ?2");
  d.find = t("SELECT {row} FROM {outbox_event} WHERE {event_id} = ?1");
  d.counts = t("SELECT {status}, count(*) FROM {outbox_event} GROUP BY {status}");

  d.heartbeat = t(
      "INSERT INTO {outbox_node} (incarnation, name, version, mode, lease_ms, held, lease_until) VALUES (?1, ?2, ?3, "
      "?4, "
      "?5, ?6, ?7) "
      "ON CONFLICT (incarnation) DO UPDATE SET name = excluded.name, version = excluded.version, mode = excluded.mode, "
      "lease_ms = excluded.lease_ms, held = excluded.held, lease_until = excluded.lease_until");
  d.forget_old_nodes = t("DELETE FROM {outbox_node} WHERE lease_until < ?1");
  d.retire = t("DELETE FROM {outbox_node} WHERE incarnation = ?1");
  d.nodes =
      t("SELECT incarnation, name, version, mode, lease_ms, held FROM {outbox_node} WHERE lease_until > ?1 ORDER BY "
        "incarnation");

  // Rows without done_at are not in the index of terminal rows, so they are looked for when that index has no more:
  // dead rows among the dead, the others among the oldest rows, where they are found once the rows around them are
  // deleted.
  d.purge = t(
      "DELETE FROM {outbox_event} WHERE {seq} IN (SELECT {seq} FROM (SELECT {seq} FROM {outbox_event} WHERE {status} "
      "IN (CASE ?1 "
      "WHEN 1 THEN {DONE} END, CASE ?2 WHEN 1 THEN {DEAD} END) AND {done_at} <= ?3 ORDER BY {done_at}, {seq} LIMIT ?4) "
      "UNION ALL SELECT {seq} FROM {outbox_event} INDEXED BY {outbox_event_dead} WHERE ?2 = 1 AND {status} = {DEAD} "
      "AND {done_at} IS "
      "NULL AND " ENDED_AT
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
  // Left alone, the planner would use the primary key or the index of terminal rows for the order. Dead rows are few.
  d.dead = t("SELECT {row} FROM {outbox_event} INDEXED BY {outbox_event_dead} WHERE " OF_KIND(
      1, 2) " ORDER BY {seq} LIMIT ?3");
  d.count_dead = t("SELECT count(*) FROM {outbox_event} WHERE " OF_KIND(1, 2));
#define REVIVE \
  "{status} = {NEW}, {attempts} = 0, {crashes} = 0, {available_at} = ?1, {done_at} = NULL, {last_error} = NULL"
  d.replay = t("UPDATE {outbox_event} SET " REVIVE " WHERE {event_id} = ?2 AND {status} = {DEAD}");
  d.replay_some = t("UPDATE {outbox_event} SET " REVIVE
                    " WHERE {seq} IN (SELECT {seq} FROM {outbox_event} INDEXED BY {outbox_event_dead} WHERE " OF_KIND(
                        2, 3) " AND " ENDED_AT " <= ?4 ORDER BY {seq} LIMIT ?5)");
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
        "{payload_bytes}) "
        "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, {NEW}, 0, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)");

  r.due = t("SELECT {row}, " CLAIMABLE ", {locked_at} FROM {outbox_event} WHERE " PENDING " AND " CLAIMABLE
            " >= ?2 AND " CLAIMABLE " <= ?1 AND " IN_FORM " ORDER BY " CLAIMABLE ", {seq}");
  // Pending rows are found in the index of claimable rows, however many rows are done, and then sorted.
  r.in_order =
      t("SELECT {row}, " CLAIMABLE
        ", {locked_at} FROM {outbox_event} WHERE {seq} IN (SELECT {seq} FROM {outbox_event} INDEXED BY "
        "{outbox_event_due} "
        "WHERE " PENDING " AND (" CLAIMABLE
        " <= ?1 OR {status} = {RETRY} OR {last_error} IS NOT NULL OR {locked_by} IS NOT NULL)) ORDER BY {seq}");
  r.take = t("UPDATE {outbox_event} SET {crashes} = {crashes} + (" OURS
             "), {locked_by} = ?1, {locked_at} = ?2, "
             "{lease_until} = ?3 "
             "WHERE {seq} = ?4 AND " PENDING " AND " CLAIMABLE " <= ?2 AND " OWNER
             " IS ?5 AND {available_at} = ?6 AND " IN_FORM);
  r.kill = t("UPDATE {outbox_event} SET {crashes} = {crashes} + (" OURS
             "), {status} = {DEAD}, {done_at} = ?1, {last_error} = "
             "?2, " NO_OWNER " WHERE {seq} = ?3 AND " PENDING " AND " CLAIMABLE " <= ?1 AND " OWNER " IS ?4");
  r.next_due = t("SELECT " CLAIMABLE ", {event_type}, {aggregate_type} FROM {outbox_event} WHERE " PENDING
                 " AND " CLAIMABLE " > ?1 ORDER BY " CLAIMABLE);
  r.next_grown = t("SELECT min(coalesce({inserted_at}, {created_at})) FROM {outbox_event} WHERE " PENDING
                   " AND " CLAIMABLE " <= ?1 AND coalesce({inserted_at}, {created_at}) > ?2");

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
        "{crashes} = 0, " NO_OWNER OWNED(5, 6, 7));
  r.settle_release = t("UPDATE {outbox_event} SET " NO_OWNER OWNED(1, 2, 3));
  // A live lease is a claimable instant after now and not far from it, so the index skips both due and delayed rows.
  r.release = t("UPDATE {outbox_event} SET " NO_OWNER " WHERE " PENDING " AND " CLAIMABLE " > ?2 AND " CLAIMABLE
                " <= ?3 AND {locked_by} = ?1");
  // locked_at too: other dispatchers on the same table know the age of a lock only by it.
  r.renew = t("UPDATE {outbox_event} SET {locked_at} = ?1, {lease_until} = ?2" OWNED(3, 4, 5));
  r.exists = t("SELECT 1 FROM {outbox_event} WHERE {event_id} = ?1 AND coalesce({locked_by}, '') = ?2");
  return r;
}

foreign_row_statements foreign_statements(sql::layout const& table) {
  auto const t = [&](std::string_view sql) { return table.text(sql); };
  foreign_row_statements f;
  f.find =
      t("SELECT {seq}, typeof({event_id}) = 'text', CASE typeof({event_id}) WHEN 'text' THEN {event_id} ELSE "
        "quote({event_id}) "
        "END, {event_type}, {available_at} FROM {outbox_event} INDEXED BY {outbox_event_foreign} WHERE " PENDING
        " AND NOT (" IN_FORM ") ORDER BY {available_at} LIMIT ?1");
  f.mend = t("UPDATE {outbox_event} SET {available_at} = ?1 WHERE {seq} = ?2");
  f.kill = t("UPDATE {outbox_event} SET {status} = {DEAD}, {done_at} = ?1, {last_error} = ?2, " NO_OWNER
             " WHERE {seq} = ?3");
  return f;
}

}  // namespace outbox::inline v0::sqlite

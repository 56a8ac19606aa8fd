#include "mysql/key_statements.hpp"

#include "mysql/statement_parts.hpp"

namespace outbox::inline v0::mysql {

std::string in_line(std::string_view sql, bool indexed) {
  std::string made;
  while (true) {
    auto const open = sql.find('[');
    auto const close = sql.find(']', open);
    made += sql.substr(0, open);
    if (open == std::string_view::npos) return made;
    auto const mark = sql.substr(open + 1, close - open - 1);
    auto const colon = mark.find(':');
    std::string const alias{mark.substr(colon + 1)};
    if (mark.starts_with("line:")) {
      made += "{outbox_event} " + alias + (indexed ? " FORCE INDEX ({outbox_event_keyed})" : "");
    } else if (mark.starts_with("key:")) {
      std::string text = "(CASE WHEN " IN_LINE("[r]") " THEN " KEY("[r]") " END)";
      if (indexed) text = "[r]key_in_line";
      for (auto at = text.find("[r]"); at != std::string::npos; at = text.find("[r]")) text.replace(at, 3, alias + ".");
      made += text;
    } else {
      made += sql.substr(open, close - open + 1);
    }
    sql.remove_prefix(close + 1);
  }
}

namespace {

// Another program wrote the row `r` with a delay: it is not due, and only its writer has made it wait. A row that was
// written or unblocked may be due later than now because a clock was set back or is ahead; hence the minute.
#define DELAYED(r)                                                                                                     \
  "(" r "{status} = {NEW} AND " r "{available_at} > " NOW " + INTERVAL 1 MINUTE AND " r "{available_at} > coalesce(" r \
  "{inserted_at}, " r "{created_at}) + INTERVAL 1 MINUTE AND " r                                                       \
  "{locked_by} "                                                                                                       \
  "IS NULL AND " r "{last_error} IS NULL AND " r "{attempts} = 0 AND " r "{crashes} = 0)"

#define UNBLOCK(r) "{blocked} = 0, {available_at} = greatest(" r "{available_at}, " NOW ")"
#define WAITS(r) r "{blocked} = 1 AND " PENDING(r)

// The rows of a JSON text, which has the number of each and `columns`.
#define ID_ROWS(columns) "JSON_TABLE([rows], '$[*]' COLUMNS (n bigint PATH '$[0]'" columns ")) c"
#define DUE_AT ", due datetime(6) PATH "

// Without the mark, no node would clear a note. It may be removed behind the look for the rows, so the note asks too. A
// locking read locks nothing that it reads in a subquery.
#define MARKED "EXISTS (SELECT 1 FROM {outbox_meta} WHERE name = 'keyed' AND value = '1')"

void add_notes(key_statements& s, in_layout const& t) {
  s.waiting = t("SELECT x.{seq}, " KEY(
      "x.") ", x.due_at FROM {outbox_event} x FORCE INDEX ({outbox_event_id}) WHERE "
            "x.due_at <= " NOW " AND x.{blocked} = 0 AND x.{event_id} IN [rows] AND " MARKED);
#define NOTE \
  "START TRANSACTION; SELECT json_arrayagg(json_array(t.{seq})) INTO @outbox_rows FROM " ID_ROWS(                        \
      ", b bigint PATH '$[1]'" DUE_AT "'$[2]'") " STRAIGHT_JOIN {outbox_event} p FORCE INDEX (PRIMARY) ON p.{seq} = " \
  "c.b STRAIGHT_JOIN {outbox_event} t FORCE INDEX ({outbox_event_due}) ON t.due_at = c.due AND t.{seq} = c.n WHERE "  \
  IN_LINE("p.") " AND t.{blocked} = 0 AND " MARKED " FOR UPDATE SKIP LOCKED; UPDATE " CHOSEN " SET {blocked} = 1; COMMIT"
  s.note = t(NOTE);
  s.note_block =
      t("BEGIN NOT ATOMIC DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END; " NOTE "; END");
#undef NOTE
  s.noted = "SELECT coalesce(json_length(@outbox_rows), 0)";
}

void add_run(key_statements& s, in_layout const& t, bool indexed) {
  s.run = t(in_line(
      "SELECT x.{seq}, x.due_at FROM [line:x] WHERE [key:x] = ?1 AND x.{seq} > ?2 ORDER BY x.{seq} LIMIT ?3", indexed));
  s.lock_due = t("SELECT " CANDIDATE("t.", CLAIMABLE("t.")) " FROM " ID_ROWS(
      DUE_AT
      "'$[1]'") " STRAIGHT_JOIN {outbox_event} t "
                "FORCE INDEX ({outbox_event_due}) ON t.due_at = c.due AND t.{seq} = c.n WHERE t.due_at <= " NOW
                " AND t.{blocked} = 0 FOR UPDATE SKIP LOCKED");
  s.lock_waiting = t("SELECT " CANDIDATE("t.", CLAIMABLE("t.")) " FROM " ID_ROWS(
      "") " STRAIGHT_JOIN {outbox_event} t FORCE INDEX (PRIMARY) "
          "ON t.{seq} = c.n WHERE " WAITS("t.") " AND " CLAIMABLE("t.") " <= " NOW " FOR UPDATE SKIP LOCKED");
}

void add_unblocking(key_statements& s, in_layout const& t, bool indexed) {
#define ADD_NEXT(more)                                                                                         \
  "SELECT if(x.{blocked} = 1, concat(@outbox_next, ',[', x.{seq}, ']'), @outbox_next) INTO @outbox_next FROM " \
  "[line:x] WHERE [key:x] = ?1 AND x.{seq} > ?2" more " ORDER BY x.{seq} LIMIT 1"
  s.begin_unblock = "SET @outbox_next = '[[0]'";
  s.add_next = t(in_line(ADD_NEXT(""), indexed));
  s.add_next_if_left = t(in_line(
      ADD_NEXT(" AND NOT EXISTS (SELECT 1 FROM {outbox_event} p WHERE p.{event_id} = ?3 AND " IN_LINE("p.") ")"),
      indexed));
#undef ADD_NEXT
  s.unblock = t(
      "UPDATE (SELECT DISTINCT j.n FROM JSON_TABLE(concat(@outbox_next, ']'), '$[*]' COLUMNS (n bigint PATH '$[0]')) j "
      "ORDER BY j.n" EVERY_ROW ") c STRAIGHT_JOIN {outbox_event} t FORCE INDEX (PRIMARY) ON t.{seq} = c.n SET " UNBLOCK(
          "t.") " WHERE " WAITS("t."));
  s.delayed =
      t("SELECT json_arrayagg(json_array(x.{seq})) INTO @outbox_rows FROM {outbox_event} x WHERE x.{event_id} IN "
        "[rows]; SELECT " KEY("t.") ", t.{seq}, t.{event_id} FROM " CHOSEN
                                    " WHERE " DELAYED("t.") " AND t.{blocked} IS NOT NULL FOR UPDATE SKIP LOCKED");
  s.leave = t("UPDATE {outbox_event} SET {blocked} = NULL WHERE ");
}

void add_walks(key_statements& s, in_layout const& t, bool indexed) {
  s.heal = t(in_line(
      "SELECT json_arrayagg(if(t.{blocked} = 1, json_array(t.{seq}), NULL)), max(c.k), count(*) INTO @outbox_rows, "
      "@outbox_key, @outbox_keys FROM (SELECT [key:x] AS k, min(x.{seq}) AS s FROM [line:x] WHERE [key:x] > ?1 GROUP "
      "BY k "
      "ORDER BY k LIMIT ?2) c STRAIGHT_JOIN {outbox_event} t FORCE INDEX (PRIMARY) ON t.{seq} = c.s; UPDATE " CHOSEN
      " SET " UNBLOCK("t.") " WHERE " WAITS("t."),
      indexed));
  s.healed_to = "SELECT if(@outbox_keys < ?2, NULL, @outbox_key)";
  s.blocked_page =
      t(in_line("SELECT [key:x] AS k, x.{seq}, x.{blocked} FROM [line:x] WHERE [key:x] > ?1 OR ([key:x] = ?1 "
                "AND x.{seq} > ?2) ORDER BY k, x.{seq} LIMIT ?3",
                indexed));
  s.clear = t("UPDATE {outbox_event} SET " UNBLOCK("") " WHERE " WAITS("") " AND ");
}

}  // namespace

key_statements statements_for_keys(sql::layout const& table, std::string const& collation, bool indexed) {
  auto const t = made_for(table, collation);
  key_statements s;
#define NEIGHBOUR "x.{seq}, x.{event_id}, x.{blocked}, " DELAYED("x.") " FROM [line:x] WHERE [key:x] = ?1 AND x.{seq} "
  s.around = t(in_line("(SELECT " NEIGHBOUR "< ?2 ORDER BY x.{seq} DESC LIMIT 1) UNION ALL (SELECT " NEIGHBOUR
                       ">= ?2 ORDER BY x.{seq} LIMIT ?3)",
                       indexed));
#undef NEIGHBOUR
  add_notes(s, t);
  add_run(s, t, indexed);
  add_unblocking(s, t, indexed);
  s.forget_place = "SET @outbox_seq = NULL, @outbox_key = NULL";
  s.find_place = t("SELECT x.{seq}, CASE WHEN x.{blocked} IS NOT NULL THEN " KEY(
      "x.") " END INTO @outbox_seq, @outbox_key "
            "FROM {outbox_event} x WHERE x.{event_id} = ?1");
  s.place =
      t(in_line("SELECT @outbox_seq, (SELECT x.{event_id} FROM [line:x] WHERE [key:x] = @outbox_key AND x.{seq} < "
                "@outbox_seq ORDER BY x.{seq} DESC LIMIT 1)",
                indexed));
  add_walks(s, t, indexed);
  return s;
}

}  // namespace outbox::inline v0::mysql

#include "sql/layout_statements.hpp"

#include <vector>

#include "sql/marks.hpp"

namespace outbox::inline v0::sql {
namespace {

std::string in_quotes(std::string_view name, char quote) { return quote + std::string{name} + quote; }

// A status word has no quote in it.
std::string literal(std::string const& word) { return "'" + word + "'"; }

// Texts with {id}, {NEW}, … as in `sql::layout`, for one table.
class writer {
 public:
  writer(table_layout const& l, layout_forms const& f) : l_{l}, f_{f} {
    table = quoted_table(l, f.quote);
    id = q(l.id);
    status = q(l.status);
    created = q(l.created_at);
    group = "CASE " + status + " WHEN " + literal(l.pending) + " THEN 0 WHEN " + literal(l.done) + " THEN 1 WHEN " +
            literal(l.dead) + " THEN 3 ELSE 4 END";
    aggregate_type = "coalesce(" + q(l.aggregate_type) + ", '__GLOBAL__')";
    ended = f.sortable(l.done_at.empty() ? created : "coalesce(" + q(l.done_at) + ", " + created + ")");
  }

  [[nodiscard]] std::string q(std::string const& column) const { return in_quotes(column, f_.quote); }
  [[nodiscard]] std::string or_null(std::string const& column) const { return column.empty() ? "NULL" : q(column); }

  // The columns of a row in the order of sql::column.
  [[nodiscard]] std::string row() const {
    auto const created_at = f_.time(created);
    auto const done_at = l_.done_at.empty() ? "NULL" : f_.time(q(l_.done_at));
    std::vector<std::string> const columns{"NULL",
                                           f_.text(id),
                                           q(l_.event_type),
                                           q(l_.aggregate_type),
                                           f_.text(q(l_.aggregate_id)),
                                           or_null(l_.tenant),
                                           f_.text(q(l_.payload)),
                                           l_.headers.empty() ? "NULL" : f_.text(q(l_.headers)),
                                           group,
                                           or_null(l_.attempts),
                                           "NULL",
                                           created_at,
                                           created_at,
                                           created_at,
                                           done_at,
                                           or_null(l_.error),
                                           "NULL",
                                           "NULL",
                                           "NULL",
                                           "NULL",
                                           "NULL",
                                           "NULL",
                                           "NULL"};
    std::string list;
    for (auto const& c : columns) list += (list.empty() ? "" : ", ") + c;
    return list;
  }

  // Replaces the marks and makes the database's own text of it.
  [[nodiscard]] std::string text(std::string sql) const {
    marks(sql);
    return f_.finish(sql);
  }
  // The same for a text that gets conditions first.
  [[nodiscard]] std::string unfinished(std::string sql) const {
    marks(sql);
    return sql;
  }

  // Up to ?1 rows that match, the oldest first. MariaDB needs the outer SELECT.
  [[nodiscard]] std::string chosen(std::string const& condition) const {
    return "{id} IN (SELECT {id} FROM (SELECT {id} FROM [rows] WHERE " + condition +
           "[filter] ORDER BY {created}, {id} LIMIT " + f_.integer("?1") + ") x)";
  }

  std::string table, id, status, created, group, aggregate_type, ended;

 private:
  void marks(std::string& sql) const {
    replace_all(sql, "{table}", table);
    replace_all(sql, "{id}", id);
    replace_all(sql, "{status}", status);
    replace_all(sql, "{created}", created);
    replace_all(sql, "{NEW}", literal(l_.pending));
    replace_all(sql, "{DONE}", literal(l_.done));
    replace_all(sql, "{DEAD}", literal(l_.dead));
  }

  table_layout const& l_;
  layout_forms const& f_;
};

// What becomes of the columns of a row that is given up, or begins again.
std::string set_dead(table_layout const& l, writer const& w, std::string const& error) {
  return "{status} = {DEAD}" + (l.error.empty() ? std::string{} : ", " + w.q(l.error) + " = " + error);
}
std::string set_pending(table_layout const& l, writer const& w) {
  std::string text = "{status} = {NEW}";
  if (!l.error.empty()) text += ", " + w.q(l.error) + " = NULL";
  if (!l.done_at.empty()) text += ", " + w.q(l.done_at) + " = NULL";
  if (!l.attempts.empty()) text += ", " + w.q(l.attempts) + " = 0";
  return text;
}

// A parameter that the statement does not need. A server wants to know its type nevertheless.
std::string unused(layout_forms const& f, std::string const& parameter) {
  return f.integer(parameter) + " IS NOT NULL";
}

void add_filters(dialect& d, table_layout const& l, layout_forms const& f, writer const& w) {
  auto& x = d.filter;
  x.rows = x.dead_rows = w.table;
  x.status_column = w.status;
  x.status = {literal(l.pending), literal(l.done), literal(l.pending), literal(l.dead)};
  x.id_in = w.id + " IN " + f.ids("[?]");
  x.event_type = w.q(l.event_type) + " = [?]";
  x.aggregate_type = w.aggregate_type + " = [?]";
  x.aggregate_id = f.text(w.q(l.aggregate_id)) + " = [?]";
  // Conditions that no row meets. They have their parameter, or a server refuses it.
  x.tenant = l.tenant.empty() ? "[?] = '' AND false" : w.q(l.tenant) + " = [?]";
  x.key = "[?] = '' AND false";
  x.inserted_by = f.sortable(w.created) + " <= " + f.from_now("[?]");
  x.inserted_after = f.sortable(w.created) + " > " + f.from_now("[?]");
  x.ended_by = w.unfinished("{status} IN ({DONE}, {DEAD}) AND ") + w.ended + " <= " + f.compared("[?]");
  x.finish = f.finish;

  auto const limit = " LIMIT " + f.integer("?1");
  d.list = w.unfinished("SELECT " + w.row() + " FROM [rows] WHERE true[filter] ORDER BY {created}, {id}" + limit);
  d.list_newest =
      w.unfinished("SELECT " + w.row() + " FROM [rows] WHERE true[filter] ORDER BY {created} DESC, {id} DESC" + limit);
  d.count = w.unfinished("SELECT count(*) FROM (SELECT 1 FROM [rows] WHERE true[filter]" + limit + ") x");
  if (!l.error.empty()) {
    auto const error = w.q(l.error);
    auto const type = w.q(l.event_type);
    d.errors = w.unfinished("SELECT " + error + ", count(*), count(CASE WHEN {status} = {DEAD} THEN 1 END), " +
                            f.time("min({created})") + ", " + f.time("max({created})") + ", min(" + f.text("{id}") +
                            "), min(" + type + "), count(DISTINCT " + type + ") FROM [rows] WHERE " + error +
                            " IS NOT NULL[filter] GROUP BY " + error + " ORDER BY 2 DESC, 1" + limit);
  }
  auto const why = l.error.empty() ? " AND ?3 <> 'no column'" : "";
  d.cancel = w.unfinished("UPDATE {table} SET " + set_dead(l, w, "?3") + " WHERE " + w.chosen("{status} = {NEW}") +
                          " AND {status} = {NEW} AND " + unused(f, "?2") + why);
  d.replay = w.unfinished("UPDATE {table} SET " + set_pending(l, w) + " WHERE " + w.chosen("{status} = {DEAD}") +
                          " AND {status} = {DEAD} AND " + unused(f, "?2"));
  d.purge_rows = w.unfinished("DELETE FROM {table} WHERE " + w.chosen("{status} IN ({DONE}, {DEAD})") +
                              " AND {status} IN ({DONE}, {DEAD})");
}

dialect shared_of(table_layout const& l, layout_forms const& f, writer const& w) {
  dialect d;
  d.kind = f.kind;
  d.begin = f.begin;
  d.find = w.text("SELECT " + w.row() + " FROM {table} WHERE {id} = " + f.id("?1"));
  d.counts = w.text("SELECT " + w.group + " AS outbox_status, count(*) FROM {table} GROUP BY outbox_status");
  d.event_types = w.text("SELECT " + w.q(l.event_type) + ", " + w.aggregate_type + " AS outbox_aggregate, " + w.group +
                         " AS outbox_status, count(*) FROM {table} GROUP BY " + w.q(l.event_type) +
                         ", outbox_aggregate, outbox_status ORDER BY " + w.q(l.event_type) + ", outbox_aggregate");
  auto const ended = "((" + f.integer("?1") + " = 1 AND {status} = {DONE}) OR (" + f.integer("?2") +
                     " = 1 AND {status} = {DEAD})) AND " + w.ended + " <= " + f.from_now("?3");
  d.purge = w.text("DELETE FROM {table} WHERE {id} IN (SELECT {id} FROM (SELECT {id} FROM {table} WHERE " + ended +
                   " ORDER BY {created} LIMIT " + f.integer("?4") + ") x) AND " + ended);
  add_filters(d, l, f, w);
  return d;
}

void add_insert(layout_statements& s, table_layout const& l, layout_forms const& f, writer const& w) {
  std::string columns;
  std::string values;
  auto const add = [&](std::string const& column, layout_forms::form const& form) {
    if (column.empty()) return;
    auto const parameter = "?" + std::to_string(++s.insert_width);
    columns += (columns.empty() ? "" : ", ") + w.q(column);
    values += (values.empty() ? "" : ", ") + (form ? form(parameter) : parameter);
  };
  add(l.id, f.id);
  add(l.event_type, {});
  add(l.aggregate_type, {});
  add(l.aggregate_id, f.aggregate);
  add(l.payload, {});
  add(l.created_at, f.at);
  add(l.tenant, {});
  add(l.headers, {});
  columns += ", " + w.status;
  values += ", " + literal(l.pending);
  if (!l.attempts.empty()) {
    columns += ", " + w.q(l.attempts);
    values += ", 0";
  }
  s.insert = "INSERT INTO " + w.table + " (" + columns + ") VALUES ";
  s.insert_row = "(" + values + ")";
}

}  // namespace

std::string quoted_table(table_layout const& l, char quote) {
  auto const dot = l.table.find('.');
  if (dot == std::string::npos) return in_quotes(l.table, quote);
  return in_quotes(l.table.substr(0, dot), quote) + "." + in_quotes(l.table.substr(dot + 1), quote);
}

layout_statements make_statements(table_layout const& l, layout_forms const& f) {
  writer const w{l, f};
  layout_statements s;
  s.shared = shared_of(l, f, w);
  add_insert(s, l, f, w);
  s.look = w.text("SELECT " + f.text(w.id) + ", " + w.q(l.event_type) + ", " + w.aggregate_type + ", " +
                  f.time(w.created) + ", " + f.bytes(w.q(l.payload)) + ", " + w.or_null(l.attempts) +
                  " FROM {table} WHERE {status} = {NEW} ORDER BY {created}, {id} LIMIT " + f.integer("?1"));
  auto const among = "{id} IN " + f.ids("?1") + " AND {status} = {NEW}";
  s.pending_of = w.text("SELECT " + f.text(w.id) + " FROM {table} WHERE " + among);
  s.fetch = w.text("SELECT " + w.row() + " FROM {table} WHERE " + among);
  std::string done = "{status} = {DONE}";
  if (!l.done_at.empty()) done += ", " + w.q(l.done_at) + " = " + f.from_now("?1");
  if (!l.error.empty()) done += ", " + w.q(l.error) + " = NULL";
  auto const now = l.done_at.empty() ? " AND " + unused(f, "?1") : "";
  s.settle_done =
      w.text("UPDATE {table} SET " + done + " WHERE {id} IN " + f.ids("?2") + " AND {status} = {NEW}" + now);
  auto const counted = [&](std::string const& parameter) {
    return w.q(l.attempts) + " = coalesce(" + w.q(l.attempts) + ", 0) + " + f.integer(parameter);
  };
  s.settle_dead =
      w.text("UPDATE {table} SET " + set_dead(l, w, "?2") + (l.attempts.empty() ? "" : ", " + counted("?3")) +
             " WHERE {id} = " + f.id("?1") + " AND {status} = {NEW}" +
             (l.error.empty() ? " AND ?2 <> 'no column'" : "") + (l.attempts.empty() ? " AND " + unused(f, "?3") : ""));
  if (!l.attempts.empty()) {
    s.count_retry =
        w.text("UPDATE {table} SET " + counted("?2") + " WHERE {id} = " + f.id("?1") + " AND {status} = {NEW}");
  }
  return s;
}

}  // namespace outbox::inline v0::sql

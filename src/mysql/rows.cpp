#include "mysql/rows.hpp"

#include <algorithm>
#include <utility>

namespace outbox::inline v0::mysql {
namespace {

std::int64_t micros(std::chrono::microseconds t) noexcept { return t.count(); }

void add_row(sql_text& t, set_statements const& s, sql::stored_event const& e, bool rich, bool guarded) {
  using sql::or_null;
  sql::value const now = sql::from_now{};
  sql::value const due = e.due.at ? sql::value{*e.due.at} : sql::value{sql::from_now{e.due.after}};
  t << "(";
  if (guarded) t << s.guard;
  t.text(e.id);
  if (guarded) t << s.guard_end;
  t << ",";
  t.text(e.type) << ",";
  t.text(e.payload) << ",";
  t.value(e.created_at) << ",";
  t.text(e.aggregate_type) << ",";
  t.value(or_null(e.aggregate_id)) << ",";
  t.value(due) << ",";
  t.value(now) << ",";
  if (e.owned()) {
    t.text(e.token) << ",";
    t.value(now) << ",";
    t.value(sql::from_now{e.lease});
  } else {
    t << "NULL,NULL,NULL";
  }
  t << (e.delayed() ? ",NULL" : ",0");
  if (rich) {
    t << ",";
    t.value(or_null(e.tenant)) << ",";
    t.value(or_null(e.headers)) << ",";
    t.value(or_null(e.ordering_key)) << ",";
    t.value(or_null(e.content_type)) << ",";
    t.value(e.json ? sql::value{} : sql::value{sql::blob{e.bytes}});
  }
  t << ")";
}

void add_columns(sql_text& t, set_statements const& s, bool rich) {
  t << s.insert_columns;
  if (rich) t << s.rich_columns;
  t << ") VALUES ";
}

void add_texts(sql_text& t, std::span<std::string const> texts) {
  t.list(texts, [&](std::string const& one) { t.text(one); });
}

// Without pauses, which is the rule, there is no condition.
void add_not_paused(sql_text& t, set_statements const& s, std::vector<route_pause> const& pauses) {
  std::vector<std::string> types;
  std::vector<route_pause> pairs;
  for (auto const& p : pauses) {
    if (p.aggregate_type.empty()) {
      types.push_back(p.event_type);
    } else {
      pairs.push_back(p);
    }
  }
  if (!types.empty()) add_texts(t << " AND " << s.not_paused_type << " NOT IN ", types);
  if (pairs.empty()) return;
  t << " AND " << s.not_paused_pair << " NOT IN ";
  t.list(pairs, [&](route_pause const& p) {
    (t << "(").text(p.event_type) << ",";
    t.text(p.aggregate_type) << ")";
  });
}

void add_ordered_look(sql_text& t, set_statements const& s, spi::claim_request const& request, std::size_t window) {
  auto const limit = static_cast<std::int64_t>(window);
  auto const branch = [&](event_status status) {
    (t << s.order_branch << " AND " << s.status << " = ").number(static_cast<std::int64_t>(status));
    add_not_paused(t, s, request.pauses);
    (t << " ORDER BY " << s.seq << " LIMIT ").number(limit) << ")";
  };
  t << s.order_begin;
  branch(event_status::created);
  t << " UNION ALL ";
  branch(event_status::retry);
  (t << ") x ORDER BY x." << s.seq << " LIMIT ").number(limit) << ")" << s.order_end;
}

// Rows as JSON: [[id, token, …], …].
class json_rows {
 public:
  json_rows& row() {
    text_ += text_.empty() ? "[[" : "],[";
    first_ = true;
    return *this;
  }
  json_rows& text(sql::optional_text const& t) {
    comma();
    if (t) {
      append_json(text_, *t);
    } else {
      text_ += "null";
    }
    return *this;
  }
  json_rows& number(std::int64_t n) {
    comma();
    text_ += std::to_string(n);
    return *this;
  }
  [[nodiscard]] std::string done() && {
    text_ += text_.empty() ? "[]" : "]]";
    return std::move(text_);
  }

 private:
  void comma() {
    if (!first_) text_ += ',';
    first_ = false;
  }
  std::string text_;
  bool first_ = true;
};

std::string const& statement_of(set_statements const& s, spi::outcome o) {
  switch (o) {
    case spi::outcome::delivered: return s.settle_done;
    case spi::outcome::retry: return s.settle_retry;
    case spi::outcome::defer: return s.settle_defer;
    case spi::outcome::dead: return s.settle_dead;
    case spi::outcome::release: break;
  }
  return s.settle_release;
}

std::string rows_of(sql::settle_group const& g) {
  json_rows rows;
  for (std::size_t i = 0; i < g.id.size(); ++i) {
    rows.row().text(g.id[i]).text(g.token[i]);
    if (g.outcome == spi::outcome::release) continue;
    rows.text(g.progress[i]);
    if (g.outcome == spi::outcome::delivered) continue;
    rows.text(g.error[i]);
    if (g.outcome != spi::outcome::dead) rows.number(g.delay[i]);
    if (g.outcome != spi::outcome::defer) rows.number(g.counted[i]);
    if (g.outcome == spi::outcome::dead) rows.number(g.leaves[i]);
  }
  return std::move(rows).done();
}

bool told_by_claims(sql::settle_group const& g) { return std::ranges::find(g.locator, 0) == g.locator.end(); }

// The rows of a group: by their numbers if claims have told them.
void add_which(sql_text& t, set_statements const& s, sql::settle_group const& g) {
  if (told_by_claims(g)) return add_numbers(t, s.seq, g.locator);
  t << s.event_id << " IN ";
  t.list(g.id, [&](sql::optional_text const& id) { t.text(*id); });
}

// The same, each with its own token.
void add_which_and_tokens(sql_text& t, set_statements const& s, sql::settle_group const& g) {
  add_which(t, s, g);
  bool const by_number = told_by_claims(g);
  t << " AND (" << (by_number ? s.seq : s.event_id) << "," << s.locked_by << ") IN ";
  std::size_t at = 0;
  t.list(g.id, [&](sql::optional_text const& id) {
    t << "(";
    if (by_number) {
      t.number(g.locator[at]);
    } else {
      t.text(*id);
    }
    t << ",";
    t.text(*g.token[at++]) << ")";
  });
}

// All rows become the same, except for their tokens.
bool is_plain(sql::settle_group const& g) {
  return g.outcome == spi::outcome::delivered &&
         std::ranges::none_of(g.progress, [](auto const& p) { return p.has_value(); });
}

}  // namespace

void add_with_rows(sql_text& t, std::string_view statement, std::string const& rows,
                   std::initializer_list<sql::value> values) {
  constexpr std::string_view mark = "[rows]";
  auto const at = statement.find(mark);
  t.statement(statement.substr(0, at), values).text(rows).statement(statement.substr(at + mark.size()), values);
}

void add_with_list(sql_text& t, std::string_view statement, std::span<std::string const> texts) {
  constexpr std::string_view mark = "[rows]";
  auto const at = statement.find(mark);
  add_texts(t << statement.substr(0, at), texts);
  t << statement.substr(at + mark.size());
}

void add_insert(sql_text& t, set_statements const& s, sql::stored_event const& e, bool guarded) {
  t.reserve(s.insert_columns.size() + s.rich_columns.size() + 512 + e.payload.size() + e.payload.size() / 8 +
            e.bytes.size() * 2 + e.headers.size());
  add_columns(t, s, e.rich());
  add_row(t, s, e, e.rich(), guarded);
}

std::size_t add_insert(sql_text& t, set_statements const& s, std::span<spi::insertion const> rows,
                       std::size_t most_bytes, bool guarded) {
  std::vector<sql::stored_event> events{rows.begin(), rows.end()};
  bool const rich = std::ranges::any_of(events, [](auto const& e) { return e.rich(); });
  add_columns(t, s, rich);
  for (std::size_t i = 0; i < events.size(); ++i) {
    auto const before = t.size();
    if (i > 0) t << ",";
    add_row(t, s, events[i], rich, guarded && i == 0);
    if (i > 0 && t.size() > most_bytes) {
      t.shrink_to(before);
      return i;
    }
  }
  return events.size();
}

void add_look(sql_text& t, set_statements const& s, spi::claim_request const& request, std::size_t window) {
  if (request.in_order) return add_ordered_look(t, s, request, window);
  t << (request.keyed ? s.look_in_keys : s.look);
  if (request.floor) {
    (t << " AND due_at >= ").value(*request.floor);
  } else if (request.reach) {
    (t << " AND due_at >= ").value(sql::from_now{-*request.reach});
  }
  if (request.skip_recent.count() > 0) {
    (t << " AND " << s.inserted_at << " <= ").value(sql::from_now{-request.skip_recent});
  }
  if (request.unowned_only) t << " AND " << s.locked_by << " IS NULL";
  add_not_paused(t, s, request.pauses);
  if (!request.leave.empty()) add_texts(t << " AND " << s.event_id << " NOT IN ", request.leave);
  if (request.suspects == spi::suspects::take_one) {
    (t << " AND " << s.crashes << " + " << s.ours << " >= ").number(request.max_crashes - 1);
  }
  (t << s.look_end).number(static_cast<std::int64_t>(window)) << " FOR UPDATE SKIP LOCKED";
}

spi::claim_filter::candidate candidate_in(sql::row const& r) {
  using c = candidate_column;
  auto const now = r.time(c::now).value_or(instant{});
  return {.id = r.text(c::event_id),
          .event_type = r.text(c::event_type),
          .aggregate_type = r.text(c::aggregate_type),
          .owned = r.integer(c::owned) != 0,
          .foreign_lock = r.time(c::foreign_locked_at),
          .foreign_owner = r.text(c::foreign_owner),
          .tried = r.integer(c::tried) != 0,
          .crashes = static_cast<std::int32_t>(r.integer(c::crashes)),
          .inserted_at = r.time(c::inserted_at).value_or(now),
          .claimable_at = r.time(c::claimable_at).value_or(now),
          .bytes = static_cast<std::size_t>(r.integer(c::bytes))};
}

// All rows of a look have its instant in them.
void show_candidates(MYSQL_RES* rows, instant now, sql::row_chooser& choose) {
  using c = candidate_column;
  choose.begin(now);
  bool first = true;
  show(rows, [&](sql::row const& r) {
    if (std::exchange(first, false)) choose.begin(r.time(c::now).value_or(now));
    return choose.see(candidate_in(r), {.locator = r.integer(c::seq)});
  });
}

std::size_t add_look_ahead(sql_text& t, set_statements const& s, spi::claim_request const& request) {
  if (request.pauses.empty()) {
    t << s.next_due << ";";
  } else {
    constexpr std::string_view mark = "[paused]";
    std::string_view const text = s.next_due_beside_pauses;
    auto const at = text.find(mark);
    t << text.substr(0, at);
    add_not_paused(t, s, request.pauses);
    t << text.substr(at + mark.size()) << ";";
  }
  if (request.skip_recent.count() == 0) return 1;
  t.statement(s.next_grown, {micros(request.skip_recent)}) << ";";
  return 2;
}

// The first answer is the next claimable instant; the second, with `skip_recent`, the first insert that grows old
// enough.
void note_next_due(spi::claim_request const& request, std::span<driver::answer const> answers,
                   spi::claim_reply& reply) {
  auto after = milliseconds{0};
  for (auto const& a : answers) {
    show(a.rows.get(), [&](sql::row const& r) {
      if (auto const at = r.time(0); at && (!reply.next_due || *at + after < *reply.next_due)) {
        reply.next_due = *at + after;
      }
      return false;
    });
    after = request.skip_recent;
  }
}

// Claims take rows that lie beside each other. One range of them is cheaper than a list.
void add_numbers(sql_text& t, std::string const& column, std::vector<std::int64_t> numbers) {
  std::ranges::sort(numbers);
  std::vector<std::int64_t> single;
  bool first = true;
  t << "(";
  auto const next = [&] {
    if (!std::exchange(first, false)) t << " OR ";
    t << column;
  };
  for (std::size_t i = 0; i < numbers.size();) {
    auto end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    if (end - i > 3) {
      next();
      (t << " BETWEEN ").number(numbers[i]) << " AND ";
      t.number(numbers[end - 1]);
    } else {
      single.insert(single.end(), numbers.begin() + static_cast<std::ptrdiff_t>(i),
                    numbers.begin() + static_cast<std::ptrdiff_t>(end));
    }
    i = end;
  }
  if (!single.empty()) {
    next();
    t << " IN ";
    t.list(single, [&](std::int64_t n) { t.number(n); });
  }
  t << ")";
}

void add_settlement(sql_text& t, set_statements const& s, sql::settle_group const& g) {
  if (g.of_one) {
    t.statement(s.settle_done_of_one, {*g.token.front()});
    add_which(t, s, g);
  } else if (is_plain(g)) {
    t << s.settle_done_plain;
    add_which_and_tokens(t, s, g);
  } else {
    add_with_rows(t, statement_of(s, g.outcome), rows_of(g));
  }
}

void add_owned(sql_text& t, set_statements const& s, sql::settle_group const& g) {
  if (!g.of_one) return add_for_rows(t, s.owned, g.id, g.token);
  t.statement(s.owned_of_one, {*g.token.front()});
  add_which(t, s, g);
  t << " FOR UPDATE";
}

void add_for_rows(sql_text& t, std::string const& statement, std::span<sql::optional_text const> ids,
                  std::span<sql::optional_text const> tokens, std::initializer_list<sql::value> values) {
  json_rows rows;
  for (std::size_t i = 0; i < ids.size(); ++i) rows.row().text(ids[i]).text(tokens[i]);
  add_with_rows(t, statement, std::move(rows).done(), values);
}

}  // namespace outbox::inline v0::mysql

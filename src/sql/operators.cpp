// What operators ask of every SQL store: rows by filter, audit, event types, keys.
//
// The text of a statement has the conditions that its filter needs and no others, so that each finds its index. Values
// are always parameters.
#include <algorithm>
#include <outbox/error.hpp>
#include <outbox/spi/codecs.hpp>
#include <span>

#include "core/base/text.hpp"
#include "core/events/names_check.hpp"
#include "sql/marks.hpp"
#include "sql/sql_rows.hpp"
#include "sql/sql_store.hpp"

namespace outbox::inline v0::sql {
namespace {

std::int64_t number(std::uint64_t n) { return static_cast<std::int64_t>(std::min<std::uint64_t>(n, INT64_MAX)); }

// The conditions of a filter, and the statement's parameters with those of the filter behind them.
class conditions {
 public:
  conditions(filter_texts const& texts, event_filter const& f, std::vector<value> first)
      : texts_{texts}, values_{std::move(first)} {
    for (auto const& id : f.ids) {
      if (core::is_possible_id(id)) possible_ids_.push_back(id);
    }
    impossible_ = !core::is_possible(f) || (!f.ids.empty() && possible_ids_.empty());
    if (!f.ids.empty()) {
      ids_ = spi::encode_names(possible_ids_);
      add(texts.id_in, std::string_view{ids_});
    }
    statuses(f.statuses);
    if (!f.event_type.empty()) add(texts.event_type, std::string_view{f.event_type});
    if (!f.aggregate_type.empty()) add(texts.aggregate_type, std::string_view{f.aggregate_type});
    if (!f.aggregate_id.empty()) add(texts.aggregate_id, std::string_view{f.aggregate_id});
    if (!f.tenant.empty()) add(texts.tenant, std::string_view{f.tenant});
    if (!f.key.empty()) add(texts.key, std::string_view{f.key});
    if (f.older_than) add(texts.inserted_by, from_now{-*f.older_than});
    if (f.younger_than) add(texts.inserted_after, from_now{-*f.younger_than});
    if (f.died_by) add(texts.ended_by, *f.died_by);
    if (f.newest && f.ids.empty() && !texts.newest.empty()) add(texts.newest, number(*f.newest));
    only_dead_ = f.ids.empty() && f.statuses.size() == 1 && f.statuses.front() == event_status::dead;
  }

  /// True if no row can match.
  [[nodiscard]] bool impossible() const noexcept { return impossible_; }
  [[nodiscard]] std::span<value const> values() const noexcept { return values_; }

  /// The statement with its conditions. `dead`: it concerns DEAD rows only.
  [[nodiscard]] std::string in(std::string statement, bool dead = false) const {
    replace_all(statement, "[rows]", dead || only_dead_ ? texts_.dead_rows : texts_.rows);
    replace_all(statement, "[filter]", text_);
    return texts_.finish ? texts_.finish(statement) : statement;
  }

 private:
  void add(std::string const& condition, value v) {
    values_.push_back(v);
    auto text = condition;
    replace_all(text, "[?]", "?" + std::to_string(values_.size()));
    text_ += " AND " + text;
  }
  // Numbers of this library's, so they can stand in the text, where the planner sees them.
  void statuses(std::vector<event_status> const& wanted) {
    if (wanted.empty()) return;
    std::string list;
    for (auto const s : wanted) list += (list.empty() ? "" : ", ") + texts_.status.at(static_cast<std::size_t>(s));
    text_ += " AND " + texts_.status_column + (wanted.size() == 1 ? " = " + list : " IN (" + list + ")");
  }

  filter_texts const& texts_;
  std::vector<value> values_;
  std::vector<std::string> possible_ids_;
  std::string ids_;
  std::string text_;
  bool impossible_ = false;
  bool only_dead_ = false;
};

}  // namespace

std::vector<row_view> sql_store::list(event_filter const& filter, list_order order, std::size_t limit) {
  std::vector<row_view> found;
  conditions const where{dialect_.filter, filter, {number(limit)}};
  if (where.impossible()) return found;
  auto const sql = where.in(order == list_order::oldest_first ? dialect_.list : dialect_.list_newest);
  with_reader([&](connection& c) {
    c.execute(sql, where.values(), [&](row const& r) {
      std::string malformed;
      found.push_back(read_row(r, malformed));
      return true;
    });
  });
  return found;
}

std::uint64_t sql_store::count(event_filter const& filter, std::uint64_t up_to) {
  std::int64_t rows = 0;
  conditions const where{dialect_.filter, filter, {number(up_to)}};
  if (where.impossible()) return 0;
  with_reader([&](connection& c) {
    c.execute(where.in(dialect_.count), where.values(), [&](row const& r) {
      rows = r.integer(0);
      return false;
    });
  });
  return static_cast<std::uint64_t>(rows);
}

std::vector<error_group> sql_store::errors(event_filter const& filter, std::size_t limit) {
  std::vector<error_group> found;
  conditions const where{dialect_.filter, filter, {number(limit)}};
  if (where.impossible() || dialect_.errors.empty()) return found;  // some tables have no column for an error
  with_reader([&](connection& c) {
    found.clear();
    c.execute(where.in(dialect_.errors), where.values(), [&](row const& r) {
      auto const count = [&](int column) { return static_cast<std::uint64_t>(r.integer(column)); };
      found.push_back({std::string{r.text(0)}, count(1), count(2), r.time(3), r.time(4), std::string{r.text(5)},
                       std::string{r.text(6)}, count(7)});
      return true;
    });
  });
  return found;
}

std::size_t sql_store::change_rows(std::string const& statement, event_filter const& filter, bool dead,
                                   std::vector<value> first) {
  std::int64_t rows = 0;
  conditions const where{dialect_.filter, filter, std::move(first)};
  if (where.impossible()) return 0;
  with_writer([&](connection& c) { rows = c.execute(where.in(statement, dead), where.values(), {}); });
  return static_cast<std::size_t>(rows);
}

std::size_t sql_store::cancel(event_filter const& filter, std::string_view reason, std::size_t limit) {
  auto const text = core::scrub(reason, longest_error);
  return change_rows(dialect_.cancel, filter, false, {number(limit), from_now{}, std::string_view{text}});
}

std::size_t sql_store::replay(event_filter const& filter, std::size_t limit) {
  return change_rows(dialect_.replay, filter, filter.ids.empty(), {number(limit), from_now{}});
}

std::size_t sql_store::purge(event_filter const& filter, std::size_t limit) {
  return change_rows(dialect_.purge_rows, filter, false, {number(limit)});
}

// The rows behind are unblocked by statements of their own, which see what this transaction has changed. No row waits
// on a table that is not marked, which may have no index of keys.
std::size_t sql_store::discard(event_filter const& filter, std::size_t limit) {
  struct place {
    std::string id, key;
    std::int64_t seq;
  };
  std::vector<place> rows;
  conditions const where{dialect_.filter, filter, {number(limit)}};
  if (where.impossible()) return 0;
  auto const sql = where.in(dialect_.parked_rows, filter.ids.empty());
  auto const& unblock = has_key_index() ? dialect_.unblock_next_by_index : dialect_.unblock_next;
  in_transaction([&](connection& c) {
    rows.clear();  // it may be tried again
    c.execute(sql, where.values(), [&](row const& r) {
      rows.push_back({std::string{r.text(0)}, std::string{r.text(1)}, r.integer(2)});
      return true;
    });
    std::erase_if(rows, [&](place const& r) { return c.execute(dialect_.leave_line, {std::string_view{r.id}}) == 0; });
    if (c.ask<std::string>(dialect_.read_meta, {std::string_view{"keyed"}}) != "1") return;
    for (auto const& r : rows) {
      c.execute(unblock, {from_now{}, std::string_view{r.key}, r.seq, std::string_view{r.id}});
    }
  });
  return rows.size();
}

std::int64_t sql_store::begin_audit(audit_entry const& entry) {
  std::int64_t id = 0;
  auto const take = [&](row const& r) {
    id = r.integer(0);
    return false;
  };
  auto const text = [](std::string const& s, std::size_t limit) { return core::scrub(s, limit); };
  auto const who = text(entry.who, width_of_who);
  auto const verb = text(entry.verb, width_of_verb);
  auto const filter = text(entry.filter, longest_error);
  auto const reason = text(entry.reason, longest_error);
  in_transaction([&](connection& c) {
    c.execute(dialect_.begin_audit,
              {from_now{}, std::string_view{who}, std::string_view{verb}, std::string_view{filter},
               std::string_view{reason}, number(entry.matched)},
              take);
    if (!dialect_.last_audit.empty()) c.execute(dialect_.last_audit, {}, take);
  });
  return id;
}

bool sql_store::end_audit(std::int64_t id, std::uint64_t changed) {
  std::int64_t rows = 0;
  with_writer([&](connection& c) { rows = c.execute(dialect_.end_audit, {from_now{}, number(changed), id}); });
  return rows > 0;
}

std::vector<audit_entry> sql_store::audit(std::size_t limit) {
  std::vector<audit_entry> found;
  with_reader([&](connection& c) {
    c.execute(dialect_.audit, {number(limit)}, [&](row const& r) {
      auto& e = found.emplace_back();
      e.id = r.integer(0);
      e.at = r.time(1).value_or(instant{});
      e.who = r.text(2);
      e.verb = r.text(3);
      e.filter = r.text(4);
      e.reason = r.text(5);
      e.matched = static_cast<std::uint64_t>(r.integer(6));
      if (!r.null(7)) e.changed = static_cast<std::uint64_t>(r.integer(7));
      e.ended_at = r.time(8);
      return true;
    });
  });
  return found;
}

void add_to(table_counts& counts, std::int64_t status, std::uint64_t n) noexcept {
  switch (static_cast<event_status>(status)) {
    case event_status::created: counts.created = n; break;
    case event_status::delivered: counts.done = n; break;
    case event_status::retry: counts.retry = n; break;
    case event_status::dead: counts.dead = n; break;
  }
}

std::vector<event_type_counts> sql_store::event_types() { return read_types(dialect_.event_types, {}); }

std::vector<event_type_counts> sql_store::waiting_types(std::size_t rows) {
  if (dialect_.waiting_types.empty()) return store::waiting_types(rows);
  return read_types(dialect_.waiting_types, {number(rows)});
}

std::vector<event_type_counts> sql_store::read_types(std::string const& statement,
                                                     std::initializer_list<value> parameters) {
  std::vector<event_type_counts> found;
  with_reader([&](connection& c) {
    found.clear();
    c.execute(statement, parameters, [&](row const& r) {
      bool const same =
          !found.empty() && found.back().event_type == r.text(0) && found.back().aggregate_type == r.text(1);
      if (!same) found.push_back({std::string{r.text(0)}, std::string{r.text(1)}, {}});
      add_to(found.back().counts, r.integer(2), static_cast<std::uint64_t>(r.integer(3)));
      return true;
    });
  });
  return found;
}

std::vector<parked_key> sql_store::parked_keys(std::size_t limit) {
  std::vector<parked_key> found;
  with_reader([&](connection& c) {
    c.execute(
        has_key_index() ? dialect_.parked_keys_by_index : dialect_.parked_keys, {number(limit)}, [&](row const& r) {
          found.push_back(
              {std::string{r.text(0)}, std::string{r.text(1)}, r.time(2), static_cast<std::uint64_t>(r.integer(3))});
          return true;
        });
  });
  return found;
}

void sql_store::set_keyed(bool keyed) {
  with_writer([&](connection& c) {
    c.execute(dialect_.write_meta, {std::string_view{"keyed"}, std::string_view{keyed ? "1" : "0"}});
  });
}

table_settings sql_store::settings() {
  table_settings t;
  with_reader([&](connection& c) {
    t = {};
    c.execute(dialect_.read_settings, {}, [&](row const& r) {
      if (r.text(0) == "keyed") t.keyed = r.text(1) == "1";
      if (r.text(0) == "oldest_library") t.oldest_library = static_cast<int>(r.integer(1));
      if (r.text(0) == "pauses") {
        auto found = spi::decode_pauses(r.text(1));
        t.pauses = std::move(found.pauses);
        t.ignored_pauses = found.ignored;
      }
      return true;
    });
  });
  return t;
}

void sql_store::tell(connection& c, std::span<insertion const> rows, insert_receipt& receipt) const {
  for (auto const& i : rows) {
    auto& told = receipt.rows.emplace_back();
    c.execute(dialect_.placed, {std::string_view{i.event->id()}}, [&](row const& r) {
      told = {r.integer(0), std::string{r.text(1)}};
      return false;
    });
  }
}

std::vector<spi::place> sql_store::places(std::span<std::string const> ids) {
  std::vector<spi::place> all;
  with_reader([&](connection& c) {
    all.assign(ids.size(), {.known = false});
    for (std::size_t i = 0; i < ids.size(); ++i) {
      c.execute(dialect_.placed, {std::string_view{ids[i]}}, [&](row const& r) {
        all[i] = {r.integer(0), std::string{r.text(1)}};
        return false;
      });
    }
  });
  return all;
}

std::size_t sql_store::unblock(connection& c, std::span<settlement const> items) const {
  std::int64_t rows = 0;
  for (auto const& s : items) {
    if (s.key.empty()) continue;
    rows += c.execute(dialect_.unblock_next, {from_now{}, std::string_view{s.key}, s.seq, std::string_view{s.row.id}});
  }
  return static_cast<std::size_t>(rows);
}

}  // namespace outbox::inline v0::sql

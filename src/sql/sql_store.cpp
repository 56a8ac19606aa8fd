#include "sql/sql_store.hpp"

#include <algorithm>
#include <outbox/error.hpp>
#include <outbox/spi/codecs.hpp>

#include "core/base/text.hpp"
#include "core/events/names_check.hpp"
#include "sql/sql_rows.hpp"

namespace outbox::inline v0::sql {
namespace {

using std::chrono::milliseconds;

constexpr std::string_view pauses_name = "pauses";

// A newer node may have a mode that this library does not know.
node_mode mode_of(std::string_view text) noexcept {
  for (auto const m :
       {node_mode::single_node, node_mode::multi_node, node_mode::ordered, node_mode::writer_only, node_mode::keyed}) {
    if (name(m) == text) return m;
  }
  return node_mode::unknown;
}

}  // namespace

sql_store::sql_store(dialect d) : dialect_{std::move(d)} {}
sql_store::~sql_store() = default;

store_capabilities sql_store::capabilities() const noexcept { return {.kind = dialect_.kind}; }

void sql_store::in_transaction(work const& f) {
  with_writer([&](connection& c) {
    c.execute(dialect_.begin);
    try {
      f(c);
      c.execute(dialect_.commit);
    } catch (...) {
      // Some errors have rolled back already. A second ROLLBACK would hide the first error.
      try {
        if (c.in_transaction()) c.execute(dialect_.rollback);
      } catch (error const&) {  // NOLINT(bugprone-empty-catch): the first error is the one that counts
      }
      throw;
    }
  });
}

std::size_t sql_store::change(std::string const& sql, std::initializer_list<value> parameters) {
  std::size_t rows = 0;
  with_writer([&](connection& c) { rows = c.change(sql, parameters); });
  return rows;
}

std::size_t sql_store::expire_others(std::string_view incarnation) {
  auto const prefix = std::string{incarnation} + "/";
  return change(dialect_.expire_others, {from_now{}, std::string_view{prefix}});
}

void sql_store::heartbeat(node_row const& n) {
  auto const routes = spi::encode_routes(n.routes);
  auto const reason = core::scrub(n.reason, longest_error);
  auto const number = [](std::uint64_t count) { return static_cast<std::int64_t>(count); };
  from_now const a_day_ago{-std::chrono::hours{24}};
  std::vector<value> values{std::string_view{n.incarnation},
                            std::string_view{n.name},
                            std::string_view{n.version},
                            name(n.mode),
                            std::int64_t{n.lease.count()},
                            number(n.held),
                            from_now{n.lease},
                            from_now{},
                            std::int64_t{n.active},
                            std::string_view{reason},
                            std::string_view{n.lock_key},
                            number(n.done),
                            number(n.failed),
                            number(n.dead),
                            number(n.erased),
                            std::string_view{routes}};
  if (dialect_.forget_old_nodes.empty()) {
    values.emplace_back(a_day_ago);
    return with_writer([&](connection& c) { c.execute(dialect_.heartbeat, values, {}); });
  }
  in_transaction([&](connection& c) {
    c.execute(dialect_.heartbeat, values, {});
    c.execute(dialect_.forget_old_nodes, {a_day_ago});
  });
}

void sql_store::retire(std::string_view incarnation) { change(dialect_.retire, {incarnation}); }

std::vector<node_row> sql_store::nodes() {
  std::vector<node_row> live;
  with_reader([&](connection& c) {
    c.execute(dialect_.nodes, {from_now{}}, [&](row const& r) {
      node_row n{
          .incarnation = std::string{r.text(0)}, .name = std::string{r.text(1)}, .version = std::string{r.text(2)}};
      n.mode = mode_of(r.text(3));
      n.lease = milliseconds{r.integer(4)};
      auto const number = [&](int column) { return static_cast<std::uint64_t>(r.integer(column)); };
      n.held = number(5);
      n.started_at = r.time(6);
      n.active = r.integer(7) != 0;
      n.reason = r.text(8);
      n.lock_key = r.text(9);
      n.done = number(10);
      n.failed = number(11);
      n.dead = number(12);
      n.erased = number(13);
      n.routes = spi::decode_routes(r.text(14));
      live.push_back(std::move(n));
      return true;
    });
  });
  return live;
}

std::size_t sql_store::purge(purge_request const& request) {
  return change(dialect_.purge, {std::int64_t{request.done}, std::int64_t{request.dead}, from_now{-request.retention},
                                 static_cast<std::int64_t>(request.limit)});
}

std::size_t sql_store::purge_by_age(age_purge_request const& request) {
  return change(dialect_.purge_by_age, {from_now{-request.age}, from_now{}, static_cast<std::int64_t>(request.limit)});
}

std::vector<route_pause> sql_store::read_pauses(connection& c) {
  return spi::decode_pauses(c.ask<std::string>(dialect_.read_meta, {pauses_name}).value_or("")).pauses;
}

// One value holds all pauses, so that no reader sees half a change.
bool sql_store::change_pauses(std::function<bool(std::vector<route_pause>&)> const& change) {
  bool changed = false;
  in_transaction([&](connection& c) {
    if (!dialect_.lock_meta.empty()) c.execute(dialect_.lock_meta);
    auto all = read_pauses(c);
    changed = change(all);
    auto const text = spi::encode_pauses(all);
    if (changed) c.execute(dialect_.write_meta, {pauses_name, std::string_view{text}});
  });
  return changed;
}

bool sql_store::pause(route_pause const& what) {
  core::check_pause(what);
  return change_pauses([&](auto& all) {
    if (std::ranges::find(all, what) != all.end()) return false;
    all.push_back(what);
    return true;
  });
}

bool sql_store::resume(route_pause const& what) {
  if (!core::is_possible(what)) return false;
  return change_pauses([&](auto& all) { return std::erase(all, what) > 0; });
}

std::optional<row_view> sql_store::find(std::string_view id) {
  std::optional<row_view> found;
  if (!core::is_possible_id(id)) return found;
  with_reader([&](connection& c) {
    c.execute(dialect_.find, {id}, [&](row const& r) {
      std::string malformed;
      found = read_row(r, malformed);
      return false;
    });
  });
  return found;
}

table_counts sql_store::counts() {
  table_counts counts;
  with_reader([&](connection& c) {
    c.execute(dialect_.counts, {}, [&](row const& r) {
      add_to(counts, r.integer(0), static_cast<std::uint64_t>(r.integer(1)));
      return true;
    });
  });
  return counts;
}

}  // namespace outbox::inline v0::sql

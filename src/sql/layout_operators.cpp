// What operators ask of a table of another shape.
#include <algorithm>
#include <outbox/error.hpp>
#include <outbox/spi/check.hpp>

#include "core/events/names_check.hpp"
#include "sql/layout_events.hpp"
#include "sql/layout_store.hpp"

namespace outbox::inline v0::sql {

// A server refuses to compare a UUID with other text.
bool layout_store::possible(event_filter& f) const {
  if (layout_.ids != id_kind::uuid || f.ids.empty()) return true;
  std::erase_if(f.ids, [](std::string const& id) { return !is_uuid(id); });
  return !f.ids.empty();
}

std::vector<row_view> layout_store::list(event_filter const& filter, list_order order, std::size_t limit) {
  auto f = filter;
  if (!possible(f)) return {};
  auto rows = sql_store::list(f, order, limit);
  for (auto& r : rows) overlay(r);
  return rows;
}

std::uint64_t layout_store::count(event_filter const& filter, std::uint64_t up_to) {
  auto f = filter;
  return possible(f) ? sql_store::count(f, up_to) : 0;
}

std::vector<error_group> layout_store::errors(event_filter const& filter, std::size_t limit) {
  auto f = filter;
  return possible(f) ? sql_store::errors(f, limit) : std::vector<error_group>{};
}

std::size_t layout_store::cancel(event_filter const& filter, std::string_view reason, std::size_t limit) {
  auto f = filter;
  return possible(f) ? sql_store::cancel(f, reason, limit) : 0;
}

std::size_t layout_store::replay(event_filter const& filter, std::size_t limit) {
  auto f = filter;
  return possible(f) ? sql_store::replay(f, limit) : 0;
}

std::size_t layout_store::purge(event_filter const& filter, std::size_t limit) {
  auto f = filter;
  return possible(f) ? sql_store::purge(f, limit) : 0;
}

// No row is in the line of a key.
std::size_t layout_store::discard(event_filter const& /*filter*/, std::size_t /*limit*/) { return 0; }

std::optional<row_view> layout_store::find(std::string_view id) {
  if (layout_.ids == id_kind::uuid && !is_uuid(id)) return std::nullopt;
  auto found = sql_store::find(id);
  if (found) overlay(*found);
  return found;
}

table_counts layout_store::counts() {
  auto c = sql_store::counts();
  c.retry = std::min(memory_->retries(), c.created);
  c.created -= c.retry;
  return c;
}

std::vector<event_type_counts> layout_store::event_types() { return sql_store::event_types(); }

std::vector<finding> layout_store::findings(finding_limits const& /*limits*/) {
  std::vector<finding> found;
  spi::check const here{found, "table_layout",
                        "The table belongs to another program, and lacks columns that a node uses."};
  for (auto const& cost : costs_of(layout_)) {
    here.note("Table " + full_name_ + ": " + cost + ".", "See docs/how-to/use-your-own-table.md.");
  }
  return found;
}

subscription layout_store::on_change(std::function<void()> /*callback*/) { return {}; }

void layout_store::heartbeat(node_row const& node) {
  auto const now = clock_now();
  std::lock_guard const lock{nodes_mutex_};
  auto const known = nodes_.find(node.incarnation);
  auto const started = known == nodes_.end() ? this->now() : *known->second.row.started_at;
  auto& n = nodes_[node.incarnation];
  n = {node, now + node.lease};
  n.row.started_at = started;
}

void layout_store::retire(std::string_view incarnation) {
  std::lock_guard const lock{nodes_mutex_};
  if (auto const at = nodes_.find(incarnation); at != nodes_.end()) nodes_.erase(at);
}

std::vector<node_row> layout_store::nodes() {
  auto const now = clock_now();
  std::lock_guard const lock{nodes_mutex_};
  std::erase_if(nodes_, [&](auto const& n) { return n.second.until <= now; });
  std::vector<node_row> live;
  live.reserve(nodes_.size());
  for (auto const& [incarnation, n] : nodes_) live.push_back(n.row);
  return live;
}

std::size_t layout_store::purge_by_age(age_purge_request const& /*request*/) {
  unsupported("a purge by age");  // it must know which nodes are live
}
bool layout_store::pause(route_pause const& what) {
  core::check_pause(what);
  unsupported("a pause");
}
bool layout_store::resume(route_pause const& /*what*/) { unsupported("a pause"); }
std::int64_t layout_store::begin_audit(audit_entry const& /*entry*/) { unsupported("an audit"); }
bool layout_store::end_audit(std::int64_t /*id*/, std::uint64_t /*changed*/) { unsupported("an audit"); }
std::vector<audit_entry> layout_store::audit(std::size_t /*limit*/) { unsupported("an audit"); }
std::vector<parked_key> layout_store::parked_keys(std::size_t /*limit*/) { unsupported("an order per key"); }
std::size_t layout_store::heal(std::size_t /*limit*/) { unsupported("an order per key"); }
void layout_store::set_keyed(bool /*keyed*/) { unsupported("an order per key"); }

}  // namespace outbox::inline v0::sql

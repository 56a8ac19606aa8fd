#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <outbox/dead_events.hpp>
#include <outbox/error.hpp>
#include <outbox/spi/store.hpp>

namespace outbox::inline v0 {
namespace {

// Nothing if the filter asks only for rows of other statuses.
std::optional<event_filter> only_dead(event_filter filter) {
  if (!filter.statuses.empty() && std::ranges::find(filter.statuses, event_status::dead) == filter.statuses.end()) {
    return std::nullopt;
  }
  filter.statuses = {event_status::dead};
  return filter;
}

// Changes what was dead when it began, so that it ends although events may become dead meanwhile.
std::uint64_t in_batches(spi::store& table, dead_filter const& filter, std::size_t batch,
                         std::function<void()> const& changed,
                         std::size_t (spi::store::*change)(event_filter const&, std::size_t)) {
  auto dead = only_dead(filter);
  if (!dead) return 0;
  auto const began = table.now();
  dead->died_by = std::min(dead->died_by.value_or(began), began);
  std::uint64_t total = 0;
  try {
    for (std::size_t n = batch; n == batch && batch > 0; total += n) {
      n = (table.*change)(*dead, batch);
      if (n > 0 && changed) changed();
    }
  } catch (error const& e) {
    throw e.after_changing(total);
  }
  return total;
}

}  // namespace

dead_events::dead_events(std::shared_ptr<store> s, std::function<void()> changed)
    : store_{std::move(s)}, changed_{std::move(changed)} {
  if (!store_) throw error::about(errc::invalid_option, "store", "is required");
}

spi::store& dead_events::table() const {
  if (!store_) throw error{errc::lifecycle, "this dead_events was moved from"};
  return store_->backend();
}

spi::store& dead_events::table_with_keys() const {
  auto& t = table();
  auto const can = t.capabilities();
  if (can.keys) return t;
  throw error{errc::unsupported, "cannot discard: " + std::string{can.table} + " cannot keep an order of keys"};
}

std::vector<dead_event> dead_events::query(dead_filter const& filter, std::size_t limit) const {
  auto const dead = only_dead(filter);
  std::vector<dead_event> found;
  if (!dead) return found;
  for (auto& r : table().list(*dead, spi::list_order::oldest_first, limit)) {
    found.push_back({std::move(r.event), r.attempts, r.crashes, std::move(r.last_error), r.done_at});
  }
  return found;
}

std::uint64_t dead_events::count(dead_filter const& filter) const {
  auto const dead = only_dead(filter);
  return dead ? table().count(*dead, UINT64_MAX) : 0;
}

bool dead_events::replay(std::string_view event_id) const {
  bool const replayed = table().replay({.ids = {std::string{event_id}}}, 1) > 0;
  if (replayed && changed_) changed_();
  return replayed;
}

std::uint64_t dead_events::replay_all(dead_filter const& filter, std::size_t batch) const {
  return in_batches(table(), filter, batch, changed_, &spi::store::replay);
}

bool dead_events::discard(std::string_view event_id) const {
  bool const discarded = table_with_keys().discard({.ids = {std::string{event_id}}}, 1) > 0;
  if (discarded && changed_) changed_();
  return discarded;
}

std::uint64_t dead_events::discard_all(dead_filter const& filter, std::size_t batch) const {
  return in_batches(table_with_keys(), filter, batch, changed_, &spi::store::discard);
}

}  // namespace outbox::inline v0

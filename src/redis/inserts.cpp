#include "redis/inserts.hpp"

#include <algorithm>
#include <outbox/error.hpp>

#include "redis/redis_store.hpp"
#include "redis/rows.hpp"

namespace outbox::inline v0::redis {
namespace {

// Rows of one answer, from `at` on.
void fill_part(spi::insert_receipt* receipt, answer_view a, std::size_t at, std::size_t rows) {
  if (receipt == nullptr) return;
  for (std::size_t i = at; i < at + rows; ++i) {
    auto const before = a[i + 1];
    receipt->rows.push_back({a[0].number() + static_cast<std::int64_t>(i), std::string{before.text()}, !before.nil()});
  }
}

}  // namespace

void fill(spi::insert_receipt* receipt, answer_view a, std::size_t rows) { fill_part(receipt, a, 0, rows); }

void check_replicas(std::size_t confirmed, std::size_t wanted) {
  if (confirmed >= wanted) return;
  throw error{errc::commit_in_doubt, "the events are written, but only " + std::to_string(confirmed) + " of " +
                                         std::to_string(wanted) + " replicas have confirmed them in time"};
}

bool insert_queue::group::asks() const noexcept {
  return std::ranges::any_of(parts, [](part const& p) { return p.receipt != nullptr; });
}

arguments insert_queue::group::whole() const {
  arguments all{asks(), count};
  all.words().insert(all.words().end(), rows.words().begin(), rows.words().end());
  return all;
}

void insert_queue::group::fill_receipts(answer_view a) const {
  std::size_t at = 0;
  for (auto const& p : parts) {
    fill_part(p.receipt.get(), a, at, p.rows);
    at += p.rows;
  }
}

insert_queue::group& insert_queue::group_of(redis_store& to) {
  auto const& prefix = to.place().prefix();
  auto const known = std::ranges::find(groups_, prefix, &group::prefix);
  if (known != groups_.end() && known->identity == to.identity()) return *known;
  if (identity_of(prefix) != to.identity()) {
    throw error{errc::wrong_transaction, "the transaction is on another Redis than the store"};
  }
  auto& added = groups_.emplace_back();
  added.prefix = prefix;
  added.identity = to.identity();
  added.replicas = to.replicas();
  added.timeout = to.place().timeout();
  return added;
}

void insert_queue::add(redis_store& to, std::span<spi::insertion const> rows,
                       std::shared_ptr<spi::insert_receipt> const& receipt) {
  auto& g = group_of(to);
  std::set<std::string> ids;
  arguments fresh;
  std::vector<std::string> guarded;
  for (auto const& r : rows) {
    auto const& id = r.event->id();
    if (g.ids.contains(id) || !ids.insert(id).second) {
      throw error{errc::duplicate_event, "event id '" + id + "' is in the transaction already"};
    }
    add_row(fresh, r);
    if (!r.event->record().made_id) guarded.push_back(g.prefix + "event:" + id);
  }
  g.ids.merge(ids);
  std::ranges::move(fresh.words(), std::back_inserter(g.rows.words()));
  std::ranges::move(guarded, std::back_inserter(g.guarded));
  g.count += rows.size();
  g.parts.push_back({receipt, rows.size()});
  writes.writes_to(static_cast<std::size_t>(&g - groups_.data()));
}

}  // namespace outbox::inline v0::redis

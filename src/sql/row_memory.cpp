#include "sql/row_memory.hpp"

#include <algorithm>

namespace outbox::inline v0::sql {
namespace {

bool of_incarnation(std::string_view token, std::string_view incarnation) noexcept {
  return token.starts_with(incarnation) && token.size() > incarnation.size() && token[incarnation.size()] == '/';
}

void drop_owner(remembered_row& r) {
  r.owner.clear();
  r.lease_until.reset();
}

}  // namespace

std::optional<remembered_row> row_memory::find(std::string const& id) {
  std::lock_guard const lock{mutex_};
  auto const at = rows_.find(id);
  return at == rows_.end() ? std::nullopt : std::optional{at->second};
}

bool row_memory::owns(spi::row_handle const& row) {
  std::lock_guard const lock{mutex_};
  auto const at = rows_.find(row.id);
  return at != rows_.end() && !row.token.empty() && at->second.owner == row.token;
}

void row_memory::forget(std::string const& id) {
  std::lock_guard const lock{mutex_};
  rows_.erase(id);
}

bool row_memory::renew(spi::row_handle const& row, instant until) {
  std::lock_guard const lock{mutex_};
  auto const at = rows_.find(row.id);
  if (at == rows_.end() || at->second.owner != row.token) return false;
  at->second.lease_until = until;
  return true;
}

void row_memory::release(std::string const& id, instant now) {
  std::lock_guard const lock{mutex_};
  auto const at = rows_.find(id);
  if (at == rows_.end()) return;
  drop_owner(at->second);
  if (at->second.says_nothing(now)) rows_.erase(at);
}

std::size_t row_memory::release(std::span<owner_token const> tokens, instant now, instant latest) {
  std::unordered_set<std::string_view> const wanted{tokens.begin(), tokens.end()};
  std::lock_guard const lock{mutex_};
  std::size_t released = 0;
  for (auto at = rows_.begin(); at != rows_.end();) {
    auto& r = at->second;
    if (!r.owner.empty() && wanted.contains(r.owner) && r.lease_until > now && r.lease_until <= latest) {
      drop_owner(r);
      ++released;
    }
    at = r.says_nothing(now) ? rows_.erase(at) : std::next(at);
  }
  return released;
}

std::size_t row_memory::expire_others(std::string_view incarnation, instant now) {
  std::lock_guard const lock{mutex_};
  std::size_t expired = 0;
  for (auto& [id, r] : rows_) {
    if (r.owner.empty() || of_incarnation(r.owner, incarnation) || *r.lease_until <= now) continue;
    r.lease_until = now;
    ++expired;
  }
  return expired;
}

void row_memory::keep_only(std::unordered_set<std::string> const& seen) {
  std::lock_guard const lock{mutex_};
  std::erase_if(rows_, [&](auto const& entry) { return entry.second.owner.empty() && !seen.contains(entry.first); });
}

std::optional<instant> row_memory::next_due(instant now, std::vector<route_pause> const& pauses) {
  std::lock_guard const lock{mutex_};
  std::optional<instant> next;
  for (auto const& [id, r] : rows_) {
    auto const at = r.claimable_at();
    if (at <= now || (next && *next <= at) || paused(pauses, r.aggregate_type, r.event_type)) continue;
    next = at;
  }
  return next;
}

std::uint64_t row_memory::retries() {
  std::lock_guard const lock{mutex_};
  return static_cast<std::uint64_t>(std::ranges::count_if(rows_, [](auto const& entry) { return entry.second.retry; }));
}

}  // namespace outbox::inline v0::sql

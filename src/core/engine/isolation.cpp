#include "core/engine/isolation.hpp"

#include <algorithm>

namespace outbox::inline v0::core {
namespace {

using std::chrono::milliseconds;

// A row that could not be claimed is tried again after this; the wait doubles each time.
constexpr milliseconds first_wait{60'000};
constexpr milliseconds longest_isolation{3'600'000};

// Bounds the list that a claim carries, and the memory.
constexpr std::size_t most_isolated = 1000;
constexpr std::size_t most_named = 20;

}  // namespace

std::vector<std::string> isolation::to_leave(steady_time now) const {
  std::vector<std::string> ids;
  for (auto const& [id, r] : rows_) {
    if (now < r.until && ids.size() < most_isolated) ids.push_back(id);
  }
  return ids;
}

void isolation::forget_settled(spi::claim_request const& claim, spi::claim_reply const& reply) {
  for (auto const& r : reply.rows) rows_.erase(r.handle.id);
  // A claim that looked at everything has met each row, unless the row is gone or not due any more.
  bool const saw_all =
      !claim.floor && !claim.reach && !claim.unowned_only && claim.suspects == spi::suspects::skip && !reply.more;
  if (!saw_all) return;
  std::erase_if(rows_, [&](auto const& one) {
    auto const& id = one.first;
    return std::ranges::find(claim.leave, id) == claim.leave.end() &&
           std::ranges::none_of(reply.refused, [&](spi::refused_row const& r) { return r.id == id; });
  });
}

std::size_t isolation::note_claim(spi::claim_request const& claim, spi::claim_reply const& reply, steady_time now,
                                  std::vector<note>& notes) {
  forget_settled(claim, reply);
  std::size_t fresh = 0;
  for (auto const& r : reply.refused) {
    if (rows_.size() >= most_isolated && !rows_.contains(r.id)) {
      notes.push_back({.level = log_level::error,
                       .text = "more than " + std::to_string(most_isolated) + " events cannot be claimed: " + r.error,
                       .facts = {{"error", r.error}}});
      continue;
    }
    auto& one = rows_[r.id];
    one.until = now + std::min<milliseconds>(longest_isolation, first_wait * (1LL << std::min(one.times, 10)));
    if (one.times++ == 0) ++fresh;
    if (one.error != r.error) {
      notes.push_back({log_level::error,
                       "event " + r.id + " (" + r.type + ") cannot be claimed, the node goes on without it: " + r.error,
                       "isolated",
                       {{"event", r.id}, {"type", r.type}, {"error", r.error}}});
    }
    one.error = r.error;
  }
  return fresh;
}

std::vector<std::string> isolation::some() const {
  std::vector<std::string> ids;
  for (auto const& [id, r] : rows_) {
    if (ids.size() < most_named) ids.push_back(id);
  }
  return ids;
}

}  // namespace outbox::inline v0::core

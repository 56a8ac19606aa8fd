#include "sql/row_chooser.hpp"

#include <algorithm>
#include <unordered_set>

namespace outbox::inline v0::sql {
namespace {

// How long an ordered claim waits for a transaction that may still commit an earlier row.
constexpr std::chrono::milliseconds wait_for_earlier{20};

// So many rows of a run are read even if many heads share what room the claim has: runs may be short.
constexpr std::size_t shortest_share = 8;

}  // namespace

row_chooser::row_chooser(claim_request const& request, std::size_t window, std::size_t most,
                         claim_reply& reply) noexcept
    : request_{request}, window_{window}, most_{most}, reply_{reply}, filter_{request, reply} {}

bool row_chooser::see(claim_filter::candidate const& row, more const& also) {
  using choice = claim_filter::choice;
  ++seen_;
  if (chosen_.size() == most_) {
    reply_.more = true;
    return stop();
  }
  if (request_.in_order && !also.nothing_earlier) {
    reply_.next_due = reply_.now + wait_for_earlier;
    return stop();
  }
  switch (filter_.consider(row)) {
    case choice::stop: return stop();
    case choice::leave: break;
    case choice::note: note(row, also); break;
    case choice::dead:
      chosen_.dead.push_back({std::string{row.id}, std::string{row.event_type}, row.crashes + (row.owned ? 1 : 0)});
      break;
    case choice::take:
      take(row, also);
      if (filter_.room_behind(row) > 0) heads_.push_back({std::string{row.key}, also.seq});
      break;
  }
  return true;
}

void row_chooser::take(claim_filter::candidate const& row, more const& also) {
  chosen_.ids.emplace_back(row.id);
  chosen_.types.emplace_back(row.event_type);
  chosen_.locators.push_back(also.locator);
  if (request_.keyed) chosen_.keys.emplace_back(row.key);
}

void row_chooser::note(claim_filter::candidate const& row, more const& also) {
  if (also.before_is_delayed && std::ranges::find(request_.leave, row.before) == request_.leave.end()) {
    chosen_.delayed.emplace_back(row.before);
  } else if (chosen_.note.size() < most_notes) {
    chosen_.note.emplace_back(row.id);
  } else {
    reply_.more = true;
  }
}

// Rows that are noted now are gone at the next look, which is cheaper than a wide one.
std::size_t row_chooser::finish(bool notes_are_stuck) {
  ended_.assign(heads_.size(), false);
  bool const more_behind = !stopped_ && seen_ == window_;
  if (!more_behind) return 0;
  bool const some_go_away = !chosen_.note.empty() && !notes_are_stuck;
  if (!chosen_.ids.empty() || some_go_away) reply_.more = true;
  return window_ <= widest_window && !some_go_away ? window_ * 8 : 0;
}

std::size_t row_chooser::longest_run() const noexcept {
  auto const room = request_.limit - std::min(request_.limit, chosen_.ids.size());
  auto const share = (room + heads_.size() - 1) / std::max<std::size_t>(1, heads_.size());
  return std::min({request_.run, room, std::max(share, shortest_share)});
}

void row_chooser::see_behind(std::size_t head, claim_filter::candidate const& row, more const& also, bool locked) {
  if (ended_[head]) return;
  if (chosen_.size() == most_) reply_.more = true;
  ended_[head] = !locked || chosen_.size() == most_ || filter_.follow(row) != claim_filter::choice::take;
  if (!ended_[head]) take(row, also);
}

void row_chooser::finish_runs() {
  if (heads_.empty() || chosen_.note.empty()) return;
  std::unordered_set<std::string_view> const taken{chosen_.ids.begin(), chosen_.ids.end()};
  std::erase_if(chosen_.note, [&](std::string const& id) { return taken.contains(id); });
}

}  // namespace outbox::inline v0::sql

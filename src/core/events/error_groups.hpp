// Rows by their errors, for stores that cannot leave that to a database.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <outbox/spi/store.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace outbox::inline v0::core {

/// Use from one thread at a time.
class error_groups {
 public:
  /// A row without an error is left out.
  void add(row_view const& r) {
    if (r.last_error.empty()) return;
    auto& [g, types] = groups_[r.last_error];
    auto const at = r.done_at.value_or(r.inserted_at);
    g.error = r.last_error;
    ++g.rows;
    g.dead += r.status == event_status::dead ? 1U : 0U;
    g.first = std::min(g.first.value_or(at), at);
    g.last = std::max(g.last.value_or(at), at);
    g.id = g.id.empty() ? r.event.id() : std::min(g.id, r.event.id());
    types.insert(r.event.type());
    g.event_type = *types.begin();
    g.event_types = types.size();
  }

  /// The most frequent errors first, at most `limit`.
  [[nodiscard]] std::vector<spi::error_group> most_frequent(std::size_t limit) && {
    std::vector<spi::error_group> found;
    found.reserve(groups_.size());
    for (auto& [text, g] : groups_) found.push_back(std::move(g.first));
    std::ranges::stable_sort(found, std::greater{}, &spi::error_group::rows);
    if (found.size() > limit) found.resize(limit);
    return found;
  }

 private:
  std::map<std::string, std::pair<spi::error_group, std::set<std::string>>> groups_;
};

}  // namespace outbox::inline v0::core

// Where claims may begin, so that they do not read past the same rows again and again.
//
// The rows of a route that is paused, or that has enough events in the node, stay due: without a floor, every claim
// would read them all before it finds something that it may take. A floor says that everything before it has been
// seen. Each route that claims leave out has a floor of its own, which stands still meanwhile; all the others share
// one.
#pragma once

#include <algorithm>
#include <optional>
#include <outbox/spi/store.hpp>
#include <vector>

namespace outbox::inline v0::core {

class claim_floors {
 public:
  /// The lowest floor of what a claim may take that leaves out `left`. Nothing: it must begin at the beginning.
  [[nodiscard]] std::optional<instant> of(std::vector<route_pause> const& left) const {
    auto lowest = others_;
    for (auto const& a : apart_) {
      if (!lowest) return std::nullopt;
      if (contains(left, a.route)) continue;
      lowest = a.floor ? std::optional{std::min(*lowest, *a.floor)} : std::nullopt;
    }
    return lowest;
  }

  /// A claim that left out `left` has seen everything else that could be claimed before `seen`. `sweep`: it began at
  /// the beginning.
  void note(std::vector<route_pause> const& left, instant seen, bool sweep) {
    for (auto const& l : left) {
      auto const known = [&](apart const& a) { return a.route == l; };
      if (std::ranges::none_of(apart_, known)) apart_.push_back({l, others_});
    }
    // A sweep that stopped early may have left something below a floor; another claim began at the lowest one.
    auto const raised = [&](std::optional<instant> floor) { return sweep || !floor ? seen : std::max(*floor, seen); };
    for (auto& a : apart_) {
      if (!contains(left, a.route)) a.floor = raised(a.floor);
    }
    others_ = raised(others_);
    std::erase_if(apart_, [&](apart const& a) { return !contains(left, a.route) && a.floor >= others_; });
  }

  void reset() noexcept {
    others_.reset();
    apart_.clear();
  }

 private:
  struct apart {
    route_pause route;
    std::optional<instant> floor;
  };

  [[nodiscard]] static bool contains(std::vector<route_pause> const& routes, route_pause const& r) noexcept {
    return std::ranges::find(routes, r) != routes.end();
  }

  std::optional<instant> others_;  ///< Of every route that is not in the list.
  std::vector<apart> apart_;       ///< Routes that were left out, until their floor has caught up.
};

}  // namespace outbox::inline v0::core

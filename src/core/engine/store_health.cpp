#include "core/engine/store_health.hpp"

#include <algorithm>
#include <outbox/retry.hpp>
#include <utility>

namespace outbox::inline v0::core {

steady_time store_health::failed(request_kind kind, error const& e, std::string_view what, steady_time now,
                                 lease_schedule const& leases, random_source& random, std::vector<note>& notes) {
  auto& s = of(kind);
  s.error = std::string{e.transient() ? "the store does not answer (cannot " : "the store refuses (cannot "} +
            std::string{what} + "): " + e.what();
  auto facts = facts_of(e);
  facts.push_back({"request", std::string{what}});
  if (!e.transient() && s.said != e.what()) {
    s.said = e.what();
    notes.push_back({log_level::error, s.error, {}, std::move(facts)});
    level_ = log_level::error;
  } else if (e.transient() && !away()) {
    notes.push_back({log_level::warning, s.error, {}, std::move(facts)});
  }
  if (!s.away_since) s.away_since = now;
  // Quick at first: the store may only have been busy.
  backoff const pause{.base = std::chrono::milliseconds{20}, .cap = leases.retry_gap()};
  return now + pause.delay(++s.failures, random.fraction());
}

std::optional<steady_time::duration> store_health::answered(request_kind kind, steady_time now,
                                                            std::vector<note>& notes) {
  auto& s = of(kind);
  s.failures = 0;
  s.said.clear();
  if (!s.away_since) return std::nullopt;
  auto const outage = now - *std::exchange(s.away_since, std::nullopt);
  s.error.clear();
  if (!away()) notes.push_back({.level = std::exchange(level_, log_level::warning), .text = "the store answers again"});
  return outage;
}

bool store_health::away() const noexcept {
  return std::ranges::any_of(states_, [](state const& s) { return s.away_since.has_value(); });
}

std::string store_health::problem() const {
  auto const s = std::ranges::find_if(states_, [](state const& one) { return one.away_since.has_value(); });
  return s == states_.end() ? std::string{} : s->error;
}

}  // namespace outbox::inline v0::core

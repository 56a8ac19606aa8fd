// When the poller claims, and where in the table a claim begins.
#pragma once

#include <optional>
#include <outbox/spi/store.hpp>
#include <vector>

#include "core/engine/claim_floors.hpp"

namespace outbox::inline v0::core {

/// Claims look back at least as far as this, because transactions commit later than they write.
inline constexpr std::chrono::milliseconds always_seen{10'000};

/// A sweep is a claim that looks at everything that is due, from the oldest row on. It is quick unless the database
/// must read past rows that were claimed before, which it cannot forget while some transaction stays open; and it reads
/// past the rows of routes that the claim leaves out. Sweeps that take long get a small share of the time. The claims
/// between them begin at a floor: where the last claim found something, but `always_seen` ago at the latest. The next
/// sweep finds what they miss. While sweeps fail there is no floor; then claims look back a limited time, their reach.
class claim_pace {
 public:
  // When.
  void ask() noexcept { wanted_ = true; }  ///< The poller should claim as soon as it may.
  void ask_at(steady_time t) noexcept { next_ = t; }
  bool ask_by(steady_time t) noexcept;  ///< Returns false if it would claim by then anyway.
  void stand_by(steady_time until) noexcept;
  void not_before(steady_time t) noexcept { not_before_ = t; }
  void claim_sent() noexcept;

  /// Plans the next claim after a reply, in `usual` unless something is due before, but at most `poll_every` away.
  void plan_next(spi::claim_request const& claim, spi::claim_reply const& reply, steady_time::duration usual,
                 std::chrono::milliseconds poll_every, steady_time now) noexcept;
  [[nodiscard]] bool due(steady_time now) const noexcept { return wanted_ || now >= next_; }
  [[nodiscard]] steady_time next() const noexcept { return next_; }
  [[nodiscard]] steady_time resting_until() const noexcept { return not_before_; }

  // Where.
  struct beginning {
    std::optional<instant> floor{};
    std::optional<std::chrono::milliseconds> reach{};
  };
  [[nodiscard]] beginning begin(std::vector<route_pause> const& left_out, steady_time now) const;
  void note_reply(spi::claim_request const& claim, steady_time sent, spi::claim_reply const& reply, steady_time now);
  void note_failure(spi::claim_request const& claim, steady_time sent, steady_time now) noexcept;
  void look_everywhere() noexcept;  ///< The next claim is a sweep.

  // After an outage: only rows without an owner.
  void be_careful_until(steady_time t) noexcept { careful_until_ = t; }
  [[nodiscard]] bool careful(steady_time now) const noexcept { return now < careful_until_; }

 private:
  void reach_less_far(std::chrono::milliseconds reach) noexcept;

  static constexpr std::chrono::milliseconds no_limit = std::chrono::hours{24 * 365};

  bool wanted_ = false;
  steady_time next_{};           ///< When the poller claims although nothing asked for it.
  steady_time not_before_{};     ///< After an error.
  steady_time careful_until_{};  ///< Other nodes may have missed renewals until then.
  claim_floors floors_;          ///< By the store's clock. Valid until the next sweep.
  steady_time next_sweep_{};
  std::chrono::milliseconds reach_ = always_seen;  ///< How far back claims look while sweeps fail.
  std::chrono::milliseconds furthest_reach_ = no_limit;
};

}  // namespace outbox::inline v0::core

// How a node takes a suspect alone, so that no neighbour can be what crashes the process (decision 028).
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <outbox/clock.hpp>

namespace outbox::inline v0::core {

/// A suspect is a row one crash short of its budget. The node claims it when it holds nothing else:
///
///     none ──a claim saw a suspect──▶ waiting ──elders ended──▶ draining ──holds nothing──▶ holding ──settled──▶ none
///                                        ▲───────took too long───────┘
///
/// waiting: the calls and transactions that were under way go on (the elders), and so does everything else.
/// draining: nothing new begins until the node holds nothing; what waits for its turn in a key is given back. holding:
/// the suspect is here, alone.
class quarantine {
 public:
  enum class change { nothing, stands_still, goes_on };

  [[nodiscard]] bool draining() const noexcept { return state_ == state::draining; }
  [[nodiscard]] bool holding() const noexcept { return state_ == state::holding; }
  [[nodiscard]] bool standing_still() const noexcept { return draining() || holding(); }
  [[nodiscard]] bool may_begin(steady_time now) const noexcept {
    return state_ == state::none && now >= no_suspect_before_;
  }

  /// Waits for this number of elders.
  void wait_for(std::size_t elders) noexcept {
    state_ = state::waiting;
    elders_ = elders;
  }
  /// Returns true if that was the last elder.
  bool elder_ended() noexcept { return --elders_ == 0; }

  /// One step. After `goes_on` the caller counts the elders again.
  [[nodiscard]] change pace(steady_time now, bool holds_nothing) noexcept {
    if (state_ == state::waiting && elders_ == 0) {
      state_ = state::draining;
      drain_until_ = now + drain_limit_;
      return change::stands_still;
    }
    if (state_ == state::draining && now >= drain_until_ && !holds_nothing) {
      // Something that began in between takes longer. Everything goes on until that has ended.
      drain_limit_ = std::min<std::chrono::milliseconds>(drain_limit_ * 2, std::chrono::hours{1});
      return change::goes_on;
    }
    return change::nothing;
  }
  [[nodiscard]] steady_time drain_until() const noexcept { return drain_until_; }

  /// The claim that a node that holds nothing made for the suspect has been answered.
  void claimed(bool got_it, steady_time now) noexcept {
    state_ = got_it ? state::holding : state::none;
    if (got_it) return;
    drain_limit_ = first_drain;
    no_suspect_before_ = now + first_drain;  // the row may be one that cannot be claimed
  }

  /// The node holds nothing. Returns true if the poller should look.
  bool emptied() noexcept {
    if (state_ == state::none) return false;
    if (state_ == state::holding) {
      state_ = state::none;
      drain_limit_ = first_drain;
    }
    return true;
  }

  /// A suspect must not wait for a call that may never end.
  void give_up() noexcept {
    if (state_ == state::waiting || state_ == state::draining) state_ = state::none;
  }

 private:
  enum class state { none, waiting, draining, holding };

  /// How long the node stands still at first. The time doubles each time that is not enough.
  static constexpr std::chrono::milliseconds first_drain{1000};

  state state_ = state::none;
  std::size_t elders_ = 0;
  steady_time drain_until_{};
  steady_time no_suspect_before_{};
  std::chrono::milliseconds drain_limit_ = first_drain;
};

}  // namespace outbox::inline v0::core

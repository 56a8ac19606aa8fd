// A chain: the tickets of one key, one after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <outbox/spi/store.hpp>
#include <string>
#include <utility>

#include "core/engine/ticket.hpp"

namespace outbox::inline v0::core {

/// Tickets of one chain by `seq`, linked through the tickets themselves, so that nothing is allocated after a COMMIT.
/// A ticket is in one line at a time.
class ticket_line {
 public:
  [[nodiscard]] ticket* first() const noexcept { return first_; }
  [[nodiscard]] ticket* last() const noexcept { return last_; }

  /// Puts it behind the last ticket with a lower `seq`.
  void insert(ticket& t) noexcept {
    ticket* ahead = last_;
    while (ahead != nullptr && ahead->seq > t.seq) ahead = ahead->ahead;
    t.ahead = ahead;
    t.behind = ahead == nullptr ? first_ : ahead->behind;
    (t.ahead == nullptr ? first_ : t.ahead->behind) = &t;
    (t.behind == nullptr ? last_ : t.behind->ahead) = &t;
  }

  void erase(ticket& t) noexcept {
    (t.ahead == nullptr ? first_ : t.ahead->behind) = t.behind;
    (t.behind == nullptr ? last_ : t.behind->ahead) = t.ahead;
    t.ahead = t.behind = nullptr;
  }

 private:
  ticket* first_ = nullptr;
  ticket* last_ = nullptr;
};

/// The events of one key in this node. Only the first is in a queue; the others wait until the one before them is
/// delivered. When an event cannot be delivered now, the chain is broken: what waits behind it is given back, and later
/// births and claims of the key get a new chain. Births keep the chain that they joined when they were registered.
struct chain {
  explicit chain(std::string k) : key{std::move(k)} {}

  std::string const key;
  owner_token token{};      ///< Of the claim that its last rows came from. Empty: it began with a birth.
  ticket_line line;         ///< Tickets whose place is known, until they are gone.
  ticket_line loose;        ///< Committed births whose place is not known, or whose forerunner's commit was not heard.
  std::string last_done{};  ///< The id of the last event that left the line here, by `seq`,
  std::int64_t done_seq = 0;  ///< and its number.
  std::size_t claimed = 0;    ///< The rows that its claim brought.
  std::size_t members = 0;    ///< Its tickets, registered ones included.
  std::size_t births = 0;     ///< Those of the hot path among them.
  std::size_t in_flight = 0;  ///< Those that run.
  std::size_t passed = 0;     ///< Those that left the line since runs were last shortened.
  bool crowded = false;       ///< It had as many births as may wait. None is owned until they are gone.
  bool broken = false;
};

}  // namespace outbox::inline v0::core

// Rows that could not be claimed: the node goes on without them and tries each again later.
#pragma once

#include <outbox/spi/store.hpp>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/engine/note.hpp"

namespace outbox::inline v0::core {

class isolation {
 public:
  /// The ids that a claim should leave out now.
  [[nodiscard]] std::vector<std::string> to_leave(steady_time now) const;

  /// Takes in what a claim refused and what it found after all. Returns the number of rows that were isolated for the
  /// first time.
  std::size_t note_claim(spi::claim_request const& claim, spi::claim_reply const& reply, steady_time now,
                         std::vector<note>& notes);

  [[nodiscard]] std::vector<std::string> some() const;  ///< Ids of isolated rows, at most 20.

 private:
  struct row {
    steady_time until{};  ///< Claims leave it out until then.
    int times = 0;        ///< How often it was refused.
    std::string error{};  ///< Why, the last time.
  };

  void forget_settled(spi::claim_request const& claim, spi::claim_reply const& reply);

  std::unordered_map<std::string, row> rows_;
};

}  // namespace outbox::inline v0::core

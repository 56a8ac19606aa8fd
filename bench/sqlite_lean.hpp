// A queue by hand that has no more than a queue needs: six columns, a text id as its
// key, an index by status; no attempts, no end of a lock, no listeners.
#pragma once

#include <cstdint>
#include <string>

#include "sqlite_by_hand.hpp"

namespace bench {

class lean_queue {
 public:
  /// Makes the table with `count` messages that are ready.
  static void create(std::string const& path, int count, std::string const& payload);

  explicit lean_queue(std::string const& path);
  /// Takes up to `limit` messages and marks them done. Returns their number.
  std::size_t drain_some(std::size_t limit);

 private:
  database db_;
  statement begin_, commit_, take_, done_;
  std::uint64_t seen_ = 0;
};

}  // namespace bench

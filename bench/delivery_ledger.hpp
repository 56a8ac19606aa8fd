// Counts deliveries of events over the whole run: none may come twice.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>

namespace bench {

class delivery_ledger {
 public:
  void saw(std::string const& id) {
    auto& p = parts_[std::hash<std::string>{}(id) % parts];
    std::lock_guard const lock{p.mutex};
    if (++p.seen[id] > 1) duplicates_ += 1;
  }
  void forget() {
    for (auto& p : parts_) p.seen.clear();
  }
  void add_duplicates(std::uint64_t n) noexcept { duplicates_ += n; }  ///< Counted elsewhere, by another process.
  [[nodiscard]] std::uint64_t duplicates() const noexcept { return duplicates_; }

 private:
  static constexpr std::size_t parts = 16;
  struct part {
    std::mutex mutex;
    std::unordered_map<std::string, int> seen;
  };
  part parts_[parts];
  std::atomic<std::uint64_t> duplicates_{0};
};

}  // namespace bench

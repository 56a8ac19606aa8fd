// What there is to measure.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <outbox/store.hpp>
#include <string>
#include <unordered_map>
#include <vector>

#include "rounds.hpp"

namespace bench {

/// Counts deliveries of events over the whole run: none may come twice.
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

using rows = std::vector<row>;

rows sqlite_write(settings const& s);
rows sqlite_write_all(settings const& s);
rows sqlite_end_to_end(settings const& s, delivery_ledger& ledger);
rows sqlite_cold_drain(settings const& s, delivery_ledger& ledger, outbox::done_rows done);
rows sqlite_hot_latency(settings const& s, delivery_ledger& ledger);
rows sqlite_claims(settings const& s);
rows sqlite_retry_lateness(settings const& s);
rows postgres_write(settings const& s);
rows postgres_write_all(settings const& s);
rows postgres_end_to_end(settings const& s, delivery_ledger& ledger);
rows postgres_cold_drain(settings const& s, delivery_ledger& ledger, outbox::done_rows done);
rows postgres_hot_latency(settings const& s, delivery_ledger& ledger);
rows postgres_wal(settings const& s, delivery_ledger& ledger);
rows postgres_claims(settings const& s);
rows memory_use(settings const& s, std::string const& program);

/// The other side of `memory_use`: one figure, in a process of its own. False if there is no such probe.
bool run_probe(std::string const& name, std::string const& directory);

/// The same payload everywhere.
inline std::string const payload =
    R"({"order":"0123456789","cents":1999,"note":"a payload of a usual size, about a hundred bytes"})";

}  // namespace bench

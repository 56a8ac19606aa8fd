// Counts how often a store reports that another caller may have written.
#pragma once

#include <atomic>
#include <outbox/spi/store.hpp>
#include <utility>

namespace outbox {

class change_counter {
 public:
  explicit change_counter(outbox::store& s) : subscription_{s.backend().on_change([this] { ++count_; })} {}
  change_counter(change_counter const&) = delete;
  change_counter& operator=(change_counter const&) = delete;
  ~change_counter() = default;

  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }

  /// False if the store cannot observe changes.
  [[nodiscard]] bool observes() const noexcept { return static_cast<bool>(subscription_); }

  void end() { subscription_ = {}; }

 private:
  std::atomic<std::uint64_t> count_ = 0;
  spi::subscription subscription_;
};

}  // namespace outbox

// How many events and bytes the node may hold, and how many it does.
#pragma once

#include <algorithm>
#include <cstddef>
#include <outbox/delivery.hpp>
#include <outbox/options.hpp>

namespace outbox::inline v0::core {

/// A ticket takes a slot when it is registered or claimed and keeps it until its settlement is durable. Each path has
/// slots of its own and half of the bytes, so that neither can crowd the other out.
class slots {
 public:
  explicit slots(queue_options const& limits) noexcept : limits_{limits} {}

  void take(path p, std::size_t bytes) noexcept {
    of(p).count += 1;
    of(p).bytes += bytes;
  }
  void give_back(path p, std::size_t bytes) noexcept {
    of(p).count -= 1;
    of(p).bytes -= bytes;
  }

  [[nodiscard]] bool has_hot(std::size_t bytes) const noexcept {
    return hot_.count < limits_.hot && hot_.bytes + bytes <= limits_.bytes / 2;
  }
  /// True if a hot path that was full has eased: half, so that the log does not say it at every event.
  [[nodiscard]] bool hot_has_eased() const noexcept { return hot_.count < limits_.hot / 2; }

  [[nodiscard]] std::size_t cold_free() const noexcept { return limits_.cold - std::min(cold_.count, limits_.cold); }
  [[nodiscard]] std::size_t cold_bytes_free() const noexcept {
    return limits_.bytes / 2 - std::min(cold_.bytes, limits_.bytes / 2);
  }

  [[nodiscard]] std::size_t hot_used() const noexcept { return hot_.count; }
  [[nodiscard]] std::size_t cold_used() const noexcept { return cold_.count; }
  [[nodiscard]] std::size_t bytes_used() const noexcept { return hot_.bytes + cold_.bytes; }

 private:
  struct usage {
    std::size_t count = 0;
    std::size_t bytes = 0;
  };

  usage& of(path p) noexcept { return p == path::hot ? hot_ : cold_; }

  queue_options limits_;
  usage hot_, cold_;
};

}  // namespace outbox::inline v0::core

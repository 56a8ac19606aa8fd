#include <atomic>
#include <outbox/testing.hpp>

namespace outbox::inline v0::testing {

struct manual_clock::state {
  std::atomic<std::int64_t> wall;
  std::atomic<std::int64_t> steady{0};
};

manual_clock::manual_clock() : manual_clock{std::chrono::sys_days{std::chrono::year{2030} / 1 / 1}} {}

manual_clock::manual_clock(instant start) : state_{std::make_unique<state>()} {
  state_->wall = start.time_since_epoch().count();
}

manual_clock::~manual_clock() = default;

instant manual_clock::now() const noexcept { return instant{std::chrono::microseconds{state_->wall.load()}}; }

steady_time manual_clock::steady() const noexcept {
  // Not the zero of the clock: that would be indistinguishable from "never".
  return steady_time{} + std::chrono::hours{1} + std::chrono::microseconds{state_->steady.load()};
}

void manual_clock::advance(std::chrono::microseconds by) noexcept {
  state_->wall += by.count();
  state_->steady += by.count();
}

void manual_clock::jump(std::chrono::microseconds by) noexcept { state_->wall += by.count(); }

}  // namespace outbox::inline v0::testing

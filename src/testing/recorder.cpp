#include <algorithm>
#include <outbox/testing.hpp>

namespace outbox::inline v0::testing {
namespace {

void append(std::vector<std::string>& to, std::span<event const> events) {
  for (auto const& e : events) to.push_back(e.id());
}

}  // namespace

recorder::~recorder() = default;

void recorder::after(delivery const& d, result const& r) {
  std::lock_guard const lock{mutex_};
  deliveries_.push_back({d.event, d.attempt, d.path, d.maybe_duplicate, r});
}

std::vector<recorded_delivery> recorder::deliveries() const {
  std::lock_guard const lock{mutex_};
  return deliveries_;
}

std::vector<std::string> recorder::ids() const {
  std::lock_guard const lock{mutex_};
  std::vector<std::string> ids;
  ids.reserve(deliveries_.size());
  for (auto const& d : deliveries_) ids.push_back(d.event.id());
  return ids;
}

std::size_t recorder::count(std::string_view event_id) const {
  std::lock_guard const lock{mutex_};
  return static_cast<std::size_t>(
      std::ranges::count_if(deliveries_, [&](auto const& d) { return d.event.id() == event_id; }));
}

void recorder::clear() {
  std::lock_guard const lock{mutex_};
  deliveries_.clear();
}

recording_hook::~recording_hook() = default;

void recording_hook::after_write(std::span<event const> events) {
  std::lock_guard const lock{mutex_};
  append(written_, events);
}

void recording_hook::after_commit(std::span<event const> events) {
  std::lock_guard const lock{mutex_};
  append(committed_, events);
}

void recording_hook::after_rollback(std::span<event const> events) {
  std::lock_guard const lock{mutex_};
  append(rolled_back_, events);
}

std::vector<std::string> recording_hook::written() const {
  std::lock_guard const lock{mutex_};
  return written_;
}

std::vector<std::string> recording_hook::committed() const {
  std::lock_guard const lock{mutex_};
  return committed_;
}

std::vector<std::string> recording_hook::rolled_back() const {
  std::lock_guard const lock{mutex_};
  return rolled_back_;
}

std::size_t run_until_done(node& n, manual_clock& clock, store& table, std::chrono::milliseconds within) {
  constexpr std::chrono::milliseconds step{10};
  auto const end = clock.now() + within;
  auto delivered = n.run_until_idle();
  // A step is short beside any backoff, and only the clock pays for it.
  for (auto pause = step; table.inspect().counts().pending() > 0 && clock.now() < end; pause = pause * 5 / 4) {
    clock.advance(std::min<std::chrono::microseconds>(pause, end - clock.now()));
    auto const more = n.run_until_idle();
    if (more > 0) pause = step;
    delivered += more;
  }
  return delivered;
}

}  // namespace outbox::inline v0::testing

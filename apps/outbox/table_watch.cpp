#include "table_watch.hpp"

#include <outbox/error.hpp>
#include <utility>

namespace outbox_tool {

table_watch::table_watch(std::shared_ptr<outbox::store> of, clock now)
    : store_{std::move(of)}, now_{std::move(now)}, thread_{[this](std::stop_token const& stop) { run(stop); }} {}

bool table_watch::ask() {
  std::lock_guard const lock{mutex_};
  auto const at = now_();
  if (wanted_ || reading_ || (began_ && at - *began_ < pause)) return false;
  began_ = at;
  wanted_ = true;
  changed_.notify_all();
  return true;
}

void table_watch::wait_until(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock{mutex_};
  changed_.wait_until(lock, deadline, [&] { return !wanted_ && !reading_; });
}

table_watch::state table_watch::known() const {
  std::lock_guard const lock{mutex_};
  auto const at = now_();
  bool const hangs = (wanted_ || reading_) && at - *began_ > patience;
  if (hangs) return {.up = false};
  if (last_.overview && at - read_at_ > age_limit) return {};
  return last_;
}

void table_watch::run(std::stop_token const& stop) {
  std::unique_lock lock{mutex_};
  while (changed_.wait(lock, stop, [&] { return wanted_; })) {
    wanted_ = false;
    reading_ = true;
    auto const began = *began_;
    lock.unlock();
    state found;
    try {
      auto& table = store_->backend();
      found = {.up = true, .overview = table.overview(count_limit)};
      if (table.capabilities().keys) found.parked = table.settings().keyed ? table.parked_keys(most_parked).size() : 0;
    } catch (outbox::error const& e) {
      found = {};
      if (e.code() != outbox::errc::unsupported) found.up = false;
    } catch (...) {
      found = {.up = false};
    }
    lock.lock();
    reading_ = false;
    last_ = found;
    read_at_ = began;
    changed_.notify_all();
  }
}

}  // namespace outbox_tool

// A limit for the reads of a store that tools use.
#pragma once

#include <sqlite3.h>

#include <chrono>

namespace outbox::inline v0::sqlite {

/// While it lives, a statement on the handle ends with SQLITE_INTERRUPT when the time is over. A time of 0 is no limit.
class time_limit {
 public:
  time_limit(sqlite3* db, std::chrono::milliseconds time) noexcept
      : db_{time.count() > 0 ? db : nullptr}, end_{std::chrono::steady_clock::now() + time} {
    constexpr int steps_between_looks = 1000;
    if (db_ != nullptr) sqlite3_progress_handler(db_, steps_between_looks, &is_over, this);
  }
  time_limit(time_limit const&) = delete;
  time_limit& operator=(time_limit const&) = delete;
  ~time_limit() {
    if (db_ != nullptr) sqlite3_progress_handler(db_, 0, nullptr, nullptr);
  }

  [[nodiscard]] bool over() const noexcept { return db_ != nullptr && std::chrono::steady_clock::now() >= end_; }

 private:
  static int is_over(void* self) noexcept { return static_cast<time_limit const*>(self)->over() ? 1 : 0; }

  sqlite3* db_;
  std::chrono::steady_clock::time_point end_;
};

}  // namespace outbox::inline v0::sqlite

#include "sqlite/session.hpp"

#include <sys/stat.h>

namespace outbox::inline v0::sqlite {

std::optional<file_identity> identity_of(sqlite3* db) noexcept {
  char const* const path = sqlite3_db_filename(db, "main");
  struct ::stat s {};
  if (path == nullptr || *path == '\0' || ::stat(path, &s) != 0) return std::nullopt;
  return file_identity{s.st_dev, s.st_ino};
}

session::session(sqlite3* db) : wait_{{}, waiting::in_long_steps}, driver_{db, *clock_, prepared::kept} {}

session::session(handle owned, std::chrono::milliseconds busy_timeout)
    : wait_{busy_timeout, waiting::in_long_steps},
      owned_{std::move(owned)},
      driver_{owned_.get(), *clock_, prepared::kept} {
  wait_.attach(owned_.get());
}

std::optional<file_identity> const& session::file() {
  if (!file_) file_ = identity_of(raw());
  return *file_;
}

}  // namespace outbox::inline v0::sqlite

#include "postgres/dispatch_lock.hpp"

#include <atomic>
#include <mutex>

#include "core/base/fork_guard.hpp"
#include "postgres/migrate.hpp"
#include "postgres/own_connection.hpp"

namespace outbox::inline v0::postgres {
namespace {

// How often the session is made again because the process has forked meanwhile.
constexpr int most_attempts = 10;

// A child that has the session's socket open keeps the session, and with it the lock, alive after this process has
// died: hence the guard.
class advisory_lock final : public spi::dispatch_lock {
 public:
  advisory_lock(std::unique_ptr<own_connection> c, std::string_view incarnation, std::string expire_sql)
      : c_{std::move(c)},
        guard_{PQsocket(c_->conn.get())},
        prefix_{std::string{incarnation} + "/"},
        expire_sql_{std::move(expire_sql)} {}

  // Given back before the session ends, so that a standby need not wait for that.
  ~advisory_lock() override {
    if (!held_ || guard_.in_child()) return;
    try {
      c_->statements.execute("SELECT pg_advisory_unlock_all()");
    } catch (error const&) {  // NOLINT(bugprone-empty-catch): then the end of the session gives it back
    }
  }

  // The server tells when it ends the session; asking costs no round trip. While a statement runs, its outcome tells.
  bool held() const noexcept override {
    std::unique_lock const lock{mutex_, std::try_to_lock};
    if (!lock) return held_;
    if (guard_.in_child() || !looks_alive(c_->conn.get())) held_ = false;
    return held_;
  }

  // In the session that holds the lock: if it has lost it, the statement fails.
  std::size_t expire_others() override {
    std::lock_guard const lock{mutex_};
    try {
      return static_cast<std::size_t>(
          c_->statements.execute(expire_sql_, {sql::from_now{}, std::string_view{prefix_}}));
    } catch (error const&) {
      if (PQstatus(c_->conn.get()) != CONNECTION_OK) held_ = false;
      throw;
    }
  }

  enum class outcome : std::int64_t { held_by_another, held_by_older, ours };

  // The lock of the table, exclusively; and that of earlier versions, which hold it exclusively, in shared mode:
  // nodes of the two versions exclude each other, and nodes on copies of a schema do not.
  [[nodiscard]] outcome try_lock(std::string_view table_id) {
    auto const key = "outbox dispatch " + std::string{table_id};
    auto const older = "outbox dispatch " + std::string{older_table_id(table_id)};
    auto const answer = c_->statements.ask<std::int64_t>(
        "SELECT CASE WHEN NOT pg_try_advisory_lock(hashtextextended($1, 0)) THEN 0 WHEN NOT "
        "pg_try_advisory_lock_shared(hashtextextended($2, 0)) THEN 1 ELSE 2 END",
        {std::string_view{key}, std::string_view{older}});
    auto const what = static_cast<outcome>(answer.value_or(0));
    held_ = what == outcome::ours;
    key_ = key;
    return what;
  }

  // What an operator asks pg_locks for.
  std::string key() const override { return "hashtextextended('" + key_ + "', 0)"; }

  // False behind a pooler.
  [[nodiscard]] bool has_own_session() const noexcept { return c_->statements.owns_session(); }

 private:
  mutable std::mutex mutex_;
  std::unique_ptr<own_connection> c_;
  core::fork_guard guard_;
  std::string prefix_;
  std::string expire_sql_;
  std::string key_;  ///< What the number of the lock is made of.
  mutable std::atomic<bool> held_ = false;
};

}  // namespace

lock_attempt try_advisory_lock(connector const& how, milliseconds timeout, std::string_view table_id,
                               std::string_view incarnation, std::string expire_sql) {
  for (int attempt = 0; attempt < most_attempts; ++attempt) {
    auto const forks = core::fork_guard::forks();
    auto lock = std::make_unique<advisory_lock>(connect_own(how, timeout), incarnation, expire_sql);
    if (forks != core::fork_guard::forks()) continue;  // a child may have the socket
    if (!lock->has_own_session()) {
      throw error{errc::unsupported, "there is no dispatch lock: " + std::string{pooler_reason}};
    }
    auto const what = lock->try_lock(table_id);
    if (what == advisory_lock::outcome::ours) return {std::move(lock)};
    return {nullptr, what == advisory_lock::outcome::held_by_older};
  }
  return {};
}

}  // namespace outbox::inline v0::postgres

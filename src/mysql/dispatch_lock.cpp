#include "mysql/dispatch_lock.hpp"

#include <atomic>
#include <mutex>

#include "core/base/fork_guard.hpp"
#include "mysql/own_connection.hpp"

namespace outbox::inline v0::mysql {
namespace {

// How often the session is made again because the process has forked meanwhile.
constexpr int most_attempts = 10;

// A child that has the session's socket open keeps the session, and with it the lock, alive after this process has
// died: hence the guard.
class named_lock final : public spi::dispatch_lock {
 public:
  named_lock(std::unique_ptr<own_connection> c, std::string name, std::string_view incarnation, std::string expire_sql)
      : c_{std::move(c)},
        guard_{static_cast<int>(mysql_get_socket(c_->conn.get()))},
        name_{std::move(name)},
        prefix_{std::string{incarnation} + "/"},
        expire_sql_{std::move(expire_sql)} {}

  // Given back before the session ends, so that a standby need not wait for that.
  ~named_lock() override {
    if (!held_ || guard_.in_child()) return;
    try {
      c_->statements.execute("DO release_lock(?1)", {std::string_view{name_}});
    } catch (error const&) {  // NOLINT(bugprone-empty-catch): then the end of the session gives it back
    }
  }

  // The server closes the session's socket when it ends it; looking costs no round trip. While a statement runs, its
  // outcome tells.
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
      if (loses_connection(mysql_errno(c_->conn.get()))) held_ = false;
      throw;
    }
  }

  [[nodiscard]] bool try_lock() {
    // It is silent for as long as the node lives.
    c_->statements.execute("SET SESSION wait_timeout = 31536000");
    held_ = c_->statements.ask<bool>("SELECT get_lock(?1, 0)", {std::string_view{name_}}).value_or(false);
    return held_;
  }

  // What an operator asks is_used_lock() for.
  std::string key() const override { return name_; }

 private:
  mutable std::mutex mutex_;
  std::unique_ptr<own_connection> c_;
  core::fork_guard guard_;
  std::string name_;
  std::string prefix_;
  std::string expire_sql_;
  mutable std::atomic<bool> held_ = false;
};

}  // namespace

std::string lock_name(sql::connection& c, std::string_view purpose, std::string_view identity) {
  return "outbox." + std::string{purpose} + "." + c.ask<std::string>("SELECT sha1(?1)", {identity}).value_or("");
}

std::unique_ptr<spi::dispatch_lock> try_named_lock(connector const& how, milliseconds timeout, std::string const& name,
                                                   std::string_view incarnation, std::string expire_sql) {
  for (int attempt = 0; attempt < most_attempts; ++attempt) {
    auto const forks = core::fork_guard::forks();
    auto lock = std::make_unique<named_lock>(std::make_unique<own_connection>(how.open(timeout)), name, incarnation,
                                             expire_sql);
    if (forks != core::fork_guard::forks()) continue;  // a child may have the socket
    return lock->try_lock() ? std::move(lock) : nullptr;
  }
  return nullptr;
}

}  // namespace outbox::inline v0::mysql

// The store's own connections: a bounded number, made when needed, tried before they are used again.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "postgres/driver.hpp"

namespace outbox::inline v0::postgres {

/// One connection of ours.
struct own_connection {
  handle conn;
  driver statements;
};

/// Plans as the statements were measured with: through their indexes, whatever the statistics of a young table say.
inline constexpr std::string_view plan_settings[] = {"enable_sort = off", "enable_bitmapscan = off",
                                                     "enable_seqscan = off", "jit = off"};

/// True unless the server has ended the session, as far as is known without a round trip.
[[nodiscard]] bool looks_alive(PGconn* c) noexcept;

/// What lets a session be silent for as long as it likes; empty for servers before 14, which do so anyway.
[[nodiscard]] std::string_view silence_setting(PGconn const* c) noexcept;

/// False if whoever answers is the server itself: a pooler gives out a process id of its own. It may also have no
/// server to give for a long time, so the question has a limit as everything has.
[[nodiscard]] bool behind_pooler(PGconn* c, milliseconds timeout);

/// Connects and makes the session ours: time-outs, isolation, plans that do not depend on parameters. Behind a pooler
/// nothing is set, because the session is not ours. Throws `error`.
[[nodiscard]] std::unique_ptr<own_connection> connect_own(std::string const& connection_string, milliseconds timeout);

class pool {
 public:
  pool(std::string connection_string, std::size_t most, milliseconds timeout)
      : connection_string_{std::move(connection_string)}, most_{most}, timeout_{timeout} {
    idle_.reserve(most);  // so that giving back does not fail
  }

  /// Runs `f` with a connection that nobody else uses meanwhile. Whatever it leaves unfinished is rolled back; a
  /// connection that is broken, or that reaches a server which goes or only reads, is closed. Throws `error`:
  /// unavailable if there is none to be had; store_failure if there never was one, because the server refuses them.
  template <class F>
  void with(F&& f) {
    auto c = take();
    try {
      f(c->statements);
    } catch (error const& e) {
      give_back(std::move(c), spoils_connection(e));
      throw;
    } catch (...) {
      give_back(std::move(c), true);
      throw;
    }
    give_back(std::move(c), false);
  }

  [[nodiscard]] std::string const& connection_string() const noexcept { return connection_string_; }
  [[nodiscard]] milliseconds timeout() const noexcept { return timeout_; }

 private:
  [[nodiscard]] std::unique_ptr<own_connection> take();
  [[nodiscard]] std::unique_ptr<own_connection> make();
  void note_failure(error const& e);
  void give_back(std::unique_ptr<own_connection> c, bool spoiled) noexcept;

  std::string const connection_string_;
  std::size_t const most_;
  milliseconds const timeout_;
  std::mutex mutex_;
  std::condition_variable freed_;
  std::vector<std::unique_ptr<own_connection>> idle_;
  std::size_t made_ = 0;
  int failures_ = 0;                                    ///< Attempts to connect, one after the other.
  std::chrono::steady_clock::time_point not_before_{};  ///< The next attempt.
  std::atomic<bool> connected_ = false;                 ///< One has succeeded.
  std::optional<error> refused_;                        ///< The last attempt, for a reason that will not pass.
  std::minstd_rand random_{std::random_device{}()};
};

}  // namespace outbox::inline v0::postgres

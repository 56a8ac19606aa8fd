// The connections of a store: a bounded number, made when they are needed, tried before they are used again.
#pragma once

#include <atomic>
#include <chrono>
#include <concepts>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <outbox/error.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/base/reconnect_pause.hpp"
#include "core/base/wait_signal.hpp"

namespace outbox::inline v0::core {

/// What a pool asks of a connection.
template <class C>
concept pooled_connection = requires(C& c, error const& e) {
  { c.alive() } noexcept -> std::same_as<bool>;         // as far as is known without a round trip
  { c.clean() } noexcept -> std::same_as<bool>;         // ends an open transaction; false if it cannot
  { C::spoiled_by(e) } noexcept -> std::same_as<bool>;  // it answers, but must not be used again
};

/// Thread-safe.
template <pooled_connection Connection>
class pool {
 public:
  using factory = std::function<std::unique_ptr<Connection>()>;
  using milliseconds = std::chrono::milliseconds;

  /// `timeout` is how long to wait for a connection while all are in use.
  pool(factory connect, std::size_t most, milliseconds timeout)
      : connect_{std::move(connect)}, most_{most}, timeout_{timeout} {
    idle_.reserve(most);  // so that giving back does not fail
  }

  /// Runs `f` with a connection that no other thread uses meanwhile. An open transaction that `f` leaves behind is
  /// rolled back; a connection that is broken, or spoiled by what `f` throws, is closed. Throws `error`: unavailable if
  /// no connection can be had; store_failure if there never was one, because the server refuses them.
  template <class F>
  void with(F&& f) {
    auto c = take();
    try {
      f(*c);
    } catch (error const& e) {
      give_back(std::move(c), Connection::spoiled_by(e));
      throw;
    } catch (...) {
      give_back(std::move(c), true);
      throw;
    }
    give_back(std::move(c), false);
  }

  /// Calls `f` after each wait for a connection that another thread used, on the thread that waited.
  [[nodiscard]] spi::subscription on_wait(wait_signal::callback f) { return waits_.subscribe(std::move(f)); }

 private:
  using steady_clock = std::chrono::steady_clock;

  // Tells of a wait when it is over, however it ended, and when the lock of the pool was released.
  struct wait_note {
    wait_note(wait_signal& to, steady_clock::time_point at) : signal{to}, began{at} {}
    wait_note(wait_note const&) = delete;
    wait_note& operator=(wait_note const&) = delete;
    ~wait_note() { over(); }
    void over() noexcept {
      if (std::exchange(waited, false)) signal.notify(steady_clock::now() - began);
    }

    wait_signal& signal;
    steady_clock::time_point const began;
    bool waited = false;
  };

  [[nodiscard]] std::unique_ptr<Connection> take() {
    auto const began = steady_clock::now();
    wait_note note{waits_, began};
    std::unique_lock lock{mutex_};
    auto const deadline = began + timeout_;
    while (true) {
      while (!idle_.empty()) {
        auto c = std::move(idle_.back());
        idle_.pop_back();
        if (c->alive()) return c;
        --made_;
      }
      if (made_ < most_) break;
      note.waited = true;
      if (freed_.wait_until(lock, deadline) == std::cv_status::timeout) {
        throw error{errc::unavailable, "all " + std::to_string(most_) + " connections of the store are in use"};
      }
    }
    if (auto const now = steady_clock::now(); now < not_before_) {
      if (refused_) throw *refused_;
      auto const left = std::chrono::ceil<milliseconds>(not_before_ - now);
      throw error{errc::unavailable,
                  "the server could not be reached; the next attempt is in " + std::to_string(left.count()) + " ms"};
    }
    ++made_;
    lock.unlock();
    note.over();
    return make();
  }

  // Attempts that fail come less and less often.
  [[nodiscard]] std::unique_ptr<Connection> make() {
    try {
      auto c = connect_();
      std::lock_guard const lock{mutex_};
      pause_.reset();
      not_before_ = {};
      connected_ = true;
      return c;
    } catch (error const& e) {
      note_failure(e);
      // The options were right before, so an operator may undo the change that broke them: a running node waits for it.
      if (connected_) throw error{errc::unavailable, e.what(), std::string{e.sqlstate()}};
      throw;
    } catch (std::exception const& e) {
      note_failure(error{errc::unavailable, e.what()});
      throw;
    }
  }

  void note_failure(error const& e) {
    std::lock_guard const lock{mutex_};
    --made_;
    refused_.reset();
    if (!e.transient() && !connected_) refused_ = e;
    not_before_ = steady_clock::now() + pause_.next();
    freed_.notify_one();
  }

  void give_back(std::unique_ptr<Connection> c, bool spoiled) noexcept {
    bool const good = !spoiled && c->clean() && c->alive();
    if (!good) c.reset();
    std::lock_guard const lock{mutex_};
    if (good) {
      idle_.push_back(std::move(c));
    } else {
      --made_;
    }
    freed_.notify_one();
  }

  factory const connect_;
  std::size_t const most_;
  milliseconds const timeout_;
  wait_signal waits_;
  std::mutex mutex_;
  std::condition_variable freed_;
  std::vector<std::unique_ptr<Connection>> idle_;
  std::size_t made_ = 0;
  reconnect_pause pause_{milliseconds{50}, milliseconds{2000}};
  steady_clock::time_point not_before_{};  ///< The next attempt.
  std::atomic<bool> connected_ = false;    ///< One attempt has succeeded.
  std::optional<error> refused_;           ///< The last attempt failed for a reason that will not pass.
};

}  // namespace outbox::inline v0::core

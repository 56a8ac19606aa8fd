// The lock by which only one node dispatches: a lease in Redis with a fence, renewed by the node.
#pragma once

#include <atomic>
#include <memory>
#include <outbox/clock.hpp>
#include <outbox/spi/store.hpp>
#include <string>
#include <string_view>

#include "redis/server.hpp"

namespace outbox::inline v0::redis {

/// Thread-safe. It may outlive its store.
class leased_lock final : public spi::dispatch_lock {
 public:
  /// Null if another node has it. Throws `error`.
  [[nodiscard]] static std::unique_ptr<leased_lock> take(std::shared_ptr<server> where, std::shared_ptr<clock const> c,
                                                         std::string_view incarnation, milliseconds lease);

  /// Gives it back if it is still held; a server that does not answer gets it back when the lease is over.
  ~leased_lock() override;

  [[nodiscard]] bool held() const noexcept override;
  [[nodiscard]] bool renew() override;
  std::size_t expire_others() override;
  [[nodiscard]] std::string key() const override { return server_->prefix() + "lock"; }

 private:
  leased_lock(std::shared_ptr<server> where, std::shared_ptr<clock const> c, std::string_view incarnation,
              milliseconds lease, std::int64_t fence, steady_time until);

  std::shared_ptr<server> const server_;
  std::shared_ptr<clock const> const clock_;
  std::string const incarnation_;
  milliseconds const lease_;
  std::int64_t const fence_;
  ::pid_t const owner_ = ::getpid();  ///< A forked child does not have the lock.

  /// By the process's clock, counted from before the request was sent: it is over here before it is over in Redis.
  std::atomic<steady_time> until_;
};

}  // namespace outbox::inline v0::redis

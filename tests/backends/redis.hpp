// The store on Redis in tests: an outbox of its own on the shared server for each case.
#pragma once

#include <unistd.h>
#include <atomic>

#include <outbox/redis.hpp>
#include <outbox/testing.hpp>

#include "backends/backend_clock.hpp"
#include "backends/caller.hpp"
#include "support/redis_server.hpp"

namespace outbox {

class redis_backend : public contract::backend {
 public:
  static constexpr char const* name = "redis";

  redis_backend() : redis_backend{backend_clock::manual} {}
  /// The store reads the server's clock in either case. `advance()` moves the instants in the rows instead.
  explicit redis_backend(backend_clock clock, redis_server& server = redis_server::shared(),
                         done_rows done = done_rows::keep)
      : server_{server}, done_{done}, connection_{server.url()} {
    if (clock == backend_clock::manual) clock_ = std::make_shared<testing::manual_clock>();
    store_ = open_named(outbox_);
  }
  ~redis_backend() override { remove(); }

  spi::store& store() override { return store_->backend(); }
  std::unique_ptr<contract::caller_transaction> begin() override {
    return std::make_unique<caller<redis_backend, redis::transaction>>(*this, connection_);
  }
  void advance(std::chrono::milliseconds by) override {
    if (clock_) clock_->advance(by);
    other_.command("EVAL", shift, 1, prefix(), std::chrono::microseconds{by}.count());
  }
  /// On another server: a transaction reaches every outbox of its own.
  std::unique_ptr<backend> other() override {
    static redis_server another;
    auto b = std::make_unique<redis_backend>(backend_clock::manual, another);
    b->connection_.command("SELECT", 0);
    return b;
  }
  [[nodiscard]] bool has_savepoints() const override { return false; }
  bool overwrite_pauses(std::string const& text) override {
    other_.command("HSET", prefix() + "meta", "pauses", text);
    return true;
  }
  void block(std::string const& id) override { other_.command("EVAL", note, 1, prefix(), id); }

  [[nodiscard]] std::shared_ptr<outbox::store> const& shared_store() const { return store_; }
  [[nodiscard]] std::string prefix() const { return "{" + outbox_ + "}:"; }
  [[nodiscard]] redis::connection& connection() { return connection_; }

  /// Opens another outbox on the same server.
  [[nodiscard]] std::shared_ptr<outbox::store> open(std::string const& called) {
    return open_named(others_.emplace_back(outbox_ + "-" + called));
  }

  template <class F>
  void transact(bool commit, F&& f) {
    transact_on<redis::transaction>(connection_, commit, std::forward<F>(f));
  }
  template <class Transaction>
  void savepoint(Transaction& /*tx*/, std::string const& /*mark*/) {}
  template <class Transaction>
  void rollback_to(Transaction& /*tx*/, std::string const& /*mark*/) {}

 private:
  // Moves every instant of the outbox back, as if so much time had passed.
  static constexpr char const* shift = R"lua(
    local p, by = KEYS[1], tonumber(ARGV[1])
    local function back(key, field)
      local t = redis.call('HGET', key, field)
      if t and #t < 17 then redis.call('HSET', key, field, string.format('%.0f', tonumber(t) - by)) end
    end
    for _, set in ipairs({'due', 'leased', 'done_at', 'dead_at', 'nodes'}) do
      local rows = redis.call('ZRANGE', p .. set, 0, -1)
      for _, m in ipairs(rows) do redis.call('ZINCRBY', p .. set, -by, m) end
    end
    for _, set in ipairs({'open', 'done', 'dead'}) do
      for _, m in ipairs(redis.call('ZRANGE', p .. set, 0, -1)) do
        local row = p .. 'event:' .. string.sub(m, 17)
        for _, field in ipairs({'available_at', 'inserted_at', 'done_at', 'lease_until'}) do back(row, field) end
      end
    end
    back(p .. 'lock', 'lease_until')
    return 1)lua";
  static constexpr char const* note = R"lua(
    local p, row = KEYS[1], KEYS[1] .. 'event:' .. ARGV[1]
    local m = string.format('%016d', tonumber(redis.call('HGET', row, 'seq'))) .. ARGV[1]
    redis.call('HSET', row, 'blocked', '1')
    redis.call('ZREM', p .. 'due', m)
    redis.call('ZREM', p .. 'leased', m)
    redis.call('ZADD', p .. 'blocked', string.sub(m, 1, 16), m)
    return 1)lua";

  [[nodiscard]] std::shared_ptr<outbox::store> open_named(std::string const& called) const {
    return redis::open(server_.url(), {.name = called, .done_rows = done_, .log = {}, .clock = clock_});
  }

  // The memory of the shared server would grow from case to case.
  void remove() noexcept {
    try {
      store_.reset();
      others_.push_back(outbox_);
      for (auto const& each : others_) {
        other_.command("EVAL",
                       "local n = 0 repeat local r = redis.call('SCAN', n, 'MATCH', KEYS[1] .. '*', 'COUNT', 10000) "
                       "n = r[1] for _, k in ipairs(r[2]) do redis.call('UNLINK', k) end until n == '0' return 1",
                       1, "{" + each + "}:");
      }
    } catch (std::exception const&) {
    }
  }

  static std::string new_name() {
    static std::atomic<int> cases{0};
    return "case-" + std::to_string(::getpid()) + "-" + std::to_string(++cases);
  }

  redis_server& server_;
  done_rows done_;
  std::string outbox_ = new_name();
  std::vector<std::string> others_;
  std::shared_ptr<testing::manual_clock> clock_;
  redis::connection connection_;  ///< Of the caller's transactions.
  redis::connection other_{server_.url()};
  std::shared_ptr<outbox::store> store_;
};

/// A store on Redis that deletes a row when its event is delivered, which is its default.
class erasing_redis_backend final : public redis_backend {
 public:
  static constexpr char const* name = "redis_erasing";

  explicit erasing_redis_backend(backend_clock c = backend_clock::manual)
      : redis_backend{c, redis_server::shared(), done_rows::erase} {}
};

}  // namespace outbox

// The connection of a caller's transaction: one of ours, or one of hiredis.
#pragma once

#include <hiredis/hiredis.h>

#include <memory>
#include <string>
#include <vector>

#include "redis/answer.hpp"
#include "redis/link.hpp"

namespace outbox::inline v0::redis {

/// Commands are queued by `add()`, and sent by the first `next()`. Use from one thread at a time.
class caller_wire {
 public:
  caller_wire() = default;
  caller_wire(caller_wire const&) = delete;
  caller_wire& operator=(caller_wire const&) = delete;
  virtual ~caller_wire() = default;

  virtual void add(word_list command) = 0;
  void add(std::initializer_list<std::string_view> command) { add(word_list{command.begin(), command.size()}); }

  /// The next answer, an error included. Throws `error` (unavailable) if the connection is lost.
  [[nodiscard]] virtual answer next() = 0;

  /// What is known of outboxes on this connection: prefix and identity. Null if nothing is kept.
  [[nodiscard]] virtual std::vector<std::pair<std::string, std::string>>* known() noexcept { return nullptr; }

  /// Says that a transaction begins or ends on it. Throws `error` (no_transaction) if one is open.
  virtual void occupy() {}
  virtual void vacate() noexcept {}
};

/// What a `connection` owns.
class session final : public caller_wire {
 public:
  explicit session(address const& where);

  void add(word_list command) override { line_.add(command); }
  [[nodiscard]] answer next() override { return line_.next(); }
  [[nodiscard]] std::vector<std::pair<std::string, std::string>>* known() noexcept override { return &known_; }
  void occupy() override;
  void vacate() noexcept override { busy_ = false; }

  [[nodiscard]] link& line() noexcept { return line_; }

 private:
  link line_;
  std::vector<std::pair<std::string, std::string>> known_;
  bool busy_ = false;
};

/// A connection of hiredis, which the application owns.
class hiredis_wire final : public caller_wire {
 public:
  /// Throws `error`: unavailable if it is null or broken, unsupported if it does not block.
  explicit hiredis_wire(redisContext* c);

  void add(word_list command) override;
  [[nodiscard]] answer next() override;

 private:
  redisContext* context_;
};

}  // namespace outbox::inline v0::redis

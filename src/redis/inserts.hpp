// Events on their way into Redis: those of one transaction until it is committed, and what the server answered.
#pragma once

#include <chrono>
#include <memory>
#include <outbox/spi/enlisted.hpp>
#include <outbox/spi/store.hpp>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "redis/answer.hpp"
#include "redis/arguments.hpp"

namespace outbox::inline v0::redis {

class redis_store;

/// Writes into the receipt, if there is one, what insert.lua answered for `rows` rows.
void fill(spi::insert_receipt* receipt, answer_view a, std::size_t rows);

/// Throws `error` (commit_in_doubt) if fewer than `wanted` replicas have confirmed.
void check_replicas(std::size_t confirmed, std::size_t wanted);

/// The events of one transaction. It knows the stores that they go to only by what it has copied: a transaction may
/// outlive them. Use from one thread at a time.
class insert_queue {
 public:
  insert_queue() = default;
  insert_queue(insert_queue const&) = delete;
  insert_queue& operator=(insert_queue const&) = delete;
  virtual ~insert_queue() = default;

  /// Throws `error`: wrong_transaction if the connection does not reach the store's outbox; duplicate_event if the
  /// transaction has an event with this id already. Then nothing was added.
  void add(redis_store& to, std::span<spi::insertion const> rows, std::shared_ptr<spi::insert_receipt> const& receipt);

  /// The events for one outbox: they are written by one script.
  struct group {
    std::string prefix{};                 ///< Of its keys.
    std::string identity{};               ///< What the outbox calls itself.
    std::size_t replicas = 0;             ///< How many must confirm.
    std::chrono::milliseconds timeout{};  ///< How long they may take.
    arguments rows{};                     ///< As add_row() makes them.
    std::size_t count = 0;                ///< Of rows.
    std::set<std::string> ids{};          ///< Of the events.
    std::vector<std::string> guarded{};   ///< Keys of events whose ids the application chose: they may be taken.

    struct part {
      std::shared_ptr<spi::insert_receipt> receipt;
      std::size_t rows;
    };
    std::vector<part> parts{};  ///< In the order of the calls.

    [[nodiscard]] bool asks() const noexcept;
    /// What insert.lua wants.
    [[nodiscard]] arguments whole() const;
    void fill_receipts(answer_view a) const;
  };
  [[nodiscard]] std::vector<group> const& groups() const noexcept { return groups_; }

  spi::enlisted writes;

 private:
  /// Returns what the outbox with this prefix calls itself, as the caller's connection sees it.
  virtual std::string identity_of(std::string const& prefix) = 0;

  group& group_of(redis_store& to);

  std::vector<group> groups_;
};

}  // namespace outbox::inline v0::redis

// Helpers for the programs of the pages: an assertion, a store with a manual clock, and a service with four threads.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <outbox/memory.hpp>
#include <outbox/outbox.hpp>
#include <outbox/testing.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace docs {

using strings = std::vector<std::string>;

/// An assertion, as a test framework has it.
inline void check(bool holds, char const* what) {
  if (!holds) throw std::runtime_error{what};
}

/// Waits until another thread has made the condition true.
template <class Condition>
void wait_for(Condition const& holds, char const* what) {
  auto const deadline = std::chrono::steady_clock::now() + std::chrono::minutes{1};
  while (!holds()) {
    check(std::chrono::steady_clock::now() < deadline, what);
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
}

/// A store in memory with a manual clock, and functions to write and read events.
struct fixture {
  std::shared_ptr<outbox::testing::manual_clock> clock = std::make_shared<outbox::testing::manual_clock>(
      std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now()));
  std::shared_ptr<outbox::store> store = outbox::memory::open({.clock = clock});
  std::shared_ptr<outbox::testing::recorder> seen = std::make_shared<outbox::testing::recorder>();

  [[nodiscard]] outbox::single_node_options options(outbox::listeners listeners) const {
    return {.store = store, .listeners = std::move(listeners), .log = nullptr, .clock = clock, .interceptors = {seen}};
  }
  void write(outbox::node const& box, std::string const& type, std::string const& id, std::string payload = "1") const {
    outbox::memory::transaction tx{*store};
    box.writer().write(tx, type, std::move(payload), {.id = id});
    tx.commit();
  }
  [[nodiscard]] outbox::row_view row(std::string const& id) const { return store->inspect().find(id).value(); }
};

/// Makes calls of listeners overlap: each waits briefly until another one has begun.
class in_pairs final : public outbox::interceptor {
 public:
  void before(outbox::delivery const&) override {
    auto const mine = begun_.fetch_add(1) + 1;
    auto const partner = mine + mine % 2;
    auto const deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds{5};
    while (begun_ < partner && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  }

 private:
  std::atomic<std::size_t> begun_ = 0;
};

/// Runs the listeners of a page in a started node, where four threads call them at once. The thread sanitizer then
/// finds data that a page forgot to protect.
class service {
 public:
  static constexpr std::size_t many = 200;

  explicit service(outbox::listeners listeners, std::shared_ptr<outbox::metrics> metrics = {})
      : box_{outbox::single_node({.store = store_,
                                  .listeners = std::move(listeners),
                                  .workers = 4,
                                  .log = nullptr,
                                  .metrics = std::move(metrics),
                                  .interceptors = {std::make_shared<in_pairs>()}})} {
    box_.start();
  }

  /// Writes many events of this type, each in its own transaction.
  void write(std::string const& type, std::string const& payload = "1", std::string const& aggregate_type = "") {
    for (std::size_t i = 0; i < many; ++i) {
      outbox::memory::transaction tx{*store_};
      box_.writer().write(tx, type, payload, {.aggregate = {aggregate_type, ""}});
      tx.commit();
    }
    written_ += many;
  }
  [[nodiscard]] bool settled() const { return box_.counters().settled >= written_; }

  /// Waits until a listener has answered for each event, and stops. Returns the node's counters.
  outbox::node_counters finish() {
    wait_for([&] { return settled(); }, "every event is answered");
    check(box_.stop(), "the node stops in time");
    return box_.counters();
  }

 private:
  std::shared_ptr<outbox::store> store_ = outbox::memory::open();
  outbox::node box_;
  std::size_t written_ = 0;
};

}  // namespace docs

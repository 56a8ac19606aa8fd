// What the programs of the pages share: an assertion, a store whose time stands still, and a service with four threads.
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

/// What a test framework calls an assertion.
inline void check(bool holds, char const* what) {
  if (!holds) throw std::runtime_error{what};
}

/// Waits for something that another thread does.
template <class Condition>
void wait_for(Condition const& holds, char const* what) {
  auto const deadline = std::chrono::steady_clock::now() + std::chrono::minutes{1};
  while (!holds()) {
    check(std::chrono::steady_clock::now() < deadline, what);
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
}

/// A store in memory whose time stands still, and the usual ways to it.
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

/// Makes calls of listeners overlap: each waits for a moment until another one has begun.
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

/// The listeners of a page as a service has them: in a started node, called by four threads at once. The thread
/// sanitizer then finds what a page forgot to lock.
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

  /// Writes many events of this type, each in a transaction of its own.
  void write(std::string const& type, std::string const& payload = "1", std::string const& aggregate_type = "") {
    for (std::size_t i = 0; i < many; ++i) {
      outbox::memory::transaction tx{*store_};
      box_.writer().write(tx, type, payload, {.aggregate = {aggregate_type, ""}});
      tx.commit();
    }
    written_ += many;
  }
  [[nodiscard]] bool settled() const { return box_.counters().settled >= written_; }

  /// Waits until a listener has answered for each, and stops; what the node counted.
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

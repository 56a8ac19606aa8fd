// How a store tells nodes that another caller has written.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <outbox/testing/contract/suite.hpp>
#include <stdexcept>
#include <thread>

namespace outbox::contract {

// Counts the calls of a callback, and waits for them. The limit is a time that only a broken store needs.
class call_tally {
 public:
  void add() {
    std::lock_guard const lock{mutex_};
    ++count_;
    changed_.notify_all();
  }
  [[nodiscard]] int count() {
    std::lock_guard const lock{mutex_};
    return count_;
  }
  [[nodiscard]] bool exceed(int n) {
    std::unique_lock lock{mutex_};
    return changed_.wait_for(lock, 60s, [&] { return count_ > n; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int count_ = 0;
};

class Signals : public StoreContract {
 protected:
  [[nodiscard]] subscription subscribe(call_tally& t) {
    return this->s().on_change([&t] { t.add(); });
  }

  // What a caller and its node do.
  void write(std::string const& id) {
    this->put(json_event(id));
    this->s().hint();
  }
};

OUTBOX_CONTRACT_CASE(Signals, AWriteByAnotherCallerIsPushed) {
  call_tally heard;
  auto const s = this->subscribe(heard);
  if (!s) GTEST_SKIP() << "this store cannot observe changes";
  this->write("a");
  EXPECT_TRUE(heard.exceed(0));
  auto const before = heard.count();
  this->write("b");
  EXPECT_TRUE(heard.exceed(before));
}

OUTBOX_CONTRACT_CASE(Signals, EverySubscriberIsTold) {
  call_tally first;
  call_tally second;
  auto const one = this->subscribe(first);
  auto const two = this->subscribe(second);
  if (!one) GTEST_SKIP() << "this store cannot observe changes";
  this->write("a");
  EXPECT_TRUE(first.exceed(0));
  EXPECT_TRUE(second.exceed(0));
}

OUTBOX_CONTRACT_CASE(Signals, NothingIsPushedAfterTheSubscriptionHasEnded) {
  call_tally ended;
  call_tally lasting;
  auto first = this->subscribe(ended);
  auto const second = this->subscribe(lasting);
  if (!first) GTEST_SKIP() << "this store cannot observe changes";
  this->write("a");
  ASSERT_TRUE(ended.exceed(0));
  first = {};
  auto const before = ended.count();
  auto const heard = lasting.count();
  this->write("b");
  ASSERT_TRUE(lasting.exceed(heard)) << "the push has come for the others";
  EXPECT_EQ(ended.count(), before);
}

// A node is stopped while others write.
OUTBOX_CONTRACT_CASE(Signals, ASubscriptionMayEndWhileChangesArePushed) {
  if (call_tally t; !this->subscribe(t)) GTEST_SKIP() << "this store cannot observe changes";
  std::atomic<bool> stop = false;
  std::thread others{[&] {
    for (int i = 0; !stop; ++i) this->write("e" + std::to_string(i));
  }};
  for (int round = 0; round < 20; ++round) {
    auto heard = std::make_unique<call_tally>();
    auto s = this->subscribe(*heard);
    EXPECT_TRUE(heard->exceed(0));
    s = {};
    heard.reset();  // a callback that still ran would use what is gone
  }
  stop = true;
  others.join();
}

OUTBOX_CONTRACT_CASE(Signals, ACallbackThatThrowsHarmsNeitherTheWriterNorOtherSubscribers) {
  call_tally heard;
  auto const bad = this->s().on_change([] { throw std::runtime_error{"a callback of a test"}; });
  auto const good = this->subscribe(heard);
  if (!good) GTEST_SKIP() << "this store cannot observe changes";
  EXPECT_NO_THROW(this->write("a"));
  EXPECT_TRUE(heard.exceed(0));
  EXPECT_NO_THROW(this->write("b"));
}

OUTBOX_CONTRACT_CASE(Signals, AHintIsAllowedAtAnyTime) {
  this->s().hint();
  this->write("a");
  EXPECT_THAT(this->claim("n/1").rows, SizeIs(1));
}

}  // namespace outbox::contract

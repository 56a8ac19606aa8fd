// A start that fails half way: the node ends what it has begun, and nothing hangs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <outbox/error.hpp>
#include <outbox/memory.hpp>
#include <outbox/outbox.hpp>
#include <system_error>

#include "core/node/runtime.hpp"
#include "support/waiting.hpp"

namespace outbox::core {
namespace {

using ::testing::HasSubstr;

/// A node whose system has only so many threads left.
struct starting_node {
  explicit starting_node(std::shared_ptr<outbox::store> const& store, int threads) {
    node_options o{.store = store, .workers = 2, .log = nullptr, .purge = purge_options{}};
    o.listeners.on("t", [](delivery const&) {});
    auto s = settings_of(std::move(o), node_mode::single_node);
    s.new_thread = [left = threads](std::function<void()> body) mutable {
      if (left-- == 0) throw std::system_error{std::make_error_code(std::errc::resource_unavailable_try_again)};
      return std::thread{std::move(body)};
    };
    core = std::make_shared<node_core>(std::move(s));
    threads_of = std::make_unique<runtime>(core);
  }

  std::shared_ptr<node_core> core;
  std::unique_ptr<runtime> threads_of;
};

class AStartWithoutEnoughThreads : public ::testing::TestWithParam<int> {};

TEST_P(AStartWithoutEnoughThreads, EndsWhatItBegan) {
  auto const store = memory::open();
  starting_node n{store, GetParam()};
  try {
    n.threads_of->start();
    FAIL() << "a thread is missing";
  } catch (error const& e) {
    EXPECT_EQ(e.code(), errc::unavailable);
    EXPECT_THAT(e.what(), HasSubstr("cannot start the node's threads"));
  }
  EXPECT_FALSE(n.threads_of->running());
  EXPECT_TRUE(store->inspect().nodes().empty()) << "it has left the registry";
  EXPECT_TRUE(n.threads_of->stop(milliseconds{0})) << "there is nothing left to stop";
  EXPECT_THROW(n.threads_of->start(), error) << "a node starts once";

  starting_node other{store, 6};
  EXPECT_NO_THROW(other.threads_of->start()) << "the dispatch lock is free";
  EXPECT_TRUE(other.threads_of->stop(std::chrono::seconds{60}));
}

#ifdef __linux__
// As top and ps show them. Waits for a thread that has not named itself yet.
bool has_thread(std::string const& name) {
  return eventually([&] {
    for (auto const& task : std::filesystem::directory_iterator{"/proc/self/task"}) {
      std::string comm;
      if (std::getline(std::ifstream{task.path() / "comm"}, comm) && comm == name) return true;
    }
    return false;
  });
}

TEST(Threads, HaveNames) {
  starting_node n{memory::open(), 6};
  n.threads_of->start();
  for (auto const* const name : {"outbox-work", "outbox-poll", "outbox-settle", "outbox-renew", "outbox-purge"}) {
    EXPECT_TRUE(has_thread(name)) << name;
  }
  EXPECT_TRUE(n.threads_of->stop(std::chrono::seconds{60}));
}
#endif

// A purger, a renewer, a settler, two workers and a poller.
INSTANTIATE_TEST_SUITE_P(Threads, AStartWithoutEnoughThreads, ::testing::Range(0, 6));

}  // namespace
}  // namespace outbox::core

// Events of a node on their way to a receiver.
#include <outbox/memory.hpp>
#include <outbox/outbox.hpp>

#include "fault/webhook/fixture.hpp"

namespace outbox {
namespace {

using namespace std::chrono_literals;

class WebhookNode : public Webhook {
 protected:
  node make(std::shared_ptr<sink> to) {
    multi_node_options o{.store = store, .log = nullptr};
    o.retry.backoff = {.base = 1ms, .cap = 10ms};
    o.stop_timeout = 0ms;
    o.listeners.on_any(publish(std::move(to)));
    return multi_node(std::move(o));
  }
  void write(node const& box, std::string const& id) {
    memory::transaction tx{*store};
    box.writer().write(tx, "order.placed", "1", {.id = id});
    tx.commit();
  }
  std::shared_ptr<outbox::store> store = memory::open();
};

TEST_F(WebhookNode, TheIdIsTheSameEachTimeAnEventIsTried) {
  auto box = make(webhook::open(options(server.url("/fail-first/3"))));
  box.start();
  write(box, "e1");
  ASSERT_TRUE(eventually([&] { return store->inspect().counts().done == 1; }))
      << store->inspect().find("e1")->last_error;
  EXPECT_EQ(store->inspect().find("e1")->attempts, 3) << "each failure was counted";
  ASSERT_EQ(server.requests(), 4);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(server.at(i).headers.at("webhook-id"), "e1");
}

TEST_F(WebhookNode, AnEventThatIsRefusedIsDead) {
  auto box = make(webhook::open(options(server.url("/status/422"))));
  box.start();
  write(box, "e1");
  ASSERT_TRUE(eventually([&] { return store->inspect().counts().dead == 1; }));
  EXPECT_EQ(store->inspect().find("e1")->last_error, "HTTP 422");
  EXPECT_EQ(server.requests(), 1);
}

TEST_F(WebhookNode, AMissingRightIsNotCounted) {
  auto box = make(webhook::open(options(server.url("/status/401"))));
  box.start();
  write(box, "e1");
  ASSERT_TRUE(eventually([&] { return server.requests() >= 2; })) << "it comes back when the wait is over";
  auto const row = *store->inspect().find("e1");
  EXPECT_EQ(row.attempts, 0);
  EXPECT_EQ(row.last_error, "webhook: HTTP 401");
}

TEST_F(WebhookNode, AReceiverThatAsksForTimeIsLeftAlone) {
  auto box = make(webhook::open(options(server.url("/status/503?3600"))));
  box.start();
  write(box, "e1");
  ASSERT_TRUE(eventually([&] { return !store->inspect().find("e1")->last_error.empty(); }));
  auto const row = *store->inspect().find("e1");
  EXPECT_EQ(row.attempts, 0);
  EXPECT_EQ(row.status, event_status::created);
  EXPECT_GT(row.available_at, std::chrono::system_clock::now() + 30min);
}

TEST_F(WebhookNode, I1_AStopInTheMiddleLosesNothing) {
  std::weak_ptr<sink> ended;
  {
    auto to = webhook::open(options(server.url("/hang")));
    ended = to;
    auto box = make(std::move(to));
    box.start();
    for (int i = 0; i < 5; ++i) write(box, "e" + std::to_string(i));
    ASSERT_TRUE(eventually([&] { return server.requests() == 5; }));
  }
  EXPECT_TRUE(ended.expired()) << "messages do not keep a sink alive";
  EXPECT_EQ(store->inspect().counts().pending(), 5U);
  auto box = make(webhook::open(options(server.url("/ok"))));
  box.start();
  EXPECT_TRUE(eventually([&] { return store->inspect().counts().done == 5; }));
}

TEST_F(WebhookNode, I1_AThousandEventsArrive) {
  auto const to = webhook::open(options(server.url("/fail-first/1")));
  auto box = make(to);
  box.start();
  for (int i = 0; i < 1000; ++i) write(box, "e" + std::to_string(i));
  ASSERT_TRUE(eventually([&] { return store->inspect().counts().done == 1000; }))
      << store->inspect().counts().done << " done; " << to->health().reason;
  EXPECT_EQ(server.requests(), 2000) << "each was tried twice, and no more";
  EXPECT_LE(server.connections(), 16);
}

}  // namespace
}  // namespace outbox

// The code of docs/how-to/asynchronous-and-batch.md: checked on one thread, then run on several.
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>
#include <outbox/json.hpp>
#include <stop_token>
#include <thread>

#include "support.hpp"

using namespace std::chrono_literals;
using docs::check;
using docs::fixture;
using docs::service;
using docs::strings;

struct order_placed {
  static constexpr std::string_view event_type = "order.placed";
  static constexpr std::string_view aggregate_type = "order";
  using outbox_codec = outbox::json;
  std::string order_id;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(order_placed, order_id)

namespace {

// ---- Answer later

// Renders pictures on its own thread. The queue has a lock because listeners are called by several threads at once.
class renderer {
 public:
  void add(std::string picture, outbox::completion answer) {
    std::lock_guard const lock{mutex_};
    jobs_.push_back({std::move(picture), std::move(answer)});
    added_.notify_one();
  }

 private:
  struct job {
    std::string picture;
    outbox::completion answer;
  };

  void run(std::stop_token const& stop) {
    std::unique_lock lock{mutex_};
    while (added_.wait(lock, stop, [this] { return !jobs_.empty(); })) {
      job next = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      next.answer(outbox::done);  // after rendering next.picture
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable_any added_;
  std::deque<job> jobs_;
  // The last member, because it uses the others.
  std::jthread thread_{[this](std::stop_token const& stop) { run(stop); }};
};

outbox::listeners thumbnails(renderer& pictures) {
  outbox::listeners listeners;
  listeners.on("thumbnail.wanted",
               [&pictures](outbox::delivery const& d, outbox::completion answer) {
                 pictures.add(d.event.payload(), std::move(answer));  // the worker is free for other events
               },
               {.timeout = 1min, .max_in_flight = 8});
  return listeners;
}

void answer_later() {
  fixture t;
  renderer pictures;
  auto box = outbox::single_node(t.options(thumbnails(pictures)));
  box.run_until_idle();
  for (auto const* id : {"a", "b", "c"}) t.write(box, "thumbnail.wanted", id);
  check(box.run_until_idle() == 3, "one thread begins them all");
  docs::wait_for(
      [&] {
        box.run_until_idle();
        return t.store->inspect().counts().done == 3;
      },
      "their answers are settled");

  renderer shared;
  service s{thumbnails(shared)};
  s.write("thumbnail.wanted");
  check(s.finish().delivered == service::many, "every thumbnail is made");
}

// ---- Share a completion

// A line to a partner who answers or hangs up, from another thread. Thread-safe.
class telephone {
 public:
  void ask(std::string const& /*question*/, std::function<void()> on_reply, std::function<void()> on_hangup) {
    std::lock_guard const lock{mutex_};
    calls_.push_back({std::move(on_reply), std::move(on_hangup)});
  }

  // Both happen to every call that waits.
  void reply_and_hang_up() {
    std::vector<call> calls;
    {
      std::lock_guard const lock{mutex_};
      calls = std::exchange(calls_, {});
    }
    for (auto const& c : calls) {
      c.on_reply();
      c.on_hangup();
    }
  }

 private:
  struct call {
    std::function<void()> on_reply;
    std::function<void()> on_hangup;
  };

  std::mutex mutex_;
  std::vector<call> calls_;
};

outbox::listeners quotes(telephone& line) {
  outbox::listeners listeners;
  listeners.on("quote.wanted", [&line](outbox::delivery const& d, outbox::completion answer) {
    auto const shared = std::move(answer).share();
    auto const on_reply = [shared] { shared(outbox::done); };
    auto const on_hangup = [shared] { shared(outbox::failed{"the line is dead"}); };
    line.ask(d.event.payload(), on_reply, on_hangup);
  });
  return listeners;
}

void several_hands() {
  fixture t;
  telephone line;
  auto box = outbox::single_node(t.options(quotes(line)));
  box.run_until_idle();
  t.write(box, "quote.wanted", "q");
  box.run_until_idle();
  check(box.counters().held == 1, "it is open");
  line.reply_and_hang_up();
  box.run_until_idle();
  check(t.row("q").status == outbox::event_status::delivered, "the first answer counts");

  telephone busy;
  service s{quotes(busy)};
  s.write("quote.wanted");
  docs::wait_for(
      [&] {
        busy.reply_and_hang_up();
        return s.settled();
      },
      "every call is answered");
  check(s.finish().delivered == service::many, "every quote is there");
}

// ---- Receive many events in one call

// Thread-safe.
class search_index {
 public:
  void add(strings const& orders) {
    std::lock_guard const lock{mutex_};
    orders_.insert(orders_.end(), orders.begin(), orders.end());
    additions_ += 1;
  }
  [[nodiscard]] strings orders() const {
    std::lock_guard const lock{mutex_};
    return orders_;
  }
  [[nodiscard]] std::size_t additions() const {
    std::lock_guard const lock{mutex_};
    return additions_;
  }

 private:
  mutable std::mutex mutex_;
  strings orders_;
  std::size_t additions_ = 0;
};

outbox::listeners indexing(search_index& index) {
  outbox::listeners listeners;
  listeners.on_batch<order_placed>(
      [&index](std::span<order_placed const> orders, std::span<outbox::delivery const> deliveries) {
        std::vector<std::string> known;
        std::vector<outbox::result> results;
        for (std::size_t i = 0; i < orders.size(); ++i) {
          if (orders[i].order_id.empty()) {
            results.emplace_back(outbox::dead{"event " + deliveries[i].id + " names no order"});
          } else {
            known.push_back(orders[i].order_id);
            results.emplace_back(outbox::done);
          }
        }
        index.add(known);  // it has a lock because several batches may run at once
        return results;    // one for each event, in order
      },
      {.name = "search index", .max_batch = 200});
  return listeners;
}

void batches() {
  fixture t;
  search_index index;
  auto box = outbox::single_node(t.options(indexing(index)));
  box.run_until_idle();
  {
    outbox::memory::transaction tx{*t.store};
    for (auto const* id : {"1", "2", "", "4"}) box.writer().write(tx, order_placed{id});
    tx.commit();
  }
  check(box.run_until_idle() == 4 && index.additions() == 1, "one call for what waits");
  check(index.orders() == strings{"1", "2", "4"}, "each has its own result");
  check(box.dead_events().count({.aggregate_type = "order"}) == 1, "one is dead");

  search_index shared;
  service s{indexing(shared)};
  s.write("order.placed", R"({"order_id":"42"})", "order");
  s.write("order.placed", R"({"order_id":""})", "order");
  auto const counted = s.finish();
  check(counted.delivered == service::many && counted.dead == service::many, "each has its own result there too");
  check(shared.orders().size() == service::many, "and none is lost");
}

}  // namespace

int main() {
  try {
    answer_later();
    several_hands();
    batches();
    std::printf("asynchronous-and-batch: answers later, results together\n");
    return 0;
  } catch (std::exception const& e) {
    std::printf("does not hold: %s\n", e.what());
    return 1;
  }
}

// How to test a listener: with the memory store and a manual clock, without threads and without waiting. It uses
// GoogleTest; the library does not depend on it.
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <nlohmann/json.hpp>
#include <outbox/json.hpp>
#include <outbox/memory.hpp>
#include <outbox/outbox.hpp>
#include <outbox/testing.hpp>
#include <thread>

using namespace std::chrono_literals;

// The service's own code, which is tested.
struct invoice_due {
  static constexpr std::string_view event_type = "invoice.due";
  using outbox_codec = outbox::json;
  std::string number;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(invoice_due, number)

// It has a lock because listeners are called by several threads at once.
struct bank {
  std::atomic<int> status = 200;

  void collect(std::string const& invoice) {
    std::lock_guard const lock{mutex};
    collected.push_back(invoice);
  }

  std::mutex mutex;
  std::vector<std::string> collected;
};

void add_listeners(outbox::listeners& listeners, bank& b) {
  listeners.on<invoice_due>([&b](invoice_due const& e) -> outbox::result {
    if (b.status == 503) return outbox::failed{"the bank is closed"};
    if (b.status == 429) return outbox::defer{1h, "the bank is busy"};
    if (b.status == 402) return outbox::dead{"the account is closed"};
    b.collect(e.number);
    return outbox::done;
  });
}

// The tests.
class InvoiceListener : public ::testing::Test {
 protected:
  InvoiceListener() { box.run_until_idle(); }

  void write(std::string const& number) {
    outbox::memory::transaction tx{*store};
    box.writer().write(tx, invoice_due{number}, {.id = number});
    tx.commit();
  }
  outbox::row_view row(std::string const& id) { return store->inspect().find(id).value(); }
  outbox::listeners with_listeners() {
    outbox::listeners l;
    add_listeners(l, the_bank);
    return l;
  }

  bank the_bank;
  std::shared_ptr<outbox::testing::manual_clock> clock = std::make_shared<outbox::testing::manual_clock>();
  std::shared_ptr<outbox::store> store = outbox::memory::open({.clock = clock});
  std::shared_ptr<outbox::testing::recorder> recorder = std::make_shared<outbox::testing::recorder>();
  outbox::node box = outbox::single_node(
      {.store = store, .listeners = with_listeners(), .log = nullptr, .clock = clock, .interceptors = {recorder}});
};

TEST_F(InvoiceListener, CollectsOnce) {
  write("2030-1");
  EXPECT_EQ(box.run_until_idle(), 1U);
  EXPECT_EQ(the_bank.collected, std::vector<std::string>{"2030-1"});
  EXPECT_EQ(row("2030-1").status, outbox::event_status::delivered);
}

TEST_F(InvoiceListener, TriesAgainWhileTheBankIsClosed) {
  the_bank.status = 503;
  write("2030-1");
  box.run_until_idle();
  EXPECT_EQ(row("2030-1").last_error, "the bank is closed");
  the_bank.status = 200;
  outbox::testing::run_until_done(box, *clock, *store);  // moves the clock past every backoff
  EXPECT_EQ(recorder->count("2030-1"), 2U);
  EXPECT_EQ(recorder->deliveries().back().attempt, 2);
}

TEST_F(InvoiceListener, WaitsAnHourForABusyBank) {
  the_bank.status = 429;
  write("2030-1");
  box.run_until_idle();
  the_bank.status = 200;
  clock->advance(59min);
  EXPECT_EQ(box.run_until_idle(), 0U);
  clock->advance(1min);
  EXPECT_EQ(box.run_until_idle(), 1U);
  EXPECT_EQ(row("2030-1").attempts, 0) << "a deferral is not counted";
}

TEST_F(InvoiceListener, GivesUpOnAClosedAccount) {
  the_bank.status = 402;
  write("2030-1");
  box.run_until_idle();
  EXPECT_EQ(box.dead_events().count(), 1U);
}

TEST_F(InvoiceListener, SurvivesAStoreThatFails) {
  int failures = 3;
  auto const faulty = std::make_shared<outbox::testing::faulty_store>(store, [&](outbox::testing::operation what) {
    bool const settle = what == outbox::testing::operation::settle;
    return settle && failures-- > 0 ? outbox::testing::fault::before : outbox::testing::fault::none;
  });
  box.stop();
  box = outbox::single_node({.store = faulty, .listeners = with_listeners(), .log = nullptr, .clock = clock});
  box.run_until_idle();
  write("2030-1");
  outbox::testing::run_until_done(box, *clock, *store);
  EXPECT_EQ(the_bank.collected.size(), 1U) << "the settlement was repeated, not the delivery";
  EXPECT_EQ(row("2030-1").status, outbox::event_status::delivered);
}

// A test on one thread shows no race. Run this test under the thread sanitizer too: -fsanitize=thread.
TEST_F(InvoiceListener, WorksOnSeveralThreads) {
  auto const real = outbox::memory::open();  // with the machine's clock
  auto service = outbox::single_node({.store = real, .listeners = with_listeners(), .workers = 4, .log = nullptr});
  service.start();
  for (int i = 0; i < 200; ++i) {
    outbox::memory::transaction tx{*real};
    service.writer().write(tx, invoice_due{std::to_string(i)});
    tx.commit();
  }
  while (real->inspect().counts().pending() > 0) std::this_thread::yield();
  EXPECT_TRUE(service.stop());
  EXPECT_EQ(the_bank.collected.size(), 200U);
}

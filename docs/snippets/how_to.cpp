// The code of docs/how-to and docs/reference, one function per page. Each function checks what its page says, runs the
// page's listeners on several threads, and prints a line.
#include <sqlite3.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <outbox/sqlite.hpp>
#include <thread>

#include "support.hpp"

using namespace std::chrono_literals;
using docs::check;
using docs::fixture;
using docs::service;
using docs::strings;

namespace {

// ---- join-your-transaction.md

// A layer that knows nothing of transactions.
class loyalty {
 public:
  loyalty(outbox::writer writer, outbox::tx_context const& current) : writer_{std::move(writer)}, current_{current} {}

  void award(std::string const& customer) const {
    writer_.write(current_, "points.awarded", R"({"points":10})", {.aggregate = {"customer", customer}});
  }

 private:
  outbox::writer writer_;
  outbox::tx_context const& current_;
};

void join_your_transaction(std::string const& path) {
  auto const store = outbox::sqlite::open(path);
  auto const seen = std::make_shared<outbox::testing::recorder>();
  outbox::listeners listeners;
  listeners.on("order.placed", [](outbox::delivery const&) {});
  listeners.on("points.awarded", [](outbox::delivery const&) {});
  auto box =
      outbox::single_node({.store = store, .listeners = std::move(listeners), .log = nullptr, .interceptors = {seen}});
  box.run_until_idle();
  auto const writer = box.writer();
  auto const delivered = [&](std::size_t n, outbox::path from) {
    return box.run_until_idle() == n && seen->deliveries().back().path == from;
  };

  outbox::sqlite::connection db{path};
  db.execute("CREATE TABLE orders (id TEXT PRIMARY KEY)");
  {
    outbox::sqlite::transaction tx{db};  // BEGIN IMMEDIATE
    tx.execute("INSERT INTO orders VALUES (?)", "1");
    writer.write(tx, "order.placed", R"({"order":"1"})", {.aggregate = {"order", "1"}});
    tx.commit();  // without it the destructor rolls back
  }
  check(delivered(1, outbox::path::hot), "an RAII transaction is delivered hot");

  sqlite3* handle = nullptr;
  check(sqlite3_open(path.c_str(), &handle) == SQLITE_OK, "the file can be opened again");
  {
    outbox::sqlite::transaction tx{handle};  // your handle: it stays open, and nothing is left behind on it
    tx.execute("INSERT INTO orders VALUES (?)", "2");
    writer.write(tx, "order.placed", R"({"order":"2"})", {.aggregate = {"order", "2"}});
    tx.commit();
  }
  check(delivered(1, outbox::path::hot), "so is one on a raw handle");

  sqlite3_exec(handle, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr);
  sqlite3_exec(handle, "INSERT INTO orders VALUES ('3')", nullptr, nullptr, nullptr);
  writer.write(handle, "order.placed", R"({"order":"3"})", {.aggregate = {"order", "3"}});
  sqlite3_exec(handle, "COMMIT", nullptr, nullptr, nullptr);
  check(delivered(1, outbox::path::cold), "a raw transaction is the poller's");

  bool refused = false;
  try {
    writer.write(handle, "order.placed", "{}");
  } catch (outbox::error const& e) {
    refused = e.code() == outbox::errc::no_transaction;
  }
  check(refused, "writing outside a transaction is refused");
  sqlite3_close(handle);

  {
    outbox::thread_local_context current;
    loyalty const points{box.writer(), current};

    outbox::managed_transaction<outbox::sqlite::transaction> tx{current, db};
    db.execute("INSERT INTO orders VALUES (?)", "4");
    points.award("ada");  // joins the current transaction
    tx.commit();
  }
  check(delivered(1, outbox::path::hot), "the current transaction is joined");
  {
    outbox::thread_local_context current;
    loyalty const points{box.writer(), current};

    outbox::sqlite::transaction tx{db};
    outbox::thread_local_context::scope const scope{current, tx};
    points.award("bob");
    tx.commit();
  }
  check(delivered(1, outbox::path::hot), "a scope makes it current too");

  {
    std::vector<outbox::event> events;
    for (auto const* id : {"5", "6", "7"}) {
      events.push_back(outbox::event::json("order.placed", "{}", {.aggregate = {"order", id}}, writer.limits()));
    }
    outbox::sqlite::transaction tx{db};
    auto const ids = writer.write_all(tx, events);
    tx.commit();
    check(ids.size() == 3, "one id for every row");
  }
  check(delivered(3, outbox::path::hot), "write_all is one write");
  std::printf("join-your-transaction: hot, hot, cold, and the current one\n");
}

// ---- retries-and-dead-letters.md

// Clients of other services. They are thread-safe because listeners are called by several threads at once.
struct bank {
  std::atomic<int> status = 200;
  int collect(std::string const& /*payment*/) const { return status; }
};

outbox::listeners payments(bank const& b) {
  outbox::listeners listeners;
  listeners.on("payment.requested",
               [&b](outbox::delivery const& d) -> outbox::result {
                 switch (b.collect(d.id)) {
                   case 200: return outbox::done;
                   case 429: return outbox::defer{1min, "the bank is busy"};    // tried again in a minute, not counted
                   case 503: return outbox::failed{"the bank is closed"};       // counted, waits for the backoff
                   case 504: return outbox::failed{"the bank is slow", 10min};  // counted, waits ten minutes
                   default: return outbox::dead{"the bank refused " + d.id};    // DEAD at once, not counted
                 }
               },
               {.name = "bank",
                .timeout = 30s,
                .retry = outbox::retry_policy{.max_attempts = 3, .backoff = {.base = 1s, .cap = 1min}}});
  return listeners;
}

struct mail_server {
  std::atomic<bool> refuses = false;
  [[nodiscard]] bool busy() const { return refuses; }
  void send(std::string const& /*to*/) const { throw std::runtime_error{"connection refused"}; }
};

outbox::listeners mails(mail_server const& server) {
  outbox::listeners listeners;
  listeners.on("mail.requested", [&server](outbox::delivery const& d) {
    if (d.event.payload() == "null") throw outbox::permanent_failure{"no address"};  // DEAD at once, not counted
    if (server.busy()) throw outbox::failure{"the server is busy", 5min};            // counted, waits five minutes
    server.send(d.event.payload());  // every other exception is counted and waits for the backoff
  });
  return listeners;
}

void results_and_exceptions() {
  fixture t;
  bank b;
  auto box = outbox::single_node(t.options(payments(b)));
  box.run_until_idle();
  auto const answer = [&](int status, outbox::event_status becomes, std::int32_t counted) {
    auto const id = "p" + std::to_string(status);
    b.status = status;
    t.write(box, "payment.requested", id);
    box.run_until_idle();
    return t.row(id).status == becomes && t.row(id).attempts == counted;
  };
  check(answer(200, outbox::event_status::delivered, 0), "done is DONE");
  check(answer(429, outbox::event_status::created, 0), "defer is NEW, not counted");
  check(t.row("p429").available_at - t.clock->now() == 1min, "and due after its delay");
  check(answer(503, outbox::event_status::retry, 1), "failed is RETRY, counted");
  check(t.row("p503").available_at - t.clock->now() < 1501ms, "and due after the backoff");
  check(answer(504, outbox::event_status::retry, 1), "so is one with a wait of its own");
  check(t.row("p504").available_at - t.clock->now() == 10min, "which is due after that");
  check(answer(422, outbox::event_status::dead, 0), "dead is DEAD, not counted");

  b.status = 503;
  t.write(box, "payment.requested", "unlucky");
  outbox::testing::run_until_done(box, *t.clock, *t.store);
  check(t.row("unlucky").status == outbox::event_status::dead, "attempts are used up");
  check(t.row("unlucky").attempts == 3 && t.seen->count("unlucky") == 3, "after three of them");

  fixture m;
  mail_server server;
  auto post = outbox::single_node(m.options(mails(server)));
  post.run_until_idle();
  m.write(post, "mail.requested", "nowhere", "null");
  m.write(post, "mail.requested", "refused");
  post.run_until_idle();
  server.refuses = true;
  m.write(post, "mail.requested", "busy");
  post.run_until_idle();
  check(m.row("nowhere").status == outbox::event_status::dead && m.row("nowhere").attempts == 0, "permanent_failure");
  check(m.row("refused").status == outbox::event_status::retry && m.row("refused").attempts == 1, "any exception");
  check(m.row("busy").available_at - m.clock->now() == 5min && m.row("busy").attempts == 1, "failure with a wait");
}

void dead_events() {
  fixture t;
  bank b;
  b.status = 422;
  auto box = outbox::single_node(t.options(payments(b)));
  box.run_until_idle();
  for (auto const* id : {"p1", "p2", "p3"}) t.write(box, "payment.requested", id);
  box.run_until_idle();

  auto const dead = box.dead_events();
  for (auto const& d : dead.query({.event_type = "payment.requested"}, 20)) {
    std::printf("%s: %s\n", d.event.id().c_str(), d.last_error.c_str());
  }
  check(dead.count() == 3, "three are dead");

  b.status = 200;  // the bank has corrected the error
  bool const one = dead.replay("p1");
  auto const rest = dead.replay_all({.event_type = "payment.requested"});
  check(one && rest == 2, "one, then the rest");
  check(box.run_until_idle() == 3 && dead.count() == 0, "all are delivered");
  check(!dead.replay("p1"), "what is done is not replayed");

  auto const& store = t.store;
  outbox::dead_events const tool{store};  // without a node
  check(tool.count() == 0, "a store is enough to look");
}

void cancelled_events() {
  fixture t;
  bank const b;
  auto box = outbox::single_node(t.options(payments(b)));
  box.run_until_idle();
  auto const feeder = outbox::writer_only({.store = t.store});  // so that no node holds them yet
  t.write(feeder, "payment.requested", "01KA5QYV3N9E0R6T4B2M8C7WXD");
  for (auto const* id : {"m1", "m2"}) t.write(feeder, "mail.newsletter", id);
  box.cancel("01KA5QYV3N9E0R6T4B2M8C7WXD", "ordered by mistake");               // one event
  box.cancel({.event_type = "mail.newsletter"}, "the campaign is called off");  // all that are pending
  check(box.run_until_idle() == 0 && box.dead_events().count() == 3, "none of them is delivered");
}

void pauses() {
  fixture t;
  bank const b;
  auto box = outbox::single_node(t.options(payments(b)));
  box.run_until_idle();

  box.pause({.event_type = "payment.requested"});
  t.write(box, "payment.requested", "p1");  // writing continues
  check(box.run_until_idle() == 0, "nothing is delivered");
  check(box.paused().size() == 1, "the table knows");
  box.resume({.event_type = "payment.requested"});
  check(box.run_until_idle() == 1, "then it is");
}

void many_payments_and_mails() {
  bank b;
  service payment{payments(b)};
  payment.write("payment.requested");
  b.status = 422;  // while calls are under way
  payment.write("payment.requested");
  auto const paid = payment.finish();
  check(paid.delivered + paid.dead == 2 * service::many && paid.dead > 0, "every payment is answered");

  mail_server server;
  service post{mails(server)};
  post.write("mail.requested", "null");
  server.refuses = true;
  post.write("mail.requested");
  auto const sent = post.finish();
  check(sent.dead == service::many && sent.failed >= service::many, "every mail is answered");
}

void retries_and_dead_letters() {
  results_and_exceptions();
  dead_events();
  cancelled_events();
  pauses();
  many_payments_and_mails();
  std::printf("retries-and-dead-letters: counted, replayed, paused\n");
}

// ---- delayed-events.md

outbox::listeners reports(std::atomic<bool> const& ready) {  // atomic: another thread sets it while listeners run
  outbox::listeners listeners;
  listeners.on("report.wanted", [&ready](outbox::delivery const&) -> outbox::result {
    if (!ready) return outbox::defer{15min, "the figures are not there yet"};
    return outbox::done;
  });
  return listeners;
}

void delayed_events() {
  fixture t;
  std::atomic<bool> ready = false;
  auto listeners = reports(ready);
  listeners.on("reminder.due", [](outbox::delivery const&) {});
  auto box = outbox::single_node(t.options(std::move(listeners)));
  box.run_until_idle();
  auto const writer = box.writer();
  auto const& store = t.store;
  {
    outbox::memory::transaction tx{*store};
    writer.write(tx, "reminder.due", "1", {.deliver_after = 2h});  // two hours after the insert, by the store's clock

    auto const the_day_after_tomorrow = std::chrono::floor<std::chrono::days>(store->now()) + 48h;
    writer.write(tx, "reminder.due", "2", {.available_at = the_day_after_tomorrow});  // not before this instant
    tx.commit();
  }
  check(box.run_until_idle() == 0, "neither is due");
  t.clock->advance(2h - 1ms);
  check(box.run_until_idle() == 0, "not yet");
  t.clock->advance(1ms);
  check(box.run_until_idle() == 1, "the first is");
  t.clock->advance(48h);
  check(box.run_until_idle() == 1, "and the second");
  check(box.counters().hot_skipped_delayed == 2, "delayed events are the poller's");

  t.write(box, "report.wanted", "r");
  box.run_until_idle();
  ready = true;
  t.clock->advance(15min);
  check(box.run_until_idle() == 1 && t.row("r").attempts == 0, "a deferral is not counted");

  std::atomic<bool> there = false;
  service s{reports(there)};
  s.write("report.wanted");
  there = true;
  s.write("report.wanted");
  auto const counted = s.finish();
  check(counted.delivered + counted.deferred == 2 * service::many && counted.delivered > 0, "each is made or deferred");
  std::printf("delayed-events: by the store's clock\n");
}

// ---- testing.md

void recorded_writes() {
  auto const store = outbox::memory::open();
  auto const hook = std::make_shared<outbox::testing::recording_hook>();
  auto box = outbox::writer_only({.store = store, .hook = hook, .log = nullptr});
  {
    outbox::memory::transaction tx{*store};
    box.writer().write(tx, "order.placed", "1", {.id = "kept"});
    tx.commit();
  }
  {
    outbox::memory::transaction tx{*store};
    box.writer().write(tx, "order.placed", "2", {.id = "undone"});
  }
  check(hook->written() == strings{"kept", "undone"}, "both were written");
  check(hook->committed() == strings{"kept"}, "one was committed");
  check(hook->rolled_back() == strings{"undone"}, "and one was not");
}

void commit_in_doubt() {
  auto fate = outbox::memory::commit_fate::ok;
  auto const store = outbox::memory::open({.at_commit = [&] { return fate; }});
  outbox::listeners listeners;
  listeners.on("order.placed", [](outbox::delivery const&) {});
  auto box = outbox::single_node({.store = store, .listeners = std::move(listeners), .log = nullptr});
  box.run_until_idle();

  outbox::memory::transaction tx{*store};
  box.writer().write(tx, "order.placed", "1");
  fate = outbox::memory::commit_fate::lost_applied;  // COMMIT is applied, but its reply is lost
  try {
    tx.commit();
    check(false, "the commit must not return");
  } catch (outbox::error const& e) {
    check(e.in_doubt(), "the caller is told");
  }
  check(box.run_until_idle() == 1, "the poller finds the row");
}

void testing() {
  recorded_writes();
  commit_in_doubt();
  std::printf("testing: no thread, no waiting\n");
}

// ---- purge.md

void purge() {
  fixture t;
  std::atomic<bool> broken = false;
  outbox::listeners listeners;
  listeners.on("order.placed", [&broken](outbox::delivery const&) -> outbox::result {
    if (broken) return outbox::dead{"no such order"};
    return outbox::done;
  });
  auto options = t.options(std::move(listeners));
  options.purge = outbox::purge_options{.keep = 72h, .every = 10min, .dead = false};  // DEAD rows stay until replayed
  auto box = outbox::single_node(std::move(options));
  box.run_until_idle();
  t.write(box, "order.placed", "done");
  box.run_until_idle();
  broken = true;
  t.write(box, "order.placed", "dead");
  box.run_until_idle();
  check(box.purge_once() == 0, "both are young");
  t.clock->advance(72h);
  auto const rows = box.purge_once();  // now, on this thread, batch by batch
  check(rows == 1 && t.row("dead").status == outbox::event_status::dead, "the done one goes");

  outbox::writer_only_options only{.store = t.store, .log = nullptr, .clock = t.clock};
  only.purge = outbox::age_purge_options{.keep = 48h};  // by age, whatever the status of the row
  auto feeder = outbox::writer_only(std::move(only));
  box.run_until_idle();
  check(feeder.purge_once() == 0, "a node that dispatches is live");
  box.stop();
  check(feeder.purge_once() == 1, "now it goes by age, dead as it is");
  std::printf("purge: by the end of a row, or by its age\n");
}

// ---- ordered.md

outbox::ordered_options accounts(std::shared_ptr<outbox::store> store, std::atomic<bool> const& open,
                                 std::atomic<bool> const& repaired) {
  outbox::ordered_options options{.store = std::move(store)};
  options.listeners.on("account.changed", [&](outbox::delivery const& d) -> outbox::result {
    if (d.id == "b" && !repaired) return outbox::failed{"no such account"};  // DEAD: there is one attempt
    if (d.id == "c" && !open) return outbox::defer{10min, "the ledger is closed"};
    return outbox::done;
  });
  return options;
}

void ordered() {
  fixture t;
  std::atomic<bool> open = false;
  std::atomic<bool> repaired = false;
  auto options = accounts(t.store, open, repaired);
  options.log = nullptr;
  options.clock = t.clock;
  options.interceptors = {t.seen};
  auto box = outbox::ordered(std::move(options));
  box.run_until_idle();
  for (auto const* id : {"a", "b", "c", "d"}) t.write(box, "account.changed", id);
  box.run_until_idle();
  check(t.seen->ids() == strings{"a", "b", "c"}, "d waits behind c");
  open = true;
  t.clock->advance(10min);
  box.run_until_idle();
  check(t.seen->ids() == strings{"a", "b", "c", "c", "d"}, "a deferral waits in place");

  repaired = true;
  box.dead_events().replay("b");  // delivered now, after events that were written later
  box.run_until_idle();
  check(t.seen->ids().back() == "b" && t.row("b").status == outbox::event_status::delivered, "b was overtaken");
}

void many_in_order() {
  auto const store = outbox::memory::open();
  auto const seen = std::make_shared<outbox::testing::recorder>();
  std::atomic<bool> open = false;
  std::atomic<bool> repaired = false;
  auto options = accounts(store, open, repaired);
  options.log = nullptr;
  options.interceptors = {seen};
  auto box = outbox::ordered(std::move(options));
  box.start();
  strings written;
  for (std::size_t i = 0; i < service::many; ++i) {
    written.push_back(std::to_string(i));
    outbox::memory::transaction tx{*store};
    box.writer().write(tx, "account.changed", "1", {.id = written.back()});
    tx.commit();
    open = repaired = i > service::many / 2;
  }
  docs::wait_for([&] { return store->inspect().counts().pending() == 0; }, "every change is delivered");
  check(box.stop(), "the node stops in time");
  check(seen->ids() == written, "in the order of writing");
}

void in_order() {
  ordered();
  many_in_order();
  std::printf("ordered: by seq, one at a time\n");
}

// ---- stop-a-node.md

// A long task that is done page by page. Thread-safe.
struct archive {
  std::atomic<int> exported = 0;
  bool export_next_page() {
    std::this_thread::sleep_for(1ms);
    return ++exported > 0;
  }
};

outbox::listeners exports(archive& a) {
  outbox::listeners listeners;
  listeners.on("export.wanted", [&a](outbox::delivery const& d) -> outbox::result {
    while (a.export_next_page()) {
      if (d.stop.stop_requested()) return outbox::defer{1s, "the node stops"};  // back to the table, not counted
    }
    return outbox::done;
  });
  return listeners;
}

// Call it at the beginning of main(), before any thread is made: threads inherit the mask.
sigset_t block_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

bool serve(outbox::node& box, sigset_t const& signals) {
  box.start();
  int received = 0;
  sigwait(&signals, &received);           // the service runs until it receives a signal
  bool const everything = box.stop(20s);  // a few seconds less than the grace period of the supervisor
  if (!everything) std::fprintf(stderr, "some events were released, or a listener still runs\n");
  return everything;
}

void stop_a_node() {
  auto const signals = block_signals();
  auto const store = outbox::memory::open();
  {
    outbox::listeners listeners;
    listeners.on("order.placed", [](outbox::delivery const&) {});
    auto box = outbox::single_node({.store = store, .listeners = std::move(listeners), .log = nullptr});
    std::jthread const supervisor{[&] {
      docs::wait_for([&] { return box.health().running; }, "the node runs");
      for (std::size_t i = 0; i < service::many; ++i) {
        outbox::memory::transaction tx{*store};
        box.writer().write(tx, "order.placed", "1");
        tx.commit();
      }
      ::kill(::getpid(), SIGTERM);
    }};
    check(serve(box, signals), "what the node held is finished and settled");
    auto const counts = store->inspect().counts();
    check(counts.done + counts.pending() == service::many, "the rest waits in the table");
  }
  archive a;
  auto box = outbox::single_node({.store = store, .listeners = exports(a), .log = nullptr});
  std::jthread runs{[&box](std::stop_token const& token) { box.run(token); }};
  docs::wait_for([&] { return box.health().running; }, "the node runs");
  for (auto const* id : {"a", "b", "c"}) {
    outbox::memory::transaction tx{*store};
    box.writer().write(tx, "export.wanted", "1", {.id = id});
    tx.commit();
  }
  docs::wait_for([&] { return a.exported > 10; }, "the exports have begun");
  check(!box.stop(10ms), "an export still runs at the deadline");
  runs = {};  // run() stops the node too, and waits for the running listeners
  for (auto const* id : {"a", "b", "c"}) {
    auto const row = store->inspect().find(id).value();
    check(row.status == outbox::event_status::created && row.attempts == 0, "it is back in the table, not counted");
  }
  std::printf("stop-a-node: at once, or at the deadline\n");
}

// ---- reference/metrics.md

// Figures in the text format of Prometheus. The node's threads write them, and another thread reads them in scrape().
class figures final : public outbox::metrics {
 public:
  void add(outbox::counter c, std::uint64_t n) noexcept override { counters_[static_cast<std::size_t>(c)] += n; }
  void set(outbox::gauge g, std::int64_t value) noexcept override { gauges_[static_cast<std::size_t>(g)] = value; }

  [[nodiscard]] std::string scrape() const {
    std::string text;
    for (auto const c : outbox::all_counters()) {
      auto const name = outbox::full_name(c, "shop.outbox", '_') + "_total";
      text += "# TYPE " + name + " counter\n" + name + " " +
              std::to_string(counters_[static_cast<std::size_t>(c)].load()) + "\n";
    }
    for (auto const g : outbox::all_gauges()) {
      auto const name = outbox::full_name(g, "shop.outbox", '_');
      text += "# TYPE " + name + " gauge\n" + name + " " + std::to_string(gauges_[static_cast<std::size_t>(g)].load()) +
              "\n";
    }
    return text;
  }

 private:
  using counters = std::vector<std::atomic<std::uint64_t>>;
  using gauges = std::vector<std::atomic<std::int64_t>>;
  counters counters_ = counters(outbox::all_counters().size());
  gauges gauges_ = gauges(outbox::all_gauges().size());
};

void metrics() {
  fixture t;
  outbox::listeners listeners;
  listeners.on("order.placed", [](outbox::delivery const&) {});
  auto options = t.options(std::move(listeners));
  auto const collected = std::make_shared<figures>();
  options.metrics = collected;
  auto box = outbox::single_node(std::move(options));
  box.run_until_idle();
  t.write(box, "order.placed", "a");
  box.run_until_idle();
  auto const says = [](figures const& f, std::string const& line) {
    return f.scrape().find(line) != std::string::npos;
  };
  check(says(*collected, "\nshop_outbox_dispatch_success_total 1\n"), "one was delivered");
  check(says(*collected, "# TYPE shop_outbox_held gauge\nshop_outbox_held 0\n"), "nothing is held");
  auto const c = box.counters();
  check(c.hot_enqueued + c.cold_enqueued == c.settled + c.released + c.lost + c.unconfirmed + c.held, "they add up");

  auto const busy = std::make_shared<figures>();
  outbox::listeners more;
  more.on("order.placed", [](outbox::delivery const&) {});
  service s{std::move(more), busy};
  s.write("order.placed");
  docs::wait_for(
      [&] { return says(*busy, "shop_outbox_dispatch_success_total " + std::to_string(service::many) + "\n"); },
      "a scrape sees them all");
  s.finish();
  std::printf("metrics: scraped while the node runs\n");
}

void use_your_own_table(std::string const& path) {
  outbox::sqlite::connection db{path};
  db.execute(
      "CREATE TABLE outbox (id TEXT PRIMARY KEY, aggregate_type TEXT NOT NULL, aggregate_id TEXT NOT NULL, event_type "
      "TEXT NOT NULL, payload TEXT NOT NULL, status TEXT NOT NULL, created_at TEXT NOT NULL, sent_at TEXT, "
      "error_message TEXT)");
  db.execute(
      "INSERT INTO outbox (id, aggregate_type, aggregate_id, event_type, payload, status, created_at) VALUES "
      "('0190a0b0-0000-7000-8000-000000000001', 'Order', '0190a0b0-0000-7000-8000-000000000002', 'OrderCreated', "
      "'{}', 'NEW', '2030-01-31 12:00:00')");
  int calls = 0;
  outbox::listeners listeners;
  listeners.on("OrderCreated", [&](outbox::delivery const&) { ++calls; });

  auto store = outbox::sqlite::open(path, {.layout = outbox::layouts::polled_outbox()});
  auto box = outbox::single_node({.store = store, .listeners = std::move(listeners)});

  box.run_until_idle();
  check(calls == 1, "a row of another program is delivered");
  check(db.query_one<std::string>("SELECT status FROM outbox") == "SENT", "and marked with the word of its table");

  outbox::table_layout messages{.table = "shop.message",
                                .id = "message_id",
                                .event_type = "kind",
                                .status = "state",
                                .error = "problem",
                                .pending = "waiting",
                                .done = "gone",
                                .dead = "broken"};
  outbox::check(messages);
  std::printf("use-your-own-table: as it is\n");
}

int run_all(std::string const& directory) {
  try {
    join_your_transaction(directory + "/shop.db");
    retries_and_dead_letters();
    delayed_events();
    testing();
    purge();
    in_order();
    stop_a_node();
    metrics();
    use_your_own_table(directory + "/orders.db");
    return 0;
  } catch (std::exception const& e) {
    std::printf("does not hold: %s\n", e.what());
    return 1;
  }
}

}  // namespace

int main() {
  auto directory = (std::filesystem::temp_directory_path() / "outbox-docs-XXXXXX").string();
  if (::mkdtemp(directory.data()) == nullptr) return 1;
  int const verdict = run_all(directory);
  std::filesystem::remove_all(directory);
  return verdict;
}

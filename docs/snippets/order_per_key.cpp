// The code of docs/how-to/order-per-key.md. It checks what the page says, runs the listener on several threads, and
// prints a line.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <map>
#include <mutex>
#include <outbox/spi/store.hpp>

#include "support.hpp"

using namespace std::chrono_literals;
using docs::check;
using docs::fixture;
using docs::service;
using docs::strings;

namespace {

outbox::keyed_options warehouse(std::shared_ptr<outbox::store> store, std::atomic<bool> const& repaired) {
  outbox::keyed_options options{.store = std::move(store)};
  options.listeners.on("stock.changed", [&repaired](outbox::delivery const& d) -> outbox::result {
    if (d.id == "a2" && !repaired) return outbox::dead{"no such shelf"};  // parks its key: a3 waits
    return outbox::done;
  });
  return options;
}

// The id of each event begins with its key.
void one_key_waits() {
  fixture t;
  std::atomic<bool> repaired = false;
  auto options = warehouse(t.store, repaired);
  options.log = nullptr;
  options.clock = t.clock;
  options.interceptors = {t.seen};
  auto box = outbox::keyed(std::move(options));
  box.run_until_idle();

  auto const writer = box.writer();
  auto const change = [&](std::string const& id, outbox::event_options about) {
    outbox::memory::transaction tx{*t.store};
    about.id = id;
    writer.write(tx, "stock.changed", "1", std::move(about));
    tx.commit();
  };
  for (auto const* id : {"a1", "a2", "a3"}) change(id, {.aggregate = {"article", "a"}});
  {
    outbox::memory::transaction tx{*t.store};
    writer.write(tx, "stock.changed", "1", {.id = "b1", .aggregate = {"article", "b"}});  // the key is article b
    writer.write(tx, "stock.changed", "1",
                 {.id = "b2", .aggregate = {"article", "b"}, .ordering_key = "shelf 9"});  // the key is shelf 9
    writer.write(tx, "stock.changed", "1", {.id = "c1"});                                  // no key, no order
    tx.commit();
  }
  box.run_until_idle();
  auto const seen = [&](char const* id) {
    auto const ids = t.seen->ids();
    return std::ranges::count(ids, id);
  };
  check(seen("a1") == 1 && seen("a2") == 1 && seen("a3") == 0, "a3 waits behind a2");
  check(seen("b1") == 1 && seen("b2") == 1 && seen("c1") == 1, "other keys do not");

  auto& store = *t.store;
  for (auto const& k : store.inspect().parked_keys(100)) {
    std::printf("%s waits behind %s: %llu events\n", k.key.c_str(), k.id.c_str(),
                static_cast<unsigned long long>(k.waiting));
  }
  repaired = true;
  box.dead_events().replay("a2");  // delivered now; then a3
  box.run_until_idle();
  check(seen("a2") == 2 && t.seen->ids().back() == "a3", "in their old places");
}

void discarded() {
  fixture t;
  std::atomic<bool> const repaired = false;
  auto options = warehouse(t.store, repaired);
  options.log = nullptr;
  options.clock = t.clock;
  options.interceptors = {t.seen};
  auto box = outbox::keyed(std::move(options));
  box.run_until_idle();
  for (auto const* id : {"a2", "a3"}) {
    outbox::memory::transaction tx{*t.store};
    box.writer().write(tx, "stock.changed", "1", {.id = id, .aggregate = {"article", "a"}});
    tx.commit();
  }
  box.run_until_idle();
  check(t.seen->ids() == strings{"a2"}, "a3 waits");
  box.dead_events().discard("a2");  // stays DEAD, outside the order; a3 is delivered now
  box.run_until_idle();
  check(t.seen->ids() == strings{"a2", "a3"} && !t.row("a2").blocked, "a2 is outside the order");
}

// A node of another mode would break the order, so it is refused.
void the_mark_stays() {
  fixture t;
  {
    auto box = outbox::keyed({.store = t.store, .log = nullptr, .clock = t.clock});
    box.run_until_idle();
  }
  auto other = outbox::multi_node({.store = t.store, .log = nullptr, .clock = t.clock});
  try {
    other.run_until_idle();
    check(false, "the table is keyed");
  } catch (outbox::error const& e) {
    check(e.code() == outbox::errc::mode_conflict, "another mode is refused");
  }
}

// Events that a multi_node left behind, and dead ones among them.
void from_multi_node_and_back() {
  fixture t;
  std::atomic<bool> const repaired = false;
  auto const listen = [&](auto const&... ids) {
    auto box = outbox::multi_node({.store = t.store,
                                   .listeners = warehouse(t.store, repaired).listeners,
                                   .log = nullptr,
                                   .clock = t.clock,
                                   .interceptors = {t.seen}});
    box.run_until_idle();
    for (auto const* id : {ids...}) {
      outbox::memory::transaction tx{*t.store};
      box.writer().write(tx, "stock.changed", "1", {.id = id, .aggregate = {"article", "a"}});
      tx.commit();
    }
    box.run_until_idle();
    check(box.stop(), "the node stops in time");
  };
  listen("a1", "a2");
  auto const web = outbox::writer_only({.store = t.store, .log = nullptr});
  for (auto const* id : {"a3", "a4"}) {
    outbox::memory::transaction tx{*t.store};
    web.writer().write(tx, "stock.changed", "1", {.id = id, .aggregate = {"article", "a"}});
    tx.commit();
  }
  {
    auto options = warehouse(t.store, repaired);
    options.log = nullptr;
    options.clock = t.clock;
    options.interceptors = {t.seen};
    auto box = outbox::keyed(std::move(options));
    box.run_until_idle();
    check(t.seen->ids() == strings{"a1", "a2"}, "a dead event parks its key, whatever mode it died in");
    check(box.dead_events().discard("a2") && box.run_until_idle() == 2, "the others go on");
    check(t.seen->ids() == strings{"a1", "a2", "a3", "a4"}, "in the order of writing");
    check(box.stop(), "the node stops in time");
  }
  t.store->backend().set_keyed(false);  // outbox unkey
  listen("a5");
  check(t.seen->ids().back() == "a5", "another mode delivers again");
}

// Four threads call the listener; the events of a key come one after the other all the same.
void many_keys() {
  auto const store = outbox::memory::open();
  std::mutex mutex;
  std::map<std::string, strings> seen;
  outbox::keyed_options options{.store = store, .log = nullptr};
  options.listeners.on("stock.changed", [&](outbox::delivery const& d) {
    std::lock_guard const lock{mutex};
    seen[d.event.aggregate_id()].push_back(d.id);
  });
  auto box = outbox::keyed(std::move(options));
  box.start();
  std::map<std::string, strings> written;
  for (std::size_t i = 0; i < service::many; ++i) {
    auto const article = std::to_string(i % 7);
    auto const id = std::to_string(i);
    outbox::memory::transaction tx{*store};
    box.writer().write(tx, "stock.changed", "1", {.id = id, .aggregate = {"article", article}});
    tx.commit();
    written[article].push_back(id);
  }
  docs::wait_for([&] { return store->inspect().counts().pending() == 0; }, "every change is delivered");
  check(box.stop(), "the node stops in time");
  check(seen == written, "each key in the order of writing");
}

int run_all() {
  try {
    one_key_waits();
    discarded();
    the_mark_stays();
    from_multi_node_and_back();
    many_keys();
    std::printf("order-per-key: one key waits, the others go on\n");
    return 0;
  } catch (std::exception const& e) {
    std::printf("does not hold: %s\n", e.what());
    return 1;
  }
}

}  // namespace

int main() { return run_all(); }

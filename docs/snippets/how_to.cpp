// The code of docs/how-to and docs/reference, one function per page. Each checks what its page says, and prints a line.
#include <sqlite3.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <outbox/json.hpp>
#include <outbox/memory.hpp>
#include <outbox/outbox.hpp>
#include <outbox/sqlite.hpp>
#include <outbox/testing.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using namespace std::chrono_literals;

struct order_placed {
  static constexpr std::string_view event_type = "order.placed";
  static constexpr std::string_view aggregate_type = "order";
  using outbox_codec = outbox::json;
  std::string order_id;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(order_placed, order_id)

namespace {

using strings = std::vector<std::string>;

// What a test framework calls an assertion.
void check(bool holds, char const* what) {
  if (!holds) throw std::runtime_error{what};
}

// A store in memory whose time stands still, and the usual ways to it.
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
  auto const delivered = [&](std::size_t n, outbox::source from) {
    return box.run_until_idle() == n && seen->deliveries().back().from == from;
  };

  outbox::sqlite::connection db{path};
  db.execute("CREATE TABLE orders (id TEXT PRIMARY KEY)");
  {
    outbox::sqlite::transaction tx{db};  // BEGIN IMMEDIATE
    db.execute("INSERT INTO orders VALUES ('1')");
    writer.write(tx, "order.placed", R"({"order":"1"})", {.aggregate = {"order", "1"}});
    tx.commit();  // without it the destructor rolls back
  }
  check(delivered(1, outbox::source::hot), "an RAII transaction is delivered hot");

  sqlite3* handle = nullptr;
  check(sqlite3_open(path.c_str(), &handle) == SQLITE_OK, "the file can be opened again");
  {
    outbox::sqlite::transaction tx{handle};  // your handle: nothing is left behind on it, and it stays open
    sqlite3_exec(handle, "INSERT INTO orders VALUES ('2')", nullptr, nullptr, nullptr);
    writer.write(tx, "order.placed", R"({"order":"2"})", {.aggregate = {"order", "2"}});
    tx.commit();
  }
  check(delivered(1, outbox::source::hot), "so is one on a raw handle");

  sqlite3_exec(handle, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr);
  sqlite3_exec(handle, "INSERT INTO orders VALUES ('3')", nullptr, nullptr, nullptr);
  writer.write(handle, "order.placed", R"({"order":"3"})", {.aggregate = {"order", "3"}});
  sqlite3_exec(handle, "COMMIT", nullptr, nullptr, nullptr);
  check(delivered(1, outbox::source::cold), "a raw transaction is the poller's");

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
    db.execute("INSERT INTO orders VALUES ('4')");
    points.award("ada");  // joins the transaction without being given it
    tx.commit();
  }
  check(delivered(1, outbox::source::hot), "the current transaction is joined");
  {
    outbox::thread_local_context current;
    loyalty const points{box.writer(), current};

    outbox::sqlite::transaction tx{db};
    outbox::thread_local_context::scope const scope{current, tx};
    points.award("bob");
    tx.commit();
  }
  check(delivered(1, outbox::source::hot), "a scope makes it current too");

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
  check(delivered(3, outbox::source::hot), "write_all is one write");
  std::printf("join-your-transaction: hot, hot, cold, and the current one\n");
}

// ---- retries-and-dead-letters.md

struct bank {
  int status = 200;
  int collect(std::string const& /*payment*/) const { return status; }
};

outbox::listeners payments(bank const& b) {
  outbox::listeners listeners;
  listeners.on("payment.requested",
               [&b](outbox::delivery const& d) -> outbox::result {
                 switch (b.collect(d.id)) {
                   case 200: return outbox::done;
                   case 429: return outbox::defer{1min, "the bank is busy"};    // comes back in a minute, not counted
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
  bool busy = false;
  void send(std::string const& /*to*/) const { throw std::runtime_error{"connection refused"}; }
};

outbox::listeners mails(mail_server const& server) {
  outbox::listeners listeners;
  listeners.on("mail.requested", [&server](outbox::delivery const& d) {
    if (d.event.payload() == "null") throw outbox::permanent_failure{"no address"};  // DEAD at once, not counted
    if (server.busy) throw outbox::failure{"the server is busy", 5min};              // counted, waits five minutes
    server.send(d.event.payload());  // whatever else is thrown is counted and waits for the backoff
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
  server.busy = true;
  m.write(post, "mail.requested", "busy");
  post.run_until_idle();
  check(m.row("nowhere").status == outbox::event_status::dead && m.row("nowhere").attempts == 0, "permanent_failure");
  check(m.row("refused").status == outbox::event_status::retry && m.row("refused").attempts == 1, "any exception");
  check(m.row("busy").available_at - m.clock->now() == 5min && m.row("busy").attempts == 1, "failure with a wait");
}

void dead_events() {
  fixture t;
  bank b{.status = 422};
  auto box = outbox::single_node(t.options(payments(b)));
  box.run_until_idle();
  for (auto const* id : {"p1", "p2", "p3"}) t.write(box, "payment.requested", id);
  box.run_until_idle();

  auto const dead = box.dead_events();
  for (auto const& d : dead.query({.event_type = "payment.requested"}, 20)) {
    std::printf("%s: %s\n", d.event.id().c_str(), d.last_error.c_str());
  }
  check(dead.count() == 3, "three are dead");

  b.status = 200;  // the bank has repaired what was wrong
  bool const one = dead.replay("p1");
  auto const rest = dead.replay_all({.event_type = "payment.requested"});
  check(one && rest == 2, "one, then the rest");
  check(box.run_until_idle() == 3 && dead.count() == 0, "all are delivered");
  check(!dead.replay("p1"), "what is done is not replayed");

  auto const& store = t.store;
  outbox::dead_events const tool{store};  // without a node
  check(tool.count() == 0, "a store is enough to look");
}

void pauses() {
  fixture t;
  bank const b;
  auto box = outbox::single_node(t.options(payments(b)));
  box.run_until_idle();

  box.pause({.event_type = "payment.requested"});
  t.write(box, "payment.requested", "p1");  // writing goes on
  check(box.run_until_idle() == 0, "nothing is delivered");
  check(box.paused().size() == 1, "the table knows");
  box.resume({.event_type = "payment.requested"});
  check(box.run_until_idle() == 1, "then it is");
}

void retries_and_dead_letters() {
  results_and_exceptions();
  dead_events();
  pauses();
  std::printf("retries-and-dead-letters: counted, replayed, paused\n");
}

// ---- delayed-events.md

void delayed_events() {
  fixture t;
  bool ready = false;
  outbox::listeners listeners;
  listeners.on("reminder.due", [](outbox::delivery const&) {});
  listeners.on("report.wanted", [&](outbox::delivery const&) -> outbox::result {
    if (!ready) return outbox::defer{15min, "the figures are not there yet"};
    return outbox::done;
  });
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
  bool broken = false;
  outbox::listeners listeners;
  listeners.on("order.placed", [&](outbox::delivery const&) -> outbox::result {
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
  only.purge = outbox::age_purge_options{.keep = 48h};  // by age, whatever became of the row
  auto feeder = outbox::writer_only(std::move(only));
  box.run_until_idle();
  check(feeder.purge_once() == 0, "a node that dispatches is live");
  box.stop();
  check(feeder.purge_once() == 1, "now it goes by age, dead as it is");
  std::printf("purge: by the end of a row, or by its age\n");
}

// ---- asynchronous-and-batch.md

void asynchronous() {
  fixture t;
  std::vector<std::jthread> threads;
  std::function<void()> on_reply;
  std::function<void()> on_hangup;
  outbox::listeners listeners;
  listeners.on("thumbnail.wanted",
               [&](outbox::delivery const&, outbox::completion answer) {
                 threads.emplace_back([answer = std::move(answer)]() mutable { answer(outbox::done); });
               },
               {.timeout = 1min, .max_in_flight = 8});
  listeners.on("quote.wanted", [&](outbox::delivery const&, outbox::completion answer) {
    auto const shared = std::move(answer).share();
    on_reply = [shared] { shared(outbox::done); };
    on_hangup = [shared] { shared(outbox::failed{"the line is dead"}); };
  });
  auto box = outbox::single_node(t.options(std::move(listeners)));
  box.run_until_idle();
  for (auto const* id : {"a", "b", "c"}) t.write(box, "thumbnail.wanted", id);
  check(box.run_until_idle() == 3, "one thread begins them all");
  threads.clear();  // joins them
  box.run_until_idle();
  check(t.store->inspect().counts().done == 3, "their answers are settled");

  t.write(box, "quote.wanted", "q");
  box.run_until_idle();
  check(box.counters().held == 1, "it is open");
  on_reply();
  on_hangup();
  box.run_until_idle();
  check(t.row("q").status == outbox::event_status::delivered, "the first answer counts");
}

void batches() {
  fixture t;
  std::vector<std::size_t> sizes;
  strings index;
  outbox::listeners listeners;
  listeners.on_batch<order_placed>(
      [&](std::span<order_placed const> orders, std::span<outbox::delivery const> deliveries) {
        std::vector<outbox::result> results;
        for (std::size_t i = 0; i < orders.size(); ++i) {
          if (orders[i].order_id.empty()) {
            results.emplace_back(outbox::dead{"event " + deliveries[i].id + " names no order"});
          } else {
            index.push_back(orders[i].order_id);
            results.emplace_back(outbox::done);
          }
        }
        sizes.push_back(orders.size());
        return results;  // one for each, in order
      },
      {.name = "search index", .max_batch = 200});
  auto box = outbox::single_node(t.options(std::move(listeners)));
  box.run_until_idle();
  {
    outbox::memory::transaction tx{*t.store};
    for (auto const* id : {"1", "2", "", "4"}) box.writer().write(tx, order_placed{id});
    tx.commit();
  }
  check(box.run_until_idle() == 4 && sizes == std::vector<std::size_t>{4}, "one call for what waits");
  check(index == strings{"1", "2", "4"}, "each has its own result");
  check(box.dead_events().count({.aggregate_type = "order"}) == 1, "one is dead");
}

void asynchronous_and_batch() {
  asynchronous();
  batches();
  std::printf("asynchronous-and-batch: answers later, results together\n");
}

// ---- ordered.md

void ordered() {
  fixture t;
  strings seen;
  bool open = false;
  bool repaired = false;
  auto const& store = t.store;
  outbox::ordered_options options{.store = store};
  options.listeners.on("account.changed", [&](outbox::delivery const& d) -> outbox::result {
    seen.push_back(d.id);
    if (d.id == "b" && !repaired) return outbox::failed{"no such account"};  // DEAD: there is one attempt
    if (d.id == "c" && !open) return outbox::defer{10min, "the ledger is closed"};
    return outbox::done;
  });
  options.log = nullptr;
  options.clock = t.clock;
  auto box = outbox::ordered(std::move(options));
  box.run_until_idle();
  for (auto const* id : {"a", "b", "c", "d"}) t.write(box, "account.changed", id);
  box.run_until_idle();
  check(seen == strings{"a", "b", "c"}, "d waits behind c");
  open = true;
  t.clock->advance(10min);
  box.run_until_idle();
  check(seen == strings{"a", "b", "c", "c", "d"}, "a deferral waits in place");

  repaired = true;
  box.dead_events().replay("b");  // comes now, after what was written behind it
  box.run_until_idle();
  check(seen.back() == "b" && t.row("b").status == outbox::event_status::delivered, "b was overtaken");
  std::printf("ordered: by seq, one at a time\n");
}

// ---- reference/metrics.md

class figures final : public outbox::metrics {
 public:
  void add(outbox::counter c, std::uint64_t n) noexcept override { counters[c] += n; }
  void set(outbox::gauge g, std::int64_t value) noexcept override { gauges[g] = value; }

  std::map<outbox::counter, std::uint64_t> counters;
  std::map<outbox::gauge, std::int64_t> gauges;
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
  for (auto const& [c, n] : collected->counters) {
    std::printf("%s %d\n", outbox::full_name(c, "shop.outbox").c_str(), static_cast<int>(n));
  }
  check(collected->gauges.at(outbox::gauge::held) == 0, "nothing is held");
  auto const c = box.counters();
  check(c.hot_enqueued + c.cold_enqueued == c.settled + c.released + c.lost + c.unconfirmed + c.held, "they add up");
}

int run_all(std::string const& directory) {
  try {
    join_your_transaction(directory + "/shop.db");
    retries_and_dead_letters();
    delayed_events();
    testing();
    purge();
    asynchronous_and_batch();
    ordered();
    metrics();
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

// The code about Redis in docs/how-to: events on their own, in transactions and from scripts, many nodes on one outbox,
// and replicas. Each function checks itself and prints a line. It makes its keys on the server of the URL.
//
//   docs_redis redis://127.0.0.1:6379
#include <hiredis/hiredis.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <outbox/outbox.hpp>
#include <outbox/redis.hpp>
#include <stdexcept>
#include <string>

using namespace std::chrono_literals;

namespace {

// An assertion, as a test framework has it.
void check(bool holds, char const* what) {
  if (!holds) throw std::runtime_error{what};
}

// Records the deliveries by order, and lets the program wait for them.
class arrivals {
 public:
  void add(outbox::delivery const& d) {
    std::lock_guard const lock{mutex_};
    from_.emplace(d.event.aggregate_id(), d.path);
    changed_.notify_all();
  }
  /// Waits for the first delivery about this order and returns its path.
  [[nodiscard]] outbox::path of(std::string const& order) {
    std::unique_lock lock{mutex_};
    bool const came = changed_.wait_for(lock, 1min, [&] { return from_.contains(order); });
    if (!came) throw std::runtime_error{"order " + order + " did not come"};
    return from_.find(order)->second;
  }
  [[nodiscard]] bool reach(std::size_t count) {
    std::unique_lock lock{mutex_};
    return changed_.wait_for(lock, 1min, [&] { return from_.size() >= count; });
  }
  [[nodiscard]] std::size_t total() {
    std::lock_guard const lock{mutex_};
    return from_.size();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::multimap<std::string, outbox::path> from_;
};

// A listener that several workers call at once.
outbox::listeners orders_for(arrivals& seen) {
  outbox::listeners l;
  l.on("order.placed", [&seen](outbox::delivery const& d) { seen.add(d); });
  return l;
}

// ---- use-redis.md

void on_its_own(outbox::writer const& writer, arrivals& seen) {
  writer.write(outbox::no_transaction, "order.placed", R"({"order":"1"})", {.aggregate = {"order", "1"}});
  check(seen.of("1") == outbox::path::hot, "an event on its own is delivered hot");
  std::printf("no transaction: hot\n");
}

void with_other_keys(outbox::redis::connection& db, outbox::writer const& writer, arrivals& seen) {
  {
    outbox::redis::transaction tx{db};
    tx.command("HSET", "{shop}:order:2", "cents", 1999);
    writer.write(tx, "order.placed", R"({"order":"2"})", {.aggregate = {"order", "2"}});
    tx.commit();  // without it the destructor ends the transaction, and nothing is sent
  }
  check(seen.of("2") == outbox::path::hot, "a redis::transaction is delivered hot");
  check(db.command("HGET", "{shop}:order:2", "cents").text == "1999", "the order is there");
  std::printf("redis::connection and redis::transaction: hot\n");
}

// Sells a piece if one is left. Returns false if none is.
bool sell(outbox::redis::connection& db, outbox::writer const& writer, std::string const& order) {
  while (true) {
    outbox::redis::transaction tx{db, {"{shop}:stock"}};  // WATCH
    auto const stock = db.command("GET", "{shop}:stock");
    if (stock.nil() || std::stoi(stock.text) < 1) return false;
    tx.command("DECR", "{shop}:stock");
    writer.write(tx, "order.placed", "{}", {.aggregate = {"order", order}});
    try {
      tx.commit();
      return true;
    } catch (outbox::error const& e) {
      if (!e.transient()) throw;  // another program changed the stock: nothing took effect, look again
    }
  }
}

void with_watch(outbox::redis::connection& db, outbox::writer const& writer, arrivals& seen) {
  db.command("SET", "{shop}:stock", 1);
  check(sell(db, writer, "3"), "one is left");
  check(!sell(db, writer, "none"), "and then none");
  check(seen.of("3") == outbox::path::hot, "it was told");
  std::printf("WATCH: sold once\n");
}

void from_a_script(outbox::redis::connection& db, arrivals& seen) {
  auto const script = std::string{outbox::redis::write_script()} + R"lua(
    if tonumber(redis.call('GET', KEYS[2]) or 0) < 1 then return 0 end
    outbox.write(KEYS[1], {id = ARGV[1], type = 'order.placed', payload = cjson.encode({order = ARGV[2]}),
                           aggregate_type = 'order', aggregate_id = ARGV[2]})
    redis.call('DECR', KEYS[2])
    return 1)lua";
  db.command("SET", "{shop}:stock", 1);
  auto const sold = db.command("EVAL", script, 2, "{shop}:outbox:", "{shop}:stock", "sold-4", "4");
  check(sold.number == 1, "one was left");
  check(seen.of("4") == outbox::path::cold, "a node hears of it and claims it");
  std::printf("a script: cold\n");
}

void on_your_connection(redisContext* handle, outbox::writer const& writer, arrivals& seen) {
  outbox::redis::transaction tx{handle};  // your connection: it stays open, and nothing is left behind on it
  tx.command("HSET", "{shop}:order:5", "cents", 1999);
  writer.write(tx, "order.placed", R"({"order":"5"})", {.aggregate = {"order", "5"}});
  tx.commit();
  check(seen.of("5") == outbox::path::hot, "a transaction on a connection of hiredis is delivered hot");
  std::printf("redisContext and redis::transaction: hot\n");
}

void use_redis(std::string const& url, redisContext* handle) {
  arrivals seen;
  auto const store = outbox::redis::open(url, {.name = "{shop}:outbox"});
  auto box = outbox::multi_node({.store = store, .listeners = orders_for(seen)});
  box.start();
  outbox::redis::connection db{url};
  on_its_own(box.writer(), seen);
  with_other_keys(db, box.writer(), seen);
  with_watch(db, box.writer(), seen);
  from_a_script(db, seen);
  on_your_connection(handle, box.writer(), seen);
  check(box.stop(), "everything is settled");
}

outbox::node worker(std::string const& url, std::string const& name, arrivals& seen) {
  outbox::multi_node_options options{.store = outbox::redis::open(url, {.name = "{shop}:outbox"})};
  options.listeners = orders_for(seen);
  options.workers = 8;
  options.name = name;           // shown by `outbox nodes`
  options.lease.duration = 10s;  // then others take what a crashed process held
  return outbox::multi_node(std::move(options));
}

void web_and_workers(std::string const& url) {
  arrivals seen;
  auto first = worker(url, "worker-1", seen);
  auto second = worker(url, "worker-2", seen);
  first.start();
  second.start();

  // A process that only writes.
  auto const store = outbox::redis::open(url, {.name = "{shop}:outbox", .connections = 1});
  auto const web = outbox::writer_only({.store = store});
  for (int i = 0; i < 200; ++i) {
    auto const id = "web-" + std::to_string(i);
    web.writer().write(outbox::no_transaction, "order.placed", "{}", {.aggregate = {"order", id}});
  }
  check(seen.reach(200), "the workers deliver what the web process wrote");
  check(first.stop() && second.stop(), "everything is settled");
  check(seen.total() == 200, "each once");
  std::printf("two workers and a web process: each event once\n");
}

// ---- operate-redis.md

void wait_for_a_replica(std::string const& url) {
  auto const store = outbox::redis::open(url, {.name = "copied", .timeout = 200ms, .replicas = 1, .log = nullptr});
  auto const web = outbox::writer_only({.store = store});
  bool copied = true;
  try {
    web.writer().write(outbox::no_transaction, "order.placed", "{}");
  } catch (outbox::error const& e) {
    if (!e.in_doubt()) throw;
    copied = false;  // it is written, and no replica has confirmed it: a failover now would lose it
  }
  check(!copied, "this server has no replica");
  check(store->inspect().counts().pending() == 1, "it is written");
  std::printf("replicas: in doubt without one\n");
}

}  // namespace

int main(int argc, char** argv) {
  int port = 0;
  if (argc != 2 || std::sscanf(argv[1], "redis://127.0.0.1:%d", &port) != 1) {
    std::fprintf(stderr, "the argument is a URL: redis://127.0.0.1:6379\n");
    return 2;
  }
  try {
    std::string const url = argv[1];
    std::unique_ptr<redisContext, void (*)(redisContext*)> const handle{redisConnect("127.0.0.1", port), &redisFree};
    use_redis(url, handle.get());
    web_and_workers(url);
    wait_for_a_replica(url);
    return 0;
  } catch (std::exception const& e) {
    std::printf("does not hold: %s\n", e.what());
    return 1;
  }
}

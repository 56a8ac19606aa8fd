// The code about MariaDB and MySQL in docs/how-to: every way to join a transaction, and many nodes on one table. Each
// function checks itself and prints a line. It makes its tables in the database of the URL.
//
//   docs_mysql mysql://user@localhost/shop
#include <mysql.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <map>
#include <mutex>
#include <outbox/mysql.hpp>
#include <outbox/outbox.hpp>
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

// ---- join-your-transaction.md

void our_transaction(std::string const& url, outbox::writer const& writer, arrivals& seen) {
  outbox::mysql::connection db{url};
  {
    outbox::mysql::transaction tx{db};  // START TRANSACTION
    tx.execute("INSERT INTO orders VALUES (?)", "1");
    writer.write(tx, "order.placed", R"({"order":"1"})", {.aggregate = {"order", "1"}});
    tx.commit();  // without it the destructor rolls back
  }
  check(seen.of("1") == outbox::path::hot, "a mysql::transaction is delivered hot");
  std::printf("mysql::connection and mysql::transaction: hot\n");

  {
    outbox::mysql::transaction tx{db};
    writer.write(tx, "order.placed", R"({"order":"2"})", {.aggregate = {"order", "2"}});
    tx.savepoint("gift");
    writer.write(tx, "order.placed", R"({"order":"3"})", {.aggregate = {"order", "3"}});
    tx.rollback_to("gift");  // takes back the second event, and not the first
    tx.commit();
  }
  check(seen.of("2") == outbox::path::hot && seen.total() == 2, "a savepoint takes back its own event");
  std::printf("a savepoint: takes back its own event\n");
}

void handles(MYSQL* handle, outbox::writer const& writer, outbox::node& box, arrivals& seen) {
  {
    outbox::mysql::transaction tx{handle};  // your handle: it stays open, and nothing is left behind on it
    tx.execute("INSERT INTO orders VALUES (?)", "4");
    writer.write(tx, "order.placed", R"({"order":"4"})", {.aggregate = {"order", "4"}});
    tx.commit();
  }
  check(seen.of("4") == outbox::path::hot, "a transaction on a handle is delivered hot");
  std::printf("MYSQL and mysql::transaction: hot\n");

  mysql_query(handle, "START TRANSACTION");
  mysql_query(handle, "INSERT INTO orders VALUES ('5')");
  writer.write(handle, "order.placed", R"({"order":"5"})", {.aggregate = {"order", "5"}});
  mysql_query(handle, "COMMIT");
  box.wake();  // nothing tells the node that the transaction has ended
  check(seen.of("5") == outbox::path::cold, "a transaction of the application is delivered cold");
  std::printf("MYSQL in its own transaction: cold\n");
}

void join_your_transaction(std::string const& url) {
  arrivals seen;
  auto box = outbox::multi_node({.store = outbox::mysql::open(url), .listeners = orders_for(seen)});
  box.start();
  our_transaction(url, box.writer(), seen);
  outbox::mysql::connection mine{url};
  handles(mine.handle(), box.writer(), box, seen);
  check(box.stop(), "everything is settled");
}

// ---- grow-to-mariadb.md

void one_node(std::string const& url) {
  arrivals seen;
  auto const store = outbox::mysql::open(url);  // was: outbox::sqlite::open("shop.db")
  auto box = outbox::single_node({.store = store, .listeners = orders_for(seen)});
  box.start();

  outbox::mysql::connection db{url};  // was: outbox::sqlite::connection db{"shop.db"}
  {
    outbox::mysql::transaction tx{db};  // was: outbox::sqlite::transaction tx{db}
    tx.execute("INSERT INTO orders VALUES (?)", "8");
    box.writer().write(tx, "order.placed", R"({"order":"8"})", {.aggregate = {"order", "8"}});
    tx.commit();
  }
  check(seen.reach(1), "it is delivered");
  check(box.stop(), "everything is settled");
  std::printf("one node: delivered\n");
}

outbox::node worker(std::string const& url, std::string const& name, arrivals& seen) {
  outbox::multi_node_options options{.store = outbox::mysql::open(url)};
  options.listeners = orders_for(seen);
  options.workers = 8;
  options.name = name;           // shown in outbox_node
  options.lease.duration = 10s;  // then others take what a crashed process held
  options.poll.every = 200ms;    // finds what other processes wrote
  options.purge = outbox::purge_options{.keep = 24h};
  return outbox::multi_node(std::move(options));
}

void web_and_workers(std::string const& url) {
  arrivals seen;
  auto first = worker(url, "worker-1", seen);
  auto second = worker(url, "worker-2", seen);
  first.start();
  second.start();

  // A process that only writes.
  auto const store = outbox::mysql::open(url, {.connections = 1});
  auto const web = outbox::writer_only({.store = store});

  outbox::mysql::connection db{url};
  for (int i = 0; i < 200; ++i) {
    auto const id = "web-" + std::to_string(i);
    outbox::mysql::transaction tx{db};
    tx.execute("INSERT INTO orders VALUES (?)", id);
    web.writer().write(tx, "order.placed", "{}", {.aggregate = {"order", id}});
    tx.commit();
  }
  check(seen.reach(200), "the workers deliver what the web process wrote");
  check(first.stop() && second.stop(), "everything is settled");
  check(seen.total() == 200, "each once");
  std::printf("two workers and a web process: each event once\n");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "the argument is a URL: mysql://user@host/shop\n");
    return 2;
  }
  try {
    std::string const url = argv[1];
    outbox::mysql::connection{url}.execute("CREATE TABLE orders (id varchar(32) PRIMARY KEY)");
    join_your_transaction(url);
    one_node(url);
    web_and_workers(url);
    return 0;
  } catch (std::exception const& e) {
    std::printf("does not hold: %s\n", e.what());
    return 1;
  }
}

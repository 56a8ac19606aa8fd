// The code about PostgreSQL in docs/how-to: every way to join a transaction, and many nodes on one table. Each function
// checks itself and prints a line. The tables are in a schema of their own, which is dropped at the end.
//
//   docs_postgres "host=localhost dbname=shop"
#include <libpq-fe.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <outbox/adapt/pqxx.hpp>
#include <outbox/outbox.hpp>
#include <outbox/postgres.hpp>
#include <stdexcept>
#include <string>

using namespace std::chrono_literals;

namespace {

// An assertion, as a test framework has it.
void check(bool holds, char const* what) {
  if (!holds) throw std::runtime_error{what};
}

// The current schema of every connection that is opened while it lives: libpq reads PGOPTIONS.
class own_schema {
 public:
  explicit own_schema(std::string const& connection)
      : db_{connection}, name_{"outbox_docs_" + std::to_string(::getpid())} {
    db_.execute("CREATE SCHEMA " + name_);
    ::setenv("PGOPTIONS", ("-c search_path=" + name_).c_str(), 1);
  }
  own_schema(own_schema const&) = delete;
  own_schema& operator=(own_schema const&) = delete;
  ~own_schema() {
    try {
      db_.execute("DROP SCHEMA " + name_ + " CASCADE");
    } catch (outbox::error const& e) {
      std::printf("%s is still there: %s\n", name_.c_str(), e.what());
    }
  }

 private:
  outbox::postgres::connection db_;
  std::string name_;
};

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

// ---- join-your-transaction.md

// Does the work in a transaction, and repeats all of it if the server ended the transaction because of a conflict.
template <class Work>
void in_transaction(outbox::postgres::connection& db, Work const& work) {
  for (int attempt = 1;; ++attempt) {
    try {
      outbox::postgres::transaction tx{db};
      work(tx);
      tx.commit();
      return;
    } catch (outbox::error const& e) {
      if (!e.transient() || attempt == 5) throw;  // a deadlock, a serialization failure: nothing was written
    }
  }
}

void our_transaction(std::string const& connection, outbox::writer const& writer, arrivals& seen) {
  outbox::postgres::connection db{connection};
  {
    outbox::postgres::transaction tx{db};  // BEGIN
    tx.execute("INSERT INTO orders VALUES ($1)", "1");
    writer.write(tx, "order.placed", R"({"order":"1"})", {.aggregate = {"order", "1"}});
    tx.commit();  // sends the event and COMMIT together; without it the destructor rolls back
  }
  check(seen.of("1") == outbox::path::hot, "a postgres::transaction is delivered hot");
  std::printf("postgres::connection and postgres::transaction: hot\n");

  {
    outbox::postgres::transaction tx{db, outbox::postgres::send_mode::pipelined};
    tx.enqueue("INSERT INTO orders VALUES ($1)", "2");
    writer.write(tx, "order.placed", R"({"order":"2"})", {.aggregate = {"order", "2"}});
    tx.commit();  // BEGIN, both INSERTs and COMMIT in one round trip
  }
  check(seen.of("2") == outbox::path::hot, "so is a pipelined one");
  std::printf("pipelined: hot\n");

  {
    outbox::postgres::transaction tx{db};
    writer.write(tx, "order.placed", R"({"order":"3"})", {.aggregate = {"order", "3"}});
    db.execute("SAVEPOINT gift");
    writer.write(tx, "order.placed", R"({"order":"gift"})", {.aggregate = {"order", "gift"}});
    db.execute("ROLLBACK TO gift");  // takes back the second event only
    tx.commit();
  }
  check(seen.of("3") == outbox::path::hot, "what a savepoint leaves is delivered hot");
  check(seen.total() == 3, "what it takes back is not delivered");
  std::printf("a savepoint: takes back its own event\n");
}

void your_handle(std::string const& connection, outbox::writer const& writer, arrivals& seen) {
  PGconn* handle = PQconnectdb(connection.c_str());
  std::unique_ptr<PGconn, void (*)(PGconn*)> const closes{handle, &PQfinish};
  check(PQstatus(handle) == CONNECTION_OK, "the server can be reached");
  {
    outbox::postgres::transaction tx{handle};  // your handle: it stays open, and nothing stays prepared on it
    tx.execute("INSERT INTO orders VALUES ($1)", "4");
    writer.write(tx, "order.placed", R"({"order":"4"})", {.aggregate = {"order", "4"}});
    tx.commit();
  }
  check(seen.of("4") == outbox::path::hot, "a postgres::transaction on a PGconn is delivered hot");
  std::printf("PGconn and postgres::transaction: hot\n");

  PQclear(PQexec(handle, "BEGIN"));
  PQclear(PQexec(handle, "INSERT INTO orders VALUES ('5')"));
  writer.write(handle, "order.placed", R"({"order":"5"})", {.aggregate = {"order", "5"}});
  PQclear(PQexec(handle, "COMMIT"));
  check(seen.of("5") == outbox::path::hot, "the end of your own transaction is seen");
  std::printf("PGconn in its own transaction: hot\n");

  bool refused = false;
  try {
    writer.write(handle, "order.placed", "{}");
  } catch (outbox::error const& e) {
    refused = e.code() == outbox::errc::no_transaction;
  }
  check(refused, "writing outside a transaction is refused");
}

void through_pqxx(std::string const& connection, outbox::writer const& writer, arrivals& seen) {
  pqxx::connection c{connection};
  {
    pqxx::work tx{c};
    tx.exec("INSERT INTO orders VALUES ('6')");
    writer.write(tx, "order.placed", R"({"order":"6"})", {.aggregate = {"order", "6"}});
    tx.commit();
  }
  check(seen.of("6") == outbox::path::hot, "the end of a pqxx transaction is seen");
  std::printf("pqxx: hot\n");
}

void again_after_a_conflict(std::string const& connection, outbox::writer const& writer, arrivals& seen) {
  outbox::postgres::connection db{connection};
  outbox::postgres::connection other{connection};
  db.execute("CREATE TABLE stock (item text PRIMARY KEY, pieces int); INSERT INTO stock VALUES ('book', 10)");
  int attempts = 0;
  in_transaction(db, [&](outbox::postgres::transaction& tx) {
    db.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SELECT pieces FROM stock");
    if (++attempts == 1) other.execute("UPDATE stock SET pieces = pieces - 1");  // another transaction is quicker
    db.execute("UPDATE stock SET pieces = pieces - 1");
    writer.write(tx, "order.placed", R"({"order":"7"})", {.aggregate = {"order", "7"}});
  });
  check(attempts == 2, "the first attempt meets the other transaction");
  check(seen.of("7") == outbox::path::hot, "the second one is delivered");
  std::printf("a conflict: delivered after the second attempt\n");
}

void join_your_transaction(std::string const& connection) {
  arrivals seen;
  outbox::multi_node_options options{.store = outbox::postgres::open(connection), .log = nullptr};
  options.poll.every = 1h;  // events can only arrive on the hot path
  options.listeners.on("order.placed", [&](outbox::delivery const& d) { seen.add(d); });
  auto box = outbox::multi_node(std::move(options));
  box.start();
  our_transaction(connection, box.writer(), seen);
  your_handle(connection, box.writer(), seen);
  through_pqxx(connection, box.writer(), seen);
  again_after_a_conflict(connection, box.writer(), seen);
}

// ---- grow-to-postgres.md

outbox::listeners orders_for(arrivals& seen) {
  outbox::listeners listeners;
  listeners.on("order.placed", [&seen](outbox::delivery const& d) { seen.add(d); });
  return listeners;
}

void one_node(std::string const& connection) {
  arrivals seen;
  auto const store = outbox::postgres::open(connection);  // was: outbox::sqlite::open("shop.db")
  auto box = outbox::single_node({.store = store, .listeners = orders_for(seen)});
  box.start();

  outbox::postgres::connection db{connection};  // was: outbox::sqlite::connection db{"shop.db"}
  {
    outbox::postgres::transaction tx{db};  // was: outbox::sqlite::transaction tx{db}
    tx.execute("INSERT INTO orders VALUES ($1)", "8");
    box.writer().write(tx, "order.placed", R"({"order":"8"})", {.aggregate = {"order", "8"}});
    tx.commit();
  }
  check(seen.reach(1), "one node delivers");
  std::printf("one node: delivered\n");
}

// A process that delivers. There may be any number of them.
outbox::node worker(std::string const& connection, std::string const& name, arrivals& seen) {
  outbox::multi_node_options options{.store = outbox::postgres::open(connection, {.notify = true})};
  options.listeners = orders_for(seen);
  options.workers = 8;
  options.name = name;           // shown in outbox_node
  options.lease.duration = 10s;  // then others take what a crashed process held
  options.poll.every = 1s;       // finds what no notification announced
  options.purge = outbox::purge_options{.keep = 24h};
  return outbox::multi_node(std::move(options));
}

void web_and_workers(std::string const& connection) {
  arrivals seen;
  auto first = worker(connection, "worker-1", seen);
  auto second = worker(connection, "worker-2", seen);
  first.start();
  second.start();

  // A process that only writes.
  auto const store = outbox::postgres::open(connection, {.connections = 1, .notify = true});
  auto const web = outbox::writer_only({.store = store});

  outbox::postgres::connection db{connection};
  for (int i = 0; i < 200; ++i) {
    auto const id = "web-" + std::to_string(i);
    outbox::postgres::transaction tx{db, outbox::postgres::send_mode::pipelined};
    tx.enqueue("INSERT INTO orders VALUES ($1)", id);
    web.writer().write(tx, "order.placed", "{}", {.aggregate = {"order", id}});
    tx.commit();
  }
  check(seen.reach(200), "the workers deliver what the web process wrote");
  check(first.stop() && second.stop(), "everything is settled");
  check(seen.total() == 200, "each once");
  std::printf("two workers and a web process: each event once\n");
}

// ---- order-per-key.md

// Takes a piece off the shelf. The lock on the row of the article comes first, then the event about the article.
int take_one(outbox::postgres::connection& db, outbox::writer const& writer, std::string const& article) {
  outbox::postgres::transaction tx{db};
  auto const left = tx.query_one<int>("SELECT pieces FROM shelf WHERE article = $1 FOR UPDATE", article);
  tx.execute("UPDATE shelf SET pieces = $1 WHERE article = $2", left - 1, article);
  writer.write(tx, "stock.changed", "{}", {.aggregate = {"article", article}});
  tx.commit();
  return left - 1;
}

// docs/how-to/order-per-key.md: the writer serialises the events of a key.
void one_article(std::string const& connection) {
  auto const store = outbox::postgres::open(connection);
  auto const web = outbox::writer_only({.store = store, .log = nullptr});
  outbox::postgres::connection db{connection};
  db.execute("CREATE TABLE shelf (article text PRIMARY KEY, pieces int NOT NULL)");
  db.execute("INSERT INTO shelf VALUES ('7', 2)");
  check(take_one(db, web.writer(), "7") == 1 && take_one(db, web.writer(), "7") == 0, "two pieces were sold");
  check(store->inspect().counts().pending() == 2, "with an event each");
}

// A service that gives out passwords which are valid for minutes would be asked here.
std::string with_fresh_password(std::string const& target) { return target; }

// docs/how-to/operate-postgres.md: a function opens the store's connections.
void passwords_that_change(std::string const& target) {
  auto const connect = [target] { return PQconnectdb(with_fresh_password(target).c_str()); };
  auto const store = outbox::postgres::open("", {.connect = connect});

  check(store->inspect().counts().dead == 0, "the connections of the pool come from the function too");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "the argument is a libpq connection string\n");
    return 2;
  }
  try {
    std::string const connection = argv[1];
    own_schema const schema{connection};
    outbox::postgres::connection{connection}.execute("CREATE TABLE orders (id text PRIMARY KEY)");
    join_your_transaction(connection);
    one_node(connection);
    web_and_workers(connection);
    passwords_that_change(connection);
    one_article(connection);
    return 0;
  } catch (std::exception const& e) {
    std::printf("does not hold: %s\n", e.what());
    return 1;
  }
}

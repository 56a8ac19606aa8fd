// Callers and nodes on one table for a while: nobody gets into the way of anybody.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <iostream>
#include <outbox/mysql.hpp>
#include <outbox/outbox.hpp>
#include <outbox/spi/store.hpp>
#include <thread>

#include "support/mysql_database.hpp"
#include "support/waiting.hpp"

namespace outbox {
namespace {

using namespace std::chrono_literals;

class MysqlSoak : public ::testing::Test {
 protected:
  static constexpr int nodes = 4, writers = 16, transactions = 150;

  MysqlSoak() {
    db.execute("CREATE TABLE " + db.table("accounts") + " (id int PRIMARY KEY, n int NOT NULL)");
    for (int i = 0; i < writers; ++i) db.execute("INSERT INTO " + db.table("accounts") + " VALUES (?, 0)", i);
  }

  void TearDown() override {
    if (HasFailure()) std::cerr << text_of_file(server.directory() + "/server.log") << std::endl;
  }

  multi_node_options options() {
    multi_node_options o{.store = db.open(), .log = nullptr};
    o.poll = {.every = 5ms, .batch = 20};
    o.queue = {.hot = 50, .cold = 100};  // so that both paths are used
    o.workers = 2;
    o.lease.duration = lease;
    o.retry.max_attempts = 2;
    o.retry.delay = [](std::int32_t) { return 1ms; };
    o.purge = purge_options{.keep = 0ms, .batch = 20, .every = 1s};
    o.listeners.on("good", [this](delivery const& d) { seen.add(d.id); });
    // A half is delivered at the second attempt, the other only after an operator has replayed it.
    o.listeners.on("hard", [this](delivery const& d) {
      if (failed.of(d.id) < std::stoi(d.event.payload())) {
        failed.add(d.id);
        throw std::runtime_error{"not yet"};
      }
      seen.add(d.id);
    });
    return o;
  }

  // A transaction as applications write them: it changes rows of its own, reads, and writes a few events.
  void one_transaction(mysql::connection& c, writer const& w, int writer_number, int number) {
    auto const name = "w" + std::to_string(writer_number) + "-" + std::to_string(number);
    mysql::transaction tx{c};
    tx.execute("UPDATE " + db.table("accounts") + " SET n = n + 1 WHERE id = ?", writer_number);
    static_cast<void>(tx.query<std::int64_t>("SELECT n FROM " + db.table("accounts") + " WHERE id = ?", writer_number));
    if (number % 3 == 0) {
      std::vector<event> several;
      for (int i = 0; i < 5; ++i) several.push_back(event::json("good", "1", {.id = name + "-" + std::to_string(i)}));
      w.write_all(tx, several);
    } else {
      w.write(tx, "hard", std::to_string(number % 3), {.id = name + "-0"});
    }
    if (number % 10 == 9) return;  // rolled back
    tx.commit();
    events += number % 3 == 0 ? 5 : 1;
  }

  // Counts what a caller must never meet.
  void write_all(writer const& w, int writer_number) {
    mysql::connection c{db.url()};
    c.execute("SET SESSION innodb_lock_wait_timeout = 1");
    for (int i = 0; i < transactions; ++i) {
      try {
        one_transaction(c, w, writer_number, i);
      } catch (error const& e) {
        ADD_FAILURE() << e.what();
        if (e.sqlstate() == "40001") ++deadlocks;
        if (e.sqlstate() == "HYT00") ++timeouts;
      }
    }
  }

  void run() {
    std::vector<node> running;
    for (int i = 0; i < nodes; ++i) {
      running.push_back(multi_node(options()));
      running.back().start();
    }
    std::atomic<bool> stop = false;
    std::jthread operators{[&] {
      auto const s = db.open();
      while (!stop) operate(running[0], s->backend());
    }};
    std::vector<std::jthread> threads;
    for (int i = 0; i < writers; ++i) {
      threads.emplace_back([&, i] { write_all(running[static_cast<std::size_t>(i % nodes)].writer(), i); });
    }
    threads.clear();
    EXPECT_TRUE(seen.reach(static_cast<std::size_t>(events.load())));
    stop = true;
    operators.join();
    for (auto& n : running) EXPECT_TRUE(n.stop(60s));
    EXPECT_EQ(deadlocks, 0);
    EXPECT_EQ(timeouts, 0);
    EXPECT_EQ(seen.total(), static_cast<std::size_t>(events.load()));
    for (auto const& id : seen.ids()) EXPECT_EQ(seen.of(id), 1) << "I7: " << id;
    EXPECT_EQ(db.ask("SELECT count(*) FROM " + db.table() + " WHERE status <> 1"), "0");
    EXPECT_EQ(db.ask("SELECT sum(n) FROM " + db.table("accounts")), std::to_string(writers * transactions * 9 / 10));
  }

  // What operators do meanwhile.
  void operate(node const& n, spi::store& s) {
    try {
      static_cast<void>(n.dead_events().replay_all({}, 10));
      static_cast<void>(s.purge({.retention = 0ms, .dead = false, .limit = 50}));
      static_cast<void>(s.inspect().counts());
    } catch (error const& e) {
      ADD_FAILURE() << "an operator: " << e.what();
    }
  }

  // The deadlocks that the server has met, between whichever sessions.
  std::int64_t deadlocks_of_the_server() {
    return std::stoll(db.ask("SELECT count FROM information_schema.innodb_metrics WHERE name = 'lock_deadlocks'"));
  }
  std::int64_t timeouts_of_the_server() {
    return std::stoll(db.ask("SELECT count FROM information_schema.innodb_metrics WHERE name = 'lock_timeouts'"));
  }
  std::string latest_deadlock() {
    mysql::connection c{db.url()};
    auto const text = std::get<2>(c.query<std::string, std::string, std::string>("SHOW ENGINE INNODB STATUS").at(0));
    auto const from = text.find("LATEST DETECTED DEADLOCK");
    if (from == std::string::npos) return "";
    return text.substr(from, text.find("\nTRANSACTIONS\n") - from);
  }

  mysql_server server{{.settings = {"innodb-monitor-enable=lock_deadlocks,lock_timeouts"}}};
  mysql_database db{server};
  std::chrono::milliseconds lease = 10min;
  tally seen, failed;
  std::atomic<int> deadlocks = 0, timeouts = 0, events = 0;
};

// Long leases: nothing is renewed meanwhile.
TEST_F(MysqlSoak, I7_NoCallerWaitsForANodeAndEachEventIsDeliveredOnce) {
  run();
  EXPECT_EQ(deadlocks_of_the_server(), 0) << "between the sessions of nodes: they try again, which costs time\n"
                                          << latest_deadlock();
  EXPECT_EQ(timeouts_of_the_server(), 0);
}

// A node renews rows in the order of their ids, and settles them outcome by outcome. Where the two meet, the server may
// find a deadlock between them, and the one that it ends tries again. Callers notice nothing.
TEST_F(MysqlSoak, I7_NorWhileLeasesAreRenewed) {
  lease = 4s;
  run();
  RecordProperty("deadlocks", static_cast<int>(deadlocks_of_the_server()));
  EXPECT_EQ(timeouts_of_the_server(), 0);
}

}  // namespace
}  // namespace outbox

// Races by name, on a real file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <latch>
#include <outbox/error.hpp>
#include <outbox/node.hpp>
#include <outbox/sqlite.hpp>
#include <outbox/testing.hpp>

#include "support/temporary_directory.hpp"
#include "support/waiting.hpp"
#include "unit/stepper.hpp"

namespace outbox::core {
namespace {

// A file, a clock that stands still, and a node that is moved by hand.
class Race : public ::testing::Test {
 protected:
  void SetUp() override {
    core = std::make_shared<node_core>(step_settings(faulty, clock));
    core->with_engine([&](engine& e) { e.open(clock->steady()); });
  }

  void write(sqlite::transaction& tx, std::string const& id) {
    auto const e = event::json("t", "1", {.id = id});
    core->write(join(tx), std::span{&e, 1});
  }
  bool poll() {
    auto const p = core->plan_poll();
    if (!p.request) return false;
    core->carry(*p.request);
    return true;
  }
  std::string deliver() {
    auto const t = core->with_engine([&](engine& e) { return e.start_next(clock->steady()).first; });
    if (!t) return {};
    core->with_engine([&](engine& e) { e.finish(*t, {done, {}}, clock->steady()); });
    return t->event.id();
  }
  bool settle() {
    auto const p = core->with_engine([&](engine& e) { return e.plan_settle(clock->steady(), true); });
    if (!p.request) return false;
    core->carry(*p.request);
    return true;
  }
  row_view row(std::string const& id) { return store->inspect().find(id).value(); }
  node_counters counters() {
    return core->with_engine([](engine& e) { return e.counters(); });
  }

  temporary_directory dir;
  std::string path = dir / "shop.db";
  std::shared_ptr<testing::manual_clock> clock = std::make_shared<testing::manual_clock>(
      std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now()));
  std::shared_ptr<outbox::store> store = sqlite::open(path, {.busy_timeout = 50ms, .clock = clock});
  testing::fault next_settle = testing::fault::none;
  std::shared_ptr<testing::faulty_store> faulty =
      std::make_shared<testing::faulty_store>(store, [this](testing::operation what) {
        return what == testing::operation::settle ? std::exchange(next_settle, testing::fault::none)
                                                  : testing::fault::none;
      });
  std::shared_ptr<node_core> core;
  sqlite::connection db{path};
};

TEST_F(Race, CommitAfterHalfTheLease) {
  sqlite::transaction tx{db};
  write(tx, "a");
  clock->advance(16s);
  tx.commit();
  EXPECT_EQ(deliver(), "");
  poll();
  EXPECT_EQ(row("a").locked_by, "");
  poll();
  EXPECT_EQ(deliver(), "a");
  EXPECT_EQ(row("a").crashes, 0);
}

TEST_F(Race, I2_SavepointRolledBackByRawSql) {
  sqlite::transaction tx{db};
  write(tx, "kept");
  db.execute("SAVEPOINT s");
  write(tx, "undone");
  db.execute("ROLLBACK TO s");
  tx.commit();
  EXPECT_EQ(deliver(), "kept");
  EXPECT_EQ(deliver(), "");
}

TEST_F(Race, I2_SavepointRolledBackAndItsRowidReused) {
  sqlite::transaction tx{db};
  db.execute("SAVEPOINT s");
  write(tx, "undone");
  db.execute("ROLLBACK TO s");
  write(tx, "kept");
  tx.commit();
  EXPECT_EQ(row("kept").seq, 1) << "the rowid that 'undone' had";
  EXPECT_EQ(deliver(), "kept");
  EXPECT_EQ(deliver(), "");
}

TEST_F(Race, I7_SettlementWhoseReplyIsLost) {
  sqlite::transaction tx{db};
  write(tx, "a");
  tx.commit();
  EXPECT_EQ(deliver(), "a");
  next_settle = testing::fault::after;
  settle();
  EXPECT_EQ(row("a").status, event_status::delivered);
  clock->advance(1s);
  settle();
  EXPECT_EQ(counters().unconfirmed, 1U);
  while (poll()) {
  }
  EXPECT_EQ(deliver(), "");
}

TEST_F(Race, TransactionOfAnotherDatabaseFile) {
  static_cast<void>(sqlite::open(dir / "other.db"));
  sqlite::connection other{dir / "other.db"};
  sqlite::transaction tx{other};
  try {
    write(tx, "a");
    FAIL() << "written";
  } catch (error const& e) {
    EXPECT_EQ(e.code(), errc::wrong_transaction);
  }
  tx.commit();
  EXPECT_FALSE(sqlite::open(dir / "other.db")->inspect().find("a"));
}

TEST_F(Race, TransactionOfAnInMemoryDatabase) {
  sqlite3* memory = nullptr;
  sqlite3_open(":memory:", &memory);
  {
    sqlite::transaction tx{memory};
    EXPECT_THROW(write(tx, "a"), error);
  }
  sqlite3_close(memory);
}

TEST_F(Race, TheSameFileByAnotherPathIsTheSameFile) {
  ASSERT_EQ(::symlink(path.c_str(), (dir / "link.db").c_str()), 0);
  sqlite::connection link{dir / "link.db"};
  sqlite::transaction tx{link};
  write(tx, "a");
  tx.commit();
  EXPECT_EQ(deliver(), "a");
}

TEST_F(Race, ACommitThatADeferredConstraintRefusesIsRolledBack) {
  db.execute(
      "PRAGMA foreign_keys = ON; CREATE TABLE p (id INTEGER PRIMARY KEY);"
      "CREATE TABLE c (p REFERENCES p (id) DEFERRABLE INITIALLY DEFERRED)");
  sqlite::transaction tx{db};
  db.execute("INSERT INTO c VALUES (42)");
  write(tx, "a");
  EXPECT_THROW(tx.commit(), error);
  EXPECT_FALSE(tx.active());
  EXPECT_EQ(deliver(), "");
  EXPECT_FALSE(store->inspect().find("a"));
  sqlite::transaction again{db};
  write(again, "b");
  again.commit();
  EXPECT_EQ(deliver(), "b");
}

TEST_F(Race, TheApplicationEndsTheTransactionBySql) {
  sqlite::transaction tx{db};
  write(tx, "a");
  db.execute("COMMIT");
  EXPECT_FALSE(tx.active());
  EXPECT_THROW(tx.commit(), error);
  EXPECT_EQ(deliver(), "") << "how it ended is not known to us";
  while (poll()) {
  }
  EXPECT_EQ(deliver(), "a") << "the poller decides";
}

TEST_F(Race, I9_AnErrorInTheMiddleOfAWriteLeavesNothingHalfDone) {
  std::vector<event> events;
  for (auto const* id : {"a", "b", "a"}) events.push_back(event::json("t", "1", {.id = id}));
  sqlite::transaction tx{db};
  EXPECT_THROW(core->write(join(tx), events), error);
  EXPECT_TRUE(tx.active()) << "the caller decides what becomes of it";
  write(tx, "c");
  tx.commit();
  EXPECT_FALSE(store->inspect().find("a"));
  EXPECT_EQ(deliver(), "c");
  EXPECT_EQ(deliver(), "");
}

// A DEFERRED transaction that has read and then writes after another connection has committed fails at once, whatever
// the busy timeout: that is SQLite's rule for snapshots. The error is transient, nothing was written, and the caller
// begins anew.
TEST_F(Race, CallersDeferredTransactionAgainstOurSettler) {
  sqlite::transaction first{db};
  write(first, "a");
  first.commit();
  ASSERT_EQ(deliver(), "a");

  sqlite::connection late{path};
  late.execute("BEGIN DEFERRED; SELECT count(*) FROM outbox_event");
  settle();  // our commit
  try {
    auto const e = event::json("t", "1", {.id = "b"});
    core->write(join(late.handle()), std::span{&e, 1});
    FAIL() << "written on an old snapshot";
  } catch (error const& e) {
    EXPECT_TRUE(e.transient()) << e.what();
  }
  late.execute("ROLLBACK; BEGIN IMMEDIATE");
  auto const e = event::json("t", "1", {.id = "b"});
  core->write(join(late.handle()), std::span{&e, 1});
  late.execute("COMMIT");
  EXPECT_TRUE(store->inspect().find("b"));
}

TEST_F(Race, DatabaseFileLockedForTenSeconds) {
  sqlite::transaction tx{db};
  write(tx, "a");
  tx.commit();
  ASSERT_EQ(deliver(), "a");
  sqlite::connection other{path};
  other.execute("BEGIN EXCLUSIVE");
  for (int tenth = 0; tenth < 100; ++tenth) {
    settle();  // when its backoff says so
    clock->advance(100ms);
  }
  EXPECT_GE(counters().store_errors, 3U) << "it has tried, and waited for its patience each time";
  EXPECT_EQ(counters().held, 1U) << "kept until it can be settled";
  other.execute("ROLLBACK");
  clock->advance(3s);
  settle();
  EXPECT_EQ(row("a").status, event_status::delivered);
  EXPECT_EQ(counters().delivered, 1U);
  EXPECT_EQ(counters().lost + counters().unconfirmed, 0U);
}

TEST_F(Race, I9_TransactionThatOutlivesTheNode) {
  sqlite::transaction tx{db};
  write(tx, "a");
  core.reset();
  tx.commit();
  EXPECT_NE(row("a").locked_by, "");
  clock->advance(31s);
  EXPECT_THAT(store->backend().claim({.token = "m/1", .lease = 30s}).rows, SizeIs(1));
}

// Whole nodes with threads.
class LiveRace : public ::testing::Test {
 protected:
  void commit(node& n, std::string const& id) {
    sqlite::connection db{path};
    sqlite::transaction tx{db};
    n.writer().write(tx, "t", "1", {.id = id});
    tx.commit();
  }
  temporary_directory dir;
  std::string path = dir / "shop.db";
  tally seen;
};

TEST_F(LiveRace, HungListener) {
  std::latch release{1};
  {
    multi_node_options o{.store = sqlite::open(path),
                         .workers = 2,
                         .retry = {.max_attempts = 3, .backoff = {.base = 1ms, .cap = 2ms}},
                         .log = nullptr};
    o.poll.every = 5ms;
    o.listeners.on("t",
                   [&](delivery const& d) {
                     if (d.id == "hangs" && d.attempt == 1) release.wait();
                     seen.add(d.id);
                   },
                   {.timeout = 5s});
    auto n = multi_node(std::move(o));
    n.start();
    commit(n, "hangs");
    ASSERT_TRUE(seen.reach(1)) << "its second try, while the first still hangs";
    commit(n, "other");
    ASSERT_TRUE(seen.reach(2));
    EXPECT_EQ(n.counters().timed_out, 1U);
    release.count_down();
    ASSERT_TRUE(eventually([&] { return n.counters().late_results == 1; }));
  }
  EXPECT_EQ(seen.of("hangs"), 2);
  auto const row = sqlite::open(path)->inspect().find("hangs");
  EXPECT_EQ(row->status, event_status::delivered);
  EXPECT_EQ(row->attempts, 1);
}

TEST_F(LiveRace, StopWhileListenersRunAndTheResultComesAfterTheStop) {
  std::latch started{1};
  std::latch release{1};
  {
    single_node_options o{.store = sqlite::open(path), .workers = 1, .log = nullptr};
    o.listeners.on("t", [&](delivery const& d) {
      started.count_down();
      release.wait();
      seen.add(d.id);
    });
    auto n = single_node(std::move(o));
    n.start();
    ASSERT_TRUE(eventually([&] { return n.health().active; }));
    commit(n, "a");
    started.wait();
    EXPECT_FALSE(n.stop(1ms));
    release.count_down();
  }
  EXPECT_EQ(sqlite::open(path)->inspect().find("a")->status, event_status::delivered) << "settled by the destructor";
}

TEST_F(LiveRace, AFullDiskDelaysDelivery) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to mount a small disk";
  auto const disk = dir / "disk";
  std::filesystem::create_directory(disk);
  if (::mount("outbox-test", disk.c_str(), "tmpfs", 0, "size=2m") != 0) {
    GTEST_SKIP() << "cannot mount a small disk: " << std::strerror(errno);
  }
  struct unmount {
    std::string const& disk;
    ~unmount() { ::umount2(disk.c_str(), MNT_DETACH); }
  } const at_the_end{disk};
  path = disk + "/shop.db";
  {
    single_node_options o{.store = sqlite::open(path, {.busy_timeout = 50ms}), .log = nullptr};
    o.poll.every = 5ms;
    o.listeners.on("t", [&](delivery const& d) { seen.add(d.id); });
    auto n = single_node(std::move(o));
    n.start();
    ASSERT_TRUE(eventually([&] { return n.health().active; }));
    commit(n, "before");
    ASSERT_TRUE(seen.reach(1));
    ASSERT_TRUE(eventually([&] { return n.counters().held == 0; }));

    {
      std::ofstream hog{disk + "/hog", std::ios::binary};
      std::string const block(4096, 'x');
      while (hog.write(block.data(), static_cast<std::streamsize>(block.size())).flush()) {
      }
    }
    // Callers get a clear error, and nothing of theirs is half done.
    int refused = 0;
    for (int i = 0; i < 200 && refused == 0; ++i) {
      try {
        sqlite::connection db{path};
        sqlite::transaction tx{db};
        n.writer().write(tx, "t", '"' + std::string(60'000, 'x') + '"', {.id = "full-" + std::to_string(i)});
        tx.commit();
      } catch (error const& e) {
        EXPECT_TRUE(e.transient()) << e.what();
        ++refused;
      }
    }
    EXPECT_EQ(refused, 1);
    std::filesystem::remove(disk + "/hog");
    commit(n, "after");
    ASSERT_TRUE(eventually([&] { return seen.of("after") == 1; })) << "the node has recovered by itself";
    auto const look = sqlite::open(path);
    ASSERT_TRUE(eventually([&] { return look->inspect().counts().pending() == 0; }));
    EXPECT_EQ(look->inspect().counts().done, seen.total()) << "nothing lost, nothing twice";
  }
}

TEST_F(LiveRace, I7_ManyWritersEachEventOnce) {
  constexpr int writers = 4;
  constexpr int each = 100;
  single_node_options o{
      .store = sqlite::open(path, {.busy_timeout = 20s}), .queue = {.hot = 10, .cold = 60}, .log = nullptr};
  o.poll.every = 5ms;
  o.listeners.on("t", [&](delivery const& d) { seen.add(d.id); });
  auto n = single_node(std::move(o));
  n.start();
  ASSERT_TRUE(eventually([&] { return n.health().active; }));
  std::vector<std::thread> threads;
  for (int w = 0; w < writers; ++w) {
    threads.emplace_back([&, w] {
      sqlite::connection db{path, 60s};
      for (int i = 0; i < each; ++i) {
        sqlite::transaction tx{db};
        n.writer().write(tx, "t", "1", {.id = std::to_string(w) + "-" + std::to_string(i)});
        if (i % 10 != 9) tx.commit();
      }
    });
  }
  for (auto& t : threads) t.join();
  constexpr std::size_t committed = writers * each * 9 / 10;
  ASSERT_TRUE(seen.reach(committed));
  EXPECT_TRUE(n.stop(60s));
  EXPECT_EQ(seen.total(), committed);
  auto const c = n.counters();
  EXPECT_EQ(c.hot_enqueued + c.cold_enqueued, c.settled + c.released + c.lost + c.unconfirmed + c.held);
  EXPECT_EQ(c.lost + c.unconfirmed, 0U);
}

}  // namespace
}  // namespace outbox::core

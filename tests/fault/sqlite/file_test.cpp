// The files around a database: how they are opened, who opens them at once, and what becomes of the lock file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <future>
#include <outbox/outbox.hpp>
#include <outbox/spi/store.hpp>
#include <outbox/sqlite.hpp>

#include "support/forked.hpp"
#include "support/temporary_directory.hpp"
#include "support/waiting.hpp"

namespace outbox {
namespace {

using namespace spi;

using namespace std::chrono_literals;
using ::testing::HasSubstr;

class SqliteFile : public ::testing::Test {
 protected:
  temporary_directory dir;
  std::string path = dir / "shop.db";
};

// What is thrown, and that it names the file.
template <class F>
errc thrown_about(std::string const& path, F&& f) {
  try {
    f();
  } catch (error const& e) {
    EXPECT_THAT(e.what(), HasSubstr("'" + path + "'"));
    EXPECT_EQ(e.transient(), e.code() == errc::unavailable);
    return e.code();
  }
  ADD_FAILURE() << path << " was opened";
  return errc::lifecycle;
}

template <class F>
error thrown(F&& f) {
  try {
    f();
  } catch (error const& e) {
    return e;
  }
  return error{errc::lifecycle, "nothing was thrown"};
}

void expect_refused_for_good(std::string const& path) {
  EXPECT_EQ(thrown_about(path, [&] { static_cast<void>(sqlite::open(path)); }), errc::store_failure);
  EXPECT_EQ(thrown_about(path, [&] { sqlite::connection{path}; }), errc::store_failure);
  EXPECT_EQ(thrown_about(path, [&] { sqlite::migrate(path); }), errc::store_failure);
}

TEST_F(SqliteFile, ADirectoryThatIsMissingIsNotTransient) { expect_refused_for_good(dir / "missing/shop.db"); }

TEST_F(SqliteFile, ADirectoryInPlaceOfTheFileIsNotTransient) { expect_refused_for_good(dir.string()); }

TEST_F(SqliteFile, WhatIsNotADatabaseIsNotTransient) {
  std::ofstream{path} << std::string(4096, 'x');
  expect_refused_for_good(path);
}

TEST_F(SqliteFile, AFileWithoutTheRightToWriteIsNotTransient) {
  static_cast<void>(sqlite::open(path));
  ASSERT_EQ(::chmod(path.c_str(), 0444), 0);
  ASSERT_EQ(::chmod(dir.string().c_str(), 0555), 0);
  EXPECT_EQ(in_child([&] {
              if (::geteuid() == 0 && ::setuid(65534) != 0) return 1;  // root may do anything
              expect_refused_for_good(path);
              return ::testing::Test::HasFailure() ? 1 : 0;
            }),
            0);
  ASSERT_EQ(::chmod(dir.string().c_str(), 0755), 0);
}

TEST_F(SqliteFile, AProcessWithoutDescriptorsLeftMayTryAgain) {
  static_cast<void>(sqlite::open(path));
  EXPECT_EQ(in_child([&] {
              ::rlimit const none{0, 0};
              ::setrlimit(RLIMIT_NOFILE, &none);
              return thrown_about(path, [&] { static_cast<void>(sqlite::open(path)); }) == errc::unavailable ? 0 : 1;
            }),
            0);
}

TEST_F(SqliteFile, AFileThatSomebodyHasLockedMayBeTriedAgain) {
  sqlite3* other = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &other), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(other, "CREATE TABLE t (x); BEGIN EXCLUSIVE", nullptr, nullptr, nullptr), SQLITE_OK);
  EXPECT_EQ(thrown_about(path, [&] { static_cast<void>(sqlite::open(path, {.busy_timeout = 10ms})); }),
            errc::unavailable);
  sqlite3_close(other);
  EXPECT_NO_THROW(static_cast<void>(sqlite::open(path)));
}

TEST_F(SqliteFile, AConnectionWaitsForALockAsLongAsItWasTold) {
  sqlite::connection holder{path};
  holder.execute("BEGIN IMMEDIATE");
  for (auto const limit : {0ms, 20ms}) {
    sqlite::connection waiter{path, limit};
    auto const began = std::chrono::steady_clock::now();
    EXPECT_EQ(thrown([&] { waiter.execute("BEGIN IMMEDIATE"); }).code(), errc::unavailable) << limit.count();
    EXPECT_GE(std::chrono::steady_clock::now() - began, limit);
  }
  sqlite::connection waiter{path, 60s};
  auto got = std::async(std::launch::async, [&] { waiter.execute("BEGIN IMMEDIATE"); });
  EXPECT_EQ(got.wait_for(30ms), std::future_status::timeout) << "the lock is held";
  holder.execute("ROLLBACK");
  EXPECT_NO_THROW(got.get());
}

// SQLite does not wait for the switch to WAL, whatever the busy timeout.
TEST_F(SqliteFile, SeveralProcessesMayOpenANewFileAtOnce) {
  constexpr int rounds = 20;
  constexpr int processes = 8;
  int failed = 0;
  for (int round = 0; round < rounds; ++round) {
    auto const fresh = dir / ("fresh-" + std::to_string(round) + ".db");
    int gate[2];
    ASSERT_EQ(::pipe(gate), 0);
    std::vector<::pid_t> children;
    for (int i = 0; i < processes; ++i) {
      auto const child = ::fork();
      if (child == 0) {
        ::close(gate[1]);
        char c = 0;
        if (::read(gate[0], &c, 1) != 0) ::_exit(2);  // until it is closed
        int code = 0;
        try {
          static_cast<void>(sqlite::open(fresh, {.busy_timeout = 30s}));
        } catch (error const& e) {
          std::fprintf(stderr, "%s\n", e.what());
          code = 1;
        }
        ::_exit(code);
      }
      children.push_back(child);
    }
    ::close(gate[0]);
    ::close(gate[1]);
    for (auto const child : children) {
      int status = 0;
      ::waitpid(child, &status, 0);
      failed += status != 0 ? 1 : 0;
    }
  }
  EXPECT_EQ(failed, 0) << "of " << rounds * processes;
}

TEST_F(SqliteFile, AnApplicationThatSharesCachesDoesNotShareOurs) {
  struct sharing {
    sharing() { sqlite3_enable_shared_cache(1); }
    ~sharing() { sqlite3_enable_shared_cache(0); }
  } const until_the_end;
  auto const store = sqlite::open(path);
  sqlite::connection a{path};
  sqlite::connection b{path};
  auto const e = event::json("t", "1", {.id = "x"});
  insertion const row{&e};
  sqlite::transaction tx{a};
  store->backend().insert(join(tx), std::span{&row, 1});
  // Connections that share a cache cannot read what one of them has changed, and fail without waiting.
  EXPECT_EQ(store->inspect().counts().pending(), 0U);
  EXPECT_NO_THROW(b.execute("SELECT count(*) FROM outbox_event"));
  tx.commit();
  EXPECT_EQ(store->inspect().counts().pending(), 1U);
}

TEST_F(SqliteFile, BusyTimeoutHasLimits) {
  for (auto const wrong : {-1ms, std::chrono::milliseconds{10min} + 1ms}) {
    for (auto const& e : {thrown([&] { static_cast<void>(sqlite::open(path, {.busy_timeout = wrong})); }),
                          thrown([&] { sqlite::migrate(path, {.busy_timeout = wrong}); }), thrown([&] {
                            sqlite::connection{path, wrong};
                          })}) {
      EXPECT_EQ(e.code(), errc::invalid_option) << e.what();
      EXPECT_EQ(e.field(), "busy_timeout");
    }
  }
  EXPECT_FALSE(std::filesystem::exists(path)) << "nothing was opened";
  EXPECT_NO_THROW(static_cast<void>(sqlite::open(path, {.busy_timeout = 0ms})));
  EXPECT_NO_THROW(static_cast<void>(sqlite::open(path, {.busy_timeout = 10min})));
}

TEST_F(SqliteFile, ANullHandleIsInNoTransaction) {
  auto const n = writer_only({.store = sqlite::open(path), .log = nullptr});
  sqlite3* const none = nullptr;
  EXPECT_EQ(thrown([&] { n.writer().write(none, "t", "1"); }).code(), errc::no_transaction);
  EXPECT_EQ(thrown([&] { sqlite::transaction{none}; }).code(), errc::no_transaction);
}

TEST_F(SqliteFile, AUniqueConstraintOfAnotherTableIsNoDuplicateEvent) {
  sqlite::connection db{path};
  db.execute("CREATE TABLE u (a INTEGER UNIQUE); INSERT INTO u VALUES (1)");
  try {
    db.execute("INSERT INTO u VALUES (1)");
    FAIL() << "accepted";
  } catch (error const& e) {
    EXPECT_EQ(e.code(), errc::store_failure) << e.what();
  }
}

// A cleaner of old files, or a start script, removes the lock file while a node holds it.
class LockFile : public SqliteFile {
 protected:
  struct member {
    std::atomic<bool> asked = false;  ///< It has got the lock, or stands by.
    std::optional<node> n;
    [[nodiscard]] bool active() const { return n->health().active; }
  };

  void start(member& m) {
    single_node_options o{.store = sqlite::open(path)};
    o.poll.every = 20ms;
    o.log = [&m](log_line const& line) {
      if (line.message.starts_with("dispatching") || line.message.ends_with("standing by")) m.asked = true;
    };
    o.listeners.on("t", [this](delivery const& d) { seen.add(d.id); });
    m.n.emplace(single_node(std::move(o)));
    m.n->start();
    ASSERT_TRUE(eventually([&] { return m.asked.load(); }));
  }
  void commit(member& m, std::string const& id) {
    sqlite::connection db{path};
    sqlite::transaction tx{db};
    m.n->writer().write(tx, "t", "1", {.id = id});
    tx.commit();
  }

  std::string lock_path = path + "-outbox_event.lock";
  tally seen;
};

TEST_F(LockFile, ALockWhoseFileIsRemovedIsLost) {
  auto const one = sqlite::open(path);
  auto const two = sqlite::open(path);
  auto a = one->backend().try_dispatch_lock("a", 30s);
  ASSERT_TRUE(a);
  EXPECT_TRUE(a->held());
  ASSERT_EQ(::unlink(lock_path.c_str()), 0);
  EXPECT_FALSE(a->held());
  EXPECT_THROW(a->expire_others(), error);
  auto const b = two->backend().try_dispatch_lock("b", 30s);
  ASSERT_TRUE(b);
  EXPECT_TRUE(b->held());
  EXPECT_FALSE(a->held()) << "the file that is there now is another one";
  a.reset();
  EXPECT_TRUE(b->held());
  EXPECT_FALSE(one->backend().try_dispatch_lock("c", 30s));
}

TEST_F(LockFile, I7_OneOfTwoNodesIsActiveAfterTheFileWasRemoved) {
  member a;
  member b;
  start(a);
  ASSERT_TRUE(eventually([&] { return a.active(); }));
  ASSERT_EQ(::unlink(lock_path.c_str()), 0);
  start(b);
  ASSERT_TRUE(eventually([&] { return a.active() != b.active(); })) << "both are";
  commit(a, "x");
  ASSERT_TRUE(seen.reach(1));
  EXPECT_TRUE(a.n->stop());
  EXPECT_TRUE(b.n->stop());
  EXPECT_EQ(seen.of("x"), 1);
}

TEST_F(LockFile, I7_ANodeStandsByWhileAnotherHoldsTheNewFile) {
  member a;
  start(a);
  ASSERT_TRUE(eventually([&] { return a.active(); }));
  auto const other = dir / "other.lock";
  int const fd = ::open(other.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  ASSERT_EQ(::flock(fd, LOCK_EX), 0);
  ASSERT_EQ(::rename(other.c_str(), lock_path.c_str()), 0);
  ASSERT_TRUE(eventually([&] { return !a.active(); }));
  commit(a, "x");
  EXPECT_EQ(sqlite::open(path)->inspect().find("x")->locked_by, "") << "the holder of the lock delivers it";
  ::close(fd);
  ASSERT_TRUE(seen.reach(1)) << "it has the lock again";
  EXPECT_TRUE(a.n->stop());
  EXPECT_EQ(seen.of("x"), 1);
}

}  // namespace
}  // namespace outbox

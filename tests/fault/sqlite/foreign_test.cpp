// Other programs on the same file: the sqlite3 shell, and processes of our own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <outbox/outbox.hpp>
#include <outbox/spi/store.hpp>
#include <outbox/sqlite.hpp>
#include <outbox/testing.hpp>
#include <set>

#include "sqlite/statements.hpp"
#include "support/change_counter.hpp"
#include "support/temporary_directory.hpp"
#include "support/waiting.hpp"

namespace outbox {
namespace {

using namespace spi;

using namespace std::chrono_literals;

class Foreign : public ::testing::Test {
 protected:
  void SetUp() override { store = sqlite::open(path); }

  // What the sqlite3 shell prints for a script.
  std::string shell(std::string const& sql) {
    auto const script = dir / "script.sql";
    std::ofstream{script} << ".timeout 20000\n" << sql;
    auto const command = "sqlite3 -batch -bail '" + path + "' < '" + script + "' 2>&1";
    std::FILE* const p = ::popen(command.c_str(), "r");
    std::string out;
    for (int c = std::fgetc(p); c != EOF; c = std::fgetc(p)) out += static_cast<char>(c);
    EXPECT_EQ(::pclose(p), 0) << out;
    return out;
  }
  // What a node says, line by line.
  class testing_log {
   public:
    log_function function() {
      return [this](log_line const& line) {
        std::lock_guard const lock{mutex_};
        text_ += line.text() + "\n";
      };
    }
    std::string text() {
      std::lock_guard const lock{mutex_};
      return text_;
    }

   private:
    std::mutex mutex_;
    std::string text_;
  };
  single_node_options options() {
    single_node_options o{.store = store, .poll = {.every = 1h}, .log = nullptr};
    o.listeners.on("UserCreated", [this](delivery const& d) { seen.add(d.id); });
    return o;
  }

  temporary_directory dir;
  std::string path = dir / "shop.db";
  std::shared_ptr<outbox::store> store;
  tally seen;
};

// The INSERT of the specification, with its eleven columns.
std::string plain_insert(std::string const& id, std::string const& when) {
  return "INSERT INTO outbox_event (event_id, event_type, aggregate_type, aggregate_id, tenant_id, payload, headers, "
         "status, attempts, "
         "available_at, created_at) VALUES ('" +
         id + "', 'UserCreated', 'User', '7', NULL, '{\"name\":\"Ann\"}', NULL, 0, 0, " + when + ", " + when + ");";
}

TEST_F(Foreign, RowsInsertedByTheShellAreDelivered) {
  shell(plain_insert("a", "'2026-01-01 00:00:00.000000'") + plain_insert("b", "'2026-01-01T00:00:00'") +
        plain_insert("c", "strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-1 seconds')"));
  auto n = single_node(options());
  n.start();
  ASSERT_TRUE(seen.reach(3));
  EXPECT_TRUE(n.stop(60s));
  EXPECT_EQ(shell("SELECT status, count(*) FROM outbox_event GROUP BY status;"), "1|3\n");
}

TEST_F(Foreign, AnotherProcessesCommitIsNoticedWithinMilliseconds) {
  auto n = single_node(options());  // polls once an hour
  n.start();
  ASSERT_TRUE(eventually([&] { return n.health().active; }));
  shell(plain_insert("a", "'2026-01-01 00:00:00'"));
  EXPECT_TRUE(seen.reach(1));
}

TEST_F(Foreign, LockColumnsFollowTheOwner) {
  for (auto const* id : {"done", "retry", "defer", "dead"}) shell(plain_insert(id, "'2026-01-01 00:00:00'"));
  auto const locks = [&] {
    return shell("SELECT coalesce(locked_by, '-'), locked_at IS NULL, lease_until IS NULL FROM outbox_event;");
  };
  EXPECT_EQ(locks(), "-|1|1\n-|1|1\n-|1|1\n-|1|1\n");
  auto const rows = store->backend().claim({.token = "n/1", .lease = std::chrono::seconds{30}}).rows;
  EXPECT_EQ(locks(), "n/1|0|0\nn/1|0|0\nn/1|0|0\nn/1|0|0\n");
  std::vector<settlement> const ends{
      {.row = rows.at(0).handle, .outcome = outcome::delivered},
      {.row = rows.at(1).handle, .outcome = outcome::retry, .counted = 1, .delay = 1h, .error = "down"},
      {.row = rows.at(2).handle, .outcome = outcome::defer, .delay = 1h},
      {.row = rows.at(3).handle, .outcome = outcome::dead, .error = "no"}};
  EXPECT_EQ(store->backend().settle(ends).applied, std::vector<bool>(4, true));
  EXPECT_EQ(locks(), "-|1|1\n-|1|1\n-|1|1\n-|1|1\n");
}

TEST_F(Foreign, ARawHandlesCommitIsNoticedToo) {
  auto n = single_node(options());
  n.start();
  ASSERT_TRUE(eventually([&] { return n.health().active; }));
  sqlite::connection db{path};
  sqlite3* raw = db.handle();
  db.execute("BEGIN");
  n.writer().write(raw, "UserCreated", "1", {.id = "raw"});
  EXPECT_EQ(seen.total(), 0U);
  db.execute("COMMIT");
  EXPECT_TRUE(seen.reach(1));
}

TEST_F(Foreign, ARawHandleOutsideATransactionIsRefused) {
  auto n = single_node(options());
  sqlite::connection db{path};
  sqlite3* raw = db.handle();
  try {
    n.writer().write(raw, "UserCreated", "1");
    FAIL() << "written";
  } catch (error const& e) {
    EXPECT_EQ(e.code(), errc::no_transaction);
  }
}

TEST_F(Foreign, NothingIsLeftBehindOnABorrowedHandle) {
  auto n = single_node(options());
  n.start();
  sqlite3* raw = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &raw), SQLITE_OK);
  sqlite3_busy_timeout(raw, 20'000);
  sqlite3_exec(raw, "PRAGMA synchronous = NORMAL", nullptr, nullptr, nullptr);
  int commits = 0;
  sqlite3_commit_hook(
      raw, [](void* p) { return ++*static_cast<int*>(p), 0; }, &commits);
  {
    sqlite::transaction tx{raw};
    n.writer().write(tx, "UserCreated", "1", {.id = "a"});
    tx.commit();
  }
  EXPECT_EQ(commits, 1) << "the application's own hook still fires";
  EXPECT_EQ(sqlite3_next_stmt(raw, nullptr), nullptr) << "no prepared statement";
  std::string synchronous;
  sqlite3_exec(
      raw, "PRAGMA synchronous", [](void* p, int, char** v, char**) { return *static_cast<std::string*>(p) = v[0], 0; },
      &synchronous, nullptr);
  EXPECT_EQ(synchronous, "1");
  EXPECT_EQ(sqlite3_close(raw), SQLITE_OK) << "and it can be closed: nothing hangs on it";
  EXPECT_TRUE(seen.reach(1));
}

TEST_F(Foreign, AConnectionOfTheStorePreparesEachStatementOnce) {
  auto n = single_node(options());
  sqlite::connection db{path};
  auto const statements = [&] {
    int count = 0;
    for (auto* s = sqlite3_next_stmt(db.handle(), nullptr); s != nullptr; s = sqlite3_next_stmt(db.handle(), s))
      ++count;
    return count;
  };
  auto const write_one = [&] {
    sqlite::transaction tx{db};
    n.writer().write(tx, "UserCreated", "1");
    tx.commit();
  };
  write_one();
  auto const prepared = statements();
  EXPECT_GT(prepared, 0);
  for (int i = 0; i < 10; ++i) write_one();
  EXPECT_EQ(statements(), prepared);
}

TEST_F(Foreign, OurRowsAreReadByTheSpecificationsPollQuery) {
  auto n = single_node(options());
  sqlite::connection db{path};
  sqlite::transaction tx{db};
  n.writer().write(tx, "UserCreated", R"({"name":"Ann"})",
                   {.id = "x", .aggregate = {"User", "7"}, .tenant = "acme", .headers = {{"h", "v"}}});
  n.writer().write(tx, "UserCreated", "1", {.id = "none", .deliver_after = 1h});
  tx.commit();
  EXPECT_EQ(shell("SELECT event_id FROM outbox_event WHERE headers IS NULL;"), "none\n") << "not an empty object";
  EXPECT_EQ(shell("SELECT event_id, event_type, aggregate_type, aggregate_id, tenant_id, payload, headers, attempts "
                  "FROM outbox_event "
                  "WHERE status IN (0, 2) AND available_at <= strftime('%Y-%m-%d %H:%M:%f', 'now', '+1 seconds') "
                  "AND created_at <= strftime('%Y-%m-%d %H:%M:%f', 'now', '+1 seconds') ORDER BY created_at LIMIT 10;"),
            "x|UserCreated|User|7|acme|{\"name\":\"Ann\"}|{\"h\":\"v\"}|0\n");
}

TEST_F(Foreign, AWritersClockAheadOfOursDelaysNothing) {
  shell(
      "INSERT INTO outbox_event (event_id, event_type, payload, status, available_at, created_at) VALUES "
      "('a', 'UserCreated', '1', 0, strftime('%Y-%m-%d %H:%M:%f', 'now', '-1 seconds'), strftime('%Y-%m-%d %H:%M:%f', "
      "'now', '+1 hours'));");
  auto n = single_node(options());
  n.start();
  EXPECT_TRUE(seen.reach(1));
}

// Several nodes may share one store.
TEST_F(Foreign, EverySubscriberIsToldOfAChange) {
  change_counter first{*store};
  change_counter second{*store};
  shell(plain_insert("a", "'2026-01-01'"));
  EXPECT_TRUE(eventually([&] { return first.count() > 0 && second.count() > 0; }));
  second.end();
  auto const heard = first.count();
  shell(plain_insert("b", "'2026-01-01'"));
  EXPECT_TRUE(eventually([&] { return first.count() > heard; })) << "the thread serves those that are left";
}

int threads_of_this_process() {
  namespace fs = std::filesystem;
  return static_cast<int>(std::distance(fs::directory_iterator{"/proc/self/task"}, fs::directory_iterator{}));
}

TEST_F(Foreign, TheFileIsWatchedOnlyWhileThereIsASubscriber) {
  std::thread{[] {}}.join();  // with the first thread the thread sanitizer starts one of its own
  auto const before = threads_of_this_process();
  {
    change_counter first{*store};
    change_counter second{*store};
    EXPECT_EQ(threads_of_this_process(), before + 1) << "one thread for both";
  }
  EXPECT_TRUE(eventually([&] { return threads_of_this_process() == before; }));
  change_counter again{*store};
  shell(plain_insert("a", "'2026-01-01'"));
  EXPECT_TRUE(eventually([&] { return again.count() > 0; }));
}

TEST_F(Foreign, R13_ARowThatCannotBeNormalisedDoesNotHoldUpTheOthers) {
  shell(
      "CREATE TRIGGER stuck BEFORE UPDATE ON outbox_event WHEN OLD.event_id = 'bad' BEGIN SELECT RAISE(ABORT, "
      "'stuck'); "
      "END;" +
      plain_insert("bad", "'2026-01-01T00:00:00+05:00'") + plain_insert("good", "'2026-01-01T00:00:01+05:00'") +
      plain_insert("plain", "'2026-01-02 00:00:00.000000'"));
  auto const reply = store->backend().claim({.token = "n/1", .lease = 30s});
  std::set<std::string> ids;
  for (auto const& r : reply.rows) ids.insert(r.handle.id);
  EXPECT_EQ(ids, (std::set<std::string>{"good", "plain"}));
  EXPECT_FALSE(reply.more) << "no second claim is needed at once";
}

// With a T its instant sorts behind every other one of the same day.
TEST_F(Foreign, R13_ARowThatCannotBeNormalisedIsReportedOnceAndAsksForNoOtherClaim) {
  shell(
      "CREATE TRIGGER stuck BEFORE UPDATE ON outbox_event WHEN OLD.event_id = 'bad' BEGIN SELECT RAISE(ABORT, "
      "'stuck'); END;" +
      plain_insert("bad", "strftime('%Y-%m-%dT%H:%M:%S.000000', 'now', '-1 minute')"));
  auto const reply = store->backend().claim({.token = "n/1", .lease = 30s});
  EXPECT_TRUE(reply.rows.empty());
  ASSERT_EQ(reply.refused.size(), 1U);
  EXPECT_EQ(reply.refused[0].id, "bad");
  EXPECT_NE(reply.refused[0].error.find("stuck"), std::string::npos) << reply.refused[0].error;
  EXPECT_FALSE(reply.next_due) << "it is due already";
  auto const next = store->backend().claim({.token = "n/2", .lease = 30s, .leave = {"bad"}});
  EXPECT_TRUE(next.refused.empty()) << "the node knows of it";
}

TEST_F(Foreign, I5_InOrderARowThatCannotBeNormalisedHoldsUpTheRowsBehindIt) {
  shell(
      "CREATE TRIGGER stuck BEFORE UPDATE ON outbox_event WHEN OLD.event_id = 'bad' BEGIN SELECT RAISE(ABORT, "
      "'stuck'); END;" +
      plain_insert("bad", "'2026-01-02T00:00:00.000000'") + plain_insert("next", "'2026-01-01 00:00:00.000000'"));
  EXPECT_THROW(static_cast<void>(store->backend().claim({.token = "n/1", .lease = 30s, .in_order = true})), error);
  shell("DROP TRIGGER stuck;");
  auto const reply = store->backend().claim({.token = "n/2", .lease = 30s, .in_order = true});
  ASSERT_EQ(reply.rows.size(), 2U);
  EXPECT_EQ(reply.rows[0].handle.id, "bad");
}

TEST_F(Foreign, RowsThatWaitBecauseATriggerRollsBackAreLoggedOnce) {
  std::vector<std::string> said;
  sqlite::options o;
  o.log = [&](log_line const& line) { said.push_back(line.text()); };
  auto const own = sqlite::open(path, std::move(o));
  shell(
      "CREATE TRIGGER stuck BEFORE UPDATE ON outbox_event WHEN OLD.event_id = 'bad' BEGIN SELECT RAISE(ROLLBACK, "
      "'not in my table'); END;" +
      plain_insert("bad", "'2026-01-01T00:00:00+05:00'") + plain_insert("plain", "'2026-01-02 00:00:00.000000'"));
  auto const first = own->backend().claim({.token = "n/1", .lease = 30s});
  ASSERT_EQ(first.rows.size(), 1U);
  EXPECT_EQ(first.rows[0].handle.id, "plain");
  static_cast<void>(own->backend().claim({.token = "n/2", .lease = 30s}));
  ASSERT_EQ(said.size(), 1U);
  EXPECT_NE(said[0].find("not in my table"), std::string::npos) << said[0];
}

TEST_F(Foreign, UnreadableHeadersMakeARowDead) {
  shell(
      "INSERT INTO outbox_event (event_id, event_type, payload, headers, status, available_at, created_at) VALUES "
      "('bad', 'UserCreated', '1', '[1,2]', 0, '2026-01-01', '2026-01-01');" +
      plain_insert("good", "'2026-01-01'"));
  std::vector<std::string> log;
  auto o = options();
  o.log = [&](log_line const& line) {
    if (line.level == log_level::error) log.push_back(line.text());
  };
  auto n = single_node(std::move(o));
  n.start();
  ASSERT_TRUE(seen.reach(1));
  ASSERT_TRUE(eventually([&] { return store->inspect().counts().pending() == 0; }));
  n.stop();
  EXPECT_THAT(log, ::testing::ElementsAre(::testing::HasSubstr(
                       "event bad (UserCreated) of route 'UserCreated' is DEAD: the row cannot be ")));
  EXPECT_EQ(store->inspect().find("bad")->status, event_status::dead);
  EXPECT_THAT(store->inspect().find("bad")->last_error, ::testing::HasSubstr("headers"));
}

TEST_F(Foreign, AnEmptyOwnerIsNoOwner) {
  shell(
      "INSERT INTO outbox_event (event_id, event_type, payload, status, available_at, created_at, locked_by) VALUES "
      "('a', 'UserCreated', '1', 0, '2026-01-01', '2026-01-01', '');");
  auto const reply = store->backend().claim({.token = "n/1", .lease = 30s});
  ASSERT_EQ(reply.rows.size(), 1U);
  EXPECT_EQ(reply.rows[0].crashes, 0);
  EXPECT_EQ(store->inspect().find("a")->crashes, 0) << "no node has crashed";
}

TEST_F(Foreign, AnEmptyOwnerIsNoOwnerOfARowWhoseCrashesAreUsedUp) {
  shell(
      "INSERT INTO outbox_event (event_id, event_type, payload, status, available_at, created_at, locked_by, crashes) "
      "VALUES ('a', 'UserCreated', '1', 0, '2026-01-01', '2026-01-01', '', 5);");
  ASSERT_EQ(store->backend().claim({.token = "n/1", .lease = 30s, .max_crashes = 5}).dead.size(), 1U);
  EXPECT_EQ(store->inspect().find("a")->status, event_status::dead);
  EXPECT_EQ(store->inspect().find("a")->crashes, 5);
}

// Rows that cannot be read: the listener is not called, the row is DEAD and says why, and so does the log.
TEST_F(Foreign, I1_ABlobForAnIdMakesARowDeadAndSpoilsNoOther) {
  shell(
      "INSERT INTO outbox_event (event_id, event_type, payload, status, available_at, created_at) VALUES "
      "(x'61', 'UserCreated', '1', 0, '2026-01-01 00:00:00.000000', '2026-01-01');" +
      plain_insert("a", "'2026-01-01 00:00:00.000000'"));
  testing_log log;
  auto o = options();
  o.log = log.function();
  auto n = single_node(std::move(o));
  n.run_until_idle();
  EXPECT_EQ(seen.of("a"), 1);
  EXPECT_EQ(seen.total(), 1U);
  EXPECT_EQ(shell("SELECT typeof(event_id), status, last_error FROM outbox_event ORDER BY seq;"),
            "blob|3|the row cannot be read: its event_id is a BLOB, it must be text\ntext|1|\n");
  EXPECT_THAT(log.text(), ::testing::HasSubstr("event X'61' (UserCreated) is DEAD: the row cannot be read"));
  EXPECT_EQ(n.counters().claimed_dead, 1U);
}

TEST_F(Foreign, I1_AnInstantThatCannotBeReadMakesARowDead) {
  for (auto const* wrong : {"'tomorrow'", "''", "'99999999999'", "1700000000", "x'00ff'", "'2026-02-30T00:00:00Z'"}) {
    shell("DELETE FROM outbox_event;" + plain_insert("a", wrong));
    auto const reply = store->backend().claim({.token = "n/1", .lease = 30s});
    EXPECT_TRUE(reply.rows.empty()) << wrong;
    ASSERT_EQ(reply.dead.size(), 1U) << wrong;
    EXPECT_EQ(reply.dead[0].id, "a");
    EXPECT_EQ(store->inspect().find("a")->status, event_status::dead);
    EXPECT_THAT(store->inspect().find("a")->last_error, ::testing::HasSubstr("is not an instant")) << wrong;
  }
  EXPECT_EQ(store->backend().replay({}, 10), 1U);
  EXPECT_EQ(store->backend().claim({.token = "n/2", .lease = 30s}).rows.size(), 1U) << "a replay is due now";
}

// The same instant as programs in other languages write it.
class ForeignInstant : public Foreign {
 protected:
  void SetUp() override { store = sqlite::open(path, {.clock = clock}); }

  static constexpr instant due{std::chrono::sys_days{std::chrono::year{2026} / 11 / 16} + 10h + 20min};
  std::shared_ptr<testing::manual_clock> clock = std::make_shared<testing::manual_clock>(due - 1s);
};

class ForeignForm : public ForeignInstant, public ::testing::WithParamInterface<char const*> {};

INSTANTIATE_TEST_SUITE_P(Forms, ForeignForm,
                         ::testing::Values("'2026-11-16T15:20:00+05:00'", "'2026-11-16T05:20:00-05:00'",
                                           "'2026-11-16 15:50:00.000+0530'", "'2026-11-16 15:20:00 +0500'",
                                           "'2026-11-16T05:20:00-05'", "'2026-11-16T10:20:00Z'",
                                           "'2026-11-16T10:20:00.000Z'", "'2026-11-16T10:20:00.000000000Z'",
                                           "'2026-11-16t10:20:00z'", "'2026-11-16 10:20:00 UTC'",
                                           "'2026-11-16T10:20:00.000000'", "'2026-11-16T10:20:00'",
                                           "'2026-11-16 10:20'", "CAST('2026-11-16 10:20:00.000000' AS BLOB)"));

// Neither early nor late; and until then the poller sleeps, because it is told when.
TEST_P(ForeignForm, ARowIsDueAtItsInstantInAnyForm) {
  shell(plain_insert("a", GetParam()) + plain_insert("later", "'2026-11-16 10:21:00.000000'"));
  auto reply = store->backend().claim({.token = "n/1", .lease = 30s});
  EXPECT_TRUE(reply.rows.empty()) << "it is not due";
  EXPECT_EQ(reply.next_due, due);
  EXPECT_EQ(store->inspect().find("a")->available_at, due);
  clock->advance(1s);
  reply = store->backend().claim({.token = "n/2", .lease = 30s});
  ASSERT_EQ(reply.rows.size(), 1U);
  EXPECT_EQ(reply.rows[0].handle.id, "a");
  settlement const done{.row = reply.rows[0].handle};
  EXPECT_TRUE(store->backend().settle(std::span{&done, 1}).applied.at(0));
}

TEST_F(ForeignInstant, ARowIsDueAtItsInstantAlsoInOrder) {
  shell(plain_insert("a", "'2026-11-16T05:20:00-05:00'") + plain_insert("b", "'2026-11-16 10:19:00.000000'"));
  auto const reply = store->backend().claim({.token = "n/1", .lease = 30s, .in_order = true});
  ASSERT_EQ(reply.rows.size(), 1U) << "a row with a delay is passed over";
  EXPECT_EQ(reply.rows[0].handle.id, "b");
  EXPECT_EQ(reply.next_due, due);
}

// It may have been written after the claim had put others in form.
TEST_F(ForeignInstant, ARowIsNotSeenBeforeItsInstantIsNormalised) {
  sqlite::connection db{path};
  auto const is_seen = [&](std::string const& look, std::string const& available_at) {
    shell("DELETE FROM outbox_event;" + plain_insert("a", "'" + available_at + "'"));
    sqlite3_stmt* s = nullptr;
    EXPECT_EQ(sqlite3_prepare_v2(db.handle(), look.c_str(), -1, &s, nullptr), SQLITE_OK);
    sqlite3_bind_text(s, 1, "2026-11-16 10:00:00.000000", -1, SQLITE_STATIC);  // now
    sqlite3_bind_text(s, 2, "", -1, SQLITE_STATIC);
    bool const row = sqlite3_step(s) == SQLITE_ROW;
    sqlite3_finalize(s);
    return row;
  };
  for (auto const& look : {sqlite::row_statements({}).due, sqlite::row_statements({}).in_order}) {
    EXPECT_FALSE(is_seen(look, "2026-11-16T05:20:00-05:00"));
    EXPECT_FALSE(is_seen(look, "2026-11-16T05:20:00.000000"));
    EXPECT_TRUE(is_seen(look, "2026-11-16 05:20:00.000000"));
  }
}

// A claim looks without a lock. What has changed when it takes the rows is left to the next claim.
TEST_F(Foreign, ARowIsTakenOnlyAsItWasSeen) {
  sqlite::connection db{path};
  auto const taken = [&](std::string const& change) {
    shell("DELETE FROM outbox_event;" + plain_insert("a", "'2026-11-16 09:00:00.000000'") +
          plain_insert("b", "'2026-11-16 09:30:00.000000'") + change);
    sqlite3_stmt* s = nullptr;
    auto const take = sqlite::row_statements({}).take;
    EXPECT_EQ(sqlite3_prepare_v2(db.handle(), take.c_str(), -1, &s, nullptr), SQLITE_OK);
    auto const bind = [&](int at, char const* v) { sqlite3_bind_text(s, at, v, -1, SQLITE_STATIC); };
    bind(1, "n/1");
    bind(2, "2026-11-16 10:00:00.000000");  // now
    bind(3, "2026-11-16 10:00:30.000000");
    sqlite3_bind_int64(s, 4, std::stoll(shell("SELECT min(seq) FROM outbox_event;")));
    sqlite3_bind_int64(s, 5, std::stoll(shell("SELECT max(seq) FROM outbox_event;")));
    for (int const number : {6, 7, 8, 9}) sqlite3_bind_int64(s, number, 0);
    bind(11, "");
    bind(12, "2026-11-16 09:00:00.000000");
    bind(13, "2026-11-16 09:30:00.000000");
    EXPECT_EQ(sqlite3_step(s), SQLITE_DONE);
    sqlite3_finalize(s);
    return sqlite3_changes(db.handle());
  };
  EXPECT_EQ(taken(""), 2);
  for (auto const* change : {"status = 1", "status = 2", "attempts = 1", "crashes = 1", "locked_by = 'm/1'",
                             "progress = 'x'", "blocked = true", "available_at = '2026-11-16 09:30:00.000001'",
                             "lease_until = '2026-11-16 10:00:00.000001'"}) {
    EXPECT_EQ(taken(std::string{"UPDATE outbox_event SET "} + change + " WHERE event_id = 'b';"), 1) << change;
  }
}

TEST_F(Foreign, ARowThatATriggerKeepsFromBeingTakenIsTheOnlyOneThatIsLeft) {
  for (auto const* id : {"a", "b", "c", "d"}) shell(plain_insert(id, "'2026-01-01 00:00:00.000000'"));
  shell(
      "CREATE TRIGGER ignored BEFORE UPDATE OF locked_by ON outbox_event WHEN old.event_id = 'c' BEGIN SELECT "
      "raise(IGNORE); END;");
  auto const reply = store->backend().claim({.token = "n/1", .lease = 30s});
  std::string ids;
  for (auto const& r : reply.rows) ids += r.handle.id;
  EXPECT_EQ(ids, "abd");
  EXPECT_EQ(shell("SELECT event_id FROM outbox_event WHERE locked_by = 'n/1';"), "a\nb\nd\n");
}

// However many there are, a claim changes a bounded number, and says that there are more.
TEST_F(Foreign, ManyForeignRowsAreNormalisedInSteps) {
  shell(
      "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2500) INSERT INTO outbox_event "
      "(event_id, event_type, payload, status, available_at, created_at) SELECT 'e' || i, 'UserCreated', '1', 0, "
      "'2026-01-01T00:00:00Z', '2026-01-01' FROM n;");
  auto const first = store->backend().claim({.token = "n/0", .limit = 5000, .lease = 30s});
  EXPECT_EQ(first.rows.size(), 1000U);
  EXPECT_TRUE(first.more);
  EXPECT_EQ(store->backend().claim({.token = "n/1", .limit = 5000, .lease = 30s}).rows.size(), 1000U);
  auto const last = store->backend().claim({.token = "n/2", .limit = 5000, .lease = 30s});
  EXPECT_EQ(last.rows.size(), 500U);
  EXPECT_FALSE(last.more);
}

TEST_F(Foreign, I6_ClaimsOfSeveralProcessesNeverMeet) {
  constexpr int rows = 300;
  {
    sqlite::connection db{path};
    sqlite::transaction tx{db};
    std::vector<event> events;
    for (int i = 0; i < rows; ++i) events.push_back(event::json("UserCreated", "1", {.id = "e" + std::to_string(i)}));
    std::vector<insertion> inserts;
    for (auto const& e : events) inserts.push_back({&e});
    store->backend().insert(join(tx), inserts);
    tx.commit();
  }
  store.reset();  // nothing of SQLite's may be open across fork
  std::vector<::pid_t> children;
  for (int p = 0; p < 4; ++p) {
    auto const child = ::fork();
    if (child == 0) {
      auto const s = sqlite::open(path, {.busy_timeout = 30s});
      std::ofstream out{dir / ("claimed-" + std::to_string(p))};
      for (int n = 0;; ++n) {
        auto const reply =
            s->backend().claim({.token = "p" + std::to_string(p) + "/" + std::to_string(n), .limit = 7, .lease = 30s});
        if (reply.rows.empty()) break;
        for (auto const& r : reply.rows) out << r.handle.id << "\n";
      }
      out.close();
      ::_exit(0);
    }
    children.push_back(child);
  }
  for (auto const child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  std::multiset<std::string> claimed;
  for (int p = 0; p < 4; ++p) {
    std::ifstream in{dir / ("claimed-" + std::to_string(p))};
    for (std::string id; in >> id;) claimed.insert(id);
  }
  EXPECT_EQ(claimed.size(), static_cast<std::size_t>(rows));
  EXPECT_EQ(std::set<std::string>(claimed.begin(), claimed.end()).size(), static_cast<std::size_t>(rows));
}

}  // namespace
}  // namespace outbox

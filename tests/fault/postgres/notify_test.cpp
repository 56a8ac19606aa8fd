// NOTIFY: hints to nodes in other processes.
#include <sys/syscall.h>

#include <iterator>

#include "core/base/hint_pace.hpp"
#include "server_fixture.hpp"

namespace outbox {
namespace {

TEST_F(PostgresServer, NotifyWakesNodesInOtherProcesses) {
  auto o = db.options();
  o.notify = true;
  auto const there = postgres::open(db.connection() + " application_name=listening", o);
  auto const here = postgres::open(db.connection(), o);
  auto node_options = options(there);
  node_options.poll.every = 1h;
  auto n = multi_node(std::move(node_options));
  n.start();
  auto w = writer_only({.store = here, .log = nullptr});
  int written = 0;
  auto const put = [&] {
    postgres::transaction tx{caller};
    w.writer().write(tx, "t", "1", {.id = "e" + std::to_string(++written)});
    tx.commit();
  };
  put();
  ASSERT_TRUE(seen.reach(1));
  end_sessions("listening");  // it listens again, and looks
  put();
  ASSERT_TRUE(seen.reach(2));
  EXPECT_TRUE(settled());
}

TEST_F(PostgresServer, HintsAtTheSameTimeAreOneNotify) {
  auto o = db.options();
  o.notify = true;
  auto const s = postgres::open(db.connection(), o);
  auto const listening = postgres::open(db.connection(), o);
  change_counter heard{*listening};
  auto const began = std::chrono::steady_clock::now();
  std::uint64_t hints = 0;
  for (; hints <= 1000 || std::chrono::steady_clock::now() < began + 300ms; ++hints) s->backend().hint();
  ASSERT_TRUE(eventually([&] { return heard.count() > 0; }));
  auto const most = (std::chrono::steady_clock::now() - began) / core::hint_pace::each + core::hint_pace::burst;
  EXPECT_LE(heard.count(), static_cast<std::uint64_t>(most) + 1) << "a burst, and then 250 a second";
}

// Two hundred writes a second are not a flood: none of them waits for another.
TEST(HintPace, LetsASteadyStreamPassAndLimitsAFlood) {
  using pace = core::hint_pace;
  auto now = pace::clock::now();
  pace steady;
  for (int i = 0; i < 10'000; ++i) {
    ASSERT_LE(steady.next(), now) << i;
    steady.sent(now);
    now += i % 2 == 0 ? 1ms : 9ms;  // 200 a second, in pairs
  }
  pace flooded;
  int sent = 0;
  for (auto const end = now + 1s; now < end; now += 100us) {
    if (flooded.next() > now) continue;
    flooded.sent(now);
    ++sent;
  }
  EXPECT_EQ(sent, pace::burst + 1s / pace::each - 1);
}

// A hint is sent after the commit that it announces, so it need not reach the disk itself.
TEST_F(PostgresServer, TheSessionOfHintsDoesNotWaitForTheDisk) {
  postgres_server server{{.settings = {"log_statement=all", "log_line_prefix=%p|"}}};
  postgres_database own{"postgres", server};
  auto o = own.options();
  o.notify = true;
  auto const s = postgres::open(own.connection(), o);
  std::ifstream log{server.directory() + "/server.log"};
  std::string listening, waits_not;  // processes of the server
  for (std::string line; std::getline(log, line);) {
    auto const process = line.substr(0, line.find('|'));
    if (line.find("LISTEN ") != std::string::npos) listening = process;
    if (line.find("SET synchronous_commit = off") != std::string::npos) waits_not = process;
  }
  EXPECT_FALSE(listening.empty());
  EXPECT_EQ(listening, waits_not);
}

#ifdef SYS_poll
// What Linux says that a thread with this name waits for: the number of the system call and its arguments.
std::vector<std::string> waits_in(std::string_view thread_name) {
  for (auto const& task : std::filesystem::directory_iterator{"/proc/self/task"}) {
    std::ifstream name_file{task.path() / "comm"};
    std::string name;
    if (!std::getline(name_file, name) || name != thread_name) continue;
    std::ifstream call{task.path() / "syscall"};
    return {std::istream_iterator<std::string>{call}, {}};
  }
  return {};
}

// It wakes for a notification or a hint, and for nothing else.
TEST_F(PostgresServer, AListenerThatHearsNothingSleepsWithoutALimit) {
  if (!std::ifstream{"/proc/self/syscall"}) GTEST_SKIP() << "this system does not say what threads wait for";
  auto o = db.options();
  o.notify = true;
  auto const s = postgres::open(db.connection(), o);
  EXPECT_TRUE(eventually([] {
    auto const call = waits_in("outbox-listen");  // its third argument is the limit
    return call.size() > 3 && call[0] == std::to_string(SYS_poll) && call[3].starts_with("0xffffffff");
  }));
}
#endif

// After a process has committed and ended, nothing is left that could notify later.
TEST_F(PostgresServer, AHintIsSentBeforeTheStoreIsGone) {
  auto o = db.options();
  o.notify = true;
  auto s = postgres::open(db.connection(), o);
  auto const channel = db.ask(  // as docs/reference/postgres.md has it
      "SELECT 'outbox_' || replace(value, '-', '') || '_' || (SELECT oid FROM pg_database WHERE datname = "
      "current_database()) || '_' || tableoid FROM " +
      db.table("outbox_meta") + " WHERE name = 'table_id'");
  postgres::connection listener{db.connection()};
  listener.execute("LISTEN " + channel);
  auto const heard = [&](std::string_view payload) {
    return eventually([&] {
      PQconsumeInput(listener.handle());
      while (auto* const n = PQnotifies(listener.handle())) {
        bool const it_is = n->extra == payload;
        PQfreemem(n);
        if (it_is) return true;
      }
      return false;
    });
  };
  // Everything that was sent so far, the store's test of itself among it.
  auto const skip = [&] {
    db.execute("NOTIFY " + channel + ", 'mark'");
    return heard("mark");
  };
  for (int i = 0; i < 5; ++i) {
    s = postgres::open(db.connection(), o);
    ASSERT_TRUE(skip());
    s->backend().hint();
    ASSERT_TRUE(heard(""));
    s->backend().hint();  // sooner than a second notification may follow the first
    s.reset();
    EXPECT_TRUE(heard("")) << i;
  }
  s = postgres::open(db.connection() + " application_name=leaving", o);
  ASSERT_TRUE(skip());
  end_sessions("leaving");
  ASSERT_TRUE(eventually([&] { return sessions("leaving") == "0"; }));
  s->backend().hint();
  s.reset();  // on a connection that it must make first
  EXPECT_TRUE(heard(""));
}

// A whole process: what its last commit left is found at once, not at the next poll.
TEST_F(PostgresServer, TheLastEventOfAWriterThatEndsIsDeliveredAtOnce) {
  auto o = db.options();
  o.notify = true;
  auto node_options = options(postgres::open(db.connection(), o));
  node_options.poll.every = 1h;
  auto n = multi_node(std::move(node_options));
  n.start();
  for (std::size_t i = 1; i <= 5; ++i) {
    {
      auto w = writer_only({.store = postgres::open(db.connection(), o), .log = nullptr});
      for (int event = 0; event < 3; ++event) {
        postgres::transaction tx{caller};
        w.writer().write(tx, "t", "1");
        tx.commit();
      }
    }
    ASSERT_TRUE(seen.reach(3 * i));
  }
}

// Commits that notify wait for each other, on the whole server: so those of the business do not.
TEST_F(PostgresServer, SessionsOfTheApplicationSendNoNotify) {
  postgres_server server{{.settings = {"log_statement=all", "log_line_prefix=%a|"}}};
  postgres_database own{"postgres", server};
  auto o = own.options();
  o.notify = true;
  auto const s = postgres::open(own.connection(), o);
  auto w = writer_only({.store = s, .log = nullptr});
  change_counter heard{*s};
  postgres::connection c{own.connection() + " application_name=business"};
  for (auto const how : {postgres::send_mode::immediate, postgres::send_mode::pipelined}) {
    postgres::transaction tx{c, how};
    w.writer().write(tx, "t", "1");
    tx.commit();
  }
  ASSERT_TRUE(eventually([&] { return heard.count() > 0; })) << "the store notified";
  std::ifstream log{server.directory() + "/server.log"};
  int commits = 0;
  int notified = 0;
  for (std::string line; std::getline(log, line);) {
    bool const business = line.starts_with("business|");
    if (business && line.find("COMMIT") != std::string::npos) ++commits;
    if (line.find(": NOTIFY ") == std::string::npos) continue;
    ++notified;
    EXPECT_FALSE(business) << line;
  }
  EXPECT_EQ(commits, 2);
  EXPECT_GE(notified, 2) << "the test of itself, and one";
}

TEST_F(PostgresServer, NotifyIsOffByDefault) {
  EXPECT_FALSE(change_counter{*db.open()}.observes());
  auto const s = postgres::open(db.connection() + " application_name=quiet", db.options());
  static_cast<void>(s->inspect().counts());
  EXPECT_EQ(db.ask("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'quiet' AND query LIKE 'LISTEN%'"),
            "0");
}

}  // namespace
}  // namespace outbox

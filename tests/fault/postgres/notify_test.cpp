// NOTIFY: hints to nodes in other processes.
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
  for (; std::chrono::steady_clock::now() < began + 300ms; ++hints) s->backend().hint();
  ASSERT_TRUE(eventually([&] { return heard.count() > 0; }));
  auto const most = (std::chrono::steady_clock::now() - began) / 10ms + 2;
  ASSERT_GT(hints, 1000U);
  EXPECT_LE(heard.count(), static_cast<std::uint64_t>(most)) << "a hundred a second";
}

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

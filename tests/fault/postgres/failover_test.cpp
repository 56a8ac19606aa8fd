// A primary that dies and a standby that takes its place: two real servers, replication between them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <outbox/outbox.hpp>
#include <outbox/postgres.hpp>
#include <thread>

#include "support/postgres_database.hpp"
#include "support/waiting.hpp"

namespace outbox {
namespace {

using namespace std::chrono_literals;

class PostgresFailover : public ::testing::Test {
 protected:
  // A commit is confirmed when the standby has it too: only then may nothing be lost.
  PostgresFailover() {
    primary_db.execute("ALTER SYSTEM SET synchronous_standby_names = '*'");
    primary_db.execute("ALTER SYSTEM SET synchronous_commit = 'remote_apply'");
    primary_db.execute("SELECT pg_reload_conf()");
    auto const followed = [&] {
      return primary_db.ask("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") == "1";
    };
    if (!eventually(followed)) throw std::runtime_error{"the standby does not follow"};
  }

  ~PostgresFailover() override { primary.kill_hard(); }  // it would wait for a standby that is gone

  // As services are told of both: libpq looks for the one that takes writes.
  [[nodiscard]] std::string either() const {
    return "host=127.0.0.1,127.0.0.1 port=" + std::to_string(primary.port()) + "," + std::to_string(standby.port()) +
           " user=outbox dbname=postgres target_session_attrs=read-write";
  }
  void fail_over() {
    primary.kill_hard();
    standby.promote();
  }

  template <class Options>
  Options options(std::shared_ptr<outbox::store> s) {
    Options o{.store = std::move(s), .log = nullptr};
    o.poll.every = 20ms;
    o.retry.max_attempts = 1;  // an attempt that is counted makes an event DEAD
    o.listeners.on("t", [this](delivery const& d) { seen.add(d.id); });
    return o;
  }

  // Writes each event once, no matter how often it must try. A commit whose reply was lost is found by its id.
  static void write_all(node const& n, std::string const& connection, int count) {
    std::optional<postgres::connection> c;
    for (int i = 0; i < count;) {
      try {
        if (!c) c.emplace(connection);
        postgres::transaction tx{*c};
        n.writer().write(tx, "t", "1", {.id = "e" + std::to_string(i)});
        tx.commit();
        ++i;
      } catch (error const& e) {
        if (e.sqlstate() == "23505") {
          ++i;
          continue;
        }
        if (!e.transient() && !e.in_doubt()) throw;
        c.reset();
      }
    }
  }

  void expect_all_delivered(outbox::store& s, std::size_t count) {
    EXPECT_TRUE(eventually([&] {
      try {
        return s.inspect().counts().done == count;
      } catch (error const& e) {
        EXPECT_TRUE(e.transient()) << e.what();
        return false;
      }
    }));
    EXPECT_EQ(s.inspect().counts().pending() + s.inspect().counts().dead, 0U) << "nothing else is in the table";
    for (std::size_t i = 0; i < count; ++i) {
      auto const id = "e" + std::to_string(i);
      EXPECT_GE(seen.of(id), 1) << id;
      EXPECT_EQ(s.inspect().find(id)->attempts, 0) << id;
    }
  }

  void fail_over_under(node n, outbox::store& s) {
    n.start();
    std::jthread const writer{[&] { write_all(n, either(), 300); }};
    ASSERT_TRUE(seen.reach(100));
    fail_over();
    expect_all_delivered(s, 300);
    EXPECT_TRUE(eventually([&] { return n.health().healthy; }));
  }

  postgres_server primary;
  postgres_database primary_db{"postgres", primary};
  postgres_server standby{{.settings = {"wal_retrieve_retry_interval=50ms"}, .standby_of = &primary}};  // 5 s by itself
  tally seen;
};

TEST_F(PostgresFailover, ManyNodesGoOnAtTheOtherServer) {
  auto const s = postgres::open(either(), primary_db.options());
  fail_over_under(multi_node(options<multi_node_options>(s)), *s);
}

TEST_F(PostgresFailover, ASingleNodeTakesItsLockAgain) {
  auto const s = postgres::open(either(), primary_db.options());
  fail_over_under(single_node(options<single_node_options>(s)), *s);
}

// Sessions that were made before a standby was promoted are as good as any afterwards.
TEST_F(PostgresFailover, AStandbyIsOnlyReadUntilItIsPromoted) {
  auto const there = postgres::open(either(), primary_db.options());
  auto w = writer_only({.store = there, .log = nullptr});
  write_all(w, either(), 3);
  auto const s = postgres::open(standby.connection(), primary_db.options());
  EXPECT_TRUE(eventually([&] { return s->inspect().counts().pending() == 3; })) << "an operator may read there";
  auto n = multi_node(options<multi_node_options>(s));
  auto const refused_by = [](auto&& f) {
    try {
      f();
    } catch (error const& e) {
      EXPECT_TRUE(e.transient()) << e.what();
      return std::string{e.sqlstate()};
    }
    return std::string{"nothing"};
  };
  EXPECT_EQ(refused_by([&] { n.start(); }), "25006");
  EXPECT_EQ(refused_by([&] { static_cast<void>(s->backend().claim({.token = "n/1", .lease = 30s})); }), "25006");
  fail_over();
  n.start();
  expect_all_delivered(*s, 3);
}

}  // namespace
}  // namespace outbox

// Connections that the application opens for the store: options::connect.
#include <libpq-events.h>

#include "server_fixture.hpp"

namespace outbox {
namespace {

// Counts the handles that are open: libpq reports the end of each to an event procedure.
class handle_count {
 public:
  pg_conn* open(std::string const& connection) {
    auto* const c = PQconnectdb(connection.c_str());
    if (PQregisterEventProc(c, &handle_count::on_event, "count", this) != 0) ++open_;
    ++made_;
    return c;
  }
  [[nodiscard]] int open_now() const noexcept { return open_; }
  [[nodiscard]] int made() const noexcept { return made_; }

 private:
  static int on_event(PGEventId id, void* /*info*/, void* self) {
    if (id == PGEVT_CONNDESTROY) --static_cast<handle_count*>(self)->open_;
    return 1;
  }

  std::atomic<int> open_ = 0;
  std::atomic<int> made_ = 0;
};

class PostgresConnect : public PostgresServer {
 protected:
  postgres::options with(std::function<pg_conn*()> connect) {
    auto o = db.options();
    o.connect = std::move(connect);
    return o;
  }
  error thrown_by_open(std::function<pg_conn*()> connect) {
    return thrown_by([&] { static_cast<void>(postgres::open("", with(std::move(connect)))); });
  }

  handle_count handles;
};

TEST_F(PostgresConnect, EveryConnectionComesFromItAndIsClosed) {
  {
    auto o = with([&] { return handles.open(db.connection() + " application_name=provided client_encoding=LATIN1"); });
    o.notify = true;
    auto const s = postgres::open("", o);
    single_node_options on{.store = s, .log = nullptr};
    on.listeners.on("t", [&](delivery const& d) { seen.add(d.id); });
    auto n = single_node(std::move(on));
    n.start();
    ASSERT_TRUE(eventually([&] { return n.health().active; }));
    write(n, "a");
    ASSERT_TRUE(seen.reach(1));
    ASSERT_TRUE(settled());
    // The server may take a moment to notice that the connection which open() used is closed.
    EXPECT_TRUE(eventually([&] { return std::to_string(handles.open_now()) == sessions("provided"); }));
    EXPECT_GE(handles.open_now(), 3) << "the pool, the notifications, the dispatch lock";
  }
  EXPECT_EQ(handles.open_now(), 0);
}

TEST_F(PostgresConnect, APasswordMayChangeWhileTheStoreRuns) {
  postgres_server server;
  postgres_database own{"postgres", server};
  own.execute("CREATE ROLE short_lived LOGIN SUPERUSER PASSWORD 'first'");
  std::ofstream{server.directory() + "/data/pg_hba.conf"} << "host all outbox 127.0.0.1/32 trust\n"
                                                             "host all short_lived 127.0.0.1/32 scram-sha-256\n";
  own.execute("SELECT pg_reload_conf()");
  auto const at = "host=127.0.0.1 port=" + std::to_string(server.port()) + " dbname=postgres user=short_lived";
  ASSERT_TRUE(eventually([&] {  // the new rules hold
    try {
      postgres::connection{at};
      return false;
    } catch (error const&) {
      return true;
    }
  }));
  std::mutex mutex;
  std::string password = "first";
  auto o = own.options();
  o.connect = [&] {
    std::lock_guard const lock{mutex};
    return handles.open(at + " password=" + password);
  };
  {
    auto const s = postgres::open("", o);
    EXPECT_EQ(s->inspect().counts().pending(), 0U);
    {
      std::lock_guard const lock{mutex};
      password = "second";
    }
    own.execute("ALTER ROLE short_lived PASSWORD 'second'");
    own.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'short_lived'");
    auto const before = handles.made();
    EXPECT_TRUE(eventually([&] {
      try {
        return s->inspect().counts().pending() == 0 && handles.made() > before;
      } catch (error const& e) {
        EXPECT_TRUE(e.transient()) << e.what();
        return false;
      }
    }));
  }
  auto const e = thrown_by([&] {
    o.connect = [&] { return handles.open(at + " password=wrong7secret"); };
    static_cast<void>(postgres::open("", o));
  });
  EXPECT_TRUE(e.transient()) << "the next call may get a password that is valid";
  EXPECT_THAT(e.what(), HasSubstr("password authentication failed"));
  EXPECT_THAT(e.what(), ::testing::Not(HasSubstr("wrong7secret")));
  EXPECT_EQ(handles.open_now(), 0);
}

TEST_F(PostgresConnect, WhatItFailsWithIsThrownByOpen) {
  auto const none = thrown_by_open([]() -> pg_conn* { return nullptr; });
  EXPECT_EQ(none.code(), errc::unavailable);
  EXPECT_EQ(none.field(), "connect");
  auto const threw = thrown_by_open([]() -> pg_conn* { throw std::runtime_error{"no token today"}; });
  EXPECT_EQ(threw.code(), errc::unavailable);
  EXPECT_THAT(threw.what(), HasSubstr("no token today"));
  auto const typed = thrown_by_open([]() -> pg_conn* { throw error{errc::store_failure, "not for you"}; });
  EXPECT_EQ(typed.code(), errc::store_failure);
  EXPECT_STREQ(typed.what(), "not for you");
  auto const bad = thrown_by_open([&] { return handles.open("host=127.0.0.1 port=1 password=s3cret dbname=s3cret"); });
  EXPECT_EQ(bad.code(), errc::unavailable);
  EXPECT_THAT(bad.what(), HasSubstr("127.0.0.1"));
  EXPECT_THAT(bad.what(), ::testing::Not(HasSubstr("s3cret")));
  auto const misread = thrown_by_open([&] { return handles.open("postgresql://u:pa@rt@127.0.0.1:1/db"); });
  EXPECT_THAT(misread.what(), ::testing::Not(HasSubstr("rt@")));
  auto const busy = thrown_by_open([&] {
    auto* const c = handles.open(db.connection());
    PQclear(PQexec(c, "BEGIN"));
    return c;
  });
  EXPECT_EQ(busy.code(), errc::store_failure);
  EXPECT_THAT(busy.what(), HasSubstr("transaction"));
  EXPECT_EQ(handles.open_now(), 0) << "the store closes what it got";
}

TEST_F(PostgresConnect, AConnectionToAnotherDatabaseIsRefused) {
  db.execute("CREATE DATABASE other_" + db.schema());
  {
    std::atomic<bool> astray = false;
    auto const s = postgres::open(
        "", with([&] {
          return handles.open(db.connection() + (astray ? " dbname=other_" + db.schema() : std::string{}));
        }));
    astray = true;
    auto const e = thrown_by([&] { static_cast<void>(s->inspect().counts()); });
    EXPECT_EQ(e.code(), errc::store_failure) << "no connection of the pool has worked before";
    EXPECT_THAT(e.what(), HasSubstr("another database"));
    EXPECT_THAT(thrown_by([&] { static_cast<void>(s->backend().try_dispatch_lock("n", 30s)); }).what(),
                HasSubstr("another database"));
    astray = false;
    EXPECT_TRUE(eventually([&] {
      try {
        return s->inspect().counts().pending() == 0;
      } catch (error const&) {
        return false;
      }
    })) << "it may change its mind again";
  }
  EXPECT_EQ(handles.open_now(), 0);
  db.execute("DROP DATABASE other_" + db.schema() + " WITH (FORCE)");
}

// The store has one connection, and while that is being made another request has to wait: in vain, so that the test
// needs no second thread.
TEST_F(PostgresConnect, WaitsForAConnectionAreToldOf) {
  std::shared_ptr<outbox::store> s;
  std::vector<std::chrono::nanoseconds> waits;
  bool asked = false;
  auto o = with([&] {
    if (s && !std::exchange(asked, true)) {
      EXPECT_EQ(thrown_by([&] { static_cast<void>(s->now()); }).code(), errc::unavailable);
    }
    return handles.open(db.connection());
  });
  o.connections = 1;
  o.timeout = 200ms;
  s = postgres::open("", std::move(o));
  auto const told = s->backend().on_wait([&](auto time) { waits.push_back(time); });
  static_cast<void>(s->now());
  ASSERT_EQ(waits.size(), 1U);
  EXPECT_GE(waits[0], 200ms);
  static_cast<void>(s->now());
  EXPECT_EQ(waits.size(), 1U) << "a free connection is no wait";
  s.reset();
}

TEST_F(PostgresConnect, MigrateUsesItToo) {
  auto const o = with([&] { return handles.open(db.connection()); });
  EXPECT_EQ(postgres::migrate("", o).change, migration::kind::created);
  EXPECT_EQ(handles.made(), 1);
  EXPECT_EQ(handles.open_now(), 0);
}

}  // namespace
}  // namespace outbox

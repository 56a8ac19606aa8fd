// Connections that a server refuses, and encrypted ones.
#include "one_connection.hpp"
#include "server_fixture.hpp"

namespace outbox {
namespace {

// An error that an operator must correct first is not worth another attempt.
TEST_F(PostgresServer, AConnectionThatTheServerRefusesForGoodIsNotTransient) {
  postgres_server server;
  postgres_database own{"postgres", server};
  own.execute("CREATE ROLE guest LOGIN PASSWORD 'right'; CREATE ROLE banned NOLOGIN; CREATE ROLE unknown LOGIN");
  own.execute("CREATE DATABASE closed");
  own.execute("REVOKE CONNECT ON DATABASE closed FROM PUBLIC");
  std::ofstream{server.directory() + "/data/pg_hba.conf"} << "host all outbox 127.0.0.1/32 trust\n"
                                                             "host all nobody 127.0.0.1/32 trust\n"
                                                             "host all banned 127.0.0.1/32 trust\n"
                                                             "host all guest 127.0.0.1/32 scram-sha-256\n";
  own.execute("SELECT pg_reload_conf()");
  auto const at = "host=127.0.0.1 port=" + std::to_string(server.port());
  ASSERT_TRUE(eventually([&] {  // the new rules hold
    try {
      postgres::connection{at + " user=unknown dbname=postgres"};
      return false;
    } catch (error const&) {
      return true;
    }
  }));
  struct refused {
    char const* with;
    char const* state;
    char const* text;
  };
  for (auto const& r :
       {refused{"user=guest password=wrong dbname=postgres", "28P01", "password authentication failed"},
        refused{"user=guest dbname=postgres", "", "no password"},
        refused{"user=outbox dbname=nowhere", "3D000", "\"nowhere\" does not exist"},
        refused{"user=nobody dbname=postgres", "28000", "\"nobody\" does not exist"},
        refused{"user=banned dbname=postgres", "28000", "not permitted to log in"},
        refused{"user=unknown dbname=postgres", "28000", "no pg_hba.conf entry"},
        refused{"user=guest password=right dbname=closed", "42501", "permission denied for database"}}) {
    for (bool const whole_store : {false, true}) {
      auto const e = thrown_by([&] {
        auto const with = at + " " + r.with;
        if (whole_store) {
          static_cast<void>(postgres::open(with, own.options()));
        } else {
          postgres::connection{with};
        }
      });
      EXPECT_EQ(e.code(), errc::store_failure) << e.what();
      EXPECT_EQ(e.sqlstate(), r.state) << e.what();
      EXPECT_THAT(e.what(), HasSubstr(r.text));
      EXPECT_THAT(e.what(), ::testing::Not(HasSubstr("LOCATION"))) << "as psql says it";
    }
  }
  EXPECT_NO_THROW(postgres::connection{at + " user=guest password=right dbname=postgres"});
}

// The code decides, in whatever language the server speaks.
TEST_F(PostgresServer, ARefusedConnectionIsClassifiedByItsSqlstate) {
  struct answer {
    char const* state;
    bool transient;
  };
  for (auto const& a : {answer{"57P03", true}, answer{"53300", true}, answer{"28P01", false}, answer{"3D000", false}}) {
    refusing_server const server{"FATALER FEHLER", a.state, "das geht nicht"};
    auto const e = thrown_by(
        [&] { postgres::connection{"host=127.0.0.1 user=a dbname=b port=" + std::to_string(server.port())}; });
    EXPECT_EQ(e.transient(), a.transient) << e.what();
    EXPECT_EQ(e.sqlstate(), a.state) << e.what();
    EXPECT_THAT(e.what(), HasSubstr("das geht nicht"));
    EXPECT_LE(server.connections(), 2);
  }
}

// One that refuses says nothing about one that could not be asked.
TEST_F(PostgresServer, ARefusalIsTransientIfAnotherHostIsUnreachable) {
  refusing_server const server{"FATAL", "28P01", "no"};
  auto const with = [](std::string const& ports) {
    return thrown_by([&] { postgres::connection{"host=127.0.0.1,127.0.0.1 user=a dbname=b port=" + ports}; });
  };
  auto const away = std::to_string(free_port());
  auto const refusing = std::to_string(server.port());
  EXPECT_TRUE(with(away + "," + refusing).transient());
  EXPECT_FALSE(with(refusing + "," + away).transient()) << "libpq tries no other host after a wrong password";
  EXPECT_TRUE(with(away + "," + away).transient());
}

// A running node waits until an operator has undone what broke its connections.
TEST_F(PostgresServer, ARefusalAfterASuccessfulConnectionIsTransient) {
  refusing_server const server{"FATAL", "28P01", "no"};
  one_connection never{"host=127.0.0.1 user=a dbname=b port=" + std::to_string(server.port())};
  for (int i = 0; i < 2; ++i) {
    EXPECT_FALSE(thrown_by([&] { never.with([](postgres::own_connection&) {}); }).transient())
        << "between attempts, too";
  }
  auto const role = "changing" + db.schema();
  db.execute("CREATE ROLE " + role + " LOGIN");
  one_connection p{db.connection() + " user=" + role};
  p.with([](postgres::own_connection&) {});
  db.execute("ALTER ROLE " + role + " NOLOGIN");
  db.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1", role);
  EXPECT_TRUE(eventually([&] {
    try {
      p.with([](postgres::own_connection&) {});
      return false;
    } catch (error const& e) {
      EXPECT_TRUE(e.transient()) << e.what();
      return e.sqlstate() == "28000";
    }
  }));
  db.execute("ALTER ROLE " + role + " LOGIN");
  EXPECT_TRUE(eventually([&] {
    try {
      p.with([](postgres::own_connection&) {});
      return true;
    } catch (error const&) {
      return false;
    }
  }));
  db.execute("DROP ROLE " + role);
}

// A server that speaks TLS only, with a certificate of its own.
TEST_F(PostgresServer, TlsIsPassedOnToLibpq) {
  temporary_directory const dir;
  auto const key = dir / "server.key";
  auto const certificate = dir / "server.crt";
  auto const made = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -keyout " + key + " -out " +
                    certificate + " 2>/dev/null";
  ASSERT_EQ(std::system(made.c_str()), 0) << "is openssl installed?";
  std::filesystem::permissions(dir.string(), std::filesystem::perms::all);
  std::filesystem::permissions(key, std::filesystem::perms::owner_read);
  ASSERT_TRUE(::geteuid() != 0 || ::chown(key.c_str(), 65534, 65534) == 0);
  postgres_server server{{.settings = {"ssl=on", "ssl_key_file=" + key, "ssl_cert_file=" + certificate}}};
  postgres_database own{"postgres", server};
  auto const secure = own.connection() + " application_name=secure sslmode=verify-ca sslrootcert=" + certificate;
  auto const s = postgres::open(secure, own.options());
  auto o = options(s);
  std::atomic<std::size_t> bytes = 0;  // of four workers
  o.listeners = {};
  o.listeners.on("t", [&](delivery const& d) {
    bytes += d.event.payload().size();
    seen.add(d.id);
  });
  auto n = multi_node(std::move(o));
  auto w = writer_only({.store = s, .log = nullptr});
  postgres::connection c{secure};
  std::string const large = '"' + std::string(500'000, 'x') + '"';
  for (int i = 0; i < 20; ++i) {
    postgres::transaction tx{c};
    w.writer().write(tx, "t", large);
    tx.commit();
  }
  n.start();  // claims it all in large replies
  ASSERT_TRUE(seen.reach(20));
  EXPECT_EQ(bytes, 20 * large.size());
  EXPECT_EQ(own.ask("SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = "
                    "'secure'"),
            "t");
  auto const e = thrown_by([&] {
    static_cast<void>(postgres::open(own.connection() + " sslmode=verify-ca sslrootcert=/nowhere", own.options()));
  });
  EXPECT_TRUE(e.transient()) << e.what();

  // With TLS, too, every caller that waits for an answer must notice the end of the session.
  for (auto const how : {postgres::send_mode::immediate, postgres::send_mode::pipelined}) {
    postgres::connection other{secure};
    postgres::transaction tx{other, how};
    w.writer().write(tx, "t", large);
    tx.flush();
    w.writer().write(tx, "t", "1");
    own.execute("SELECT pg_terminate_backend($1)", PQbackendPID(other.handle()));
    EXPECT_TRUE(thrown_by([&] { tx.commit(); }).transient());
  }
}

}  // namespace
}  // namespace outbox

// The relay as a black box: a process, a file, signals, HTTP, and rows that other programs write.
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <outbox/outbox.hpp>
#include <outbox/sqlite.hpp>
#include <sstream>

#include "fault/relay/relay_fixture.hpp"
#include "support/kafka_cluster.hpp"
#ifdef OUTBOX_WEBHOOK_SERVER
#include "support/webhook_server.hpp"
#endif

namespace outbox {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

class Relay : public relay_fixture {
 protected:
  Relay() {
    static_cast<void>(sqlite::open(db()));
    write_config();
  }

  std::string db() const { return dir / "shop.db"; }
  void write_config(std::string const& more = "") { write_config_for("sqlite:" + db(), more); }

  // As another program writes events: with the database's own shell.
  void insert(int from, int to) {
    std::ostringstream sql;
    sql << "BEGIN;";
    for (int i = from; i < to; ++i) {
      sql << "INSERT INTO outbox_event (event_id, event_type, payload, status, attempts, available_at, created_at) "
             "VALUES ('e"
          << i << "', 'order.placed', '{\"n\":" << i
          << "}', 0, 0, strftime('%Y-%m-%d %H:%M:%f', 'now'), strftime('%Y-%m-%d %H:%M:%f', 'now'));";
    }
    sql << "COMMIT;";
    std::ofstream{dir / "insert.sql"} << ".timeout 10000\n" << sql.str();
    auto const e = run("sqlite3 " + db() + " < " + (dir / "insert.sql"));
    ASSERT_EQ(e.status, 0) << e.out;
  }
  bool all_done(std::uint64_t n) const { return sqlite::open(db())->inspect().counts().done == n; }
};

TEST_F(Relay, RowsThatTheShellInsertsArrive) {
  auto const pid = start();
  ASSERT_TRUE(eventually([&] { return ready(); })) << log();
  insert(0, 20);
  EXPECT_TRUE(eventually([&] { return all_done(20); })) << log();
  EXPECT_EQ(end(pid, SIGTERM), 0) << log();
  EXPECT_EQ(published().size(), 20U);
  EXPECT_THAT(log(), HasSubstr("level=info message=\"the relay has stopped\""));
}

TEST_F(Relay, ADeadEventIsALineWithItsFields) {
  write_config("topic = \"{tenant}\"\nname = \"to-a-file\"\n[log]\nformat = \"json\"\n");
  auto const pid = start();
  insert(0, 1);  // it has no tenant, so there is no topic
  ASSERT_TRUE(eventually([&] { return log().find("is DEAD") != std::string::npos; })) << log();
  EXPECT_EQ(end(pid, SIGTERM), 0) << log();
  std::istringstream lines{log()};
  int found = 0;
  for (std::string line; std::getline(lines, line);) {
    auto const j = nlohmann::json::parse(line);
    if (j.value("event", "") != "e0") continue;
    ++found;
    EXPECT_EQ(j.at("level"), "error");
    EXPECT_EQ(j.at("type"), "order.placed");
    EXPECT_EQ(j.at("route"), "to-a-file");
    EXPECT_EQ(j.at("attempt"), "1");
    EXPECT_EQ(j.at("error"), "the route's topic is empty for this event");
    EXPECT_EQ(j.at("table"), "outbox_event in " + db());
    EXPECT_FALSE(j.at("node").get<std::string>().empty());
  }
  EXPECT_EQ(found, 1) << log();
}

TEST_F(Relay, SigtermUnderLoadLosesAndDuplicatesNothing) {
  insert(0, 3000);
  auto pid = start();
  ASSERT_TRUE(eventually([&] { return !published().empty(); })) << log();
  EXPECT_EQ(end(pid, SIGTERM), 0) << log();
  pid = start();
  EXPECT_TRUE(eventually([&] { return all_done(3000); })) << log();
  EXPECT_EQ(end(pid, SIGTERM), 0) << log();
  auto const all = published();
  EXPECT_EQ(all.size(), 3000U);
  for (auto const& [id, n] : all) EXPECT_EQ(n, 1) << id;
}

TEST_F(Relay, I1_SigkillLosesNothing) {
  insert(0, 3000);
  write_config("[lease]\nduration = \"1s\"\n");
  auto pid = start();
  ASSERT_TRUE(eventually([&] { return !published().empty(); })) << log();
  EXPECT_EQ(end(pid, SIGKILL), -SIGKILL);
  pid = start();
  EXPECT_TRUE(eventually([&] { return all_done(3000); })) << log();
  EXPECT_EQ(end(pid, SIGTERM), 0) << log();
  EXPECT_EQ(published().size(), 3000U);
}

TEST_F(Relay, TwoRelaysShareATableWithoutDuplicates) {
  auto const first = start();
  ASSERT_TRUE(eventually([&] { return ready(); })) << log();
  port = free_port();
  write_config();
  auto const second = start();
  ASSERT_TRUE(eventually([&] { return ready(); })) << log();
  insert(0, 1000);
  EXPECT_TRUE(eventually([&] { return all_done(1000); })) << log();
  EXPECT_EQ(end(first, SIGTERM), 0) << log();
  EXPECT_EQ(end(second, SIGTERM), 0) << log();
  for (auto const& [id, n] : published()) EXPECT_EQ(n, 1) << id;
}

TEST_F(Relay, SighupReadsTheConfigurationAgain) {
  auto const pid = start();
  ASSERT_TRUE(eventually([&] { return ready(); })) << log();
  std::ofstream{file()} << "mode = \"nonsense\"\n";
  ::kill(pid, SIGHUP);
  EXPECT_TRUE(eventually([&] { return log().find("stays as it was") != std::string::npos; })) << log();
  insert(0, 5);
  EXPECT_TRUE(eventually([&] { return all_done(5); })) << "a bad file changes nothing";
  auto const other = dir / "other.jsonl";
  write_config();
  std::string text = run("cat " + file()).out;
  text.replace(text.find(lines_file()), lines_file().size(), other);
  std::ofstream{file()} << text;
  ::kill(pid, SIGHUP);
  EXPECT_TRUE(eventually([&] { return log().find("is in use") != std::string::npos; })) << log();
  insert(5, 10);
  EXPECT_TRUE(eventually([&] { return all_done(10); })) << log();
  EXPECT_EQ(end(pid, SIGTERM), 0) << log();
  EXPECT_EQ(published().size(), 5U);
  EXPECT_EQ(run("grep -c order.placed " + other).out, "5\n");
}

TEST_F(Relay, ReadinessAndLivenessAreServed) {
  auto const pid = start();
  ASSERT_TRUE(eventually([&] { return ready(); })) << log();
  auto const body = run("curl -s " + url("/readyz")).out;
  auto const j = nlohmann::json::parse(body);
  EXPECT_EQ(j.at("ready"), true);
  EXPECT_EQ(j.at("sinks").at(0).at("sink"), "out");
  EXPECT_EQ(run("curl -s " + url("/livez")).out, "{\"live\":true}\n");
  EXPECT_EQ(run("curl -s -o /dev/null -w '%{http_code}' " + url("/nothing")).out, "404");
  EXPECT_EQ(end(pid, SIGTERM), 0) << log();
}

TEST_F(Relay, APortThatIsTakenIsAnError) {
  auto const first = start();
  ASSERT_TRUE(eventually([&] { return ready(); })) << log();
  EXPECT_EQ(wait(start()), 1);
  EXPECT_THAT(log(), HasSubstr("cannot listen on 127.0.0.1:" + std::to_string(port)));
  EXPECT_TRUE(ready()) << "the first one goes on";
  EXPECT_EQ(end(first, SIGTERM), 0) << log();
}

TEST_F(Relay, ASecondSignalEndsItAtOnce) {
  // Standard output is a pipe that no one reads: publishing hangs.
  write_config();
  std::string text = run("cat " + file()).out;
  text.replace(text.find(lines_file()), lines_file().size(), dir / "pipe");
  std::ofstream{file()} << text;
  ASSERT_EQ(run("mkfifo " + (dir / "pipe")).status, 0);
  int const reader = ::open((dir / "pipe").c_str(), O_RDWR | O_CLOEXEC);
  auto const pid = start();
  ASSERT_TRUE(eventually([&] { return ready(); })) << log();
  for (int i = 0; i < 2; ++i) insert(i * 1000, i * 1000 + 1000);
  ASSERT_TRUE(
      eventually([&] { return run("curl -s " + url("/readyz")).out.find("\"in_flight\":0") == std::string::npos; }));
  ::kill(pid, SIGTERM);
  ASSERT_TRUE(eventually([&] { return log().find("stopping") != std::string::npos; })) << log();
  EXPECT_EQ(end(pid, SIGTERM), 1) << log();
  ::close(reader);
}

TEST_F(Relay, SystemdIsToldAboutEveryStep) {
  auto const path = dir / "notify";
  int const fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  std::snprintf(at.sun_path, sizeof at.sun_path, "%s", path.c_str());
  ASSERT_EQ(::bind(fd, reinterpret_cast<sockaddr const*>(&at), sizeof at), 0);
  auto const next = [&] {
    char text[256];
    auto const n = ::recv(fd, text, sizeof text, 0);
    return std::string{text, n > 0 ? static_cast<std::size_t>(n) : 0U};
  };
  auto const pid = start({"NOTIFY_SOCKET=" + path});
  EXPECT_THAT(next(), HasSubstr("READY=1"));
  ::kill(pid, SIGHUP);
  EXPECT_THAT(next(), HasSubstr("RELOADING=1\nMONOTONIC_USEC="));
  EXPECT_THAT(next(), HasSubstr("READY=1"));
  EXPECT_EQ(end(pid, SIGTERM), 0) << log();
  EXPECT_THAT(next(), HasSubstr("STOPPING=1"));
  ::close(fd);
}

TEST_F(Relay, WrongUsesAreRefusedWithStatusTwo) {
  std::string const tool = OUTBOX_TOOL;
  std::ofstream{dir / "bad.toml"} << "mode = \"multi_node\"\n[pol]\n";
  auto const bad = run(tool + " relay --config " + (dir / "bad.toml"));
  EXPECT_EQ(bad.status, 2);
  EXPECT_THAT(bad.out, HasSubstr("bad.toml:2:2: unknown key 'pol': did you mean 'poll'?\n"));
  EXPECT_EQ(run(tool + " check-config " + (dir / "bad.toml")).status, 2);
  EXPECT_EQ(run(tool).status, 2);
  EXPECT_EQ(run(tool + " nonsense").status, 2);
  EXPECT_EQ(run(tool + " relay").status, 2);
  EXPECT_EQ(run(tool + " --version").status, 0);
  auto const help = run(tool + " --help");
  EXPECT_EQ(help.status, 0);
  EXPECT_THAT(help.out, HasSubstr("check-config"));
  auto const good = run(tool + " check-config --config " + file());
  EXPECT_EQ(good.status, 0);
  EXPECT_THAT(good.out, HasSubstr("poll.every = 50ms\n"));
}

TEST_F(Relay, ADryRunShowsTheWayAndChangesNothing) {
  insert(0, 2);
  auto const e = run(std::string{OUTBOX_TOOL} + " relay --dry-run --config " + file());
  EXPECT_EQ(e.status, 0) << e.out;
  EXPECT_THAT(e.out, HasSubstr("2 waiting, 0 to be tried again, 0 dead\n"));
  EXPECT_THAT(e.out, HasSubstr("  e0 order.placed -> sink 'out', topic 'order.placed', no key\n"));
  EXPECT_EQ(sqlite::open(db())->inspect().counts().created, 2U);
}

TEST_F(Relay, AStoreThatCannotBeOpenedIsAnError) {
  auto const e =
      run("OUTBOX_STORE__URL=sqlite:/no/such/directory/shop.db " + std::string{OUTBOX_TOOL} + " relay " + file());
  EXPECT_EQ(e.status, 1) << e.out;
  EXPECT_THAT(e.out, HasSubstr("outbox relay: "));
}

#ifdef OUTBOX_WEBHOOK_SERVER
TEST_F(Relay, ToAWebhook) {
  auto receiver = std::make_unique<webhook_server>();
  std::ofstream{dir / "secret"} << "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\n";
  std::ofstream{file()} << "mode = \"multi_node\"\n[store]\nurl = \"sqlite:" << db()
                        << "\"\n[poll]\nevery = \"50ms\"\n[http]\nlisten = \"127.0.0.1:" << port
                        << "\"\n[retry]\nmax_attempts = 50\n[retry.backoff]\ncap = \"300ms\"\n"
                        << "[[routes]]\nevent_type = \"order.placed\"\nsink = \"partner\"\n"
                        << "[sinks.partner]\ntype = \"webhook\"\nallow_http = true\nallow_private_addresses = true\n"
                        << "url = \"" << receiver->url("/status/204")
                        << "\"\n[sinks.partner.secrets]\nnow = \"${file:" << (dir / "secret") << "}\"\n";
  auto const pid = start();
  ASSERT_TRUE(eventually([&] { return ready(); })) << log();
  insert(0, 20);
  EXPECT_TRUE(eventually([&] { return all_done(20); })) << log();
  EXPECT_EQ(receiver->requests(), 20);
  EXPECT_EQ(receiver->at(0).headers.count("webhook-signature"), 1U);
  receiver.reset();
  insert(20, 30);
  EXPECT_TRUE(eventually([&] { return !ready(); })) << "readiness tells of the outage";
  EXPECT_EQ(sqlite::open(db())->inspect().counts().dead, 0U);
  EXPECT_EQ(end(pid, SIGTERM), 0) << log();
  EXPECT_EQ(log().find("whsec_"), std::string::npos);
}
#endif

TEST_F(Relay, ToKafkaAndThroughAnOutage) {
  if (auto const why = why_no_kafka(); !why.empty()) GTEST_SKIP() << why;
  kafka_cluster cluster;
  if (!cluster.is_mock()) GTEST_SKIP() << "the brokers of a real cluster are not to be stopped";
  cluster.topic("orders", 4);
  std::ofstream{file()} << "mode = \"multi_node\"\n[store]\nurl = \"sqlite:" << db()
                        << "\"\n[poll]\nevery = \"50ms\"\n[http]\n"
                        << "listen = \"127.0.0.1:" << port
                        << "\"\n[sinks.kafka]\ntype = \"kafka\"\nbootstrap_servers = \"" << cluster.addresses()
                        << "\"\nmessage_timeout = \"2s\"\n[[routes]]\nevent_type = \"order.placed\"\n"
                        << "sink = \"kafka\"\ntopic = \"orders\"\n";
  auto const pid = start();
  ASSERT_TRUE(eventually([&] { return ready(); })) << log();
  insert(0, 100);
  EXPECT_TRUE(eventually([&] { return all_done(100); })) << log();
  cluster.down(1);
  insert(100, 200);
  EXPECT_TRUE(eventually([&] { return !ready(); })) << "readiness tells of the outage";
  cluster.up(1);
  EXPECT_TRUE(eventually([&] { return all_done(200); })) << log();
  EXPECT_EQ(sqlite::open(db())->inspect().counts().dead, 0U);
  EXPECT_EQ(end(pid, SIGTERM), 0) << log();
  EXPECT_EQ(cluster.payloads("orders").size(), 200U);
}

}  // namespace
}  // namespace outbox

// Verbs that only look: status, list, show, tail, errors, nodes, audit.
#include "fault/tool/verb_fixture.hpp"

namespace outbox {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

template <class Database>
class Reading : public verb_fixture<Database> {};
TYPED_TEST_SUITE(Reading, tool_databases, name_of_tool_database);

TYPED_TEST(Reading, StatusOfAnEmptyTableIsHealthy) {
  static_cast<void>(this->store());
  auto const r = this->run("status", {"--pretty"});
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_THAT(r.out, StartsWith("HEALTHY: nothing waits; 0 delivered in the last minute.\n"));
  EXPECT_EQ(r.err, "");
}

TYPED_TEST(Reading, StatusSaysWhatIsWrong) {
  this->put_one_of_each();
  auto const j = this->json("status", {}, 1);
  EXPECT_EQ(j.at("verdict"), "stalled");
  EXPECT_THAT(j.at("sentence").template get<std::string>(), HasSubstr("no live node delivers from this table"));
  EXPECT_THAT(j.at("sentence").template get<std::string>(), HasSubstr("1 event is DEAD"));
  EXPECT_EQ(j.at("pending"), 2);
  EXPECT_EQ(j.at("due"), 1);
  EXPECT_EQ(j.at("retrying"), 1);
  EXPECT_EQ(j.at("dead"), 1);
  EXPECT_EQ(j.at("done_per_minute"), 1.0);
  EXPECT_EQ(j.at("nodes"), 0);
  auto const lenient = this->json("status", {"--max-dead", "1"}, 1);
  EXPECT_THAT(lenient.at("sentence").template get<std::string>(), Not(HasSubstr("DEAD")));
}

TYPED_TEST(Reading, StatusKnowsTheNodesAndWhatIsPaused) {
  this->store().heartbeat({.incarnation = "h:1:x", .name = "shop", .lease = 30s, .active = true, .reason = "no disk"});
  this->store().pause({"order.placed", "order"});
  auto const j = this->json("status", {}, 1);
  EXPECT_EQ(j.at("verdict"), "degraded");
  EXPECT_THAT(j.at("sentence").template get<std::string>(), HasSubstr("shop: no disk. 1 route is paused."));
  EXPECT_THAT(j.at("paused"), ElementsAre("order/order.placed"));
}

TYPED_TEST(Reading, ListFiltersByEveryField) {
  this->put_one_of_each();
  this->put("other", "mail", {.aggregate = {"user", "7"}, .tenant = "t2"});
  EXPECT_THAT(this->ids(this->json("list")), ElementsAre("other", "dead", "done", "retry", "new"));
  EXPECT_THAT(this->ids(this->json("list", {"--oldest", "-n", "2"})), ElementsAre("new", "retry"));
  EXPECT_THAT(this->ids(this->json("list", {"--state", "pending"})), UnorderedElementsAre("other", "retry", "new"));
  EXPECT_THAT(this->ids(this->json("list", {"--state", "done,dead"})), ElementsAre("dead", "done"));
  EXPECT_THAT(this->ids(this->json("list", {"--type", "mail"})), ElementsAre("other"));
  EXPECT_THAT(this->ids(this->json("list", {"--aggregate", "order/dead"})), ElementsAre("dead"));
  EXPECT_THAT(this->ids(this->json("list", {"--aggregate", "user"})), ElementsAre("other"));
  EXPECT_THAT(this->ids(this->json("list", {"--tenant", "t2"})), ElementsAre("other"));
  EXPECT_THAT(this->ids(this->json("list", {"--older-than", "1h"})), IsEmpty());
  EXPECT_THAT(this->ids(this->json("list", {"--younger-than", "1h"})), ::testing::SizeIs(5));
  EXPECT_EQ(this->run("list", {"--type", "none", "--fail-if-empty"}).status, 3);
}

// A filter may not become part of the SQL.
TYPED_TEST(Reading, HostileFiltersMatchNothing) {
  this->put_one_of_each();
  for (std::string const value : {"' OR '1'='1", "\\", "%", "$1", "?1", "x\xff", "[?]", "{status}"}) {
    EXPECT_THAT(this->json("list", {"--type", value}), IsEmpty()) << value;
    EXPECT_THAT(this->json("list", {"--tenant", value}), IsEmpty()) << value;
  }
}

TYPED_TEST(Reading, ShowHasEverythingAndHarmsNoTerminal) {
  this->put("a", "t", {.aggregate = {"order", "1"}, .headers = {{"trace", "x\u202Ey"}}});
  auto const pretty = this->run("show", {"a", "--pretty"});
  EXPECT_EQ(pretty.status, 0);
  EXPECT_THAT(pretty.out, HasSubstr("\\u{202e}"));
  EXPECT_THAT(pretty.out, Not(HasSubstr("\u202E")));
  EXPECT_THAT(pretty.out, HasSubstr(R"({"n":1})"));
  auto const j = this->json("show", {"a"});
  EXPECT_EQ(j.at("headers").at("trace"), "x\u202Ey");
  EXPECT_EQ(j.at("payload"), R"({"n":1})");
  EXPECT_THAT(this->run("show", {"a", "--json"}).out, Not(HasSubstr("\u202E")));
  EXPECT_EQ(this->run("show", {"a", "--payload"}).out, R"({"n":1})") << "byte for byte";
  auto const missing = this->run("show", {"a", "missing"});
  EXPECT_EQ(missing.status, 1);
  EXPECT_THAT(missing.err, HasSubstr("There is no event 'missing'."));
}

TYPED_TEST(Reading, BytesComeOutAsTheyWentIn) {
  static_cast<void>(this->store());
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  auto box = writer_only({.store = this->store_, .log = nullptr});
  auto const e = event::bytes("t", bytes, "application/octet-stream", {.id = "b"});
  this->db.transact([&](auto& tx) { box.writer().write(tx, e); });
  EXPECT_EQ(this->run("show", {"b", "--payload"}).out, bytes);
  EXPECT_THAT(this->json("show", {"b"}).at("payload_hex").template get<std::string>(), StartsWith("000102030405"));
}

TYPED_TEST(Reading, ErrorsAreGrouped) {
  for (int i = 0; i < 3; ++i) this->put("e" + std::to_string(i), "t");
  for (int i = 0; i < 3; ++i) {
    auto const id = "e" + std::to_string(i);
    this->settle(id, spi::outcome::dead,
                 i < 2 ? "event 01JAB3J6ZK000000000000000" + std::to_string(i) + " refused" : "HTTP 503");
  }
  auto const j = this->json("errors");
  ASSERT_EQ(j.size(), 2U);
  EXPECT_EQ(j[0].at("error"), "event … refused");
  EXPECT_EQ(j[0].at("events"), 2);
  EXPECT_EQ(j[0].at("dead"), 2);
  EXPECT_EQ(j[1].at("error"), "HTTP 503");
  EXPECT_THAT(this->json("errors", {"--type", "none"}), IsEmpty());
}

TYPED_TEST(Reading, TailPrintsWhatIsWrittenOnce) {
  this->put("before", "t");
  running_tool tail{{"tail", "--db", this->db.url(), "--every", "20ms", "--plain"}};
  ASSERT_TRUE(eventually([&] { return tail.out().find("before\t") != std::string::npos; })) << tail.err();
  this->put("after", "t");
  this->put("another", "u");
  ASSERT_TRUE(eventually([&] { return tail.out().find("another\t") != std::string::npos; })) << tail.err();
  tail.signal(SIGINT);
  auto const r = tail.wait();
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_EQ(std::ranges::count(r.out, '\n'), 3) << r.out;
}

TYPED_TEST(Reading, NodesAreListed) {
  EXPECT_EQ(this->json("migrate").at("change"), "created");
  EXPECT_THAT(this->json("nodes"), IsEmpty());
  this->store().heartbeat({.incarnation = "h:1:x",
                           .name = "shop",
                           .version = "9.9",
                           .mode = node_mode::multi_node,
                           .lease = 30s,
                           .held = 3,
                           .active = true,
                           .done = 10});
  auto const j = this->json("nodes");
  ASSERT_EQ(j.size(), 1U);
  EXPECT_EQ(j[0].at("node"), "shop");
  EXPECT_EQ(j[0].at("state"), "delivers");
  EXPECT_EQ(j[0].at("version"), "9.9");
  EXPECT_EQ(j[0].at("done"), 10);
}

TYPED_TEST(Reading, ReadingVerbsChangeNothing) {
  this->put_one_of_each();
  auto const rows = [&] {
    std::string all;
    for (auto const& r : this->store().list({}, spi::list_order::oldest_first, 100)) {
      all += r.event.id() + std::string{name(r.status)} + std::to_string(r.attempts) + r.locked_by + " ";
    }
    return all;
  };
  auto const before = rows();
  for (std::string const verb : {"status", "list", "errors", "nodes", "audit", "pause"}) this->run(verb);
  EXPECT_EQ(this->run("tail", {"--no-follow"}).status, 0);
  EXPECT_EQ(this->run("replay", {"--all", "--dry-run"}).status, 0);
  EXPECT_EQ(rows(), before);
  EXPECT_THAT(this->store().audit(10), IsEmpty());
}

}  // namespace
}  // namespace outbox

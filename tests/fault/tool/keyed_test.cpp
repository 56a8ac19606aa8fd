// Tables that keep the order of keys: discard, unkey, migrate --keyed, and what the reading verbs say of them.
#include "fault/tool/verb_fixture.hpp"

namespace outbox {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

template <class Database>
class ToolKeyed : public verb_fixture<Database> {
 protected:
  // As a keyed claim notes it.
  void block(std::string const& id) {
    if constexpr (requires { this->db.table(); }) {
      this->db.execute("UPDATE " + this->db.table() + " SET blocked = true WHERE event_id = '" + id + "'");
    } else {
      this->db.block(id);
    }
  }
  // The first event of key "k" is dead, and two wait for it; another key goes on.
  void park() {
    static_cast<void>(this->store());
    this->store().set_keyed(true);
    for (auto const* const id : {"a", "b", "c"}) this->put(id, "order.placed", {.ordering_key = "k"});
    this->put("x", "order.placed", {.aggregate = {"order", "42"}});
    this->settle("a", spi::outcome::dead, "refused: 422");
    block("b");
    block("c");
  }
  void heartbeat(std::string const& name, node_mode mode) {
    this->store().heartbeat({.incarnation = name + ":1:x",
                             .name = name,
                             .version = "1",
                             .mode = mode,
                             .lease = 1h,
                             .active = true,
                             .routes = {{"any"}}});
  }
  nlohmann::json finding(std::string const& code) {
    auto const report = nlohmann::json::parse(this->run("doctor", {"--json"}).out);
    for (auto const& f : report.at("findings")) {
      if (f.at("code") == code) return f;
    }
    return {};
  }
};
TYPED_TEST_SUITE(ToolKeyed, tool_databases, name_of_tool_database);

TYPED_TEST(ToolKeyed, DiscardLetsTheNextEventGoOn) {
  this->park();
  EXPECT_THAT(this->store().parked_keys(10), ::testing::SizeIs(1));
  auto const refused = this->run("discard", {"a"});
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, HasSubstr("this would discard 1 event (id=a)"));
  auto const j = this->json("discard", {"a", "--yes", "--reason", "the customer has paid"});
  EXPECT_EQ(j.at("changed"), 1);
  EXPECT_EQ(this->status_of("a"), event_status::dead);
  EXPECT_EQ(this->store().inspect().find("b")->blocked, false) << "it comes next";
  EXPECT_EQ(this->store().inspect().find("c")->blocked, true);
  EXPECT_THAT(this->store().parked_keys(10), IsEmpty());
  auto const audit = this->json("audit");
  EXPECT_EQ(audit[0].at("verb"), "discard");
  EXPECT_EQ(audit[0].at("filter"), "id=a");
  EXPECT_EQ(audit[0].at("reason"), "the customer has paid");
  EXPECT_EQ(audit[0].at("changed"), 1);
}

TYPED_TEST(ToolKeyed, DiscardLeavesWhatStandsInNoOrder) {
  this->park();
  this->put("none", "mail");
  this->settle("none", spi::outcome::dead, "no");
  auto const r = this->run("discard", {"--all", "--yes"});
  EXPECT_EQ(r.out, "1\n");
  EXPECT_THAT(r.err, HasSubstr("Dead events outside any order are left as they are."));
  EXPECT_EQ(this->run("discard", {"--all", "--yes"}).out, "0\n");
  EXPECT_EQ(this->run("discard", {"--state", "new", "--yes"}).status, 2);
  EXPECT_EQ(this->run("discard", {"nobody", "--yes", "--fail-if-empty"}).status, 3);
}

TYPED_TEST(ToolKeyed, EventsAreChosenByTheirKey) {
  this->park();
  EXPECT_THAT(this->ids(this->json("list", {"--key", "k"})), ::testing::UnorderedElementsAre("a", "b", "c"));
  EXPECT_THAT(this->ids(this->json("list", {"--key", "order42"})), IsEmpty()) << "an ordering key, not an aggregate";
  EXPECT_EQ(this->run("discard", {"--key", "other", "--yes"}).out, "0\n");
  EXPECT_EQ(this->run("discard", {"--key", "k", "--yes"}).out, "1\n");
}

TYPED_TEST(ToolKeyed, StatusTellsWhichKeyIsParkedAndBehindWhichEvent) {
  static_cast<void>(this->store());
  EXPECT_EQ(this->json("status").at("keyed"), false);
  EXPECT_THAT(this->run("status", {"--pretty"}).out, Not(HasSubstr("key")));
  this->park();
  this->heartbeat("n", node_mode::keyed);
  auto const j = this->json("status", {"--max-dead", "5"}, 1);
  EXPECT_EQ(j.at("keyed"), true);
  EXPECT_EQ(j.at("pending"), 3) << "two of them are blocked";
  EXPECT_EQ(j.at("blocked"), 2);
  EXPECT_EQ(j.at("due"), 1);
  EXPECT_EQ(j.at("parked_keys"), 1);
  EXPECT_EQ(j.at("parked_key"), "k");
  EXPECT_EQ(j.at("parked_behind"), "a");
  EXPECT_FALSE(j.at("parked_since").is_null());
  EXPECT_THAT(j.at("sentence").template get<std::string>(), HasSubstr("1 key is parked behind a dead event"));
  EXPECT_THAT(this->run("status", {"--pretty"}).out, HasSubstr("parked keys"));
}

// As an event of a type that no node serves is, for ever.
TYPED_TEST(ToolKeyed, StatusTellsThatEventsWaitBehindADeferredOne) {
  static_cast<void>(this->store());
  this->store().set_keyed(true);
  this->heartbeat("n", node_mode::keyed);
  for (auto const* const id : {"a", "b"}) this->put(id, "order.placed", {.ordering_key = "k"});
  this->settle("a", spi::outcome::defer, "no listener for event type 'order.placed'");
  this->block("b");
  EXPECT_EQ(this->json("status").at("verdict"), "healthy");
  auto const j = this->json("status", {"--max-lag", "0s"}, 1);
  EXPECT_EQ(j.at("verdict"), "degraded");
  EXPECT_EQ(j.at("due"), 0);
  EXPECT_EQ(j.at("retrying"), 0);
  EXPECT_EQ(j.at("parked_keys"), 0);
  EXPECT_THAT(j.at("sentence").template get<std::string>(), HasSubstr("1 event waits behind another of its key"));
  EXPECT_THAT(this->run("errors").out, HasSubstr("no listener for event type")) << "the cause";
}

TYPED_TEST(ToolKeyed, ShowTellsWhereAnEventStands) {
  this->park();
  this->put("later", "order.placed", {.deliver_after = 1h, .ordering_key = "k"});
  auto const place = [&](std::string const& id) { return this->json("show", {id}).at("in_order"); };
  EXPECT_EQ(place("a"), "parked");
  EXPECT_EQ(place("b"), "blocked");
  EXPECT_EQ(place("x"), "in line");
  EXPECT_EQ(place("later"), "outside");
  EXPECT_EQ(this->json("show", {"b"}).at("key"), "=k");
  auto const pretty = this->run("show", {"b", "--pretty"}).out;
  EXPECT_THAT(pretty, HasSubstr("NEW blocked"));
  EXPECT_THAT(pretty, HasSubstr("another event of its key comes first"));
  EXPECT_THAT(this->run("show", {"x", "--pretty"}).out, HasSubstr("order/42"));
  this->store().set_keyed(false);
  EXPECT_TRUE(this->json("show", {"a"}).at("in_order").is_null()) << "the table keeps no order";
}

TYPED_TEST(ToolKeyed, TheDoctorFindsParkedKeys) {
  this->park();
  this->heartbeat("n", node_mode::keyed);
  auto const f = this->finding("parked_keys");
  ASSERT_FALSE(f.is_null());
  EXPECT_EQ(f.at("level"), "warning");
  EXPECT_THAT(f.at("text").template get<std::string>(),
              StartsWith("1 key is parked, and 2 events wait; the first is k behind event a, for "));
  EXPECT_THAT(f.at("fix").template get<std::string>(), HasSubstr("outbox replay --db '"));
  EXPECT_EQ(this->finding("order_of_keys").at("level"), "passed");
  this->store().discard({}, 10);
  EXPECT_EQ(this->finding("parked_keys").at("level"), "passed");
}

TYPED_TEST(ToolKeyed, TheDoctorFindsNodesThatDoNotAgreeWithTheMark) {
  static_cast<void>(this->store());
  this->heartbeat("plain", node_mode::multi_node);
  EXPECT_EQ(this->finding("order_of_keys").at("level"), "passed");
  EXPECT_TRUE(this->finding("parked_keys").is_null()) << "the table is not keyed";
  this->store().set_keyed(true);
  auto const other = this->finding("order_of_keys");
  EXPECT_EQ(other.at("level"), "problem");
  EXPECT_THAT(other.at("text").template get<std::string>(), HasSubstr("other modes deliver from it: plain"));
  this->store().retire("plain:1:x");
  this->heartbeat("writer", node_mode::writer_only);
  this->heartbeat("strict", node_mode::keyed);
  EXPECT_EQ(this->finding("order_of_keys").at("level"), "passed");
  this->store().set_keyed(false);
  auto const unmarked = this->finding("order_of_keys");
  EXPECT_EQ(unmarked.at("level"), "problem");
  EXPECT_THAT(unmarked.at("text").template get<std::string>(), HasSubstr("keyed nodes are live: strict"));
  EXPECT_THAT(unmarked.at("fix").template get<std::string>(), StartsWith("outbox nodes --db '"));
}

TYPED_TEST(ToolKeyed, NodesSayThatTheyAreKeyed) {
  static_cast<void>(this->store());
  this->heartbeat("strict", node_mode::keyed);
  EXPECT_EQ(this->json("nodes")[0].at("mode"), "keyed");
}

TYPED_TEST(ToolKeyed, UnkeyEndsTheOrder) {
  this->park();
  auto const refused = this->run("unkey");
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, HasSubstr("give --yes to do it"));
  auto const looked = this->run("unkey", {"--dry-run", "--pretty"});
  EXPECT_EQ(looked.status, 0);
  EXPECT_THAT(looked.err, HasSubstr("It would remove the mark and free 2 events that waited for others"));
  EXPECT_TRUE(this->store().settings().keyed) << "nothing was changed";
  auto const j = this->json("unkey", {"--yes", "--reason", "back to many nodes"});
  EXPECT_EQ(j.at("was_keyed"), true);
  EXPECT_EQ(j.at("unblocked"), 2);
  EXPECT_FALSE(this->store().settings().keyed);
  auto const audit = this->json("audit");
  ASSERT_EQ(audit.size(), 1U);
  EXPECT_EQ(audit[0].at("verb"), "unkey");
  EXPECT_EQ(audit[0].at("changed"), 2);
  EXPECT_EQ(audit[0].at("reason"), "back to many nodes");
  EXPECT_EQ(this->json("unkey", {"--yes"}).at("was_keyed"), false) << "again: an earlier run may have ended early";
}

TYPED_TEST(ToolKeyed, UnkeyIsRefusedWhileAKeyedNodeIsLive) {
  static_cast<void>(this->store());
  this->store().set_keyed(true);
  this->heartbeat("strict", node_mode::keyed);
  this->heartbeat("writer", node_mode::writer_only);
  for (auto const& more : {std::vector<std::string>{"--yes"}, {"--dry-run"}}) {
    auto const r = this->run("unkey", more);
    EXPECT_EQ(r.status, 1);
    EXPECT_THAT(r.err, HasSubstr("keyed nodes are live on this table: strict (strict:1:x)"));
    EXPECT_THAT(r.err, HasSubstr("outbox nodes --db '"));
  }
  EXPECT_TRUE(this->store().settings().keyed);
  EXPECT_THAT(this->store().audit(10), IsEmpty());
  this->store().retire("strict:1:x");
  EXPECT_EQ(this->run("unkey", {"--yes"}).status, 0) << "a node that only writes does not mind";
}

// A node whose lease was over comes back in the moment when the mark is removed.
TEST(ToolUnkey, SaysIfAKeyedNodeStartedMeanwhile) {
  tool_on_sqlite db;
  auto const table = open_store(db.url());
  table->backend().set_keyed(true);
  table->backend().heartbeat({.incarnation = "back:1:x",
                              .name = "back",
                              .version = "1",
                              .mode = node_mode::keyed,
                              .lease = 1h,
                              .active = true});
  db.execute("UPDATE outbox_node SET lease_until = '2001' || substr(lease_until, 5)");
  db.execute(
      "CREATE TRIGGER comes_back AFTER UPDATE ON outbox_meta WHEN new.name = 'keyed' BEGIN UPDATE outbox_node SET "
      "lease_until = '2999' || substr(lease_until, 5); END");
  auto const r = run_tool({"unkey", "--yes", "--db", db.url()});
  EXPECT_EQ(r.status, 1) << r.out;
  EXPECT_THAT(r.err, HasSubstr("a keyed node started meanwhile: back (back:1:x)"));
  EXPECT_THAT(r.err, HasSubstr("outbox unkey --db"));
  EXPECT_FALSE(table->backend().settings().keyed);
}

TYPED_TEST(ToolKeyed, MigrateKeyedPreparesTheTableWithoutMarkingIt) {
  EXPECT_EQ(this->json("migrate", {"up", "--keyed"}).at("change"), "created");
  EXPECT_FALSE(this->store().settings().keyed);
  EXPECT_EQ(this->run("migrate", {"--keyed"}).status, 0) << "again";
  EXPECT_EQ(this->run("migrate", {"status", "--keyed"}).status, 2);
  EXPECT_EQ(this->run("migrate", {"--sql", "--keyed"}).status, 2);
}

TYPED_TEST(ToolKeyed, MigrateKeyedSaysThatAnIndexWasAddedToTheTable) {
  EXPECT_EQ(this->json("migrate", {"up"}).at("change"), "created");
  bool const has_indexes = requires { this->db.table(); };  // Redis has none
  EXPECT_EQ(this->json("migrate", {"up", "--keyed"}).at("change"), has_indexes ? "indexed" : "nothing");
  EXPECT_EQ(this->json("migrate", {"up", "--keyed"}).at("change"), "nothing");
}

}  // namespace
}  // namespace outbox

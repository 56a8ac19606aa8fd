// Verbs that change rows: replay, cancel, purge, pause, resume.
#include "fault/tool/verb_fixture.hpp"

namespace outbox {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

template <class Database>
class Changing : public verb_fixture<Database> {
 protected:
  // Dead rows of one type with numbers for ids, inserted by SQL as another program would.
  void put_many_dead(int rows) {
    static_cast<void>(this->store());
    if constexpr (requires { this->db.table(); }) {
      insert_dead(rows);
    } else {
      write_dead(rows);
    }
  }

 private:
  void write_dead(int rows) {
    for (int i = 0; i < rows; ++i) this->put("m" + std::to_string(i), "many");
    auto const reply = this->store().claim({.token = "t/many", .limit = 100, .lease = 30s});
    for (auto const& r : reply.rows) {
      spi::settlement const s{.row = r.handle, .outcome = spi::outcome::dead};
      EXPECT_TRUE(this->store().settle(std::span{&s, 1}).applied.at(0));
    }
  }

  void insert_dead(int rows) {
    auto const at = std::string{"'2026-01-01 00:00:00.000000'"};
    std::string values;
    for (int i = 0; i < rows; ++i) {
      values += (i == 0 ? "" : ", ") + ("('m" + std::to_string(i)) + "', 'many', '{}', " + at + ", " + at + ", 3)";
    }
    this->db.execute("INSERT INTO " + this->db.table() +
                     " (event_id, event_type, payload, available_at, created_at, status) VALUES " + values);
  }
};
TYPED_TEST_SUITE(Changing, tool_databases, name_of_tool_database);

TYPED_TEST(Changing, NothingIsChangedWithoutAYes) {
  this->put_one_of_each();
  auto const r = this->run("replay", {"--type", "order.dead"});
  EXPECT_EQ(r.status, 2);
  EXPECT_THAT(r.err, HasSubstr("this would replay 1 event (type=order.dead)"));
  EXPECT_THAT(r.err, HasSubstr("give --yes to do it, or --dry-run to look"));
  EXPECT_EQ(this->status_of("dead"), event_status::dead);
  auto const everything = this->run("cancel", {"--yes"});
  EXPECT_EQ(everything.status, 2);
  EXPECT_THAT(everything.err, HasSubstr("Give ids, a filter, or --all"));
  EXPECT_THAT(this->store().audit(10), IsEmpty());
}

TYPED_TEST(Changing, ReplayMakesDeadEventsNewAndTellsTheAudit) {
  this->put_one_of_each();
  auto const j = this->json("replay", {"--all", "--yes", "--reason", "the carrier's back"});
  EXPECT_EQ(j.at("matched"), 1);
  EXPECT_EQ(j.at("changed"), 1);
  EXPECT_EQ(this->status_of("dead"), event_status::created);
  EXPECT_EQ(this->status_of("done"), event_status::delivered);
  auto const a = this->json("audit");
  ASSERT_EQ(a.size(), 1U);
  EXPECT_EQ(a[0].at("verb"), "replay");
  EXPECT_EQ(a[0].at("filter"), "everything");
  EXPECT_EQ(a[0].at("reason"), "the carrier's back");
  EXPECT_EQ(a[0].at("changed"), 1);
  EXPECT_THAT(a[0].at("who").template get<std::string>(), HasSubstr("@"));
  EXPECT_EQ(this->run("replay", {"new", "--yes"}).out, "0\n") << "only dead events are replayed";
  EXPECT_EQ(this->run("replay", {"--state", "done", "--yes"}).status, 2);
  EXPECT_EQ(this->run("replay", {"nobody", "--yes", "--fail-if-empty"}).status, 3);
}

TYPED_TEST(Changing, CancelMakesPendingEventsDead) {
  this->put_one_of_each();
  EXPECT_EQ(this->run("cancel", {"--aggregate", "order", "--yes", "--reason", "a mistake"}).out, "2\n");
  EXPECT_EQ(this->status_of("new"), event_status::dead);
  EXPECT_EQ(this->status_of("retry"), event_status::dead);
  EXPECT_EQ(this->status_of("done"), event_status::delivered);
  EXPECT_EQ(this->store().inspect().find("new")->last_error, "cancelled: a mistake");
  EXPECT_EQ(this->run("cancel", {"--state", "dead", "--yes"}).status, 2);
}

TYPED_TEST(Changing, CancellingAHeldRowTakesTheOwnerAway) {
  this->put("a", "t");
  auto const held = this->store().claim({.token = "n/1", .limit = 1, .lease = 30s});
  ASSERT_EQ(held.rows.size(), 1U);
  EXPECT_EQ(this->run("cancel", {"a", "--yes"}).out, "1\n");
  spi::settlement const late{.row = held.rows[0].handle, .outcome = spi::outcome::delivered};
  EXPECT_FALSE(this->store().settle(std::span{&late, 1}).applied.at(0));
  EXPECT_EQ(this->status_of("a"), event_status::dead);
}

TYPED_TEST(Changing, PurgeDeletesEndedRowsOnly) {
  this->put_one_of_each();
  EXPECT_EQ(this->run("purge", {"--state", "pending", "--yes"}).status, 2);
  EXPECT_EQ(this->run("purge", {"--older-than", "1h", "--yes"}).out, "0\n");
  EXPECT_EQ(this->run("purge", {"new", "--yes"}).out, "0\n") << "not even by its id";
  EXPECT_EQ(this->run("purge", {"--state", "done", "--yes"}).out, "1\n");
  EXPECT_FALSE(this->store().inspect().find("done"));
  EXPECT_EQ(this->run("purge", {"--all", "--yes"}).out, "1\n");
  EXPECT_TRUE(this->store().inspect().find("new"));
  EXPECT_TRUE(this->store().inspect().find("retry"));
}

TYPED_TEST(Changing, ALimitAndBatchesAreKept) {
  this->put_many_dead(25);
  EXPECT_EQ(this->run("replay", {"--type", "many", "--yes", "--limit", "12", "--batch", "5"}).out, "12\n");
  EXPECT_EQ(this->store().count({.statuses = {event_status::dead}}, 100), 13U);
  EXPECT_EQ(this->run("replay", {"--type", "many", "--yes", "--batch", "5"}).out, "13\n");
  auto const a = this->store().audit(10);
  ASSERT_EQ(a.size(), 2U);
  EXPECT_EQ(a[1].filter, "type=many limit=12");
}

TYPED_TEST(Changing, AnInterruptedChangeStopsAtABatchAndGoesOnLater) {
  this->put_many_dead(40);
  running_tool slow{{"replay", "--db", this->db.url(), "--all", "--yes", "--batch", "1", "--rate", "1"}};
  ASSERT_TRUE(eventually([&] { return this->store().count({.statuses = {event_status::created}}, 100) > 0; }));
  slow.signal(SIGINT);
  auto const r = slow.wait();
  EXPECT_EQ(r.status, 130) << r.err;
  EXPECT_THAT(r.err, HasSubstr("the same command goes on with the rest"));
  auto const changed = this->store().count({.statuses = {event_status::created}}, 100);
  EXPECT_EQ(r.out, std::to_string(changed) + "\n");
  EXPECT_LT(changed, 40U);
  EXPECT_EQ(this->store().audit(1).at(0).changed, changed) << "the audit knows how far it came";
  EXPECT_EQ(this->run("replay", {"--all", "--yes"}).out, std::to_string(40 - changed) + "\n");
}

TYPED_TEST(Changing, PauseAndResumeHoldForAllNodes) {
  static_cast<void>(this->store());
  EXPECT_EQ(this->run("pause", {"order.placed", "--reason", "carrier down"}).out, "1\n");
  EXPECT_EQ(this->run("pause", {"order.placed"}).out, "0\n") << "already";
  EXPECT_EQ(this->run("pause", {"mail", "--aggregate", "user"}).out, "1\n");
  EXPECT_THAT(this->store().settings().pauses,
              ElementsAre(route_pause{"order.placed", ""}, route_pause{"mail", "user"}));
  auto const listed = this->json("pause");
  ASSERT_EQ(listed.size(), 2U);
  EXPECT_EQ(listed[0].at("type"), "order.placed");
  EXPECT_EQ(this->run("resume", {"order.placed"}).out, "1\n");
  EXPECT_EQ(this->run("resume", {"order.placed"}).out, "0\n");
  EXPECT_EQ(this->run("resume", {}).status, 2);
  EXPECT_EQ(this->store().audit(10).size(), 5U);
  EXPECT_EQ(this->run("pause", {std::string(129, 'x')}).status, 2) << "no event has such a type";
}

}  // namespace
}  // namespace outbox

// Paused routes.
#include "stepwise_node.hpp"

namespace outbox {
namespace {

using Pauses = StepwiseNode;

TEST_F(Pauses, APausedRouteWaitsAndTheRestGoesOn) {
  l.on("t", [](delivery const&) {}).on("mail", [](delivery const&) {});
  make();
  EXPECT_TRUE(n->pause({"mail"}));
  EXPECT_FALSE(n->pause({"mail"}));
  write("m", "mail");
  write("e");
  n->run_until_idle();
  clock->advance(1h);
  n->run_until_idle();
  EXPECT_THAT(seen->ids(), ElementsAre("e"));
  EXPECT_EQ(row("m").locked_by, "") << "it has no owner";
  EXPECT_TRUE(n->resume({"mail"}));
  n->run_until_idle();
  EXPECT_THAT(seen->ids(), ElementsAre("e", "m"));
}

TEST_F(Pauses, QueuedEventsAreReleased) {
  l.on("mail", [](delivery const&) {});
  make();
  write("m", "mail");  // in the hot queue
  n->pause({"mail"});
  n->run_until_idle();
  EXPECT_THAT(seen->ids(), IsEmpty());
  EXPECT_EQ(row("m").locked_by, "");
  EXPECT_EQ(row("m").crashes, 0);
}

TEST_F(Pauses, ACommitAfterThePauseIsNotDelivered) {
  l.on("mail", [](delivery const&) {});
  make();
  memory::transaction tx{*table};
  n->writer().write(tx, "mail", "1", {.id = "m"});
  n->pause({"mail"});
  tx.commit();
  n->run_until_idle();
  EXPECT_THAT(seen->ids(), IsEmpty());
  EXPECT_EQ(row("m").locked_by, "");
}

TEST_F(Pauses, OtherNodesAndLaterStartsFollowThePause) {
  l.on("mail", [](delivery const&) {});
  make();
  table->backend().pause({"mail", ""});  // a tool did that
  clock->advance(8s);                    // more than a quarter of a lease
  n->run_until_idle();
  write("m", "mail");
  n->run_until_idle();
  EXPECT_THAT(seen->ids(), IsEmpty());
  n.reset();
  l.on("mail", [](delivery const&) {});
  make();
  EXPECT_THAT(seen->ids(), IsEmpty()) << "a new node knows before its first claim";
  EXPECT_THAT(n->paused(), ElementsAre(route_pause{"mail", ""}));
}

TEST_F(Pauses, NamesThatAColumnCannotHoldAreRefused) {
  make();
  auto const field_of = [&](auto&& call) {
    try {
      call();
    } catch (error const& e) {
      EXPECT_EQ(e.code(), errc::invalid_option);
      return std::string{e.field()};
    }
    return std::string{"accepted"};
  };
  auto const refused = [&](route_pause const& p) {
    EXPECT_EQ(field_of([&] { n->resume(p); }), field_of([&] { n->pause(p); }));
    return field_of([&] { n->pause(p); });
  };
  EXPECT_EQ(refused({}), "pause.event_type");
  EXPECT_EQ(refused({std::string(129, 'x')}), "pause.event_type");
  EXPECT_EQ(refused({"\xFF"}), "pause.event_type");
  EXPECT_EQ(refused({std::string{"a\0b", 3}}), "pause.event_type");
  EXPECT_EQ(refused({"mail", std::string{"\0", 1}}), "pause.aggregate_type");
  EXPECT_EQ(refused({"mail", std::string(65, 'x')}), "pause.aggregate_type");
  EXPECT_EQ(refused({"mail"}), "accepted");
}

}  // namespace
}  // namespace outbox

// Other programs on the same table: one that also dispatches, and triggers of the application.
#pragma once

#include <outbox/testing/contract/suite.hpp>

namespace outbox::contract {

class Foreign : public StoreContract {
 protected:
  // Locks a row as a dispatcher does that knows no leases.
  bool lock(std::string const& id, std::string const& locked_at = "available_at") {
    return this->backend().foreign(
        "UPDATE {table} SET locked_by = 'java-1', locked_at = " + locked_at + " WHERE event_id = $1", {id});
  }
};

OUTBOX_CONTRACT_CASE(Foreign, I7_ARowThatAnotherProgramLockedIsLeftForALease) {
  this->put({"a", "b"});
  if (!this->lock("a")) GTEST_SKIP() << no_foreign_sql;
  auto const first = this->claim("n/1");
  EXPECT_THAT(this->ids(first), ElementsAre("b"));
  EXPECT_EQ(first.foreign_owner, "java-1");
  ASSERT_TRUE(first.next_due);
  EXPECT_LE(*first.next_due, this->row("a").available_at + lease);
  EXPECT_GT(*first.next_due, first.now);
  this->advance(lease + 10ms);
  auto const later = this->claim("n/2");
  ASSERT_THAT(this->ids(later), ::testing::Contains("a"));
  EXPECT_EQ(this->row("a").crashes, 0) << "the owner was not a node of this library";
  EXPECT_EQ(later.foreign_owner, "");
}

OUTBOX_CONTRACT_CASE(Foreign, I5_InOrderAForeignLockHoldsUpTheRowsBehindIt) {
  this->put({"a", "b"});
  if (!this->lock("a")) GTEST_SKIP() << no_foreign_sql;
  this->backend().wait_for_earlier_transactions();
  auto r = this->request("n/1");
  r.in_order = true;
  EXPECT_THAT(this->s().claim(r).rows, IsEmpty());
  this->advance(lease + 10ms);
  r.token = "n/2";
  EXPECT_THAT(this->ids(this->s().claim(r)), ElementsAre("a", "b"));
}

OUTBOX_CONTRACT_CASE(Foreign, ALockWithoutATimeIsIgnored) {
  this->put({"a"});
  if (!this->lock("a", "NULL")) GTEST_SKIP() << no_foreign_sql;
  EXPECT_THAT(this->ids(this->claim("n/1")), ElementsAre("a"));
  EXPECT_EQ(this->row("a").crashes, 0);
}

OUTBOX_CONTRACT_CASE(Foreign, R13_ARowThatCannotBeChangedDoesNotHoldUpTheOthers) {
  this->put({"a", "b", "bad", "c", "bad too"});
  if (!this->backend().refuse_changes_of("bad%")) GTEST_SKIP() << no_triggers;
  auto const reply = this->claim("n/1");
  EXPECT_THAT(this->ids(reply), ElementsAre("a", "b", "c"));
  ASSERT_THAT(reply.refused, SizeIs(2));
  EXPECT_EQ(reply.refused.front().id, "bad");
  EXPECT_EQ(reply.refused.front().type, "order.placed");
  EXPECT_THAT(reply.refused.front().error, ::testing::HasSubstr("it is stuck"));
  EXPECT_EQ(reply.refused.back().id, "bad too");
  EXPECT_EQ(this->row("bad").locked_by, "");

  this->put(json_event("d"));
  auto next = this->request("n/2");
  next.leave = {"bad", "bad too"};
  auto const second = this->s().claim(next);
  EXPECT_THAT(this->ids(second), ElementsAre("d"));
  EXPECT_THAT(second.refused, IsEmpty()) << "they were not tried";
}

OUTBOX_CONTRACT_CASE(Foreign, R13_ManyRowsThatCannotBeChangedDoNotHoldUpTheOthers) {
  for (int i = 0; i < 70; ++i) this->put(json_event("bad" + std::to_string(i)));
  this->put(json_event("good"));
  if (!this->backend().refuse_changes_of("bad%")) GTEST_SKIP() << no_triggers;
  std::vector<std::string> claimed;
  auto r = this->request("n/0");
  for (int claims = 0; claims < 6 && claimed.empty(); ++claims) {
    r.token = "n/" + std::to_string(claims);
    auto const reply = this->s().claim(r);
    claimed = this->ids(reply);
    for (auto const& refused : reply.refused) r.leave.push_back(refused.id);
  }
  EXPECT_THAT(claimed, ElementsAre("good")) << "each claim finds some of them, and leaves them to the next";
}

OUTBOX_CONTRACT_CASE(Foreign, I5_InOrderARowThatCannotBeChangedIsAnError) {
  this->put({"a", "bad", "b"});
  if (!this->backend().refuse_changes_of("bad%")) GTEST_SKIP() << no_triggers;
  this->backend().wait_for_earlier_transactions();
  auto r = this->request("n/1");
  r.in_order = true;
  r.leave = {"bad"};
  EXPECT_THROW(static_cast<void>(this->s().claim(r)), error);
  EXPECT_EQ(this->row("b").locked_by, "") << "nothing overtakes it";
}

OUTBOX_CONTRACT_CASE(Foreign, R13_ARowThatCannotBeMadeDeadDoesNotHoldUpTheOthers) {
  this->put_owned(json_event("bad"), "node/0");
  if (!this->backend().foreign("UPDATE {table} SET crashes = 4")) GTEST_SKIP() << no_foreign_sql;
  this->expire();
  this->put({"a"});
  ASSERT_TRUE(this->backend().refuse_changes_of("bad"));
  auto const reply = this->claim("n/9");
  EXPECT_THAT(this->ids(reply), ElementsAre("a"));
  EXPECT_THAT(reply.dead, IsEmpty());
  ASSERT_THAT(reply.refused, SizeIs(1));
  EXPECT_EQ(reply.refused.front().id, "bad");
}

}  // namespace outbox::contract

// Leases, the dispatch lock and the registry of nodes.
#pragma once

#include <outbox/testing/contract/suite.hpp>

namespace outbox::contract {

class Lease : public StoreContract {
 protected:
  [[nodiscard]] lock_kind kind() { return this->s().capabilities().dispatch_lock; }
  [[nodiscard]] std::unique_ptr<dispatch_lock> try_lock(std::string_view incarnation) {
    return this->s().try_dispatch_lock(incarnation, lease);
  }
};

OUTBOX_CONTRACT_CASE(Lease, RenewalKeepsTheRow) {
  this->put({"a"});
  auto const row = this->claim_one("n/1");
  this->advance(20s);
  EXPECT_TRUE(this->renew(row));
  this->advance(20s);
  EXPECT_THAT(this->claim("m/1").rows, IsEmpty());
  this->advance(11s);
  EXPECT_THAT(this->claim("m/2").rows, SizeIs(1));
}

// Dispatchers that know no leases regard an old lock as abandoned.
OUTBOX_CONTRACT_CASE(Lease, RenewalIsSeenByOtherDispatchersToo) {
  this->put({"a"});
  auto const row = this->claim_one("n/1");
  this->advance(20s);
  auto const before = this->backend().locked_at("a");
  if (before.empty()) GTEST_SKIP() << no_locked_at;
  ASSERT_TRUE(this->renew(row));
  EXPECT_GT(this->backend().locked_at("a"), before);
  EXPECT_EQ(this->row("a").locked_by, "n/1");
}

OUTBOX_CONTRACT_CASE(Lease, I6_RenewalNeedsTheToken) {
  this->put({"a"});
  auto row = this->claim_one("n/1");
  row.token = "n/2";
  EXPECT_FALSE(this->renew(row));
}

OUTBOX_CONTRACT_CASE(Lease, I6_RenewalAfterATakeoverIsRefused) {
  this->put({"a"});
  auto const old = this->claim_one("n/1");
  this->expire();
  this->claim_one("m/1");
  EXPECT_FALSE(this->renew(old));
}

OUTBOX_CONTRACT_CASE(Lease, RenewalOfAFinishedRowIsRefused) {
  this->put({"a"});
  auto const row = this->claim_one("n/1");
  this->settle(row, outcome::dead);
  EXPECT_FALSE(this->renew(row));
  EXPECT_FALSE(this->row("a").lease_until);
}

OUTBOX_CONTRACT_CASE(Lease, AnExpiredLeaseThatWasNotTakenCanBeRenewed) {
  this->put({"a"});
  auto const row = this->claim_one("n/1");
  this->expire();
  EXPECT_TRUE(this->renew(row));
  EXPECT_THAT(this->claim("m/1").rows, IsEmpty());
}

OUTBOX_CONTRACT_CASE(Lease, RenewalAnswersRowByRow) {
  this->put({"a", "b", "c"});
  auto rows = this->claim("n/1").rows;
  this->settle(rows[1].handle, outcome::delivered);
  row_handle const handles[] = {rows[0].handle, rows[1].handle, rows[2].handle, {"missing", "n/1", 0}};
  EXPECT_THAT(this->s().renew(handles, lease), ElementsAre(true, false, true, false));
}

OUTBOX_CONTRACT_CASE(Lease, ReleaseByTokenFreesAllItsRowsAndNoOthers) {
  this->put({"a", "b"});
  this->claim("n/1");
  this->put({"c"});
  this->claim("n/2");
  EXPECT_EQ(this->release("n/1"), 2U);
  EXPECT_THAT(this->ids(this->claim("m/1")), ElementsAre("a", "b"));
  EXPECT_EQ(this->row("a").crashes, 0) << "a release is no crash";
  EXPECT_EQ(this->row("c").locked_by, "n/2");
}

OUTBOX_CONTRACT_CASE(Lease, ReleaseTakesManyTokensAndLeavesDelayedRowsAlone) {
  event_options o;
  o.deliver_after = 24h;
  this->put(json_event("tomorrow", o));
  for (auto const* const id : {"a", "b", "c"}) {
    this->put({id});
    this->claim(std::string{"n/"} + id);
  }
  owner_token const tokens[] = {"n/a", "unheard/of", "n/c"};
  EXPECT_EQ(this->s().release(tokens, lease), 2U);
  EXPECT_THAT(this->ids(this->claim("m/1")), ElementsAre("a", "c"));
  EXPECT_EQ(this->row("b").locked_by, "n/b");
  EXPECT_EQ(this->s().release({}, lease), 0U);
}

OUTBOX_CONTRACT_CASE(Lease, ReleaseFindsItsRowsAmongManyOfOthers) {
  std::vector<event> events;
  std::vector<insertion> rows;
  for (int i = 0; i < 1500; ++i) events.push_back(json_event("theirs-" + std::to_string(i)));
  for (auto const& e : events) rows.push_back({&e, "m/1", lease});
  auto tx = this->backend().begin();
  this->s().insert(tx->ref(), rows);
  tx->commit();
  this->put({"ours"});
  ASSERT_THAT(this->claim("n/1").rows, SizeIs(1));
  EXPECT_EQ(this->release("n/1"), 1U);
  EXPECT_EQ(this->release("m/1"), 1500U);
}

OUTBOX_CONTRACT_CASE(Lease, ReleaseOfATokenThatOwnsNothingChangesNothing) {
  this->put({"a"});
  this->settle(this->claim_one("n/1"), outcome::dead);
  EXPECT_EQ(this->release("n/1"), 0U);
  EXPECT_EQ(this->release("unheard/of"), 0U);
  EXPECT_EQ(this->row("a").status, event_status::dead);
}

OUTBOX_CONTRACT_CASE(Lease, ReleaseByTokenReachesBirths) {
  this->put_owned(json_event("a"), "n/7");
  EXPECT_EQ(this->release("n/7"), 1U);
  EXPECT_THAT(this->claim("m/1").rows, SizeIs(1));
}

OUTBOX_CONTRACT_CASE(Lease, TheHolderOfTheDispatchLockEndsTheLeasesOfOthers) {
  if (this->kind() == lock_kind::none) GTEST_SKIP() << "this store has no dispatch lock";
  this->put({"theirs"});
  this->claim("old/1");
  this->put({"ours"});
  this->claim("new/1");
  this->put({"free"});
  auto const lock = this->try_lock("new");
  ASSERT_TRUE(lock);
  EXPECT_EQ(lock->expire_others(), 1U);
  auto const reply = this->claim("new/2");
  EXPECT_THAT(this->ids(reply), UnorderedElementsAre("theirs", "free"));
  EXPECT_EQ(this->row("theirs").crashes, 1);
  EXPECT_EQ(this->row("ours").locked_by, "new/1");
}

OUTBOX_CONTRACT_CASE(Lease, APrefixOfAnIncarnationIsAnotherIncarnation) {
  if (this->kind() == lock_kind::none) GTEST_SKIP() << "this store has no dispatch lock";
  this->put({"a"});
  this->claim("node:1/1");
  auto const lock = this->try_lock("node:");
  ASSERT_TRUE(lock);
  EXPECT_EQ(lock->expire_others(), 1U) << "'node:' is not the incarnation of 'node:1/1'";
}

OUTBOX_CONTRACT_CASE(Lease, TheDispatchLockHasOneHolder) {
  if (this->kind() == lock_kind::none) GTEST_SKIP() << "this store has no dispatch lock";
  auto first = this->try_lock("a");
  ASSERT_TRUE(first);
  EXPECT_TRUE(first->held());
  EXPECT_FALSE(this->try_lock("b"));
  first.reset();
  EXPECT_TRUE(this->try_lock("b"));
}

OUTBOX_CONTRACT_CASE(Lease, AStoreWithoutADispatchLockSaysWhy) {
  if (this->kind() != lock_kind::none) GTEST_SKIP() << "this store has a dispatch lock";
  EXPECT_NE(this->s().capabilities().no_lock_reason, "");
  try {
    EXPECT_FALSE(this->try_lock("a")) << "there is none to be had";
    ADD_FAILURE() << "it must throw";
  } catch (error const& e) {
    EXPECT_EQ(e.code(), errc::unsupported) << e.what();
  }
}

OUTBOX_CONTRACT_CASE(Lease, ADispatchLockThatIsASessionOutlastsEveryLease) {
  if (this->kind() != lock_kind::session) GTEST_SKIP() << "the lock of this store is not a session";
  auto const lock = this->try_lock("a");
  ASSERT_TRUE(lock);
  this->expire();
  EXPECT_TRUE(lock->held());
  EXPECT_TRUE(lock->renew());
  EXPECT_FALSE(this->try_lock("b"));
}

OUTBOX_CONTRACT_CASE(Lease, ADispatchLockThatIsALeaseEndsUnlessItIsRenewed) {
  if (this->kind() != lock_kind::lease) GTEST_SKIP() << "the lock of this store is not a lease";
  auto const lock = this->try_lock("a");
  ASSERT_TRUE(lock);
  this->advance(20s);
  EXPECT_TRUE(lock->renew());
  this->advance(20s);
  EXPECT_TRUE(lock->held());
  EXPECT_FALSE(this->try_lock("b"));
  this->advance(11s);
  EXPECT_FALSE(lock->held());
  EXPECT_FALSE(lock->renew()) << "what is over is not renewed: another node may have come and gone";
  EXPECT_TRUE(this->try_lock("b"));
}

OUTBOX_CONTRACT_CASE(Lease, I6_AHolderWhoseLockIsOverDoesNothingToTheNextHolder) {
  if (this->kind() != lock_kind::lease) GTEST_SKIP() << "the lock of this store is not a lease";
  auto earlier = this->try_lock("a");
  ASSERT_TRUE(earlier);
  this->expire();
  auto const next = this->try_lock("a");  // the same node: its incarnation alone does not tell the two apart
  ASSERT_TRUE(next);
  this->put({"x"});
  ASSERT_THAT(this->claim("b/1").rows, SizeIs(1));
  EXPECT_FALSE(earlier->held());
  EXPECT_FALSE(earlier->renew());
  EXPECT_THROW(earlier->expire_others(), error);
  earlier.reset();
  EXPECT_TRUE(next->held()) << "it is not the earlier one's to give back";
  EXPECT_FALSE(this->try_lock("c"));
  EXPECT_THAT(this->claim("c/1").rows, IsEmpty()) << "no lease was ended";
}

OUTBOX_CONTRACT_CASE(Lease, NodesAreRegisteredAndRetired) {
  this->s().heartbeat({.incarnation = "h:1:x",
                       .name = "one",
                       .version = "0.1.0",
                       .mode = node_mode::multi_node,
                       .lease = lease,
                       .held = 3});
  this->s().heartbeat({.incarnation = "h:2:y", .name = "two", .mode = node_mode::single_node, .lease = lease});
  this->s().heartbeat({.incarnation = "h:1:x",
                       .name = "one",
                       .version = "0.1.0",
                       .mode = node_mode::multi_node,
                       .lease = lease,
                       .held = 4});
  auto nodes = this->s().inspect().nodes();
  ASSERT_THAT(nodes, SizeIs(2));
  EXPECT_EQ(nodes[0].name, "one");
  EXPECT_EQ(nodes[0].held, 4U);
  EXPECT_EQ(nodes[0].mode, node_mode::multi_node);
  EXPECT_EQ(nodes[1].mode, node_mode::single_node);
  this->s().retire("h:2:y");
  EXPECT_THAT(this->s().inspect().nodes(), SizeIs(1));
}

OUTBOX_CONTRACT_CASE(Lease, ANodeWithoutAHeartbeatIsGone) {
  this->s().heartbeat({.incarnation = "h:1:x", .name = "one", .lease = lease});
  this->expire();
  EXPECT_THAT(this->s().inspect().nodes(), IsEmpty());
}

OUTBOX_CONTRACT_CASE(Lease, I10_WhatACrashedNodeHeldIsClaimableWhenItsLeaseIsOver) {
  this->put({"a", "b"});
  auto const reply = this->claim("crashed/1");
  ASSERT_THAT(reply.rows, SizeIs(2));
  auto const look = this->claim("m/1");
  ASSERT_TRUE(look.next_due);
  this->advance(std::chrono::ceil<std::chrono::milliseconds>(*look.next_due - look.now));
  EXPECT_THAT(this->claim("m/2").rows, SizeIs(2)) << "next_due said when";
}

}  // namespace outbox::contract

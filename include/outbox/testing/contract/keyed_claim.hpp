// What a claim that keeps the order of keys takes, leaves and notes.
#pragma once

#include <outbox/testing/contract/suite.hpp>

namespace outbox::contract {

class KeyedClaim : public StoreContract {
 protected:
  void SetUp() override {
    if (!this->s().capabilities().keys) GTEST_SKIP() << "this store keeps no order per key";
    this->s().set_keyed(true);
  }
  void put_in(std::string key, std::initializer_list<char const*> ids, event_options options = {}) {
    options.ordering_key = std::move(key);
    for (auto const* id : ids) {
      this->put(json_event(id, options));
      this->advance(1ms);
    }
  }
  claim_request keyed_request(std::string token) {
    auto r = this->request(std::move(token));
    r.keyed = true;
    return r;
  }
  claim_reply take(std::string token, std::size_t limit = 100, std::size_t run = 64) {
    auto r = this->keyed_request(std::move(token));
    r.limit = limit;
    r.run = run;
    return this->s().claim(r);
  }
  static settlement end_of(claimed_row const& r, outcome what = outcome::delivered) {
    bool const leaves = what == outcome::delivered;
    return {.row = r.handle, .outcome = what, .key = leaves ? r.key : std::string{}, .seq = r.seq};
  }
  settle_reply end_all(std::vector<claimed_row> const& rows, outcome what = outcome::delivered) {
    std::vector<settlement> items;
    for (auto const& r : rows) items.push_back(end_of(r, what));
    return this->s().settle(items);
  }
  // Claims the row at the front of everything that is due, and puts it back for a later attempt.
  void fail_first(std::string token, std::chrono::milliseconds delay) {
    auto const rows = this->take(std::move(token), 1).rows;
    ASSERT_THAT(rows, SizeIs(1));
    ASSERT_TRUE(this->settle(rows[0].handle, outcome::retry, {.counted = 1, .delay = delay, .error = "failed"}));
  }
};

OUTBOX_CONTRACT_CASE(KeyedClaim, TakesWhatFollowsATakenRowWithoutAGap) {
  this->put_in("k", {"a", "b", "c"});
  this->put_in("l", {"x"});
  auto const reply = this->take("n/1");
  EXPECT_THAT(this->ids(reply), ElementsAre("a", "b", "c", "x"));
  EXPECT_EQ(reply.noted, 0U);
  ASSERT_THAT(reply.rows, SizeIs(4));
  EXPECT_EQ(reply.rows[0].key, "=k");
  EXPECT_EQ(reply.rows[3].key, "=l");
  EXPECT_LT(reply.rows[0].seq, reply.rows[1].seq);
}

OUTBOX_CONTRACT_CASE(KeyedClaim, NotesARowWhoseForerunnerAnotherClaimHolds) {
  this->put_in("k", {"a", "b", "c"});
  ASSERT_THAT(this->ids(this->take("n/1", 1)), ElementsAre("a"));
  auto const reply = this->take("n/2");
  EXPECT_THAT(reply.rows, IsEmpty());
  EXPECT_EQ(reply.noted, 2U);
  EXPECT_EQ(this->row("b").blocked, true);
  EXPECT_EQ(this->row("c").blocked, true);
  EXPECT_EQ(this->row("a").blocked, false);
  EXPECT_EQ(this->take("n/3").noted, 0U) << "a noted row is not seen again";
}

OUTBOX_CONTRACT_CASE(KeyedClaim, OneKeyDoesNotHoldUpAnother) {
  this->put_in("k", {"a"});
  ASSERT_THAT(this->ids(this->take("n/1")), ElementsAre("a"));
  this->put_in("k", {"b"});
  this->put_in("l", {"x"});
  this->put(json_event("none"));
  EXPECT_THAT(this->ids(this->take("n/2")), ElementsAre("x", "none"));
}

OUTBOX_CONTRACT_CASE(KeyedClaim, TheEndOfARowLetsTheNextOneBeClaimed) {
  this->put_in("k", {"a", "b", "c"});
  auto const first = this->take("n/1", 1).rows;
  ASSERT_EQ(this->take("n/2").noted, 2U);
  EXPECT_EQ(this->end_all(first).unblocked, 1U);
  EXPECT_THAT(this->ids(this->take("n/3", 100, 1)), ElementsAre("b"));
}

OUTBOX_CONTRACT_CASE(KeyedClaim, ARunTakesTheBlockedRowsBehindAHead) {
  this->put_in("k", {"a", "b", "c", "d"});
  auto const first = this->take("n/1", 1).rows;
  ASSERT_EQ(this->take("n/2").noted, 3U);
  this->end_all(first);
  auto const reply = this->take("n/3");
  EXPECT_THAT(this->ids(reply), ElementsAre("b", "c", "d"));
  for (auto const* id : {"b", "c", "d"}) EXPECT_EQ(this->row(id).blocked, false) << "a held row is never blocked";
  EXPECT_EQ(this->end_all(reply.rows).unblocked, 0U);
}

OUTBOX_CONTRACT_CASE(KeyedClaim, ARunHasNoMoreRowsThanAsked) {
  this->put_in("k", {"a", "b", "c", "d"});
  auto const first = this->take("n/1", 1).rows;
  ASSERT_EQ(this->take("n/2").noted, 3U);
  this->end_all(first);
  auto const reply = this->take("n/3", 100, 2);
  EXPECT_THAT(this->ids(reply), ElementsAre("b", "c"));
  EXPECT_EQ(this->row("d").blocked, true);
  EXPECT_EQ(this->end_all(reply.rows).unblocked, 1U) << "d";
}

OUTBOX_CONTRACT_CASE(KeyedClaim, RowsThatWereNotNotedAreBoundedByTheRunToo) {
  this->put_in("k", {"a", "b", "c"});
  auto const reply = this->take("n/1", 100, 2);
  EXPECT_THAT(this->ids(reply), ElementsAre("a", "b"));
  EXPECT_EQ(reply.noted, 1U);
  EXPECT_EQ(this->row("c").blocked, true);
}

OUTBOX_CONTRACT_CASE(KeyedClaim, ARunCountsAgainstTheLimitOfTheClaim) {
  this->put_in("k", {"a", "b", "c", "d"});
  auto const first = this->take("n/1", 1).rows;
  ASSERT_EQ(this->take("n/2").noted, 3U);
  this->end_all(first);
  EXPECT_THAT(this->ids(this->take("n/3", 2)), ElementsAre("b", "c"));
  EXPECT_EQ(this->row("d").blocked, true);
}

OUTBOX_CONTRACT_CASE(KeyedClaim, ARunEndsBeforeARowOfAPausedType) {
  this->put_in("k", {"a", "b"});
  auto const other = event::json("order.paid", "{}", {.id = "c", .ordering_key = "k"});
  this->put(other);
  this->put_in("k", {"d"});
  auto const first = this->take("n/1", 1).rows;
  ASSERT_EQ(this->take("n/2").noted, 3U);
  this->end_all(first);
  auto r = this->keyed_request("n/3");
  r.pauses = {{"order.paid", ""}};
  EXPECT_THAT(this->ids(this->s().claim(r)), ElementsAre("b")) << "d must not overtake c";
}

OUTBOX_CONTRACT_CASE(KeyedClaim, ARunEndsBeforeARowThatIsHeld) {
  this->put_in("k", {"a", "b", "c", "d"});
  auto const all = this->take("n/1").rows;
  ASSERT_THAT(all, SizeIs(4));
  std::vector<claimed_row> const some{all[0], all[1], all[3]};
  ASSERT_THAT(this->end_all(some, outcome::release).applied, ElementsAre(true, true, true));
  this->backend().block("b");
  this->backend().block("d");
  EXPECT_THAT(this->ids(this->take("n/2")), ElementsAre("a", "b")) << "c is between b and d";
}

OUTBOX_CONTRACT_CASE(KeyedClaim, ARowThatWaitsForItsRetryHoldsUpItsKey) {
  this->put_in("k", {"a", "b"});
  this->put_in("l", {"x"});
  this->fail_first("n/1", 1h);
  auto const reply = this->take("n/2");
  EXPECT_THAT(this->ids(reply), ElementsAre("x"));
  this->end_all(reply.rows);
  EXPECT_EQ(this->row("b").blocked, true);
  this->advance(1h);
  EXPECT_THAT(this->ids(this->take("n/3")), ElementsAre("a")) << "of a row that was tried, only itself";
  EXPECT_EQ(this->row("b").blocked, true);
}

OUTBOX_CONTRACT_CASE(KeyedClaim, ADeferredRowHoldsUpItsKey) {
  this->put_in("k", {"a", "b"});
  auto const rows = this->take("n/1", 1).rows;
  ASSERT_TRUE(this->settle(rows[0].handle, outcome::defer, {.delay = 1h, .error = "deferred"}));
  EXPECT_THAT(this->take("n/2").rows, IsEmpty());
  EXPECT_EQ(this->row("a").blocked, false);
  EXPECT_EQ(this->row("b").blocked, true);
}

OUTBOX_CONTRACT_CASE(KeyedClaim, APausedHeadHoldsUpItsKey) {
  this->put(event::json("order.paid", "{}", {.id = "a", .ordering_key = "k"}));
  this->put_in("k", {"b"});
  auto r = this->keyed_request("n/1");
  r.pauses = {{"order.paid", ""}};
  EXPECT_THAT(this->s().claim(r).rows, IsEmpty());
  EXPECT_EQ(this->row("b").blocked, true);
  EXPECT_THAT(this->ids(this->take("n/2")), ElementsAre("a", "b")) << "a was never tried, so its run goes with it";
}

OUTBOX_CONTRACT_CASE(KeyedClaim, ADeadRowParksItsKey) {
  this->put_in("k", {"a", "b"});
  auto const rows = this->take("n/1", 1).rows;
  ASSERT_TRUE(this->settle(rows[0].handle, outcome::dead, {.error = "given up"}));
  EXPECT_THAT(this->take("n/2").rows, IsEmpty());
  EXPECT_EQ(this->row("b").blocked, true);
  ASSERT_THAT(this->s().parked_keys(10), SizeIs(1));
  EXPECT_EQ(this->s().discard({.ids = {"a"}}, 1), 1U);
  EXPECT_THAT(this->ids(this->take("n/3")), ElementsAre("b"));
}

OUTBOX_CONTRACT_CASE(KeyedClaim, ADeadRowThatIsReplayedIsTheHeadAgain) {
  this->put_in("k", {"a", "b"});
  auto const rows = this->take("n/1", 1).rows;
  ASSERT_TRUE(this->settle(rows[0].handle, outcome::dead, {.error = "given up"}));
  ASSERT_THAT(this->take("n/2").rows, IsEmpty());
  EXPECT_EQ(this->s().replay({.ids = {"a"}}, 1), 1U);
  EXPECT_THAT(this->ids(this->take("n/3")), ElementsAre("a", "b"));
}

OUTBOX_CONTRACT_CASE(KeyedClaim, AReplayedRowWaitsOnlyForWhatIsBeforeIt) {
  this->put_in("k", {"a", "b"});
  auto const held = this->take("n/1").rows;
  ASSERT_THAT(held, SizeIs(2));
  this->expire();
  ASSERT_TRUE(this->renew(held[0].handle));
  ASSERT_EQ(this->take("n/2").noted, 1U);
  // The owner of b is late, and still the last one.
  ASSERT_TRUE(this->settle(held[1].handle, outcome::dead, {.error = "given up"}));
  this->end_all({held[0]});
  EXPECT_EQ(this->s().replay({.ids = {"b"}}, 1), 1U);
  EXPECT_THAT(this->ids(this->take("n/3")), ElementsAre("b"));
}

OUTBOX_CONTRACT_CASE(KeyedClaim, ADeadRowThatLeftTheLineHoldsUpNothing) {
  this->put_in("k", {"a", "b"});
  auto const rows = this->take("n/1", 1).rows;
  ASSERT_EQ(this->take("n/2").noted, 1U);
  settlement const gone{
      .row = rows[0].handle, .outcome = outcome::dead, .error = "skipped", .key = rows[0].key, .seq = rows[0].seq};
  EXPECT_EQ(this->s().settle(std::span{&gone, 1}).unblocked, 1U);
  EXPECT_EQ(this->row("a").blocked, std::nullopt);
  EXPECT_THAT(this->ids(this->take("n/3")), ElementsAre("b"));
}

OUTBOX_CONTRACT_CASE(KeyedClaim, ADelayedEventHoldsUpNothing) {
  this->put_in("k", {"late"}, {.deliver_after = 1h});
  this->put_in("k", {"a"});
  EXPECT_THAT(this->ids(this->take("n/1")), ElementsAre("a"));
  this->put_in("k", {"b"});
  this->advance(2h);
  EXPECT_THAT(this->ids(this->take("n/2")), UnorderedElementsAre("late", "a"))
      << "a, whose lease is over, and the delayed one beside it; b waits for a, which is tried again alone";
}

OUTBOX_CONTRACT_CASE(KeyedClaim, ADelayThatAnotherProgramWroteHoldsUpNothing) {
  this->put_in("k", {"late"}, {.deliver_after = 1h});
  if (!this->backend().foreign("UPDATE {table} SET blocked = false WHERE event_id = $1", {"late"})) {
    GTEST_SKIP() << no_foreign_sql;
  }
  this->put_in("k", {"a"});
  std::vector<std::string> taken;
  for (int i = 0; i < 3 && taken.empty(); ++i) taken = this->ids(this->take("n/" + std::to_string(i)));
  EXPECT_THAT(taken, ElementsAre("a"));
  EXPECT_EQ(this->row("late").blocked, std::nullopt) << "it is outside the order, as if our writer had written it";
}

OUTBOX_CONTRACT_CASE(KeyedClaim, ARowWhoseCrashesAreUsedUpIsTakenForTheNodeToEnd) {
  this->put_in("k", {"a", "b"});
  for (int i = 0; i < 4; ++i) {
    ASSERT_THAT(this->ids(this->take("n/" + std::to_string(i), 1)), ElementsAre("a"));
    this->expire();
  }
  auto r = this->keyed_request("n/5");
  r.suspects = suspects::take_one;
  ASSERT_THAT(this->ids(this->s().claim(r)), ElementsAre("a"));
  this->expire();
  auto const reply = this->take("n/6");
  ASSERT_THAT(this->ids(reply), ElementsAre("a"));
  EXPECT_THAT(reply.dead, IsEmpty()) << "a claim cannot unblock the next row";
  EXPECT_EQ(reply.rows[0].crashes, 6 - 1);
}

OUTBOX_CONTRACT_CASE(KeyedClaim, ASuspectThatIsNotAHeadDoesNotStopTheNode) {
  this->put_in("k", {"a", "b"});
  auto const all = this->take("n/0").rows;
  ASSERT_THAT(all, SizeIs(2));
  for (int i = 0; i < 3; ++i) {
    this->expire();
    ASSERT_TRUE(this->renew(all[0].handle)) << "a stays with its owner";
    // b alone loses its owner again and again, as if every process that held it had crashed.
    auto r = this->request("m/" + std::to_string(i));
    ASSERT_THAT(this->ids(this->s().claim(r)), ElementsAre("b"));
  }
  this->expire();
  ASSERT_TRUE(this->renew(all[0].handle));
  auto const reply = this->take("n/9");
  EXPECT_THAT(reply.rows, IsEmpty());
  EXPECT_FALSE(reply.suspects_waiting);
  EXPECT_EQ(this->row("b").blocked, true);
}

OUTBOX_CONTRACT_CASE(KeyedClaim, ARowBehindAnExpiredOwnerGoesWithItsHead) {
  this->put_in("k", {"a", "b"});
  ASSERT_THAT(this->take("n/1").rows, SizeIs(2));
  this->expire();
  auto const reply = this->take("n/2");
  EXPECT_THAT(this->ids(reply), ElementsAre("a", "b"));
  EXPECT_EQ(reply.rows[1].crashes, 1);
}

OUTBOX_CONTRACT_CASE(KeyedClaim, ARowThatLostItsOwnerTwiceIsTakenAlone) {
  this->put_in("k", {"a", "b", "c"});
  for (auto const* token : {"n/1", "n/2"}) {
    ASSERT_THAT(this->take(token).rows, SizeIs(3));
    this->expire();
  }
  auto const reply = this->take("n/3");
  ASSERT_THAT(this->ids(reply), ElementsAre("a"));
  EXPECT_EQ(reply.rows[0].crashes, 2);
  EXPECT_EQ(this->row("b").crashes, 1) << "its crashes would be those of a";
  EXPECT_EQ(this->row("b").blocked, true);
  EXPECT_EQ(this->end_all(reply.rows).unblocked, 1U);
  EXPECT_THAT(this->ids(this->take("n/4")), ElementsAre("b"));
}

OUTBOX_CONTRACT_CASE(KeyedClaim, PlacesTellWhereCommittedRowsStand) {
  this->put_in("k", {"a", "b"});
  this->put_in("l", {"x"});
  std::vector<std::string> const asked{"b", "x", "absent", "a"};
  auto const places = this->s().places(asked);
  ASSERT_THAT(places, SizeIs(4));
  EXPECT_EQ(places[0].before, "a");
  EXPECT_EQ(places[0].seq, this->row("b").seq);
  EXPECT_EQ(places[1].before, "");
  EXPECT_TRUE(places[1].known);
  EXPECT_FALSE(places[2].known);
  EXPECT_EQ(places[3].before, "");
  this->end_all(this->take("n/1", 1).rows);
  EXPECT_EQ(this->s().places(asked)[0].before, "") << "a is done";
}

OUTBOX_CONTRACT_CASE(KeyedClaim, RemovingTheMarkClearsEveryNote) {
  this->put_in("k", {"a", "b", "c"});
  ASSERT_THAT(this->take("n/1", 1).rows, SizeIs(1));
  ASSERT_EQ(this->take("n/2").noted, 2U);
  this->s().set_keyed(false);
  EXPECT_EQ(this->row("b").blocked, false);
  EXPECT_EQ(this->row("c").blocked, false);
  EXPECT_THAT(this->ids(this->claim("n/3")), ElementsAre("b", "c")) << "nodes of other modes find them";
}

// A node that has not heard yet that the mark is gone.
OUTBOX_CONTRACT_CASE(KeyedClaim, OnATableWithoutTheMarkNothingIsNoted) {
  this->put_in("k", {"a", "b", "c"});
  this->s().set_keyed(false);
  ASSERT_THAT(this->ids(this->take("n/1", 1)), ElementsAre("a"));
  EXPECT_EQ(this->take("n/2").noted, 0U);
  EXPECT_EQ(this->row("b").blocked, false) << "no node would clear it";
  EXPECT_THAT(this->ids(this->claim("n/3")), ElementsAre("b", "c"));
}

}  // namespace outbox::contract

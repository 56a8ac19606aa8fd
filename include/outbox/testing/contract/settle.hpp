// Settlements: only the claim that holds a row settles it, and only once.
#pragma once

#include <outbox/testing/contract/suite.hpp>

namespace outbox::contract {

class Settle : public StoreContract {
 protected:
  row_handle held(std::string token = "n/1") {
    this->put(json_event("a"));
    return this->claim_one(std::move(token));
  }
};

OUTBOX_CONTRACT_CASE(Settle, ADeliveredRowIsNeverClaimedAgain) {
  EXPECT_TRUE(this->settle(this->held(), outcome::delivered));
  EXPECT_TRUE(this->finished("a"));
  this->expire();
  EXPECT_THAT(this->claim("n/2").rows, IsEmpty());
}

OUTBOX_CONTRACT_CASE(Settle, DoneClearsOwnerAndError) {
  auto row = this->held();
  this->settle(row, outcome::retry, {.counted = 1, .error = "first try"});
  row = this->claim_one("n/2");
  EXPECT_EQ(this->row("a").last_error, "first try");
  this->settle(row, outcome::delivered);
  if (!this->s().capabilities().keeps_done_rows) GTEST_SKIP() << keeps_no_done_rows;
  auto const r = this->row("a");
  EXPECT_EQ(r.last_error, "");
  EXPECT_EQ(r.locked_by, "");
  EXPECT_FALSE(r.lease_until);
  EXPECT_TRUE(r.done_at);
  EXPECT_EQ(r.attempts, 1) << "history stays";
}

OUTBOX_CONTRACT_CASE(Settle, I4_SentTwiceChangesNothing) {
  auto const row = this->held();
  EXPECT_TRUE(this->settle(row, outcome::retry, {.counted = 1, .delay = 1s}));
  EXPECT_FALSE(this->settle(row, outcome::retry, {.counted = 1, .delay = 1s}));
  EXPECT_EQ(this->row("a").attempts, 1);
}

// The node that settled the row cleared the token; another program may have left it. In neither case is the row opened
// again.
OUTBOX_CONTRACT_CASE(Settle, I4_ATerminalRowStaysAsItIs) {
  for (auto const end : {outcome::dead, outcome::delivered}) {
    std::string const id = end == outcome::dead ? "dead" : "done";
    this->put(json_event(id));
    auto const row = this->claim_one("n/" + id);
    ASSERT_TRUE(this->settle(row, end, {.error = "why"}));
    this->backend().foreign("UPDATE {table} SET locked_by = $1 WHERE event_id = $2", {row.token, id});
    auto const before = this->s().inspect().find(id);
    for (auto const what : {outcome::delivered, outcome::retry, outcome::defer, outcome::dead, outcome::release}) {
      EXPECT_FALSE(this->settle(row, what, {.counted = 1, .error = "other"})) << id;
    }
    auto const after = this->s().inspect().find(id);
    ASSERT_EQ(after.has_value(), before.has_value()) << id;
    if (!after) continue;  // a store may delete what is done
    EXPECT_EQ(after->status, end == outcome::dead ? event_status::dead : event_status::delivered);
    EXPECT_EQ(after->last_error, end == outcome::dead ? "why" : "");
    EXPECT_EQ(after->attempts, 0) << id;
    EXPECT_EQ(after->done_at, before->done_at) << id;
  }
}

OUTBOX_CONTRACT_CASE(Settle, I6_AnotherTokenChangesNothing) {
  auto row = this->held();
  row.token = "n/2";
  for (auto const what : {outcome::delivered, outcome::retry, outcome::defer, outcome::dead, outcome::release}) {
    EXPECT_FALSE(this->settle(row, what));
  }
  EXPECT_EQ(this->row("a").locked_by, "n/1");
  EXPECT_EQ(this->row("a").status, event_status::created);
}

OUTBOX_CONTRACT_CASE(Settle, I6_AfterATakeoverTheOldOwnerHasLost) {
  auto const old = this->held("n/1");
  this->expire();
  auto const fresh = this->claim_one("m/1");
  EXPECT_FALSE(this->settle(old, outcome::delivered));
  EXPECT_EQ(this->row("a").status, event_status::created);
  EXPECT_TRUE(this->settle(fresh, outcome::delivered));
}

OUTBOX_CONTRACT_CASE(Settle, I6_ATokenOfTheSameNodeIsAnotherClaim) {
  auto const old = this->held("n/1");
  this->expire();
  this->claim_one("n/2");
  EXPECT_FALSE(this->settle(old, outcome::delivered));
}

OUTBOX_CONTRACT_CASE(Settle, ARowWithAnExpiredLeaseThatWasNotTakenCanBeSettled) {
  auto const row = this->held();
  this->expire();
  EXPECT_TRUE(this->settle(row, outcome::delivered));
  EXPECT_TRUE(this->finished("a"));
}

OUTBOX_CONTRACT_CASE(Settle, RetryCountsAndWaits) {
  EXPECT_TRUE(this->settle(this->held(), outcome::retry, {.counted = 1, .delay = 10s, .error = "down"}));
  auto const r = this->row("a");
  EXPECT_EQ(r.status, event_status::retry);
  EXPECT_EQ(r.attempts, 1);
  EXPECT_EQ(r.last_error, "down");
  EXPECT_EQ(r.locked_by, "");
  EXPECT_FALSE(r.done_at);
  this->advance(5s);
  EXPECT_THAT(this->claim("n/2").rows, IsEmpty());
  this->advance(5s);
  EXPECT_THAT(this->claim("n/3").rows, SizeIs(1));
}

OUTBOX_CONTRACT_CASE(Settle, DeferWaitsWithoutCounting) {
  EXPECT_TRUE(this->settle(this->held(), outcome::defer, {.delay = 10s}));
  auto const r = this->row("a");
  EXPECT_EQ(r.status, event_status::created);
  EXPECT_EQ(r.attempts, 0);
  this->advance(5s);
  EXPECT_THAT(this->claim("n/2").rows, IsEmpty());
  this->advance(5s);
  EXPECT_THAT(this->claim("n/3").rows, SizeIs(1));
}

OUTBOX_CONTRACT_CASE(Settle, DeferKeepsTheLastErrorUnlessItHasAReason) {
  this->settle(this->held(), outcome::retry, {.counted = 1, .error = "down"});
  this->settle(this->claim_one("n/2"), outcome::defer, {});
  EXPECT_EQ(this->row("a").last_error, "down");
  this->settle(this->claim_one("n/3"), outcome::defer, {.error = "throttled"});
  EXPECT_EQ(this->row("a").last_error, "throttled");
}

OUTBOX_CONTRACT_CASE(Settle, DeadKeepsItsReasonAndItsTime) {
  EXPECT_TRUE(this->settle(this->held(), outcome::dead, {.counted = 1, .error = "rejected"}));
  auto const r = this->row("a");
  EXPECT_EQ(r.status, event_status::dead);
  EXPECT_EQ(r.last_error, "rejected");
  EXPECT_EQ(r.attempts, 1);
  EXPECT_TRUE(r.done_at);
}

OUTBOX_CONTRACT_CASE(Settle, ASettlementForgivesCrashes) {
  this->crash({"a"}, 2);
  auto const reply = this->claim("n/9");
  ASSERT_THAT(reply.rows, SizeIs(1));
  ASSERT_EQ(reply.rows[0].crashes, 2);
  this->settle(reply.rows[0].handle, outcome::retry, {.counted = 1});
  EXPECT_EQ(this->row("a").crashes, 0);
}

OUTBOX_CONTRACT_CASE(Settle, EveryOutcomeWritesProgress) {
  auto row = this->held("n/1");
  this->settle(row, outcome::retry, {.progress = "one"});
  EXPECT_EQ(this->row("a").progress, "one");
  this->settle(this->claim_one("n/2"), outcome::defer, {.progress = "two"});
  EXPECT_EQ(this->row("a").progress, "two");
  this->settle(this->claim_one("n/3"), outcome::dead, {.progress = "three"});
  EXPECT_EQ(this->row("a").progress, "three");
}

OUTBOX_CONTRACT_CASE(Settle, ReleaseLeavesTheRowAsItWas) {
  this->crash({"a"}, 2);
  auto row = this->claim_one("n/8");
  this->settle(row, outcome::retry, {.counted = 1, .delay = 1s, .error = "down", .progress = "half"});
  this->advance(5s);
  row = this->claim_one("n/9");
  auto const before = this->row("a");
  EXPECT_TRUE(this->settle(row, outcome::release, {.counted = 1, .delay = 5s, .error = "x", .progress = "y"}));
  auto const after = this->row("a");
  EXPECT_EQ(after.status, before.status);
  EXPECT_EQ(after.attempts, before.attempts);
  EXPECT_EQ(after.crashes, before.crashes);
  EXPECT_EQ(after.available_at, before.available_at);
  EXPECT_EQ(after.last_error, before.last_error);
  EXPECT_EQ(after.progress, before.progress);
  EXPECT_EQ(after.locked_by, "");
  EXPECT_FALSE(after.lease_until);
}

OUTBOX_CONTRACT_CASE(Settle, AReleasedRowIsClaimableAtOnceWithoutACrash) {
  this->settle(this->held(), outcome::release);
  auto const reply = this->claim("n/2");
  ASSERT_THAT(reply.rows, SizeIs(1));
  EXPECT_EQ(reply.rows[0].crashes, 0);
}

OUTBOX_CONTRACT_CASE(Settle, AMixedBatchIsAnsweredItemByItem) {
  this->put({"a", "b", "c", "d", "e"});
  auto const rows = this->claim("n/1").rows;
  ASSERT_THAT(rows, SizeIs(5));
  auto stale = rows[1].handle;
  stale.token = "n/0";
  settlement const items[] = {
      {.row = rows[4].handle, .outcome = outcome::dead, .error = "no"},
      {.row = stale, .outcome = outcome::delivered},
      {.row = rows[0].handle, .outcome = outcome::delivered},
      {.row = {"missing", "n/1", 0}, .outcome = outcome::delivered},
      {.row = rows[2].handle, .outcome = outcome::retry, .counted = 1, .delay = 1h},
      {.row = rows[3].handle, .outcome = outcome::release},
      {.row = rows[0].handle, .outcome = outcome::delivered},
  };
  EXPECT_THAT(this->s().settle(items).applied, ElementsAre(true, false, true, false, true, true, false));
  EXPECT_TRUE(this->finished("a"));
  EXPECT_EQ(this->row("b").status, event_status::created);
  EXPECT_EQ(this->row("c").status, event_status::retry);
  EXPECT_EQ(this->row("e").status, event_status::dead);
}

OUTBOX_CONTRACT_CASE(Settle, ManySettlementsInOneCall) {
  for (int i = 0; i < 100; ++i) this->put(json_event("id-" + std::to_string(i)));
  std::vector<settlement> items;
  for (auto const& r : this->claim("n/1").rows) items.push_back({.row = r.handle});
  ASSERT_THAT(items, SizeIs(100));
  EXPECT_THAT(this->s().settle(items).applied, ::testing::Each(true));
  EXPECT_EQ(this->s().inspect().counts().pending(), 0U);
}

// Few rows and many: a store may settle many rows of one claim by a statement of their own.
OUTBOX_CONTRACT_CASE(Settle, I6_OneLostRowAmongManyIsTheOnlyOneThatIsNotSettled) {
  for (int const count : {4, 60}) {
    for (int i = 0; i < count; ++i) this->put(json_event(std::to_string(count) + "-" + std::to_string(10 + i)));
    auto const claimed_by = [&](char const* token) { return this->claim(token).rows; };
    auto const rows = claimed_by("n/1");
    ASSERT_EQ(rows.size(), static_cast<std::size_t>(count));
    ASSERT_TRUE(this->settle(rows[1].handle, outcome::release));
    auto const lost = claimed_by("n/2");
    ASSERT_THAT(lost, SizeIs(1));
    std::vector<settlement> items;
    for (auto const& r : rows) items.push_back({.row = r.handle});
    std::vector<bool> expected(rows.size(), true);
    expected[1] = false;
    EXPECT_EQ(this->s().settle(items).applied, expected);
    EXPECT_EQ(this->row(rows[1].handle.id).locked_by, "n/2");
    EXPECT_EQ(this->s().inspect().counts().pending(), 1U);
    ASSERT_TRUE(this->settle(lost[0].handle, outcome::delivered));
  }
}

// A store may settle the rows of a claim by one statement. The token of each row still decides.
OUTBOX_CONTRACT_CASE(Settle, I6_ManyRowsOfTwoClaimsAreSettledByTheirOwnTokens) {
  constexpr std::size_t each = 60;
  for (std::size_t i = 0; i < 2 * each; ++i) this->put(json_event("e" + std::to_string(100 + i)));
  claim_request r{.token = "n/1", .limit = each, .lease = 30s};
  auto const first = this->s().claim(r);
  r.token = "n/2";
  auto const second = this->s().claim(r);
  ASSERT_THAT(first.rows, SizeIs(each));
  ASSERT_THAT(second.rows, SizeIs(each));
  std::vector<settlement> all;
  for (auto const* const reply : {&first, &second}) {
    for (auto const& row : reply->rows) all.push_back({.row = row.handle});
  }
  all[1].row.token = "n/2";  // the token of the other claim, which settles many rows too
  all[each].row.token = "n/3";
  all[2].progress = "p";
  auto const applied = this->s().settle(all).applied;
  ASSERT_THAT(applied, SizeIs(2 * each));
  for (std::size_t i = 0; i < applied.size(); ++i) {
    bool const owned = i != 1 && i != each;
    EXPECT_EQ(applied[i], owned) << i;
    EXPECT_EQ(this->finished(all[i].row.id), owned) << i;
  }
}

OUTBOX_CONTRACT_CASE(Settle, AnEmptyBatchIsNotAnError) { EXPECT_THAT(this->s().settle({}).applied, IsEmpty()); }

OUTBOX_CONTRACT_CASE(Settle, ALongReasonOfAnyScriptIsKept) {
  std::string reason;
  for (int i = 0; i < 4000; ++i) reason += i % 2 == 0 ? "é" : "😀";
  this->settle(this->held(), outcome::dead, {.error = reason});
  EXPECT_EQ(this->row("a").last_error, reason);
}

}  // namespace outbox::contract

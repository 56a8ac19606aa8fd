// What an order per key needs from a store: keys, receipts, blocked rows.
#pragma once

#include <outbox/testing/contract/suite.hpp>

namespace outbox::contract {

TEST(KeyOf, TellsAggregatesApartThatReadTheSame) {
  auto const of = [](aggregate a, std::string ordering_key = {}) {
    return key_of(json_event("e", {.aggregate = std::move(a), .ordering_key = std::move(ordering_key)}));
  };
  EXPECT_NE(of({"a", "b:c"}), of({"a:b", "c"}));
  EXPECT_NE(of({"a", "1"}), of({"", ""}, "1:a1")) << "an ordering key may look like an aggregate";
  EXPECT_EQ(of({"a", "1"}, "k"), of({"b", "2"}, "k")) << "the ordering key wins";
  EXPECT_EQ(of({"a", ""}), "") << "without an id there is no key";
  EXPECT_EQ(of({"\xC3\xA4", "1"}),
            "1:\xC3\xA4"
            "1")
      << "characters, not bytes";
}

class Key : public StoreContract {
 protected:
  void SetUp() override {
    if (!this->s().capabilities().keys) GTEST_SKIP() << "this store keeps no order per key";
  }
  static event keyed(std::string id, std::string key, event_options options = {}) {
    options.ordering_key = std::move(key);
    return json_event(std::move(id), std::move(options));
  }
  // Written in one transaction.
  std::vector<place> write(std::vector<event> const& events) {
    auto tx = this->backend().begin();
    auto const receipt = std::make_shared<insert_receipt>();
    std::vector<insertion> rows;
    for (auto const& e : events) rows.push_back({&e});
    this->s().insert(tx->ref(), rows, receipt);
    tx->commit();
    return this->known(*receipt, events);
  }
  // As a node does: what the receipt does not know is asked after the commit.
  std::vector<place> known(insert_receipt const& receipt, std::vector<event> const& events) {
    auto all = receipt.rows;
    for (std::size_t i = 0; i < all.size() && i < events.size(); ++i) {
      std::string const id{events[i].id()};
      if (!all[i].known) all[i] = this->s().places(std::span{&id, 1}).front();
    }
    return all;
  }
  std::vector<claimed_row> claim_keyed(std::string token) { return this->claim(std::move(token)).rows; }
  // As a node that keeps an order per key settles.
  settle_reply leave(std::vector<claimed_row> const& rows, outcome what = outcome::delivered) {
    std::vector<settlement> items;
    for (auto const& r : rows) items.push_back({.row = r.handle, .outcome = what, .key = r.key, .seq = r.seq});
    return this->s().settle(items);
  }
};

OUTBOX_CONTRACT_CASE(Key, AReceiptTellsTheNumberOfEachRow) {
  auto const first = this->write({this->keyed("a", "k"), this->keyed("b", "other")});
  ASSERT_THAT(first, SizeIs(2));
  EXPECT_EQ(first[0].seq, this->row("a").seq);
  EXPECT_EQ(first[1].seq, this->row("b").seq);
  EXPECT_LT(first[0].seq, first[1].seq);
}

OUTBOX_CONTRACT_CASE(Key, AReceiptTellsTheRowBefore) {
  auto const first = this->write({this->keyed("a", "k"), this->keyed("b", "k"), this->keyed("c", "other")});
  EXPECT_EQ(first[0].before, "");
  EXPECT_EQ(first[1].before, "a") << "in the same call";
  EXPECT_EQ(first[2].before, "");
  auto const second = this->write({json_event("none"), this->keyed("d", "k")});
  EXPECT_EQ(second[0].before, "") << "it has no key";
  EXPECT_EQ(second[1].before, "b");
}

OUTBOX_CONTRACT_CASE(Key, AReceiptPassesOverRowsThatAreOutOfLine) {
  this->write({this->keyed("a", "k")});
  auto const rows = this->claim_keyed("n/1");
  this->leave(rows);
  EXPECT_EQ(this->write({this->keyed("b", "k")})[0].before, "") << "a is done";
  auto const delayed = this->write({this->keyed("c", "k", {.deliver_after = 1h})});
  EXPECT_EQ(delayed[0].before, "") << "it is outside the order itself";
  EXPECT_EQ(this->write({this->keyed("d", "k")})[0].before, "b");
}

OUTBOX_CONTRACT_CASE(Key, OneReceiptServesSeveralInserts) {
  auto tx = this->backend().begin();
  auto const receipt = std::make_shared<insert_receipt>();
  std::vector<event> const events{this->keyed("a", "k"), this->keyed("b", "k")};
  for (auto const& e : events) {
    insertion const row{&e};
    this->s().insert(tx->ref(), std::span{&row, 1}, receipt);
  }
  tx->commit();
  ASSERT_THAT(receipt->rows, SizeIs(2));
  EXPECT_EQ(this->known(*receipt, events)[1].before, "a");
}

OUTBOX_CONTRACT_CASE(Key, AClaimTellsNumberAndKey) {
  this->put(this->keyed("a", "k"));
  this->put(json_event("none"));
  auto const rows = this->claim_keyed("n/1");
  ASSERT_THAT(rows, SizeIs(2));
  EXPECT_EQ(rows[0].key, "=k");
  EXPECT_EQ(rows[0].seq, this->row("a").seq);
  EXPECT_EQ(rows[1].key, "");
}

OUTBOX_CONTRACT_CASE(Key, ADelayedEventIsOutsideTheOrder) {
  this->put(this->keyed("a", "k", {.deliver_after = 1s}));
  EXPECT_EQ(this->row("a").blocked, std::nullopt);
  this->advance(2s);
  auto const rows = this->claim_keyed("n/1");
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0].key, "");
  EXPECT_EQ(this->row("a").blocked, std::nullopt) << "taking it does not put it in line";
}

OUTBOX_CONTRACT_CASE(Key, AnInstantThatIsPastIsADelayToo) {
  auto const now = this->s().now();
  this->put(this->keyed("a", "k", {.occurred_at = now - 2h, .available_at = now - 1h}));
  EXPECT_EQ(this->row("a").blocked, std::nullopt) << "whether it is over depends on how long the write took";
}

OUTBOX_CONTRACT_CASE(Key, AnUnblockedRowStaysWithAnOwnerWhoseLeaseRuns) {
  this->put(this->keyed("a", "k"));
  this->put_owned(this->keyed("b", "k"), "m/1");
  this->backend().block("b");
  EXPECT_EQ(this->leave(this->claim_keyed("n/1")).unblocked, 1U);
  EXPECT_THAT(this->claim("n/2").rows, IsEmpty()) << "its lease runs";
  this->expire();
  auto const rows = this->claim_keyed("n/3");
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0].crashes, 1);
  EXPECT_TRUE(this->settle(rows[0].handle, outcome::delivered));
  EXPECT_THAT(this->claim("n/4").rows, IsEmpty());
}

OUTBOX_CONTRACT_CASE(Key, AClaimLeavesABlockedRow) {
  this->put({"a", "b"});
  this->backend().block("a");
  EXPECT_THAT(this->ids(this->claim("n/1")), ElementsAre("b"));
  auto r = this->request("n/2");
  r.in_order = true;
  this->backend().wait_for_earlier_transactions();
  EXPECT_THAT(this->s().claim(r).rows, IsEmpty());
}

OUTBOX_CONTRACT_CASE(Key, ABlockedRowIsNoReasonToLookAgain) {
  this->put({"a"});
  this->backend().block("a");
  EXPECT_FALSE(this->claim("n/1").next_due);
}

OUTBOX_CONTRACT_CASE(Key, RenewingClearsTheNote) {
  this->put({"a"});
  auto const held = this->claim_one("n/1");
  this->backend().block("a");
  EXPECT_TRUE(this->renew(held));
  EXPECT_EQ(this->row("a").blocked, false);
}

OUTBOX_CONTRACT_CASE(Key, ASettlementUnblocksTheNextRow) {
  for (auto const* id : {"a", "b", "c"}) this->put(this->keyed(id, "k"));
  this->backend().block("b");
  this->backend().block("c");
  auto const rows = this->claim_keyed("n/1");
  ASSERT_THAT(rows, SizeIs(1));
  auto const reply = this->leave(rows);
  EXPECT_THAT(reply.applied, ElementsAre(true));
  EXPECT_EQ(reply.unblocked, 1U);
  EXPECT_EQ(this->row("b").blocked, false);
  EXPECT_EQ(this->row("c").blocked, true);
  EXPECT_THAT(this->ids(this->claim("n/2")), ElementsAre("b"));
}

OUTBOX_CONTRACT_CASE(Key, AnUnblockedRowIsDueNowOrLaterIfItHadToWait) {
  for (auto const* id : {"a", "b"}) this->put(this->keyed(id, "k"));
  for (auto const* id : {"x", "y"}) this->put(this->keyed(id, "l"));
  this->backend().block("b");
  auto const rows = this->claim_keyed("n/1");
  ASSERT_THAT(rows, SizeIs(3));
  ASSERT_TRUE(this->settle(rows[2].handle, outcome::retry, {.delay = 10s}));
  this->backend().block("y");
  this->advance(5s);
  EXPECT_EQ(this->leave({rows[0], rows[1]}).unblocked, 2U);
  EXPECT_GE(this->row("b").available_at, this->row("b").inserted_at + 5s);
  EXPECT_LE(this->row("b").available_at, this->s().now());
  EXPECT_GT(this->row("y").available_at, this->s().now()) << "its retry is not due";
}

// Behind the highest is not enough where another fault finished a key out of order.
OUTBOX_CONTRACT_CASE(Key, TheNextRowIsTheOneBehindTheLowest) {
  for (auto const* id : {"a", "b", "c"}) this->put(this->keyed(id, "k"));
  auto const rows = this->claim_keyed("n/1");
  ASSERT_THAT(rows, SizeIs(3));
  EXPECT_TRUE(this->settle(rows[1].handle, outcome::release));
  this->backend().block("b");
  EXPECT_EQ(this->leave({rows[2], rows[0]}).unblocked, 1U);
  EXPECT_EQ(this->row("b").blocked, false);
}

OUTBOX_CONTRACT_CASE(Key, ASettlementThatIsLostUnblocksNothing) {
  this->put(this->keyed("a", "k"));
  this->put(this->keyed("b", "k"));
  this->backend().block("b");
  auto rows = this->claim_keyed("n/1");
  ASSERT_THAT(rows, SizeIs(1));
  rows[0].handle.token = "other/1";
  EXPECT_EQ(this->leave(rows).unblocked, 0U);
  EXPECT_EQ(this->row("b").blocked, true);
}

OUTBOX_CONTRACT_CASE(Key, ASettlementWithoutAKeyUnblocksNothing) {
  this->put(this->keyed("a", "k"));
  this->put(this->keyed("b", "k"));
  this->backend().block("b");
  EXPECT_TRUE(this->settle(this->claim_one("n/1"), outcome::delivered));
  EXPECT_EQ(this->row("b").blocked, true);
}

OUTBOX_CONTRACT_CASE(Key, SettlingTwiceUnblocksOnce) {
  for (auto const* id : {"a", "b", "c"}) this->put(this->keyed(id, "k"));
  this->backend().block("b");
  this->backend().block("c");
  auto const rows = this->claim_keyed("n/1");
  EXPECT_EQ(this->leave(rows).unblocked, 1U);
  EXPECT_EQ(this->leave(rows).unblocked, 0U);
  EXPECT_EQ(this->row("c").blocked, true);
}

OUTBOX_CONTRACT_CASE(Key, ParkedKeysTellWhatWaitsBehindADeadRow) {
  for (auto const* id : {"a", "b", "c"}) this->put(this->keyed(id, "k"));
  this->put(this->keyed("x", "fine"));
  for (auto const& r : this->claim_keyed("n/1")) {
    EXPECT_TRUE(this->settle(r.handle, r.handle.id == "a" ? outcome::dead : outcome::release));
  }
  this->backend().block("b");
  auto const parked = this->s().parked_keys(10);
  ASSERT_THAT(parked, SizeIs(1));
  EXPECT_EQ(parked[0].key, "=k");
  EXPECT_EQ(parked[0].id, "a");
  EXPECT_EQ(parked[0].waiting, 2U);
  EXPECT_EQ(parked[0].since, this->row("a").done_at);
  EXPECT_THAT(this->s().parked_keys(0), IsEmpty());
  ASSERT_EQ(this->s().discard({}, 10), 1U);
  EXPECT_THAT(this->s().parked_keys(10), IsEmpty());
}

OUTBOX_CONTRACT_CASE(Key, HealUnblocksHeadsOnly) {
  for (auto const* id : {"a", "b"}) this->put(this->keyed(id, "k"));
  for (auto const* id : {"x", "y"}) this->put(this->keyed(id, "l"));
  this->put(this->keyed("only", "m"));
  for (auto const* id : {"a", "b", "y", "only"}) this->backend().block(id);
  EXPECT_EQ(this->s().heal(10), 2U);
  EXPECT_EQ(this->row("a").blocked, false);
  EXPECT_EQ(this->row("only").blocked, false);
  EXPECT_EQ(this->row("b").blocked, true);
  EXPECT_EQ(this->row("y").blocked, true);
  EXPECT_EQ(this->s().heal(10), 0U);
}

}  // namespace outbox::contract

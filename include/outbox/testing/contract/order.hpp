// Claims in order, and claims around paused routes.
#pragma once

#include <outbox/testing/contract/suite.hpp>

namespace outbox::contract {

class Order : public StoreContract {
 protected:
  claim_reply in_order(std::string token, std::size_t limit = 100) {
    auto r = this->request(std::move(token));
    r.in_order = true;
    r.limit = limit;
    this->backend().wait_for_earlier_transactions();
    return this->s().claim(r);
  }
  row_handle first_of(std::string token) { return in_order(std::move(token), 1).rows.at(0).handle; }
};

OUTBOX_CONTRACT_CASE(Order, I5_LowestSeqFirst) {
  this->put({"c", "a", "b"});
  auto const reply = this->in_order("n/1", 2);
  EXPECT_THAT(this->ids(reply), ElementsAre("c", "a"));
  EXPECT_TRUE(reply.more);
}

OUTBOX_CONTRACT_CASE(Order, I5_RowsComeInTheOrderOfTheirWritesDespiteSavepoints) {
  if (!this->backend().has_savepoints()) GTEST_SKIP() << no_savepoints;
  auto const a = json_event("a");
  auto const b = json_event("b");
  auto const c = json_event("c");
  auto const d = json_event("d");
  auto tx = this->backend().begin();
  auto const write = [&](event const& e) {
    insertion const row{&e};
    this->s().insert(tx->ref(), std::span{&row, 1});
  };
  write(a);
  tx->savepoint("one");
  write(b);
  tx->rollback_to("one");
  write(c);
  tx->savepoint("two");
  write(d);
  tx->commit();
  EXPECT_THAT(this->ids(this->in_order("n/1")), ElementsAre("a", "c", "d"));
}

OUTBOX_CONTRACT_CASE(Order, I5_ARetryThatWaitsHoldsUpTheRest) {
  this->put({"a", "b"});
  auto const a = this->first_of("n/1");
  this->settle(a, outcome::retry, {.counted = 1, .delay = 10s, .error = "later"});
  auto const reply = this->in_order("n/2");
  EXPECT_THAT(reply.rows, IsEmpty());
  ASSERT_TRUE(reply.next_due);
  EXPECT_LE(*reply.next_due - reply.now, 10s);
  EXPECT_GT(*reply.next_due - reply.now, 5s);
  this->advance(10s);
  EXPECT_THAT(this->ids(this->in_order("n/3")), ElementsAre("a", "b"));
}

OUTBOX_CONTRACT_CASE(Order, I5_ADeferralWaitsInPlace) {
  this->put({"a", "b"});
  this->settle(this->first_of("n/1"), outcome::defer, {.delay = 10s, .error = "deferred"});
  EXPECT_THAT(this->in_order("n/2").rows, IsEmpty());
  this->advance(10s);
  EXPECT_THAT(this->ids(this->in_order("n/3")), ElementsAre("a", "b"));
}

OUTBOX_CONTRACT_CASE(Order, I5_ABirthWithADelayIsPassedOver) {
  event_options late;
  late.deliver_after = 10s;
  this->put(json_event("late", late));
  this->put({"a"});
  auto const reply = this->in_order("n/1");
  EXPECT_THAT(this->ids(reply), ElementsAre("a"));
  ASSERT_TRUE(reply.next_due);
  this->advance(10s);
  EXPECT_THAT(this->ids(this->in_order("n/2")), ElementsAre("late"));
}

OUTBOX_CONTRACT_CASE(Order, I5_ALiveOwnerHoldsUpTheRest) {
  this->put_owned(json_event("owned"), "other/1");
  this->put({"a"});
  EXPECT_THAT(this->in_order("n/1").rows, IsEmpty());
  this->expire();
  EXPECT_THAT(this->ids(this->in_order("n/2")), ElementsAre("owned", "a"));
  EXPECT_EQ(this->row("owned").crashes, 1);
}

OUTBOX_CONTRACT_CASE(Order, I5_WhatIsTooYoungHoldsUpTheRest) {
  this->put({"a"});
  this->advance(60s);
  this->put({"b"});
  auto r = this->request("n/1");
  r.in_order = true;
  this->backend().wait_for_earlier_transactions();
  r.skip_recent = 30s;
  EXPECT_THAT(this->ids(this->s().claim(r)), ElementsAre("a"));
}

OUTBOX_CONTRACT_CASE(Order, WhatIsTooYoungSaysWhenItIsNot) {
  this->put({"a"});
  auto r = this->request("n/1");
  r.in_order = true;
  this->backend().wait_for_earlier_transactions();
  r.skip_recent = 30s;
  auto const reply = this->s().claim(r);
  EXPECT_THAT(reply.rows, IsEmpty());
  ASSERT_TRUE(reply.next_due);
  EXPECT_LE(*reply.next_due - reply.now, 30s);
}

// Stores that look at a part of the rows at a time must not take their own rows for those of another.
OUTBOX_CONTRACT_CASE(Order, ManyDelayedRowsBeforeTheOthersAreNotInTheWay) {
  std::vector<event> events;
  std::vector<insertion> rows;
  for (int i = 0; i < 998; ++i) events.push_back(json_event("late-" + std::to_string(i), {.deliver_after = 1h}));
  for (int i = 0; i < 60; ++i) events.push_back(json_event("now-" + std::to_string(10 + i)));
  for (auto const& e : events) rows.push_back({&e});
  auto tx = this->backend().begin();
  this->s().insert(tx->ref(), rows);
  tx->commit();
  std::vector<std::string> taken;
  for (int n = 0; n < 10; ++n) {
    auto const reply = this->in_order("n/" + std::to_string(n), 50);
    for (auto const& claimed : reply.rows) {
      taken.push_back(claimed.handle.id);
      EXPECT_TRUE(this->settle(claimed.handle, outcome::delivered));
    }
    if (!reply.more) break;
  }
  ASSERT_THAT(taken, SizeIs(60)) << "as long as there is more, it says so";
  EXPECT_TRUE(std::ranges::is_sorted(taken)) << "I5";
}

OUTBOX_CONTRACT_CASE(Order, I5_FinishedRowsAreNotInTheWay) {
  this->put({"done", "dead", "a"});
  auto const rows = this->in_order("n/1").rows;
  this->settle(rows[0].handle, outcome::delivered);
  this->settle(rows[1].handle, outcome::dead, {.error = "no"});
  this->settle(rows[2].handle, outcome::release);
  EXPECT_THAT(this->ids(this->in_order("n/2")), ElementsAre("a"));
}

OUTBOX_CONTRACT_CASE(Order, I3_ASuspectIsTakenAlone) {
  this->put({"before"});
  this->settle(this->first_of("n/1"), outcome::defer, {.delay = 10min});
  this->crash({"suspect"}, 4);
  this->put({"after"});
  this->advance(10min);
  auto const first = this->in_order("n/2");
  EXPECT_THAT(this->ids(first), ElementsAre("before")) << "up to the suspect";
  EXPECT_TRUE(first.more);
  this->settle(first.rows[0].handle, outcome::delivered);
  auto const second = this->in_order("n/3");
  EXPECT_THAT(this->ids(second), ElementsAre("suspect")) << "and it alone";
  EXPECT_TRUE(second.more);
}

OUTBOX_CONTRACT_CASE(Order, I3_ARowPastItsCrashesIsDeadAndTheNextFollows) {
  this->crash({"bad"}, 3);
  this->put({"good"});
  auto r = this->request("n/1");
  r.in_order = true;
  this->backend().wait_for_earlier_transactions();
  r.max_crashes = 3;
  auto const reply = this->s().claim(r);
  ASSERT_THAT(reply.dead, SizeIs(1));
  EXPECT_EQ(reply.dead[0].id, "bad");
  EXPECT_THAT(this->ids(reply), ElementsAre("good"));
}

OUTBOX_CONTRACT_CASE(Order, AReplayedRowComesInItsOldPlace) {
  this->put({"a", "b"});
  auto const a = this->first_of("n/1");
  this->settle(a, outcome::dead, {.error = "no"});
  ASSERT_EQ(this->s().replay({.ids = {"a"}}, 1), 1U);
  EXPECT_THAT(this->ids(this->in_order("n/2")), ElementsAre("a", "b"));
}

OUTBOX_CONTRACT_CASE(Order, ARowThatWasTriedIsMarked) {
  this->put({"a"});
  auto const first = this->in_order("n/1");
  EXPECT_FALSE(first.rows.at(0).tried);
  this->settle(first.rows[0].handle, outcome::retry, {.error = "again"});
  EXPECT_TRUE(this->claim("n/2").rows.at(0).tried);
}

class Pause : public StoreContract {
 protected:
  void put_type(std::string const& id, std::string const& type, std::string const& aggregate = "",
                std::chrono::milliseconds delay = 0ms) {
    event_options o;
    o.id = id;
    o.aggregate = {aggregate, aggregate.empty() ? "" : "1"};
    if (delay.count() > 0) o.deliver_after = delay;
    this->put(event::json(type, "1", std::move(o)));
    this->advance(1ms);
  }
  claim_reply claim_without(std::vector<route_pause> pauses, bool in_order = false) {
    auto r = this->request("n/" + std::to_string(++claims_));
    r.pauses = std::move(pauses);
    r.in_order = in_order;
    this->backend().wait_for_earlier_transactions();
    return this->s().claim(r);
  }

  int claims_ = 0;
};

OUTBOX_CONTRACT_CASE(Pause, IsKeptByTheStore) {
  if (!this->s().capabilities().pauses) GTEST_SKIP() << no_pauses;
  EXPECT_THAT(this->s().settings().pauses, IsEmpty());
  EXPECT_TRUE(this->s().pause({"mail", ""}));
  EXPECT_FALSE(this->s().pause({"mail", ""})) << "it was so before";
  EXPECT_TRUE(this->s().pause({"mail", "user \"x\"\n"}));
  EXPECT_THAT(this->s().settings().pauses,
              UnorderedElementsAre(route_pause{"mail", ""}, route_pause{"mail", "user \"x\"\n"}));
  EXPECT_TRUE(this->s().resume({"mail", ""}));
  EXPECT_FALSE(this->s().resume({"mail", ""}));
  EXPECT_THAT(this->s().settings().pauses, ElementsAre(route_pause{"mail", "user \"x\"\n"}));
}

OUTBOX_CONTRACT_CASE(Pause, NamesThatNoEventCanHaveAreRefused) {
  if (!this->s().capabilities().pauses) GTEST_SKIP() << no_pauses;
  for (route_pause const& p :
       {route_pause{}, route_pause{std::string{"a\0b", 3}, ""}, route_pause{"\xFF", ""}, route_pause{"a", "\xC3"},
        route_pause{std::string(129, 'x'), ""}, route_pause{"a", std::string(65, 'x')}}) {
    try {
      this->s().pause(p);
      ADD_FAILURE() << "accepted: " << p.event_type << " " << p.aggregate_type;
    } catch (error const& e) {
      EXPECT_EQ(e.code(), errc::invalid_option);
      EXPECT_TRUE(e.field().starts_with("pause."));
    }
    EXPECT_FALSE(this->s().resume(p));
  }
  EXPECT_THAT(this->s().settings().pauses, IsEmpty());
}

OUTBOX_CONTRACT_CASE(Pause, InvalidEntriesAreIgnored) {
  auto const entries =
      R"([{"event_type":"a\u0000b","aggregate_type":""}, {"event_type":""}, {"event_type":7}, "mail", {"event_type":"mail"}])";
  if (!this->backend().overwrite_pauses(entries)) GTEST_SKIP() << no_text_of_pauses;
  EXPECT_THAT(this->s().settings().pauses, ElementsAre(route_pause{"mail", ""}));
  EXPECT_EQ(this->s().settings().ignored_pauses, 4U);
  this->put_type("m", "mail");
  this->put_type("o", "order");
  EXPECT_THAT(this->ids(this->claim_without(this->s().settings().pauses)), ElementsAre("o"));
  this->backend().overwrite_pauses("{not json");
  EXPECT_THAT(this->s().settings().pauses, IsEmpty());
  EXPECT_EQ(this->s().settings().ignored_pauses, 1U);
  EXPECT_TRUE(this->s().pause({"order", ""})) << "and what makes no sense can be replaced";
  EXPECT_THAT(this->s().settings().pauses, ElementsAre(route_pause{"order", ""}));
  EXPECT_EQ(this->s().settings().ignored_pauses, 0U);
}

OUTBOX_CONTRACT_CASE(Pause, APairOfNamesIsNotAnotherPair) {
  this->put_type("control", "x\x01y", "z");
  this->put_type("digits", "1:a", "b");
  this->put_type("wide", "é", "xy");
  EXPECT_THAT(this->ids(this->claim_without({{"x", "y\x01z"}, {"1", ":ab"}, {"1:", "ab"}, {"éx", "y"}})),
              UnorderedElementsAre("control", "digits", "wide"));
}

OUTBOX_CONTRACT_CASE(Pause, NamesOfAnyScriptCanBePaused) {
  this->put_type("a", "häuser.gekauft", "注文");
  this->put_type("b", "häuser.gekauft", "문서");
  EXPECT_THAT(this->ids(this->claim_without({{"häuser.gekauft", "注文"}})), ElementsAre("b"));
}

OUTBOX_CONTRACT_CASE(Pause, AClaimLeavesWhatIsPaused) {
  this->put_type("m1", "mail", "user");
  this->put_type("o", "order");
  this->put_type("m2", "mail", "shop");
  EXPECT_THAT(this->ids(this->claim_without({{"mail", "user"}})), ElementsAre("o", "m2"));
  EXPECT_THAT(this->ids(this->claim_without({{"mail", ""}})), IsEmpty());
  EXPECT_THAT(this->ids(this->claim_without({})), ElementsAre("m1"));
}

OUTBOX_CONTRACT_CASE(Pause, AnEventWithoutAnAggregateHasTheGlobalOne) {
  this->put_type("m", "mail");
  EXPECT_THAT(this->ids(this->claim_without({{"mail", "__GLOBAL__"}})), IsEmpty());
  EXPECT_THAT(this->ids(this->claim_without({{"mail", "user"}})), ElementsAre("m"));
}

OUTBOX_CONTRACT_CASE(Pause, APausedRowIsNotDueNext) {
  this->put_type("m", "mail", "", 5s);
  this->put_type("o", "order", "", 20s);
  auto const reply = this->claim_without({{"mail", ""}});
  ASSERT_TRUE(reply.next_due);
  EXPECT_GT(*reply.next_due - reply.now, 15s);
  EXPECT_FALSE(this->claim_without({{"mail", ""}, {"order", ""}}).next_due);
}

OUTBOX_CONTRACT_CASE(Pause, InOrderAPausedRowIsPassedOver) {
  this->put_type("m", "mail");
  this->put_type("o", "order");
  EXPECT_THAT(this->ids(this->claim_without({{"mail", ""}}, /*in_order=*/true)), ElementsAre("o"));
}

}  // namespace outbox::contract

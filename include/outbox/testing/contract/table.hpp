// What a table says about itself: settings, nodes, audit, event types, findings, capabilities.
#pragma once

#include <outbox/testing/contract/suite.hpp>

namespace outbox::contract {

class Table : public StoreContract {};

OUTBOX_CONTRACT_CASE(Table, ItsSettingsAllowThisLibrary) {
  auto const t = this->s().settings();
  EXPECT_LE(t.oldest_library, schema_version);
  EXPECT_GE(t.oldest_library, 1);
  EXPECT_FALSE(t.keyed);
  EXPECT_THAT(t.pauses, IsEmpty());
  EXPECT_EQ(t.ignored_pauses, 0U);
}

OUTBOX_CONTRACT_CASE(Table, TheKeyedMarkCanBeSetAndRemoved) {
  if (!this->s().capabilities().keys) GTEST_SKIP() << "this store keeps no order per key";
  this->s().set_keyed(true);
  EXPECT_TRUE(this->s().settings().keyed);
  this->s().set_keyed(true);
  this->s().set_keyed(false);
  EXPECT_FALSE(this->s().settings().keyed);
}

OUTBOX_CONTRACT_CASE(Table, ANodeTellsWhatItDoes) {
  node_row const node{.incarnation = "h:1:x",
                      .name = "n",
                      .version = "9.9",
                      .mode = node_mode::ordered,
                      .lease = lease,
                      .held = 3,
                      .active = true,
                      .reason = "the \"reason\"",
                      .lock_key = "42",
                      .done = 10,
                      .failed = 20,
                      .dead = 30,
                      .erased = 40,
                      .routes = {{"a, b", "a, b", "order"}, {"any"}, {"c\"d", "", "", false}}};
  auto const before = this->s().now();
  this->s().heartbeat(node);
  auto const nodes = this->s().inspect().nodes();
  ASSERT_THAT(nodes, SizeIs(1));
  auto const& n = nodes[0];
  EXPECT_EQ(n.mode, node_mode::ordered);
  EXPECT_EQ(n.held, 3U);
  EXPECT_TRUE(n.active);
  EXPECT_EQ(n.reason, "the \"reason\"");
  EXPECT_EQ(n.lock_key, "42");
  EXPECT_EQ(n.done, 10U);
  EXPECT_EQ(n.failed, 20U);
  EXPECT_EQ(n.dead, 30U);
  EXPECT_EQ(n.erased, 40U);
  EXPECT_EQ(n.routes, node.routes);
  ASSERT_TRUE(n.started_at);
  EXPECT_GE(*n.started_at, before);
}

OUTBOX_CONTRACT_CASE(Table, AHeartbeatReplacesEverythingExceptTheStart) {
  node_row node{.incarnation = "h:1:x", .name = "n", .lease = lease, .active = true, .done = 1, .routes = {{"a", "a"}}};
  this->s().heartbeat(node);
  auto const started = this->s().inspect().nodes().at(0).started_at;
  node.active = false;
  node.done = 2;
  node.routes = {};
  node.reason = "stands by";
  this->s().heartbeat(node);
  auto const n = this->s().inspect().nodes().at(0);
  EXPECT_FALSE(n.active);
  EXPECT_EQ(n.done, 2U);
  EXPECT_EQ(n.reason, "stands by");
  EXPECT_THAT(n.routes, IsEmpty());
  EXPECT_EQ(n.started_at, started);
}

OUTBOX_CONTRACT_CASE(Table, AnAuditEntryBeginsAndEnds) {
  if (!this->s().capabilities().audit) GTEST_SKIP() << "this store keeps no audit";
  auto const first =
      this->s().begin_audit({.who = "ann", .verb = "replay", .filter = "type=x", .reason = "a fix", .matched = 7});
  auto const second = this->s().begin_audit({.who = "bob", .verb = "cancel"});
  EXPECT_NE(first, second);
  EXPECT_TRUE(this->s().end_audit(first, 6));
  EXPECT_FALSE(this->s().end_audit(first, 1)) << "it has ended";
  EXPECT_FALSE(this->s().end_audit(second + 100, 1)) << "there is none";
  auto const all = this->s().audit(10);
  ASSERT_THAT(all, SizeIs(2));
  EXPECT_EQ(all[0].id, second) << "the newest first";
  EXPECT_EQ(all[0].who, "bob");
  EXPECT_FALSE(all[0].changed);
  EXPECT_FALSE(all[0].ended_at);
  EXPECT_EQ(all[1].id, first);
  EXPECT_EQ(all[1].verb, "replay");
  EXPECT_EQ(all[1].filter, "type=x");
  EXPECT_EQ(all[1].reason, "a fix");
  EXPECT_EQ(all[1].matched, 7U);
  EXPECT_EQ(all[1].changed, 6U);
  ASSERT_TRUE(all[1].ended_at);
  EXPECT_GE(*all[1].ended_at, all[1].at);
  EXPECT_THAT(this->s().audit(1), SizeIs(1));
}

OUTBOX_CONTRACT_CASE(Table, EventTypesWithTheirCounts) {
  if (!this->s().capabilities().event_types) GTEST_SKIP() << "this store does not list event types";
  EXPECT_THAT(this->s().event_types(), IsEmpty());
  this->put(event::json("b", "1", {.id = "1", .aggregate = {"order", "1"}}));
  this->put(event::json("a", "1", {.id = "2"}));
  this->put(event::json("b", "1", {.id = "3", .aggregate = {"order", "2"}}));
  this->settle(this->claim_one("n/1"), outcome::dead);
  auto const types = this->s().event_types();
  ASSERT_THAT(types, SizeIs(2));
  EXPECT_EQ(types[0].event_type, "a");
  EXPECT_EQ(types[0].aggregate_type, global_aggregate);
  EXPECT_EQ(types[0].counts.created, 1U);
  EXPECT_EQ(types[1].event_type, "b");
  EXPECT_EQ(types[1].aggregate_type, "order");
  EXPECT_EQ(types[1].counts.dead, 1U);
  EXPECT_EQ(types[1].counts.created, 1U);
}

OUTBOX_CONTRACT_CASE(Table, FindingsSayWhatIsSoWhyItMattersAndWhatToDo) {
  if (!this->s().capabilities().findings) GTEST_SKIP() << "this store has no findings";
  auto const found = this->s().findings();
  EXPECT_FALSE(found.empty()) << "checks that passed are findings too";
  for (auto const& f : found) {
    EXPECT_NE(f.code, "");
    EXPECT_NE(f.text, "") << f.code;
    EXPECT_NE(f.why, "") << f.code;
    if (f.level == finding_level::warning || f.level == finding_level::problem) {
      EXPECT_NE(f.fix, "") << f.code;
    }
  }
}

OUTBOX_CONTRACT_CASE(Table, WaitingTypesAreThoseOfPendingAndDeadRows) {
  if (!this->s().capabilities().waiting_types) GTEST_SKIP() << "this store does not list the types that wait";
  EXPECT_THAT(this->s().waiting_types(10), IsEmpty());
  this->put(event::json("b", "1", {.id = "1", .aggregate = {"order", "1"}}));
  this->settle(this->claim_one("n/1"), outcome::dead);
  this->put(event::json("c", "1", {.id = "2"}));
  this->settle(this->claim_one("n/2"), outcome::delivered);
  this->put(event::json("a", "1", {.id = "3"}));
  this->put(event::json("a", "1", {.id = "4"}));
  auto const types = this->s().waiting_types(10);
  ASSERT_THAT(types, SizeIs(2));
  EXPECT_EQ(types[0].event_type, "a");
  EXPECT_EQ(types[0].aggregate_type, global_aggregate);
  EXPECT_EQ(types[0].counts.created, 2U);
  EXPECT_EQ(types[1].event_type, "b");
  EXPECT_EQ(types[1].aggregate_type, "order");
  EXPECT_EQ(types[1].counts.dead, 1U);
}

OUTBOX_CONTRACT_CASE(Table, CapabilitiesSayWhichFunctionsThereAre) {
  auto const c = this->s().capabilities();
  auto const agrees = [](bool bit, char const* what, auto&& call) {
    bool supported = true;
    try {
      call();
    } catch (error const& e) {
      supported = e.code() != errc::unsupported;
    }
    EXPECT_EQ(supported, bit) << what;
  };
  auto& s = this->s();
  agrees(c.event_filters, "list", [&] { static_cast<void>(s.list({}, list_order::oldest_first, 1)); });
  agrees(c.event_filters, "count", [&] { static_cast<void>(s.count({}, 1)); });
  agrees(c.event_filters, "cancel", [&] { s.cancel({}, "", 1); });
  agrees(c.event_filters, "replay", [&] { s.replay({}, 1); });
  agrees(c.event_filters, "discard", [&] { s.discard({}, 1); });
  agrees(c.event_filters, "purge", [&] { s.purge(event_filter{}, 1); });
  agrees(c.audit, "begin_audit", [&] { s.begin_audit({.who = "a", .verb = "b"}); });
  agrees(c.audit, "end_audit", [&] { s.end_audit(1, 1); });
  agrees(c.audit, "audit", [&] { static_cast<void>(s.audit(1)); });
  agrees(c.event_types, "event_types", [&] { static_cast<void>(s.event_types()); });
  agrees(c.waiting_types, "waiting_types", [&] { static_cast<void>(s.waiting_types(1)); });
  agrees(c.pauses, "pause", [&] { s.pause({"a route", ""}); });
  agrees(c.pauses, "resume", [&] { s.resume({"a route", ""}); });
  agrees(c.keys, "parked_keys", [&] { static_cast<void>(s.parked_keys(1)); });
  agrees(c.keys, "heal", [&] { s.heal(1); });
  agrees(c.keys, "set_keyed", [&] { s.set_keyed(false); });
  agrees(c.keys, "receipt", [&] {
    auto tx = this->backend().begin();
    auto const e = json_event("receipt");
    insertion const row{&e};
    s.insert(tx->ref(), std::span{&row, 1}, std::make_shared<insert_receipt>());
    tx->commit();
  });
  agrees(c.event_filters, "errors", [&] { static_cast<void>(s.errors({}, 1)); });
  agrees(c.overview, "overview", [&] { static_cast<void>(s.overview(1)); });
  agrees(c.findings, "findings", [&] { static_cast<void>(s.findings()); });
}

OUTBOX_CONTRACT_CASE(Table, AnOverviewOfAnEmptyTable) {
  if (!this->s().capabilities().overview) GTEST_SKIP() << "this store has no overview";
  auto const o = this->s().overview(100);
  EXPECT_EQ(o.limit, 100U);
  EXPECT_EQ(o.pending + o.retrying + o.held + o.delayed + o.due + o.dead, 0U);
  EXPECT_EQ(o.done_in_a_minute + o.dead_in_a_minute, 0U);
  EXPECT_FALSE(o.due_since || o.waiting_since || o.last_dead || o.last_ended);
  EXPECT_EQ(o.growth.has_value(), this->s().capabilities().keeps_done_rows);
}

OUTBOX_CONTRACT_CASE(Table, AnOverviewCountsWhatItsNamesSay) {
  if (!this->s().capabilities().overview) GTEST_SKIP() << "this store has no overview";
  this->put({"old", "retried", "dead", "done"});
  for (auto const& r : this->claim("n/1").rows) {
    auto const& id = r.handle.id;
    auto const what = id == "old"       ? outcome::release
                      : id == "retried" ? outcome::retry
                      : id == "dead"    ? outcome::dead
                                        : outcome::delivered;
    EXPECT_TRUE(this->settle(r.handle, what, {.counted = id == "retried" ? 1 : 0, .delay = 1h, .error = "no"}));
  }
  this->advance(2min);  // all of this is older than a minute
  auto const long_ago = this->s().overview(100);
  EXPECT_EQ(long_ago.done_in_a_minute + long_ago.dead_in_a_minute, 0U);
  ASSERT_TRUE(long_ago.last_dead && long_ago.last_ended);
  EXPECT_GE(*long_ago.last_ended, *long_ago.last_dead);
  EXPECT_LE(*long_ago.last_ended, long_ago.at - 1min);

  this->put(json_event("young"));
  this->put(json_event("later", {.deliver_after = 1h}));
  this->put_owned(json_event("held"), "n/2");
  auto const o = this->s().overview(100);
  EXPECT_EQ(o.pending, 5U);
  EXPECT_EQ(o.retrying, 1U);
  EXPECT_EQ(o.held, 1U);
  EXPECT_EQ(o.delayed, 1U);
  EXPECT_EQ(o.due, 2U) << "old, young";
  EXPECT_EQ(o.dead, 1U);
  ASSERT_TRUE(o.due_since && o.waiting_since);
  EXPECT_LE(*o.due_since, o.at - 1min);
  EXPECT_LE(*o.waiting_since, o.at - 1min);
  if (this->s().capabilities().keeps_done_rows) {
    EXPECT_EQ(o.growth, 3);
  }

  auto const handles = this->claim("n/3").rows;
  for (auto const& r : handles) EXPECT_TRUE(this->settle(r.handle, outcome::delivered));
  auto const after = this->s().overview(100);
  EXPECT_EQ(after.due, 0U);
  EXPECT_FALSE(after.due_since);
  if (!this->s().capabilities().keeps_done_rows) return;
  EXPECT_EQ(after.done_in_a_minute, 2U);
  EXPECT_EQ(after.growth, 1) << "later and held came, young came and went, old went";
}

OUTBOX_CONTRACT_CASE(Table, AnOverviewStopsCountingAtItsLimit) {
  if (!this->s().capabilities().overview) GTEST_SKIP() << "this store has no overview";
  this->put({"a", "b", "c"});
  auto const o = this->s().overview(2);
  EXPECT_EQ(o.pending, 2U);
  EXPECT_FALSE(o.growth);
  this->s().cancel({}, "no", 10);
  EXPECT_EQ(this->s().overview(2).dead, 2U);
}

OUTBOX_CONTRACT_CASE(Table, AnOverviewCountsRowsThatWaitForAnotherOfTheirKey) {
  auto const can = this->s().capabilities();
  if (!can.overview || !can.keys) GTEST_SKIP() << "this store keeps no order per key, or has no overview";
  this->s().set_keyed(true);
  auto const put_in = [&](std::string id, std::string key) {
    this->put(json_event(std::move(id), {.ordering_key = std::move(key)}));
  };
  for (auto const* id : {"a", "b", "c"}) put_in(id, "k");
  put_in("x", "other");
  EXPECT_EQ(this->s().overview(100).blocked, 0U);
  this->backend().block("b");
  this->backend().block("c");
  auto const o = this->s().overview(100);
  EXPECT_EQ(o.pending, 4U);
  EXPECT_EQ(o.blocked, 2U);
  EXPECT_EQ(o.due, 2U) << "a blocked row cannot be claimed";
  if (can.keeps_done_rows) {
    EXPECT_EQ(o.growth, 4);
  }
  EXPECT_EQ(this->s().overview(3).pending, 3U);
  EXPECT_FALSE(this->s().overview(3).growth);
}

// The key is parked: nothing is due, and its events wait nevertheless.
OUTBOX_CONTRACT_CASE(Table, AnOverviewTellsHowLongParkedEventsWait) {
  auto const can = this->s().capabilities();
  if (!can.overview || !can.keys) GTEST_SKIP() << "this store keeps no order per key, or has no overview";
  this->s().set_keyed(true);
  this->put(json_event("a", {.ordering_key = "k"}));
  ASSERT_TRUE(this->settle(this->claim_one("n/1"), outcome::dead, {.error = "no"}));
  this->put(json_event("b", {.ordering_key = "k"}));
  this->backend().block("b");
  this->advance(2min);
  auto const o = this->s().overview(100);
  EXPECT_EQ(o.pending, 1U);
  EXPECT_EQ(o.due, 0U);
  EXPECT_FALSE(o.due_since);
  ASSERT_TRUE(o.waiting_since);
  EXPECT_EQ(*o.waiting_since, this->row("b").inserted_at);
  if (can.keeps_done_rows) {
    EXPECT_EQ(o.growth, 0) << "it was there a minute ago";
  }
}

// `done_rows::erase`: what that changes.
OUTBOX_CONTRACT_CASE(Table, AnErasedRowIsGone) {
  this->put({"a"});
  auto const held = this->claim_one("n/1");
  EXPECT_TRUE(this->settle(held, outcome::delivered));
  EXPECT_FALSE(this->settle(held, outcome::delivered)) << "a second settlement finds nothing";
  if (this->s().capabilities().keeps_done_rows) {
    EXPECT_EQ(this->row("a").status, event_status::delivered);
    EXPECT_THROW(this->put({"a"}), error) << "its id is taken";
    return;
  }
  EXPECT_FALSE(this->s().inspect().find("a")) << "nothing tells it from an event that was never written";
  EXPECT_EQ(this->s().inspect().counts().done, 0U);
  this->put({"a"});
  EXPECT_THAT(this->ids(this->claim("n/2")), ElementsAre("a")) << "written again it is delivered again";
}

}  // namespace outbox::contract

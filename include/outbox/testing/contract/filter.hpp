// What operators do with a filter: list, count, cancel, replay, discard, purge.
#pragma once

#include <outbox/testing/contract/suite.hpp>

namespace outbox::contract {

class Filter : public StoreContract {
 protected:
  void SetUp() override {
    if (!this->s().capabilities().event_filters) GTEST_SKIP() << "this store has no filters";
  }
  void put_typed(std::string const& id, std::string const& type, event_options options = {}) {
    options.id = id;
    this->put(event::json(type, "1", std::move(options)));
    this->advance(1ms);
  }
  void end(std::string const& id, outcome what) {
    for (auto const& r : this->claim("end/" + id).rows) {
      if (r.handle.id == id) {
        EXPECT_TRUE(this->settle(r.handle, what, {.error = what == outcome::dead ? "no" : ""}));
      } else {
        EXPECT_TRUE(this->settle(r.handle, outcome::release));
      }
    }
  }
  std::vector<std::string> list(event_filter const& f, list_order order = list_order::oldest_first,
                                std::size_t limit = 100) {
    std::vector<std::string> ids;
    for (auto const& r : this->s().list(f, order, limit)) ids.push_back(r.event.id());
    return ids;
  }
};

OUTBOX_CONTRACT_CASE(Filter, AnEmptyFilterMatchesEveryRow) {
  this->put({"a", "b", "c"});
  EXPECT_THAT(this->list({}), ElementsAre("a", "b", "c"));
  EXPECT_EQ(this->s().count({}, 10), 3U);
}

OUTBOX_CONTRACT_CASE(Filter, AListIsOldestOrNewestFirstUpToItsLimit) {
  this->put({"a", "b", "c"});
  EXPECT_THAT(this->list({}, list_order::oldest_first, 2), ElementsAre("a", "b"));
  EXPECT_THAT(this->list({}, list_order::newest_first, 2), ElementsAre("c", "b"));
  EXPECT_THAT(this->list({}, list_order::newest_first, 0), IsEmpty());
}

OUTBOX_CONTRACT_CASE(Filter, ALongListIsWhole) {
  std::vector<event> events;
  std::vector<insertion> rows;
  for (int i = 0; i < 350; ++i) events.push_back(json_event("id-" + std::to_string(1000 + i)));
  for (auto const& e : events) rows.push_back({&e});
  auto tx = this->backend().begin();
  this->s().insert(tx->ref(), rows);
  tx->commit();
  EXPECT_THAT(this->list({}, list_order::oldest_first, 300), SizeIs(300));
  EXPECT_THAT(this->list({}, list_order::newest_first, 1000), SizeIs(350));
  EXPECT_EQ(this->s().count({}, 340), 340U);
  EXPECT_EQ(this->s().cancel({}, "no", 320), 320U);
  EXPECT_EQ(this->s().cancel({}, "no", 320), 30U);
}

OUTBOX_CONTRACT_CASE(Filter, NamedRowsComeInTheOrderAskedFor) {
  this->put({"a", "b", "c"});
  EXPECT_THAT(this->list({.ids = {"c", "a", "b", "a"}}, list_order::oldest_first, 2), ElementsAre("a", "b"));
  EXPECT_THAT(this->list({.ids = {"c", "a", "b"}}, list_order::newest_first, 1), ElementsAre("c"));
}

OUTBOX_CONTRACT_CASE(Filter, ACountStopsAtItsLimit) {
  this->put({"a", "b", "c"});
  EXPECT_EQ(this->s().count({}, 2), 2U);
  EXPECT_EQ(this->s().count({}, 0), 0U);
  EXPECT_EQ(this->s().count({}, UINT64_MAX), 3U);
}

OUTBOX_CONTRACT_CASE(Filter, TheNewestRowsBoundWhatIsRead) {
  if (!this->s().capabilities().overview) GTEST_SKIP() << "this store does not find its newest rows by an index";
  this->put({"a", "b", "c", "d"});
  EXPECT_THAT(this->list({.newest = 2}), ElementsAre("c", "d"));
  EXPECT_EQ(this->s().count({.newest = 3}, 10), 3U);
  EXPECT_THAT(this->list({.newest = 1000}), SizeIs(4));
  EXPECT_THAT(this->list({.ids = {"a"}, .newest = 1}), ElementsAre("a")) << "rows that are named are found";
  EXPECT_EQ(this->s().cancel({.newest = 1}, "no", 10), 1U);
  EXPECT_EQ(this->row("d").status, event_status::dead);
}

OUTBOX_CONTRACT_CASE(Filter, TheNewestRowsMayBeBlocked) {
  auto const can = this->s().capabilities();
  if (!can.overview || !can.keys) GTEST_SKIP() << "this store keeps no order per key, or finds no newest rows";
  this->s().set_keyed(true);
  for (auto const* id : {"a", "b", "c"}) this->put(json_event(id, {.ordering_key = "k"}));
  this->backend().block("b");
  this->backend().block("c");
  EXPECT_THAT(this->list({.newest = 1000}), ElementsAre("a", "b", "c"));
  EXPECT_EQ(this->s().count({.statuses = {event_status::created}, .newest = 1000}, 10), 3U);
  EXPECT_EQ(this->s().cancel({.ids = {"c"}}, "no", 10), 1U);
}

OUTBOX_CONTRACT_CASE(Filter, ErrorsAreGroupedByTheirText) {
  EXPECT_THAT(this->s().errors({}, 10), IsEmpty());
  for (auto const* id : {"a", "b", "c", "d"}) this->put_typed(id, std::string{id} == "c" ? "y" : "x");
  // A table that has no word for RETRY keeps the error of one in memory.
  auto const other = this->s().capabilities().owners_in_table ? outcome::retry : outcome::dead;
  for (auto const& r : this->claim("n/1").rows) {
    bool const rare = r.handle.id == "b";
    if (r.handle.id == "d") continue;
    ASSERT_TRUE(this->settle(r.handle, rare ? other : outcome::dead,
                             {.counted = 1, .error = rare ? "it's \"odd\" – täglich" : "refused"}));
  }
  auto const groups = this->s().errors({}, 10);
  if (groups.empty()) GTEST_SKIP() << "the table has no column for an error";
  ASSERT_THAT(groups, SizeIs(2)) << "a row without an error is in none";
  EXPECT_EQ(groups[0].error, "refused");
  EXPECT_EQ(groups[0].rows, 2U);
  EXPECT_EQ(groups[0].dead, 2U);
  EXPECT_EQ(groups[0].id, "a");
  EXPECT_EQ(groups[0].event_type, "x");
  EXPECT_EQ(groups[0].event_types, 2U);
  ASSERT_TRUE(groups[0].first && groups[0].last);
  EXPECT_LE(*groups[0].first, *groups[0].last);
  EXPECT_THAT(this->s().errors({}, 1), SizeIs(1)) << "the most frequent";
  EXPECT_EQ(this->s().errors({.event_type = "y"}, 10).at(0).rows, 1U);
  EXPECT_THAT(this->s().errors({.event_type = "none"}, 10), IsEmpty());
}

OUTBOX_CONTRACT_CASE(Filter, EachFieldNarrows) {
  this->put_typed("a", "x", {.aggregate = {"order", "1"}, .tenant = "t1"});
  this->put_typed("b", "x", {.aggregate = {"order", "2"}, .tenant = "t2"});
  this->put_typed("c", "y", {.aggregate = {"user", "1"}, .ordering_key = "k"});
  this->put_typed("d", "y");
  EXPECT_THAT(this->list({.ids = {"d", "a", "missing"}}), ElementsAre("a", "d"));
  EXPECT_THAT(this->list({.event_type = "x"}), ElementsAre("a", "b"));
  EXPECT_THAT(this->list({.aggregate_type = "order"}), ElementsAre("a", "b"));
  EXPECT_THAT(this->list({.aggregate_type = std::string{global_aggregate}}), ElementsAre("d"));
  EXPECT_THAT(this->list({.aggregate_id = "1"}), ElementsAre("a", "c"));
  EXPECT_THAT(this->list({.tenant = "t2"}), ElementsAre("b"));
  EXPECT_THAT(this->list({.key = "=k"}), ElementsAre("c"));
  EXPECT_THAT(this->list({.key = "5:order1"}), ElementsAre("a"));
  EXPECT_THAT(this->list({.event_type = "x", .aggregate_id = "2", .tenant = "t2"}), ElementsAre("b"));
  EXPECT_THAT(this->list({.event_type = "y", .tenant = "t2"}), IsEmpty());
}

OUTBOX_CONTRACT_CASE(Filter, AgeCountsFromTheInsert) {
  this->put({"old"});
  this->advance(10s);
  this->put({"young"});
  EXPECT_THAT(this->list({.older_than = 10s}), ElementsAre("old"));
  EXPECT_EQ(this->s().count({.older_than = 10s}, 10), 1U);
}

OUTBOX_CONTRACT_CASE(Filter, ByStatus) {
  this->put({"new", "retry", "dead"});
  this->end("dead", outcome::dead);
  this->end("retry", outcome::retry);
  EXPECT_THAT(this->list({.statuses = {event_status::created}}), ElementsAre("new"));
  EXPECT_THAT(this->list({.statuses = {event_status::retry, event_status::dead}}), ElementsAre("retry", "dead"));
  EXPECT_THAT(this->list({.statuses = {event_status::delivered}}), IsEmpty());
}

OUTBOX_CONTRACT_CASE(Filter, DiedByMatchesNoPendingRow) {
  this->put({"pending", "dead"});
  this->end("dead", outcome::dead);
  auto const died = *this->row("dead").done_at;
  EXPECT_THAT(this->list({.died_by = died}), ElementsAre("dead"));
  EXPECT_THAT(this->list({.died_by = died - 1ms}), IsEmpty());
}

OUTBOX_CONTRACT_CASE(Filter, AListShowsTheWholeRow) {
  this->put_typed("a", "x", {.aggregate = {"order", "1"}, .tenant = "t", .headers = {{"h", "1"}}});
  this->end("a", outcome::dead);
  auto const rows = this->s().list({}, list_order::oldest_first, 1);
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0].status, event_status::dead);
  EXPECT_EQ(rows[0].last_error, "no");
  EXPECT_EQ(rows[0].event.headers().at("h"), "1");
  EXPECT_EQ(rows[0].event.tenant(), "t");
  EXPECT_GT(rows[0].seq, 0);
}

OUTBOX_CONTRACT_CASE(Filter, CancelMakesPendingRowsDeadWithTheReason) {
  this->put({"a", "b"});
  this->end("b", outcome::retry);
  EXPECT_EQ(this->s().cancel({}, "wrong release", 10), 2U);
  for (auto const* id : {"a", "b"}) {
    auto const r = this->row(id);
    EXPECT_EQ(r.status, event_status::dead);
    EXPECT_EQ(r.last_error, "wrong release");
    EXPECT_TRUE(r.done_at);
  }
  EXPECT_EQ(this->s().cancel({}, "again", 10), 0U);
  EXPECT_EQ(this->row("a").last_error, "wrong release");
}

OUTBOX_CONTRACT_CASE(Filter, CancelTakesTheOwnerOfAHeldRowAway) {
  this->put({"a"});
  auto const held = this->claim_one("n/1");
  EXPECT_EQ(this->s().cancel({.ids = {"a"}}, "stop", 1), 1U);
  EXPECT_FALSE(this->renew(held));
  EXPECT_FALSE(this->settle(held, outcome::delivered));
  EXPECT_EQ(this->row("a").status, event_status::dead);
  EXPECT_EQ(this->row("a").locked_by, "");
}

OUTBOX_CONTRACT_CASE(Filter, ARowThatWasCancelledWhileItWasBlockedCanBeReplayed) {
  if (!this->s().capabilities().keys) GTEST_SKIP() << "this store keeps no order per key";
  this->put({"a"});
  this->backend().block("a");
  ASSERT_EQ(this->s().cancel({}, "no", 10), 1U);
  ASSERT_EQ(this->s().replay({}, 10), 1U);
  EXPECT_THAT(this->ids(this->claim("n/1")), ElementsAre("a"));
}

OUTBOX_CONTRACT_CASE(Filter, CancelLeavesTerminalRowsAndStopsAtItsLimit) {
  this->put({"dead", "a", "b"});
  this->end("dead", outcome::dead);
  EXPECT_EQ(this->s().cancel({}, "why", 1), 1U);
  EXPECT_EQ(this->row("dead").last_error, "no");
  EXPECT_EQ(this->row("a").status, event_status::dead) << "the oldest first";
  EXPECT_EQ(this->row("b").status, event_status::created);
}

OUTBOX_CONTRACT_CASE(Filter, PurgeTakesTerminalRowsOnly) {
  this->put({"pending", "dead", "dead too"});
  this->end("dead", outcome::dead);
  this->end("dead too", outcome::dead);
  EXPECT_EQ(this->s().purge(event_filter{.ids = {"pending"}}, 10), 0U);
  EXPECT_EQ(this->s().purge(event_filter{}, 1), 1U);
  EXPECT_THAT(this->list({}), ElementsAre("pending", "dead too"));
  EXPECT_EQ(this->s().purge(event_filter{}, 10), 1U);
}

OUTBOX_CONTRACT_CASE(Filter, DiscardTakesADeadRowOutOfLineAndUnblocksTheNext) {
  if (this->s().capabilities().keys) this->s().set_keyed(true);
  event_options const key{.ordering_key = "k"};
  this->put_typed("first", "x", key);
  this->put_typed("second", "x", key);
  this->put_typed("other", "x", {.ordering_key = "other"});
  this->end("first", outcome::dead);
  this->backend().block("second");
  this->backend().block("other");
  EXPECT_EQ(this->s().discard({.ids = {"second"}}, 10), 0U) << "it is not dead";
  EXPECT_EQ(this->s().discard({}, 10), 1U);
  EXPECT_EQ(this->row("first").status, event_status::dead);
  EXPECT_EQ(this->row("first").blocked, std::nullopt);
  EXPECT_EQ(this->row("second").blocked, false);
  EXPECT_EQ(this->row("other").blocked, true);
  EXPECT_EQ(this->s().discard({}, 10), 0U) << "once is enough";
}

OUTBOX_CONTRACT_CASE(Filter, ADiscardedRowThatIsReplayedStaysOutsideTheOrder) {
  this->put_typed("a", "x", {.ordering_key = "k"});
  this->end("a", outcome::dead);
  ASSERT_EQ(this->s().discard({}, 10), 1U);
  ASSERT_EQ(this->s().replay({}, 10), 1U);
  auto const reply = this->claim("n/1");
  ASSERT_THAT(reply.rows, SizeIs(1));
  EXPECT_EQ(reply.rows[0].key, "");
}

// A table that is marked keyed keeps what parks a key until an operator has decided.
OUTBOX_CONTRACT_CASE(Filter, I12_PurgeLeavesADeadRowThatParksAKey) {
  if (!this->s().capabilities().keys) GTEST_SKIP() << "this store keeps no order per key";
  this->put_typed("a", "x", {.ordering_key = "k"});
  this->end("a", outcome::dead);
  this->advance(1s);
  this->s().set_keyed(true);
  EXPECT_EQ(this->s().purge({.retention = 0s}), 0U);
  EXPECT_EQ(this->s().purge(event_filter{}, 10), 0U);
  ASSERT_EQ(this->s().discard({}, 10), 1U);
  EXPECT_EQ(this->s().purge({.retention = 0s}), 1U);
}

}  // namespace outbox::contract

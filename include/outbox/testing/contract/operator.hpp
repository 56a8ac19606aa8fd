// What operators do: purge, dead events, replay, counts.
#pragma once

#include <outbox/testing/contract/suite.hpp>

namespace outbox::contract {

class Operator : public StoreContract {
 protected:
  void make_dead(std::string const& id, event_options options = {}, std::string const& type = "order.placed") {
    options.id = id;
    this->put(event::json(type, "1", std::move(options)));
    auto const reply = this->claim("k/" + id);
    ASSERT_THAT(reply.rows, SizeIs(1));
    this->settle(reply.rows[0].handle, outcome::dead, {.counted = 1, .error = "why " + id, .progress = "p"});
    this->advance(1ms);
  }
  std::vector<row_view> dead(event_filter filter, std::size_t limit) {
    filter.statuses = {event_status::dead};
    return this->s().list(filter, list_order::oldest_first, limit);
  }
  void make_done(std::string const& id) {
    this->put(json_event(id));
    auto const reply = this->claim("d/" + id);
    ASSERT_THAT(reply.rows, SizeIs(1));
    this->settle(reply.rows[0].handle, outcome::delivered);
  }
};

OUTBOX_CONTRACT_CASE(Operator, I12_PurgeTakesTerminalRowsPastRetention) {
  this->make_done("done");
  this->make_dead("dead");
  this->advance(10s);
  this->make_done("young");
  EXPECT_EQ(this->s().purge({.retention = 10s}), this->s().capabilities().keeps_done_rows ? 2U : 1U);
  EXPECT_FALSE(this->s().inspect().find("dead"));
  EXPECT_EQ(this->s().inspect().find("young").has_value(), this->s().capabilities().keeps_done_rows);
}

OUTBOX_CONTRACT_CASE(Operator, I12_PurgeNeverTakesAPendingRow) {
  this->put({"unowned", "leased", "retrying"});
  auto const rows = this->claim("n/1").rows;
  this->settle(rows[0].handle, outcome::release);
  this->settle(rows[2].handle, outcome::retry, {.counted = 1});
  event_options o;
  o.deliver_after = 1h;
  this->put(json_event("delayed", o));
  this->advance(24h * 30);
  EXPECT_EQ(this->s().purge({.retention = 0s, .limit = 1000}), 0U);
  EXPECT_EQ(this->s().inspect().counts().pending(), 4U);
}

OUTBOX_CONTRACT_CASE(Operator, I12_RetentionCountsFromTheEndNotTheBeginning) {
  this->put({"slow"});
  this->advance(24h * 30);
  this->settle(this->claim_one("n/1"), outcome::dead);
  EXPECT_EQ(this->s().purge({.retention = 24h}), 0U);
  this->advance(25h);
  EXPECT_EQ(this->s().purge({.retention = 24h}), 1U);
}

// A program that knows only the columns of the specification marks a row DEAD without done_at, and an operator may mark
// one DONE by hand. Such rows count from their insert, and if that is unknown too from created_at.
OUTBOX_CONTRACT_CASE(Operator, I12_ATerminalRowWithoutDoneAtIsPurgedByItsInsert) {
  auto const now = std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now());
  for (auto const* id : {"dead", "done"}) this->put({id});
  this->advance(10s);
  for (auto const* id : {"dead of unknown age", "done of unknown age"}) {
    this->put(json_event(id, {.occurred_at = now - 24h * 30}));
  }
  for (auto const* id : {"young dead", "young done"}) this->put(json_event(id));
  if (!this->backend().foreign("UPDATE {table} SET status = CASE WHEN event_id LIKE '%dead%' THEN 3 ELSE 1 END")) {
    GTEST_SKIP() << no_foreign_sql;
  }
  this->backend().foreign("UPDATE {table} SET inserted_at = NULL WHERE event_id LIKE '%unknown%'");
  auto const left = [&](bool dead) {
    std::vector<std::string> ids;
    for (std::string const id :
         {"dead", "dead of unknown age", "young dead", "done", "done of unknown age", "young done"})
      if (this->s().inspect().find(id) && (id.find("dead") != std::string::npos) == dead) ids.push_back(id);
    return ids;
  };
  EXPECT_EQ(this->s().purge({.retention = 10s, .done = false}), 2U);
  EXPECT_THAT(left(true), ElementsAre("young dead"));
  EXPECT_THAT(left(false), SizeIs(3));
  EXPECT_EQ(this->s().purge({.retention = 10s, .dead = false, .limit = 1}), 1U);
  EXPECT_EQ(this->s().purge({.retention = 10s, .dead = false, .limit = 5}), 1U);
  EXPECT_THAT(left(false), ElementsAre("young done"));
}

// A row with a terminal status of another program, such as ARCHIVED, is left to that program, also if a node holds it.
OUTBOX_CONTRACT_CASE(Operator, ARowOfAnUnknownStatusIsLeftAlone) {
  this->put({"a"});
  auto const held = this->claim_one("n/1");
  if (!this->backend().foreign("UPDATE {table} SET status = 4")) {
    GTEST_SKIP() << no_foreign_sql;
  }
  for (auto const what : {outcome::delivered, outcome::retry, outcome::defer, outcome::dead, outcome::release}) {
    EXPECT_FALSE(this->settle(held, what));
  }
  EXPECT_FALSE(this->renew(held));
  this->expire();
  EXPECT_THAT(this->claim("n/2").rows, IsEmpty());
  this->advance(24h * 30);
  EXPECT_EQ(this->s().purge({.retention = 0s}), 0U);
  if (this->s().capabilities().event_filters) {
    EXPECT_EQ(this->s().replay({}, 10), 0U);
  }
  EXPECT_EQ(static_cast<int>(this->row("a").status), 4);
}

OUTBOX_CONTRACT_CASE(Operator, ADeadRowWithoutDoneAtIsReplayed) {
  if (!this->s().capabilities().event_filters) GTEST_SKIP() << "this store has no filters";
  this->put({"a", "b"});
  if (!this->backend().foreign("UPDATE {table} SET status = 3, last_error = 'by hand'")) {
    GTEST_SKIP() << no_foreign_sql;
  }
  auto const began = this->row("a").inserted_at;
  EXPECT_EQ(this->s().replay({.died_by = began}, 10), 1U) << "the other one came later";
  EXPECT_EQ(this->row("a").status, event_status::created);
  this->backend().foreign("UPDATE {table} SET inserted_at = NULL");
  EXPECT_EQ(this->s().replay({.died_by = this->s().now() + 1min}, 10), 1U);
  EXPECT_EQ(this->s().inspect().counts().dead, 0U);
}

OUTBOX_CONTRACT_CASE(Operator, I12_PurgeByAgeTakesWhateverIsOld) {
  this->make_dead("dead");
  this->put({"pending"});
  this->advance(10s);
  this->put({"young"});
  EXPECT_EQ(this->s().purge_by_age({.age = 10s, .limit = 1}), 1U);
  EXPECT_EQ(this->s().purge_by_age({.age = 10s}), 1U);
  EXPECT_EQ(this->s().purge_by_age({.age = 10s}), 0U);
  EXPECT_TRUE(this->s().inspect().find("young"));
}

OUTBOX_CONTRACT_CASE(Operator, I12_PurgeByAgeTakesNothingWhileADispatcherLives) {
  this->put({"a"});
  this->advance(10s);
  this->s().heartbeat({.incarnation = "w", .name = "writer", .mode = node_mode::writer_only, .lease = lease});
  this->s().heartbeat({.incarnation = "d", .name = "dispatcher", .mode = node_mode::multi_node, .lease = lease});
  EXPECT_EQ(this->s().purge_by_age({.age = 1s}), 0U);
  this->expire();
  EXPECT_EQ(this->s().purge_by_age({.age = 1s}), 1U) << "its lease is over";
}

OUTBOX_CONTRACT_CASE(Operator, PurgeByStatus) {
  this->make_dead("dead");
  this->make_done("done");
  this->advance(1s);
  EXPECT_EQ(this->s().purge({.retention = 0s, .done = true, .dead = false}),
            this->s().capabilities().keeps_done_rows ? 1U : 0U);
  EXPECT_TRUE(this->s().inspect().find("dead"));
  EXPECT_EQ(this->s().purge({.retention = 0s, .done = false, .dead = true}), 1U);
}

OUTBOX_CONTRACT_CASE(Operator, PurgeInBatches) {
  for (int i = 0; i < 5; ++i) this->make_dead("d" + std::to_string(i));
  this->advance(1s);
  EXPECT_EQ(this->s().purge({.retention = 0s, .limit = 2}), 2U);
  EXPECT_EQ(this->s().purge({.retention = 0s, .limit = 2}), 2U);
  EXPECT_EQ(this->s().purge({.retention = 0s, .limit = 2}), 1U);
}

OUTBOX_CONTRACT_CASE(Operator, APurgedIdMayBeUsedAgain) {
  this->make_dead("a");
  this->advance(1s);
  ASSERT_EQ(this->s().purge({.retention = 0s}), 1U);
  this->put({"a"});
  EXPECT_THAT(this->claim("n/1").rows, SizeIs(1));
}

OUTBOX_CONTRACT_CASE(Operator, DeadEventsComeOldestFirstWithErrorAndAttempts) {
  if (!this->s().capabilities().event_filters) GTEST_SKIP() << "this store has no filters";
  this->make_dead("a");
  this->make_dead("b");
  auto const dead = this->dead({}, 10);
  ASSERT_THAT(dead, SizeIs(2));
  EXPECT_EQ(dead[0].event.id(), "a");
  EXPECT_EQ(dead[0].last_error, "why a");
  EXPECT_EQ(dead[0].attempts, 1);
  EXPECT_TRUE(dead[0].done_at);
  EXPECT_EQ(dead[1].event.id(), "b");
  EXPECT_THAT(this->dead({}, 1), SizeIs(1));
}

OUTBOX_CONTRACT_CASE(Operator, DeadByTypeAndAggregate) {
  if (!this->s().capabilities().event_filters) GTEST_SKIP() << "this store has no filters";
  this->make_dead("a", {.aggregate = {"order", "1"}}, "order.placed");
  this->make_dead("b", {.aggregate = {"order", "2"}}, "order.paid");
  this->make_dead("c", {.aggregate = {"user", "1"}}, "order.paid");
  EXPECT_THAT(this->dead({.event_type = "order.paid"}, 10), SizeIs(2));
  EXPECT_THAT(this->dead({.aggregate_type = "order"}, 10), SizeIs(2));
  EXPECT_THAT(this->dead({.event_type = "order.paid", .aggregate_type = "user"}, 10), SizeIs(1));
  EXPECT_EQ(this->s().count({.statuses = {event_status::dead}}, 10), 3U);
  EXPECT_EQ(this->s().count({.statuses = {event_status::dead}, .event_type = "order.paid"}, 10), 2U);
  EXPECT_EQ(this->s().count({.statuses = {event_status::dead}, .event_type = "nothing"}, 10), 0U);
}

// As a pause of the global aggregate type covers rows that name none.
OUTBOX_CONTRACT_CASE(Operator, DeadEventsWithoutAnAggregateAreOfTheGlobalOne) {
  if (!this->s().capabilities().event_filters) GTEST_SKIP() << "this store has no filters";
  this->make_dead("none");
  this->make_dead("order", {.aggregate = {"order", "1"}});
  this->make_dead("foreign");
  this->backend().foreign("UPDATE {table} SET aggregate_type = NULL WHERE event_id = 'foreign'");
  event_filter const global{.aggregate_type = std::string{global_aggregate}};
  EXPECT_EQ(this->s().count(global, 10), 2U);
  auto const dead = this->dead(global, 10);
  ASSERT_THAT(dead, SizeIs(2));
  EXPECT_EQ(dead[0].event.id(), "none");
  EXPECT_EQ(dead[1].event.id(), "foreign");
  EXPECT_EQ(this->s().replay(global, 10), 2U);
  EXPECT_EQ(this->row("order").status, event_status::dead);
}

OUTBOX_CONTRACT_CASE(Operator, I4_ReplayStartsTheEventAgain) {
  if (!this->s().capabilities().event_filters) GTEST_SKIP() << "this store has no filters";
  this->make_dead("a");
  EXPECT_EQ(this->s().replay({.ids = {"a"}}, 1), 1U);
  auto const r = this->row("a");
  EXPECT_EQ(r.status, event_status::created);
  EXPECT_EQ(r.attempts, 0);
  EXPECT_EQ(r.crashes, 0);
  EXPECT_EQ(r.last_error, "");
  EXPECT_FALSE(r.done_at);
  EXPECT_EQ(r.progress, "p") << "what was done stays done";
  EXPECT_THAT(this->ids(this->claim("n/1")), ElementsAre("a"));
}

OUTBOX_CONTRACT_CASE(Operator, I4_OnlyTheDeadAreReplayed) {
  if (!this->s().capabilities().event_filters) GTEST_SKIP() << "this store has no filters";
  this->make_done("done");
  this->put({"pending"});
  EXPECT_EQ(this->s().replay({.ids = {"done"}}, 1), 0U);
  EXPECT_EQ(this->s().replay({.ids = {"pending"}}, 1), 0U);
  EXPECT_EQ(this->s().replay({.ids = {"missing"}}, 1), 0U);
  EXPECT_TRUE(this->finished("done"));
}

OUTBOX_CONTRACT_CASE(Operator, ASecondReplayChangesNothing) {
  if (!this->s().capabilities().event_filters) GTEST_SKIP() << "this store has no filters";
  this->make_dead("a");
  EXPECT_EQ(this->s().replay({.ids = {"a"}}, 1), 1U);
  EXPECT_EQ(this->s().replay({.ids = {"a"}}, 1), 0U);
}

OUTBOX_CONTRACT_CASE(Operator, ReplaySomeInBatchesOldestFirst) {
  if (!this->s().capabilities().event_filters) GTEST_SKIP() << "this store has no filters";
  for (auto const* id : {"a", "b", "c"}) this->make_dead(id);
  auto const now = this->s().now();
  EXPECT_EQ(this->s().replay({.died_by = now}, 2), 2U);
  EXPECT_EQ(this->row("c").status, event_status::dead);
  EXPECT_EQ(this->s().replay({.died_by = now}, 2), 1U);
  EXPECT_EQ(this->s().replay({.died_by = now}, 2), 0U);
}

OUTBOX_CONTRACT_CASE(Operator, ReplaySomeTouchesOnlyThoseDeadBeforeItBegan) {
  if (!this->s().capabilities().event_filters) GTEST_SKIP() << "this store has no filters";
  this->make_dead("old");
  auto const began = *this->row("old").done_at;  // not now: a backend that cannot move its clock moves its rows
  this->advance(1s);
  this->make_dead("new");
  EXPECT_EQ(this->s().replay({.died_by = began}, 10), 1U);
  EXPECT_EQ(this->row("new").status, event_status::dead);
}

OUTBOX_CONTRACT_CASE(Operator, ReplaySomeByFilter) {
  if (!this->s().capabilities().event_filters) GTEST_SKIP() << "this store has no filters";
  this->make_dead("a", {}, "x");
  this->make_dead("b", {}, "y");
  EXPECT_EQ(this->s().replay({.event_type = "y", .died_by = this->s().now()}, 10), 1U);
  EXPECT_EQ(this->row("a").status, event_status::dead);
}

OUTBOX_CONTRACT_CASE(Operator, I13_CountsAddUp) {
  this->make_dead("dead");
  this->make_done("done");
  this->put({"retrying"});
  this->settle(this->claim_one("n/1"), outcome::retry, {.counted = 1, .delay = 1h});
  this->put({"new"});
  auto const c = this->s().inspect().counts();
  EXPECT_EQ(c.created, 1U);
  EXPECT_EQ(c.retry, 1U);
  EXPECT_EQ(c.dead, 1U);
  EXPECT_EQ(c.done, this->s().capabilities().keeps_done_rows ? 1U : 0U);
  EXPECT_EQ(c.pending(), 2U);
}

OUTBOX_CONTRACT_CASE(Operator, TextThatNoEventCanHaveMatchesNothing) {
  if (!this->s().capabilities().event_filters) GTEST_SKIP() << "this store has no filters";
  this->make_dead("a", {.aggregate = {"order", "1"}});
  std::string const with_nul{"a\0b", 3};
  for (std::string const& text : {with_nul, std::string{"\xFF"}, std::string{"a\xC3"}}) {
    EXPECT_FALSE(this->s().inspect().find(text));
    EXPECT_EQ(this->s().replay({.ids = {text}}, 1), 0U);
    for (event_filter const& f :
         {event_filter{.ids = {text}}, event_filter{.event_type = text}, event_filter{.aggregate_type = text},
          event_filter{.event_type = "order.placed", .aggregate_id = text}, event_filter{.tenant = text},
          event_filter{.key = text}}) {
      EXPECT_THAT(this->s().list(f, list_order::oldest_first, 10), IsEmpty());
      EXPECT_EQ(this->s().count(f, 10), 0U);
      EXPECT_EQ(this->s().replay(f, 10), 0U);
      EXPECT_EQ(this->s().cancel(f, "why", 10), 0U);
      EXPECT_EQ(this->s().discard(f, 10), 0U);
      EXPECT_EQ(this->s().purge(f, 10), 0U);
    }
  }
  EXPECT_EQ(this->s().count({.statuses = {event_status::dead}}, 10), 1U);
}

OUTBOX_CONTRACT_CASE(Operator, FindReturnsTheRow) {
  this->put({"a"});
  EXPECT_EQ(this->row("a").event.type(), "order.placed");
  EXPECT_FALSE(this->s().inspect().find("missing"));
}

}  // namespace outbox::contract

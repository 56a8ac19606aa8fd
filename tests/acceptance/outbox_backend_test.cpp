// The interface between orchestration and persistence, OutboxBackend of the fourth specification, in its own words: on
// the store alone where the store decides, and through a node where the node does. A store joins in backends/all.hpp.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <outbox/outbox.hpp>
#include <outbox/spi/forwarding_store.hpp>
#include <outbox/testing.hpp>

#include "backends/all.hpp"
#include "support/waiting.hpp"

// Stores that keep what was sent, and one that needs no transaction, as a key-value server would be.
#define OUTBOX_CONTRACT_BACKENDS OUTBOX_KEEPING_BACKENDS, leasing_memory_backend
#include <outbox/testing/contract/suite.hpp>

namespace outbox::contract {
namespace {

// What a node passes on to its store to write.
class insert_counter final : public forwarding_store {
 public:
  using forwarding_store::forwarding_store;
  void insert(transaction_ref tx, std::span<insertion const> rows,
              std::shared_ptr<insert_receipt> const& receipt) override {
    ++calls;
    forwarding_store::insert(tx, rows, receipt);
  }
  int calls = 0;
};

class OutboxBackend : public StoreContract {
 protected:
  // The four functions of the interface that read and write rows.

  void persist_pending(event const& e) { put(e); }

  std::vector<claimed_row> find_pending_batch(std::size_t batch_size) {
    auto r = request("poller/" + std::to_string(++claims_));
    r.limit = batch_size;
    return s().claim(r).rows;
  }
  int mark_sent(row_handle const& row) { return settle(row, outcome::delivered) ? 1 : 0; }
  int mark_failure_attempt(row_handle const& row, std::string error, bool budget_is_used_up = false) {
    return settle(row, budget_is_used_up ? outcome::dead : outcome::retry, {.counted = 1, .error = std::move(error)})
               ? 1
               : 0;
  }

  // Nodes on the store. They end before it does.

  std::shared_ptr<outbox::store> shared_store() { return {std::shared_ptr<void>{}, &s()}; }
  multi_node_options options() {
    multi_node_options o{.store = shared_store(), .log = nullptr};
    o.poll.every = 1h;  // so that only the hot path is quick
    o.lease.duration = lease;
    return o;
  }
  // A node that a test runs on its own thread.
  template <class Listener>
  node node_with(Listener&& listener, std::int32_t max_retries = 10) {
    auto o = options();
    o.retry.max_attempts = max_retries;
    o.listeners.on("order.placed", std::forward<Listener>(listener));
    return multi_node(std::move(o));
  }
  static auto fails_with(std::string error) {
    return [error](delivery const&) -> result { return failed{error, 1h}; };
  }
  void let_the_retry_be_due() { advance(2h); }

  std::string status(std::string const& id) { return std::string{name(row(id).status)}; }

 private:
  int claims_ = 0;
};

bool is_utf8(std::string const& text) {
  try {
    static_cast<void>(nlohmann::json(text).dump());
    return true;
  } catch (nlohmann::json::type_error const&) {
    return false;
  }
}

std::ptrdiff_t characters_of(std::string const& utf8) {
  return std::ranges::count_if(utf8, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; });
}

std::string many(int count, std::string const& text) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

// Statuses. PENDING is NEW before the first attempt and RETRY after one, SENT is DONE, FAILED is DEAD.

OUTBOX_CONTRACT_CASE(OutboxBackend, APendingRowBecomesSent) {
  this->persist_pending(json_event("a"));
  EXPECT_EQ(this->status("a"), "NEW");
  this->node_with([](delivery const&) {}).run_until_idle();
  EXPECT_EQ(this->status("a"), "DONE");
  EXPECT_TRUE(this->row("a").done_at) << "when it was sent";
}

OUTBOX_CONTRACT_CASE(OutboxBackend, APendingRowStaysPendingUntilTheBudgetIsUsedUpAndIsThenFailed) {
  this->persist_pending(json_event("a"));
  this->node_with(this->fails_with("first"), 2).run_until_idle();
  EXPECT_EQ(this->status("a"), "RETRY");
  this->let_the_retry_be_due();
  this->node_with(this->fails_with("second"), 2).run_until_idle();
  EXPECT_EQ(this->status("a"), "DEAD");
  EXPECT_EQ(this->row("a").last_error, "second");
  this->let_the_retry_be_due();
  EXPECT_THAT(this->find_pending_batch(10), IsEmpty());
}

// The key: aggregate id and event id.

OUTBOX_CONTRACT_CASE(OutboxBackend, ARowIsFoundByItsAggregateIdAndItsEventIdTogether) {
  if (!this->s().capabilities().event_filters) GTEST_SKIP() << "this store has no filters";
  this->persist_pending(json_event("a", {.aggregate = {"order", "7"}}));
  this->persist_pending(json_event("b", {.aggregate = {"order", "7"}}));
  this->persist_pending(json_event("c", {.aggregate = {"order", "8"}}));
  auto const found = [&](std::string event_id, std::string aggregate_id) {
    std::vector<std::string> ids;
    event_filter const filter{.ids = {std::move(event_id)}, .aggregate_id = std::move(aggregate_id)};
    for (auto const& r : this->s().list(filter, list_order::oldest_first, 10)) ids.push_back(r.event.id());
    EXPECT_EQ(this->s().count(filter, 10), ids.size());
    return ids;
  };
  EXPECT_THAT(found("a", "7"), ElementsAre("a"));
  EXPECT_THAT(found("c", "8"), ElementsAre("c"));
  EXPECT_THAT(found("a", "8"), IsEmpty()) << "the event of another aggregate";
  EXPECT_THAT(found("c", "7"), IsEmpty());
  EXPECT_THAT(found("none", "7"), IsEmpty());
}

OUTBOX_CONTRACT_CASE(OutboxBackend, AChangeByTheWrongAggregateIdChangesNothing) {
  if (!this->s().capabilities().event_filters) GTEST_SKIP() << "this store has no filters";
  this->persist_pending(json_event("a", {.aggregate = {"order", "7"}}));
  EXPECT_EQ(this->s().cancel({.ids = {"a"}, .aggregate_id = "8"}, "by mistake", 10), 0U);
  EXPECT_EQ(this->status("a"), "NEW");
  EXPECT_EQ(this->s().cancel({.ids = {"a"}, .aggregate_id = "7"}, "on purpose", 10), 1U);
  EXPECT_EQ(this->s().replay({.ids = {"a"}, .aggregate_id = "8"}, 10), 0U);
  EXPECT_EQ(this->status("a"), "DEAD");
  EXPECT_EQ(this->s().replay({.ids = {"a"}, .aggregate_id = "7"}, 10), 1U);
  EXPECT_EQ(this->status("a"), "NEW");
}

// The departure: one event id is one event, so a receiver can recognise a duplicate by it alone.
OUTBOX_CONTRACT_CASE(OutboxBackend, AnEventIdIsTakenWhateverTheAggregate) {
  this->persist_pending(json_event("a", {.aggregate = {"order", "7"}}));
  try {
    this->persist_pending(json_event("a", {.aggregate = {"order", "8"}}));
    ADD_FAILURE() << "it was written";
  } catch (error const& e) {
    EXPECT_EQ(e.code(), errc::duplicate_event);
  }
  EXPECT_EQ(this->row("a").event.aggregate_id(), "7");
}

// persistPending

OUTBOX_CONTRACT_CASE(OutboxBackend, PersistPendingStoresTheRecordAsItIsAndDoesNotChangeIt) {
  std::string buffer{"\0\xff payload", 10};
  auto const occurred_at = instant{std::chrono::sys_days{std::chrono::year{2001} / 2 / 3} + 4567890us};
  auto const e =
      event::bytes("order.placed", buffer, "application/x-order",
                   {.id = "a",
                    .aggregate = {"order", "7"},
                    .headers = make_headers({.topic = "shop.orders", .schema_version = 3}, {{"region", "eu"}}),
                    .occurred_at = occurred_at});
  buffer.assign(buffer.size(), 'x');  // the caller goes on with its buffer
  this->persist_pending(e);
  auto const stored = this->row("a");
  for (auto const* const each : {&e, &stored.event}) {
    EXPECT_EQ(each->id(), "a");
    EXPECT_EQ(each->aggregate_type(), "order");
    EXPECT_EQ(each->aggregate_id(), "7");
    EXPECT_EQ(each->type(), "order.placed");
    EXPECT_EQ(each->payload(), (std::string{"\0\xff payload", 10}));
    EXPECT_EQ(each->content_type(), "application/x-order");
    EXPECT_EQ(topic_of(*each), "shop.orders");
    EXPECT_EQ(schema_version_of(*each), 3);
    EXPECT_EQ(each->headers(), make_headers({.topic = "shop.orders", .schema_version = 3}, {{"region", "eu"}}));
    EXPECT_EQ(each->occurred_at(), occurred_at);
  }
  EXPECT_EQ(stored.status, event_status::created);
  EXPECT_EQ(stored.attempts, 0);
  EXPECT_EQ(stored.last_error, "");
  EXPECT_FALSE(stored.done_at);
}

OUTBOX_CONTRACT_CASE(OutboxBackend, TheTopicAndTheSchemaVersionReachTheListener) {
  this->persist_pending(json_event("a", {.headers = make_headers({.topic = "shop.orders", .schema_version = 3})}));
  std::string told;
  auto n = this->node_with([&](delivery const& d) {
    told =
        std::string{topic_of(d).value_or("(none)")} + " in version " + std::to_string(schema_version_of(d).value_or(0));
  });
  n.run_until_idle();
  EXPECT_EQ(told, "shop.orders in version 3");
}

OUTBOX_CONTRACT_CASE(OutboxBackend, AListenerThatNeedsASchemaVersionMakesAnEventWithoutOneFailedAtOnce) {
  this->persist_pending(json_event("a", {.headers = {{"schema_version", "two"}}}));
  auto n = this->node_with([](delivery const& d) { static_cast<void>(required_schema_version(d.event)); });
  EXPECT_EQ(n.run_until_idle(), 1U);
  EXPECT_EQ(this->status("a"), "DEAD");
  EXPECT_EQ(this->row("a").last_error,
            "the header 'schema_version' is 'two', which is no whole number from 1 to 2147483647");
}

// findPendingBatch

OUTBOX_CONTRACT_CASE(OutboxBackend, PendingRowsComeInBatchesOfBoundedSizeInTheOrderOfTheirCreation) {
  this->put({"g", "f", "e", "d", "c", "b", "a"});
  auto const next = [&] {
    std::vector<std::string> ids;
    for (auto const& r : this->find_pending_batch(3)) ids.push_back(r.event.id());
    return ids;
  };
  EXPECT_THAT(next(), ElementsAre("g", "f", "e"));
  EXPECT_THAT(next(), ElementsAre("d", "c", "b"));
  EXPECT_THAT(next(), ElementsAre("a"));
  EXPECT_THAT(next(), IsEmpty()) << "each is in one batch only";
}

OUTBOX_CONTRACT_CASE(OutboxBackend, ABatchIsEmptyWhenNoRowIsPending) {
  EXPECT_THAT(this->find_pending_batch(10), IsEmpty());
  this->put({"sent", "failed"});
  auto const rows = this->find_pending_batch(10);
  ASSERT_THAT(rows, SizeIs(2));
  EXPECT_EQ(this->mark_sent(rows[0].handle), 1);
  EXPECT_EQ(this->mark_failure_attempt(rows[1].handle, "no", /*budget_is_used_up=*/true), 1);
  this->expire();
  EXPECT_THAT(this->find_pending_batch(10), IsEmpty()) << "terminal rows are not pending";
}

// markSent

OUTBOX_CONTRACT_CASE(OutboxBackend, MarkSentClearsTheLastErrorAndIsIdempotent) {
  this->put({"a"});
  ASSERT_EQ(this->mark_failure_attempt(this->find_pending_batch(1).at(0).handle, "the broker is away"), 1);
  ASSERT_EQ(this->row("a").last_error, "the broker is away");
  auto const row = this->find_pending_batch(1).at(0).handle;
  EXPECT_EQ(this->mark_sent(row), 1);
  auto const sent = this->row("a");
  EXPECT_EQ(sent.status, event_status::delivered);
  EXPECT_EQ(sent.last_error, "");
  EXPECT_EQ(sent.attempts, 1) << "retries are history";
  this->advance(1s);
  EXPECT_EQ(this->mark_sent(row), 0);
  EXPECT_EQ(this->mark_failure_attempt(row, "a late callback"), 0);
  EXPECT_EQ(this->row("a").status, event_status::delivered);
  EXPECT_EQ(this->row("a").last_error, "");
  EXPECT_EQ(this->row("a").attempts, 1);
}

OUTBOX_CONTRACT_CASE(OutboxBackend, ARowThatIsTerminalAlreadyIsNotChangedAndNothingIsThrown) {
  this->put({"a"});
  auto const row = this->find_pending_batch(1).at(0).handle;
  ASSERT_EQ(this->mark_failure_attempt(row, "rejected", /*budget_is_used_up=*/true), 1);
  EXPECT_EQ(this->mark_sent(row), 0);
  EXPECT_EQ(this->mark_failure_attempt(row, "again"), 0);
  EXPECT_EQ(this->mark_failure_attempt(row, "again", /*budget_is_used_up=*/true), 0);
  EXPECT_EQ(this->status("a"), "DEAD");
  EXPECT_EQ(this->row("a").last_error, "rejected");
  EXPECT_EQ(this->row("a").attempts, 1);
  EXPECT_EQ(this->mark_sent({.id = "none", .token = row.token}), 0) << "a row that is not there";
}

// A hot relay that was slow, and the cold poller that took the row over: the first of them to report decides.
OUTBOX_CONTRACT_CASE(OutboxBackend, OfTheHotRelayAndTheColdPollerOneMarksTheRowSent) {
  for (bool const hot_is_late : {true, false}) {
    std::string const id = hot_is_late ? "late" : "quick";
    this->put_owned(json_event(id), "hot/" + id);
    row_handle const hot{.id = id, .token = "hot/" + id};
    if (!hot_is_late) {
      EXPECT_EQ(this->mark_sent(hot), 1);
      EXPECT_THAT(this->find_pending_batch(10), IsEmpty());
      EXPECT_EQ(this->mark_sent(hot), 0);
      continue;
    }
    EXPECT_THAT(this->find_pending_batch(10), IsEmpty()) << "while the relay may be under way";
    this->expire();
    auto const cold = this->find_pending_batch(10);
    ASSERT_THAT(cold, SizeIs(1));
    EXPECT_EQ(this->mark_sent(hot), 0) << "the poller has it now";
    EXPECT_EQ(this->mark_sent(cold[0].handle), 1);
    EXPECT_EQ(this->mark_sent(hot), 0);
  }
  EXPECT_EQ(this->s().inspect().counts().done, 2U);
}

// markFailureAttempt

OUTBOX_CONTRACT_CASE(OutboxBackend, AFailureIncrementsTheRetriesAndStoresTheError) {
  this->put({"a"});
  for (int i = 1; i <= 3; ++i) {
    auto const row = this->find_pending_batch(1);
    ASSERT_THAT(row, SizeIs(1));
    EXPECT_EQ(row[0].attempts, i - 1);
    EXPECT_EQ(this->mark_failure_attempt(row[0].handle, "failure " + std::to_string(i)), 1);
    EXPECT_EQ(this->row("a").attempts, i);
    EXPECT_EQ(this->row("a").last_error, "failure " + std::to_string(i));
    EXPECT_EQ(this->status("a"), "RETRY");
  }
}

// Each node sees the event once and has no memory of the failures of others.
OUTBOX_CONTRACT_CASE(OutboxBackend, TheBudgetIsJudgedByTheRetriesInTheStore) {
  this->persist_pending(json_event("a"));
  for (int i = 1; i <= 3; ++i) {
    std::int32_t attempt = 0;
    auto n = this->node_with(
        [&](delivery const& d) -> result {
          attempt = d.attempt;
          return failed{"failure " + std::to_string(i), 1h};
        },
        /*max_retries=*/3);
    EXPECT_EQ(n.run_until_idle(), 1U);
    EXPECT_EQ(attempt, i);
    EXPECT_EQ(this->row("a").attempts, i);
    EXPECT_EQ(this->row("a").last_error, "failure " + std::to_string(i));
    EXPECT_EQ(this->status("a"), i < 3 ? "RETRY" : "DEAD");
    this->let_the_retry_be_due();
  }
}

// The first node still counts no failure when the second has failed once. With a budget of one more failure, a stale
// count would either make the row FAILED or count the same attempt twice.
OUTBOX_CONTRACT_CASE(OutboxBackend, AFailureOfANodeThatLostItsRowChangesNothing) {
  this->persist_pending(json_event("a"));
  std::optional<completion> late;
  auto first = this->node_with([&](delivery const&, completion answer) { late = std::move(answer); }, 2);
  first.run_until_idle();
  ASSERT_TRUE(late);
  this->expire();  // the process seems to be gone
  this->node_with(this->fails_with("of the second node"), 2).run_until_idle();
  ASSERT_EQ(this->row("a").attempts, 1);
  (*late)(failed{"of the first node", 0ms});
  first.run_until_idle();
  EXPECT_EQ(first.counters().lost, 1U);
  EXPECT_EQ(first.counters().failed, 0U);
  EXPECT_EQ(this->status("a"), "RETRY");
  EXPECT_EQ(this->row("a").attempts, 1);
  EXPECT_EQ(this->row("a").last_error, "of the second node");
}

OUTBOX_CONTRACT_CASE(OutboxBackend, AFailureAfterTheRowWasSentByAnotherNodeChangesNothing) {
  this->persist_pending(json_event("a"));
  std::optional<completion> late;
  auto first = this->node_with([&](delivery const&, completion answer) { late = std::move(answer); }, 1);
  first.run_until_idle();
  ASSERT_TRUE(late);
  this->expire();
  this->node_with([](delivery const&) {}).run_until_idle();
  ASSERT_EQ(this->status("a"), "DONE");
  (*late)(failed{"of the first node", 0ms});
  first.run_until_idle();
  EXPECT_EQ(first.counters().lost, 1U);
  EXPECT_EQ(this->status("a"), "DONE");
  EXPECT_EQ(this->row("a").attempts, 0);
  EXPECT_EQ(this->row("a").last_error, "");
}

// The last error: at most 4000 characters, whatever the listener said.

OUTBOX_CONTRACT_CASE(OutboxBackend, ALongErrorIsCutAtACharacter) {
  this->persist_pending(json_event("a"));
  this->node_with(this->fails_with(std::string(3999, 'x') + "😀é")).run_until_idle();
  EXPECT_EQ(this->row("a").last_error, std::string(3999, 'x') + "😀") << "not in the middle of its four bytes";
  this->let_the_retry_be_due();
  this->node_with(this->fails_with(many(4001, "é"))).run_until_idle();
  EXPECT_EQ(this->row("a").last_error, many(4000, "é")) << "characters count, not bytes";
  this->let_the_retry_be_due();
  this->node_with(this->fails_with(many(4000, "😀"))).run_until_idle();
  EXPECT_EQ(this->row("a").last_error, many(4000, "😀")) << "nothing is cut that fits";
}

OUTBOX_CONTRACT_CASE(OutboxBackend, AHostileErrorIsStoredAsValidText) {
  std::string const hostile[] = {
      std::string{"a\0b", 3},
      std::string(1 << 20, '\xff'),
      std::string(3999, 'x') + "\xF0\x9F\x98",  // half of a character where the cut is
      "surrogate \xED\xA0\x80, overlong \xC0\x80, beyond \xF5\x80\x80\x80",
      "quotes ' \" \\ $1 %s {table}; DROP TABLE outbox_event; --\r\n\t\x01\x7f",
      many(5000, std::string{"\0", 1} + "😀\xfe"),
  };
  int n = 0;
  for (auto const& text : hostile) {
    auto const id = "e" + std::to_string(++n);
    this->persist_pending(json_event(id));
    bool const last = n % 2 == 0;  // RETRY and DEAD alike
    this->node_with(this->fails_with(text), last ? 1 : 10).run_until_idle();
    auto const stored = this->row(id);
    EXPECT_EQ(stored.status, last ? event_status::dead : event_status::retry) << n;
    EXPECT_EQ(stored.attempts, 1) << n;
    EXPECT_TRUE(is_utf8(stored.last_error)) << n;
    EXPECT_EQ(stored.last_error.find('\0'), std::string::npos) << n;
    EXPECT_LE(characters_of(stored.last_error), 4000) << n;
    EXPECT_FALSE(stored.last_error.empty()) << n;
  }
  EXPECT_EQ(this->row("e5").last_error, hostile[4]) << "what is valid text stays as it is";
}

// requiresActiveTransaction

OUTBOX_CONTRACT_CASE(OutboxBackend, AStoreInARelationalDatabaseRequiresATransaction) {
  auto const can = this->s().capabilities();
  bool const relational = can.kind == "postgres" || can.kind == "sqlite" || can.kind == "mysql";
  if (!relational) GTEST_SKIP() << "this store is not in a relational database";
  EXPECT_TRUE(can.requires_transaction);
}

OUTBOX_CONTRACT_CASE(OutboxBackend, AWriteOutsideATransactionIsRefusedBeforeTheStoreIsAsked) {
  if (!this->s().capabilities().requires_transaction) GTEST_SKIP() << "this store needs no transaction";
  auto const store = std::make_shared<insert_counter>(this->shared_store());
  auto const hook = std::make_shared<testing::recording_hook>();
  auto const n = writer_only({.store = store, .hook = hook, .log = nullptr});
  auto const refused = [&](auto&& tx) {
    try {
      n.writer().write(tx, json_event("a"));
      ADD_FAILURE() << "it was written";
    } catch (error const& e) {
      EXPECT_EQ(e.code(), errc::no_transaction);
      EXPECT_FALSE(e.transient());
    }
  };
  refused(no_transaction);
  auto ended = this->backend().begin();
  ended->commit();
  refused(ended->ref());
  EXPECT_EQ(store->calls, 0);
  EXPECT_THAT(hook->written(), IsEmpty());
  EXPECT_FALSE(this->s().inspect().find("a"));
}

OUTBOX_CONTRACT_CASE(OutboxBackend, AWriteInATransactionIsRelayedAfterItsCommitAndNotBefore) {
  tally hot, cold;
  auto o = this->options();
  o.listeners.on("order.placed", [&](delivery const& d) { (d.path == path::hot ? hot : cold).add(d.id); });
  auto n = multi_node(std::move(o));
  n.start();
  auto rolled_back = this->backend().begin();
  n.writer().write(rolled_back->ref(), json_event("undone"));
  rolled_back->rollback();
  auto tx = this->backend().begin();
  n.writer().write(tx->ref(), json_event("a"));
  EXPECT_EQ(hot.total(), 0U);
  tx->commit();
  ASSERT_TRUE(hot.reach(1));
  EXPECT_TRUE(n.stop(60s));
  EXPECT_EQ(hot.of("a"), 1);
  EXPECT_EQ(hot.total() + cold.total(), 1U) << "the event that was rolled back is relayed by no path";
  EXPECT_EQ(this->status("a"), "DONE");
}

// The interface says of its own publisher that it could not do this: its relay needs a transaction to register with.
OUTBOX_CONTRACT_CASE(OutboxBackend, WithoutATransactionAWriteIsPersistedAndRelayedAtOnce) {
  if (this->s().capabilities().requires_transaction) GTEST_SKIP() << "this store writes in transactions only";
  tally hot, cold;
  auto const hook = std::make_shared<testing::recording_hook>();
  auto o = this->options();
  o.hook = hook;
  o.listeners.on("order.placed", [&](delivery const& d) { (d.path == path::hot ? hot : cold).add(d.id); });
  auto n = multi_node(std::move(o));
  n.start();
  EXPECT_EQ(n.writer().write(no_transaction, json_event("a")).str(), "a");
  EXPECT_TRUE(this->s().inspect().find("a")) << "it is there when write() returns";
  EXPECT_THAT(hook->committed(), ElementsAre("a"));
  std::vector<event> const more{json_event("b"), json_event("c")};
  n.writer().write_all(no_transaction, more);
  ASSERT_TRUE(hot.reach(3));
  EXPECT_TRUE(n.stop(60s));
  EXPECT_THAT(hot.ids(), UnorderedElementsAre("a", "b", "c"));
  EXPECT_EQ(cold.total(), 0U);
  EXPECT_EQ(this->s().inspect().counts().done, 3U);
}

OUTBOX_CONTRACT_CASE(OutboxBackend, WithoutATransactionAndWithoutARunningNodeTheRowWaitsForThePoller) {
  if (this->s().capabilities().requires_transaction) GTEST_SKIP() << "this store writes in transactions only";
  auto const n = writer_only({.store = this->shared_store(), .log = nullptr});
  n.writer().write(no_transaction, json_event("a"));
  EXPECT_EQ(this->status("a"), "NEW");
  auto const rows = this->find_pending_batch(10);
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(this->mark_sent(rows[0].handle), 1);
}

}  // namespace
}  // namespace outbox::contract

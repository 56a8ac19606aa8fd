// Inserts: rows are written in the caller's transaction.
#pragma once

#include <outbox/testing/contract/suite.hpp>

namespace outbox::contract {

class Insert : public StoreContract {
 protected:
  event round_trip(event const& e) {
    this->put(e);
    auto reply = this->claim("n/1");
    if (reply.rows.size() != 1) throw std::runtime_error{"expected one row"};
    EXPECT_EQ(reply.rows[0].malformed, "");
    return reply.rows[0].event;
  }
};

// A write without a transaction. Returns what it threw.
inline std::optional<error> insert_at_once(spi::store& s, std::vector<event> const& events,
                                           std::string_view token = {}) {
  std::vector<insertion> rows;
  for (auto const& e : events) rows.push_back({&e, token, token.empty() ? 0ms : std::chrono::milliseconds{lease}});
  try {
    s.insert(join(no_transaction), rows);
    return std::nullopt;
  } catch (error const& e) {
    return e;
  }
}

OUTBOX_CONTRACT_CASE(Insert, WithoutATransactionRowsAreThereAtOnceOrNotAtAll) {
  bool const allowed = !this->s().capabilities().requires_transaction;
  auto const thrown = insert_at_once(this->s(), {json_event("a"), json_event("b")});
  EXPECT_EQ(!thrown, allowed);
  EXPECT_THAT(this->claim("n/1").rows, SizeIs(allowed ? 2 : 0));
}

OUTBOX_CONTRACT_CASE(Insert, WithoutATransactionADuplicateIdRefusesAllRows) {
  if (this->s().capabilities().requires_transaction) GTEST_SKIP() << "this store writes in transactions only";
  this->put({"taken"});
  auto const thrown = insert_at_once(this->s(), {json_event("new"), json_event("taken")});
  ASSERT_TRUE(thrown);
  EXPECT_EQ(thrown->code(), errc::duplicate_event);
  EXPECT_FALSE(this->s().inspect().find("new"));
}

OUTBOX_CONTRACT_CASE(Insert, WithoutATransactionARowMayBeBornWithAnOwner) {
  if (this->s().capabilities().requires_transaction) GTEST_SKIP() << "this store writes in transactions only";
  ASSERT_FALSE(insert_at_once(this->s(), {json_event("a")}, "n/1"));
  EXPECT_EQ(this->row("a").locked_by, "n/1");
  EXPECT_THAT(this->claim("m/1").rows, IsEmpty());
}

// Remembers what a transaction reported to its observer.
class transaction_notes final : public transaction_observer {
 public:
  explicit transaction_notes(std::vector<std::string> ids, std::string token = "n/1")
      : ids_{std::move(ids)}, token_{std::move(token)} {}
  std::size_t size() const noexcept override { return ids_.size(); }
  std::string const& event_id(std::size_t i) const noexcept override { return ids_[i]; }
  std::string const& token(std::size_t) const noexcept override { return token_; }
  void absent(std::size_t i) noexcept override { said += "absent " + ids_[i] + ";"; }
  void committed() noexcept override { said += "committed;"; }
  void rolled_back() noexcept override { said += "rolled back;"; }
  void committed_in_part() noexcept override { said += "committed in part;"; }
  void in_doubt() noexcept override { said += "in doubt;"; }
  std::string said;

 private:
  std::vector<std::string> ids_;
  std::string token_;
};

OUTBOX_CONTRACT_CASE(Insert, I2_IsInvisibleUntilCommit) {
  auto tx = this->backend().begin();
  auto const e = json_event("a");
  insertion const row{&e};
  this->s().insert(tx->ref(), std::span{&row, 1});
  EXPECT_THAT(this->claim("n/1").rows, IsEmpty());
  tx->commit();
  EXPECT_THAT(this->ids(this->claim("n/2")), ElementsAre("a"));
}

OUTBOX_CONTRACT_CASE(Insert, I2_RolledBackIsNeverSeen) {
  auto tx = this->backend().begin();
  auto const e = json_event("a");
  insertion const row{&e};
  this->s().insert(tx->ref(), std::span{&row, 1});
  tx->rollback();
  EXPECT_THAT(this->claim("n/1").rows, IsEmpty());
  EXPECT_FALSE(this->s().inspect().find("a"));
}

OUTBOX_CONTRACT_CASE(Insert, I2_SavepointTakesOnlyItsRowsAlong) {
  if (!this->backend().has_savepoints()) GTEST_SKIP() << no_savepoints;
  auto tx = this->backend().begin();
  auto const a = json_event("a");
  auto const b = json_event("b");
  auto const c = json_event("c");
  insertion const rows[] = {{&a}, {&b}, {&c}};
  this->s().insert(tx->ref(), std::span{&rows[0], 1});
  tx->savepoint("mark");
  this->s().insert(tx->ref(), std::span{&rows[1], 1});
  tx->rollback_to("mark");
  this->s().insert(tx->ref(), std::span{&rows[2], 1});
  tx->commit();
  EXPECT_THAT(this->ids(this->claim("n/1")), UnorderedElementsAre("a", "c"));
}

OUTBOX_CONTRACT_CASE(Insert, DuplicateIdInOneTransactionIsRefused) {
  auto tx = this->backend().begin();
  auto const e = json_event("a");
  insertion const rows[] = {{&e}, {&e}};
  try {
    this->s().insert(tx->ref(), rows);
    tx->commit();  // a store may send rows together with COMMIT
    FAIL() << "accepted";
  } catch (error const& err) {
    EXPECT_EQ(err.code(), errc::duplicate_event);
    EXPECT_FALSE(err.transient());
  }
}

OUTBOX_CONTRACT_CASE(Insert, DuplicateIdOfACommittedRowIsRefused) {
  this->put(json_event("a"));
  auto tx = this->backend().begin();
  auto const e = json_event("a");
  insertion const row{&e};
  auto const write = [&] {
    this->s().insert(tx->ref(), std::span{&row, 1});
    tx->commit();
  };
  EXPECT_THROW(write(), error);
  EXPECT_EQ(this->s().inspect().counts().pending(), 1U);
}

OUTBOX_CONTRACT_CASE(Insert, TransactionOfAnotherKindIsRefused) {
  static constexpr transaction_operations foreign{
      .kind = "carrier pigeon",
      .active = [](void const*) noexcept { return true; },
      .enlist = [](void*, std::shared_ptr<transaction_observer>) { return false; }};
  auto const e = json_event("a");
  insertion const row{&e};
  int nothing = 0;
  try {
    this->s().insert(transaction_ref{&nothing, foreign}, std::span{&row, 1});
    FAIL() << "accepted";
  } catch (error const& err) {
    EXPECT_EQ(err.code(), errc::wrong_transaction);
  }
}

OUTBOX_CONTRACT_CASE(Insert, TransactionOfAnotherDatabaseIsRefused) {
  auto const other = this->backend().other();
  if (!other) GTEST_SKIP() << no_other_database;
  auto tx = other->begin();
  auto const e = json_event("a");
  insertion const row{&e};
  try {
    this->s().insert(tx->ref(), std::span{&row, 1});
    FAIL() << "accepted";
  } catch (error const& err) {
    EXPECT_EQ(err.code(), errc::wrong_transaction);
  }
  tx->commit();
  EXPECT_FALSE(other->store().inspect().find("a")) << "nothing may have been written";
}

OUTBOX_CONTRACT_CASE(Insert, TransactionIsActiveUntilItEnds) {
  auto tx = this->backend().begin();
  EXPECT_TRUE(tx->ref().active());
  tx->commit();
  EXPECT_FALSE(tx->ref().active());
  EXPECT_EQ(tx->ref().kind(), this->s().capabilities().kind);
}

OUTBOX_CONTRACT_CASE(Insert, ObserverHearsOfTheCommitOnce) {
  auto tx = this->backend().begin();
  auto const e = json_event("a");
  insertion const row{&e, "n/1", lease};
  auto const o = std::make_shared<transaction_notes>(std::vector<std::string>{"a"});
  ASSERT_TRUE(tx->ref().enlist(o));
  this->s().insert(tx->ref(), std::span{&row, 1});
  EXPECT_EQ(o->said, "");
  tx->commit();
  EXPECT_EQ(o->said, "committed;");
}

OUTBOX_CONTRACT_CASE(Insert, ObserverHearsOfTheRollbackOnce) {
  auto tx = this->backend().begin();
  auto const o = std::make_shared<transaction_notes>(std::vector<std::string>{"a"});
  ASSERT_TRUE(tx->ref().enlist(o));
  tx->rollback();
  EXPECT_EQ(o->said, "rolled back;");
}

OUTBOX_CONTRACT_CASE(Insert, DestroyedTransactionIsRolledBack) {
  auto const o = std::make_shared<transaction_notes>(std::vector<std::string>{"a"});
  {
    auto tx = this->backend().begin();
    ASSERT_TRUE(tx->ref().enlist(o));
  }
  EXPECT_EQ(o->said, "rolled back;");
}

OUTBOX_CONTRACT_CASE(Insert, I2_ObserverHearsWhichRowsASavepointTook) {
  if (!this->backend().has_savepoints()) GTEST_SKIP() << no_savepoints;
  auto tx = this->backend().begin();
  auto const a = json_event("a");
  auto const b = json_event("b");
  insertion const rows[] = {{&a, "n/1", lease}, {&b, "n/1", lease}};
  auto const o = std::make_shared<transaction_notes>(std::vector<std::string>{"a", "b"});
  ASSERT_TRUE(tx->ref().enlist(o));
  this->s().insert(tx->ref(), std::span{&rows[0], 1});
  tx->savepoint("mark");
  this->s().insert(tx->ref(), std::span{&rows[1], 1});
  tx->rollback_to("mark");
  tx->commit();
  EXPECT_EQ(o->said, "absent b;committed;");
}

OUTBOX_CONTRACT_CASE(Insert, I2_ARowOfTheSameIdWrittenAfterASavepointIsAnotherRow) {
  if (!this->backend().has_savepoints()) GTEST_SKIP() << no_savepoints;
  auto tx = this->backend().begin();
  auto const a = json_event("a");
  insertion const first{&a, "n/1", lease};
  insertion const second{&a};
  auto const o = std::make_shared<transaction_notes>(std::vector<std::string>{"a"});
  ASSERT_TRUE(tx->ref().enlist(o));
  tx->savepoint("mark");
  this->s().insert(tx->ref(), std::span{&first, 1});
  tx->rollback_to("mark");
  this->s().insert(tx->ref(), std::span{&second, 1});
  tx->commit();
  EXPECT_EQ(o->said, "absent a;committed;");
}

OUTBOX_CONTRACT_CASE(Insert, I11_EveryFieldComesBack) {
  auto const e = event::json("order.placed", R"({"n":1})",
                             {.id = "my-id",
                              .aggregate = {"order", "42"},
                              .tenant = "acme",
                              .headers = {{"trace", "abc"}, {"empty", ""}},
                              .occurred_at = instant{1'700'000'000'123'456us},
                              .ordering_key = "customer-7"});
  auto const back = this->round_trip(e);
  EXPECT_EQ(back.id(), "my-id");
  EXPECT_EQ(back.type(), "order.placed");
  EXPECT_EQ(back.aggregate_type(), "order");
  EXPECT_EQ(back.aggregate_id(), "42");
  EXPECT_EQ(back.tenant(), "acme");
  EXPECT_EQ(back.headers(), e.headers());
  EXPECT_EQ(back.occurred_at(), e.occurred_at());
  EXPECT_EQ(back.ordering_key(), "customer-7");
  EXPECT_EQ(back.content_type(), "application/json");
  EXPECT_EQ(back.kind(), payload_kind::json);
}

OUTBOX_CONTRACT_CASE(Insert, AbsentFieldsComeBackEmpty) {
  auto const back = this->round_trip(json_event("a"));
  EXPECT_EQ(back.aggregate_type(), global_aggregate);
  EXPECT_EQ(back.aggregate_id(), "");
  EXPECT_EQ(back.tenant(), "");
  EXPECT_EQ(back.ordering_key(), "");
  EXPECT_THAT(back.headers(), IsEmpty());
}

OUTBOX_CONTRACT_CASE(Insert, I11_JsonComesBackByteForByte) {
  std::string const text = "{ \"b\":1.0,\n\t\"a\":1e2, \"b\":2, \"u\":\"\\u00e9é😀\", \"big\":12345678901234567890 }";
  EXPECT_EQ(this->round_trip(event::json("t", text)).payload(), text);
}

OUTBOX_CONTRACT_CASE(Insert, I11_EveryByteValueComesBack) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  auto const back = this->round_trip(event::bytes("t", bytes, "application/octet-stream"));
  EXPECT_EQ(back.payload(), bytes);
  EXPECT_EQ(back.kind(), payload_kind::bytes);
  EXPECT_EQ(back.content_type(), "application/octet-stream");
}

OUTBOX_CONTRACT_CASE(Insert, I11_EmptyBytesComeBackEmpty) {
  auto const back = this->round_trip(event::bytes("t", std::string{}, "application/octet-stream"));
  EXPECT_EQ(back.payload(), "");
  EXPECT_EQ(back.kind(), payload_kind::bytes);
}

OUTBOX_CONTRACT_CASE(Insert, I11_TextOfAnyScriptComesBack) {
  auto const e = event::json("häuser.gekauft", R"("שלום")",
                             {.aggregate = {"注文", "№ 4'2\"; DROP TABLE outbox_event; --"},
                              .tenant = "مستأجر",
                              .headers = {{"emoji 😀", "\\ ' \" % _ \t"}}});
  auto const back = this->round_trip(e);
  EXPECT_EQ(back.type(), e.type());
  EXPECT_EQ(back.aggregate_type(), e.aggregate_type());
  EXPECT_EQ(back.aggregate_id(), e.aggregate_id());
  EXPECT_EQ(back.tenant(), e.tenant());
  EXPECT_EQ(back.headers(), e.headers());
  EXPECT_EQ(back.payload(), e.payload());
}

OUTBOX_CONTRACT_CASE(Insert, NamesMayBeAsLongAsTheirColumns) {
  std::string const wide = "é";
  auto const times = [&](std::size_t n) {
    std::string s;
    for (std::size_t i = 0; i < n; ++i) s += wide;
    return s;
  };
  auto const e = event::json(
      times(128), "1",
      {.id = times(36), .aggregate = {times(64), times(128)}, .tenant = times(64), .ordering_key = times(128)});
  auto const back = this->round_trip(e);
  EXPECT_EQ(back.id(), e.id());
  EXPECT_EQ(back.type(), e.type());
  EXPECT_EQ(back.aggregate_id(), e.aggregate_id());
}

OUTBOX_CONTRACT_CASE(Insert, NamesAreComparedByteByByte) {
  this->put(json_event("a"));
  this->put(json_event("A"));
  EXPECT_THAT(this->claim("n/1").rows, SizeIs(2));
}

OUTBOX_CONTRACT_CASE(Insert, LargePayloadComesBack) {
  std::string text(event_limits{}.payload_bytes - 2, 'x');
  text = '"' + text + '"';
  EXPECT_EQ(this->round_trip(event::json("t", text)).payload(), text);
}

OUTBOX_CONTRACT_CASE(Insert, I11_TheDeepestJsonThatANodeMayAllowComesBack) {
  event_limits const deepest{.json_depth = 5000};
  std::string arrays;
  std::string objects = "1";
  for (std::size_t i = 0; i < deepest.json_depth; ++i) objects = "{\"a\":" + objects + '}';
  arrays.append(deepest.json_depth, '[').append(deepest.json_depth, ']');
  for (auto const& text : {arrays, objects}) {
    EXPECT_EQ(this->round_trip(event::json("t", text, {}, deepest)).payload(), text);
  }
}

OUTBOX_CONTRACT_CASE(Insert, ManyRowsInOneCall) {
  std::vector<event> events;
  std::vector<insertion> rows;
  for (int i = 0; i < 2500; ++i) events.push_back(json_event("id-" + std::to_string(i)));
  for (auto const& e : events) rows.push_back({&e});
  auto tx = this->backend().begin();
  this->s().insert(tx->ref(), rows);
  tx->commit();
  EXPECT_EQ(this->s().inspect().counts().created, 2500U);
}

OUTBOX_CONTRACT_CASE(Insert, AnEmptyInsertIsNotAnError) {
  auto tx = this->backend().begin();
  this->s().insert(tx->ref(), {});
  tx->commit();
  EXPECT_EQ(this->s().inspect().counts().pending(), 0U);
}

OUTBOX_CONTRACT_CASE(Insert, ARowWrittenWithAnOwnerIsOwned) {
  this->put_owned(json_event("a"), "node/1");
  EXPECT_THAT(this->claim("other/1").rows, IsEmpty());
  EXPECT_EQ(this->row("a").locked_by, "node/1");
  EXPECT_TRUE(this->settle({"a", "node/1", 0}, outcome::delivered)) << "a birth has no locator yet";
  EXPECT_TRUE(this->finished("a"));
}

OUTBOX_CONTRACT_CASE(Insert, ARowWhoseOwnerVanishedCountsACrash) {
  this->put_owned(json_event("a"), "node/1");
  this->expire();
  auto const reply = this->claim("other/1");
  ASSERT_THAT(reply.rows, SizeIs(1));
  EXPECT_EQ(reply.rows[0].crashes, 1);
  EXPECT_EQ(reply.rows[0].attempts, 0);
}

OUTBOX_CONTRACT_CASE(Insert, SequenceGrowsAndInsertedAtIsTheStoresTime) {
  auto const before = this->s().now() - 1s;  // rows may be moved back to let time pass
  this->put({"a", "b"});
  EXPECT_LT(this->row("a").seq, this->row("b").seq);
  EXPECT_GE(this->row("a").inserted_at, before);
  EXPECT_LE(this->row("b").inserted_at, this->s().now());
}

OUTBOX_CONTRACT_CASE(Insert, I11_InstantsComeBackToTheMicrosecond) {
  using namespace std::chrono;
  instant const first{sys_days{year{1} / 1 / 1}};
  instant const last = instant{sys_days{year{10000} / 1 / 1}} - 1us;
  int n = 0;
  for (instant const t : {first, first + 1us, instant{sys_days{year{1582} / 10 / 4}} + 86'399'999'999us,
                          instant{} - 1us, instant{}, instant{sys_days{year{9999} / 12 / 31}}, last - 1us, last}) {
    SCOPED_TRACE(t.time_since_epoch().count());
    auto const id = "one-" + std::to_string(++n);
    bool const delayed = t != last;  // else it is due at once
    this->put(json_event(id, {.occurred_at = t, .available_at = last}));
    EXPECT_EQ(this->row(id).event.occurred_at(), t);
    EXPECT_EQ(this->row(id).available_at == last, delayed);
    // Some stores write several rows by another statement.
    auto const a = json_event(id + "a", {.occurred_at = t});
    auto const b = json_event(id + "b", {.occurred_at = t, .available_at = last});
    insertion const rows[] = {{&a}, {&b}};
    auto tx = this->backend().begin();
    this->s().insert(tx->ref(), rows);
    tx->commit();
    EXPECT_EQ(this->row(id + "a").event.occurred_at(), t);
    EXPECT_EQ(this->row(id + "b").event.occurred_at(), t);
    EXPECT_EQ(this->row(id + "b").available_at == last, delayed);
  }
  for (auto const& r : this->claim("n/1").rows) {
    EXPECT_EQ(r.event.occurred_at(), this->row(r.event.id()).event.occurred_at()) << "a claim reads as a tool does";
  }
}

OUTBOX_CONTRACT_CASE(Insert, CallersClockDecidesNothing) {
  event_options far;
  far.occurred_at = instant{1us};
  this->put(json_event("old", far));
  far.occurred_at = this->s().now() + 1000h;
  this->put(json_event("future", far));
  EXPECT_THAT(this->ids(this->claim("n/1")), UnorderedElementsAre("old", "future"));
}

}  // namespace outbox::contract

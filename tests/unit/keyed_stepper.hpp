// A keyed node that a test moves by hand, and a store that does what the store in memory never does.
#pragma once

#include <algorithm>
#include <outbox/spi/forwarding_store.hpp>
#include <set>
#include <string>
#include <vector>

#include "unit/stepper.hpp"

namespace outbox::core {

/// A store whose receipts can be empty and whose rows can be unreadable.
class odd_store final : public forwarding_store {
 public:
  using forwarding_store::forwarding_store;

  using forwarding_store::insert;
  void insert(transaction_ref tx, std::span<insertion const> rows,
              std::shared_ptr<insert_receipt> const& receipt) override {
    if (receipt) finished.push_back(receipt->finished);
    if (!receipt || tells) return forwarding_store::insert(tx, rows, receipt);
    forwarding_store::insert(tx, rows, std::make_shared<insert_receipt>());
    receipt->rows.resize(rows.size(), {.known = false});
  }
  claim_reply claim(claim_request const& request) override {
    auto reply = forwarding_store::claim(request);
    for (auto& r : reply.rows) {
      if (unreadable.contains(r.handle.id)) r.malformed = "no type";
    }
    return reply;
  }
  std::vector<place> places(std::span<std::string const> ids) override {
    if (std::exchange(places_fail, false)) throw error{errc::unavailable, "no answer"};
    return forwarding_store::places(ids);
  }

  bool tells = true;  ///< Receipts say where rows stand.
  bool places_fail = false;
  std::set<std::string> unreadable;
  std::vector<std::int64_t>
      finished;  ///< What the node knew of the keys at each insert that asked where its rows stand.
};

/// One node of mode keyed on one table. At the end of every test, the counters must add up.
class keyed_fixture : public ::testing::Test {
 protected:
  explicit keyed_fixture(outbox::v0::on_dead rule = outbox::v0::on_dead::park, std::size_t cold = queue_options{}.cold)
      : dead_rule{rule}, cold_slots{cold} {}
  void SetUp() override {
    db.store->backend().set_keyed(true);
    n.open();
    n.poll_all();
  }
  void TearDown() override {
    auto const c = n.counters();
    EXPECT_EQ(c.hot_enqueued + c.cold_enqueued, c.settled + c.released + c.lost + c.unconfirmed + c.held) << "I13";
    EXPECT_EQ(c.settled, c.delivered + c.failed + c.deferred + c.dead) << "I13";
  }

  void put(std::string const& key, std::initializer_list<char const*> ids, std::string const& type = "t") {
    for (auto const* id : ids) db.put(id, type, {.ordering_key = key});
  }
  /// Writes rows of one key and claims them.
  void claim(std::string const& key, std::initializer_list<char const*> ids, std::string const& type = "t") {
    put(key, ids, type);
    look_again();
  }
  void look_again() {
    n.look([](engine& e) { e.wake(); });
    n.poll_all();
  }
  void settle_all() {
    while (n.settle()) {
    }
  }
  /// The id of the event that a worker takes, or empty.
  std::string begin() {
    auto const t = n.start();
    if (!t) return {};
    running.push_back(t);
    return t->event.id();
  }
  void end(std::string const& id, result r = done) {
    auto const t = std::ranges::find_if(running, [&](ticket_ptr const& each) { return each->event.id() == id; });
    ASSERT_NE(t, running.end()) << id;
    auto const taken = *t;
    running.erase(t);
    n.finish(taken, std::move(r));
  }
  /// The listener's function has returned, its answer comes later.
  void detach(std::string const& id) {
    for (auto const& t : running) {
      if (t->event.id() == id) n.look([&](engine& e) { e.detach(*t, n.now()); });
    }
  }
  /// Goes on until nothing is left; the ids in the order of delivery.
  std::vector<std::string> rest() {
    std::vector<std::string> ids;
    for (int i = 0; i < 100; ++i) {
      n.poll_all();
      n.place();
      for (auto const& id : n.deliver_all()) ids.push_back(id);
      settle_all();
      n.renew();
      n.advance(1s);
    }
    EXPECT_TRUE(empty());
    return ids;
  }
  /// No ticket is left, and no chain.
  bool empty() {
    return n.look(
        [](engine& e) { return e.drained() && e.unsettled() == 0 && e.open_births() == 0 && e.chains() == 0; });
  }
  /// Another node's claim takes rows whose lease is over.
  std::vector<claimed_row> steal(std::size_t limit = 100) {
    return db.store->backend().claim({.token = "other/1", .limit = limit, .lease = 30s, .keyed = true}).rows;
  }
  /// Processes that claimed the row alone have ended so many times.
  void crash(std::string const& id, int times) {
    for (int i = 0; i < times; ++i) {
      auto const rows = db.store->backend().claim(
          {.token = "gone/" + id + std::to_string(i), .limit = 1, .lease = 1s, .keyed = true});
      ASSERT_EQ(rows.rows.at(0).handle.id, id);
      n.advance(1001ms);
    }
  }
  [[nodiscard]] event_status status(std::string const& id) { return db.row(id).status; }
  [[nodiscard]] bool free(std::string const& id) { return db.row(id).locked_by.empty(); }

  std::unique_ptr<detail::routes> routes() {
    listeners l;
    auto const nothing = [](delivery const&) {};
    auto const all_done = [](std::span<delivery const> batch) { return std::vector<result>(batch.size(), done); };
    l.on("t", nothing);
    l.on("quick", nothing, {.timeout = 1s, .retry = retry_policy{.max_attempts = 2}});
    l.on("endless", nothing, {.timeout = 0ms});
    l.on("few", nothing, {.max_in_flight = 1});
    l.on("producer", [](delivery const&, completion) {}, {.timeout = 1s, .keeps_order = true});
    l.on("other.producer", [](delivery const&, completion) {}, {.keeps_order = true});
    l.on("refusing", [](delivery const&, completion c) { c(defer{1s, "the queue is full"}); }, {.keeps_order = true});
    l.on("kept", [this](delivery const&, completion c) { answers.push_back(std::move(c)); }, {.keeps_order = true});
    l.on_batch("batch", all_done, {.max_batch = 3});
    l.on_batch("stream", all_done, {.max_batch = 3, .keeps_order = true});
    return l.release();
  }

  outbox::v0::on_dead dead_rule;
  std::size_t cold_slots;
  std::vector<completion> answers;  ///< Of events of type "kept" whose listener was really called.
  table db;
  std::shared_ptr<odd_store> odd;
  stepper n{db, "n", [this](node_settings& s) {
              s.mode = node_mode::keyed;
              s.keyed = true;
              s.unroutable = unroutable::defer;
              s.on_dead = dead_rule;
              s.routes = routes();
              s.poll.batch = 1000;
              s.queue.cold = cold_slots;
              s.store = odd = std::make_shared<odd_store>(s.store);
            }};
  std::vector<ticket_ptr> running;
};

}  // namespace outbox::core

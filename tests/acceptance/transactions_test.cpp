// Transactions of any shape, drawn at random: ids that are written again, savepoints that are rolled back, two outboxes
// in one transaction, hooks that write on the connection whose transaction has just ended. What was committed is
// delivered once, and nothing else is.
#include <random>
#include <set>

#include "acceptance/suite.hpp"

namespace outbox::acceptance {
namespace {

template <class Database>
class Transactions : public Acceptance<Database> {
 protected:
  // One outbox: its node, what must be delivered, and what was.
  struct outbox_under_test {
    std::optional<node> box{};
    std::set<std::string> committed{};
    std::set<std::string> written{};  ///< By the transaction that is open.
    tally seen{};
  };

  // After a commit, on the thread and perhaps the connection that committed.
  struct following final : writer_hook {
    explicit following(Transactions& t) : test{t} {}
    void after_commit(std::span<event const> events) override {
      if (events.empty() || std::exchange(inside, true)) return;
      auto const id = "after " + events.front().id();
      test.db.transact(true, [&](auto& tx) { test.first.box->writer().write(tx, "t", "1", {.id = id}); });
      test.first.committed.insert(id);
      inside = false;
    }
    Transactions& test;
    bool inside = false;
  };

  void make(outbox_under_test& o, std::shared_ptr<store> s, std::shared_ptr<writer_hook> hook) {
    auto options = this->options();
    options.store = std::move(s);
    options.hook = std::move(hook);
    options.listeners.on("t", [&o](delivery const& d) { o.seen.add(d.id); });
    o.box.emplace(single_node(std::move(options)));
    this->start(*o.box);
  }

  std::vector<outbox_under_test*> outboxes() { return second.box ? std::vector{&first, &second} : std::vector{&first}; }
  int draw(int below) { return static_cast<int>(random() % static_cast<unsigned>(below)); }

  template <class Tx>
  void write(Tx& tx, outbox_under_test& o, std::string const& id) {
    if (!o.written.insert(id).second) return;  // it is there: a second one would be refused
    o.box->writer().write(tx, "t", "1", {.id = id});
  }

  // One transaction over ids that begin with `name`; true if it was committed.
  bool transact(std::string const& name) {
    bool const commit = draw(4) != 0;
    auto const all = outboxes();
    auto const work = [&](auto&& tx) {
      std::optional<std::vector<std::set<std::string>>> mark;
      for (int steps = 1 + draw(8); steps > 0; --steps) {
        auto& o = *all[static_cast<std::size_t>(draw(static_cast<int>(all.size())))];
        switch (draw(5)) {
          case 0:
            if (!this->db.has_savepoints()) break;
            this->savepoint(tx);
            mark.emplace();
            for (auto const* each : all) mark->push_back(each->written);
            break;
          case 1:
            if (!mark) break;
            this->rollback_to_savepoint(tx);
            for (std::size_t i = 0; i < all.size(); ++i) all[i]->written = (*mark)[i];
            mark.reset();  // in memory it is gone
            break;
          default: write(tx, o, name + std::to_string(draw(3)));
        }
      }
    };
    bool by_hand = false;
    if constexpr (requires { this->db.transact_by_hand(commit, work); }) {
      by_hand = draw(2) == 0;
      if (by_hand) this->db.transact_by_hand(commit, work);
    }
    if (!by_hand) this->db.transact(commit, work);
    for (auto* each : all) {
      if (commit) each->committed.merge(each->written);
      each->written.clear();
    }
    return commit;
  }

  outbox_under_test first, second;
  std::minstd_rand random;
};

TYPED_TEST_SUITE(Transactions, Databases, database_name);

TYPED_TEST(Transactions, I1_I2_I7_OfAnyShapeDeliverWhatTheyCommitOnce) {
  this->make(this->first, this->db.shared_store(), std::make_shared<typename TestFixture::following>(*this));
  if constexpr (requires { this->db.open("audit_event"); }) {
    this->make(this->second, this->db.open("audit_event"), nullptr);
  }
  for (unsigned const seed : {1U, 20'261U, 4'711U}) {
    this->random.seed(seed);
    for (int i = 0; i < 60; ++i) {
      // What was rolled back is tried again, with the same ids.
      auto const name = std::to_string(seed) + "." + std::to_string(i) + ".";
      for (int tries = 0; !this->transact(name) && tries < 2; ++tries) {
      }
    }
  }
  this->db.transact(true, [](auto&) {});  // a handle tells of the last ROLLBACK behind a savepoint when it begins anew
  for (auto* o : this->outboxes()) {
    ASSERT_TRUE(o->seen.reach(o->committed.size()));
    EXPECT_TRUE(o->box->stop(60s));
    for (auto const& id : o->committed) EXPECT_EQ(o->seen.of(id), 1) << id;
    EXPECT_EQ(o->seen.total(), o->committed.size());
    EXPECT_GT(o->committed.size(), 50U);
  }
}

}  // namespace
}  // namespace outbox::acceptance

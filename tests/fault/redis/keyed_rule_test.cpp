// The rule of a claim that keeps the order of keys is written twice: in C++ for stores that walk their rows, and in
// Lua. Random work on a store in memory and on Redis must come to the same.
#include <map>
#include <random>

#include "backends/memory.hpp"
#include "backends/redis.hpp"
#include "outbox_fixture.hpp"

namespace outbox {
namespace {

using spi::outcome;

// Instants of different kinds never fall together: the stores' clocks differ by the time that the test takes.
constexpr auto step = 10s;  // between two changes
constexpr auto lease = 44s;
constexpr auto delays = std::array{12s, 36s, 68s};

std::string text_of(row_view const& r) {
  std::string const blocked = !r.blocked ? "out of line" : *r.blocked ? "blocked" : "";
  return r.event.id() + " " + std::to_string(static_cast<int>(r.status)) + " " + blocked + " " + r.locked_by + " " +
         std::to_string(r.attempts) + " " + std::to_string(r.crashes);
}

std::vector<std::string> texts_of(std::vector<spi::claimed_row> const& rows) {
  std::vector<std::string> all;
  for (auto const& r : rows) {
    all.push_back(r.handle.id + " " + r.key + " " + std::to_string(r.seq) + " " + std::to_string(r.crashes) +
                  (r.tried ? " tried" : ""));
  }
  return all;
}

std::vector<std::string> texts_of(std::vector<spi::place> const& places) {
  std::vector<std::string> all;
  for (auto const& p : places) all.push_back(std::to_string(p.seq) + " " + p.before + (p.known ? "" : " unknown"));
  return all;
}

/// Two stores to which the same is done.
class Twins {
 public:
  explicit Twins(unsigned seed) : random_{seed} {
    for (auto* s : stores_) s->set_keyed(true);
  }

  void do_something() {
    switch (pick(12)) {
      case 0:
      case 1:
      case 2: return write();
      case 3:
      case 4:
      case 5: return claim();
      case 6:
      case 7:
      case 8: return settle();
      case 9: return renew_or_release();
      case 10: return operate();
      default: return look();
    }
  }
  void let_time_pass() {
    auto const by = step * (pick(8) == 0 ? 10 : 1);
    memory_.advance(by);
    redis_.advance(by);
  }
  void expect_same_rows() {
    std::vector<std::string> rows[2];
    for (int i = 0; i < 2; ++i) {
      for (auto const& r : stores_[i]->list({}, spi::list_order::oldest_first, 1000)) rows[i].push_back(text_of(r));
    }
    EXPECT_EQ(rows[0], rows[1]);
  }

 private:
  std::size_t pick(std::size_t n) { return std::uniform_int_distribution<std::size_t>{0, n - 1}(random_); }
  bool toss(std::size_t of = 2) { return pick(of) == 0; }
  template <class F>
  auto both(F&& f) {
    return std::pair{f(*stores_[0]), f(*stores_[1])};
  }
  std::vector<spi::claimed_row> some_held() {
    std::vector<spi::claimed_row> some;
    for (auto const& r : held_) {
      if (toss()) some.push_back(r);
    }
    return some;
  }
  std::vector<std::string> some_ids() {
    std::vector<std::string> ids;
    for (int i = 0; i < 3; ++i) ids.push_back("e" + std::to_string(pick(written_ + 1)));
    return ids;
  }

  void write() {
    std::vector<event> events;
    std::vector<spi::insertion> rows;
    auto const token = toss(3) ? "n/" + std::to_string(++tokens_) : std::string{};
    for (auto n = 1 + pick(6); n > 0; --n) {
      event_options o{.id = "e" + std::to_string(++written_)};
      if (!toss(6)) o.ordering_key = std::string(1, static_cast<char>('a' + pick(3)));
      if (toss(8)) o.deliver_after = std::chrono::milliseconds{delays[pick(3)]};
      auto const payload = '"' + std::string(toss(4) ? 600 : 10, 'x') + '"';
      events.push_back(event::json(toss(5) ? "rare" : "t", payload, std::move(o)));
    }
    for (auto const& e : events) rows.push_back({&e, e.delayed() ? std::string_view{} : token, lease});
    auto const told = both([&](spi::store& s) {
      auto const receipt = std::make_shared<spi::insert_receipt>();
      s.insert(join(no_transaction), rows, receipt);
      return texts_of(receipt->rows);
    });
    EXPECT_EQ(told.first, told.second);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (rows[i].token.empty()) continue;
      held_.push_back({.handle = {events[i].id(), token}, .event = events[i], .key = spi::key_of(events[i])});
    }
  }

  void claim() {
    spi::claim_request r{.token = "n/" + std::to_string(++tokens_), .limit = 1 + pick(toss() ? 4 : 40), .lease = lease};
    r.max_crashes = 3;
    r.keyed = !toss(10);
    r.run = 1 + pick(toss() ? 2 : 12);
    if (toss(3)) r.max_bytes = 200 + pick(3000);
    if (toss(4)) r.suspects = spi::suspects::take_one;
    r.unowned_only = toss(5);
    r.retries_only = toss(6);
    if (toss(6)) r.skip_recent = 25s;
    if (toss(4)) r.pauses = {{"rare", ""}};
    while (toss() && written_ > 0) r.leave.push_back("e" + std::to_string(written_ - pick(std::min(written_, 15UL))));
    auto const [a, b] = both([&](spi::store& s) { return s.claim(r); });
    EXPECT_EQ(texts_of(a.rows), texts_of(b.rows));
    EXPECT_EQ(a.dead.size(), b.dead.size());
    EXPECT_EQ(a.noted, b.noted);
    EXPECT_EQ(a.more, b.more);
    EXPECT_EQ(a.suspects_waiting, b.suspects_waiting);
    if (!a.more && r.skip_recent == 0s) {
      ASSERT_EQ(a.next_due.has_value(), b.next_due.has_value());
      if (a.next_due) {
        EXPECT_LT(std::chrono::abs((*a.next_due - a.now) - (*b.next_due - b.now)), 2s);
      }
    }
    held_.insert(held_.end(), a.rows.begin(), a.rows.end());
  }

  // Also of rows that were lost meanwhile.
  void settle() {
    std::vector<spi::settlement> items;
    for (auto const& r : some_held()) {
      auto const what = std::array{outcome::delivered, outcome::delivered, outcome::retry,
                                   outcome::defer,     outcome::dead,      outcome::release}[pick(6)];
      bool const leaves = what == outcome::delivered || (what == outcome::dead && toss());
      auto const row = stores_[0]->inspect().find(r.handle.id);
      // The note of a DEAD row is cleared by a replay on Redis only.
      if (what == outcome::dead && row && row->blocked == true) continue;
      items.push_back({.row = r.handle,
                       .outcome = what,
                       .counted = what == outcome::retry ? 1 : 0,
                       .delay = delays[pick(3)],
                       .error = what == outcome::delivered ? "" : "said",
                       .key = leaves && row && row->blocked ? r.key : std::string{},
                       .seq = row ? row->seq : 0});
    }
    auto const [a, b] = both([&](spi::store& s) { return s.settle(items); });
    EXPECT_EQ(a.applied, b.applied);
    EXPECT_EQ(a.unblocked, b.unblocked);
    std::erase_if(held_, [&](auto const& h) {
      return std::ranges::any_of(
          items, [&](auto const& s) { return s.row.token == h.handle.token && s.row.id == h.handle.id; });
    });
  }

  void renew_or_release() {
    auto const some = some_held();
    if (toss(3)) {
      std::vector<owner_token> tokens;
      for (auto const& r : some) tokens.push_back(r.handle.token);
      auto const [a, b] = both([&](spi::store& s) { return s.release(tokens, lease); });
      EXPECT_EQ(a, b);
      return;
    }
    std::vector<spi::row_handle> handles;
    for (auto const& r : some) handles.push_back(r.handle);
    auto const [a, b] = both([&](spi::store& s) { return s.renew(handles, lease); });
    EXPECT_EQ(a, b);
  }

  void operate() {
    event_filter const f{.ids = some_ids()};
    auto const verb = pick(6);
    auto const [a, b] = both([&](spi::store& s) -> std::size_t {
      if (verb == 0) return s.cancel(f, "no", 2);
      if (verb == 1) return s.replay({}, 2);
      if (verb == 2) return s.discard({}, 1);  // several may be several scripts, each with an instant of its own
      if (verb == 3) return s.purge(f, 3);
      if (verb == 4) return s.purge_by_age({.age = 305s, .limit = 1000});
      return s.heal(5);
    });
    EXPECT_EQ(a, b) << "verb " << verb;
  }

  void look() {
    auto const ids = some_ids();
    auto const [a, b] = both([&](spi::store& s) { return texts_of(s.places(ids)); });
    EXPECT_EQ(a, b);
    auto const [k, l] = both([&](spi::store& s) {
      std::vector<std::string> keys;
      for (auto const& p : s.parked_keys(10)) keys.push_back(p.key + " " + p.id + " " + std::to_string(p.waiting));
      return keys;
    });
    EXPECT_EQ(k, l);
    if (toss(10)) {
      for (bool const mark : {false, true}) {
        for (auto* s : stores_) s->set_keyed(mark);
      }
    }
  }

  std::mt19937 random_;
  memory_backend memory_{memory::options{.requires_transaction = false}};
  redis_backend redis_;
  spi::store* const stores_[2] = {&memory_.store(), &redis_.store()};
  std::vector<spi::claimed_row> held_;
  std::size_t written_ = 0;
  std::size_t tokens_ = 0;
};

class RedisKeyedRule : public ::testing::TestWithParam<unsigned> {};

TEST_P(RedisKeyedRule, IsThatOfTheStoreInMemory) {
  Twins twins{GetParam()};
  for (int i = 0; i < 120 && !HasFailure(); ++i) {
    SCOPED_TRACE("change " + std::to_string(i));
    twins.do_something();
    twins.expect_same_rows();
    twins.let_time_pass();
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RedisKeyedRule, ::testing::Range(1U, 7U));

}  // namespace
}  // namespace outbox

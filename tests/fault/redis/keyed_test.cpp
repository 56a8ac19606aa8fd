// Order per key on Redis: long lines in bounded scripts, several stores at once, and rows that vanish.
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "outbox_fixture.hpp"

namespace outbox {
namespace {

using spi::outcome;

class RedisKeyed : public RedisOutbox {
 protected:
  explicit RedisKeyed(redis_server& s = redis_server::shared()) : RedisOutbox{s} { b.set_keyed(true); }

  // Writes rows of one key with ids that begin with `prefix`.
  void put_in(std::string const& of, std::string const& prefix, int count) {
    for (int from = 0; from < count; from += 500) {
      std::vector<event> events;
      std::vector<spi::insertion> rows;
      for (int i = from; i < std::min(count, from + 500); ++i) {
        events.push_back(event::json("t", "1", {.id = prefix + std::to_string(10'000 + i), .ordering_key = of}));
      }
      for (auto const& e : events) rows.push_back({&e});
      b.insert(join(no_transaction), rows);
    }
  }
  void put_in(std::string const& of, std::initializer_list<char const*> ids) {
    for (auto const* id : ids) write(event::json("t", "1", {.id = id, .ordering_key = of}));
  }
  spi::place write(event const& e) {
    spi::insertion const row{&e};
    auto const receipt = std::make_shared<spi::insert_receipt>();
    b.insert(join(no_transaction), std::span{&row, 1}, receipt);
    return receipt->rows.at(0);
  }
  static spi::claim_request request(std::string token, std::size_t limit = 100, std::size_t run = 64) {
    return {.token = std::move(token), .limit = limit, .lease = 30s, .keyed = true, .run = run};
  }
  static std::vector<std::string> ids(spi::claim_reply const& reply) {
    std::vector<std::string> all;
    for (auto const& r : reply.rows) all.push_back(r.handle.id);
    return all;
  }
  std::vector<std::string> take(std::string token, std::size_t limit = 100) {
    return ids(b.claim(request(std::move(token), limit)));
  }
  spi::settle_reply end(spi::claimed_row const& r, outcome what) {
    bool const leaves = what == outcome::delivered;
    spi::settlement const s{.row = r.handle,
                            .outcome = what,
                            .delay = what == outcome::retry ? 3'600'000ms : 0ms,
                            .error = leaves ? "" : "failed",
                            .key = leaves ? r.key : std::string{},
                            .seq = r.seq};
    return b.settle(std::span{&s, 1});
  }
  std::optional<bool> blocked(std::string const& id) { return outbox->inspect().find(id)->blocked; }
  [[nodiscard]] std::int64_t size_of(std::string const& set) { return db.command("ZCARD", key(set)).number; }
  [[nodiscard]] std::size_t lines() { return db.command("KEYS", pattern("line:*")).elements.size(); }

  std::shared_ptr<store> outbox = open();
  spi::store& b = outbox->backend();

 private:
  [[nodiscard]] std::string pattern(std::string const& rest) const { return "*" + name + "}:" + rest; }
};

struct server_alone {
  redis_server alone;
};

// On a server of its own, whose scripts can be counted.
class RedisKeyedScripts : private server_alone, public RedisKeyed {
 protected:
  RedisKeyedScripts() : RedisKeyed{alone} {}

  // How many scripts `f` runs, of which each looks at a thousand rows at most.
  template <class F>
  std::int64_t scripts_of(F&& f) {
    auto const before = scripts();
    f();
    return scripts() - before;
  }

 private:
  std::int64_t scripts() {
    auto const stats = db.command("INFO", "commandstats").text;
    std::int64_t calls = 0;
    for (std::string const word : {"cmdstat_evalsha:calls=", "cmdstat_eval:calls="}) {
      auto const at = stats.find(word);
      if (at != std::string::npos) calls += std::stoll(stats.substr(at + word.size()));
    }
    return calls;
  }
};

// Those that were discarded before are DEAD too, and in the way of no later call.
TEST_F(RedisKeyedScripts, WhatWasDiscardedIsNotLookedAtAgain) {
  constexpr int rows = 2500;
  for (int i = 0; i < rows; ++i) put_in("k" + std::to_string(i), {("e" + std::to_string(10'000 + i)).c_str()});
  std::vector<spi::settlement> deaths;
  for (auto const& r : b.claim(request("n/1", rows)).rows) {
    deaths.push_back({.row = r.handle, .outcome = outcome::dead, .error = "failed", .seq = r.seq});
  }
  static_cast<void>(b.settle(deaths));
  EXPECT_EQ(size_of("dead_in_line"), rows);
  EXPECT_EQ(b.discard({}, 2300), 2300U);
  std::size_t discarded = 0;
  EXPECT_EQ(scripts_of([&] { discarded = b.discard({}, 100); }), 2) << "one finds them, one changes them";
  EXPECT_EQ(discarded, 100U);
  ASSERT_THAT(b.parked_keys(1), SizeIs(1));  // the server knows the script now
  EXPECT_EQ(scripts_of([&] { discarded = b.parked_keys(1000).size(); }), 2) << "a hundred a script";
  EXPECT_EQ(discarded, 100U);
  EXPECT_EQ(b.discard({}, 1000), 100U);
  EXPECT_EQ(size_of("dead_in_line"), 0);
  EXPECT_EQ(size_of("dead"), rows);
}

TEST_F(RedisKeyedScripts, AFailingHeadWithALongLineIsNotedInBoundedScriptsOnce) {
  put_in("k", {"head"});
  ASSERT_EQ(end(b.claim(request("n/1")).rows.at(0), outcome::retry).applied, std::vector{true});
  put_in("k", "follower", 5000);
  put_in("l", {"other"});
  spi::claim_reply reply;
  EXPECT_GE(scripts_of([&] { reply = b.claim(request("n/2")); }), 6);
  EXPECT_THAT(ids(reply), ElementsAre("other"));
  EXPECT_EQ(reply.noted, 5000U);
  EXPECT_EQ(size_of("blocked"), 5000);
  EXPECT_EQ(scripts_of([&] { reply = b.claim(request("n/3")); }), 1) << "they are not seen again";
  EXPECT_EQ(reply.noted, 0U);
}

// No row is noted then. Those that wait are passed over, and the next claim finds them.
TEST_F(RedisKeyedScripts, WithoutTheMarkAClaimPassesOverALongLineOnce) {
  b.set_keyed(false);
  put_in("k", {"head"});
  auto const head = b.claim(request("n/1")).rows;
  ASSERT_THAT(head, SizeIs(1));
  put_in("k", "follower", 1500);
  put_in("l", {"other"});
  spi::claim_reply reply;
  EXPECT_EQ(scripts_of([&] { reply = b.claim(request("n/2")); }), 2);
  EXPECT_THAT(ids(reply), ElementsAre("other"));
  EXPECT_EQ(reply.noted, 0U);
  EXPECT_EQ(size_of("blocked"), 0);
  end(head[0], outcome::delivered);
  auto next = request("n/3");
  next.floor = reply.floor;
  EXPECT_THAT(b.claim(next).rows, SizeIs(64)) << "the floor leaves none of them out";
}

TEST_F(RedisKeyed, RowsThatWereTakenDoNotWaitForALongLineToBeNoted) {
  put_in("k", {"head"});
  ASSERT_EQ(end(b.claim(request("n/1")).rows.at(0), outcome::retry).applied, std::vector{true});
  put_in("l", {"other"});
  put_in("k", "follower", 5000);
  auto reply = b.claim(request("n/2"));
  EXPECT_THAT(ids(reply), ElementsAre("other"));
  EXPECT_LT(reply.noted, 2000U);
  EXPECT_TRUE(reply.more);
  auto next = request("n/3");
  next.floor = reply.floor;
  EXPECT_EQ(b.claim(next).noted, 5000 - reply.noted) << "the floor leaves none of them out";
}

TEST_F(RedisKeyedScripts, AFailingHeadIsClaimedAloneHoweverLongItsLine) {
  put_in("k", {"head"});
  ASSERT_EQ(end(b.claim(request("n/1")).rows.at(0), outcome::retry).applied, std::vector{true});
  put_in("k", "follower", 3000);
  ASSERT_EQ(b.claim(request("n/2")).noted, 3000U);
  db.command("EVAL",
             "redis.call('HSET', KEYS[1] .. 'event:head', 'available_at', 1) "
             "redis.call('ZADD', KEYS[1] .. 'due', 1, '0000000000000001head') return 1",
             1, key(""));
  spi::claim_reply reply;
  EXPECT_EQ(scripts_of([&] { reply = b.claim(request("n/3")); }), 1);
  EXPECT_THAT(ids(reply), ElementsAre("head"));
  EXPECT_EQ(end(reply.rows[0], outcome::delivered).unblocked, 1U);
  EXPECT_THAT(take("n/4"), SizeIs(64)) << "its run";
}

// What an earlier part of a claim took is known in the later ones.
TEST_F(RedisKeyed, AClaimOfSeveralScriptsTakesALongKeyInOrder) {
  put_in("k", "e", 2500);
  auto const reply = b.claim(request("n/1", 2500, 2500));
  ASSERT_THAT(reply.rows, SizeIs(2500));
  for (std::size_t i = 1; i < reply.rows.size(); ++i) ASSERT_LT(reply.rows[i - 1].seq, reply.rows[i].seq);
  EXPECT_EQ(reply.noted, 0U);
}

TEST_F(RedisKeyed, TheRunOfAKeyCountsInAllScriptsOfAClaim) {
  put_in("k", "e", 1500);
  auto const reply = b.claim(request("n/1", 2500, 1200));
  EXPECT_THAT(reply.rows, SizeIs(1200));
  EXPECT_EQ(reply.noted, 300U);
}

TEST_F(RedisKeyed, ARunThatReachesTheEndOfAScriptLeavesTheRestBlocked) {
  put_in("k", {"head"});
  auto const head = b.claim(request("n/1")).rows;
  put_in("k", "e", 2500);
  ASSERT_EQ(b.claim(request("n/2")).noted, 2500U);
  end(head.at(0), outcome::delivered);
  auto const reply = b.claim(request("n/3", 2500, 2500));
  ASSERT_THAT(reply.rows, SizeIs(::testing::Ge(900U)));
  for (std::size_t i = 0; i < reply.rows.size(); ++i) {
    EXPECT_EQ(reply.rows[i].handle.id, "e" + std::to_string(10'000 + i));
  }
  for (auto const& r : reply.rows) end(r, outcome::delivered);
  EXPECT_THAT(take("n/4", 1), ElementsAre("e" + std::to_string(10'000 + reply.rows.size()))) << "the key goes on";
}

TEST_F(RedisKeyedScripts, RemovingTheMarkClearsThreeThousandNotesInBoundedScripts) {
  put_in("k", {"head"});
  ASSERT_THAT(take("n/1"), SizeIs(1));
  put_in("k", "e", 3000);
  ASSERT_EQ(b.claim(request("n/2")).noted, 3000U);
  EXPECT_GE(scripts_of([&] { b.set_keyed(false); }), 4);
  EXPECT_FALSE(b.settings().keyed);
  EXPECT_EQ(size_of("blocked"), 0);
  EXPECT_EQ(blocked("e12999"), false);
  EXPECT_THAT(claim(*outbox, "n/3", 5000), SizeIs(3000)) << "nodes of other modes find them";
}

TEST_F(RedisKeyedScripts, HealingLooksAtALongLineInBoundedScriptsAndLeavesIt) {
  put_in("k", {"head"});
  ASSERT_THAT(take("n/1"), SizeIs(1));
  put_in("k", "e", 3000);
  ASSERT_EQ(b.claim(request("n/2")).noted, 3000U);
  std::size_t healed = 1;
  EXPECT_GE(scripts_of([&] { healed = b.heal(1000); }), 3);
  EXPECT_EQ(healed, 0U);
  EXPECT_EQ(size_of("blocked"), 3000);
}

// The thread that heals renews leases too.
TEST_F(RedisKeyedScripts, HealingOfVeryManyNotesStopsAndTheNextCallGoesOn) {
  constexpr int rows = 200'500;
  constexpr int at_once = 20'000;
  put_in("k", {"head"});
  ASSERT_THAT(take("n/1"), SizeIs(1));
  for (int from = 2; from <= rows; from += at_once) {
    db.command("EVAL",
               "for i = tonumber(ARGV[1]), tonumber(ARGV[2]) do "
               "redis.call('HSET', KEYS[1] .. 'event:e' .. i, 'key', '=k', 'status', 'NEW', 'blocked', '1') "
               "redis.call('ZADD', KEYS[1] .. 'blocked', i, string.format('%016de%d', i, i)) end",
               1, key(""), from, std::min(rows, from + at_once - 1));
  }
  db.command("HSET", key("event:stray"), "key", "=z", "status", "NEW", "blocked", 1, "available_at", 1);
  db.command("ZADD", key("blocked"), 900'000, "0000000000900000stray");
  auto healed = b.heal(10);
  EXPECT_EQ(healed, 0U) << "it looks at two hundred thousand rows";
  for (int i = 0; i < 250 && healed == 0; ++i) healed = b.heal(10);
  EXPECT_EQ(healed, 1U);
  EXPECT_EQ(db.command("HGET", key("event:stray"), "blocked").text, "0");
}

TEST_F(RedisKeyed, HealingThatStoppedAtItsLimitGoesOnBehindIt) {
  auto const note = [&](std::string const& id, int seq) {
    auto const m = "000000000000000" + std::to_string(seq) + id;
    db.command("HSET", key("event:") + id, "blocked", 1);
    db.command("ZREM", key("due"), m);
    db.command("ZADD", key("blocked"), seq, m);
  };
  int seq = 0;
  for (auto const* id : {"a", "b", "c"}) {
    put_in(id, {id});
    note(id, ++seq);
  }
  EXPECT_EQ(b.heal(1), 1U);
  EXPECT_EQ(blocked("a"), false);
  note("a", 1);
  EXPECT_EQ(b.heal(1), 1U);
  EXPECT_EQ(blocked("a"), true);
  EXPECT_EQ(blocked("b"), false);
  EXPECT_EQ(b.heal(10), 2U) << "c, and then a";
}

// Dead rows in line that stand behind others do not park their keys.
TEST_F(RedisKeyedScripts, ParkedKeysLooksAtTenThousandDeadRows) {
  put_in("k", {"head"});
  db.command("EVAL",
             "for i = 2, 12000 do "
             "redis.call('HSET', KEYS[1] .. 'event:e' .. i, 'key', '=k', 'status', 'DEAD', 'blocked', '0') "
             "redis.call('ZADD', KEYS[1] .. 'dead_in_line', i, string.format('%016de%d', i, i)) end",
             1, key(""));
  ASSERT_THAT(b.parked_keys(1), IsEmpty());  // the server knows the script now
  EXPECT_EQ(scripts_of([&] { EXPECT_THAT(b.parked_keys(1000), IsEmpty()); }), 100) << "a hundred a script";
}

// Nothing is settled, so a key belongs to the claim that has its head: another one that has rows of it overtook.
TEST_F(RedisKeyed, StoresThatClaimAtTheSameTimeNeverTakeRowsOfOneKeyInTwoClaims) {
  constexpr int keys = 40;
  for (int n = 0; n < 10; ++n) {
    for (int k = 0; k < keys; ++k) {
      auto const id = std::to_string(k) + "-" + std::to_string(n);
      write(event::json("t", "1", {.id = id, .ordering_key = std::to_string(k)}));
    }
  }
  std::mutex mutex;
  std::map<std::string, std::set<std::string>> tokens_of;
  std::map<std::string, std::vector<std::int64_t>> rows_of;
  std::vector<std::thread> threads;
  for (std::string const node : {"m", "n", "o", "p"}) {
    threads.emplace_back([&, node] {
      auto const own = open();
      for (int n = 0, empty = 0; empty < 3; ++n) {
        auto const reply = own->backend().claim(request(node + "/" + std::to_string(n), 7, 5));
        empty = reply.rows.empty() ? empty + 1 : 0;
        std::lock_guard const lock{mutex};
        for (auto const& r : reply.rows) {
          tokens_of[r.key].insert(r.handle.token);
          rows_of[r.key].push_back(r.seq);
        }
      }
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_THAT(tokens_of, SizeIs(keys)) << "no key is held up by another one";
  for (auto const& [k, tokens] : tokens_of) EXPECT_THAT(tokens, SizeIs(1)) << k;
  for (auto const& [k, rows] : rows_of) EXPECT_TRUE(std::ranges::is_sorted(rows)) << k;
}

// With settlements: the ledger of each key is in the order of its rows, and no key stops.
TEST_F(RedisKeyed, StoresThatClaimAndSettleAtTheSameTimeKeepEveryKeyInOrder) {
  constexpr int keys = 12;
  constexpr int rows = 25;
  std::mutex mutex;
  std::map<std::string, std::vector<std::int64_t>> ledger;
  std::atomic<int> delivered = 0;
  std::vector<std::thread> threads;
  threads.emplace_back([&] {
    auto const own = open();
    for (int n = 0; n < rows; ++n) {
      for (int k = 0; k < keys; ++k) {
        auto const e = event::json("t", "1", {.ordering_key = std::to_string(k)});
        spi::insertion const row{&e};
        own->backend().insert(join(no_transaction), std::span{&row, 1});
      }
    }
  });
  for (std::string const node : {"m", "n", "o"}) {
    threads.emplace_back([&, node] {
      auto const own = open();
      auto& s = own->backend();
      for (std::size_t n = 0; delivered < keys * rows && n < 20'000; ++n) {
        auto const claimed = s.claim(request(node + "/" + std::to_string(n), 9, 1 + n % 6)).rows;
        std::vector<spi::settlement> items;
        std::set<std::string> failed;
        for (auto const& r : claimed) {
          bool const fails = failed.contains(r.key) || (static_cast<std::size_t>(r.seq) + n) % 5 == 0;
          if (fails) failed.insert(r.key);
          items.push_back({.row = r.handle,
                           .outcome = fails ? outcome::retry : outcome::delivered,
                           .key = fails ? std::string{} : r.key,
                           .seq = r.seq});
          if (fails) continue;
          std::lock_guard const lock{mutex};
          ledger[r.key].push_back(r.seq);
        }
        auto const applied = s.settle(items).applied;
        for (std::size_t i = 0; i < items.size(); ++i) {
          ASSERT_TRUE(applied[i]);
          delivered += items[i].outcome == outcome::delivered ? 1 : 0;
        }
      }
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(delivered, keys * rows) << "a key stopped";
  for (auto const& [k, seqs] : ledger) EXPECT_TRUE(std::ranges::is_sorted(seqs)) << k;
  EXPECT_EQ(size_of("blocked"), 0);
  EXPECT_EQ(b.heal(10), 0U);
  EXPECT_EQ(lines(), 0U);
}

TEST_F(RedisKeyed, ALineKeepsNoRowThatHasLeftIt) {
  put_in("done", {"a", "b"});
  put_in("dead", {"c"});
  put_in("cancelled", {"d"});
  put_in("discarded", {"e"});
  auto const rows = b.claim(request("n/1")).rows;
  ASSERT_THAT(rows, SizeIs(5));
  for (auto const& r : rows) {
    end(r, r.handle.id == "c" || r.handle.id == "e" ? outcome::dead
           : r.handle.id == "d"                     ? outcome::release
                                                    : outcome::delivered);
  }
  EXPECT_EQ(b.cancel({.ids = {"d"}}, "no", 1), 1U);
  EXPECT_EQ(b.discard({.ids = {"e"}}, 1), 1U);
  EXPECT_EQ(lines(), 2U) << "two dead rows park their keys";
  EXPECT_EQ(b.purge({.retention = 0s, .limit = 10}), 1U) << "what is in line stays";
  b.set_keyed(false);
  EXPECT_EQ(b.purge({.retention = 0s, .limit = 10}), 2U);
  EXPECT_EQ(lines(), 0U);
}

TEST_F(RedisKeyed, AKeyGoesOnAfterItsOldestRowsWerePurgedByAge) {
  put_in("k", {"a", "b"});
  ASSERT_THAT(take("n/1", 1), ElementsAre("a"));
  ASSERT_EQ(b.claim(request("n/2")).noted, 1U);
  db.command("HSET", key("event:a"), "inserted_at", 1);
  EXPECT_EQ(b.purge_by_age({.age = 1h, .limit = 10}), 1U);
  EXPECT_THAT(take("n/3"), IsEmpty());
  EXPECT_EQ(b.heal(10), 1U);
  EXPECT_THAT(take("n/4"), ElementsAre("b"));
}

TEST_F(RedisKeyed, ARowWhoseKeyWasDeletedHoldsUpNothing) {
  put_in("k", {"a", "b", "c"});
  db.command("DEL", key("event:a"), key("event:b"));
  std::vector<std::string> const asked{"c"};
  EXPECT_EQ(b.places(asked).at(0).before, "");
  EXPECT_THAT(take("n/1"), ElementsAre("c"));
  EXPECT_EQ(size_of("line:=k"), 1) << "only c";
  db.command("DEL", key("event:c"));
  auto const place = write(event::json("t", "1", {.id = "d", .ordering_key = "k"}));
  EXPECT_EQ(place.before, "");
  EXPECT_TRUE(place.known);
  EXPECT_THAT(take("n/2"), ElementsAre("d"));
}

TEST_F(RedisKeyed, BehindManyRowsWhoseKeysWereDeletedAPlaceIsNotKnown) {
  put_in("k", "gone", 150);
  for (int i = 0; i < 150; ++i) db.command("DEL", key("event:gone") + std::to_string(10'000 + i));
  EXPECT_FALSE(write(event::json("t", "1", {.id = "a", .ordering_key = "k"})).known);
  std::vector<std::string> const asked{"a"};
  EXPECT_FALSE(b.places(asked).at(0).known);
  EXPECT_THAT(take("n/1"), ElementsAre("a"));
  EXPECT_TRUE(b.places(asked).at(0).known) << "the claim has put the line in order";
}

TEST_F(RedisKeyed, ARunPassesOverRowsWhoseKeysWereDeleted) {
  put_in("k", {"a", "b", "c"});
  auto const first = b.claim(request("n/1", 1)).rows;
  ASSERT_EQ(b.claim(request("n/2")).noted, 2U);
  end(first.at(0), outcome::release);
  db.command("DEL", key("event:b"));
  EXPECT_THAT(take("n/3"), ElementsAre("a", "c"));
}

TEST_F(RedisKeyed, ARunEndsBeforeARowThatAnEarlierClaimCouldNotTake) {
  put_in("k", {"a", "b", "c", "d"});
  auto const first = b.claim(request("n/1", 1)).rows;
  ASSERT_EQ(b.claim(request("n/2")).noted, 3U);
  end(first.at(0), outcome::delivered);
  auto r = request("n/3");
  r.leave = {"c"};
  EXPECT_THAT(ids(b.claim(r)), ElementsAre("b"));
}

TEST_F(RedisKeyed, ADelayThatAnotherProgramPutInLineHoldsUpNothing) {
  write(event::json("t", "1", {.id = "late", .deliver_after = 1h, .ordering_key = "k"}));
  write(event::json("t", "1", {.id = "later", .deliver_after = 2h, .ordering_key = "k"}));
  db.command("HSET", key("event:late"), "blocked", 0);
  db.command("HSET", key("event:later"), "blocked", 0);
  db.command("ZADD", key("line:=k"), 1, "0000000000000001late", 2, "0000000000000002later");
  put_in("k", {"a"});
  EXPECT_THAT(take("n/1"), ElementsAre("a"));
  EXPECT_EQ(blocked("late"), std::nullopt);
  EXPECT_EQ(blocked("later"), std::nullopt);
}

// A row that was deferred is no delay of a writer, whatever else it looks like.
TEST_F(RedisKeyed, ARowThatWasDeferredWithoutAnErrorStaysInLine) {
  put_in("k", {"a"});
  auto const row = b.claim(request("n/1")).rows.at(0);
  spi::settlement const s{.row = row.handle, .outcome = outcome::defer, .delay = 1h};
  ASSERT_EQ(b.settle(std::span{&s, 1}).applied, std::vector{true});
  put_in("k", {"b"});
  EXPECT_THAT(take("n/2"), IsEmpty());
  EXPECT_EQ(blocked("a"), false);
  EXPECT_EQ(blocked("b"), true);
}

// An owner whose lease was over may end a row that a claim has noted meanwhile.
TEST_F(RedisKeyed, ARowThatDiedWhileItWasBlockedCanBeReplayed) {
  put_in("k", {"a", "b"});
  auto const rows = b.claim(request("n/1")).rows;
  ASSERT_THAT(rows, SizeIs(2));
  auto const m = "0000000000000002b";
  db.command("HSET", key("event:b"), "blocked", 1);
  db.command("ZREM", key("leased"), m);
  db.command("ZADD", key("blocked"), 2, m);
  ASSERT_EQ(end(rows[1], outcome::dead).applied, std::vector{true});
  EXPECT_EQ(end(rows[0], outcome::delivered).unblocked, 0U) << "b parks the key";
  EXPECT_EQ(b.replay({.ids = {"b"}}, 1), 1U);
  EXPECT_THAT(take("n/2"), ElementsAre("b"));
}

TEST_F(RedisKeyed, ATransactionTellsWhereItsEventsStand) {
  put_in("k", {"a"});
  auto const told = [&](std::initializer_list<char const*> written) {
    redis::transaction tx{db};
    auto const receipt = std::make_shared<spi::insert_receipt>();
    std::vector<event> events;
    for (auto const* id : written) events.push_back(event::json("t", "1", {.id = id, .ordering_key = "k"}));
    for (auto const& e : events) {
      spi::insertion const row{&e};
      b.insert(join(tx), std::span{&row, 1}, receipt);
    }
    // Another writer of the key, whose commit comes first.
    put_in("k", {"between"});
    tx.commit();
    std::vector<std::string> before;
    for (auto const& p : receipt->rows) before.push_back(p.known ? p.before : "unknown");
    return before;
  };
  EXPECT_THAT(told({"b", "c"}), ElementsAre("between", "b"));
  EXPECT_THAT(take("n/1"), ElementsAre("a", "between", "b", "c"));
}

}  // namespace
}  // namespace outbox

// MULTI and EXEC with events in them: all of it or nothing, and a listener that is called only for what is there.
#include <hiredis/hiredis.h>

#include "outbox_fixture.hpp"
#include "support/tcp_proxy.hpp"

namespace outbox {
namespace {

using redis::value;

// A node whose poller does not come by itself, so that what is delivered came by the hot path.
class RedisTransaction : public RedisOutbox {
 protected:
  RedisTransaction() {
    multi_node_options o{.store = outbox, .log = nullptr};
    o.poll.every = 1h;
    o.listeners.on("t", [this](delivery const& d) {
      std::lock_guard const lock{mutex};
      (d.path == path::hot ? hot : cold).push_back(d.id);
      ++calls;
    });
    box.emplace(multi_node(std::move(o)));
    box->start();
  }

  void write(redis::transaction& tx, std::string const& id) { box->writer().write(tx, "t", "1", {.id = id}); }
  [[nodiscard]] bool there(std::string const& id) { return outbox->inspect().find(id).has_value(); }
  [[nodiscard]] bool delivered(int n) {
    return eventually([&] { return calls == n; });
  }
  // Proves that nothing comes late: a later event has been delivered, and settled.
  void expect_only(std::vector<std::string> const& ids) {
    box->writer().write(no_transaction, "t", "1", {.id = "fence"});
    ASSERT_TRUE(delivered(static_cast<int>(ids.size()) + 1));
    std::lock_guard const lock{mutex};
    std::vector<std::string> all = ids;
    all.emplace_back("fence");
    EXPECT_THAT(hot, ::testing::UnorderedElementsAreArray(all));
    EXPECT_THAT(cold, IsEmpty());
  }

  std::shared_ptr<store> outbox = open();
  std::mutex mutex;
  std::vector<std::string> hot, cold;
  std::atomic<int> calls = 0;
  std::optional<node> box;
};

TEST_F(RedisTransaction, KeysAndEventsTakeEffectTogetherAndTheEventGoesHot) {
  redis::transaction tx{db};
  tx.command("SET", key("order"), 42);
  tx.command("INCRBY", key("sum"), 7);
  write(tx, "a");
  EXPECT_TRUE(db.command("GET", key("order")).nil()) << "nothing was sent yet";
  EXPECT_FALSE(there("a"));
  auto const answers = tx.commit();
  ASSERT_THAT(answers, SizeIs(2));
  EXPECT_EQ(answers[0].text, "OK");
  EXPECT_EQ(answers[1].number, 7);
  EXPECT_EQ(db.command("GET", key("order")).text, "42");
  expect_only({"a"});
}

TEST_F(RedisTransaction, I2_WhatWasRolledBackIsNeverThere) {
  {
    redis::transaction tx{db};
    tx.command("SET", key("order"), 1);
    write(tx, "a");
    tx.rollback();
    EXPECT_FALSE(tx.active());
  }
  {
    redis::transaction tx{db};
    write(tx, "b");
  }
  EXPECT_TRUE(db.command("GET", key("order")).nil());
  EXPECT_FALSE(there("a") || there("b"));
  expect_only({});
}

TEST_F(RedisTransaction, I2_AWatchedKeyThatAnotherClientChangedUndoesAllOfIt) {
  redis::connection other{server.url()};
  db.command("SET", key("stock"), 1);
  {
    redis::transaction tx{db, {key("stock")}};
    EXPECT_EQ(db.command("GET", key("stock")).text, "1") << "reads are allowed before the commit";
    tx.command("DECR", key("stock"));
    write(tx, "a");
    other.command("SET", key("stock"), 0);
    auto const e = error_by([&] { tx.commit(); });
    EXPECT_TRUE(e.transient());
    EXPECT_THAT(e.what(), HasSubstr("another client changed a key"));
    EXPECT_FALSE(tx.active());
  }
  EXPECT_EQ(db.command("GET", key("stock")).text, "0");
  EXPECT_FALSE(there("a"));
  redis::transaction again{db, {key("stock")}};
  again.command("SET", key("stock"), 5);
  write(again, "a");
  again.commit();
  expect_only({"a"});
}

TEST_F(RedisTransaction, AWatchEndsWithItsTransaction) {
  redis::connection other{server.url()};
  { redis::transaction const tx{db, {key("k")}}; }
  other.command("SET", key("k"), 1);
  redis::transaction tx{db};
  write(tx, "a");
  tx.commit();
  expect_only({"a"});
}

TEST_F(RedisTransaction, AnIdThatIsTakenRefusesTheKeysToo) {
  box->writer().write(no_transaction, "t", "1", {.id = "taken", .deliver_after = 1h});
  redis::transaction tx{db};
  tx.command("INCR", key("sum"));
  write(tx, "new");
  write(tx, "taken");
  auto const e = error_by([&] { tx.commit(); });
  EXPECT_EQ(e.code(), errc::duplicate_event);
  EXPECT_THAT(e.what(), HasSubstr("taken"));
  EXPECT_TRUE(db.command("GET", key("sum")).nil()) << "Redis could not have undone it";
  EXPECT_FALSE(there("new"));
  redis::transaction next{db};
  next.command("INCR", key("sum"));
  next.commit();
  EXPECT_EQ(db.command("GET", key("sum")).text, "1") << "the connection is as it was";
}

TEST_F(RedisTransaction, AnIdThatAnotherProgramTakesMeanwhileRefusesTheKeysToo) {
  redis::connection other{server.url()};
  redis::transaction tx{db};
  tx.command("INCR", key("sum"));
  write(tx, "race");
  other.command("HSET", key("event:race"), "status", "NEW");
  auto const e = error_by([&] { tx.commit(); });
  EXPECT_EQ(e.code(), errc::duplicate_event) << "it is found before anything is sent";
  EXPECT_TRUE(db.command("GET", key("sum")).nil());
}

TEST_F(RedisTransaction, TheSameIdTwiceInOneTransactionIsRefusedAtOnce) {
  redis::transaction tx{db};
  write(tx, "a");
  EXPECT_EQ(error_by([&] { write(tx, "a"); }).code(), errc::duplicate_event);
  tx.commit();
  expect_only({"a"});
}

TEST_F(RedisTransaction, ACommandThatTheServerRefusesBeforehandUndoesAllOfIt) {
  redis::transaction tx{db};
  tx.command("SET", key("order"), 1);
  tx.command("NOSUCHCOMMAND", "x");
  write(tx, "a");
  auto const e = error_by([&] { tx.commit(); });
  EXPECT_EQ(e.code(), errc::store_failure);
  EXPECT_THAT(e.what(), HasSubstr("nothing took effect"));
  EXPECT_TRUE(db.command("GET", key("order")).nil());
  EXPECT_FALSE(there("a"));
  expect_only({});
}

// Redis cannot undo. The error says what is so.
TEST_F(RedisTransaction, ACommandThatFailsWhenItIsCarriedOutLeavesTheRestAndSaysSo) {
  db.command("SET", key("text"), "x");
  redis::transaction tx{db};
  tx.command("SET", key("order"), 1);
  tx.command("INCR", key("text"));
  write(tx, "a");
  auto const e = error_by([&] { tx.commit(); });
  EXPECT_EQ(e.code(), errc::store_failure);
  EXPECT_THAT(e.what(), HasSubstr("command 2 of the transaction failed, and everything else in it took effect"));
  EXPECT_EQ(db.command("GET", key("order")).text, "1");
  expect_only({"a"});
}

TEST_F(RedisTransaction, CommandsThatBelongToTheTransactionAreRefused) {
  redis::transaction tx{db};
  for (auto const* word : {"MULTI", "exec", "Discard", "WATCH", "unwatch", "RESET", "QUIT", ""}) {
    EXPECT_EQ(error_by([&] { tx.command(word); }).code(), errc::invalid_option) << word;
  }
  write(tx, "a");
  tx.commit();
  expect_only({"a"});
}

TEST_F(RedisTransaction, AfterItsEndItRefusesEverything) {
  redis::transaction tx{db};
  tx.commit();
  EXPECT_EQ(error_by([&] { tx.commit(); }).code(), errc::no_transaction);
  EXPECT_EQ(error_by([&] { tx.command("PING"); }).code(), errc::no_transaction);
  EXPECT_EQ(error_by([&] { write(tx, "a"); }).code(), errc::no_transaction);
}

TEST_F(RedisTransaction, AConnectionHasOneTransactionAtATime) {
  redis::transaction tx{db};
  EXPECT_EQ(error_by([&] { redis::transaction second{db}; }).code(), errc::no_transaction);
  tx.rollback();
  redis::transaction third{db};
  write(third, "a");
  third.commit();
  expect_only({"a"});
}

// A hook runs when the transaction has ended, on its connection.
TEST_F(RedisTransaction, AHookMayBeginTheNextTransactionOnTheSameConnection) {
  struct next_write final : writer_hook {
    void after_commit(std::span<event const> events) override {
      if (events.front().id() != "first") return;
      redis::transaction tx{*connection};
      box->writer().write(tx, "t", "1", {.id = "second"});
      tx.commit();
    }
    redis::connection* connection = nullptr;
    node* box = nullptr;
  };
  auto const hook = std::make_shared<next_write>();
  multi_node_options o{.store = outbox, .log = nullptr, .hook = hook};
  std::atomic<int> seen = 0;
  o.poll.every = 1h;
  o.listeners.on("t", [&](delivery const&) { ++seen; });
  auto n = multi_node(std::move(o));
  hook->connection = &db;
  hook->box = &n;
  n.start();
  redis::transaction tx{db};
  n.writer().write(tx, "t", "1", {.id = "first"});
  tx.commit();
  EXPECT_TRUE(eventually([&] { return seen == 2; }));
}

TEST_F(RedisTransaction, WordsMayHoldAnyBytes) {
  std::string const bytes{"\0\r\n*3\r\n$\xFF", 10};
  redis::transaction tx{db};
  tx.command("SET", key("bytes"), bytes);
  tx.command("SET", key("empty"), "");
  tx.command("SET", key("number"), -9'223'372'036'854'775'807LL);
  write(tx, "a");
  tx.commit();
  EXPECT_EQ(db.command("GET", key("bytes")).text, bytes);
  EXPECT_EQ(db.command("GET", key("empty")).text, "");
  EXPECT_EQ(db.command("GET", key("number")).text, "-9223372036854775807");
}

TEST_F(RedisTransaction, EventsForTwoOutboxesAndManyInOne) {
  auto o = options();
  o.name += "-second";
  auto const second = redis::open(server.url(), o);
  auto other = writer_only({.store = second, .log = nullptr});
  redis::transaction tx{db};
  std::vector<event> many;
  for (int i = 0; i < 500; ++i) many.push_back(event::json("t", "1"));
  box->writer().write_all(tx, many);
  other.writer().write(tx, "t", "1", {.id = "x"});
  box->writer().write(tx, "t", "1", {.id = "x"});
  tx.commit();
  EXPECT_TRUE(delivered(501));
  EXPECT_TRUE(second->inspect().find("x"));
}

TEST_F(RedisTransaction, AnotherServerIsRefusedBeforeAnythingIsSent) {
  redis_server elsewhere;
  redis::connection there_db{elsewhere.url()};
  redis::transaction tx{there_db};
  tx.command("SET", "k", 1);
  EXPECT_EQ(error_by([&] { write(tx, "a"); }).code(), errc::wrong_transaction);
  auto o = options();
  static_cast<void>(redis::open(elsewhere.url(), o));  // the same name, and another outbox
  EXPECT_EQ(error_by([&] { write(tx, "a"); }).code(), errc::wrong_transaction);
  EXPECT_NO_THROW(tx.commit());
}

TEST_F(RedisTransaction, I2_ACommitWhoseAnswerIsLostFiresNoHookAndThePollerDecides) {
  tcp_proxy proxy{server.port()};
  redis::connection through{server.url_through(proxy.port())};
  for (auto const where : {tcp_proxy::cut::before_reply, tcp_proxy::cut::before_request}) {
    bool const done = where == tcp_proxy::cut::before_reply;
    std::string const id = done ? "applied" : "lost";
    redis::connection c{server.url_through(proxy.port())};
    redis::transaction tx{c};
    tx.command("SET", key(id), "COMMIT");  // the word that the proxy looks for
    box->writer().write(tx, event::json("t", "1"));
    proxy.cut_commit(where);
    auto const e = error_by([&] { tx.commit(); });
    proxy.cut_commit(tcp_proxy::cut::nowhere);
    EXPECT_TRUE(e.in_doubt()) << e.what();
    EXPECT_EQ(db.command("GET", key(id)).nil(), !done);
  }
  EXPECT_TRUE(hot.empty()) << "nothing proves that it is there";
  ASSERT_TRUE(eventually([&] {
    box->poll_once();
    return calls == 1;
  })) << "the poller finds the one that is";
  std::lock_guard const lock{mutex};
  EXPECT_THAT(cold, SizeIs(1));
}

TEST_F(RedisTransaction, AConnectionOfHiredisJoinsToo) {
  std::unique_ptr<redisContext, void (*)(redisContext*)> const c{redisConnect("127.0.0.1", server.port()), redisFree};
  ASSERT_EQ(c->err, 0);
  {
    redis::transaction tx{c.get(), {key("stock")}};
    tx.command("SET", key("order"), 1);
    write(tx, "a");
    EXPECT_EQ(tx.commit().at(0).text, "OK");
  }
  {
    redis::transaction tx{c.get()};
    write(tx, "b");
  }
  auto* const reply = static_cast<redisReply*>(redisCommand(c.get(), "GET %s", key("order").c_str()));
  EXPECT_STREQ(reply->str, "1") << "the connection is the application's, as it was";
  freeReplyObject(reply);
  expect_only({"a"});
}

TEST_F(RedisTransaction, ABrokenConnectionOfHiredisIsRefused) {
  EXPECT_EQ(error_by([] { redis::transaction tx{static_cast<redisContext*>(nullptr)}; }).code(), errc::unavailable);
  std::unique_ptr<redisContext, void (*)(redisContext*)> const refused{redisConnect("127.0.0.1", 1), redisFree};
  EXPECT_EQ(error_by([&] { redis::transaction tx{refused.get()}; }).code(), errc::unavailable);
  std::unique_ptr<redisContext, void (*)(redisContext*)> const open{redisConnectNonBlock("127.0.0.1", server.port()),
                                                                    redisFree};
  EXPECT_EQ(error_by([&] { redis::transaction tx{open.get()}; }).code(), errc::unsupported);
}

TEST_F(RedisTransaction, TransactionsMayOutliveTheNodeAndTheStore) {
  redis::transaction tx{db};
  write(tx, "a");
  box->stop(5s);
  box.reset();
  outbox.reset();
  EXPECT_NO_THROW(tx.commit());
  auto const again = open();
  EXPECT_TRUE(again->inspect().find("a"));
}

}  // namespace
}  // namespace outbox

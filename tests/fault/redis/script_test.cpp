// Scripts of the application that write events, and what other programs do to the keys of an outbox.
#include "outbox_fixture.hpp"

namespace outbox {
namespace {

class RedisScript : public RedisOutbox {
 protected:
  redis::value run(std::string const& script) {
    return db.command("EVAL", std::string{redis::write_script()} + script, 1, key(""));
  }
  redis::value write(std::string const& event) { return run("return outbox.write(KEYS[1], " + event + ")"); }

  std::shared_ptr<store> outbox = open();
};

TEST_F(RedisScript, WritesAnEventTogetherWithWhatElseItDoes) {
  auto const seq =
      run("local seq = outbox.write(KEYS[1], {id = 'a', type = 'order.placed', payload = '{\"n\":1}', aggregate_type = "
          "'order', aggregate_id = '42', tenant = 'acme', ordering_key = 'k', headers = {trace = 'abc'}}) "
          "redis.call('SET', KEYS[1] .. 'order', '42') return seq");
  EXPECT_EQ(seq.number, 1);
  EXPECT_EQ(db.command("GET", key("order")).text, "42");
  auto const rows = outbox->backend().claim({.token = "n/1", .limit = 10, .lease = 30s}).rows;
  ASSERT_THAT(rows, SizeIs(1));
  auto const& e = rows[0].event;
  EXPECT_EQ(rows[0].malformed, "");
  EXPECT_EQ(e.id(), "a");
  EXPECT_EQ(e.type(), "order.placed");
  EXPECT_EQ(e.payload(), "{\"n\":1}");
  EXPECT_EQ(e.aggregate_type(), "order");
  EXPECT_EQ(e.aggregate_id(), "42");
  EXPECT_EQ(e.tenant(), "acme");
  EXPECT_EQ(e.ordering_key(), "k");
  EXPECT_EQ(e.headers().at("trace"), "abc");
  EXPECT_EQ(e.content_type(), "application/json");
  EXPECT_EQ(rows[0].key, spi::key_of(e)) << "computed twice, once in Lua";
}

TEST_F(RedisScript, KeysAreThoseOfTheLibrary) {
  for (std::string const fields :
       {"aggregate_type = 'ä', aggregate_id = '1'", "aggregate_id = '1'", "aggregate_type = 'a'",
        "ordering_key = '1:a1'", "aggregate_type = 'a:b', aggregate_id = 'c'", "tenant = 'x'"}) {
    write("{id = '" + std::to_string(fields.size()) + "', type = 't', payload = '1', " + fields + "}");
  }
  for (auto const& r : outbox->backend().claim({.token = "n/1", .limit = 10, .lease = 30s}).rows) {
    EXPECT_EQ(r.key, spi::key_of(r.event));
    EXPECT_EQ(db.command("HGET", key("event:") + r.event.id(), "key").text, r.key);
  }
}

TEST_F(RedisScript, ANodeHearsOfItAtOnce) {
  multi_node_options o{.store = outbox, .log = nullptr};
  o.poll.every = 1h;
  std::atomic<int> seen = 0;
  o.listeners.on("t", [&](delivery const& d) { seen += d.path == path::cold ? 1 : 0; });
  auto n = multi_node(std::move(o));
  n.start();
  write("{id = 'a', type = 't', payload = '1'}");
  EXPECT_TRUE(eventually([&] { return seen == 1; })) << "long before it polls again";
}

TEST_F(RedisScript, BytesAndDelaysAndTheirOrder) {
  write(
      "{id = 'later', type = 't', payload = '\\0\\255', content_type = 'application/octet-stream', delay_ms = "
      "3600000}");
  write("{id = 'now', type = 't', payload = 'null'}");
  EXPECT_THAT(claim(*outbox), ElementsAre("now"));
  auto const row = *outbox->inspect().find("later");
  EXPECT_EQ(row.event.payload(), std::string("\0\xFF", 2));
  EXPECT_EQ(row.event.kind(), payload_kind::bytes);
  EXPECT_EQ(row.blocked, std::nullopt) << "outside the order of its key";
  EXPECT_GT(row.available_at, row.inserted_at + 59min);
}

TEST_F(RedisScript, WhatIsWrongIsRefusedBeforeAnythingIsChanged) {
  std::string const wide(129, 'x');
  struct {
    std::string event, says;
  } const bad[] = {
      {"{type = 't', payload = '1'}", "id must be a text"},
      {"{id = '', type = 't', payload = '1'}", "id must not be empty"},
      {"{id = 'a', payload = '1'}", "type must be a text"},
      {"{id = 'a', type = 't'}", "payload must be a text"},
      {"{id = 'a', type = 't', payload = '{'}", "payload is not JSON"},
      {"{id = 'a', type = 't', payload = 7}", "payload must be a text"},
      {"{id = 'a', type = '" + wide + "', payload = '1'}", "type has more than 128 characters"},
      {"{id = 'a\\0b', type = 't', payload = '1'}", "id has a NUL in it"},
      {"{id = 'a', type = 't', payload = '1', delay_ms = 0}", "delay_ms must be a number"},
      {"{id = 'a', type = 't', payload = '1', delay_ms = '9'}", "delay_ms must be a number"},
      {"{id = 'a', type = 't', payload = '1', headers = {a = 'b\\r\\nc'}}", "headers must be texts"},
      {"{id = 'a', type = 't', payload = '1', tenant = 5}", "tenant must be a text"},
      {"{id = 'a', type = 't\\255', payload = '1'}", "type is not UTF-8"},
      {"{id = 'a', type = '\\237\\160\\128', payload = '1'}", "type is not UTF-8"},
      {"{id = 'a', type = 't', payload = 'nan'}", "payload is not JSON"},
      {"{id = 'a', type = 't', payload = '[-Infinity]'}", "payload is not JSON"},
      {"{id = 'a', type = 't', payload = '[0x10]'}", "payload is not JSON"},
      {"{id = 'a', type = 't', payload = '\"\\255\"'}", "payload is not JSON"},
      {"{id = 'a', type = 't', payload = '1', headers = {a = '\\255'}}", "headers must be texts"},
  };
  for (auto const& b : bad) {
    auto const e = error_by([&] { write(b.event); });
    EXPECT_THAT(e.what(), HasSubstr(b.says)) << b.event;
  }
  EXPECT_EQ(outbox->inspect().counts().pending(), 0U);
  EXPECT_EQ(db.command("EXISTS", key("event:a"), key("payload:a"), key("open"), key("due")).number, 0);
}

TEST_F(RedisScript, JsonAndTextOfAnyKindAreTaken) {
  int n = 0;
  for (std::string const payload : {"null", "true", "[]", "{}", "-1.5e+10",
                                    R"({"a\\"b\\\\":"x nan 0x10 \\u00e9", "c":[false, 1E5]})", R"("שלום 😀 é")"}) {
    auto const id = std::to_string(++n);
    write("{id = '" + id + "', type = 'häuser 😀', payload = '" + payload + "'}");
    EXPECT_TRUE(outbox->inspect().find(id)) << payload;
  }
}

// New users of Redis 7 may not use channels.
TEST_F(RedisScript, AUserThatMayNotPublishWritesAllTheSame) {
  redis_server own;
  auto const s = redis::open(own.url(), options());
  own.ask({"ACL", "SETUSER", "app", "on", ">secret", "+@all", "~*", "resetchannels"});
  redis::connection app{"redis://app:secret@127.0.0.1:" + std::to_string(own.port())};
  app.command("EVAL",
              std::string{redis::write_script()} +
                  "outbox.write(KEYS[1], {id = 'a', type = 't', payload = '1'}) "
                  "redis.call('SET', KEYS[1] .. 'order', '1')",
              1, key(""));
  EXPECT_THAT(claim(*s), ElementsAre("a"));
  EXPECT_EQ(own.ask({"GET", key("order")}), "1") << "all of the script took effect";
}

TEST_F(RedisScript, AnIdThatIsTakenAndAnOutboxThatIsNotThereAreRefused) {
  write("{id = 'a', type = 't', payload = '1'}");
  EXPECT_THAT(error_by([&] { write("{id = 'a', type = 't', payload = '2'}"); }).what(),
              HasSubstr("OUTBOX_DUPLICATE a"));
  auto const e = error_by([&] {
    db.command("EVAL", std::string{redis::write_script()} + "outbox.write(KEYS[1], {id='a', type='t', payload='1'})", 1,
               "{nothing}:");
  });
  EXPECT_THAT(e.what(), HasSubstr("is not the beginning of an outbox"));
}

TEST_F(RedisScript, ARowWhoseKeyWasDeletedIsForgotten) {
  put(*outbox, "gone");
  put(*outbox, "here");
  db.command("DEL", key("event:gone"));
  EXPECT_THAT(claim(*outbox), ElementsAre("here"));
  EXPECT_EQ(outbox->inspect().counts().pending(), 1U);
}

// Everything that looks at rows meets those that are gone, and goes on.
TEST_F(RedisScript, RowsWhoseKeysWereDeletedAreInNobodysWay) {
  auto& b = outbox->backend();
  std::vector<event> events;
  std::vector<spi::insertion> rows;
  for (int i = 0; i < 70; ++i) events.push_back(event::json("t", "1", {.id = "r" + std::to_string(10 + i)}));
  for (auto const& e : events) rows.push_back({&e});
  b.insert(join(no_transaction), rows);
  db.command("DEL", key("event:r10"), key("event:r11"));
  auto const claimed = b.claim({.token = "n/1", .limit = 100, .lease = 30s, .in_order = true}).rows;
  ASSERT_THAT(claimed, SizeIs(68));
  for (std::size_t i = 0; i < claimed.size(); ++i)
    EXPECT_EQ(claimed[i].handle.id, "r" + std::to_string(12 + i)) << "I5";
  std::vector<spi::settlement> items;
  for (auto const& r : claimed) items.push_back({.row = r.handle, .outcome = spi::outcome::retry, .delay = 1h});
  static_cast<void>(b.settle(items));
  EXPECT_EQ(outbox->inspect().counts().retry, 68U);
  db.command("DEL", key("event:r12"));
  EXPECT_EQ(b.cancel({}, "no", 100), 67U);
  db.command("DEL", key("event:r13"));
  EXPECT_EQ(b.purge({.retention = 0s, .limit = 100}), 67U) << "one of them was gone already";
  EXPECT_EQ(b.purge({.retention = 0s, .limit = 100}), 0U);
  EXPECT_EQ(db.command("EXISTS", key("dead"), key("dead_at"), key("payload:r13")).number, 0);
}

TEST_F(RedisScript, AKeyWhoseFirstRowWasDeletedGoesOn) {
  auto& b = outbox->backend();
  for (auto const* id : {"a", "b"}) {
    auto const e = event::json("t", "1", {.id = id, .ordering_key = "k"});
    spi::insertion const row{&e};
    b.insert(join(no_transaction), std::span{&row, 1});
  }
  auto const m = "0000000000000002b";  // as a claim that keeps an order per key notes it
  db.command("HSET", key("event:b"), "blocked", 1);
  db.command("ZREM", key("due"), m);
  db.command("ZADD", key("blocked"), 2, m);
  db.command("DEL", key("event:a"));
  EXPECT_EQ(b.heal(10), 1U);
  EXPECT_THAT(claim(*outbox), ElementsAre("b"));
}

TEST_F(RedisScript, ARowWhosePayloadWasDeletedIsDeadAndSaysWhy) {
  put(*outbox, "a");
  db.command("DEL", key("payload:a"));
  auto const rows = outbox->backend().claim({.token = "n/1", .limit = 10, .lease = 30s}).rows;
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0].malformed, "its payload is not there");
}

TEST_F(RedisScript, AKeyOfAnotherTypeIsAnErrorAndNothingIsHalfDone) {
  put(*outbox, "a");
  db.command("SET", key("leased"), "not a sorted set");
  EXPECT_EQ(error_by([&] { claim(*outbox); }).code(), errc::store_failure);
  db.command("DEL", key("leased"));
  EXPECT_THAT(claim(*outbox), ElementsAre("a"));
}

// A newer library may add fields to rows and to the outbox; nodes of this one work beside it, and leave them alone.
TEST_F(RedisScript, WhatANewerLibraryAddsStaysAndDoesNoHarm) {
  put(*outbox, "a");
  put(*outbox, "b");
  for (auto const* id : {"a", "b"}) db.command("HSET", key("event:") + id, "new_field", "new value", "shard", 7);
  db.command("HSET", key("meta"), "version", spi::schema_version + 1, "new_setting", "x");
  auto const older = open();
  auto rows = older->backend().claim({.token = "n/1", .limit = 10, .lease = 30s}).rows;
  ASSERT_THAT(rows, SizeIs(2));
  spi::settlement const items[] = {{.row = rows[0].handle, .outcome = spi::outcome::retry, .counted = 1, .error = "no"},
                                   {.row = rows[1].handle, .outcome = spi::outcome::dead, .error = "no"}};
  EXPECT_THAT(older->backend().settle(items).applied, ElementsAre(true, true));
  EXPECT_EQ(older->backend().replay({}, 10), 1U);
  for (auto const* id : {"a", "b"}) {
    EXPECT_EQ(db.command("HGET", key("event:") + id, "new_field").text, "new value");
    EXPECT_EQ(db.command("HGET", key("event:") + id, "shard").text, "7");
  }
  EXPECT_EQ(db.command("HGET", key("meta"), "new_setting").text, "x");
}

TEST_F(RedisScript, AnOutboxThatNeedsANewerLibraryIsRefused) {
  db.command("HSET", key("meta"), "version", 99, "oldest_library", 99);
  auto const e = error_by([&] { static_cast<void>(open()); });
  EXPECT_EQ(e.code(), errc::store_failure);
  EXPECT_THAT(e.what(), HasSubstr("needs a newer library"));
  EXPECT_EQ(outbox->backend().settings().oldest_library, 99) << "nodes that run read it at each renewal";
}

TEST_F(RedisScript, ARowWithAStatusOfANewerLibraryIsLeftAlone) {
  put(*outbox, "a");
  put(*outbox, "b");
  db.command("HSET", key("event:a"), "status", "ARCHIVED");
  EXPECT_THAT(claim(*outbox), ElementsAre("b"));
  EXPECT_EQ(outbox->backend().cancel({}, "no", 10), 1U);
  EXPECT_EQ(outbox->backend().purge(event_filter{}, 10), 1U);
  EXPECT_EQ(db.command("HGET", key("event:a"), "status").text, "ARCHIVED");
}

// The server forgets scripts when it restarts, and when an operator says so.
TEST_F(RedisScript, AServerThatHasForgottenTheScriptsGetsThemAgain) {
  redis_server own;
  auto const s = redis::open(own.url(), options());
  put(*s, "a");
  own.ask({"SCRIPT", "FLUSH"});
  put(*s, "b");
  own.ask({"SCRIPT", "FLUSH"});
  EXPECT_THAT(claim(*s), ElementsAre("a", "b"));
}

}  // namespace
}  // namespace outbox

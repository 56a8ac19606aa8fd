// `outbox grants` on Redis: a user that has exactly the rules of a role can do its work, and with one rule less it
// cannot.
#include <atomic>
#include <fstream>
#include <sstream>

#include "fault/tool/verb_fixture.hpp"
#include "support/findings.hpp"

namespace outbox {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::vector<std::string> words_of(std::string const& text) {
  std::istringstream in{text};
  std::vector<std::string> all;
  for (std::string word; in >> word;) all.push_back(word);
  return all;
}

/// A server of its own: users and settings belong to a whole server.
class RedisRules : public ::testing::Test {
 protected:
  /// The URL of the outbox "shop", as this user. An empty user may do everything.
  [[nodiscard]] std::string url_as(std::string const& user) const {
    return "redis://" + (user.empty() ? "" : user + ":pw@") + "127.0.0.1:" + std::to_string(server.port()) +
           "/0?outbox.name=shop&outbox.done_rows=keep";
  }
  [[nodiscard]] std::string connection_as(std::string const& user) const {
    auto const url = url_as(user);
    return url.substr(0, url.find('?'));
  }

  /// What the verb prints: one rule each.
  std::vector<std::string> rules_of(std::string const& role) {
    auto const r = run_tool({"grants", role, "--user", "u", "--json", "--db", url_as("")});
    EXPECT_EQ(r.status, 0) << r.err;
    std::vector<std::string> rules;
    auto const printed = nlohmann::json::parse(r.out);
    for (auto const& statement : printed.at("statements")) {
      auto const words = words_of(statement);
      EXPECT_THAT(std::vector(words.begin(), words.begin() + 3), ElementsAre("ACL", "SETUSER", "u"));
      rules.insert(rules.end(), words.begin() + 3, words.end());
    }
    EXPECT_GT(rules.size(), 6U);
    return rules;
  }
  void make_user(std::string const& name, std::vector<std::string> rules) {
    rules.insert(rules.begin(), {"ACL", "SETUSER", name, "reset", "on", ">pw"});
    server.ask(rules);
  }
  tool_result run_as(std::string const& user, std::vector<std::string> arguments) {
    arguments.insert(arguments.begin() + 1, {"--db", url_as(user)});
    return run_tool(std::move(arguments));
  }
  void expect_refused(std::string const& user, std::vector<std::string> const& command) {
    redis::connection as_user{connection_as(user)};
    try {
      if (command.size() == 2) as_user.command(command[0], command[1]);
      if (command.size() == 3) as_user.command(command[0], command[1], command[2]);
      if (command.size() == 4) as_user.command(command[0], command[1], command[2], command[3]);
      ADD_FAILURE() << user << " may " << command[0];
    } catch (error const& e) {
      EXPECT_THAT(e.what(), AnyOf(HasSubstr("NOPERM"), HasSubstr("ACL failure"), HasSubstr("can't run this command")))
          << command[0];
    }
  }

  /// An outbox with rows in every state, of which the server knows no script.
  void fill() {
    server.ask({"FLUSHALL"});
    server.ask({"SCRIPT", "FLUSH"});
    admin = open_store(url_as(""), {.log = nullptr});
    auto box = writer_only({.store = admin, .log = nullptr});
    for (auto const* const id : {"a", "b", "c", "d", "e", "done", "dead", "parked"}) {
      box.writer().write(no_transaction, "t", "1", {.id = id, .aggregate = {"order", id}});
    }
    box.writer().write(no_transaction, "t", "1", {.id = "behind", .aggregate = {"order", "parked"}});
    auto const claimed = admin->backend().claim({.token = "setup/1", .limit = 100, .lease = 30s});
    for (auto const& r : claimed.rows) {
      bool const dead = r.handle.id == "dead" || r.handle.id == "parked";
      spi::settlement const s{.row = r.handle,
                              .outcome = dead                    ? spi::outcome::dead
                                         : r.handle.id == "done" ? spi::outcome::delivered
                                                                 : spi::outcome::release,
                              .error = dead ? "HTTP 422" : ""};
      ASSERT_TRUE(admin->backend().settle(std::span{&s, 1}).applied.at(0));
    }
    server.ask({"EVAL",
                "local m = string.format('%016d', redis.call('HGET', '{shop}:event:e', 'seq')) .. 'e' "
                "redis.call('HSET', '{shop}:event:e', 'blocked', '1') redis.call('ZREM', '{shop}:due', m) "
                "redis.call('ZADD', '{shop}:blocked', string.sub(m, 1, 16), m)",
                "0"});
    // The row "a" was tried before.
    server.ask({"EVAL",
                "local m = string.format('%016d', redis.call('HGET', '{shop}:event:a', 'seq')) .. 'a' "
                "redis.call('HSET', '{shop}:event:a', 'status', 'RETRY') redis.call('SADD', '{shop}:retrying', m)",
                "0"});
    admin->backend().begin_audit({.who = "bob", .verb = "purge"});
    server.ask({"SCRIPT", "FLUSH"});
  }

  /// Does a role's work as this user. Returns what went wrong; empty if nothing did.
  std::string work(std::string const& role, std::string const& user) {
    std::string said;
    try {
      if (role == "owner") return own(user);
      fill();
      open_options const how{
          .read_only = role == "reader", .migrate = role != "operator", .log = [&](log_line const& l) {
            if (l.level >= log_level::warning) said += std::string{l.message} + "\n";
          }};
      auto store = open_store(url_as(user), how);
      if (role == "writer") write(user, store);
      if (role == "dispatcher") dispatch(store->backend());
      if (role == "operator" || role == "reader") read(store->backend());
      if (role == "operator") operate(store->backend());
      if (role != "reader") redis::connection{connection_as(user)}.command("PING");  // as a silent subscription does
      store->backend().hint();
      store.reset();  // what it has to publish is published then
      look_for_eviction(role, user);
    } catch (std::exception const& e) {
      return e.what();
    }
    return said;
  }

  redis_server server;
  std::shared_ptr<outbox::store> admin;

 private:
  std::string own(std::string const& user) {
    server.ask({"FLUSHALL"});
    server.ask({"SCRIPT", "FLUSH"});
    if (migrate_store(url_as(user)).change != migration::kind::created) return "nothing was created";
    if (schema_of(url_as(user)).found != schema_state::kind::current) return "it is not current";
    look_for_eviction("owner", user);
    return {};
  }

  // A store that could not ask for the policy would open on a server that deletes events.
  void look_for_eviction(std::string const& role, std::string const& user) {
    if (role == "reader" || role == "operator") {
      auto const s = open_store(url_as(user), {.read_only = true, .log = nullptr});
      for (auto const* const code : {"eviction", "appendfsync"}) {
        if (finding_of(*s, code).level == spi::finding_level::skipped) throw std::runtime_error{code};
      }
      return;
    }
    server.ask({"CONFIG", "SET", "maxmemory-policy", "allkeys-lru"});
    bool refused = false;
    try {
      if (role == "owner") {
        migrate_store(url_as(user));
      } else {
        static_cast<void>(open_store(url_as(user), {.log = nullptr}));
      }
    } catch (error const&) {
      refused = true;
    }
    server.ask({"CONFIG", "SET", "maxmemory-policy", "noeviction"});
    if (!refused) throw std::runtime_error{"it does not see that the server evicts keys"};
  }

  void write(std::string const& user, std::shared_ptr<outbox::store> const& store) {
    auto box = writer_only({.store = store, .log = nullptr});
    box.start();
    box.writer().write(no_transaction, "t", "1", {.id = "alone", .aggregate = {"order", "1"}});
    redis::connection db{connection_as(user)};
    redis::transaction tx{db};
    box.writer().write(tx, "t", "1", {.id = "joined", .deliver_after = 1h});
    tx.commit();
    { redis::transaction undone{db, {"{shop}:meta"}}; }
    server.ask({"HSET", "{shop}:meta", "touched", "1"});  // the next commit fails if that is still watched
    redis::transaction next{db};
    box.writer().write(next, "t", "1", {.aggregate = {"order", "2"}});
    next.commit();
    auto const e = event::json("t", "1", {.id = "told", .aggregate = {"order", "1"}});
    spi::insertion const row{.event = &e, .token = "w/1", .lease = 30s};
    auto const receipt = std::make_shared<spi::insert_receipt>();
    store->backend().insert(join(no_transaction), std::span{&row, 1}, receipt);
    if (receipt->rows.at(0).before != "alone") throw std::runtime_error{"no receipt"};
  }

  static void dispatch(spi::store& s) {
    s.heartbeat({.incarnation = "n:1:x", .name = "n", .lease = 30s});
    static_cast<void>(s.settings());
    s.pause({"x", ""});
    s.resume({"x", ""});
    auto const lock = s.try_dispatch_lock("n:1:x", 30s);
    if (!lock || !lock->renew()) throw std::runtime_error{"no lock"};
    lock->expire_others();
    auto rows = s.claim({.token = "n:1:x/1", .limit = 2, .lease = 30s, .pauses = {{"y", ""}}}).rows;
    if (rows.size() != 2) throw std::runtime_error{"nothing claimed"};
    s.renew(std::vector<spi::row_handle>{rows[0].handle}, 30s);
    std::vector<spi::settlement> const ends{
        {.row = rows[0].handle, .outcome = spi::outcome::delivered, .key = rows[0].key, .seq = rows[0].seq},
        {.row = rows[1].handle, .outcome = spi::outcome::retry, .counted = 1, .delay = 1h, .error = "no"}};
    if (s.settle(ends).applied != std::vector<bool>{true, true}) throw std::runtime_error{"not settled"};
    s.claim({.token = "n:1:x/2", .limit = 1, .lease = 30s, .in_order = true});
    std::vector<owner_token> const tokens{"n:1:x/2"};
    s.release(tokens, 30s);
    s.set_keyed(true);
    if (s.heal(10) != 1) throw std::runtime_error{"nothing healed"};
    // "behind" waits for "parked", which is DEAD.
    if (s.claim({.token = "n:1:x/3", .limit = 9, .lease = 30s, .keyed = true}).noted != 1) {
      throw std::runtime_error{"nothing noted"};
    }
    std::vector<std::string> const asked{"behind"};
    if (s.places(asked).at(0).before != "parked") throw std::runtime_error{"no place"};
    if (s.parked_keys(10).empty()) throw std::runtime_error{"no parked keys"};  // the metrics of a relay
    s.set_keyed(false);
    static_cast<void>(s.list({.statuses = {event_status::dead}}, spi::list_order::newest_first, 10));
    static_cast<void>(s.overview(100));
    static_cast<void>(s.inspect().nodes());
    if (s.replay({.ids = {"dead"}}, 10) != 1) throw std::runtime_error{"not replayed"};
    if (s.cancel({.ids = {"dead"}}, "r", 10) != 1) throw std::runtime_error{"not cancelled"};
    if (s.purge(spi::purge_request{}) < 3) throw std::runtime_error{"not purged"};
    s.retire("n:1:x");
  }

  static void read(spi::store& s) {
    static_cast<void>(s.settings());
    static_cast<void>(s.inspect().counts());
    if (!s.inspect().find("a")) throw std::runtime_error{"not found"};
    for (auto const order : {spi::list_order::oldest_first, spi::list_order::newest_first}) {
      if (s.list({}, order, 10).size() != 9) throw std::runtime_error{"not listed"};
    }
    static_cast<void>(s.errors({}, 10));
    static_cast<void>(s.event_types());
    static_cast<void>(s.waiting_types(100));
    static_cast<void>(s.overview(100));
    if (s.parked_keys(10).size() != 2) throw std::runtime_error{"no parked keys"};
    static_cast<void>(s.inspect().nodes());
    static_cast<void>(s.audit(10));
    static_cast<void>(s.findings({}));
  }

  static void operate(spi::store& s) {
    auto const n = s.begin_audit({.who = "ann", .verb = "replay"});
    if (!s.end_audit(n, 1) || s.audit(10).size() != 2) throw std::runtime_error{"no audit"};
    s.pause({"x", ""});
    s.resume({"x", ""});
    if (s.cancel({.ids = {"a", "e"}}, "r", 10) != 2) throw std::runtime_error{"not cancelled"};
    if (s.replay({.ids = {"a"}}, 10) != 1) throw std::runtime_error{"not replayed"};
    if (s.discard({.ids = {"parked"}}, 10) != 1) throw std::runtime_error{"not discarded"};
    if (s.purge(event_filter{.ids = {"done", "dead"}}, 10) != 2) throw std::runtime_error{"not purged"};
  }
};

TEST_F(RedisRules, WithExactlyItsRulesEachRoleCanDoItsWork) {
  for (std::string const role : {"writer", "dispatcher", "operator", "reader", "owner"}) {
    make_user(role, rules_of(role));
    EXPECT_EQ(work(role, role), "") << role;
  }
}

TEST_F(RedisRules, WithOneRuleLessNoRoleCan) {
  for (std::string const role : {"writer", "dispatcher", "operator", "reader", "owner"}) {
    auto const rules = rules_of(role);
    for (auto const& left_out : rules) {
      auto fewer = rules;
      std::erase(fewer, left_out);
      make_user("u", fewer);
      EXPECT_NE(work(role, "u"), "") << role << " does not need " << left_out;
    }
  }
}

TEST_F(RedisRules, AWriterSeesNoPayloadAndNeitherNodesNorTheAudit) {
  fill();
  make_user("w", rules_of("writer"));
  expect_refused("w", {"GET", "{shop}:payload:a"});
  expect_refused("w", {"HGETALL", "{shop}:event:a"});
  expect_refused("w", {"UNLINK", "{shop}:event:a"});
  expect_refused("w", {"HGET", "{shop}:audit:1", "who"});
  expect_refused("w", {"HGET", "{shop}:lock", "holder"});
  expect_refused("w", {"HGET", "{other}:meta", "version"});
  expect_refused("w", {"EVAL", "return redis.call('GET', '{shop}:payload:a')", "0"});
  expect_refused("w", {"PUBLISH", "{other}:wake", ""});
}

TEST_F(RedisRules, ADispatcherWritesNoEventsAndAReaderNothing) {
  fill();
  make_user("d", rules_of("dispatcher"));
  expect_refused("d", {"SET", "{shop}:payload:forged", "1"});
  expect_refused("d", {"HGETALL", "{shop}:audit:1"});
  expect_refused("d", {"FLUSHALL", "ASYNC"});
  make_user("r", rules_of("reader"));
  expect_refused("r", {"HSET", "{shop}:event:a", "status", "DONE"});
  expect_refused("r", {"UNLINK", "{shop}:event:a"});
  expect_refused("r", {"EVAL", "return redis.call('UNLINK', '{shop}:event:a')", "0"});
  expect_refused("r", {"CONFIG", "SET", "appendonly", "no"});
  EXPECT_TRUE(admin->inspect().find("a"));
}

// As a service does, with threads: what is said in the log would be a right that is missing.
TEST_F(RedisRules, ANodeOfADispatcherDeliversWhatAWriterWrites) {
  fill();
  make_user("w", rules_of("writer"));
  make_user("d", rules_of("dispatcher"));
  std::atomic<int> complaints{0};
  auto const log = [&](log_line const& l) { complaints += l.level >= log_level::warning ? 1 : 0; };
  for (bool const single : {true, false}) {
    tally seen;
    multi_node_options o{.store = open_store(url_as("d"), {.migrate = false, .log = log}), .log = log};
    o.poll.every = 1h;
    o.purge = purge_options{.keep = 0ms, .dead = true};
    o.listeners.on("t", [&](delivery const& d) { seen.add(d.id); });
    auto box = single ? single_node(std::move(o)) : multi_node(std::move(o));
    box.start();
    auto writing = writer_only({.store = open_store(url_as("w"), {.migrate = false, .log = log}), .log = log});
    writing.start();
    std::string const id = single ? "one" : "two";
    writing.writer().write(no_transaction, "t", "1", {.id = id});
    EXPECT_TRUE(eventually([&] { return seen.of(id) == 1; })) << "it was told of the event";
    EXPECT_TRUE(eventually([&] { return admin->inspect().find(id)->status == event_status::delivered; }));
    EXPECT_GE(box.purge_once(), 1U);
    EXPECT_TRUE(box.health().healthy) << box.health().reason;
    writing.stop();
    EXPECT_TRUE(box.stop());
  }
  EXPECT_EQ(complaints, 0);
}

TEST_F(RedisRules, TheVerbsOfTheToolWorkAsAnOperatorAndAsAReader) {
  fill();
  make_user("r", rules_of("reader"));
  for (auto const& arguments : std::vector<std::vector<std::string>>{{"list"},
                                                                     {"show", "dead"},
                                                                     {"errors"},
                                                                     {"nodes"},
                                                                     {"audit"},
                                                                     {"tail", "--no-follow"},
                                                                     {"migrate", "status"}}) {
    auto const r = run_as("r", arguments);
    EXPECT_EQ(r.status, 0) << arguments.front() << ": " << r.err;
  }
  EXPECT_EQ(run_as("r", {"status"}).status, 1) << "an event is dead, and no node is there";
  EXPECT_THAT(run_as("r", {"doctor", "--json", "--verbose"}).out, Not(HasSubstr("NOPERM")));
  for (auto const& arguments : std::vector<std::vector<std::string>>{{"discard", "dead", "--yes"},
                                                                     {"unkey", "--yes"},
                                                                     {"replay", "dead", "--yes"},
                                                                     {"cancel", "a", "--yes"},
                                                                     {"purge", "done", "--yes"},
                                                                     {"pause", "t"}}) {
    auto const r = run_as("r", arguments);
    EXPECT_EQ(r.status, 6) << arguments.front() << ": " << r.err;
  }
  EXPECT_EQ(admin->inspect().find("dead")->status, event_status::dead);
  make_user("o", rules_of("operator"));
  for (auto const& arguments : std::vector<std::vector<std::string>>{{"list"},
                                                                     {"discard", "dead", "--yes"},
                                                                     {"replay", "dead", "--yes"},
                                                                     {"cancel", "a", "--yes", "--reason", "r"},
                                                                     {"purge", "done", "--yes"},
                                                                     {"pause", "t"},
                                                                     {"resume", "t"},
                                                                     {"unkey", "--yes"},
                                                                     {"audit"}}) {
    auto const r = run_as("o", arguments);
    EXPECT_EQ(r.status, 0) << arguments.front() << ": " << r.err;
  }
  EXPECT_EQ(admin->inspect().find("dead")->status, event_status::created);
  EXPECT_FALSE(admin->inspect().find("done"));
}

TEST_F(RedisRules, AWrongPasswordIsARefusalOfTheUser) {
  make_user("r", rules_of("reader"));
  auto url = url_as("r");
  url.replace(url.find("pw"), 2, "geheim");
  auto const r = run_tool({"status", "--db", url});
  EXPECT_EQ(r.status, 6) << r.err;
  EXPECT_THAT(r.err, Not(HasSubstr("geheim")));
}

TEST_F(RedisRules, ADatabaseOfAnotherNumberNeedsOneRuleMore) {
  auto const r = run_tool({"grants", "reader", "--user", "u", "--db", "redis://127.0.0.1:1/3"});
  EXPECT_THAT(r.out, HasSubstr(" +select\n"));
  EXPECT_THAT(run_tool({"grants", "reader", "--user", "u", "--db", "redis://127.0.0.1:1/0"}).out,
              Not(HasSubstr("select")));
}

// What is printed goes through redis-cli, which has quotes of its own, and then through the patterns of the server.
TEST_F(RedisRules, HostileNamesOfUsersAndOutboxesAreNamesAndNothingElse) {
  temporary_directory const dir;
  std::pair<std::string, std::string> const cases[] = {
      {"shop", "a%20b"}, {"a\"b", "x*"}, {"c'd", "[abc]"}, {"e\\", "q%5C%3F"}, {"f#~*", "%7Bshop%7D%3A%27%22"}};
  for (auto const& [user, name] : cases) {
    server.ask({"FLUSHALL"});
    auto const base = "127.0.0.1:" + std::to_string(server.port());
    auto const r =
        run_tool({"grants", "owner", "--user", user, "--db", "redis://" + base + "?outbox.name=" + name, "--quiet"});
    ASSERT_EQ(r.status, 0) << r.err;
    std::ofstream{dir / "rules"} << r.out;
    auto const client = "redis-cli -s " + server.socket() + " < " + (dir / "rules") + " > " + (dir / "answers");
    ASSERT_EQ(std::system(client.c_str()), 0);
    std::ifstream answers{dir / "answers"};
    for (std::string line; std::getline(answers, line);) EXPECT_EQ(line, "OK") << r.out;
    server.ask({"ACL", "SETUSER", user, "on", ">pw"});
    std::string encoded;
    for (char const c : user) {
      char hex[4];
      std::snprintf(hex, sizeof hex, "%%%02X", static_cast<unsigned>(static_cast<unsigned char>(c)));
      encoded += hex;
    }
    auto const as_user = "redis://" + encoded + ":pw@" + base;
    EXPECT_EQ(migrate_store(as_user + "?outbox.name=" + name).change, migration::kind::created) << r.out;
    EXPECT_THROW(static_cast<void>(migrate_store(as_user + "?outbox.name=xy")), error) << "a pattern became wider";
    EXPECT_THROW(static_cast<void>(migrate_store(as_user + "?outbox.name=a")), error) << "a pattern became wider";
  }
  for (std::string const user : {"", "a b", "a\nFLUSHALL", "a\x1b[2J", "a\xff"}) {
    auto const r = run_tool({"grants", "reader", "--user", user, "--db", "redis://127.0.0.1:1"});
    EXPECT_EQ(r.status, 2) << user;
    EXPECT_THAT(r.out, IsEmpty());
  }
  EXPECT_EQ(run_tool({"grants", "reader", "--user", "u", "--db", "redis://h?outbox.name=a%0AFLUSHALL"}).status, 2);
  EXPECT_EQ(run_tool({"grants", "reader", "--user", "u", "--host", "h", "--db", "redis://h"}).status, 2);
}

}  // namespace
}  // namespace outbox

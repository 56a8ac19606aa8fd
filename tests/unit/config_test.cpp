// Configurations: what is read, and what is said about a wrong one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <outbox/config.hpp>
#include <outbox/memory.hpp>
#include <outbox/sqlite.hpp>
#include <outbox/testing.hpp>

#include "support/temporary_directory.hpp"
#include "support/waiting.hpp"

namespace outbox {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

using variables = std::map<std::string, std::string>;

constexpr char const* good = R"(mode = "multi_node"
[store]
url = "memory:"
[[routes]]
event_type = "*"
sink = "out"
[sinks.out]
type = "json_lines"
)";

config_source from(std::string text, variables v = {}) {
  return {.file = "relay.toml", .text = std::move(text), .environment = std::move(v)};
}

std::vector<std::string> problems(std::string text, variables v = {}, config_extras with = {}) {
  try {
    static_cast<void>(config::read(from(std::move(text), std::move(v)), with));
  } catch (config_error const& e) {
    return e.problems();
  }
  return {};
}

TEST(Config, AWebhookHasItsSecretsByReference) {
  temporary_directory dir;
  std::ofstream{dir / "old"} << "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\n";
  ::setenv("CONFIG_TEST_WHSEC", "whsec_ZmVkY2JhOTg3NjU0MzIxMGZlZGNiYTk4NzY1NDMyMTA=", 1);
  auto const text = std::string{good} +
                    "[sinks.h]\ntype = \"webhook\"\nurl = \"https://receiver.example/hook?token=swordfish\"\n"
                    "headers = {Authorization = \"Bearer swordfish\"}\n[sinks.h.secrets]\nold = \"${file:" +
                    (dir / "old") + "}\"\nnew = \"${env:CONFIG_TEST_WHSEC}\"\n";
  auto const c = config::read(from(text));
  EXPECT_THAT(c.summary(), HasSubstr("sinks.h.url = https://receiver.example/hook?***\n"));
  EXPECT_THAT(c.summary(), HasSubstr("sinks.h.secrets.old = ***\n"));
  EXPECT_THAT(c.summary(), Not(HasSubstr("swordfish")));
  EXPECT_EQ(c.open({.log = nullptr}).sinks.front()->name(), "h");
}

TEST(Config, MistakesOfAWebhookAreNamedWithTheirPlaceAndWithoutSecrets) {
  std::string const all = std::string{good} + "[sinks.h]\ntype = \"webhook\"\n";
  std::string const url = "url = \"https://receiver.example/hook\"\n";
  std::string const secrets = "secrets = {now = \"whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\"}\n";
  EXPECT_THAT(problems(all + secrets), ElementsAre("relay.toml:9:8: sinks.h.url is empty: write https://host/path"));
  EXPECT_THAT(problems(all + secrets + "url = \"http://receiver.example/\"\n"),
              ElementsAre(HasSubstr("relay.toml:12:1: sinks.h.url begins with http")));
  EXPECT_THAT(problems(all + url), ElementsAre(HasSubstr("sinks.h.secrets is empty")));
  EXPECT_THAT(problems(all + url + "secrets = {now = \"hunter2\"}\n"),
              ElementsAre(::testing::AllOf(HasSubstr("sinks.h.secrets has at position 1"), Not(HasSubstr("hunter2")))));
  EXPECT_THAT(problems(all + url + secrets + "path = \"x\"\n"), ElementsAre(HasSubstr("unknown key 'sinks.h.path'")));
  EXPECT_THAT(
      problems("listener_timeout = \"31s\"\n" + all + url + secrets + "[[routes]]\nevent_type = \"a\"\nsink = \"h\"\n"),
      ElementsAre(HasSubstr("must be longer than the 31s that sink 'h' may take")));
}

constexpr char const* keyed_kafka = R"(mode = "keyed"
[store]
url = "memory:"
[[routes]]
event_type = "*"
sink = "k"
keeps_order = true
[sinks.k]
type = "kafka"
bootstrap_servers = "h:1"
)";

TEST(Config, AKeyedTableHasItsOwnSettings) {
  auto text = std::string{good};
  text.replace(text.find("multi_node"), 10, "keyed");
  auto const c = config::read(from("on_dead = \"skip\"\nworkers = 2\n" + text));
  EXPECT_THAT(c.summary(), HasSubstr("on_dead = skip\n"));
  EXPECT_THAT(problems("on_dead = \"stop\"\n" + text), ElementsAre(HasSubstr("on_dead is 'stop'")));
  EXPECT_THAT(problems("on_dead = \"skip\"\n" + std::string{good}), ElementsAre(HasSubstr("unknown key 'on_dead'")));
}

TEST(Config, AKeyedTableMarksItsTableAndSkipsOrParksAsItSays) {
  for (auto const* const on_dead : {"park", "skip"}) {
    std::string const text = "mode = \"keyed\"\non_dead = \"" + std::string{on_dead} +
                             "\"\nstore = {url = \"memory:\"}\n[[routes]]\nevent_type = \"t\"\nlistener = \"kill\"\n";
    config_extras with{.listeners = {{"kill", [](delivery const&, completion answer) { answer(dead{"no"}); }}},
                       .log = nullptr};
    auto running = config::read(from(text), with).open(with);
    auto& n = running.nodes.front().second;
    auto const& table = running.stores.front().second;
    n.start();
    EXPECT_TRUE(table->backend().settings().keyed);
    memory::transaction tx{*table};
    n.writer().write(tx, "t", "1", {.id = "a", .ordering_key = "k"});
    n.writer().write(tx, "u", "1", {.id = "none", .ordering_key = "l"});
    tx.commit();
    ASSERT_TRUE(eventually([&] { return table->inspect().find("a")->status == event_status::dead; }));
    EXPECT_EQ(table->inspect().parked_keys(10).size(), std::string_view{on_dead} == "park" ? 1U : 0U);
    EXPECT_TRUE(eventually([&] { return !table->inspect().find("none")->last_error.empty(); }));
    EXPECT_EQ(table->inspect().find("none")->status, event_status::created) << "deferred: it would park its key";
  }
}

TEST(Config, ARouteThatKeepsOrderNeedsASinkThatDoes) {
  std::string const all = keyed_kafka;
  auto const endless = all + "message_timeout = 0\n";
  EXPECT_THAT(problems(endless), ElementsAre()) << "its route has no timeout unless it says so";
  EXPECT_THAT(problems(all), ElementsAre(HasSubstr("relay.toml:7:1: routes[0].keeps_order needs message_timeout = 0 in "
                                                   "[sinks.k]")));
  auto const with = [&](std::string const& line) {
    auto text = endless;
    return text.insert(text.find("keeps_order"), line + "\n");
  };
  EXPECT_THAT(problems(with("key = \"{tenant}\"")), ElementsAre(HasSubstr("routes[0].key cannot be set beside")));
  EXPECT_THAT(problems(with("partition = \"1\"")), ElementsAre(HasSubstr("routes[0].partition cannot be set beside")));
  EXPECT_THAT(problems(with("timeout = \"1h\"")),
              ElementsAre(HasSubstr("routes[0].timeout is 1h and must be 0, because sink 'k' never")));
  EXPECT_THAT(problems(with("timeout = 0")), ElementsAre());
  auto multi = endless;
  multi.replace(multi.find("keyed"), 5, "multi_node");
  EXPECT_THAT(problems(multi), ElementsAre(HasSubstr("routes[0].keeps_order is for mode = \"keyed\" only")));
  auto lines = std::string{good};
  lines.replace(lines.find("multi_node"), 10, "keyed");
  lines.insert(lines.find("[sinks"), "keeps_order = true\n");
  EXPECT_THAT(problems(lines), ElementsAre(HasSubstr("and 'out' does not")));
  auto plain = endless;
  plain.erase(plain.find("keeps_order"), 19);
  EXPECT_THAT(problems(plain), ElementsAre()) << "a route without order may use the sink, too";
}

TEST(Config, AKeyedTableHasNoLayout) {
  std::string const text =
      "mode = \"keyed\"\n[store]\nurl = \"postgresql://db/shop\"\n[store.layout]\nprofile = \"polled_outbox\"\n"
      "[[routes]]\nevent_type = \"*\"\nsink = \"out\"\n[sinks.out]\ntype = \"json_lines\"\n";
  EXPECT_THAT(problems(text), ElementsAre(HasSubstr("store.layout is not for keyed")));
}

TEST(Config, AllMistakesAreSaidAtOnce) { EXPECT_EQ(problems("a = 1\nb = 2\n" + std::string{good}).size(), 2U); }

TEST(Config, VariablesChangeAndAddSettings) {
  auto const c = config::read(from(good, {{"OUTBOX_POLL__EVERY", "750ms"},
                                          {"OUTBOX_WORKERS", "7"},
                                          {"OUTBOX_HOT_PATH", "false"},
                                          {"OUTBOX_ROUTES__0__TOPIC", "all"},
                                          {"OUTBOX_LOG__FORMAT", "json"},
                                          {"OUTBOX_DB", "x"},
                                          {"OUTBOX_CONFIG", "x"},
                                          {"OUTBOX_TEST_KAFKA", "x"},
                                          {"PATH", "/bin"}}));
  auto const text = c.summary();
  EXPECT_THAT(text, HasSubstr("poll.every = 750ms\n"));
  EXPECT_THAT(text, HasSubstr("workers = 7\n"));
  EXPECT_THAT(text, HasSubstr("hot_path = false\n"));
  EXPECT_THAT(text, HasSubstr("routes[0].topic = all\n"));
  EXPECT_EQ(c.relay().form, log_form::json);
}

TEST(Config, WrongVariablesAreNamed) {
  EXPECT_THAT(problems(good, {{"OUTBOX_POLL__EVRY", "1s"}}),
              ElementsAre("environment variable OUTBOX_POLL__EVRY: unknown key 'poll.evry': did you mean 'every'?"));
  EXPECT_THAT(problems(good, {{"OUTBOX_HOT_PATH", "maybe"}}),
              ElementsAre("environment variable OUTBOX_HOT_PATH: hot_path must be true or false, it is 'maybe'"));
  EXPECT_THAT(problems(good, {{"OUTBOX_ROUTES__3__TOPIC", "x"}}),
              ElementsAre(HasSubstr("OUTBOX_ROUTES__3__TOPIC: there is nothing in the configuration")));
}

TEST(Config, TheEnvironmentAloneIsEnoughForAWriter) {
  auto const c =
      config::read({.environment = variables{{"OUTBOX_MODE", "writer_only"}, {"OUTBOX_STORE__URL", "memory:"}}});
  EXPECT_EQ(c.open({.log = nullptr}).nodes.size(), 1U);
}

TEST(Config, SecretsComeByReferenceAndAreNotShown) {
  temporary_directory dir;
  std::string const secret = "hunter2";
  std::ofstream{dir / "password"} << secret << "\n";
  ::setenv("CONFIG_TEST_SECRET", "swordfish", 1);
  auto const text =
      std::string{good} + "[sinks.k]\ntype = \"kafka\"\nbootstrap_servers = \"h:1\"\n[sinks.k.properties]\n" +
      "\"sasl.password\" = \"${file:" + (dir / "password") + "}\"\n\"sasl.username\" = \"${env:CONFIG_TEST_SECRET}\"\n";
  auto const c = config::read(from(text, {{"OUTBOX_STORE__URL", "postgresql://user:swordfish@host/shop"}}));
  EXPECT_THAT(c.summary(), Not(HasSubstr("hunter2")));
  EXPECT_THAT(c.summary(), Not(HasSubstr("swordfish")));
  EXPECT_THAT(c.summary(), HasSubstr("store.url = postgresql://user:***@host/shop"));
  EXPECT_THAT(problems(std::string{good} + "name = \"${env:NOT_SET_AT_ALL}\"\n"), Contains(HasSubstr("unknown key")));
  EXPECT_THAT(problems("name = \"${env:NOT_SET_AT_ALL}\"\n" + std::string{good}),
              ElementsAre("relay.toml:1:1: name needs the environment variable NOT_SET_AT_ALL, which is not set"));
  EXPECT_THAT(problems("name = \"${file:/no/such}\"\n" + std::string{good}),
              ElementsAre("relay.toml:1:1: name needs the file '/no/such', which cannot be read"));
  EXPECT_THAT(problems("name = \"${vault:x}\"\n" + std::string{good}), ElementsAre(HasSubstr("write ${env:NAME}")));
  EXPECT_THAT(problems("name = \"${env:x\"\n" + std::string{good}), ElementsAre(HasSubstr("'${' without a '}'")));
}

// Whatever a URL looks like, its password is not shown.
TEST(Config, NoPartOfAPasswordIsShown) {
  for (std::string const url :
       {"postgresql://user:hunter2@host/shop", "postgresql://user:hun:ter2@host/shop",
        "mysql://user:hunter2?@host/shop", "postgresql://host/shop?user=u&password=hunter2&sslmode=require",
        "postgresql://user:hunter2/x@host/shop", "postgresql://user@host/shop?sslpassword=hunter2",
        "postgres:user:hunter2@host", "host=h password=hunter2", "redis://:hunter2@host:6379/0?outbox.name=shop",
        "rediss://user:hunter2@host:6380?ssl_ca=ca.pem", "redis://user:hun%40ter2@host"}) {
    auto const c = config::read(from(good, {{"OUTBOX_STORE__URL", url}}));
    EXPECT_THAT(c.summary(), Not(HasSubstr("hunter2"))) << url;
    EXPECT_THAT(c.summary(), Not(HasSubstr("ter2"))) << url;
  }
  auto const shown =
      config::read(from(good, {{"OUTBOX_STORE__URL", "postgresql://u:p@h/shop?sslmode=require"}})).summary();
  EXPECT_THAT(shown, HasSubstr("store.url = postgresql://u:***@h/shop?sslmode=require\n"));
}

TEST(Config, AFileThatIsNotThereIsAnError) {
  try {
    static_cast<void>(config::read({.file = "/no/such/relay.toml", .environment = variables{}}));
    FAIL();
  } catch (config_error const& e) {
    EXPECT_THAT(e.problems(), ElementsAre("/no/such/relay.toml: cannot be read"));
  }
}

TEST(Config, SeveralTablesShareSinks) {
  auto const c = config::read(from(R"(
[sinks.out]
type = "json_lines"
[[tables]]
label = "orders"
mode = "multi_node"
store = {url = "memory:"}
routes = [{event_type = "*", sink = "out"}]
[[tables]]
label = "users"
mode = "writer_only"
store = {url = "memory:"}
)"));
  auto const opened = c.open({.log = nullptr});
  ASSERT_EQ(opened.nodes.size(), 2U);
  EXPECT_EQ(opened.nodes[1].first, "users");
  EXPECT_EQ(opened.sinks.size(), 1U);
}

TEST(Config, ListenersOfTheApplicationAreFoundByName) {
  std::string const text = R"(mode = "single_node"
[store]
url = "memory:"
[[routes]]
event_type = "order.placed"
listener = "carrier"
)";
  EXPECT_THAT(problems(text),
              ElementsAre("relay.toml:6:1: routes[0].listener is 'carrier', and there is none of that name"));
  temporary_directory dir;
  std::ofstream{dir / "c.toml"} << text;
  tally seen;
  config_extras with{.log = nullptr};
  with.listeners["carrier"] = [&](delivery const& d, completion answer) {
    seen.add(d.id);
    answer(done);
  };
  auto box = node_from_config(dir / "c.toml", with);
  box.start();
  EXPECT_TRUE(box.health().running);
  box.stop();
}

TEST(Config, DurationsAndSizesHaveUnits) {
  auto const c = config::read(from("stop_timeout = \"2min\"\nlistener_timeout = 60000\n" + std::string{good} +
                                   "[queue]\nbytes = \"32MiB\"\n[purge]\nkeep = \"7d\"\nevery = \"1h\"\n"));
  EXPECT_THAT(c.summary(), HasSubstr("stop_timeout = 2min\n"));
  EXPECT_THAT(c.summary(), HasSubstr("listener_timeout = 1min\n"));
  EXPECT_THAT(c.summary(), HasSubstr("purge.keep = 7d\n"));
}

TEST(Config, EveryKeyHasADescription) {
  auto const keys = all_config_keys();
  std::vector<std::string> names;
  for (auto const& k : keys) {
    names.push_back(k.name);
    EXPECT_FALSE(k.type.empty()) << k.name;
  }
  EXPECT_THAT(names, ::testing::IsSupersetOf({"mode", "store.url", "poll.every", "retry.backoff.base", "routes[].topic",
                                              "routes[].retry.max_attempts", "sinks.NAME.type",
                                              "sinks.NAME.properties.NAME", "log.level", "http.listen"}));
}

TEST(Config, TheLogOfTheRelayHasThreeForms) {
  for (auto const& [text, form] : std::map<std::string, log_form>{
           {"logfmt", log_form::logfmt}, {"json", log_form::json}, {"journal", log_form::journal}}) {
    auto const c = config::read(from(std::string{good} + "[log]\nformat = \"" + text + "\"\n"));
    EXPECT_EQ(c.relay().form, form) << text;
  }
}

TEST(Config, AnApplicationAddsItsHookAndItsInterceptors) {
  auto const hook = std::make_shared<testing::recording_hook>();
  auto const seen = std::make_shared<testing::recorder>();
  temporary_directory dir;
  for (std::string const mode : {"single_node", "multi_node", "ordered"}) {
    config_extras const with{.listeners = {{"mine", [](delivery const&, completion answer) { answer(done); }}},
                             .log = nullptr,
                             .hook = hook,
                             .interceptors = {seen}};
    auto const file = dir / mode;
    auto const c = config::read(from("mode = \"" + mode + "\"\n[store]\nurl = \"sqlite:" + file +
                                     "\"\n[[routes]]\nevent_type = \"t\"\nlistener = \"mine\"\n"),
                                with);
    auto all = c.open(with);
    auto& n = all.nodes.front().second;
    n.run_until_idle();
    sqlite::connection db{file};
    sqlite::transaction tx{db};
    n.writer().write(tx, "t", "1", {.id = mode});
    tx.commit();
    n.run_until_idle();
  }
  EXPECT_THAT(hook->committed(), ElementsAre("single_node", "multi_node", "ordered"));
  EXPECT_THAT(seen->ids(), ElementsAre("single_node", "multi_node", "ordered"));
}

}  // namespace
}  // namespace outbox

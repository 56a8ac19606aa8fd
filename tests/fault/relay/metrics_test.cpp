// /metrics of the relay, as Prometheus itself and its tools see it; the dashboard and the alerts that are installed.
#include <gmock/gmock.h>

#include <algorithm>
#include <outbox/outbox.hpp>
#include <outbox/sqlite.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "fault/relay/relay_fixture.hpp"
#include "support/exposition.hpp"
#include "support/server_process.hpp"

namespace outbox {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using namespace std::chrono_literals;

std::string const alerts = OUTBOX_PACKAGING "/prometheus/outbox-alerts.yml";
std::string const dashboard = OUTBOX_PACKAGING "/grafana/outbox.json";

class RelayMetrics : public relay_fixture {
 protected:
  RelayMetrics() {
    static_cast<void>(sqlite::open(db()));
    write_config();
  }

  std::string db(std::string const& name = "shop") const { return dir / (name + ".db"); }
  void write_config(std::string const& more = "") { write_config_for("sqlite:" + db(), more); }

  // One table for each name, all with one sink.
  void write_config_of(std::vector<std::string> const& tables, std::string const& route = "*") const {
    std::ofstream out{file()};
    out << "[http]\nlisten = \"127.0.0.1:" << port << "\"\n[sinks.out]\ntype = \"json_lines\"\npath = \""
        << lines_file() << "\"\n";
    for (auto const& t : tables) {
      out << "[[tables]]\nlabel = \"" << t << "\"\nmode = \"multi_node\"\nstore = {url = \"sqlite:" << db(t)
          << "\"}\npoll = {every = \"50ms\"}\n[[tables.routes]]\nevent_type = \"" << route << "\"\nsink = \"out\"\n";
    }
  }

  void insert(int from, int to, std::string const& table = "shop") {
    auto const store = sqlite::open(db(table));
    auto n = writer_only({.store = store, .log = nullptr});
    sqlite::connection c{db(table)};
    sqlite::transaction tx{c};
    for (int i = from; i < to; ++i) n.writer().write(tx, "order.placed", "1", {.id = table + std::to_string(i)});
    tx.commit();
  }
  bool all_done(std::uint64_t n, std::string const& table = "shop") const {
    return sqlite::open(db(table))->inspect().counts().done == n;
  }

  std::string text() const { return run("curl -s " + url("/metrics")).out; }
  double value(std::string const& series) const {
    auto const all = samples_of(text());
    auto const found = all.find(series);
    return found == all.end() ? -1 : found->second;
  }
  // Whatever name the store gives its only table.
  double sum(std::string const& name) const {
    double all = 0;
    for (auto const& [series, value] : samples_of(text())) {
      if (series == name || series.starts_with(name + "{")) all += value;
    }
    return all;
  }
};

TEST_F(RelayMetrics, PrometheusScrapesARunningRelay) {
  auto const pid = start();
  ASSERT_TRUE(eventually([&] { return ready(); })) << log();
  insert(0, 20);
  ASSERT_TRUE(eventually([&] { return all_done(20); })) << log();

  auto const home = make_server_directory("outbox-prometheus", false);
  int const web = free_port();
  std::ofstream{home + "/alerts.yml"} << text_of_file(alerts);
  std::ofstream{home + "/prometheus.yml"} << "global: {scrape_interval: 1s, scrape_timeout: 1s}\n"
                                          << "rule_files: [" << home << "/alerts.yml]\n"
                                          << "scrape_configs:\n  - job_name: relay\n    static_configs:\n"
                                          << "      - targets: ['127.0.0.1:" << port << "']\n";
  auto const address = "127.0.0.1:" + std::to_string(web);
  server_process prometheus{{OUTBOX_PROMETHEUS, "--config.file=" + home + "/prometheus.yml",
                             "--storage.tsdb.path=" + home + "/data", "--web.listen-address=" + address},
                            {},
                            home + "/log",
                            SIGKILL};
  auto const ask = [&](std::string const& query) {
    auto const answer =
        run("curl -s -G http://" + address + "/api/v1/query --data-urlencode 'query=" + query + "'").out;
    auto const j = nlohmann::json::parse(answer, nullptr, false);
    if (j.is_discarded() || j.value("status", "") != "success" || j["data"]["result"].empty()) return std::string{};
    return j["data"]["result"][0]["value"][1].get<std::string>();
  };
  EXPECT_TRUE(eventually([&] { return ask("sum(outbox_dispatch_success_total)") == "20"; }))
      << text_of_file(home + "/log");
  EXPECT_EQ(ask("up{job=\"relay\"}"), "1");
  EXPECT_EQ(ask("sum(outbox_sink_stored_total{sink=\"out\"})"), "20");
  EXPECT_EQ(ask("sum(outbox_delivery_seconds_count)"), "20");
  EXPECT_TRUE(eventually([&] { return ask("max(outbox_table_up)") == "1"; }));
  auto const rules = nlohmann::json::parse(run("curl -s http://" + address + "/api/v1/rules").out);
  EXPECT_EQ(rules["data"]["groups"][0]["rules"].size(), 12U);
  prometheus.end(SIGKILL);
  std::filesystem::remove_all(home);
  EXPECT_EQ(end(pid, SIGTERM), 0) << log();
}

TEST_F(RelayMetrics, PromtoolHasNothingToSayAboutIt) {
  auto const pid = start();
  ASSERT_TRUE(eventually([&] { return ready(); })) << log();
  insert(0, 5);
  ASSERT_TRUE(eventually([&] { return all_done(5); })) << log();
  std::ofstream{dir / "scrape.txt"} << text();
  auto const lint = run("promtool check metrics < " + (dir / "scrape.txt"));
  EXPECT_EQ(lint.status, 0);
  EXPECT_THAT(lint.out, IsEmpty());
  auto const head = run("curl -s -o /dev/null -w '%{http_code} %{content_type}' " + url("/metrics")).out;
  EXPECT_EQ(head, "200 text/plain; version=0.0.4; charset=utf-8");
  EXPECT_EQ(end(pid, SIGTERM), 0) << log();
}

TEST_F(RelayMetrics, CountersGoOnWhenTheConfigurationIsReadAgain) {
  write_config_of({"a", "b"});
  auto const pid = start();
  ASSERT_TRUE(eventually([&] { return ready(); })) << log();
  insert(0, 10, "a");
  insert(0, 3, "b");
  std::string const of_a = R"(outbox_dispatch_success_total{table="a",route="*"})";
  ASSERT_TRUE(eventually([&] { return value(of_a) == 10; })) << text();
  EXPECT_TRUE(eventually([&] { return value(R"(outbox_dispatch_success_total{table="b",route="*"})") == 3; }))
      << text();
  EXPECT_EQ(value(R"(outbox_sink_stored_total{sink="out"})"), 13);

  write_config_of({"a"}, "order.placed");
  ::kill(pid, SIGHUP);
  ASSERT_TRUE(eventually([&] { return log().find("is in use") != std::string::npos; })) << log();
  insert(10, 14, "a");
  EXPECT_TRUE(eventually([&] {
    return value(R"(outbox_dispatch_success_total{table="a",route="order.placed"})") == 4;
  })) << text();
  auto const seen = samples_of(text());
  EXPECT_EQ(seen.at(of_a), 10) << "what an old route has counted stays";
  EXPECT_EQ(seen.at(R"(outbox_dispatch_success_total{table="b",route="*"})"), 3);
  EXPECT_EQ(seen.at(R"(outbox_sink_stored_total{sink="out"})"), 17) << "the sink was opened again and goes on counting";
  EXPECT_EQ(seen.at(R"(outbox_enqueue_cold_total{table="a"})"), 14);
  EXPECT_TRUE(eventually([&] { return value(R"(outbox_held{table="b"})") == -1; })) << "its node is gone";
  EXPECT_EQ(value(R"(outbox_table_up{table="b"})"), -1);
  EXPECT_EQ(value(R"(outbox_healthy{table="a"})"), 1);

  std::ofstream{file()} << "mode = \"nonsense\"\n";
  ::kill(pid, SIGHUP);
  ASSERT_TRUE(eventually([&] { return log().find("stays as it was") != std::string::npos; })) << log();
  EXPECT_EQ(value(R"(outbox_sink_stored_total{sink="out"})"), 17);
  EXPECT_EQ(end(pid, SIGTERM), 0) << log();
}

TEST_F(RelayMetrics, TablesWithoutALabelDoNotCollide) {
  std::ofstream{file()} << "[http]\nlisten = \"127.0.0.1:" << port
                        << "\"\n[sinks.out]\ntype = \"json_lines\"\npath = \"" << lines_file() << "\"\n"
                        << "[[tables]]\nmode = \"multi_node\"\nstore = {url = \"sqlite:" << db()
                        << "\"}\n[[tables.routes]]\nevent_type = \"*\"\nsink = \"out\"\n"
                        << "[[tables]]\nmode = \"multi_node\"\nstore = {url = \"sqlite:" << db()
                        << "\"}\n[[tables.routes]]\nevent_type = \"*\"\nsink = \"out\"\n";
  auto const pid = start();
  ASSERT_TRUE(eventually([&] { return ready(); })) << log();
  EXPECT_TRUE(eventually([&] { return sum("outbox_healthy") == 2; })) << text();
  EXPECT_TRUE(eventually([&] { return sum("outbox_table_up") == 2; })) << "samples_of() refuses the same series twice";
  EXPECT_EQ(end(pid, SIGTERM), 0) << log();
}

TEST_F(RelayMetrics, TheStateOfTheTableIsShown) {
  std::ofstream{file()} << "mode = \"multi_node\"\n[store]\nurl = \"sqlite:" << db()
                        << "\"\n[http]\nlisten = \"127.0.0.1:" << port
                        << "\"\n[sinks.out]\ntype = \"json_lines\"\npath = \"" << lines_file()
                        << "\"\n[[routes]]\nevent_type = \"never.written\"\nsink = \"out\"\n";
  insert(0, 3);  // no route: they become DEAD
  auto const pid = start();
  ASSERT_TRUE(eventually([&] { return sqlite::open(db())->inspect().counts().dead == 3; })) << log();
  ASSERT_TRUE(eventually([&] { return ready(); })) << log();
  EXPECT_TRUE(eventually([&] { return sum("outbox_table_dead") == 3; })) << text();
  EXPECT_EQ(sum("outbox_table_pending"), 0);
  EXPECT_EQ(sum("outbox_table_up"), 1);
  EXPECT_EQ(sum("outbox_table_oldest_pending_seconds"), 0);
  EXPECT_TRUE(eventually([&] { return sum("outbox_dispatch_dead_total") == 3; })) << text();
  EXPECT_EQ(end(pid, SIGTERM), 0) << log();
}

// ---- What is installed ----

std::set<std::string> metrics_in(std::string const& expression) {
  static std::regex const name{R"(\boutbox_[a-z_]+\b)"};
  std::set<std::string> all;
  for (std::sregex_iterator at{expression.begin(), expression.end(), name}, end; at != end; ++at) all.insert(at->str());
  return all;
}

void collect_expressions(nlohmann::json const& j, std::vector<std::string>& to) {
  for (auto const& [key, v] : j.items()) {
    if (v.is_string() && (key == "expr" || key == "definition" || key == "query")) to.push_back(v.get<std::string>());
    if (v.is_structured()) collect_expressions(v, to);
  }
}

std::vector<std::string> expressions_of_the_dashboard() {
  std::vector<std::string> all;
  collect_expressions(nlohmann::json::parse(text_of_file(dashboard)), all);
  return all;
}

TEST_F(RelayMetrics, EveryMetricOfTheDashboardAndOfTheAlertsIsExported) {
  auto const pid = start();
  ASSERT_TRUE(eventually([&] { return ready(); })) << log();
  std::set<std::string> exported;
  for (auto const& [name, type] : types_of(text())) {
    exported.insert(name);
    if (type != "histogram") continue;
    for (auto const* part : {"_bucket", "_sum", "_count"}) exported.insert(name + part);
  }
  EXPECT_EQ(end(pid, SIGTERM), 0) << log();

  std::set<std::string> shown;
  for (auto const& e : expressions_of_the_dashboard()) shown.merge(metrics_in(e));
  EXPECT_GT(shown.size(), 40U) << "the dashboard was read";
  for (auto const& name : shown) EXPECT_THAT(exported, Contains(name)) << "in the dashboard";
  auto const raised = metrics_in(text_of_file(alerts));
  EXPECT_GT(raised.size(), 10U) << "the alerts were read";
  for (auto const& name : raised) EXPECT_THAT(exported, Contains(name)) << "in the alerts";

  for (auto const& name : exported) {
    bool const somewhere = shown.contains(name) || shown.contains(name + "_bucket") || name == "outbox_build_info" ||
                           shown.contains(name + "_sum") || name.ends_with("_bucket") || name.ends_with("_sum") ||
                           name.ends_with("_count");
    EXPECT_TRUE(somewhere) << name << " is missing in the dashboard";
  }
}

TEST_F(RelayMetrics, EveryMetricIsOnTheReferencePage) {
  auto const page = text_of_file(OUTBOX_SOURCE_DIR "/docs/reference/metrics.md");
  auto const pid = start();
  ASSERT_TRUE(eventually([&] { return ready(); })) << log();
  std::set<std::string> of_nodes{"outbox_lag_oldest_seconds"};
  for (auto const c : all_counters()) of_nodes.insert(full_name(c, "outbox", '_') + "_total");
  for (auto const g : all_gauges()) of_nodes.insert(full_name(g, "outbox", '_'));
  for (auto const h : all_histograms()) of_nodes.insert(full_name(h, "outbox", '_'));
  std::size_t others = 0;
  for (auto const& [name, type] : types_of(text())) {
    if (of_nodes.contains(name)) continue;
    EXPECT_NE(page.find("| `" + name + "` | " + type + " |"), page.npos) << name << " " << type;
    ++others;
  }
  EXPECT_EQ(others, 15U) << "the page has them all";
  EXPECT_EQ(end(pid, SIGTERM), 0) << log();
}

TEST_F(RelayMetrics, EveryQueryOfTheDashboardIsValid) {
  std::ofstream rules{dir / "rules.yml"};
  rules << "groups:\n  - name: dashboard\n    rules:\n";
  int n = 0;
  for (auto e : expressions_of_the_dashboard()) {
    if (e.starts_with("label_values(") || e == "prometheus") continue;
    for (std::string const variable : {"$__rate_interval", "$job", "$table"}) {
      for (auto at = e.find(variable); at != e.npos; at = e.find(variable)) {
        e.replace(at, variable.size(), variable == "$__rate_interval" ? "5m" : ".*");
      }
    }
    EXPECT_THAT(e, Not(HasSubstr("$"))) << "a variable that the test does not know";
    rules << "      - record: query:" << ++n << ":x\n        expr: '" << e << "'\n";
  }
  rules.close();
  auto const checked = run("promtool check rules " + (dir / "rules.yml"));
  EXPECT_EQ(checked.status, 0) << checked.out;
  EXPECT_GT(n, 40);
}

TEST_F(RelayMetrics, TheAlertsAreValidAndFireWhenTheyShould) {
  auto const checked = run("promtool check rules " + alerts);
  EXPECT_EQ(checked.status, 0) << checked.out;
  EXPECT_THAT(checked.out, HasSubstr("SUCCESS: 12 rules found"));
  auto tests = text_of_file(OUTBOX_SOURCE_DIR "/tests/fault/relay/alerts_test.yml");
  std::string const mark = "OUTBOX_ALERTS";
  tests.replace(tests.find(mark), mark.size(), alerts);
  std::ofstream{dir / "alerts_test.yml"} << tests;
  auto const tested = run("promtool test rules " + (dir / "alerts_test.yml"));
  EXPECT_EQ(tested.status, 0) << tested.out;
}

TEST_F(RelayMetrics, EveryAlertIsOnThePageAboutProduction) {
  auto const page = text_of_file(OUTBOX_SOURCE_DIR "/docs/how-to/production.md");
  std::istringstream in{text_of_file(alerts)};
  int n = 0;
  for (std::string line; std::getline(in, line);) {
    auto const at = line.find("- alert: ");
    if (at == line.npos) continue;
    EXPECT_NE(page.find("`" + line.substr(at + 9) + "`"), page.npos) << line;
    ++n;
  }
  EXPECT_EQ(n, 12);
}

}  // namespace
}  // namespace outbox

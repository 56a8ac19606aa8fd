// The example order_service: what it refuses, its configuration, and a database that goes away.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <outbox/config.hpp>

#include "databases.hpp"
#include "service_process.hpp"
#include "support/exposition.hpp"

namespace outbox {
namespace {

using nlohmann::json;
using order_service_test::on_sqlite;
using ::testing::HasSubstr;

class OrderServiceInterface : public ::testing::Test {
 protected:
  int run_to_its_end(std::vector<std::string> command) {
    logged_process p{std::move(command), dir / "run.log", dir.string()};
    int const status = p.wait();
    said = p.said();
    return status;
  }
  on_sqlite db;
  temporary_directory dir;
  std::string said;
};

TEST_F(OrderServiceInterface, BadInputIsRefusedWithTheFieldAndItsLimit) {
  order_service_process const service{dir.string(), "one", db.url()};
  struct bad {
    std::string body;
    std::string arguments;
    int status;
    std::string field;
    std::string says;
  };
  std::string const good = R"({"customer":"Ada","cents":1999})";
  std::string const long_name(101, 'a');
  for (auto const& b : std::vector<bad>{
           {"", "", 400, "body", "JSON"},
           {"{", "", 400, "body", "JSON"},
           {"{\"customer\":\"\xFF\",\"cents\":1}", "", 400, "body", "JSON"},
           {"[]", "", 422, "body", "object"},
           {R"({"cents":1})", "", 422, "customer", "missing"},
           {R"({"customer":"Ada"})", "", 422, "cents", "missing"},
           {R"({"customer":"Ada","cents":1,"colour":2})", "", 422, "body", "unknown field"},
           {R"({"customer":7,"cents":1})", "", 422, "customer", "1 to 100 characters"},
           {R"({"customer":"","cents":1})", "", 422, "customer", "1 to 100 characters"},
           {R"({"customer":")" + long_name + R"(","cents":1})", "", 422, "customer", "1 to 100 characters"},
           {R"({"customer":"a\u0000b","cents":1})", "", 422, "customer", "1 to 100 characters"},
           {R"({"customer":"Ada","cents":"1"})", "", 422, "cents", "1 to 100000000"},
           {R"({"customer":"Ada","cents":1.5})", "", 422, "cents", "1 to 100000000"},
           {R"({"customer":"Ada","cents":0})", "", 422, "cents", "1 to 100000000"},
           {R"({"customer":"Ada","cents":-1})", "", 422, "cents", "1 to 100000000"},
           {R"({"customer":"Ada","cents":100000001})", "", 422, "cents", "1 to 100000000"},
           {R"({"customer":"Ada","cents":18446744073709551615})", "", 422, "cents", "1 to 100000000"},
           {R"({"customer":"Ada","cents":99999999999999999999})", "", 422, "cents", "1 to 100000000"},
           {std::string(16'385, ' '), "", 413, "body", "16384 bytes"},
           {good, "-H 'Content-Type: text/plain'", 415, "Content-Type", "application/json"},
           {good, "-H 'Idempotency-Key: a b'", 400, "Idempotency-Key", "1 to 64"},
           {good, "-H 'Idempotency-Key: " + long_name + "'", 400, "Idempotency-Key", "1 to 64"},
       }) {
    auto const a = service.post(b.body, b.arguments);
    EXPECT_EQ(a.status, b.status) << b.body << b.arguments;
    ASSERT_TRUE(json::accept(a.body)) << b.body << b.arguments << " gave " << a.body;
    auto const error = json::parse(a.body).at("error");
    EXPECT_EQ(error.value("field", ""), b.field) << b.body << b.arguments;
    EXPECT_THAT(error.value("message", ""), HasSubstr(b.says));
  }
  for (auto const* limit : {"0", "1001", "x", "", "-1", "1x"}) {
    auto const a = service.ask(std::string{"/orders?limit="} + limit);
    EXPECT_EQ(a.status, 400) << limit;
    EXPECT_EQ(json::parse(a.body).at("error").at("field"), "limit");
  }
  EXPECT_EQ(service.ask("/orders/x").status, 404);
  EXPECT_EQ(service.ask("/nothing").status, 404);
  EXPECT_TRUE(db.query<int>("SELECT id FROM orders").empty());
  EXPECT_TRUE(db.query<int>("SELECT seq FROM outbox_event").empty());
  EXPECT_EQ(service.post(R"({"customer":")" + std::string(100, 'a') + R"(","cents":100000000})").status, 201);
}

TEST_F(OrderServiceInterface, AWrongCommandLineIsAnError) {
  std::string const program = OUTBOX_ORDER_SERVICE;
  EXPECT_EQ(run_to_its_end({program, "--db", "oracle://user:secret@host/shop"}), 1);
  EXPECT_THAT(said, HasSubstr("db begins with 'oracle:'"));
  EXPECT_THAT(said, Not(HasSubstr("secret")));
  EXPECT_EQ(run_to_its_end({program, "--listen", "8080"}), 1);
  EXPECT_THAT(said, HasSubstr("listen is '8080': write address:port"));
  EXPECT_EQ(run_to_its_end({program, "--config", dir / "none.toml"}), 1);
  EXPECT_THAT(said, HasSubstr("none.toml: cannot be read"));
  EXPECT_NE(run_to_its_end({program, "--nonsense"}), 0);

  order_service_process const service{dir.string(), "one", db.url()};
  auto const port = service.url("").substr(service.url("").rfind(':'));
  EXPECT_EQ(run_to_its_end({program, "--db", "sqlite:other.db", "--listen", "127.0.0.1" + port}), 1);
  EXPECT_THAT(said, HasSubstr("which is in use"));
}

TEST_F(OrderServiceInterface, EventsGoWhereAConfigurationSays) {
  std::string const sample = OUTBOX_SOURCE_DIR "/examples/order_service/json_lines.toml";
  order_service_process service{dir.string(), "one", db.url(), sample};
  ASSERT_EQ(service.post(R"({"customer":"Ada","cents":1999})").status, 201) << service.said();
  auto const lines = dir / "events.jsonl";  // it was started in this directory
  ASSERT_TRUE(eventually([&] { return text_of_file(lines).ends_with("\n"); })) << service.said();
  auto const event = json::parse(text_of_file(lines));
  EXPECT_EQ(event.at("type"), "order.placed");
  EXPECT_EQ(event.at("payload").at("cents"), 1999);
  EXPECT_EQ(service.end(SIGTERM), 0);
  EXPECT_EQ(json::parse(text_of_file(lines)), event) << "one line for one order";
}

TEST_F(OrderServiceInterface, ItsFiguresAreServedForPrometheus) {
  for (auto const& config : {std::string{}, std::string{OUTBOX_SOURCE_DIR "/examples/order_service/shipping.toml"}}) {
    on_sqlite fresh;
    order_service_process service{dir.string(), config.empty() ? "in_process" : "from_file", fresh.url(), config};
    ASSERT_EQ(service.post(R"({"customer":"Ada","cents":1999})").status, 201) << service.said();
    EXPECT_TRUE(eventually([&] {
      auto const seen = samples_of(service.ask("/metrics").body);
      auto const route = config.empty() ? "shipping" : "order.placed";
      auto const n = seen.find("outbox_dispatch_success_total{table=\"orders\",route=\"" + std::string{route} + "\"}");
      return n != seen.end() && n->second == 1;
    })) << service.ask("/metrics").body;
    EXPECT_EQ(service.end(SIGTERM), 0);
  }
}

TEST_F(OrderServiceInterface, TheSampleConfigurationsAreRight) {
  std::string const samples = OUTBOX_SOURCE_DIR "/examples/order_service/";
  config_extras with;
  with.listeners["shipping"] = [](delivery const&, completion) {};
  for (auto const* name : {"shipping.toml", "json_lines.toml", "kafka.toml"}) {
#ifndef OUTBOX_HAS_KAFKA
    if (std::string_view{name} == "kafka.toml") continue;
#endif
    config_source const from{.file = samples + name, .environment = {{{"OUTBOX_STORE__URL", "sqlite:orders.db"}}}};
    EXPECT_NO_THROW(static_cast<void>(config::read(from, with))) << name;
  }
}

#ifdef OUTBOX_HAS_POSTGRES
TEST(OrderServiceOutage, ADatabaseThatIsAwayIsSaidAndNothingIsHalfDone) {
  postgres_server server;
  temporary_directory dir;
  auto const url = "postgresql://outbox@127.0.0.1:" + std::to_string(server.port()) + "/postgres";
  order_service_process service{dir.string(), "one", url};
  std::string const order = R"({"customer":"Ada","cents":1999})";
  ASSERT_EQ(service.post(order).status, 201) << service.said();

  server.kill_hard();
  auto const refused = service.post(order);
  EXPECT_EQ(refused.status, 503) << refused.body;
  EXPECT_THAT(refused.body, HasSubstr("nothing was written"));
  EXPECT_EQ(service.ask("/orders").status, 503);
  EXPECT_TRUE(eventually([&] { return service.ask("/healthz").status == 503; }));

  server.start();
  EXPECT_EQ(service.post(order).status, 201) << service.said();
  EXPECT_TRUE(eventually([&] { return service.ask("/healthz").status == 200; }));
  postgres::connection db{server.connection()};
  EXPECT_TRUE(eventually([&] { return db.query_one<int>("SELECT count(*) FROM shipments") == 2; })) << service.said();
  EXPECT_EQ(db.query_one<int>("SELECT count(*) FROM orders"), 2);
  EXPECT_EQ(db.query_one<int>("SELECT count(*) FROM outbox_event"), 2);
  EXPECT_EQ(service.end(SIGTERM), 0) << service.said();
}
#endif

}  // namespace
}  // namespace outbox

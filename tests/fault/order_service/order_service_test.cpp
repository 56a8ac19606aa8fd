// The example order_service as a black box, on every database: a process, curl, signals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "databases.hpp"
#include "service_process.hpp"

namespace outbox {
namespace {

using nlohmann::json;
using namespace order_service_test;

template <class Database>
class OrderService : public ::testing::Test {
 protected:
  order_service_process start(std::string const& name, std::string const& config = {}) const {
    return {dir.string(), name, db.url(), config};
  }
  std::int64_t count(std::string const& sql) const { return db.template query<std::int64_t>(sql).front(); }
  std::int64_t orders() const { return count("SELECT count(*) FROM orders"); }
  bool all_shipped() const {
    return count(
               "SELECT count(*) FROM orders o LEFT JOIN shipments s ON s.order_id = o.id"
               " WHERE s.order_id IS NULL") == 0;
  }
  bool all_done() const { return count("SELECT count(*) FROM outbox_event WHERE status <> 1") == 0; }

  std::set<std::string> ids_of_orders() const {
    std::set<std::string> ids;
    for (auto const id : db.template query<std::int64_t>("SELECT id FROM orders")) ids.insert(std::to_string(id));
    return ids;
  }

  // Each order has one event, and each event was delivered, as often as `most` allows.
  void expect_delivered(std::int64_t most) const {
    EXPECT_TRUE(eventually([&] { return all_shipped() && all_done(); }));
    EXPECT_EQ(count("SELECT count(*) FROM outbox_event"), orders());
    EXPECT_EQ(count("SELECT count(*) FROM shipments"), orders());
    EXPECT_LE(count("SELECT coalesce(max(deliveries), 0) FROM shipments"), most);
  }

  Database db;
  temporary_directory dir;
};

struct names {
  template <class Database>
  static std::string GetName(int) {
    return Database::name;
  }
};
using databases = ::testing::Types<on_sqlite
#ifdef OUTBOX_HAS_POSTGRES
                                   ,
                                   on_postgres
#endif
#ifdef OUTBOX_HAS_MYSQL
                                   ,
                                   on_mysql
#endif
                                   >;
TYPED_TEST_SUITE(OrderService, databases, names);

constexpr std::int64_t once = 1;
constexpr std::int64_t at_least_once = 1000;

TYPED_TEST(OrderService, AnOrderIsPlacedAndShipped) {
  order_service_process service = this->start("one");
  auto const placed = service.post(R"({"customer":"Zoë's \"café\"; DROP TABLE orders --","cents":1999})");
  ASSERT_EQ(placed.status, 201) << service.said();
  EXPECT_EQ(placed.location, "/orders/" + std::to_string(json::parse(placed.body).at("id").get<int>()));
  EXPECT_TRUE(eventually([&] { return json::parse(service.ask(placed.location).body).at("shipped") == true; }));

  ASSERT_EQ(service.post(R"({"customer":"Ada","cents":5})").status, 201);
  auto const all = json::parse(service.ask("/orders").body).at("orders");
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].at("customer"), "Ada") << "the newest is first";
  EXPECT_EQ(all[1].at("customer"), "Zoë's \"café\"; DROP TABLE orders --");
  EXPECT_EQ(json::parse(service.ask("/orders?limit=1").body).at("orders").size(), 1U);
  EXPECT_EQ(service.ask("/orders/999999").status, 404);
  EXPECT_EQ(service.ask("/healthz").status, 200);
  this->expect_delivered(once);
  EXPECT_EQ(service.end(SIGTERM), 0) << service.said();
}

TYPED_TEST(OrderService, I2_AnOrderWhoseEventCannotBeWrittenIsNotThere) {
  order_service_process service = this->start("one");
  this->db.execute("ALTER TABLE outbox_event RENAME TO put_away");
  auto const refused = service.post(R"({"customer":"Ada","cents":1999})");
  EXPECT_EQ(refused.status, 500) << refused.body;
  EXPECT_EQ(json::parse(refused.body).at("error").at("message"), "the order service failed");
  EXPECT_EQ(this->orders(), 0);
  this->db.execute("ALTER TABLE put_away RENAME TO outbox_event");
  EXPECT_EQ(service.post(R"({"customer":"Ada","cents":1999})").status, 201) << service.said();
  this->expect_delivered(once);
}

TYPED_TEST(OrderService, AKeyPlacesOneOrder) {
  order_service_process service = this->start("one");
  std::string const order = R"({"customer":"Ada","cents":1999})";
  auto const first = service.post(order, "-H 'Idempotency-Key: a-1'");
  auto const second = service.post(order, "-H 'Idempotency-Key: a-1'");
  EXPECT_EQ(first.status, 201);
  EXPECT_EQ(second.status, 200);
  EXPECT_EQ(first.location, second.location);
  EXPECT_EQ(service.post(order, "-H 'Idempotency-Key: A-1'").status, 201) << "another key";
  auto const other = service.post(R"({"customer":"Ada","cents":2000})", "-H 'Idempotency-Key: a-1'");
  EXPECT_EQ(other.status, 422);
  EXPECT_EQ(json::parse(other.body).at("error").at("field"), "Idempotency-Key");
  EXPECT_EQ(this->orders(), 2);
  this->expect_delivered(once);
}

TYPED_TEST(OrderService, I7_TwoInstancesDeliverEachOrderOnce) {
  order_service_process first = this->start("first");
  order_service_process second = this->start("second");
  auto to_first = first.load("first", 200);
  auto to_second = second.load("second", 200);
  EXPECT_EQ(to_first->wait(), 0);
  EXPECT_EQ(to_second->wait(), 0);
  EXPECT_EQ(answered(to_first->said()).size(), 200U) << first.said();
  EXPECT_EQ(answered(to_second->said()).size(), 200U) << second.said();
  EXPECT_EQ(this->orders(), 400);
  this->expect_delivered(once);
  EXPECT_EQ(first.end(SIGTERM), 0) << first.said();
  EXPECT_EQ(second.end(SIGTERM), 0) << second.said();
}

// A request that was begun is answered, and what was delivered is settled: so nothing is delivered twice.
TYPED_TEST(OrderService, I1_I7_SigtermUnderLoadLosesAndRepeatsNothing) {
  constexpr int load = 20'000;
  std::set<std::string> ids;
  {
    order_service_process service = this->start("before");
    auto client = service.load("load", load);
    ASSERT_TRUE(eventually([&] { return this->orders() >= 100; })) << service.said();
    EXPECT_EQ(service.end(SIGTERM), 0) << service.said();
    client->wait();
    ids = answered(client->said());
  }
  EXPECT_GE(ids.size(), 100U);
  EXPECT_LT(ids.size(), std::size_t{load}) << "the load was over before the signal";
  EXPECT_EQ(ids, this->ids_of_orders());
  order_service_process service = this->start("after");
  this->expect_delivered(once);
  EXPECT_EQ(service.end(SIGTERM), 0);
}

// The configuration has a short lease: the other instance takes over what the killed one held.
TYPED_TEST(OrderService, I1_SigkillUnderLoadLosesNothingThatWasAnswered) {
  auto const config = this->dir / "short.toml";
  std::ofstream{config} << "mode = \"multi_node\"\nlease.duration = \"2s\"\nlease.max_crashes = 1000\n"
                           "[poll]\nevery = \"200ms\"\n"
                           "[[routes]]\nevent_type = \"order.placed\"\nlistener = \"shipping\"\n";
  order_service_process survivor = this->start("survivor", config);
  std::set<std::string> ids;
  {
    order_service_process service = this->start("killed", config);
    auto client = service.load("load", 20'000);
    ASSERT_TRUE(eventually([&] { return this->orders() >= 100; })) << service.said();
    EXPECT_EQ(service.end(SIGKILL), -SIGKILL);
    client->wait();
    ids = answered(client->said());
  }
  EXPECT_FALSE(ids.empty());
  EXPECT_TRUE(std::ranges::includes(this->ids_of_orders(), ids)) << "an order that was answered is gone";
  this->expect_delivered(at_least_once);
  EXPECT_EQ(survivor.end(SIGTERM), 0) << survivor.said();
}

}  // namespace
}  // namespace outbox

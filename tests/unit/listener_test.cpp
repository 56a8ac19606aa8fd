#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <outbox/error.hpp>
#include <outbox/hooks.hpp>
#include <outbox/listener.hpp>

#include "core/listeners/routes.hpp"

namespace outbox {
namespace {

struct paid {
  static constexpr std::string_view event_type = "paid";
  int amount = 0;
};

enum class kind { opened };
std::string_view outbox_name(kind) { return "opened"; }

}  // namespace

template <>
struct codec<paid> {
  static encoded encode(paid const& p) { return {std::to_string(p.amount)}; }
  static paid decode(event const& e) {
    if (e.payload() == "null") throw std::runtime_error{"no amount"};
    return {std::stoi(e.payload())};
  }
};

namespace {

struct no_call final : detail::call {
  void remember(std::string) override {}
  completion answer_later() override { throw std::logic_error{"nobody answers later here"}; }
};

result call(core::route const& r, event const& e) {
  no_call c;
  return r.handler->handle(delivery{e, e.id(), 1, 10, {}, path::hot, false, {}}, c).value();
}

TEST(Listeners, ExactAggregateWinsOverEveryAggregate) {
  listeners l;
  l.on("paid", [](delivery const&) { return result{dead{"any"}}; });
  l.on("order", "paid", [](delivery const&) { return result{dead{"order"}}; });
  auto const routes = l.release();
  auto const reason = [&](char const* aggregate) {
    return std::get<dead>(call(*routes->find(aggregate, "paid"), event::json("paid", "1")).value()).reason;
  };
  EXPECT_EQ(reason("order"), "order");
  EXPECT_EQ(reason("user"), "any");
  EXPECT_EQ(reason("__GLOBAL__"), "any");
}

// What the specifications mean by a listener without an aggregate type.
TEST(Listeners, TheGlobalAggregateIsOneLikeAnyOther) {
  listeners l;
  l.on(global_aggregate, "paid", [](delivery const&) { return result{dead{"global"}}; });
  auto const routes = l.release();
  auto const of = [&](event const& e) { return routes->find(e.aggregate_type(), e.type()); };
  EXPECT_NE(of(event::json("paid", "1")), nullptr) << "an event that names none";
  EXPECT_EQ(of(event::json("paid", "1", {.aggregate = {"order", "7"}})), nullptr);
  listeners both;
  both.on("paid", [](delivery const&) { return result{dead{"any"}}; });
  both.on("__GLOBAL__", "paid", [](delivery const&) { return result{dead{"global"}}; });
  auto const two = both.release();
  auto const reason = [&](event const& e) {
    return std::get<dead>(call(*two->find(e.aggregate_type(), e.type()), e).value()).reason;
  };
  EXPECT_EQ(reason(event::json("paid", "1")), "global");
  EXPECT_EQ(reason(event::json("paid", "1", {.aggregate = {"order", "7"}})), "any");
}

TEST(Listeners, UnknownTypesHaveNoRoute) {
  listeners l;
  l.on("order", "paid", [](delivery const&) {});
  auto const routes = l.release();
  EXPECT_EQ(routes->find("user", "paid"), nullptr);
  EXPECT_EQ(routes->find("order", "placed"), nullptr);
  EXPECT_NE(routes->find("order", "paid"), nullptr);
}

TEST(Listeners, ASecondRouteForThePairIsRefused) {
  listeners l;
  l.on("order", "paid", [](delivery const&) {});
  try {
    l.on("order", "paid", [](delivery const&) {});
    FAIL() << "accepted";
  } catch (error const& e) {
    EXPECT_EQ(e.code(), errc::duplicate_route);
    EXPECT_THAT(e.what(), ::testing::HasSubstr("'paid' and aggregate type 'order'"));
  }
  EXPECT_NO_THROW(l.on("paid", [](delivery const&) {}));
}

TEST(Listeners, TypedListenersDecode) {
  listeners l;
  int seen = 0;
  l.on<paid>([&](paid const& p) { seen = p.amount; });
  auto const routes = l.release();
  auto const r = call(*routes->find("", "paid"), event::json("paid", "7"));
  EXPECT_EQ(seen, 7);
  EXPECT_TRUE(std::holds_alternative<done_t>(r.value())) << "returning nothing is done";
}

TEST(Listeners, WhatCannotBeDecodedIsDead) {
  listeners l;
  l.on<paid>([](paid const&, delivery const&) { return done; });
  auto const routes = l.release();
  auto const r = call(*routes->find("", "paid"), event::json("paid", "null"));
  ASSERT_TRUE(std::holds_alternative<dead>(r.value()));
  EXPECT_EQ(std::get<dead>(r.value()).reason, "cannot decode the payload of 'paid': no amount");
}

TEST(Listeners, APlainOneThatCannotDecodeThrowsAPermanentFailure) {
  listeners l;
  l.on("paid", [](delivery const& d) { static_cast<void>(decode<paid>(d.event)); });
  auto const routes = l.release();
  EXPECT_NO_THROW(call(*routes->find("", "paid"), event::json("paid", "7")));
  EXPECT_THROW(call(*routes->find("", "paid"), event::json("paid", "null")), permanent_failure);
}

// The text of the refusal.
template <class F>
std::string refusal(F&& make) {
  try {
    make();
  } catch (error const& e) {
    EXPECT_EQ(e.code(), errc::invalid_option);
    return e.what();
  }
  return "accepted";
}

TEST(Listeners, AFunctionThatIsNotThereIsRefusedByName) {
  listeners l;
  std::function<void(delivery const&)> const none;
  EXPECT_EQ(refusal([&] { l.on("paid", none); }), "listeners has an empty function for route 'paid'");
  EXPECT_EQ(refusal([&] { l.on("order", "paid", none, {.name = "mail"}); }),
            "listeners has an empty function for route 'mail'");
  EXPECT_EQ(refusal([&] { l.on<paid>(std::function<void(paid const&)>{}); }),
            "listeners has an empty function for route 'paid'");
  void (*pointer)(paid const&) = nullptr;
  EXPECT_EQ(refusal([&] { l.on<paid>(pointer); }), "listeners has an empty function for route 'paid'");
  EXPECT_EQ(refusal([&] { l.on_batch("paid", std::function<std::vector<result>(std::span<delivery const>)>{}); }),
            "listeners has an empty function for route 'paid'");
  EXPECT_EQ(refusal([&] {
              l.on_batch<paid>(std::function<std::vector<result>(std::span<paid const>, std::span<delivery const>)>{});
            }),
            "listeners has an empty function for route 'paid'");
  EXPECT_EQ(refusal([&] { l.on("paid", fan_out<>{}.to("mail", none)); }),
            "fan_out has an empty function for the listener 'mail'");
  EXPECT_EQ(refusal([&] { l.on(fan_out<paid>{}.to("mail", pointer)); }),
            "fan_out has an empty function for the listener 'mail'");
  EXPECT_EQ(refusal([&] { static_cast<void>(intercept_before({})); }), "intercept_before was given an empty function");
  EXPECT_EQ(refusal([&] { static_cast<void>(intercept_after({})); }), "intercept_after was given an empty function");
  EXPECT_EQ(refusal([&] { l.on("paid", std::function<void(delivery const&)>{[](delivery const&) {}}); }), "accepted");
}

TEST(Listeners, MayBeMoveOnly) {
  listeners l;
  l.on("paid", [p = std::make_unique<int>(3)](delivery const&) -> result { return failed{std::to_string(*p)}; });
  auto const routes = l.release();
  EXPECT_EQ(std::get<failed>(call(*routes->find("", "paid"), event::json("paid", "1")).value()).reason, "3");
}

TEST(Listeners, EnumsNameRoutes) {
  listeners l;
  l.on(kind::opened, [](delivery const&) {});
  EXPECT_NE(l.release()->find("", "opened"), nullptr);
}

TEST(Listeners, RefuseNonsense) {
  listeners l;
  EXPECT_THROW(l.on("", [](delivery const&) {}), error);
  EXPECT_THROW(l.on("x", [](delivery const&) {}, {.timeout = std::chrono::milliseconds{-1}}), error);
  EXPECT_NO_THROW(l.on("y", [](delivery const&) {}, {.timeout = std::chrono::milliseconds{0}})) << "no limit";
  EXPECT_THROW(l.on(std::string{"a\0b", 3}, [](delivery const&) {}), error) << "no event can have it";
  EXPECT_THROW(l.on("\xFF", "x", [](delivery const&) {}), error);
  EXPECT_THROW(l.on("x", [](delivery const&) {}, {.timeout = std::chrono::milliseconds::max()}), error);
}

TEST(Listeners, OnRefusesASizeOfBatches) {
  listeners l;
  auto const one = [](delivery const&) {};
  auto const many = [](std::span<delivery const> batch) { return std::vector<result>(batch.size(), done); };
  try {
    l.on("x", one, {.max_batch = 10});
    FAIL() << "it takes one event at a time";
  } catch (error const& e) {
    EXPECT_EQ(e.code(), errc::invalid_option);
    EXPECT_EQ(e.field(), "max_batch");
  }
  l.on_batch("y", many).on_batch("z", many, {.max_batch = 7});
  auto const routes = l.release();
  EXPECT_EQ(routes->find("", "y")->max_batch, 100U) << "the default";
  EXPECT_EQ(routes->find("", "z")->max_batch, 7U);
}

}  // namespace
}  // namespace outbox

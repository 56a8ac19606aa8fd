#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <outbox/codec.hpp>
#include <outbox/error.hpp>
#include <outbox/json.hpp>

namespace outbox {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct order_placed {
  static constexpr std::string_view event_type = "order.placed";
  static constexpr std::string_view aggregate_type = "order";
  using outbox_codec = outbox::json;
  std::string order_id;
  std::int64_t cents = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(order_placed, order_id, cents)

struct ping {
  static constexpr std::string_view event_type = "ping";
  unsigned char value = 0;
};

// Throws in several ways.
struct difficult {
  static constexpr std::string_view event_type = "difficult";
  int how = 0;
};

enum class shop { opened, closed };
std::string_view outbox_name(shop s) { return s == shop::opened ? "shop.opened" : "shop.closed"; }

enum class unnamed { value };

}  // namespace

template <>
struct codec<ping> {
  static encoded encode(ping const& p) {
    return {std::string(1, static_cast<char>(p.value)), payload_kind::bytes, "application/x-ping"};
  }
  static ping decode(event const& e) { return {static_cast<unsigned char>(e.payload().at(0))}; }
};

template <>
struct codec<difficult> {
  static void fail(int how) {
    switch (how) {
      case 1: throw std::runtime_error{"too difficult"};
      case 2: throw 2;  // NOLINT(hicpp-exception-baseclass): anybody may
      case 3: throw error::about(errc::invalid_event, "signature", "is missing");
      case 4: throw std::bad_alloc{};
      default: break;
    }
  }
  static encoded encode(difficult const& d) {
    fail(d.how);
    return {"1"};
  }
  static difficult decode(event const& e) {
    fail(std::stoi(e.payload()));
    return {};
  }
};

template <>
struct codec<std::int64_t> {
  static encoded encode(std::int64_t n) { return {std::to_string(n)}; }
  static std::int64_t decode(event const& e) { return std::stoll(e.payload()); }
};

namespace {

static_assert(typed_event<order_placed>);
static_assert(typed_event<ping>);
static_assert(!typed_event<int>);
static_assert(named_enum<shop>);
static_assert(!named_enum<unnamed>);

TEST(Codec, AStructIsAnEvent) {
  auto const e = make_event(order_placed{"42", 1999}, {.aggregate = {"", "42"}});
  EXPECT_EQ(e.type(), "order.placed");
  EXPECT_EQ(e.aggregate_type(), "order") << "the struct's own";
  EXPECT_EQ(e.aggregate_id(), "42");
  auto const back = codec<order_placed>::decode(e);
  EXPECT_EQ(back.order_id, "42");
  EXPECT_EQ(back.cents, 1999);
}

TEST(Codec, OptionsMayNameTheAggregateThatAStructDoesNotName) {
  EXPECT_EQ(make_event(ping{}, {.aggregate = {"host", "1"}}).aggregate_type(), "host");
  EXPECT_EQ(make_event(order_placed{}, {.aggregate = {"order", "1"}}).aggregate_type(), "order");
}

TEST(Codec, OptionsMayNotContradictTheStruct) {
  try {
    static_cast<void>(make_event(order_placed{}, {.aggregate = {"cart", "1"}}));
    FAIL() << "accepted, and no listener of the struct would be found";
  } catch (error const& e) {
    EXPECT_EQ(e.code(), errc::invalid_event);
    EXPECT_EQ(e.field(), "aggregate.type");
    EXPECT_STREQ(e.what(), "aggregate.type is 'cart', but the struct of event type 'order.placed' names 'order'");
  }
}

TEST(Codec, ASpecialisationMayUseBytes) {
  auto const e = make_event(ping{200});
  EXPECT_EQ(e.kind(), payload_kind::bytes);
  EXPECT_EQ(e.content_type(), "application/x-ping");
  EXPECT_EQ(codec<ping>::decode(e).value, 200);
}

TEST(Codec, JsonIsStrictInBothDirections) {
  EXPECT_THROW(static_cast<void>(make_event(order_placed{"\xff", 1})), error);
  EXPECT_ANY_THROW(static_cast<void>(codec<order_placed>::decode(event::json("t", "{}"))));
  EXPECT_ANY_THROW(static_cast<void>(codec<order_placed>::decode(event::bytes("t", "{}", "x"))));
}

// What the codec throws, and what becomes of it.
template <class T>
std::string refused_payload(T const& value) {
  try {
    static_cast<void>(make_event(value));
  } catch (error const& e) {
    EXPECT_EQ(e.code(), errc::invalid_event);
    EXPECT_EQ(e.field(), "payload");
    return e.what();
  }
  return "accepted";
}

TEST(Codec, WhatEncodeThrowsIsAnInvalidEvent) {
  EXPECT_THAT(refused_payload(order_placed{"\xff", 1}),
              AllOf(HasSubstr("payload of 'order.placed' cannot be encoded"), HasSubstr("316")));
  EXPECT_EQ(refused_payload(difficult{1}), "payload of 'difficult' cannot be encoded: too difficult");
  EXPECT_THAT(refused_payload(difficult{2}), HasSubstr("not an exception"));
}

TEST(Codec, AnErrorOfTheCodecsOwnPassesThrough) {
  try {
    static_cast<void>(make_event(difficult{3}));
    FAIL() << "accepted";
  } catch (error const& e) {
    EXPECT_EQ(e.field(), "signature");
  }
  EXPECT_THROW(static_cast<void>(make_event(difficult{4})), std::bad_alloc) << "no fault of the event's";
}

TEST(Decode, GivesTheStructOrAPermanentFailure) {
  EXPECT_EQ(decode<order_placed>(make_event(order_placed{"42", 1999})).cents, 1999);
  EXPECT_EQ(decode<std::int64_t>(event::json("t", "7")), 7) << "a type needs no name, only a codec";
  try {
    static_cast<void>(decode<order_placed>(event::json("order.changed", "{}")));
    FAIL() << "decoded";
  } catch (permanent_failure const& e) {
    EXPECT_THAT(e.what(), HasSubstr("cannot decode the payload of 'order.changed': "));
    EXPECT_THAT(e.what(), HasSubstr("order_id"));
  }
  EXPECT_THROW(static_cast<void>(decode<difficult>(event::json("t", "2"))), permanent_failure);
  EXPECT_THROW(static_cast<void>(decode<difficult>(event::json("t", "4"))), std::bad_alloc);
}

TEST(TypeName, TakesTextAndNamedEnums) {
  EXPECT_EQ(type_name{"a"}.view(), "a");
  EXPECT_EQ(type_name{shop::closed}.view(), "shop.closed");
  EXPECT_EQ(type_name{static_cast<char const*>(nullptr)}.view(), "") << "which is refused as an event type";
}

}  // namespace
}  // namespace outbox

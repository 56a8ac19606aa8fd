#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <outbox/codec.hpp>
#include <outbox/error.hpp>
#include <outbox/json.hpp>

namespace outbox {
namespace {

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

TEST(Codec, OptionsMayNameAnotherAggregate) {
  EXPECT_EQ(make_event(order_placed{}, {.aggregate = {"cart", "1"}}).aggregate_type(), "cart");
}

TEST(Codec, ASpecialisationMayUseBytes) {
  auto const e = make_event(ping{200});
  EXPECT_EQ(e.kind(), payload_kind::bytes);
  EXPECT_EQ(e.content_type(), "application/x-ping");
  EXPECT_EQ(codec<ping>::decode(e).value, 200);
}

TEST(Codec, JsonIsStrictBothWays) {
  EXPECT_ANY_THROW(static_cast<void>(make_event(order_placed{"\xff", 1})));
  EXPECT_ANY_THROW(static_cast<void>(codec<order_placed>::decode(event::json("t", "{}"))));
  EXPECT_ANY_THROW(static_cast<void>(codec<order_placed>::decode(event::bytes("t", "{}", "x"))));
}

TEST(TypeName, TakesTextAndNamedEnums) {
  EXPECT_EQ(type_name{"a"}.view(), "a");
  EXPECT_EQ(type_name{shop::closed}.view(), "shop.closed");
}

}  // namespace
}  // namespace outbox

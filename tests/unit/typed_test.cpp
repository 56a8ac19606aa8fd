// Typed listeners: when codecs are called, and what happens if decoding fails.
#include "stepwise_node.hpp"

namespace outbox {
namespace {

using Typed = StepwiseNode;

TEST_F(Typed, ACodecIsAskedOncePerWriteAndOncePerDelivery) {
  l.on<paid>([](paid const& p) -> result {
    if (p.amount == 1) return failed{"again"};
    return done;
  });
  make();
  encoded_times = decoded_times = 0;
  memory::transaction tx{*table};
  n->writer().write(tx, paid{2});
  n->writer().write(tx, paid{1});
  tx.commit();
  EXPECT_EQ(encoded_times, 2);
  settle_all();
  EXPECT_EQ(decoded_times, 1 + 3) << "three attempts of the second";
}

TEST_F(Typed, APlainListenerThatCannotDecodeMakesTheEventDeadAtOnce) {
  int amount = 0;
  l.on("paid", [&](delivery const& d) { amount += decode<paid>(d.event).amount; });
  make();
  write("good", "paid", "14");
  write("bad", "paid", "null");
  settle_all();
  EXPECT_EQ(amount, 14);
  EXPECT_EQ(row("bad").status, event_status::dead);
  EXPECT_EQ(row("bad").attempts, 0);
  EXPECT_THAT(row("bad").last_error, HasSubstr("cannot decode the payload of 'paid'"));
  EXPECT_EQ(seen->count("bad"), 1U);
}

}  // namespace
}  // namespace outbox

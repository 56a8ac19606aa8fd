// Writing on Redis: what the library adds to the script that inserts an event.
#include "redis_by_hand.hpp"
#include "redis_ours.hpp"
#include "suites.hpp"

namespace bench {
namespace {

row write_one(settings const& s, re::fsync when, int count) {
  auto const ours_at = re::new_place(when, 0);
  auto const by_hand_at = re::new_place(when, 1);
  auto const node = outbox::writer_only({.store = re::store_of(ours_at), .log = nullptr});
  auto const writer = node.writer();
  re::writer_by_hand hand{by_hand_at};
  int n = 0;
  return alternate(
      s,
      {"redis.write.1" + re::suffix(when), "events/s", re::bar_of(when, at_least(0.85)),
       std::string{"one event in a writer_only with default options, without a transaction, appendfsync "} +
           (when == re::fsync::always ? "always" : "everysec") +
           "; by hand: the same script by EVALSHA with the same arguments, one redisCommandArgv"},
      count, [&] { writer.write(outbox::no_transaction, "order.placed", payload, {.id = re::id_of(0, ++n)}); },
      [&] { hand.write(re::id_of(0, ++n), payload); });
}

}  // namespace

rows redis_write(settings const& s) {
  return {write_one(s, re::fsync::everysec, s.amount(4000)), write_one(s, re::fsync::always, s.amount(400))};
}

}  // namespace bench

// Business code that writes events includes <outbox/writer.hpp> and nothing else of this library. With -DUNKNOWN=<name>
// it names something that this header must not bring along.
#include <outbox/writer.hpp>

struct order_placed {
  static constexpr std::string_view event_type = "order.placed";
  int id = 0;
};
template <>
struct outbox::codec<order_placed> {
  static encoded encode(order_placed const& o) { return {std::to_string(o.id)}; }
  static order_placed decode(event const& e) { return {std::stoi(e.payload())}; }
};

template <outbox::joinable Tx>
void place_order(outbox::writer const& events, Tx& tx) {
  events.write(tx, order_placed{42});
  events.write(tx, "order.placed", "42");
}

void place_order(outbox::writer const& events, outbox::transaction_ref tx) {
  place_order<outbox::transaction_ref>(events, tx);
}

#ifdef UNKNOWN
static_assert(sizeof(UNKNOWN) > 0);
#endif

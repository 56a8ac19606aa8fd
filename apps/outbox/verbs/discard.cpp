// `outbox discard`: dead events leave the order of their key.
#include <memory>

#include "cli/bulk.hpp"
#include "cli/tool_error.hpp"
#include "verbs/verbs.hpp"

namespace outbox_tool {
namespace {

std::size_t discard_some(outbox::spi::store& s, outbox::event_filter const& f, std::size_t limit) {
  if (!s.capabilities().keys) {
    throw tool_error{exit_failed, "this table cannot keep an order of keys",
                     "A table of another shape has no column for it."};
  }
  return s.discard(f, limit);
}

}  // namespace

void add_discard(command_tree& tree) {
  auto const o = std::make_shared<bulk_options>();
  auto& verb = tree.add(
      "discard",
      {.summary = "take dead events out of the order of their keys; what waits behind them goes on",
       .details =
           "On a keyed table a dead event parks its key: the events behind it wait until it is replayed or discarded. "
           "A discarded event stays DEAD and is purged like any other; if it is replayed later, it runs beside the "
           "order. Dead events outside any order are left as they are. It asks first, and tells the audit who did "
           "what.",
       .examples = {{"outbox status --db sqlite:shop.db", "is a key parked, and behind which event?"},
                    {"outbox discard 01JAB3J6ZK0000000000000000 --reason 'the order was refunded' --yes", "one event"},
                    {"outbox discard --type order.placed --older-than 1d --dry-run", "which would be discarded?"}},
       .status = "0 success; 3 nothing matched, with --fail-if-empty; 7 it ended early; 130 interrupted."},
      [o] {
        return run_bulk(*o,
                        {.verb = "discard",
                         .past = "discarded",
                         .change = discard_some,
                         .left = "Dead events outside any order are left as they are."},
                        [&](outbox::event_filter& f, outbox::instant now) {
                          using outbox::event_status;
                          if (!f.statuses.empty() && f.statuses != std::vector{event_status::dead}) {
                            refuse("only dead events can be discarded: leave --state out");
                          }
                          f.statuses = {event_status::dead};
                          f.died_by = now;
                        });
      });
  o->add_to(verb);
}

}  // namespace outbox_tool

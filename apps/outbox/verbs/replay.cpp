// `outbox replay`: dead events get another chance.
#include <memory>

#include "cli/bulk.hpp"
#include "cli/tool_error.hpp"
#include "verbs/verbs.hpp"

namespace outbox_tool {

void add_replay(command_tree& tree) {
  auto const o = std::make_shared<bulk_options>();
  auto& verb = tree.add(
      "replay",
      {.summary = "make dead events NEW, so that they are delivered again",
       .details =
           "They begin again, as if they had never been tried; children of a fan_out that are done stay done. Only "
           "events that are dead when it begins are replayed. It asks first, and tells the audit who did what.",
       .examples = {{"outbox replay --type order.placed --db sqlite:shop.db --dry-run", "which are they?"},
                    {"outbox replay --type order.placed --reason 'carrier is back' --rate 200", "replay them, gently"},
                    {"outbox replay 01JAB3J6ZK0000000000000000 --yes", "one event"}},
       .status = "0 success; 3 nothing matched, with --fail-if-empty; 7 it ended early; 130 interrupted."},
      [o] {
        return run_bulk(*o,
                        {.verb = "replay",
                         .past = "replayed",
                         .change = [](outbox::spi::store& s, outbox::event_filter const& f,
                                      std::size_t limit) { return s.replay(f, limit); }},
                        [&](outbox::event_filter& f, outbox::instant now) {
                          using outbox::event_status;
                          if (!f.statuses.empty() && f.statuses != std::vector{event_status::dead}) {
                            refuse("only dead events can be replayed: leave --state out");
                          }
                          f.statuses = {event_status::dead};
                          f.died_by = now;
                        });
      });
  o->add_to(verb);
}

}  // namespace outbox_tool

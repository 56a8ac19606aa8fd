// `outbox purge`: rows of ended events are deleted.
#include <algorithm>
#include <memory>

#include "cli/bulk.hpp"
#include "cli/tool_error.hpp"
#include "verbs/verbs.hpp"

namespace outbox_tool {

void add_purge(command_tree& tree) {
  auto const o = std::make_shared<bulk_options>();
  auto& verb = tree.add(
      "purge",
      {.summary = "delete the rows of events that are DONE or DEAD",
       .details =
           "A pending event is never deleted. --older-than counts from when the event was written. What is deleted "
           "cannot be replayed. On a keyed table dead events that park their key are left: discard them first.",
       .examples = {{"outbox purge --state done --older-than 7d --yes --db sqlite:shop.db",
                     "what was delivered long ago"},
                    {"outbox purge --state dead --type mail.newsletter --dry-run", "which dead events would go?"}},
       .status = "0 success; 3 nothing matched, with --fail-if-empty; 7 it ended early; 130 interrupted."},
      [o] {
        return run_bulk(*o,
                        {.verb = "purge",
                         .past = "deleted",
                         .change = [](outbox::spi::store& s, outbox::event_filter const& f,
                                      std::size_t limit) { return s.purge(f, limit); },
                         .left = "On a keyed table dead events that park their key are left: discard them first."},
                        [&](outbox::event_filter& f, outbox::instant /*now*/) {
                          using outbox::event_status;
                          auto const ended = [](event_status x) {
                            return x == event_status::delivered || x == event_status::dead;
                          };
                          if (!std::ranges::all_of(f.statuses, ended)) {
                            refuse("pending events are never purged: --state is done or dead");
                          }
                          if (f.statuses.empty()) f.statuses = {event_status::delivered, event_status::dead};
                        });
      });
  o->add_to(verb);
}

}  // namespace outbox_tool

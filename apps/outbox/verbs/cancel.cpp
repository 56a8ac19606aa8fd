// `outbox cancel`: pending events become DEAD.
#include <algorithm>
#include <memory>

#include "cli/bulk.hpp"
#include "cli/tool_error.hpp"
#include "verbs/verbs.hpp"

namespace outbox_tool {

void add_cancel(command_tree& tree) {
  auto const o = std::make_shared<bulk_options>();
  auto& verb = tree.add(
      "cancel",
      {.summary = "make pending events DEAD, so that they are not delivered",
       .details =
           "The reason becomes their error. An event that a node holds is taken away from it. The node learns of that "
           "within a quarter of its lease; until then its listener may still be called, and the result is ignored. "
           "`outbox replay` undoes it. On a keyed table a cancelled event parks its key like any dead one, until it is "
           "discarded.",
       .examples = {{"outbox cancel --type mail.newsletter --reason 'sent by mistake' --db sqlite:shop.db",
                     "all of a type"},
                    {"outbox cancel 01JAB3J6ZK0000000000000000 --yes", "one event"}},
       .status = "0 success; 3 nothing matched, with --fail-if-empty; 7 it ended early; 130 interrupted."},
      [o] {
        auto const reason = o->reason.empty() ? std::string{"cancelled"} : "cancelled: " + o->reason;
        return run_bulk(*o,
                        {.verb = "cancel",
                         .past = "cancelled",
                         .change = [reason](outbox::spi::store& s, outbox::event_filter const& f,
                                            std::size_t limit) { return s.cancel(f, reason, limit); }},
                        [&](outbox::event_filter& f, outbox::instant /*now*/) {
                          using outbox::event_status;
                          auto const pending = [](event_status x) {
                            return x == event_status::created || x == event_status::retry;
                          };
                          if (!std::ranges::all_of(f.statuses, pending)) {
                            refuse("only pending events can be cancelled: --state is new, retry or pending");
                          }
                          if (f.statuses.empty()) f.statuses = {event_status::created, event_status::retry};
                        });
      });
  o->add_to(verb);
}

}  // namespace outbox_tool

// A node that has nothing to do, in a process of its own: how often it wakes, what it computes, how soon it is back.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

#include "cross.hpp"
#include "suites.hpp"

namespace bench {

/// `write(id, committed)` commits one event in this process; the node of the probe stamps it in `slots`.
[[nodiscard]] rows idle_rows(settings const& s, std::string const& database, double most_wakeups,
                             std::string const& what, ::pid_t node, shared_slots const& slots,
                             write_event const& write);

}  // namespace bench

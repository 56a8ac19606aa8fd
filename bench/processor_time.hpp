// Processor time of other processes.
#pragma once

#include <sys/types.h>

namespace bench {

/// Seconds that a process has computed, all its threads; 0 if it is gone.
[[nodiscard]] double processor_seconds(::pid_t pid);

/// Seconds of a PostgreSQL server: the postmaster, its children and those that have ended, except one.
[[nodiscard]] double server_seconds(::pid_t postmaster, ::pid_t except);

}  // namespace bench

// Which clock the store of a backend reads.
#pragma once

namespace outbox {

/// The contract suite moves time by hand. Whole nodes with threads need the machine's clock.
enum class backend_clock { manual, machine };

}  // namespace outbox

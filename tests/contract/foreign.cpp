// The cases of other programs on the same table, for every store that was built.
#include "backends/all.hpp"
#define OUTBOX_CONTRACT_BACKENDS OUTBOX_ALL_BACKENDS
#include <outbox/testing/contract/foreign.hpp>

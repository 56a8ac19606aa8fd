// The cases of leases, for every store that was built.
#include "backends/all.hpp"
#define OUTBOX_CONTRACT_BACKENDS OUTBOX_ALL_BACKENDS
#include <outbox/testing/contract/lease.hpp>

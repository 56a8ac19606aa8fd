#include "backends/all.hpp"
#define OUTBOX_CONTRACT_BACKENDS OUTBOX_ALL_BACKENDS
#include <outbox/testing/contract/keyed_claim.hpp>

#include "backends/all.hpp"
#ifdef OUTBOX_HAS_POSTGRES
#define OUTBOX_CONTRACT_BACKENDS OUTBOX_ALL_BACKENDS, notifying_postgres_backend
#else
#define OUTBOX_CONTRACT_BACKENDS OUTBOX_ALL_BACKENDS
#endif
#include <outbox/testing/contract/signals.hpp>

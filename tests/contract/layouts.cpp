#include "backends/layouts.hpp"

#define OUTBOX_CONTRACT_BACKENDS sqlite_layout_backend, postgres_layout_backend, mysql_layout_backend
#include <outbox/testing/contract.hpp>

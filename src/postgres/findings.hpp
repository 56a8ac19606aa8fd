// The checks of a PostgreSQL store, all of them.
#pragma once

#include <outbox/spi/store.hpp>
#include <vector>

#include "postgres/checks.hpp"

namespace outbox::inline v0::postgres {

/// Makes every check and adds its findings. Changes nothing. Throws `error` if the server does not answer.
void make_checks(checked const& on);

}  // namespace outbox::inline v0::postgres

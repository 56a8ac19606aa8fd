// The checks of a store on MariaDB and MySQL, all of them.
#pragma once

#include "mysql/checks.hpp"

namespace outbox::inline v0::mysql {

/// Makes every check and adds its findings. Changes nothing. Throws `error` if the server does not answer.
void make_checks(checked const& on);

}  // namespace outbox::inline v0::mysql

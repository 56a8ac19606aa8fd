// The store on Redis.
#pragma once

#include <outbox/detail/redis_export.hpp>

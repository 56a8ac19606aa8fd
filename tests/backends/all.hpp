// The backends of the stores that were built. A new store joins the contract and the acceptance tests here.
#pragma once

#include "backends/memory.hpp"

#ifdef OUTBOX_HAS_SQLITE
#include "backends/sqlite.hpp"
#define OUTBOX_SQLITE_BACKENDS , sqlite_backend
#define OUTBOX_ERASING_SQLITE_BACKENDS , erasing_sqlite_backend
#else
#define OUTBOX_SQLITE_BACKENDS
#define OUTBOX_ERASING_SQLITE_BACKENDS
#endif

#ifdef OUTBOX_HAS_POSTGRES
#include "backends/postgres.hpp"
#define OUTBOX_POSTGRES_BACKENDS , postgres_backend
#define OUTBOX_ERASING_POSTGRES_BACKENDS , erasing_postgres_backend
#else
#define OUTBOX_POSTGRES_BACKENDS
#define OUTBOX_ERASING_POSTGRES_BACKENDS
#endif

#ifdef OUTBOX_HAS_MYSQL
#include "backends/mysql.hpp"
#define OUTBOX_MYSQL_BACKENDS , mysql_backend
#define OUTBOX_ERASING_MYSQL_BACKENDS , erasing_mysql_backend
#define OUTBOX_OTHER_MYSQL_BACKENDS , mysql_statements_backend
#else
#define OUTBOX_MYSQL_BACKENDS
#define OUTBOX_ERASING_MYSQL_BACKENDS
#define OUTBOX_OTHER_MYSQL_BACKENDS
#endif

#ifdef OUTBOX_HAS_REDIS
#include "backends/redis.hpp"
#define OUTBOX_REDIS_BACKENDS , redis_backend
#define OUTBOX_ERASING_REDIS_BACKENDS , erasing_redis_backend
#else
#define OUTBOX_REDIS_BACKENDS
#define OUTBOX_ERASING_REDIS_BACKENDS
#endif

/// Stores that keep rows of delivered events: those that the acceptance tests use.
#define OUTBOX_KEEPING_BACKENDS \
  memory_backend OUTBOX_SQLITE_BACKENDS OUTBOX_POSTGRES_BACKENDS OUTBOX_MYSQL_BACKENDS OUTBOX_REDIS_BACKENDS

/// The same stores, each deleting the rows of delivered events.
#define OUTBOX_ERASING_BACKENDS                                                                                        \
  erasing_memory_backend OUTBOX_ERASING_SQLITE_BACKENDS OUTBOX_ERASING_POSTGRES_BACKENDS OUTBOX_ERASING_MYSQL_BACKENDS \
      OUTBOX_ERASING_REDIS_BACKENDS

/// Every store, for the contract suite.
#define OUTBOX_ALL_BACKENDS \
  OUTBOX_KEEPING_BACKENDS, OUTBOX_ERASING_BACKENDS, leasing_memory_backend OUTBOX_OTHER_MYSQL_BACKENDS

// The path of a PostgreSQL table from schema version 1 to 2, beside programs that use the table.
#pragma once

#include <libpq-fe.h>

#include <outbox/postgres.hpp>
#include <string>

namespace outbox::inline v0::postgres {

/// Upgrades a table of version 1. If the table has rows, the index is made without a lock that writers wait for.
/// Programs that upgrade at the same time wait for each other. What an interrupted upgrade left is completed. Throws
/// `error`.
void upgrade(PGconn* c, options const& o, std::string const& schema);

/// Adds the indexes of schema/postgres/keyed.sql, in the same way. Returns false if the table has them.
bool add_key_indexes(PGconn* c, options const& o, std::string const& schema);

/// The name of an index where a statement needs its schema: it is where its table is.
[[nodiscard]] std::string quoted_index(std::string const& schema, std::string const& index);

/// Drops the index of version 1 when no node of that version is live. If that is not possible now, the report has a
/// warning: the index only costs time and space.
void drop_old_index(PGconn* c, options const& o, std::string const& schema, migration& report);

}  // namespace outbox::inline v0::postgres

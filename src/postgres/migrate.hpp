// The schema: what it is, and how a database gets it.
#pragma once

#include <libpq-fe.h>

#include <outbox/postgres.hpp>
#include <outbox/spi/sql_connection.hpp>
#include <string>
#include <string_view>

namespace outbox::inline v0::postgres {

inline constexpr int schema_version = 1;

/// schema/postgres/0001.sql
extern std::string_view const schema_sql;

/// schema/postgres/ordered.sql
extern std::string_view const ordered_sql;

/// The schema that `o` names, or the connection's current one. The first question on a connection, so with a limit: a
/// pooler may have no server to give. Throws `error` (invalid_option) if it is not there.
[[nodiscard]] std::string resolve_schema(PGconn* c, options const& o);

/// In one transaction; others that migrate wait. Throws `error`.
migration migrate_connection(PGconn* c, options const& o, std::string const& schema);

/// The identity of the table. Throws `error` (store_failure) with what to do, unless its schema is the one that this
/// library knows.
[[nodiscard]] std::string check_schema(PGconn* c, std::string const& table, std::string const& schema);

/// Whether the index of schema/postgres/ordered.sql is valid; nothing if the table has none.
[[nodiscard]] std::optional<bool> order_index(sql::connection& c, std::string const& table, std::string const& schema);

/// Asks for the identity of the table whose companion is `meta`: the value that was drawn when it was created, the
/// number of the database and the number of the companion, because the database and the schema may be copies.
[[nodiscard]] std::string table_id_sql(std::string const& meta);

/// The identity as earlier versions have it, which copies of a schema in one database share.
[[nodiscard]] std::string_view older_table_id(std::string_view table_id) noexcept;

/// Throws `error` (invalid_option).
void check_options(options const& o);

}  // namespace outbox::inline v0::postgres

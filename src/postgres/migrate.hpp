// The schema of a PostgreSQL database: its text, and how a database gets it.
#pragma once

#include <libpq-fe.h>

#include <outbox/postgres.hpp>
#include <outbox/spi/sql_connection.hpp>
#include <string>
#include <string_view>

namespace outbox::inline v0::postgres {

/// schema/postgres/0001.sql
extern std::string_view const schema_sql;

/// schema/postgres/0002.sql
extern std::string_view const schema_2_sql;

/// schema/postgres/ordered.sql
extern std::string_view const ordered_sql;

/// schema/postgres/keyed.sql
extern std::string_view const keyed_sql;

/// What is behind the name of the table in the name of an index that not every table has.
inline constexpr std::string_view order_index = "_in_order";
inline constexpr std::string_view key_index = "_keyed";
inline constexpr std::string_view blocked_index = "_blocked";
inline constexpr std::string_view key_indexes[] = {key_index, blocked_index};

/// The schema that `o` names, or the connection's current one. It is the first question on a connection, so it has a
/// time limit: a pooler may have no server to give. Throws `error` (invalid_option) if the schema does not exist.
[[nodiscard]] std::string resolve_schema(PGconn* c, options const& o);

/// Migrates in one transaction. Other processes that migrate wait. Throws `error`.
migration migrate_connection(PGconn* c, options const& o, std::string const& schema);

/// Returns the identity of the table. Throws `error` (store_failure), which says what to do, unless the table has this
/// library's schema.
[[nodiscard]] std::string check_schema(PGconn* c, std::string const& table, std::string const& schema);

/// Nothing if the table has no such index, else whether it is valid: CREATE INDEX CONCURRENTLY that fails leaves an
/// invalid one.
[[nodiscard]] std::optional<bool> index_is_valid(sql::connection& c, std::string const& table,
                                                 std::string const& schema, std::string_view suffix);

/// Which of `key_indexes` the table does not have, or has in a state that is not valid: the first of them, else empty.
[[nodiscard]] std::string_view missing_key_index(sql::connection& c, std::string const& table,
                                                 std::string const& schema);

/// The statement that asks for the identity of the table whose companion is `meta`: the value that was drawn when it
/// was created, the number of the database and the number of the companion, because database and schema may be copies.
[[nodiscard]] std::string table_id_sql(std::string const& meta);

/// The identity as earlier versions of this library know it; copies of a schema in one database share it.
[[nodiscard]] std::string_view older_table_id(std::string_view table_id) noexcept;

/// Throws `error` (invalid_option).
void check_options(options const& o);

}  // namespace outbox::inline v0::postgres

// A store from a URL, for programs that learn at run time which database they use.
#pragma once

#include <memory>
#include <outbox/detail/stores_export.hpp>
#include <outbox/store.hpp>
#include <outbox/table_layout.hpp>
#include <string_view>

namespace outbox::inline v0 {

/// Opens the store that `url` names:
///
///     memory:                                 a new, empty store in memory
///     sqlite:shop.db                          a file, relative or absolute
///     sqlite:/var/lib/shop/shop.db?table=outbox_event&busy_timeout=5000&migrate=0
///     postgresql://user@host/shop?sslmode=require&outbox.schema=shop&outbox.notify=1
///     mysql://user@host/shop?ssl=verify&outbox.table=outbox_event
///     mariadb://user@localhost/shop?socket=/run/mysqld/mysqld.sock
///
/// The parameters are fields of the store's options, times in milliseconds: table, busy_timeout, migrate, done_rows
/// (keep or erase) and synchronous (full or normal) for SQLite; table, schema, connections, timeout, migrate, ordered,
/// notify and done_rows for PostgreSQL; table, database, connections, timeout, migrate and done_rows for MariaDB and
/// MySQL; on servers each after "outbox.". libpq reads all other parameters of a PostgreSQL URL; `mysql::open` says
/// what else a URL of MariaDB and MySQL may have. Returns a store that the caller shares with its nodes.
///
/// Throws `error` (invalid_option) that names what is wrong with the URL, or the error of the store that it opens.
[[nodiscard]] OUTBOX_STORES_EXPORT std::shared_ptr<store> open_store(std::string_view url);

/// The same for a table of another shape. Throws `error` (invalid_option) also if the store is not one on SQL.
[[nodiscard]] OUTBOX_STORES_EXPORT std::shared_ptr<store> open_store(std::string_view url, table_layout const& layout);

}  // namespace outbox::inline v0

// A store from a URL, for programs that learn at run time which database they use.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <outbox/detail/stores_export.hpp>
#include <outbox/log.hpp>
#include <outbox/migration.hpp>
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
///     redis://user:password@host:6379/0?outbox.name=outbox&outbox.replicas=1
///     rediss://host:6380?ssl_ca=/etc/ssl/ca.pem
///
/// The parameters are fields of the store's options, times in milliseconds: table, busy_timeout, migrate, keyed,
/// done_rows (keep or erase) and synchronous (full or normal) for SQLite; table, schema, connections, timeout, migrate,
/// ordered, keyed, notify and done_rows for PostgreSQL; table, database, connections, timeout, migrate, keyed and
/// done_rows for MariaDB and MySQL; name, connections, timeout, migrate, done_rows, notify and replicas for Redis,
/// where done_rows is erase by default; on servers each after "outbox.". libpq reads all other parameters of a
/// PostgreSQL URL; `mysql::open` and `redis::open` say what else their URLs may have. Returns a store that the caller
/// shares with its nodes.
///
/// Throws `error` (invalid_option) that names what is wrong with the URL, or the error of the store that it opens.
[[nodiscard]] OUTBOX_STORES_EXPORT std::shared_ptr<store> open_store(std::string_view url);

/// The same for a table of another shape. Throws `error` (invalid_option) also if the store is not one on SQL.
[[nodiscard]] OUTBOX_STORES_EXPORT std::shared_ptr<store> open_store(std::string_view url, table_layout const& layout);

/// How `open_store` opens, whatever the URL says.
struct open_options {
  bool read_only = false;                ///< The store only reads, and changes no schema. Default false.
  bool migrate = true;                   ///< False: it never changes the schema. Default true: as the URL says.
  log_function log = log_to_stderr;      ///< Where the warnings of the store go. Default: standard error.
  std::optional<table_layout> layout{};  ///< A table of another shape. Default: none.

  /// Whether opening makes what `keyed` nodes need in the database, such as an index. Default: as the URL says. Without
  /// `migrate` it makes nothing. Stores that need nothing ignore it.
  bool keyed = false;

  std::chrono::milliseconds read_timeout{};  ///< With `read_only`: how long a read may take. 0: as the URL says.
};

/// The same with options.
[[nodiscard]] OUTBOX_STORES_EXPORT std::shared_ptr<store> open_store(std::string_view url, open_options o);

/// Brings the table that `url` names to this library's schema, as `sqlite::migrate()` and its like do. On Redis it
/// creates the outbox if it is not there. A store in memory needs nothing. Throws `error` like `open_store`.
OUTBOX_STORES_EXPORT migration migrate_store(std::string_view url);

/// The same. With `keyed` it also makes what `keyed` nodes need in the database, such as an index, and does not mark
/// the table: nodes of other modes go on.
OUTBOX_STORES_EXPORT migration migrate_store(std::string_view url, bool keyed);

/// The schema of the table that `url` names. Changes nothing. Throws `error` like `open_store`, and `error`
/// (unsupported) for memory.
[[nodiscard]] OUTBOX_STORES_EXPORT schema_state schema_of(std::string_view url);

}  // namespace outbox::inline v0

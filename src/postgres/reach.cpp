#include "postgres/reach.hpp"

#include <libpq-fe.h>

#include <outbox/error.hpp>

#include "postgres/migrate.hpp"
#include "postgres/watch.hpp"
#include "sql/table_name.hpp"

namespace outbox::inline v0::postgres {
namespace {

// Two questions, so that a table that does not exist, or may not be read, does not make the caller's transaction fail.
watch::reach ask_about_table(caller_connection& c, table_identity const& to) {
  auto const refuse = [] {
    throw error{errc::wrong_transaction, "the transaction is on another database than the node's store"};
  };
  auto const meta = sql::with_table("outbox_meta", to.table, to.schema);
  auto const readable = c.ask<bool>("SELECT has_table_privilege(to_regclass($1), 'SELECT')", {std::string_view{meta}});
  if (!readable) refuse();
  if (!*readable) {
    throw error{errc::store_failure, "the role of the connection may not read " + meta + ": GRANT SELECT on it",
                "42501"};
  }
  bool same = false;
  watch::reach reached{.table_id = to.id};
  auto const table = sql::with_table("outbox_event", to.table, to.schema);
  c.execute("SELECT (" + table_id_sql(meta) +
                "), has_column_privilege(t, 'event_id', 'SELECT') AND has_column_privilege(t, 'locked_by', 'SELECT') "
                "AND NOT row_security_active(t), has_table_privilege(t, 'SELECT') AND NOT row_security_active(t) FROM "
                "to_regclass($1) t",
            {std::string_view{table}}, [&](sql::row const& r) {
              same = r.text(0) == to.id;
              reached.may_look = r.integer(1) != 0;
              reached.may_read = r.integer(2) != 0;
              return false;
            });
  if (!same) refuse();
  return reached;
}

// The table has no companion that could tell.
watch::reach ask_for_identity(caller_connection& c, table_identity const& to) {
  if (c.ask<std::string>(to.identity_sql) != to.id) {
    throw error{errc::wrong_transaction, "the transaction is on another database than the node's store"};
  }
  bool const may_read =
      c.ask<bool>("SELECT has_table_privilege(to_regclass($1), 'SELECT') AND NOT row_security_active($1)",
                  {std::string_view{to.table}})
          .value_or(false);
  return {to.id, may_read, may_read};
}

}  // namespace

bool check_reaches(caller_connection& c, table_identity const& to) {
  auto* const raw = c.raw();
  if (raw == nullptr) return true;  // the client does not show it, so that nothing can be remembered with it
  if (PQtransactionStatus(raw) == PQTRANS_INERROR) {
    throw error{errc::store_failure, "the transaction has failed already and can only be rolled back", "25P02"};
  }
  std::string_view const encoding = pg_encoding_to_char(PQclientEncoding(raw));
  if (encoding != "UTF8" && encoding != "SQL_ASCII") {
    throw error{errc::wrong_transaction,
                "the connection's client_encoding is " + std::string{encoding} + ", events need UTF8"};
  }
  auto* const seen = watch::of(raw);
  if (seen == nullptr) return false;
  auto const* known = seen->find(to.id);
  if (known == nullptr) known = seen->add(to.identity_sql.empty() ? ask_about_table(c, to) : ask_for_identity(c, to));
  return known->may_look;
}

bool may_read(caller_connection& c, table_identity const& to) {
  auto* const seen = c.raw() == nullptr ? nullptr : watch::of(c.raw());
  auto const* const known = seen == nullptr ? nullptr : seen->find(to.id);
  return known != nullptr && known->may_read;
}

}  // namespace outbox::inline v0::postgres

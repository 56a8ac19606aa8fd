// Joins the transaction of a SOCI session on MariaDB or MySQL. Link outbox::mysql and SOCI's backend for MySQL, which
// must be built with MariaDB Connector/C, as that of Debian is.
//
// Not hot: nothing tells how a transaction of SOCI ends. Call `node::wake()` after the commit, or the poller finds its
// events at the next poll. For the hot path begin an outbox::mysql::transaction on the session's handle instead of a
// soci::transaction:
//
//     outbox::mysql::transaction tx{outbox::adapt::mysql_handle(sql)};
#pragma once

#include <soci/mysql/soci-mysql.h>

#include <outbox/adapt/soci.hpp>
#include <outbox/mysql.hpp>

namespace outbox::inline v0::adapt {

/// Returns the connection below the session, which SOCI closes. Throws `error` (no_transaction) if the session is not
/// connected, and (wrong_transaction) if it is not on MariaDB or MySQL.
inline st_mysql* mysql_handle(soci::session& session) {
  require_backend(session, "mysql");
  return static_cast<soci::mysql_session_backend*>(session.get_backend())->conn_;
}

inline bool const soci_joins_mysql = [] {
  joined_soci_databases.mysql = [](soci::session& s) { return transaction_traits<st_mysql*>::join(mysql_handle(s)); };
  return true;
}();

}  // namespace outbox::inline v0::adapt

#include "postgres/connector.hpp"

#include "postgres/migrate.hpp"

namespace outbox::inline v0::postgres {
namespace {

[[noreturn]] void fail(errc code, std::string const& problem) { throw error::about(code, "connect", problem); }

// What libpq says may quote the password, or a part of it if a URL was misread.
std::string failure_of(PGconn* c) {
  auto said = one_line(PQerrorMessage(c));
  for (auto const* part : {PQhost(c), PQdb(c), PQport(c)}) {
    if (part != nullptr && std::string_view{part}.find('@', 1) != std::string_view::npos) {
      return "the reason is not shown, because it may quote a password: the name of a host or database has an '@'";
    }
  }
  char const* const raw = PQpass(c);
  std::string_view const password = raw == nullptr ? "" : raw;
  for (auto at = said.find(password); !password.empty() && at != std::string::npos; at = said.find(password, at + 3)) {
    said.replace(at, password.size(), "***");
  }
  return said;
}

handle provided(std::function<pg_conn*()> const& provider) {
  handle c;
  try {
    c.reset(provider());
  } catch (error const&) {
    throw;
  } catch (std::exception const& e) {
    fail(errc::unavailable, std::string{"threw: "} + e.what());
  } catch (...) {
    fail(errc::unavailable, "threw something that is not an exception");
  }
  if (!c) fail(errc::unavailable, "returned no connection");
  if (PQstatus(c.get()) != CONNECTION_OK) {
    fail(errc::unavailable, "returned a connection that failed: " + failure_of(c.get()));
  }
  if (PQtransactionStatus(c.get()) != PQTRANS_IDLE || PQpipelineStatus(c.get()) != PQ_PIPELINE_OFF) {
    fail(errc::store_failure, "returned a connection that is in use: in a transaction, or in pipeline mode");
  }
  return c;
}

}  // namespace

handle connector::open(milliseconds timeout) const {
  if (!provider_) return connect(connection_string_, timeout);
  auto c = provided(provider_);
  PQsetNoticeProcessor(
      c.get(), [](void*, char const*) {}, nullptr);
  if (std::string_view{pg_encoding_to_char(PQclientEncoding(c.get()))} != "UTF8" &&
      PQsetClientEncoding(c.get(), "UTF8") != 0) {
    throw error_of(c.get(), nullptr, "cannot set client_encoding to UTF8");
  }
  if (!table_id_.empty()) check(c.get(), timeout);
  return c;
}

void connector::check(PGconn* c, milliseconds timeout) const {
  std::string found;
  try {
    driver{c, prepared::once, timeout}.execute(table_id_sql(meta_), {}, [&](sql::row const& r) {
      found = r.text(0);
      return false;
    });
  } catch (error const& e) {
    bool const missing = e.sqlstate() == "42P01" || e.sqlstate() == "3F000";  // no such table, no such schema
    if (!missing) throw;
  }
  if (found == table_id_) return;
  fail(errc::store_failure, "returned a connection to another database than before: it does not lead to this outbox");
}

}  // namespace outbox::inline v0::postgres

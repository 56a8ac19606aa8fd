// The connection for programs that have none.
#include <outbox/postgres.hpp>

#include "postgres/execute.hpp"
#include "postgres/session.hpp"

namespace outbox::inline v0::postgres {
namespace {

// How long connecting may take.
constexpr milliseconds patience{10'000};

}  // namespace

connection::connection(std::string const& connection_string)
    : session_{std::make_unique<session>(connect(connection_string, patience), patience)} {}
connection::~connection() = default;
pg_conn* connection::handle() const noexcept { return session_->conn.get(); }
sql::result connection::run_statement(std::string_view sql, std::span<sql::argument const> args) {
  return execute_on(handle(), sql, args);
}

}  // namespace outbox::inline v0::postgres

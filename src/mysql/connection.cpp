// The connection for programs that have none.
#include <outbox/mysql.hpp>

#include "mysql/connector.hpp"
#include "mysql/execute.hpp"
#include "mysql/session.hpp"

namespace outbox::inline v0::mysql {
namespace {

// How long connecting may take.
constexpr milliseconds patience{10'000};

}  // namespace

// The server may run statements of its own at each connect (init_connect). Their effects are known only after the first
// answer, and a value is quoted by them.
connection::connection(std::string const& url) : session_{std::make_unique<session>(connect(url, patience, {}))} {
  session_->statements.execute("SET NAMES utf8mb4");
}
connection::~connection() = default;
st_mysql* connection::handle() const noexcept { return session_->conn.get(); }
sql::result connection::run_statement(std::string_view sql, std::span<sql::argument const> args) {
  return execute_on(handle(), sql, args);
}

}  // namespace outbox::inline v0::mysql

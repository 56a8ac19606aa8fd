// The connection for programs that have none.
#include <outbox/sqlite.hpp>
#include <utility>

#include "sqlite/execute.hpp"
#include "sqlite/session.hpp"

namespace outbox::inline v0::sqlite {

connection::connection(std::string const& path, std::chrono::milliseconds busy_timeout) {
  session_ = std::make_unique<session>(open_file(path, busy_timeout), busy_timeout);
}

connection::~connection() = default;

sqlite3* connection::handle() const noexcept { return session_->raw(); }

sql::result connection::run_statement(std::string_view sql, std::span<sql::argument const> args) {
  return execute_on(handle(), sql, args);
}

}  // namespace outbox::inline v0::sqlite

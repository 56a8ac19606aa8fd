#include "mysql/connector.hpp"

#include <algorithm>
#include <mutex>
#include <new>

#include "mysql/url.hpp"

namespace outbox::inline v0::mysql {
namespace {

[[noreturn]] void fail(errc code, std::string const& problem) { throw error::about(code, "connect", problem); }

unsigned whole_seconds(milliseconds t) noexcept {
  return static_cast<unsigned>(std::max<std::int64_t>(1, std::chrono::ceil<std::chrono::seconds>(t).count()));
}

char const* or_null(std::string const& s) noexcept { return s.empty() ? nullptr : s.c_str(); }

void set_tls(MYSQL* c, address const& a) {
  my_bool const yes = 1;
  my_bool const no = 0;
  if (a.tls != tls::off) mysql_optionsv(c, MYSQL_OPT_SSL_ENFORCE, &yes);
  mysql_optionsv(c, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, a.tls == tls::verify ? &yes : &no);
  if (!a.ca.empty()) mysql_optionsv(c, MYSQL_OPT_SSL_CA, a.ca.c_str());
  if (!a.certificate.empty()) mysql_optionsv(c, MYSQL_OPT_SSL_CERT, a.certificate.c_str());
  if (!a.key.empty()) mysql_optionsv(c, MYSQL_OPT_SSL_KEY, a.key.c_str());
}

// Asked of libmariadb: without this it goes on unencrypted if the server cannot encrypt.
void check_tls(MYSQL* c, address const& a) {
  bool const wanted = a.tls == tls::on || a.tls == tls::verify;
  if (wanted && mysql_get_ssl_cipher(c) == nullptr) {
    throw error{errc::store_failure, "the url asks for ssl, and the server does not encrypt connections"};
  }
}

handle provided(std::function<st_mysql*()> const& provider) {
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
  if (mysql_get_socket(c.get()) == MARIADB_INVALID_SOCKET)
    fail(errc::unavailable, "returned a connection that is not open");
  unsigned status = 0;
  mariadb_get_infov(c.get(), MARIADB_CONNECTION_SERVER_STATUS, &status);
  if ((status & SERVER_STATUS_IN_TRANS) != 0)
    fail(errc::store_failure, "returned a connection that is in a transaction");
  unsigned long flags = 0;
  mariadb_get_infov(c.get(), MARIADB_CONNECTION_CLIENT_CAPABILITIES, &flags);
  if ((flags & CLIENT_FOUND_ROWS) == 0 || (flags & CLIENT_MULTI_STATEMENTS) == 0) {
    fail(errc::store_failure,
         "returned a connection without CLIENT_FOUND_ROWS or CLIENT_MULTI_STATEMENTS: pass both to "
         "mysql_real_connect()");
  }
  return c;
}

// Time-outs; a level at which no gaps are locked; settings of the server's that would change what our statements mean.
void prepare_session(MYSQL* c, milliseconds timeout, bool patient) {
  constexpr unsigned a_minute = 60;
  constexpr unsigned an_hour = 3600;
  auto const seconds = std::to_string(whole_seconds(timeout));
  bool const mariadb = mariadb_connection(c) != 0;
  // A process that is stopped, or cut off from the network, must not keep the rows locked that it has looked at. MySQL
  // has no limit for that but the one for all sessions.
  auto const silent = patient || mariadb ? 8 * an_hour : std::max(a_minute, whole_seconds(timeout));
  driver d{c};
  sql_text t{{}};
  t << "SET NAMES utf8mb4; SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE; SET SESSION autocommit "
       "= "
       "1, sql_mode = 'STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION', completion_type = 0, sql_safe_updates = 0, "
       "sql_select_limit = 18446744073709551615, group_concat_max_len = 1073741824, wait_timeout = "
    << std::to_string(silent) << ", innodb_lock_wait_timeout = " << seconds << ", lock_wait_timeout = " << seconds;
  if (mariadb) {
    t << ", in_predicate_conversion_threshold = 0, max_statement_time = " << (patient ? "0" : seconds)
      << ", idle_transaction_timeout = " << (patient ? "0" : seconds);
  } else {
    t << ", max_execution_time = " << (patient ? "0" : seconds + "000");
  }
  d.send(t);
}

}  // namespace

std::string table_id_sql(std::string const& meta) { return "SELECT value FROM " + meta + " WHERE name = 'table_id'"; }

handle connect(std::string const& url, milliseconds connecting, milliseconds answering) {
  auto const a = parse_url(url);
  static std::once_flag ready;  // the library must be told before several threads use it
  std::call_once(ready, [] { mysql_library_init(0, nullptr, nullptr); });
  handle c{mysql_init(nullptr)};
  if (!c) throw std::bad_alloc{};
  auto const to_connect = whole_seconds(connecting);
  unsigned const none = 0;
  mysql_optionsv(c.get(), MYSQL_OPT_LOCAL_INFILE, &none);  // else a server can ask for files of this machine
  mysql_optionsv(c.get(), MYSQL_SET_CHARSET_NAME, "utf8mb4");
  mysql_optionsv(c.get(), MYSQL_OPT_CONNECT_TIMEOUT, &to_connect);
  if (answering.count() > 0) {
    auto const to_answer = whole_seconds(answering) + 1;  // the server gives up first, and says why
    mysql_optionsv(c.get(), MYSQL_OPT_READ_TIMEOUT, &to_answer);
    mysql_optionsv(c.get(), MYSQL_OPT_WRITE_TIMEOUT, &to_answer);
  }
  set_tls(c.get(), a);
  if (!a.socket.empty()) {
    unsigned const protocol = MYSQL_PROTOCOL_SOCKET;
    mysql_optionsv(c.get(), MYSQL_OPT_PROTOCOL, &protocol);
  }
  auto const* const opened =
      mysql_real_connect(c.get(), a.host.c_str(), or_null(a.user), or_null(a.password), or_null(a.database), a.port,
                         or_null(a.socket), CLIENT_MULTI_STATEMENTS | CLIENT_FOUND_ROWS);
  if (opened == nullptr) throw error_of(c.get(), "cannot connect to the server");
  check_tls(c.get(), a);
  return c;
}

handle connector::open(milliseconds timeout) const {
  auto c = provider_ ? provided(provider_) : connect(url_, timeout, timeout);
  prepare_session(c.get(), timeout, false);
  if (read_only_) driver{c.get()}.execute("SET SESSION TRANSACTION READ ONLY");
  if (!table_id_.empty()) check_table(c.get());
  return c;
}

handle connector::open_for_changes(milliseconds timeout) const {
  auto c = provider_ ? provided(provider_) : connect(url_, timeout, {});
  prepare_session(c.get(), timeout, true);
  return c;
}

void connector::check_table(MYSQL* c) const {
  std::string found;
  try {
    driver{c}.execute(table_id_sql(meta_), {}, [&](sql::row const& r) {
      found = r.text(0);
      return false;
    });
  } catch (error const&) {
    auto const number = mysql_errno(c);
    if (number != code::no_such_table && number != code::unknown_database) throw;
  }
  if (found == table_id_) return;
  if (!provider_) {
    throw error{errc::unavailable, "the url leads to another server than before: it does not have this outbox"};
  }
  fail(errc::store_failure, "returned a connection to another database than before: it does not lead to this outbox");
}

}  // namespace outbox::inline v0::mysql

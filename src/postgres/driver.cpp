#include "postgres/driver.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>

#include "core/base/instants.hpp"
#include "postgres/watch.hpp"

namespace outbox::inline v0::postgres {
namespace {

using std::chrono::steady_clock;

// A program that builds statements from values must not fill the memory of the server with them.
constexpr std::size_t most_prepared = 200;

constexpr Oid bool_type = 16, bigint_type = 20, smallint_type = 21, integer_type = 23, oid_type = 26,
              instant_type = 1184, jsonb_type = 3802;

// Classes of SQLSTATE after which the same call may succeed: connections, resources, an operator's intervention, the
// system; then conflicts, a statement that took too long, a server that only reads, a pooler that forgot a statement.
bool passes(std::string_view state) noexcept {
  static constexpr std::string_view classes[] = {"08", "53", "57", "58"};
  static constexpr std::string_view codes[] = {"40001", "40P01", "55P03", "25006", "26000", "72000"};
  return std::ranges::any_of(classes, [&](auto c) { return state.starts_with(c); }) ||
         std::ranges::find(codes, state) != std::end(codes);
}

errc code_of(std::string_view state) noexcept {
  if (state.empty() || passes(state)) return errc::unavailable;
  return state == "23505" ? errc::duplicate_event : errc::store_failure;
}

class shown_row final : public sql::row {
 public:
  shown_row(PGresult* r, int index) noexcept : r_{r}, index_{index} {}
  bool null(int c) const override { return PQgetisnull(r_, index_, c) != 0; }
  std::int64_t integer(int c) const override {
    auto const v = text(c);
    switch (PQftype(r_, c)) {
      case bool_type:
      case smallint_type:
      case integer_type:
      case bigint_type:
      case oid_type: return number(v);
      default: break;
    }
    std::int64_t n = 0;
    std::from_chars(v.data(), v.data() + v.size(), n);
    return n;
  }
  std::string_view text(int c) const override {
    std::string_view bytes{PQgetvalue(r_, index_, c), static_cast<std::size_t>(PQgetlength(r_, index_, c))};
    if (PQftype(r_, c) == jsonb_type && !bytes.empty()) bytes.remove_prefix(1);  // the version of its format
    return bytes;
  }
  std::optional<instant> time(int c) const override {
    using namespace std::chrono;
    if (null(c) || PQftype(r_, c) != instant_type) return std::nullopt;
    static constexpr instant epoch{sys_days{year{2000} / 1 / 1}};
    // Other programs may write instants outside of these bounds, such as infinity. They become the nearest bound.
    return epoch + std::clamp(microseconds{number(text(c))}, core::first_instant - epoch, core::last_instant - epoch);
  }

 private:
  // Big-endian, of any width, with its sign.
  static std::int64_t number(std::string_view bytes) noexcept {
    if (bytes.empty()) return 0;
    std::uint64_t n = (static_cast<unsigned char>(bytes.front()) & 0x80U) != 0 ? ~std::uint64_t{0} : 0;
    for (char const b : bytes) n = (n << 8U) | static_cast<unsigned char>(b);
    return static_cast<std::int64_t>(n);
  }

  PGresult* r_;
  int index_;
};

bool succeeded(PGresult const* r) noexcept {
  auto const s = PQresultStatus(r);
  return s == PGRES_COMMAND_OK || s == PGRES_TUPLES_OK || s == PGRES_EMPTY_QUERY;
}

bool is_copy(PGresult const* r) noexcept {
  auto const s = PQresultStatus(r);
  return s == PGRES_COPY_IN || s == PGRES_COPY_OUT || s == PGRES_COPY_BOTH;
}

// In English, whatever the language of the server. Empty if the error is not the server's.
std::string_view severity_of(PGresult const* r) noexcept {
  char const* const text = r == nullptr ? nullptr : PQresultErrorField(r, PG_DIAG_SEVERITY_NONLOCALIZED);
  return text == nullptr ? std::string_view{} : text;
}
bool ends_session(std::string_view severity) noexcept { return severity == "FATAL" || severity == "PANIC"; }

// The states with which a server ends a session after it has answered everything before. A proxy that lost its server
// reports another one, and may not know how far the server had come.
bool ended_by_server(std::string_view state) noexcept {
  static constexpr std::string_view codes[] = {"57P01", "57P02", "57P05", "25P03", "25P04"};
  return std::ranges::find(codes, state) != std::end(codes);
}

}  // namespace

void doubt_missing_rows(caller_connection const& c, std::int64_t inserted, std::size_t rows) {
  if (inserted >= static_cast<std::int64_t>(rows) || c.raw() == nullptr) return;
  if (auto* const seen = watch::of(c.raw())) seen->doubt_rows();
}

std::string one_line(char const* text) {
  std::string s{text == nullptr ? "" : text};
  while (!s.empty() && s.back() == '\n') s.pop_back();
  for (std::size_t at = 0; (at = s.find('\n', at)) != std::string::npos; at += 2) {
    auto const next = std::min(s.find_first_not_of("\n\t ", at), s.size());
    s.replace(at, next - at, "; ");
  }
  std::ranges::replace(s, '\t', ' ');
  return s;
}

error error_with(std::string const& sqlstate, std::string const& text) {
  return error{code_of(sqlstate), text, sqlstate};
}

error error_of(PGconn* c, PGresult const* r, std::string_view doing) {
  auto const field = [&](int code) -> std::string_view {
    char const* const text = r == nullptr ? nullptr : PQresultErrorField(r, code);
    return text == nullptr ? std::string_view{} : text;
  };
  auto const state = field(PG_DIAG_SQLSTATE);
  auto text = std::string{doing} + ": ";
  if (auto const primary = field(PG_DIAG_MESSAGE_PRIMARY); !primary.empty()) {
    text += primary;
  } else {
    auto const said = one_line(PQerrorMessage(c));
    text += said.empty() ? "the connection to the server was lost" : said;
  }
  if (!state.empty()) text += " (SQLSTATE " + std::string{state} + ")";
  if (PQstatus(c) != CONNECTION_OK || ends_session(severity_of(r))) {
    return error{errc::unavailable, text, std::string{state}};
  }
  return error{state.empty() ? errc::store_failure : code_of(state), text, std::string{state}};
}

error connection_is_busy() {
  return error{errc::connection_busy, "the connection is busy: read the results of its last statement first"};
}

bool spoils_connection(error const& e) noexcept {
  static constexpr std::string_view codes[] = {"25006", "57P01", "57P02", "57P03", "0A000", "26000"};
  return std::ranges::find(codes, e.sqlstate()) != std::end(codes) || e.sqlstate().starts_with("08");
}

void run(PGconn* c, std::string const& sql, std::string_view doing) {
  result_handle const r{PQexec(c, sql.c_str())};
  if (succeeded(r.get())) return;
  // Without the statement: it may contain a password.
  auto const e = error_of(c, r.get(), doing);
  // This is the application's statement, so a unique violation is not a duplicate event.
  if (e.code() == errc::duplicate_event) throw error{errc::store_failure, e.what(), std::string{e.sqlstate()}};
  throw e;
}

void result_rows::show(sql::row_function const& on_row) const {
  for (int i = 0, n = size(); i < n; ++i) {
    if (!on_row(shown_row{r_, i})) return;
  }
}

std::int64_t result_rows::changed() const noexcept {
  std::int64_t n = 0;
  std::string_view const count = PQcmdTuples(r_);
  std::from_chars(count.data(), count.data() + count.size(), n);
  return n;
}

bool driver::in_transaction() const noexcept {
  auto const s = PQtransactionStatus(c_);
  return s == PQTRANS_INTRANS || s == PQTRANS_INERROR || s == PQTRANS_ACTIVE;
}

std::int64_t driver::execute(std::string_view sql, std::span<sql::value const> values,
                             sql::row_function const& on_row) {
  statement const one{std::string{sql}, parameters{values}};
  auto const results = send_or_throw(std::span{&one, 1});
  result_rows const rows{results.front().get()};
  if (on_row) rows.show(on_row);
  return rows.changed();
}

void driver::insert(std::string_view sql, std::span<parameter const> values, std::size_t rows) {
  statement const one{std::string{sql}, parameters{values}};
  auto const results = send_or_throw(std::span{&one, 1});
  doubt_missing_rows(*this, result_rows{results.front().get()}.changed(), rows);
}

void driver::insert_and_tell(std::string_view sql, std::string_view returning, std::span<parameter const> values,
                             std::size_t rows, std::shared_ptr<insert_answer> answer) {
  statement const one{std::string{sql}.append(returning), parameters{values}};
  auto const results = send_or_throw(std::span{&one, 1});
  result_rows const inserted{results.front().get()};
  answer->tell(inserted);
  doubt_missing_rows(*this, inserted.changed(), rows);
}

std::vector<result_handle> driver::send_or_throw(std::span<statement const> statements) {
  auto answers = send(statements);
  if (answers.failure) throw *answers.failure;
  return std::move(answers.results);
}

driver::replies driver::send(std::span<statement const> statements) {
  replies into;
  into.results.reserve(statements.size());  // after COMMIT no allocation may fail
  if (int const pid = PQbackendPID(c_); std::exchange(server_pid_, pid) != pid) {  // the connection was reset
    names_.clear();
    given_up_ = false;
  }
  if (given_up_ || PQstatus(c_) != CONNECTION_OK) {
    into.broken = into.unsent = true;
    into.failure = error{errc::unavailable, "the connection to the server was lost"};
    return into;
  }
  bool const entered = PQpipelineStatus(c_) == PQ_PIPELINE_OFF;
  if (entered && PQenterPipelineMode(c_) == 0) {
    into.failure = connection_is_busy();
    return into;
  }
  std::vector<std::string> prepared_now;
  // libpq leaves the single-row mode of the caller's last query on for the first command of a pipeline: this one.
  bool const absorbs = entered && prepared_ == prepared::once && PQpipelineSync(c_) != 0;
  bool sent = std::ranges::all_of(statements, [&](statement const& s) { return send(s, prepared_now); });
  sent = PQpipelineSync(c_) != 0 && sent;
  if (sent) {
    receive(statements, prepared_now, absorbs, into);
  } else {
    into.failure = error{errc::unavailable, error_of(c_, nullptr, "cannot send a statement").what()};
    break_off();
  }
  into.broken = given_up_ || PQstatus(c_) != CONNECTION_OK;
  if (entered && !into.broken) PQexitPipelineMode(c_);
  return into;
}

// On a connection that keeps statements, one that is not prepared yet is prepared in the same round trip.
bool driver::send(statement const& s, std::vector<std::string>& prepared_now) {
  auto const& p = s.values;
  auto const known = names_.find(s.sql);
  if (prepared_ == prepared::once || (known == names_.end() && names_.size() >= most_prepared)) {
    return PQsendQueryParams(c_, s.sql.c_str(), p.size(), nullptr, p.pointers(), p.lengths(), p.formats(), 1) != 0;
  }
  auto const name = known != names_.end() ? known->second : "outbox_" + std::to_string(++named_);
  if (known == names_.end()) {
    if (PQsendPrepare(c_, name.c_str(), s.sql.c_str(), p.size(), nullptr) == 0) return false;
    names_.emplace(s.sql, name);
    prepared_now.push_back(s.sql);
  }
  return PQsendQueryPrepared(c_, name.c_str(), p.size(), p.pointers(), p.lengths(), p.formats(), 1) != 0;
}

steady_clock::time_point driver::deadline_from_now() const noexcept {
  return timeout_.count() > 0 ? steady_clock::now() + timeout_ + timeout_ / 10 : steady_clock::time_point::max();
}

void driver::receive(std::span<statement const> statements, std::vector<std::string> const& prepared_now, bool absorbs,
                     replies& into) {
  auto const deadline = deadline_from_now();
  auto const fail = [&](PGresult const* r, char const* doing) {
    if (into.failure) return;
    into.failure = given_up_ ? error{errc::unavailable, std::string{doing} + ": the server did not answer in time"}
                   : is_copy(r)
                       ? error{errc::store_failure, "COPY cannot be sent with other statements: run it on the handle"}
                       : error_of(c_, r, doing);
    // A session that ended before the last statement has not run that one.
    bool const before_the_last = into.results.size() + 1 < statements.size();
    into.refused = severity_of(r) == "ERROR" || (before_the_last && ended_by_server(into.failure->sqlstate()));
    // The prepared statement was dropped, or its result type has changed.
    if (into.failure->sqlstate() == "26000" || into.failure->sqlstate() == "0A000") names_.clear();
  };
  // One answer of the server: its result, and the null that ends it.
  auto const answer = [&]() -> result_handle {
    auto r = next_result(deadline);
    if (r) result_handle const end{next_result(deadline).release()};
    return r;
  };
  if (absorbs) {
    if (auto const sync = next_result(deadline); PQresultStatus(sync.get()) != PGRES_PIPELINE_SYNC) {
      fail(sync.get(), "cannot run a statement");
      return break_off();
    }
  }
  std::size_t prepared = 0;
  for (auto const& s : statements) {
    if (prepared < prepared_now.size() && prepared_now[prepared] == s.sql) {
      ++prepared;
      if (auto const r = answer(); !succeeded(r.get())) {
        fail(r.get(), "cannot prepare a statement");
        names_.erase(s.sql);
      }
    }
    auto r = answer();
    if (!r || is_copy(r.get()) || PQstatus(c_) != CONNECTION_OK) {
      fail(r.get(), "cannot run a statement");
      return break_off();
    }
    if (!succeeded(r.get())) fail(r.get(), "cannot run a statement");
    if (!into.failure) into.results.push_back(std::move(r));
  }
  if (auto const sync = next_result(deadline); PQresultStatus(sync.get()) != PGRES_PIPELINE_SYNC) {
    fail(sync.get(), "cannot end a round trip");
    break_off();
  }
}

result_handle driver::next_result(steady_clock::time_point deadline) {
  while (!given_up_) {
    int const unsent = PQflush(c_);
    if (unsent < 0 || (unsent == 0 && PQisBusy(c_) == 0)) break;
    if (PQsslInUse(c_) != 0) {  // the TLS layer may hold bytes that are no longer on the socket
      if (PQconsumeInput(c_) == 0 || (unsent == 0 && PQisBusy(c_) == 0)) break;
    }
    if (!wait_for_socket(unsent != 0, deadline)) {
      break_off();
      break;
    }
    if (PQconsumeInput(c_) == 0) break;
  }
  return result_handle{given_up_ ? nullptr : PQgetResult(c_)};
}

bool driver::wait_for_socket(bool to_write, steady_clock::time_point deadline) {
  ::pollfd socket{PQsocket(c_), static_cast<short>(to_write ? POLLIN | POLLOUT : POLLIN), 0};
  if (socket.fd < 0) return true;  // libpq has closed it
  while (true) {
    int wait = -1;
    if (deadline != steady_clock::time_point::max()) {
      auto const left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now()).count();
      if (left <= 0) return false;
      wait = static_cast<int>(std::min<std::int64_t>(left, 60'000));
    }
    if (int const ready = ::poll(&socket, 1, wait); ready > 0 || (ready < 0 && errno != EINTR)) return true;
  }
}

// It is not known what is still on its way, so the connection cannot be used any more.
void driver::break_off() {
  given_up_ = true;
  if (int const s = PQsocket(c_); s >= 0) ::shutdown(s, SHUT_RDWR);
}

}  // namespace outbox::inline v0::postgres

#include "mysql/driver.hpp"

#include <algorithm>
#include <charconv>

#include "sql/instant_text.hpp"

namespace outbox::inline v0::mysql {
namespace {

constexpr unsigned first_client_error = 2000;
constexpr unsigned last_client_error = 2999;

// Errors of the client library that are no fault of the connection: too large a packet, a way to authenticate that it
// does not have, misuse.
bool will_not_pass(unsigned number) noexcept {
  static constexpr unsigned numbers[] = {code::commands_out_of_sync, 2020, 2034, 2036, 2049, 2059, 2061};
  return std::ranges::find(numbers, number) != std::end(numbers);
}

// After these the same call may succeed: too many connections, no memory, no disk, no thread; a lock that took too
// long, a deadlock; a server that starts, stops, only reads, or has left its cluster; a statement or session that was
// ended.
bool passes(unsigned number) noexcept {
  static constexpr unsigned numbers[] = {1020, 1021, 1037, 1038, 1040, 1041, 1043, 1047, 1053, 1077, 1079,
                                         1080, 1114, 1129, 1135, 1152, 1154, 1155, 1156, 1157, 1158, 1159,
                                         1160, 1161, 1180, 1184, 1203, 1205, 1206, 1213, 1226, 1290, 1317,
                                         1792, 1836, 1880, 1927, 1969, 3024, 3100, 3101, 3169, 3572, 4031};
  return std::ranges::find(numbers, number) != std::end(numbers);
}

// The server's own state is HY000 for these, which says nothing; the standard has better ones: a time-out expired, and
// a transaction that may only read.
std::string_view better_state(unsigned number, std::string_view given) noexcept {
  constexpr unsigned prevented_by_option = 1290, read_only_mode = 1836;
  if (number == code::lock_wait_timeout) return "HYT00";
  if (number == prevented_by_option || number == read_only_mode) return "25006";
  return number >= first_client_error && number <= last_client_error ? std::string_view{} : given;
}

class shown_row final : public sql::row {
 public:
  shown_row(MYSQL_ROW cells, unsigned long const* lengths) noexcept : cells_{cells}, lengths_{lengths} {}
  bool null(int c) const override { return cells_[c] == nullptr; }
  std::int64_t integer(int c) const override {
    std::int64_t n = 0;
    auto const v = text(c);
    std::from_chars(v.data(), v.data() + v.size(), n);
    return n;
  }
  std::string_view text(int c) const override {
    return null(c) ? std::string_view{} : std::string_view{cells_[c], lengths_[c]};
  }
  std::optional<instant> time(int c) const override { return null(c) ? std::nullopt : sql::parse_instant(text(c)); }

 private:
  MYSQL_ROW cells_;
  unsigned long const* lengths_;
};

unsigned status_of(MYSQL const* c) noexcept {
  unsigned status = 0;
  mariadb_get_infov(const_cast<MYSQL*>(c), MARIADB_CONNECTION_SERVER_STATUS, &status);
  return status;
}

// Character sets in which a byte of a longer character may be a quote or a backslash.
bool is_treacherous(std::string_view character_set) noexcept {
  static constexpr std::string_view names[] = {"big5", "cp932", "gb18030", "gbk",   "sjis",
                                               "ucs2", "utf16", "utf16le", "utf32", "gb2312"};
  return std::ranges::find(names, character_set) != std::end(names);
}

}  // namespace

bool loses_connection(unsigned number) noexcept {
  return (number >= first_client_error && number <= last_client_error && !will_not_pass(number)) || number == 1053 ||
         number == 1927 || number == 4031;
}

error error_with(unsigned number, std::string_view sqlstate, std::string const& text) {
  std::string const state{better_state(number, sqlstate)};
  auto message = text + " (error " + std::to_string(number);
  if (!state.empty()) message += ", SQLSTATE " + state;
  message += ")";
  if (number == code::commands_out_of_sync) return connection_is_busy();
  if (loses_connection(number) || passes(number)) return error{errc::unavailable, message, state};
  constexpr unsigned duplicate_entry = 1062, duplicate_entry_with_name = 1586;
  bool const duplicate = number == duplicate_entry || number == duplicate_entry_with_name;
  return error{duplicate ? errc::duplicate_event : errc::store_failure, message, state};
}

error error_of(MYSQL* c, std::string_view doing) {
  std::string_view const said = mysql_error(c);
  return error_with(mysql_errno(c), mysql_sqlstate(c),
                    std::string{doing} + ": " + (said.empty() ? "the connection was lost" : std::string{said}));
}

error connection_is_busy() {
  return error{errc::connection_busy, "the connection is busy: read the results of its last statement first"};
}

// After a failover a connection may still lead to the server that was the primary.
bool spoils_connection(error const& e) noexcept {
  return e.code() == errc::unavailable &&
         (e.sqlstate().empty() || e.sqlstate().starts_with("08") || e.sqlstate() == "25006" || e.sqlstate() == "70100");
}

bool in_transaction(MYSQL const* c) noexcept {
  if (c == nullptr) return false;
  auto const status = status_of(c);
  return (status & SERVER_STATUS_IN_TRANS) != 0 || (status & SERVER_STATUS_AUTOCOMMIT) == 0;
}

bool has_begun(MYSQL const* c) noexcept { return c != nullptr && (status_of(c) & SERVER_STATUS_IN_TRANS) != 0; }

bool may_send_several(MYSQL* c) noexcept {
  unsigned long flags = 0;
  mariadb_get_infov(c, MARIADB_CONNECTION_CLIENT_CAPABILITIES, &flags);
  return (flags & CLIENT_MULTI_STATEMENTS) != 0;
}

void show(MYSQL_RES* rows, sql::row_function const& on_row) {
  if (rows == nullptr || !on_row) return;
  while (auto const cells = mysql_fetch_row(rows)) {
    if (!on_row(shown_row{cells, mysql_fetch_lengths(rows)})) return;
  }
}

// The library follows the session: the server reports a change of its character set.
std::string_view character_set_of(MYSQL* c) {
  std::string_view const name = mysql_character_set_name(c);
  if (!is_treacherous(name)) return name;
  throw error{errc::wrong_transaction, "the connection's character set is " + std::string{name} +
                                           ", in which events cannot be sent: use utf8mb4"};
}

sql_text driver::text() const {
  static_cast<void>(character_set_of(c_));
  return sql_text{{.backslashes = reads_backslashes(), .introduced = true}};
}

sql_text driver::text_of_application() const {
  return sql_text{{.backslashes = reads_backslashes(), .introduced = character_set_of(c_) != "utf8mb4"}};
}

void driver::learn_status() {
  if (mysql_errno(c_) != 0) send(sql_text{{}} << "DO 0");
}

// The client library says -1 from the moment it sends a command until an answer to it has arrived that is no error.
bool driver::knows_status() const noexcept {
  return mysql_errno(c_) == 0 && mysql_affected_rows(c_) != static_cast<my_ulonglong>(-1);
}

bool driver::reads_backslashes() const noexcept { return (status_of(c_) & SERVER_STATUS_NO_BACKSLASH_ESCAPES) == 0; }

// Asked before: the client library refuses a statement then too, but forgets the columns of the result that waits.
std::vector<driver::answer> driver::send(sql_text const& statements) {
  constexpr auto doing = "cannot run a statement";
  if (c_->status != MYSQL_STATUS_READY || mysql_more_results(c_) != 0) throw connection_is_busy();
  std::vector<answer> answers;
  auto const& text = statements.str();
  if (mysql_real_query(c_, text.data(), text.size()) != 0) throw error_of(c_, doing);
  while (true) {
    auto& a = answers.emplace_back();
    a.rows.reset(mysql_store_result(c_));
    if (!a.rows) {
      if (mysql_field_count(c_) != 0) throw error_of(c_, doing);
      a.changed = static_cast<std::int64_t>(mysql_affected_rows(c_));
    }
    int const next = mysql_next_result(c_);
    if (next < 0) return answers;
    if (next > 0) throw error_of(c_, doing);
  }
}

std::int64_t driver::execute(std::string_view sql, std::span<sql::value const> values,
                             sql::row_function const& on_row) {
  auto one = values.empty() ? sql_text{{}} : text();
  auto const answers = send(one.statement(sql, values));
  show(answers.back().rows.get(), on_row);
  return answers.back().changed;
}

}  // namespace outbox::inline v0::mysql

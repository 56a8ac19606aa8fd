#include "sqlite/execute.hpp"

#include <charconv>
#include <cmath>

#include "sqlite/driver.hpp"

namespace outbox::inline v0::sqlite {
namespace {

[[noreturn]] void fail(sqlite3* db, std::string_view sql) {
  // This is the application's statement, so a unique violation is not a duplicate event.
  auto const e = error_of(db, sqlite3_extended_errcode(db), "cannot run '" + std::string{sql.substr(0, 80)} + "'");
  if (e.code() == errc::duplicate_event) throw error{errc::store_failure, e.what()};
  throw e;
}

[[noreturn]] void refuse(std::string const& field, std::string_view problem) {
  throw error::about(errc::type_mismatch, field, problem);
}

// Texts and bytes live until the call returns, so SQLite need not copy them.
struct binder {
  sqlite3_stmt* s;
  int index;

  int operator()(std::monostate) const { return sqlite3_bind_null(s, index); }
  int operator()(bool v) const { return sqlite3_bind_int(s, index, v ? 1 : 0); }
  int operator()(std::int64_t v) const { return sqlite3_bind_int64(s, index, v); }
  int operator()(double v) const {
    if (std::isnan(v)) refuse("argument " + std::to_string(index), "is NaN, which SQLite would store as NULL");
    return sqlite3_bind_double(s, index, v);
  }
  int operator()(std::string_view v) const {
    return sqlite3_bind_text64(s, index, v.empty() ? "" : v.data(), v.size(), SQLITE_STATIC, SQLITE_UTF8);
  }
  int operator()(std::span<std::byte const> v) const {
    return sqlite3_bind_blob64(s, index, v.empty() ? static_cast<void const*>("") : v.data(), v.size(), SQLITE_STATIC);
  }
};

void bind(sqlite3* db, sqlite3_stmt* s, std::string_view sql, std::span<sql::argument const> args) {
  auto const wanted = static_cast<std::size_t>(sqlite3_bind_parameter_count(s));
  if (wanted != args.size()) {
    throw error{errc::type_mismatch, "the statement has " + std::to_string(wanted) + " parameters, and " +
                                         std::to_string(args.size()) + " arguments were passed"};
  }
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (std::visit(binder{s, static_cast<int>(i) + 1}, args[i].value()) != SQLITE_OK) fail(db, sql);
  }
}

std::optional<std::string> cell(sqlite3_stmt* s, int c) {
  auto const bytes = [&](void const* at) {
    return std::string{static_cast<char const*>(at == nullptr ? "" : at),
                       static_cast<std::size_t>(sqlite3_column_bytes(s, c))};
  };
  switch (sqlite3_column_type(s, c)) {
    case SQLITE_NULL: return std::nullopt;
    case SQLITE_BLOB: return bytes(sqlite3_column_blob(s, c));
    case SQLITE_FLOAT: {  // SQLite's own text has 15 digits only
      char text[32];
      auto const end = std::to_chars(text, text + sizeof text, sqlite3_column_double(s, c)).ptr;
      return std::string{text, end};
    }
    default: return bytes(sqlite3_column_text(s, c));
  }
}

sql::result step(sqlite3* db, sqlite3_stmt* s, std::string_view sql) {
  sql::result r;
  r.columns = static_cast<std::size_t>(sqlite3_column_count(s));
  auto const before = sqlite3_total_changes64(db);
  while (true) {
    int const code = sqlite3_step(s);
    if (code == SQLITE_DONE) break;
    if (code != SQLITE_ROW) fail(db, sql);
    for (int c = 0; c < static_cast<int>(r.columns); ++c) r.cells.push_back(cell(s, c));
  }
  // A statement that changes no rows leaves the number of an earlier one.
  if (sqlite3_total_changes64(db) != before) r.changed = sqlite3_changes64(db);
  return r;
}

}  // namespace

sql::result execute_on(sqlite3* db, std::string_view sql, std::span<sql::argument const> args) {
  if (sql.find('\0') != std::string_view::npos) refuse("sql", "has a NUL in it");
  sql::result last;
  bool ran = false;
  for (auto rest = sql; !rest.empty();) {
    sqlite3_stmt* raw = nullptr;
    char const* tail = nullptr;
    int const code = sqlite3_prepare_v3(db, rest.data(), static_cast<int>(rest.size()), 0, &raw, &tail);
    statement const s{raw};
    if (code != SQLITE_OK) fail(db, rest);
    auto const text = rest;
    rest.remove_prefix(static_cast<std::size_t>(tail - rest.data()));
    if (!s) continue;  // a comment, or blanks
    if (ran && !args.empty()) refuse("sql", "has several statements: pass arguments to one at a time");
    bind(db, raw, text, args);
    last = step(db, raw, text);
    ran = true;
  }
  if (!ran && !args.empty()) refuse("sql", "has no statement");
  return last;
}

}  // namespace outbox::inline v0::sqlite

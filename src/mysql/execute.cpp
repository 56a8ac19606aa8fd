#include "mysql/execute.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace outbox::inline v0::mysql {
namespace {

[[noreturn]] void refuse(std::string const& field, std::string_view problem) {
  throw error::about(errc::type_mismatch, field, problem);
}

// Finds the placeholders of a statement: question marks outside quotes and comments.
class placeholders {
 public:
  placeholders(std::string_view sql, bool backslashes) noexcept : sql_{sql}, backslashes_{backslashes} {}

  /// The place of the next one; npos if there is none.
  [[nodiscard]] std::size_t next() noexcept {
    while (at_ < sql_.size()) {
      char const c = sql_[at_];
      if (c == '?') return at_++;
      if (c == '\'' || c == '"' || c == '`') {
        skip_quoted(c);
      } else if (c == '#' || is("-- ") || is("--\t") || is("--\n")) {
        at_ = std::min(sql_.find('\n', at_ + (c == '#' ? 1 : 2)), sql_.size());
      } else if (is("/*")) {
        auto const end = sql_.find("*/", at_ + 2);
        at_ = end == std::string_view::npos ? sql_.size() : end + 2;
      } else {
        ++at_;
      }
    }
    return std::string_view::npos;
  }

 private:
  [[nodiscard]] bool is(std::string_view text) const noexcept { return sql_.substr(at_).starts_with(text); }

  // A quote that stands twice is found as the end of one text and the begin of another: that comes to the same.
  void skip_quoted(char quote) noexcept {
    for (++at_; at_ < sql_.size() && sql_[at_] != quote; ++at_) {
      if (sql_[at_] == '\\' && backslashes_ && quote != '`') ++at_;
    }
    ++at_;
  }

  std::string_view sql_;
  bool backslashes_;
  std::size_t at_ = 0;
};

void add_argument(sql_text& t, sql::argument const& a, std::size_t index) {
  auto const& v = a.value();
  if (auto const* const b = std::get_if<bool>(&v)) {
    t << (*b ? "1" : "0");
  } else if (auto const* const n = std::get_if<std::int64_t>(&v)) {
    t.number(*n);
  } else if (auto const* const d = std::get_if<double>(&v)) {
    if (!std::isfinite(*d)) refuse("argument " + std::to_string(index + 1), "is not a finite number");
    char text[32];
    auto const* const end = std::to_chars(text, text + sizeof text, *d, std::chars_format::scientific).ptr;
    t << std::string_view{text, static_cast<std::size_t>(end - text)};
  } else if (auto const* const s = std::get_if<std::string_view>(&v)) {
    t.text(*s);
  } else if (auto const* const bytes = std::get_if<std::span<std::byte const>>(&v)) {
    t.bytes({reinterpret_cast<char const*>(bytes->data()), bytes->size()});
  } else {
    t << "NULL";
  }
}

// A character that a value would run into, as the name of a function or of a character set.
bool is_word(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$' ||
         c == '\'' || c == '"' || static_cast<unsigned char>(c) >= 0x80;
}

sql_text with_arguments(driver const& d, std::string_view sql, std::span<sql::argument const> args) {
  if (args.empty()) return std::move(sql_text{{}} << sql);
  auto t = d.text_of_application();
  placeholders marks{sql, d.reads_backslashes()};
  std::size_t from = 0;
  std::size_t found = 0;
  for (auto at = marks.next(); at != std::string_view::npos; at = marks.next(), ++found) {
    if (found >= args.size()) continue;
    t << sql.substr(from, at - from);
    if (at > 0 && is_word(sql[at - 1])) t << " ";  // not always: a space behind two dashes makes them a comment
    add_argument(t, args[found], found);
    t << " ";  // a value does not run into what stands beside it
    from = at + 1;
  }
  if (found != args.size()) {
    refuse("sql", "has " + std::to_string(found) + " placeholders for " + std::to_string(args.size()) + " arguments");
  }
  return std::move(t << sql.substr(from));
}

// A procedure answers with the rows of its own statements, and then once more without rows.
MYSQL_RES* rows_of(std::vector<driver::answer> const& answers, std::string_view sql) {
  constexpr std::string_view call = "CALL";
  sql.remove_prefix(std::min(sql.find_first_not_of(" \t\r\n"), sql.size()));
  auto const capital = [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; };
  bool const calls = std::ranges::equal(sql.substr(0, call.size()), call, {}, capital);
  auto const& last = answers[answers.size() - (calls && answers.size() > 1 ? 2 : 1)];
  return last.rows.get();
}

void read_cells(MYSQL_RES* rows, sql::result& into) {
  into.columns = mysql_num_fields(rows);
  while (auto const cells = mysql_fetch_row(rows)) {
    auto const* const lengths = mysql_fetch_lengths(rows);
    for (std::size_t i = 0; i < into.columns; ++i) {
      if (cells[i] == nullptr) {
        into.cells.emplace_back();
      } else {
        into.cells.emplace_back(std::in_place, cells[i], lengths[i]);
      }
    }
  }
}

}  // namespace

sql::result execute_on(MYSQL* c, std::string_view sql, std::span<sql::argument const> args) {
  driver d{c};
  sql::result into;
  try {
    auto const answers = d.send(with_arguments(d, sql, args));
    into.changed = answers.back().changed;
    if (auto* const rows = rows_of(answers, sql)) read_cells(rows, into);
  } catch (error const& e) {
    // This is the application's statement, so a unique violation is not a duplicate event.
    if (e.code() == errc::duplicate_event) throw error{errc::store_failure, e.what(), std::string{e.sqlstate()}};
    throw;
  }
  return into;
}

}  // namespace outbox::inline v0::mysql

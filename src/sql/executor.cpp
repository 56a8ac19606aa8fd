// Checked conversions from the text of a column, for `sql::executor`.
#include <charconv>
#include <outbox/sql.hpp>

namespace outbox::inline v0::sql {
namespace {

[[noreturn]] void refuse(std::size_t index, std::string_view problem) {
  throw error::about(errc::type_mismatch, "column " + std::to_string(index), problem);
}

// Values may be long, and they may be secret: an error shows only the beginning.
std::string shown(std::string_view text) { return "'" + std::string{text.substr(0, 20)} + "'"; }

template <class T>
T number(std::string_view text, std::size_t index, char const* what) {
  T v{};
  auto const [end, code] = std::from_chars(text.data(), text.data() + text.size(), v);
  if (code == std::errc::result_out_of_range) throw_out_of_range(text, index);
  if (code != std::errc{} || end != text.data() + text.size()) refuse(index, "is " + shown(text) + ", not " + what);
  return v;
}

}  // namespace

executor::~executor() = default;

std::string const& not_null(std::optional<std::string> const& cell, std::size_t index) {
  if (!cell) refuse(index, "is NULL: read it as a std::optional");
  return *cell;
}

bool to_bool(std::string_view text, std::size_t index) {
  if (text == "t" || text == "1") return true;
  if (text == "f" || text == "0") return false;
  refuse(index, "is " + shown(text) + ", not a bool");
}

std::int64_t to_integer(std::string_view text, std::size_t index) {
  return number<std::int64_t>(text, index, "an integer");
}
std::uint64_t to_unsigned(std::string_view text, std::size_t index) {
  if (text.starts_with('-')) throw_out_of_range(text, index);
  return number<std::uint64_t>(text, index, "an integer");
}
double to_double(std::string_view text, std::size_t index) { return number<double>(text, index, "a number"); }

void throw_out_of_range(std::string_view text, std::size_t index) {
  refuse(index, "is " + shown(text) + ", which does not fit into the type that was asked for");
}

void check_columns(result const& r, std::size_t asked) {
  if (r.columns == asked) return;
  throw error{errc::type_mismatch,
              "the result has " + std::to_string(r.columns) + " columns, not " + std::to_string(asked)};
}

void check_one_row(std::size_t rows) {
  if (rows == 1) return;
  throw error{errc::type_mismatch, "query_one() got " + std::to_string(rows) + " rows"};
}

}  // namespace outbox::inline v0::sql

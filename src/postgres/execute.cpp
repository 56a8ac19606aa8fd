#include "postgres/execute.hpp"

#include <charconv>
#include <cmath>
#include <new>

#include "postgres/driver.hpp"

namespace outbox::inline v0::postgres {
namespace {

constexpr Oid bytea_type = 17;

std::string text_of_number(double v) {
  if (std::isnan(v)) return "NaN";
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, v).ptr};
}

[[noreturn]] void refuse(std::string const& field, std::string_view problem) {
  throw error::about(errc::type_mismatch, field, problem);
}

[[noreturn]] void fail(PGconn* c, PGresult const* r) {
  // The error does not show the statement: there may be a password in it.
  auto const e = error_of(c, r, "cannot run a statement");
  // This is the application's statement, so a unique violation is not a duplicate event.
  if (e.code() == errc::duplicate_event) throw error{errc::store_failure, e.what(), std::string{e.sqlstate()}};
  // A wrong number of arguments. PostgreSQL calls it a violation of the protocol, and the connection goes on.
  if (e.sqlstate() == "08P01" && PQstatus(c) == CONNECTION_OK) throw error{errc::type_mismatch, e.what(), "08P01"};
  throw e;
}

std::string bytes_of(char const* text) {
  std::size_t size = 0;
  std::unique_ptr<unsigned char, decltype(&PQfreemem)> const bytes{
      PQunescapeBytea(reinterpret_cast<unsigned char const*>(text), &size), &PQfreemem};
  if (!bytes) throw std::bad_alloc{};
  return {reinterpret_cast<char const*>(bytes.get()), size};
}

sql::result result_of(PGresult* r) {
  sql::result into;
  int const columns = PQnfields(r);
  into.columns = static_cast<std::size_t>(columns);
  for (int row = 0; row < PQntuples(r); ++row) {
    for (int c = 0; c < columns; ++c) {
      if (PQgetisnull(r, row, c) != 0) {
        into.cells.emplace_back();
      } else if (PQftype(r, c) == bytea_type) {
        into.cells.emplace_back(bytes_of(PQgetvalue(r, row, c)));
      } else {
        into.cells.emplace_back(std::in_place, PQgetvalue(r, row, c), static_cast<std::size_t>(PQgetlength(r, row, c)));
      }
    }
  }
  std::string_view const tag = PQcmdStatus(r);
  if (!tag.starts_with("SELECT") && !tag.starts_with("FETCH") && !tag.starts_with("MOVE")) {
    into.changed = result_rows{r}.changed();
  }
  return into;
}

}  // namespace

argument_list::argument_list(std::span<sql::argument const> args) {
  values_.reserve(args.size());
  for (std::size_t i = 0; i < args.size(); ++i) {
    auto const& v = args[i].value();
    if (auto const* const b = std::get_if<bool>(&v)) {
      values_.emplace_back(std::string_view{*b ? "t" : "f"});
    } else if (auto const* const n = std::get_if<std::int64_t>(&v)) {
      values_.emplace_back(*n);
    } else if (auto const* const d = std::get_if<double>(&v)) {
      if (numbers_.empty()) numbers_.reserve(args.size() - i);  // views go into its strings
      values_.emplace_back(std::string_view{numbers_.emplace_back(text_of_number(*d))});
    } else if (auto const* const t = std::get_if<std::string_view>(&v)) {
      if (t->find('\0') != std::string_view::npos) {
        refuse("argument " + std::to_string(i + 1), "has a NUL in it: PostgreSQL takes it as bytes only");
      }
      values_.emplace_back(*t);
    } else if (auto const* const bytes = std::get_if<std::span<std::byte const>>(&v)) {
      values_.emplace_back(sql::blob{{reinterpret_cast<char const*>(bytes->data()), bytes->size()}});
    } else {
      values_.emplace_back();
    }
  }
}

sql::result execute_on(PGconn* c, std::string_view sql, std::span<sql::argument const> args) {
  if (sql.find('\0') != std::string_view::npos) refuse("sql", "has a NUL in it");
  if (PQstatus(c) == CONNECTION_OK && PQtransactionStatus(c) == PQTRANS_ACTIVE) throw connection_is_busy();
  std::string const text{sql};
  result_handle r;
  if (args.empty()) {
    r.reset(PQexec(c, text.c_str()));
  } else {
    argument_list const list{args};
    parameters const p{list.values()};
    r.reset(PQexecParams(c, text.c_str(), p.size(), nullptr, p.pointers(), p.lengths(), p.formats(), 0));
  }
  switch (PQresultStatus(r.get())) {
    case PGRES_COMMAND_OK:
    case PGRES_TUPLES_OK:
    case PGRES_EMPTY_QUERY: return result_of(r.get());
    default: fail(c, r.get());
  }
}

}  // namespace outbox::inline v0::postgres

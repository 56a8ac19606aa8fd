// A caller's transaction as the store meets it, and how `write()` joins a bare handle.
#include <optional>
#include <outbox/postgres.hpp>
#include <outbox/spi/postgres_adapter.hpp>
#include <string>
#include <utility>
#include <vector>

#include "postgres/driver.hpp"

namespace outbox::inline v0 {
namespace postgres {

caller_connection::caller_connection() = default;
caller_connection::~caller_connection() = default;
void caller_connection::writes_to(write_target const& /*to*/) {}
void caller_connection::insert(std::string_view sql, std::span<parameter const> values, std::size_t rows) {
  std::vector<std::string> arrays;
  std::vector<sql::value> shown;
  shown.reserve(values.size());
  for (auto const& v : values) {
    if (auto const* const one = std::get_if<sql::value>(&v)) {
      shown.push_back(*one);
      continue;
    }
    if (arrays.empty()) arrays.reserve(values.size());  // `shown` points into it
    shown.emplace_back(std::string_view{arrays.emplace_back(text_of(v).value_or(""))});
  }
  doubt_missing_rows(*this, execute(sql, shown, {}), rows);
}

void caller_connection::insert_and_tell(std::string_view sql, std::string_view /*returning*/,
                                        std::span<parameter const> values, std::size_t rows,
                                        std::shared_ptr<insert_answer> /*answer*/) {
  insert(sql, values.first(values.size() - 1), rows);
}

}  // namespace postgres

transaction_ref transaction_traits<pg_conn*>::join(pg_conn* connection) noexcept {
  static constexpr transaction_operations operations{
      .kind = "postgres",
      .active = [](void const* t) noexcept { return postgres::in_transaction(static_cast<PGconn const*>(t)); },
      .enlist =
          [](void* t, std::shared_ptr<transaction_observer> observer) {
            return postgres::watch_transaction(static_cast<PGconn*>(t), std::move(observer));
          },
      .run =
          [](void* t, void (*use)(void*, void*), void* what) {
            postgres::driver d{static_cast<PGconn*>(t), postgres::prepared::once};
            sql::connection& on = d;
            use(what, &on);
          }};
  return {connection, operations};
}

}  // namespace outbox::inline v0

// Which order book serves a URL.
#include <algorithm>
#include <outbox/error.hpp>

#include "databases.hpp"

namespace order_service {
namespace {

// The URL of the store without the store's own parameters, which a database client would refuse.
[[maybe_unused]] std::string without_store_parameters(std::string_view url) {
  auto const question = std::min(url.find('?'), url.size());
  std::string result{url.substr(0, question)};
  auto rest = url.substr(std::min(question + 1, url.size()));
  for (char separator = '?'; !rest.empty();) {
    auto const end = std::min(rest.find('&'), rest.size());
    auto const one = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (one.starts_with("outbox.")) continue;
    result += separator;
    result += one;
    separator = '&';
  }
  return result;
}

// sqlite:shop.db, sqlite:///var/lib/shop.db?synchronous=normal
std::string file_of(std::string_view url) {
  url.remove_prefix(std::string_view{"sqlite:"}.size());
  if (url.starts_with("//")) url.remove_prefix(2);
  return std::string{url.substr(0, url.find('?'))};
}

// The URL may contain a password, so an error shows only its scheme.
outbox::error refused(std::string const& problem) {
  return outbox::error::about(outbox::errc::invalid_option, "db", problem);
}

}  // namespace

std::unique_ptr<order_book> open_order_book(std::string const& url) {
  auto const scheme = url.substr(0, url.find(':'));
  if (scheme == "sqlite") return sqlite_orders(file_of(url));
  if (scheme == "postgresql" || scheme == "postgres") {
#ifdef ORDER_SERVICE_HAS_POSTGRES
    return postgres_orders(without_store_parameters(url));
#else
    throw refused("names PostgreSQL, and this program was built without outbox::postgres");
#endif
  }
  if (scheme == "mysql" || scheme == "mariadb") {
#ifdef ORDER_SERVICE_HAS_MYSQL
    return mysql_orders(without_store_parameters(url));
#else
    throw refused("names MariaDB, and this program was built without outbox::mysql");
#endif
  }
  throw refused("begins with '" + scheme + ":': write sqlite:FILE, postgresql://…, mysql://… or mariadb://…");
}

}  // namespace order_service

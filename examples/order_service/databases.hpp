// One function per database; `open_order_book` chooses by URL. A build without a database lacks its function.
#pragma once

#include "orders.hpp"

namespace order_service {

[[nodiscard]] std::unique_ptr<order_book> sqlite_orders(std::string const& path);
[[nodiscard]] std::unique_ptr<order_book> postgres_orders(std::string const& url);
[[nodiscard]] std::unique_ptr<order_book> mysql_orders(std::string const& url);

}  // namespace order_service

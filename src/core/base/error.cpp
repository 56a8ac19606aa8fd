#include <outbox/error.hpp>
#include <utility>

namespace outbox::inline v0 {

std::string_view name(errc code) noexcept {
  switch (code) {
    case errc::invalid_event: return "invalid_event";
    case errc::invalid_option: return "invalid_option";
    case errc::duplicate_route: return "duplicate_route";
    case errc::no_transaction: return "no_transaction";
    case errc::wrong_transaction: return "wrong_transaction";
    case errc::connection_busy: return "connection_busy";
    case errc::type_mismatch: return "type_mismatch";
    case errc::duplicate_event: return "duplicate_event";
    case errc::lifecycle: return "lifecycle";
    case errc::mode_conflict: return "mode_conflict";
    case errc::unavailable: return "unavailable";
    case errc::commit_in_doubt: return "commit_in_doubt";
    case errc::store_failure: return "store_failure";
    case errc::unsupported: return "unsupported";
  }
  return "unknown";
}

error::error(errc code, std::string const& message, std::string sqlstate)
    : std::runtime_error{message}, code_{code}, sqlstate_{std::move(sqlstate)} {}

error error::about(errc code, std::string_view field, std::string_view problem) {
  std::string message{field};
  message += ' ';
  message += problem;
  error e{code, message};
  e.field_ = field;
  return e;
}

error error::after_changing(std::uint64_t rows) const {
  error e{*this};
  e.rows_changed_ = rows;
  return e;
}

}  // namespace outbox::inline v0

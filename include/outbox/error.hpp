// What the library throws.
#pragma once

#include <cstdint>
#include <outbox/detail/core_export.hpp>
#include <stdexcept>
#include <string>
#include <string_view>

namespace outbox::inline v0 {

/// Why something was refused or failed. The comment says what the caller can do.
enum class errc {
  invalid_event,      ///< An event breaks a rule; `field()` names it. Nothing was written.
  invalid_option,     ///< An option makes no sense; `field()` names it. Nothing was started.
  duplicate_route,    ///< A second listener for the same aggregate type and event type.
  no_transaction,     ///< `write()` outside a transaction. Nothing was written.
  wrong_transaction,  ///< The transaction belongs to another database than the node's store.
  connection_busy,    ///< The connection has results that were not read. Read them, then call again.
  type_mismatch,      ///< An argument or a column of `execute` or `query` does not fit; `field()` names it.
  duplicate_event,    ///< An event with this id is in the table already.
  lifecycle,          ///< `start()` twice or after `stop()`, or a use that needs a running node.
  mode_conflict,      ///< A live node of another mode works on the same table, or the table keeps an order per key.
  unavailable,        ///< The store cannot be reached or is busy; the same call may succeed later.
  commit_in_doubt,    ///< The connection failed during COMMIT: it may or may not have happened.
  store_failure,      ///< The store refused a statement for a reason that a retry will not cure.
  unsupported,        ///< The store cannot do this; `store_capabilities` says so beforehand.
};

/// "invalid_event", "unavailable", …
[[nodiscard]] OUTBOX_CORE_EXPORT std::string_view name(errc code) noexcept;

/// The exception of the library. Its predicates tell the caller what to do next.
class OUTBOX_CORE_EXPORT error : public std::runtime_error {
 public:
  error(errc code, std::string const& message, std::string sqlstate = {});

  /// An error about one named field: the message is "<field> <problem>".
  [[nodiscard]] static error about(errc code, std::string_view field, std::string_view problem);

  [[nodiscard]] errc code() const noexcept { return code_; }

  /// True if the same call may succeed later without any change.
  [[nodiscard]] bool transient() const noexcept { return code_ == errc::unavailable; }

  /// True if a transaction may or may not have been committed. Its events are safe either way: the poller decides.
  [[nodiscard]] bool in_doubt() const noexcept { return code_ == errc::commit_in_doubt; }

  /// The event field or option at fault, as in "headers" or "poll.batch"; empty if the error is not about one.
  [[nodiscard]] std::string_view field() const noexcept { return field_; }

  /// The five-letter code of the database, or empty if it has none.
  [[nodiscard]] std::string_view sqlstate() const noexcept { return sqlstate_; }

  /// The number of rows that a call that works in batches had changed before it failed. They are committed and stay
  /// changed. `dead_events::replay_all` and `node::purge_once` set it; otherwise it is 0.
  [[nodiscard]] std::uint64_t rows_changed() const noexcept { return rows_changed_; }

  /// The same error after that many rows. For functions that work in batches.
  [[nodiscard]] error after_changing(std::uint64_t rows) const;

 private:
  errc code_;
  std::string field_;
  std::string sqlstate_;
  std::uint64_t rows_changed_ = 0;
};

}  // namespace outbox::inline v0

// The writer: all that business code needs.
/// \file
///
///     outbox::memory::transaction tx{*store};
///     auto const writer = box.writer();
///     writer.write(tx, user_registered{"Ada", 36});
///     writer.write(tx, temperature{21.5});
///     writer.write(tx, order_event::placed, R"({"id":42})");
///     writer.write(tx, order_event::placed, R"({"id":43})", {.aggregate = {"audit", "43"}});
///     tx.commit();
#pragma once

#include <concepts>
#include <memory>
#include <outbox/codec.hpp>
#include <outbox/detail/core_export.hpp>
#include <outbox/event.hpp>
#include <outbox/transaction.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace outbox::inline v0 {

class node;
namespace core {
class node_core;
}

/// The id of a written event. Tests false if nothing was written.
class event_id {
 public:
  event_id() = default;
  explicit event_id(std::string value) : value_{std::move(value)} {}

  explicit operator bool() const noexcept { return !value_.empty(); }
  [[nodiscard]] std::string const& str() const noexcept { return value_; }
  friend bool operator==(event_id const&, event_id const&) = default;

 private:
  std::string value_;
};

/// Writes events in the caller's transaction, or with `outbox::no_transaction` where the store needs none. A cheap
/// handle that can be copied. It also works before `start()` and after `stop()`: the poller of a running node then
/// delivers the rows.
///
/// Thread-safe. A transaction must be used from one thread at a time. A child made by fork() may write on a connection
/// that it opened after the fork; it has no threads of the node, so a node that runs elsewhere delivers its rows.
/// Everything else of a node belongs to the process that made it.
///
/// An event with a delay (`available_at`, `deliver_after`) is outside the order of its key, in the modes that keep one.
///
/// `write` never waits for a listener and holds no lock while the database works. All functions throw `error`:
/// no_transaction and invalid_event before any SQL, lifecycle if the writer was moved from, else the error of the
/// database.
class OUTBOX_CORE_EXPORT writer {
 public:
  /// Writes a typed event: `write(tx, order_placed{…}, {.aggregate = {"order", "42"}})`.
  template <class Tx, class T>
    requires(!std::convertible_to<T const&, type_name> && !std::convertible_to<T const&, event>)
  event_id write(Tx&& tx, T const& value, event_options options = {}) const {
    detail::check_event_type<T>();
    if constexpr (typed_event<T>) {
      return write_one(join(tx), make_event(value, std::move(options), limits()));
    } else {
      return {};
    }
  }

  /// Writes an event that was made before.
  template <class Tx>
  event_id write(Tx&& tx, event const& e) const {
    return write_one(join(tx), e);
  }

  /// Writes a JSON payload by name or enum.
  template <class Tx>
  event_id write(Tx&& tx, type_name type, json_text payload, event_options options = {}) const {
    return write_one(join(tx), event::json(type.view(), std::move(payload), std::move(options), limits()));
  }

  /// Writes several events in one call. Returns the ids of the rows that were written, in order.
  template <class Tx>
  std::vector<event_id> write_all(Tx&& tx, std::span<event const> events) const {
    return write_many(join(tx), events);
  }

  /// The node's limits, for code that makes events beforehand.
  [[nodiscard]] event_limits const& limits() const noexcept;

 private:
  friend class node;
  explicit writer(std::shared_ptr<core::node_core> core) : core_{std::move(core)} {}

  event_id write_one(transaction_ref tx, event const& e) const;
  std::vector<event_id> write_many(transaction_ref tx, std::span<event const> events) const;

  std::shared_ptr<core::node_core> core_;
};

}  // namespace outbox::inline v0

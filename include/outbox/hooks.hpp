// Hooks around writing and delivering: for audit, tracing, and whatever else runs through everything.
#pragma once

#include <functional>
#include <memory>
#include <outbox/detail/core_export.hpp>
#include <outbox/event.hpp>
#include <outbox/listener.hpp>
#include <span>
#include <vector>

namespace outbox::inline v0 {

/// Around `write()` and `write_all()`, once per call. Called on the caller's thread; several threads may call at once.
class OUTBOX_CORE_EXPORT writer_hook {
 public:
  writer_hook() = default;
  writer_hook(writer_hook const&) = delete;
  writer_hook& operator=(writer_hook const&) = delete;
  virtual ~writer_hook();

  /// May change the events, add some, or return none: then nothing is written, and `write()` returns an id that tests
  /// false. What it throws reaches the caller, and nothing was written.
  [[nodiscard]] virtual std::vector<event> before_write(std::vector<event> events) { return events; }

  /// What the rest throws is logged and goes no further.
  virtual void after_write(std::span<event const> /*events*/) {}

  /// One of the two, when the transaction has ended; neither if its end is unknown, or if it cannot tell. Events that a
  /// savepoint took back are not among those committed.
  ///
  /// They run on the thread that ended the transaction, inside its `commit()`, `rollback()` or destructor. The
  /// connection is free by then, so the hook may use it: run statements, begin another transaction, write events and
  /// commit them, which calls the hook again. It must neither close the connection nor destroy the transaction that has
  /// just ended. On a `PGconn*` they run while libpq delivers the result of COMMIT or ROLLBACK: the results of
  /// statements sent with it, as in "COMMIT; SELECT 1", are discarded if the hook sends anything. libpqxx begins no
  /// second transaction on a connection before its own `commit()` has returned.
  virtual void after_commit(std::span<event const> /*events*/) {}
  virtual void after_rollback(std::span<event const> /*events*/) {}
};

/// Around every delivery, whichever listener serves it. Called on the worker's thread; several at once.
class OUTBOX_CORE_EXPORT interceptor {
 public:
  interceptor() = default;
  interceptor(interceptor const&) = delete;
  interceptor& operator=(interceptor const&) = delete;
  virtual ~interceptor();

  /// In order of registration, before a listener is looked for. What it throws is the answer in the listener's stead.
  virtual void before(delivery const& /*d*/) {}

  /// In reverse order, with what came of it. What it throws is logged and goes no further.
  virtual void after(delivery const& /*d*/, result const& /*r*/) {}
};

/// Interceptors of one function. Throw `error` (invalid_option) if it is empty.
[[nodiscard]] OUTBOX_CORE_EXPORT std::shared_ptr<interceptor> intercept_before(std::function<void(delivery const&)> f);
[[nodiscard]] OUTBOX_CORE_EXPORT std::shared_ptr<interceptor> intercept_after(
    std::function<void(delivery const&, result const&)> f);

}  // namespace outbox::inline v0

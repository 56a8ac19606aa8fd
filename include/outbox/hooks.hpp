// Hooks around writing and delivering, for audit and measurements. `outbox/trace.hpp` has those for traces.
#pragma once

#include <functional>
#include <memory>
#include <outbox/detail/core_export.hpp>
#include <outbox/event.hpp>
#include <outbox/listener.hpp>
#include <span>
#include <vector>

namespace outbox::inline v0 {

/// Called around `write()` and `write_all()`, once per call.
///
/// It runs on the caller's thread, so it must be thread-safe if several threads write. The node and open transactions
/// keep it alive.
class OUTBOX_CORE_EXPORT writer_hook {
 public:
  writer_hook() = default;
  writer_hook(writer_hook const&) = delete;
  writer_hook& operator=(writer_hook const&) = delete;
  virtual ~writer_hook();

  /// May change the events, add events, or return none: then nothing is written, and `write()` returns an id that tests
  /// false. An exception reaches the caller, and nothing is written.
  [[nodiscard]] virtual std::vector<event> before_write(std::vector<event> events) { return events; }

  /// Called when the rows were inserted. An exception of this or of the following functions is logged and goes no
  /// further.
  virtual void after_write(std::span<event const> /*events*/) {}

  /// One of the two is called when the transaction has ended; neither if its end is unknown or cannot be observed.
  /// Events that a savepoint took back are not among the committed ones.
  ///
  /// It runs on the thread that ended the transaction, inside its `commit()`, `rollback()` or destructor. The
  /// connection is free by then, so the hook may use it: run statements, begin another transaction, write events and
  /// commit them, which calls the hook again. It must neither close the connection nor destroy the transaction that has
  /// just ended. On a `PGconn*` it runs while libpq delivers the result of COMMIT or ROLLBACK: the results of
  /// statements sent with it, as in "COMMIT; SELECT 1", are discarded if the hook sends anything. libpqxx begins no
  /// second transaction on a connection before its own `commit()` has returned.
  virtual void after_commit(std::span<event const> /*events*/) {}
  virtual void after_rollback(std::span<event const> /*events*/) {}
};

/// Called around every delivery, for all listeners.
///
/// It runs on the threads of the workers, so it must be thread-safe. The node keeps it alive.
class OUTBOX_CORE_EXPORT interceptor {
 public:
  interceptor() = default;
  interceptor(interceptor const&) = delete;
  interceptor& operator=(interceptor const&) = delete;
  virtual ~interceptor();

  /// Called in the order of `interceptors`, before the listener. If it throws, the listener is not called and the
  /// exception is treated as its result.
  virtual void before(delivery const& /*d*/) {}

  /// Called in the same order, after every `before` and just before the listener, on the same thread. Returns an object
  /// that is destroyed on this thread as soon as the listener's function has returned, in reverse order and ahead of
  /// `after`: for what belongs to a thread, such as the active span. Null: nothing. If it throws, the listener is not
  /// called and the exception is treated as its result. Not called for listeners that take batches.
  [[nodiscard]] virtual std::shared_ptr<void> around(delivery const& /*d*/) { return nullptr; }

  /// Called in reverse order, with the result. An exception is logged and not propagated.
  /// After an asynchronous listener it may run on another thread than `before`.
  virtual void after(delivery const& /*d*/, result const& /*r*/) {}
};

/// Make an interceptor of one function. Throw `error` (invalid_option) if the function is empty.
[[nodiscard]] OUTBOX_CORE_EXPORT std::shared_ptr<interceptor> intercept_before(std::function<void(delivery const&)> f);
[[nodiscard]] OUTBOX_CORE_EXPORT std::shared_ptr<interceptor> intercept_after(
    std::function<void(delivery const&, result const&)> f);

}  // namespace outbox::inline v0

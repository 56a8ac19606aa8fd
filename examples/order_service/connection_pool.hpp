// Connections that threads borrow one at a time.
#pragma once

#include <memory>
#include <mutex>
#include <outbox/error.hpp>
#include <string>
#include <utility>
#include <vector>

namespace order_service {

/// Never has more connections than threads that use it at once. Thread-safe.
template <class Connection>
class connection_pool {
 public:
  explicit connection_pool(std::string url) : url_{std::move(url)} {}

  /// Calls `f` with a connection. A connection that broke is thrown away. If it had been waiting here, `f` is called
  /// again with a new one: so a restart of the database costs no request.
  ///
  /// That is right only if `f` changes nothing when it fails, and the library tells: an error is `transient()` only if
  /// nothing was committed. A commit whose end is unknown is `in_doubt()` and is not repeated.
  template <class F>
  auto use(F&& f) {
    if (auto c = waiting()) {
      try {
        return with(std::move(c), f);
      } catch (outbox::error const& e) {
        if (!e.transient()) throw;
      }
    }
    return with(std::make_unique<Connection>(url_), f);
  }

 private:
  template <class F>
  auto with(std::unique_ptr<Connection> c, F& f) {
    try {
      auto result = f(*c);
      give_back(std::move(c));
      return result;
    } catch (outbox::error const& e) {
      if (!e.transient() && !e.in_doubt()) give_back(std::move(c));
      throw;
    }
  }

  void give_back(std::unique_ptr<Connection> c) {
    std::lock_guard const lock{mutex_};
    waiting_.push_back(std::move(c));
  }

  std::unique_ptr<Connection> waiting() {
    std::lock_guard const lock{mutex_};
    if (waiting_.empty()) return nullptr;
    auto c = std::move(waiting_.back());
    waiting_.pop_back();
    return c;
  }

  std::string url_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Connection>> waiting_;
};

}  // namespace order_service

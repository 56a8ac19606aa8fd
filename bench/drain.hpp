// What the drains of both databases share: the options of a node, and a listener that knows when it has seen all.
#pragma once

#include <condition_variable>
#include <mutex>
#include <outbox/outbox.hpp>

#include "delivery_ledger.hpp"

namespace bench {

/// The options of a node that drains.
using tuning = void (*)(outbox::node_options&);

inline void one_worker(outbox::node_options& o) {
  o.workers = 1;
  o.poll.batch = 1000;
  o.queue.cold = 4000;
}
inline void four_workers(outbox::node_options& o) {
  o.workers = 4;
  o.poll.batch = 1000;
  o.queue.cold = 10'000;
}
inline void as_it_comes(outbox::node_options&) {}

/// A listener that does nothing but count.
class counting_listener {
 public:
  counting_listener(outbox::node_options& o, delivery_ledger& ledger, int count) : count_{count} {
    ledger.forget();
    o.listeners.on("order.placed", [this, &ledger](outbox::delivery const& d) {
      ledger.saw(d.id);
      std::lock_guard const lock{mutex_};
      if (++seen_ == count_) all_.notify_one();
    });
  }
  void wait() {
    std::unique_lock lock{mutex_};
    all_.wait(lock, [&] { return seen_ >= count_; });
  }

 private:
  int count_;
  std::mutex mutex_;
  std::condition_variable all_;
  int seen_ = 0;
};

}  // namespace bench

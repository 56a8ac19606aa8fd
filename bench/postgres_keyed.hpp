// What the rows of order per key share: the rows of their tables, and nodes that are alike except for the order.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <outbox/outbox.hpp>
#include <outbox/spi/store.hpp>
#include <string>
#include <unordered_map>
#include <utility>

#include "delivery_ledger.hpp"
#include "postgres_by_hand.hpp"
#include "postgres_ours.hpp"
#include "shared_slots.hpp"
#include "suites.hpp"

namespace bench::pg {

enum class order { none, of_keys };

/// A listener that counts, and sees whether the events of each key come in the order of their numbers. It does the same
/// work for nodes that keep no order.
class keyed_listener {
 public:
  keyed_listener(outbox::listeners& l, delivery_ledger& ledger, order kind, std::function<void()> seen = {})
      : kind_{kind} {
    ledger.forget();
    l.on("order.placed", [this, &ledger, seen = std::move(seen)](outbox::delivery const& d) {
      ledger.saw(d.id);
      count(d.event.aggregate_id(), number_of(d.id));
      if (seen) seen();
    });
  }
  void wait_for(int count) {
    std::unique_lock lock{mutex_};
    changed_.wait(lock, [&] { return waiting_for(count); });
  }

  /// Of every node of the run that keeps the order of keys.
  static int inversions() noexcept { return all_inversions; }

 private:
  bool waiting_for(int count) {
    wanted_ = count;
    return count_ >= count;
  }
  void count(std::string const& key, std::size_t number) {
    std::lock_guard const lock{mutex_};
    auto& last = last_[key];
    if (number < last && kind_ == order::of_keys) ++all_inversions;
    last = std::max(last, number);
    if (++count_ == wanted_) changed_.notify_one();
  }

  static inline std::atomic<int> all_inversions{0};
  order kind_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::unordered_map<std::string, std::size_t> last_;
  int count_ = 0, wanted_ = -1;
};

/// Writers go through so many keys each, which no other writer has.
inline constexpr int keys_of_a_writer = 100;

/// The event number `i` of a writer.
[[nodiscard]] inline outbox::event_options keyed_event(int thread, int i) {
  return {.id = id_of(thread, i),
          .aggregate = {"order", std::to_string(thread) + "-" + std::to_string(i % keys_of_a_writer)}};
}

/// Marks a table as a keyed node would when it starts: it gets its index.
inline void mark_keyed(place const& p) { store_of(p)->backend().set_keyed(true); }

/// `count` due rows by one statement, the same number of each of `keys` keys in an order without a pattern.
inline void fill_keys(place const& p, int count, int keys) {
  client const c{p.connection};
  c.run("INSERT INTO " + p.table() +
        " (event_id, event_type, aggregate_type, aggregate_id, payload, available_at, created_at) SELECT "
        "'0000000000000000-' || i, 'order.placed', 'order', 'k' || (row_number() OVER (ORDER BY md5(i::text))) % " +
        std::to_string(keys) + ", '" + payload + "', now(), now() FROM generate_series(1, " + std::to_string(count) +
        ") i ORDER BY i");
  c.run("VACUUM ANALYZE " + p.table());
  c.run("CHECKPOINT");
}

/// The fields that both kinds of node have.
[[nodiscard]] inline outbox::node keyed_like(outbox::multi_node_options o) {
  outbox::keyed_options k{.store = std::move(o.store), .listeners = std::move(o.listeners), .log = nullptr};
  k.workers = o.workers;
  k.poll = o.poll;
  k.queue = o.queue;
  return outbox::keyed(std::move(k));
}

[[nodiscard]] inline outbox::node node_of(order kind, outbox::multi_node_options o) {
  return kind == order::of_keys ? keyed_like(std::move(o)) : outbox::multi_node(std::move(o));
}

}  // namespace bench::pg

#include <outbox/dead_events.hpp>
#include <outbox/error.hpp>
#include <outbox/spi/store.hpp>

namespace outbox::inline v0 {

dead_events::dead_events(std::shared_ptr<store> s, std::function<void()> replayed)
    : store_{std::move(s)}, replayed_{std::move(replayed)} {
  if (!store_) throw error::about(errc::invalid_option, "store", "is required");
}

spi::store& dead_events::table() const {
  if (!store_) throw error{errc::lifecycle, "this dead_events was moved from"};
  return store_->backend();
}

std::vector<dead_event> dead_events::query(dead_filter const& filter, std::size_t limit) const {
  return table().dead(filter, limit);
}

std::uint64_t dead_events::count(dead_filter const& filter) const { return table().count_dead(filter); }

bool dead_events::replay(std::string_view event_id) const {
  bool const done = table().replay(event_id);
  if (done && replayed_) replayed_();
  return done;
}

std::uint64_t dead_events::replay_all(dead_filter const& filter, std::size_t batch) const {
  auto const began = table().now();
  std::uint64_t total = 0;
  try {
    for (std::size_t n = batch; n == batch && batch > 0; total += n) {
      n = table().replay_some(filter, began, batch);
      if (n > 0 && replayed_) replayed_();
    }
  } catch (error const& e) {
    throw e.after_changing(total);
  }
  return total;
}

}  // namespace outbox::inline v0

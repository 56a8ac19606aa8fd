#include <unistd.h>

#include <array>
#include <outbox/error.hpp>
#include <random>

#include "core/base/text.hpp"
#include "core/base/ulid.hpp"
#include "core/events/names_check.hpp"
#include "core/node/settings.hpp"

namespace outbox::inline v0::core {
namespace {

using namespace std::chrono_literals;

[[noreturn]] void refuse(std::string const& field, std::string const& problem) {
  throw error::about(errc::invalid_option, field, problem);
}

void within(std::string const& field, std::uint64_t value, std::uint64_t least, std::uint64_t most) {
  if (value < least || value > most) {
    refuse(field,
           "is " + std::to_string(value) + ", it must be " + std::to_string(least) + " to " + std::to_string(most));
  }
}

void within(std::string const& field, std::chrono::milliseconds value, std::chrono::milliseconds least,
            std::chrono::milliseconds most) {
  if (value < least || value > most) {
    refuse(field, "is " + std::to_string(value.count()) + " ms, it must be " + std::to_string(least.count()) + " to " +
                      std::to_string(most.count()) + " ms");
  }
}

std::string host_name() {
  std::array<char, 256> buffer{};
  if (::gethostname(buffer.data(), buffer.size() - 1) != 0) return "unknown";
  return scrub(buffer.data(), width::node_name);  // nothing stops an administrator from choosing a name that is no text
}

// What every store can keep, whichever way it is sent: see decision 019.
void validate_limits(event_limits const& l) {
  within("limits.payload_bytes", l.payload_bytes, 1, std::uint64_t{256} << 20U);
  within("limits.header_count", l.header_count, 1, 10'000);
  within("limits.header_bytes", l.header_bytes, 1, std::uint64_t{16} << 20U);
  within("limits.json_depth", l.json_depth, 1, 5'000);
}

void validate_all(node_settings const& s) {
  auto const& e = s.engine;
  if (!s.store) refuse("store", "is required");
  if (!s.routes) refuse("listeners", "was moved from");
  within("workers", e.workers, 1, 1024);
  check_name(errc::invalid_option, "name", s.name, width::node_name);
  within("poll.every", e.poll.every, 1ms, 1h);
  within("poll.batch", e.poll.batch, 1, 10'000);
  within("poll.skip_recent", e.poll.skip_recent, 0ms, 1h);
  validate(e.retry, "retry");
  within("queue.hot", e.queue.hot, 1, 1'000'000);
  within("queue.cold", e.queue.cold, 1, 1'000'000);
  if (e.queue.bytes < (std::size_t{64} << 10)) refuse("queue.bytes", "must be at least 65536");
  within("lease.duration", e.lease.duration, 1s, 1h);
  within("lease.max_crashes", static_cast<std::uint64_t>(std::max(0, e.lease.max_crashes)), 2, 1000);
  within("listener_timeout", e.listener_timeout, 0ms, 24h);
  validate_limits(s.limits);
  within("stop_timeout", s.stop_timeout, 0ms, 24h);
  for (auto const& i : s.interceptors) {
    if (!i) refuse("interceptors", "has a null entry");
  }
  if (s.age_purge) {
    within("purge.keep", s.age_purge->keep, 1s, 24h * 3650);
    within("purge.batch", s.age_purge->batch, 1, 100'000);
    within("purge.every", s.age_purge->every, 1s, 24h * 30);
  }
  if (s.purge) {
    within("purge.keep", s.purge->keep, 0ms, 24h * 3650);
    within("purge.batch", s.purge->batch, 1, 100'000);
    within("purge.every", s.purge->every, 1s, 24h * 30);
  }
  for (auto const& [type, by_aggregate] : s.routes->by_type) {
    for (auto const& [aggregate, r] : by_aggregate) {
      if (r.options.retry) validate(*r.options.retry, "the retry of route '" + r.name + "'");
    }
  }
}

// What the modes that deliver have in common; this is where their options become one thing.
template <class Options>
node_settings settings_from(Options&& o, node_mode mode) {
  node_settings s;
  s.mode = mode;
  s.store = std::move(o.store);
  s.routes = o.listeners.release();
  s.name = o.name.empty() ? host_name() : std::move(o.name);
  s.limits = o.limits;
  s.stop_timeout = o.stop_timeout;
  s.stop_queued = o.stop_queued;
  s.log = std::move(o.log);
  s.metrics = std::move(o.metrics);
  s.clock = o.clock ? std::move(o.clock) : machine_clock();
  s.purge = o.purge;
  s.hook = std::move(o.hook);
  s.interceptors = std::move(o.interceptors);
  s.engine = {.incarnation = new_incarnation(),
              .exclusive = mode != node_mode::multi_node,
              .poll = o.poll,
              .lease = o.lease,
              .listener_timeout = o.listener_timeout,
              .unroutable = o.unroutable,
              .seed = std::random_device{}()};
  if constexpr (requires { o.workers; }) {
    s.engine.workers = o.workers;
    s.engine.retry = o.retry;
    s.engine.queue = o.queue;
    s.engine.hot_path = o.hot_path;
  }
  return s;
}

node_settings validated(node_settings s) {
  validate_all(s);
  return s;
}

// What a mode would have to ignore, it refuses.
void refuse_what_ordered_cannot_do(core::route const& r) {
  auto const field = "route '" + r.name + "'";
  if (r.options.retry) refuse(field + ".retry", "is not for ordered, which gives every event one attempt");
  if (r.options.max_in_flight) refuse(field + ".max_in_flight", "is not for ordered, which has one call at a time");
  if (r.batch) refuse(field, "takes batches, and ordered delivers one event at a time");
}

}  // namespace

void validate(retry_policy const& retry, std::string const& field) {
  within(field + ".max_attempts", static_cast<std::uint64_t>(std::max(0, retry.max_attempts)), 1, 1'000'000);
  if (retry.backoff.base.count() <= 0) refuse(field + ".backoff.base", "must be positive");
  if (retry.backoff.cap > std::chrono::hours{24 * 365}) refuse(field + ".backoff.cap", "must be at most 365 days");
  if (retry.backoff.cap < retry.backoff.base) {
    refuse(field + ".backoff.cap", "must not be less than " + field + ".backoff.base");
  }
}

node_settings settings_of(single_node_options options) {
  return validated(settings_from(std::move(options), node_mode::single_node));
}
node_settings settings_of(multi_node_options options) {
  return validated(settings_from(std::move(options), node_mode::multi_node));
}

node_settings settings_of(ordered_options options) {
  auto s = settings_from(std::move(options), node_mode::ordered);
  s.engine.in_order = true;
  s.engine.hot_path = false;
  s.engine.workers = 1;
  s.engine.retry.max_attempts = 1;
  validate_all(s);
  for (auto const& [type, by_aggregate] : s.routes->by_type) {
    for (auto const& [aggregate, r] : by_aggregate) refuse_what_ordered_cannot_do(r);
  }
  return s;
}

node_settings settings_of(writer_only_options o) {
  node_settings s;
  s.mode = node_mode::writer_only;
  s.name = host_name();
  s.store = std::move(o.store);
  s.routes = std::make_unique<detail::routes>();
  s.limits = o.limits;
  s.hook = std::move(o.hook);
  s.age_purge = o.purge;
  s.log = std::move(o.log);
  s.clock = o.clock ? std::move(o.clock) : machine_clock();
  s.engine.incarnation = new_incarnation();
  return validated(std::move(s));
}

std::string new_incarnation() {
  // A host name and a pid come back after a reboot or in another container; the random part never does.
  std::random_device entropy;
  ulid const boot{0, static_cast<std::uint16_t>(entropy()), (std::uint64_t{entropy()} << 32U) | entropy()};
  return scrub(host_name(), 40) + ":" + std::to_string(::getpid()) + ":" + to_string(boot).substr(10);
}

}  // namespace outbox::inline v0::core

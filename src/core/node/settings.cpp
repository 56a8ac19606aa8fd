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
  return scrub(buffer.data(), width::node_name);  // a host name may hold any bytes
}

// What every store can keep, however it is sent: see decision 019.
void validate_limits(event_limits const& l) {
  within("limits.payload_bytes", l.payload_bytes, 1, std::uint64_t{256} << 20U);
  within("limits.header_count", l.header_count, 1, 10'000);
  within("limits.header_bytes", l.header_bytes, 1, std::uint64_t{16} << 20U);
  within("limits.json_depth", l.json_depth, 1, 5'000);
}

void validate_all(node_settings const& s) {
  if (!s.store) refuse("store", "is required");
  if (!s.routes) refuse("listeners", "was moved from");
  within("workers", s.workers, 1, 1024);
  check_name(errc::invalid_option, "name", s.name, width::node_name);
  within("poll.every", s.poll.every, 1ms, 1h);
  within("poll.batch", s.poll.batch, 1, 10'000);
  within("poll.max_batch", s.poll.max_batch, 1, 10'000);
  within("poll.skip_recent", s.poll.skip_recent, 0ms, 1h);
  validate(s.retry, "retry");
  within("queue.hot", s.queue.hot, 1, 1'000'000);
  within("queue.cold", s.queue.cold, 1, 1'000'000);
  if (s.queue.bytes < (std::size_t{64} << 10)) refuse("queue.bytes", "must be at least 65536");
  within("lease.duration", s.lease.duration, 1s, 1h);
  within("lease.max_crashes", static_cast<std::uint64_t>(std::max(0, s.lease.max_crashes)), 2, 1000);
  within("listener_timeout", s.listener_timeout, 0ms, 24h);
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
  bool const keeps_progress = s.store->capabilities().owners_in_table;
  s.routes->for_each([&](route const& r) {
    if (!keeps_progress && r.handler && r.handler->needs_progress()) {
      refuse("route '" + r.name + "'", "is a fan_out, and the table has no column for which of its listeners are done");
    }
    if (r.options.retry) validate(*r.options.retry, "the retry of route '" + r.name + "'");
  });
}

node_settings settings_from(node_options o, node_mode mode) {
  node_settings s;
  static_cast<node_options&>(s) = std::move(o);
  s.routes = s.listeners.release();
  if (s.name.empty()) s.name = host_name();
  if (!s.clock) s.clock = machine_clock();
  if (s.store && s.poll.every == 0ms) s.poll.every = s.store->capabilities().poll_every;
  if (s.store && !s.store->capabilities().owners_in_table) s.hot_path = false;  // rows cannot be born with an owner
  s.mode = mode;
  s.exclusive = mode == node_mode::single_node || mode == node_mode::ordered;
  s.incarnation = new_incarnation();
  s.seed = std::random_device{}();
  return s;
}

// An ordered node has one call at a time and one attempt for each event.
node_options options_of(ordered_options&& o) {
  node_options n{.store = std::move(o.store),
                 .listeners = std::move(o.listeners),
                 .workers = 1,
                 .name = std::move(o.name),
                 .poll = o.poll,
                 .lease = o.lease,
                 .listener_timeout = o.listener_timeout,
                 .hot_path = false,
                 .unroutable = o.unroutable,
                 .limits = o.limits,
                 .stop_timeout = o.stop_timeout,
                 .stop_queued = o.stop_queued,
                 .log = std::move(o.log),
                 .metrics = std::move(o.metrics),
                 .clock = std::move(o.clock),
                 .purge = o.purge,
                 .hook = std::move(o.hook),
                 .interceptors = std::move(o.interceptors)};
  n.retry.max_attempts = 1;
  return n;
}

node_options options_of(keyed_options&& o) {
  return {.store = std::move(o.store),
          .listeners = std::move(o.listeners),
          .workers = o.workers,
          .name = std::move(o.name),
          .poll = o.poll,
          .retry = o.retry,
          .queue = o.queue,
          .lease = o.lease,
          .listener_timeout = o.listener_timeout,
          .hot_path = o.hot_path,
          .unroutable = o.unroutable,
          .limits = o.limits,
          .stop_timeout = o.stop_timeout,
          .stop_queued = o.stop_queued,
          .log = std::move(o.log),
          .metrics = std::move(o.metrics),
          .clock = std::move(o.clock),
          .purge = o.purge,
          .hook = std::move(o.hook),
          .interceptors = std::move(o.interceptors)};
}

node_settings validated(node_settings s) {
  validate_all(s);
  return s;
}

// A mode refuses what it would have to ignore.
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

node_settings settings_of(node_options options, node_mode mode) {
  return validated(settings_from(std::move(options), mode));
}

node_settings settings_of(ordered_options options) {
  auto s = settings_from(options_of(std::move(options)), node_mode::ordered);
  s.in_order = true;
  validate_all(s);
  s.routes->for_each(refuse_what_ordered_cannot_do);
  return s;
}

node_settings settings_of(keyed_options o) {
  auto const dead = o.on_dead;
  auto s = settings_from(options_of(std::move(o)), node_mode::keyed);
  s.keyed = true;
  s.on_dead = dead;
  return validated(std::move(s));
}

node_settings settings_of(writer_only_options o) {
  auto s = settings_from({.store = std::move(o.store),
                          .limits = o.limits,
                          .log = std::move(o.log),
                          .clock = std::move(o.clock),
                          .hook = std::move(o.hook)},
                         node_mode::writer_only);
  s.age_purge = o.purge;
  return validated(std::move(s));
}

std::string new_incarnation() {
  // A host name and a process id may be used again after a reboot or in another container; the random part is not.
  std::random_device entropy;
  ulid const boot{0, static_cast<std::uint16_t>(entropy()), (std::uint64_t{entropy()} << 32U) | entropy()};
  return scrub(host_name(), 40) + ":" + std::to_string(::getpid()) + ":" + to_string(boot).substr(10);
}

}  // namespace outbox::inline v0::core

#include <outbox/error.hpp>
#include <outbox/node.hpp>
#include <thread>

#include "core/node/node_core.hpp"
#include "core/node/runtime.hpp"

namespace outbox::inline v0 {
namespace {

constexpr char const* moved_from = "this node was moved from";

// What a node stands on, unless it was moved from.
template <class Pointer>
auto& alive(Pointer const& p) {
  if (!p) throw error{errc::lifecycle, moved_from};
  return *p;
}

}  // namespace

node::node(std::shared_ptr<core::node_core> core)
    : core_{std::move(core)}, runtime_{std::make_unique<core::runtime>(core_)} {}

node::node(node&&) noexcept = default;

node& node::operator=(node&& other) noexcept {
  if (this == &other) return *this;
  end();
  core_ = std::move(other.core_);
  runtime_ = std::move(other.runtime_);
  return *this;
}

node::~node() { end(); }

// A thread cannot wait for itself: if a listener drops its own node, another thread ends that.
void node::end() noexcept {
  if (!runtime_ || !runtime_->on_own_thread()) return runtime_.reset();
  runtime_->stop({});
  auto* const ending = runtime_.release();
  try {
    std::thread{[ending] { delete ending; }}.detach();
  } catch (...) {  // NOLINT(bugprone-empty-catch): it keeps its threads; the alternative is to end the process
  }
}

writer node::writer() const {
  static_cast<void>(alive(core_));
  return outbox::v0::writer{core_};
}

void node::start() { alive(runtime_).start(); }

void node::run(std::stop_token token) {
  start();
  std::mutex mutex;
  std::condition_variable_any stopped;
  std::unique_lock lock{mutex};
  stopped.wait(lock, token, [] { return false; });
  stop();
}

bool node::stop() { return stop(alive(core_).settings().stop_timeout); }
bool node::stop(std::chrono::milliseconds timeout) { return alive(runtime_).stop(timeout); }

void node::wake() noexcept {
  if (!core_) return;
  core_->with_engine_quietly([](core::engine& e) { e.wake(); });
}

std::size_t node::poll_once() { return alive(runtime_).poll_once(); }

std::size_t node::purge_once() { return alive(core_).purge_once(); }

bool node::pause(route_pause const& what) { return alive(core_).pause(what); }
bool node::resume(route_pause const& what) { return alive(core_).resume(what); }
std::vector<route_pause> node::paused() const { return alive(core_).store().settings().pauses; }

bool node::cancel(std::string_view event_id, std::string_view reason) {
  event_filter const one{.ids = {std::string{event_id}}};
  return alive(core_).store().cancel(one, reason, 1) > 0;
}

// No more than matched at the beginning: events that are written meanwhile are left, so that it ends.
std::uint64_t node::cancel(event_filter const& filter, std::string_view reason, std::size_t batch) {
  if (filter == event_filter{}) {
    throw error::about(errc::invalid_option, "filter", "is empty: to cancel everything, name both pending statuses");
  }
  if (batch == 0) throw error::about(errc::invalid_option, "batch", "is 0");
  auto& store = alive(core_).store();
  auto pending = filter;
  if (pending.statuses.empty()) pending.statuses = {event_status::created, event_status::retry};
  auto left = store.count(pending, UINT64_MAX);
  std::uint64_t total = 0;
  try {
    while (left > 0) {
      auto const n = store.cancel(pending, reason, std::min<std::uint64_t>(batch, left));
      if (n == 0) break;
      total += n;
      left -= n;
    }
  } catch (error const& e) {
    throw e.after_changing(total);
  }
  return total;
}

std::size_t node::run_until_idle() { return alive(runtime_).run_until_idle(); }

dead_events node::dead_events() const {
  return outbox::v0::dead_events{alive(core_).settings().store, [weak = std::weak_ptr{core_}] {
                                   if (auto const core = weak.lock()) {
                                     core->with_engine_quietly([](core::engine& e) { e.wake(); });
                                   }
                                 }};
}

node_counters node::counters() const { return alive(core_).counters(); }

node_health node::health() const {
  node_health h;
  if (!core_) {
    h.reason = moved_from;
    return h;
  }
  h.running = runtime_->running();
  h.reason = runtime_->not_running();
  core_->with_engine_quietly([&](core::engine& e) {
    h.active = h.running && e.active();
    if (h.running) h.reason = e.unhealthy();
    h.isolated = e.isolated();
  });
  h.healthy = h.reason.empty();
  return h;
}

std::string const& node::incarnation() const noexcept {
  static std::string const none;
  return core_ ? core_->settings().incarnation : none;
}

node single_node(single_node_options options) {
  return node{std::make_shared<core::node_core>(core::settings_of(std::move(options), node_mode::single_node))};
}

node multi_node(multi_node_options options) {
  return node{std::make_shared<core::node_core>(core::settings_of(std::move(options), node_mode::multi_node))};
}

node ordered(ordered_options options) {
  return node{std::make_shared<core::node_core>(core::settings_of(std::move(options)))};
}

node keyed(keyed_options options) {
  return node{std::make_shared<core::node_core>(core::settings_of(std::move(options)))};
}

node writer_only(writer_only_options options) {
  return node{std::make_shared<core::node_core>(core::settings_of(std::move(options)))};
}

}  // namespace outbox::inline v0

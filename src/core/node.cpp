#include <outbox/error.hpp>
#include <outbox/node.hpp>

#include "core/node_core.hpp"
#include "core/runtime.hpp"

namespace outbox::inline v0 {

node::node(std::shared_ptr<core::node_core> core)
    : core_{std::move(core)}, runtime_{std::make_unique<core::runtime>(core_)} {}

node::node(node&&) noexcept = default;
node& node::operator=(node&&) noexcept = default;
node::~node() = default;

writer node::writer() const { return outbox::v0::writer{core_}; }

void node::start() { runtime_->start(); }

void node::run(std::stop_token token) {
  start();
  std::mutex mutex;
  std::condition_variable_any stopped;
  std::unique_lock lock{mutex};
  stopped.wait(lock, token, [] { return false; });
  stop();
}

bool node::stop() { return stop(core_->settings().drain); }
bool node::stop(std::chrono::milliseconds drain) { return runtime_->stop(drain); }

void node::wake() noexcept {
  core_->with_engine_quietly([](core::engine& e) { e.wake(); });
}

std::size_t node::poll_once() { return runtime_->poll_once(); }

std::size_t node::purge_once() { return core_->purge_once(); }

bool node::pause(route_pause const& what) { return core_->pause(what); }
bool node::resume(route_pause const& what) { return core_->resume(what); }
std::vector<route_pause> node::paused() const { return core_->store().pauses(); }

std::size_t node::run_until_idle() { return runtime_->run_until_idle(); }

dead_events node::dead_events() const {
  return outbox::v0::dead_events{core_->settings().store, [weak = std::weak_ptr{core_}] {
                                   if (auto const core = weak.lock()) {
                                     core->with_engine_quietly([](core::engine& e) { e.wake(); });
                                   }
                                 }};
}

node_counters node::counters() const {
  return core_->with_engine_quietly([](core::engine& e) { return e.counters(); });
}

node_health node::health() const {
  node_health h;
  h.running = runtime_->running();
  core_->with_engine_quietly([&](core::engine& e) {
    h.active = h.running && e.active();
    h.reason = h.running ? e.unhealthy() : "not running";
  });
  h.healthy = h.reason.empty();
  return h;
}

std::string const& node::incarnation() const noexcept { return core_->settings().engine.incarnation; }

node single_node(single_node_options options) {
  return node{std::make_shared<core::node_core>(core::settings_of(std::move(options)))};
}

node multi_node(multi_node_options options) {
  return node{std::make_shared<core::node_core>(core::settings_of(std::move(options)))};
}

node ordered(ordered_options options) {
  return node{std::make_shared<core::node_core>(core::settings_of(std::move(options)))};
}

node writer_only(writer_only_options options) {
  return node{std::make_shared<core::node_core>(core::settings_of(std::move(options)))};
}

}  // namespace outbox::inline v0

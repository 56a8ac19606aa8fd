#include "relay.hpp"

#include <csignal>
#include <cstdio>
#include <ctime>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <outbox/config.hpp>
#include <thread>
#include <utility>

#include "health_server.hpp"
#include "log_lines.hpp"
#include "relay_metrics.hpp"
#include "service_manager.hpp"

namespace outbox_tool {
namespace {

using nlohmann::json;
using outbox::log_level;
using std::chrono::milliseconds;

/// The nodes and sinks of one configuration, running.
class generation {
 public:
  generation(outbox::config const& c, outbox::log_function const& log, relay_metrics& figures)
      : running_{c.open({.log = log, .metrics_for = [&](auto const& table) { return figures.of_table(table); }})},
        shown_{figures.watch(running_)} {
    for (auto& [label, n] : running_.nodes) n.start();
  }
  generation(generation const&) = delete;
  generation& operator=(generation const&) = delete;

  /// Stops all nodes at the same time. Each takes its `stop_timeout` at most. Returns true if all have finished.
  bool stop() {
    std::vector<std::future<bool>> ends;
    ends.reserve(running_.nodes.size());
    for (auto& [label, n] : running_.nodes)
      ends.push_back(std::async(std::launch::async, [&n = n] { return n.stop(); }));
    bool all = true;
    for (auto& e : ends) all = e.get() && all;
    return all;
  }

  [[nodiscard]] health_report health() const {
    health_report h;
    auto tables = json::array();
    for (auto const& [label, n] : running_.nodes) {
      auto const state = n.health();
      auto const c = n.counters();
      h.good = h.good && state.healthy;
      tables.push_back({{"table", label},
                        {"healthy", state.healthy},
                        {"active", state.active},
                        {"reason", state.reason},
                        {"delivered", c.delivered},
                        {"failed", c.failed},
                        {"deferred", c.deferred},
                        {"dead", c.dead + c.claimed_dead},
                        {"held", c.held}});
    }
    auto sinks = json::array();
    for (auto const& s : running_.sinks) {
      auto const state = s->health();
      h.good = h.good && state.healthy;
      sinks.push_back({{"sink", s->name()},
                       {"healthy", state.healthy},
                       {"reason", state.reason},
                       {"in_flight", state.in_flight},
                       {"stored", state.stored},
                       {"maybe_twice", state.unsure}});
    }
    auto const replace = json::error_handler_t::replace;
    h.json = json{{"ready", h.good}, {"tables", tables}, {"sinks", sinks}}.dump(-1, ' ', false, replace) + "\n";
    return h;
  }

 private:
  outbox::config::opened running_;
  std::shared_ptr<void> shown_;  ///< In `/metrics`.
};

/// The signals of a daemon, which only the main thread takes.
class signals {
 public:
  signals() {
    sigemptyset(&set_);
    for (int const s : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set_, s);
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);
    std::signal(SIGPIPE, SIG_IGN);
  }

  /// Returns the signal that came within this time; 0: none.
  [[nodiscard]] int wait(milliseconds time) const {
    timespec t{};
    t.tv_sec = time.count() / 1000;
    t.tv_nsec = time.count() % 1000 * 1'000'000;
    int const s = ::sigtimedwait(&set_, nullptr, &t);
    return s > 0 ? s : 0;
  }

 private:
  sigset_t set_{};
};

void print_problems(outbox::config_error const& e) {
  for (auto const& p : e.problems()) std::fprintf(stderr, "%s\n", p.c_str());
}

class relay {
 public:
  relay(std::string file, outbox::config const& c)
      : file_{std::move(file)}, log_{log_to(c.relay().form, c.relay().least)} {
    current_ = std::make_shared<generation>(c, log_, figures_);
    serve_health(c.relay().http);
  }

  int run(signals const& from) {
    tell_service_manager("READY=1\nSTATUS=delivering");
    say(log_level::info, "the relay runs");
    while (true) {
      int const s = from.wait(beat_.value_or(milliseconds{60'000}));
      give_sign_of_life();
      if (s == SIGHUP) reload();
      if (s == SIGTERM || s == SIGINT) return drain(from);
    }
  }

 private:
  void say(log_level level, std::string_view message) const { log_({.level = level, .message = message}); }

  void give_sign_of_life() const {
    if (beat_) tell_service_manager("WATCHDOG=1");
  }

  void serve_health(std::string const& listen) {
    if (listen == listens_on_) return;
    std::unique_ptr<health_server> next;
    if (!listen.empty()) {
      next = std::make_unique<health_server>(
          listen, [this] { return current()->health(); },
          [this] {
            return metrics_report{figures_.text(), figures_.content_type()};
          });
      say(log_level::info, "readiness is at port " + std::to_string(next->port()) + ", path /readyz");
    }
    health_ = std::move(next);
    listens_on_ = listen;
  }

  [[nodiscard]] std::shared_ptr<generation> current() const {
    std::lock_guard const lock{mutex_};
    return current_;
  }

  // The new nodes work beside the old ones until those have drained. If anything is wrong, nothing changes.
  void reload() {
    tell_reloading();
    try {
      auto const c = outbox::config::read({.file = file_});
      auto log = log_to(c.relay().form, c.relay().least);
      auto next = std::make_shared<generation>(c, log, figures_);
      serve_health(c.relay().http);
      log_ = std::move(log);
      {
        std::lock_guard const lock{mutex_};
        std::swap(current_, next);
      }
      auto const ended = std::async(std::launch::async, [&] { return next->stop(); });
      while (ended.wait_for(beat_.value_or(milliseconds{60'000})) != std::future_status::ready) give_sign_of_life();
      say(log_level::info, "the configuration was read again and is in use");
    } catch (outbox::config_error const& e) {
      for (auto const& p : e.problems()) say(log_level::error, "the configuration stays as it was: " + p);
    } catch (std::exception const& e) {
      say(log_level::error, std::string{"the configuration stays as it was: "} + e.what());
    }
    tell_service_manager("READY=1\nSTATUS=delivering");
  }

  int drain(signals const& from) {
    tell_service_manager("STOPPING=1\nSTATUS=draining");
    say(log_level::info, "stopping: what was begun is finished first; a second signal ends the relay at once");
    auto ended = std::async(std::launch::async, [g = current()] { return g->stop(); });
    while (ended.wait_for(milliseconds{0}) != std::future_status::ready) {
      int const s = from.wait(milliseconds{20});
      give_sign_of_life();
      if (s == SIGTERM || s == SIGINT) {
        say(log_level::warning, "a second signal: ending at once; what was under way will be delivered again");
        std::_Exit(exit_failed);
      }
    }
    say(ended.get() ? log_level::info : log_level::warning, "the relay has stopped");
    return exit_good;
  }

  std::string const file_;
  std::optional<milliseconds> const beat_ = watchdog_interval();
  outbox::log_function log_;
  relay_metrics figures_;
  mutable std::mutex mutex_;
  std::shared_ptr<generation> current_;
  std::string listens_on_;
  std::unique_ptr<health_server> health_;  ///< Last: it asks for the others.
};

}  // namespace

int run_relay(std::string const& file) {
  signals const from;  // before any thread
  try {
    auto const c = outbox::config::read({.file = file});
    return relay{file, c}.run(from);
  } catch (outbox::config_error const& e) {
    print_problems(e);
    return exit_usage;
  } catch (std::exception const& e) {
    std::fprintf(stderr, "outbox relay: %s\n", e.what());
    return exit_failed;
  }
}

int check_config(std::string const& file) {
  try {
    std::fputs(outbox::config::read({.file = file}).summary().c_str(), stdout);
    return exit_good;
  } catch (outbox::config_error const& e) {
    print_problems(e);
    return exit_usage;
  }
}

int preview_relay(std::string const& file) {
  try {
    std::fputs(outbox::config::read({.file = file}).preview(20).c_str(), stdout);
    return exit_good;
  } catch (outbox::config_error const& e) {
    print_problems(e);
    return exit_usage;
  } catch (std::exception const& e) {
    std::fprintf(stderr, "outbox relay: %s\n", e.what());
    return exit_failed;
  }
}

}  // namespace outbox_tool

#include "relay_metrics.hpp"

#ifdef OUTBOX_HAS_PROMETHEUS

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <outbox/prometheus.hpp>
#include <utility>
#include <vector>

#include "table_watch.hpp"

namespace outbox_tool {
namespace {

using outbox::prometheus::figure;
using figures = std::vector<figure>;
using labels = std::vector<std::pair<std::string, std::string>>;

// For tables that were not read for a while. A scrape that takes longer would be cut off by some scrapers.
constexpr std::chrono::seconds longest_wait{1};

// The tables and sinks of one configuration.
struct members {
  std::map<std::string, table_watch> tables;
  std::vector<std::shared_ptr<outbox::sink>> sinks;
};

struct sink_counts {
  double stored = 0;
  double unsure = 0;
};

void add(figures& to, char const* name, char const* help, labels of, double value,
         figure::kind is = figure::kind::gauge) {
  to.push_back({.name = name, .help = help, .is = is, .labels = std::move(of), .value = value});
}

double seconds_since(std::optional<outbox::instant> since, outbox::instant at) {
  return since ? std::max(0.0, std::chrono::duration<double>{at - *since}.count()) : 0;
}

void add_table(figures& to, std::string const& name, table_watch::state const& known) {
  labels const of{{"table", name}};
  if (known.up) add(to, "table_up", "1 if the last read of the table succeeded.", of, *known.up ? 1 : 0);
  if (!known.overview) return;
  auto const& o = *known.overview;
  auto const count = [&](char const* what, char const* help, std::uint64_t rows) {
    add(to, what, help, of, static_cast<double>(rows));
  };
  count("table_pending", "Rows that are NEW or RETRY, counted up to 10000.", o.pending);
  count("table_retrying", "Rows that are RETRY, counted up to 10000.", o.retrying);
  count("table_delayed", "Rows that are NEW and not due yet, counted up to 10000.", o.delayed);
  count("table_held", "Pending rows that a node owns, counted up to 10000.", o.held);
  count("table_due", "Rows that could be claimed now, counted up to 10000.", o.due);
  count("table_dead", "Rows that are DEAD, counted up to 10000.", o.dead);
  count("table_blocked", "Rows that wait for another row of their key, counted up to 10000.", o.blocked);
  if (known.parked) count("table_parked_keys", "Keys whose first event is DEAD, counted up to 1000.", *known.parked);
  add(to, "table_oldest_pending_seconds",
      "How long the oldest pending row waits that is not delayed; 0 if there is none.", of,
      seconds_since(o.waiting_since, o.at));
}

}  // namespace

class relay_metrics::state : public std::enable_shared_from_this<state> {
 public:
  [[nodiscard]] std::shared_ptr<outbox::metrics> of_table(std::string const& name) {
    return registry_.exporter({.table = name});
  }

  std::shared_ptr<void> watch(outbox::config::opened const& running) {
    auto const made = std::make_shared<members>();
    for (auto const& [name, store] : running.stores) made->tables.try_emplace(name, store);
    made->sinks = running.sinks;
    std::lock_guard const lock{mutex_};
    live_.push_back(made);
    return {made.get(), [self = shared_from_this(), made](void*) { self->end(made); }};
  }

  [[nodiscard]] std::string text() {
    look_at_tables();
    return registry_.text();
  }

  void add_sources() {
    registry_.add([this] {
      figures all;
      add_tables(all);
      add_sinks(all);
      return all;
    });
  }

 private:
  // What the sinks of an ended configuration have counted goes on counting.
  void end(std::shared_ptr<members> const& which) {
    std::lock_guard const lock{mutex_};
    std::erase(live_, which);
    for (auto const& s : which->sinks) {
      auto const h = s->health();
      auto& sum = ended_[std::string{s->name()}];
      sum.stored += static_cast<double>(h.stored);
      sum.unsure += static_cast<double>(h.unsure);
    }
  }

  [[nodiscard]] std::vector<std::shared_ptr<members>> live() const {
    std::lock_guard const lock{mutex_};
    return live_;
  }

  // All at once, so that one table that hangs does not take the time of the others. Only the scrape that began a read
  // waits for it: a table that hangs delays one scrape.
  void look_at_tables() {
    auto const all = live();
    std::vector<table_watch*> asked;
    for (auto const& m : all) {
      for (auto& [name, table] : m->tables) {
        if (table.ask()) asked.push_back(&table);
      }
    }
    auto const deadline = std::chrono::steady_clock::now() + longest_wait;
    for (auto* const table : asked) table->wait_until(deadline);
  }

  // While an old configuration drains, the new one answers for a table that both have.
  void add_tables(figures& to) const {
    std::map<std::string, table_watch::state> by_name;
    for (auto const& m : live()) {
      for (auto const& [name, table] : m->tables) by_name.insert_or_assign(name, table.known());
    }
    for (auto const& [name, known] : by_name) add_table(to, name, known);
  }

  void add_sinks(figures& to) const {
    struct sum : sink_counts {
      double in_flight = 0;
      bool healthy = true;
      bool live = false;
    };
    std::map<std::string, sum> by_name;
    {
      std::lock_guard const lock{mutex_};
      for (auto const& [name, counts] : ended_) static_cast<sink_counts&>(by_name[name]) = counts;
      for (auto const& m : live_) {
        for (auto const& s : m->sinks) {
          auto const h = s->health();
          auto& of = by_name[std::string{s->name()}];
          of.stored += static_cast<double>(h.stored);
          of.unsure += static_cast<double>(h.unsure);
          of.in_flight += static_cast<double>(h.in_flight);
          of.healthy = of.healthy && h.healthy;
          of.live = true;
        }
      }
    }
    for (auto const& [name, s] : by_name) {
      labels const of{{"sink", name}};
      using enum figure::kind;
      add(to, "sink_stored", "Messages that the sink has for good.", of, s.stored, counter);
      add(to, "sink_unsure", "Messages that the sink may have: each may be published twice.", of, s.unsure, counter);
      if (!s.live) continue;
      add(to, "sink_in_flight", "Messages on their way to the sink.", of, s.in_flight);
      add(to, "sink_healthy", "1 if the sink takes messages, as far as it knows.", of, s.healthy ? 1 : 0);
    }
  }

  outbox::prometheus::registry registry_;
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<members>> live_;
  std::map<std::string, sink_counts> ended_;  ///< Of configurations that do not run any more.
};

relay_metrics::relay_metrics() : state_{std::make_shared<state>()} { state_->add_sources(); }
relay_metrics::~relay_metrics() = default;

std::shared_ptr<outbox::metrics> relay_metrics::of_table(std::string const& name) { return state_->of_table(name); }
std::shared_ptr<void> relay_metrics::watch(outbox::config::opened const& running) { return state_->watch(running); }
std::string relay_metrics::text() const { return state_->text(); }
char const* relay_metrics::content_type() noexcept { return outbox::prometheus::content_type; }

}  // namespace outbox_tool

#else

namespace outbox_tool {

class relay_metrics::state {};

relay_metrics::relay_metrics() = default;
relay_metrics::~relay_metrics() = default;

std::shared_ptr<outbox::metrics> relay_metrics::of_table(std::string const& /*name*/) { return {}; }
std::shared_ptr<void> relay_metrics::watch(outbox::config::opened const& /*running*/) { return {}; }
std::string relay_metrics::text() const { return {}; }
char const* relay_metrics::content_type() noexcept { return "text/plain"; }

}  // namespace outbox_tool

#endif

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <outbox/error.hpp>
#include <outbox/prometheus.hpp>
#include <outbox/version.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/base/text.hpp"
#include "prometheus/figures.hpp"

namespace outbox::inline v0::prometheus {
namespace {

using ::prometheus::ClientMetric;
using ::prometheus::MetricFamily;
using ::prometheus::MetricType;
using families = std::vector<MetricFamily>;

constexpr bool may_be_in_a_name(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

std::string as_name(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return !may_be_in_a_name(c); }, '_');
  return text;
}

// The library writes help as it is.
std::string on_one_line(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return c == '\n' || c == '\\'; }, ' ');
  return core::scrub(text, 1000);
}

std::string checked_prefix(std::string prefix) {
  std::ranges::replace(prefix, '.', '_');
  if (prefix.empty() || !std::ranges::all_of(prefix, may_be_in_a_name) || (prefix[0] >= '0' && prefix[0] <= '9')) {
    throw error::about(errc::invalid_option, "prefix",
                       "must be letters, digits, underscores and dots, and not begin with a digit");
  }
  return prefix;
}

std::string name_of(gauge g, std::string const& prefix) {
  return g == gauge::oldest_lag_ms ? prefix + "_lag_oldest_seconds" : full_name(g, prefix, '_');
}

double in_base_unit(gauge g, std::int64_t value) {
  return g == gauge::oldest_lag_ms ? static_cast<double>(value) / 1000 : static_cast<double>(value);
}

void add_label(ClientMetric& to, std::string name, std::string value) {
  if (!value.empty()) to.label.push_back({std::move(name), std::move(value)});
}

ClientMetric labelled(node_series const& of) {
  ClientMetric m;
  add_label(m, "table", of.table);
  add_label(m, "node", of.node);
  return m;
}

ClientMetric labelled(node_series const& of, std::string const& route) {
  auto m = labelled(of);
  add_label(m, "route", route);
  return m;
}

ClientMetric with_value(ClientMetric m, std::atomic<std::uint64_t> const& count) {
  m.counter.value = static_cast<double>(count.load(std::memory_order_relaxed));
  return m;
}

// The counts of all buckets are read once, so what is shown adds up.
ClientMetric with_value(ClientMetric m, cells const& of) {
  std::uint64_t so_far = 0;
  for (std::size_t i = 0; i < of.bounds().size(); ++i) {
    so_far += of.count(i);
    m.histogram.bucket.push_back({so_far, of.bounds()[i]});
  }
  m.histogram.sample_count = so_far + of.count(of.bounds().size());
  m.histogram.sample_sum = of.sum();
  return m;
}

}  // namespace

/// What the registry, its exporters and its collectables share.
class registry::state final : public ::prometheus::Collectable, public std::enable_shared_from_this<state> {
 public:
  explicit state(std::string prefix) : prefix_{std::move(prefix)} {}

  std::shared_ptr<metrics> add(exporter_options const& o) {
    std::lock_guard const lock{mutex_};
    auto& to = series_of(core::scrub(o.table, 256), core::scrub(o.node, 256));
    auto made = std::make_shared<prometheus::exporter>(shared_from_this(), mutex_, to);
    std::erase_if(exporters_, [](auto const& e) { return e.expired(); });
    exporters_.push_back(made);
    return made;
  }

  void add(std::function<std::vector<figure>()> read) {
    std::lock_guard const lock{mutex_};
    sources_.push_back(std::move(read));
  }

  [[nodiscard]] families Collect() const override {
    families all;
    auto const more = [&] {  // what is asked for may take its time, so it is done without the lock
      std::unique_lock lock{mutex_};
      all.push_back(build());
      add_counters(all);
      add_histograms(all);
      auto const nodes = live_exporters();
      auto sources = sources_;
      lock.unlock();
      add_gauges(all, nodes);
      return sources;
    }();
    for (auto const& read : more) add_figures(all, read);
    return all;
  }

 private:
  using live = std::vector<std::shared_ptr<prometheus::exporter const>>;

  node_series& series_of(std::string table, std::string node) {
    for (auto& s : series_) {
      if (s.table == table && s.node == node) return s;
    }
    auto& made = series_.emplace_back();
    made.table = std::move(table);
    made.node = std::move(node);
    return made;
  }

  [[nodiscard]] live live_exporters() const {
    live all;
    for (auto const& e : exporters_) {
      if (auto one = e.lock()) all.push_back(std::move(one));
    }
    return all;
  }

  [[nodiscard]] MetricFamily build() const {
    MetricFamily f{prefix_ + "_build_info", "1, with the version of the library as a label.", MetricType::Gauge, {}};
    f.metric.emplace_back();
    add_label(f.metric.back(), "version", std::string{version()});
    f.metric.back().gauge.value = 1;
    return f;
  }

  void add_counters(families& all) const {
    for (auto const& [which, help] : counters) {
      auto const i = static_cast<std::size_t>(which);
      MetricFamily f{full_name(which, prefix_, '_') + "_total", std::string{help}, MetricType::Counter, {}};
      for (auto const& s : series_) {
        if (!by_route(which)) {
          f.metric.push_back(with_value(labelled(s), s.whole.counted[i]));
          continue;
        }
        for (auto const& [route, of] : s.routes) f.metric.push_back(with_value(labelled(s, route), of.counted[i]));
      }
      all.push_back(std::move(f));
    }
  }

  void add_histograms(families& all) const {
    for (auto const& d : histograms) {
      auto const i = static_cast<std::size_t>(d.which);
      MetricFamily f{full_name(d.which, prefix_, '_'), std::string{d.help}, MetricType::Histogram, {}};
      for (auto const& s : series_) {
        if (!d.by_route) {
          f.metric.push_back(with_value(labelled(s), s.whole.observed[i]));
          continue;
        }
        for (auto const& [route, of] : s.routes) {
          auto m = with_value(labelled(s, route), of.observed[i]);
          // Most nodes have a listener for every event.
          if (!route.empty() || m.histogram.sample_count > 0) f.metric.push_back(std::move(m));
        }
      }
      if (!f.metric.empty()) all.push_back(std::move(f));
    }
  }

  void add_gauges(families& all, live const& exporters) const {
    for (auto const& d : gauges) {
      std::map<node_series const*, std::int64_t> values;
      for (auto const& e : exporters) {
        auto const told = e->value(d.which);
        if (!told) continue;
        auto const [at, first] = values.emplace(&e->to(), *told);
        if (first) continue;
        if (d.how == merge::sum) at->second += *told;
        if (d.how == merge::highest) at->second = std::max(at->second, *told);
        if (d.how == merge::lowest) at->second = std::min(at->second, *told);
      }
      if (values.empty()) continue;
      MetricFamily f{name_of(d.which, prefix_), std::string{d.help}, MetricType::Gauge, {}};
      for (auto const& [of, value] : values) {
        f.metric.push_back(labelled(*of));
        f.metric.back().gauge.value = in_base_unit(d.which, value);
      }
      all.push_back(std::move(f));
    }
  }

  // Samples of one name stand together, whichever source they come from.
  void add_figures(families& all, std::function<std::vector<figure>()> const& read) const {
    try {
      for (auto& one : read()) {
        bool const counts = one.is == figure::kind::counter;
        auto const name = as_name(prefix_ + "_" + one.name + (counts ? "_total" : ""));
        auto f = std::ranges::find(all, name, &MetricFamily::name);
        if (f == all.end()) {
          auto const type = counts ? MetricType::Counter : MetricType::Gauge;
          f = all.insert(f, {name, on_one_line(std::move(one.help)), type, {}});
        }
        auto& m = f->metric.emplace_back();
        for (auto& [label, value] : one.labels) add_label(m, as_name(std::move(label)), core::scrub(value, 256));
        (counts ? m.counter.value : m.gauge.value) = one.value;
      }
    } catch (...) {  // NOLINT(bugprone-empty-catch): the other figures are there
    }
  }

  std::string const prefix_;
  mutable std::mutex mutex_;
  std::list<node_series> series_;
  std::vector<std::weak_ptr<prometheus::exporter const>> exporters_;
  std::vector<std::function<std::vector<figure>()>> sources_;
};

registry::registry(registry_options o) : state_{std::make_shared<state>(checked_prefix(std::move(o.prefix)))} {}
registry::~registry() = default;

std::shared_ptr<metrics> registry::exporter(exporter_options o) { return state_->add(o); }
void registry::add(std::function<std::vector<figure>()> read) { state_->add(std::move(read)); }
std::string registry::text() const { return ::prometheus::TextSerializer{}.Serialize(state_->Collect()); }
std::shared_ptr<::prometheus::Collectable> registry::collectable() const { return state_; }

}  // namespace outbox::inline v0::prometheus

#include "prometheus/figures.hpp"

#include "core/base/text.hpp"

namespace outbox::inline v0::prometheus {
namespace {

template <class E>
std::size_t at(E e) noexcept {
  return static_cast<std::size_t>(e);
}

// Prometheus refuses a whole scrape for one label that is not UTF-8.
std::string label_value(std::string_view text) { return core::scrub(text, 256); }

}  // namespace

exporter::exporter(std::shared_ptr<void> owner, std::mutex& lock, node_series& to)
    : owner_{std::move(owner)}, lock_{lock}, to_{to}, without_route_{to.routes[""]} {
  indexes_.push_back(std::make_unique<index const>());
  current_ = indexes_.back().get();
}

void exporter::attach(std::span<std::string const> routes) {
  std::lock_guard const lock{lock_};
  auto next = std::make_unique<index>(*indexes_.back());
  for (auto const& name : routes) next->insert_or_assign(name, &to_.routes[label_value(name)]);
  indexes_.push_back(std::move(next));
  current_.store(indexes_.back().get(), std::memory_order_release);
}

series& exporter::of(std::string_view route) const noexcept {
  auto const& known = *current_.load(std::memory_order_acquire);
  auto const found = known.find(route);
  return found == known.end() ? without_route_ : *found->second;
}

void exporter::add(counter c, std::uint64_t n) noexcept {
  (by_route(c) ? without_route_ : to_.whole).counted[at(c)].fetch_add(n, std::memory_order_relaxed);
}

void exporter::add_for_route(counter c, std::uint64_t n, std::string_view route) noexcept {
  (by_route(c) ? of(route) : to_.whole).counted[at(c)].fetch_add(n, std::memory_order_relaxed);
}

void exporter::set(gauge g, std::int64_t value) noexcept {
  auto& cell = gauges_[at(g)];
  cell.value.store(value, std::memory_order_relaxed);
  cell.told.store(true, std::memory_order_release);
}

void exporter::observe(histogram h, double value, std::string_view route) noexcept {
  (histograms[at(h)].by_route ? of(route) : to_.whole).observed[at(h)].observe(value);
}

std::optional<std::int64_t> exporter::value(gauge g) const noexcept {
  auto const& cell = gauges_[at(g)];
  if (!cell.told.load(std::memory_order_acquire)) return std::nullopt;
  return cell.value.load(std::memory_order_relaxed);
}

}  // namespace outbox::inline v0::prometheus

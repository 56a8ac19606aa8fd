#include <outbox/spi/enlisted.hpp>
#include <set>
#include <tuple>
#include <utility>

namespace outbox::inline v0::spi {

void enlisted::enlist(std::shared_ptr<transaction_observer> observer) { writes_.push_back({std::move(observer)}); }

std::size_t enlisted::writes_to(std::size_t table) {
  if (writes_.empty() || writes_.back().table != no_table) writes_.emplace_back();
  for (auto w = writes_.rbegin(); w != writes_.rend() && w->table == no_table; ++w) w->table = table;
  return writes_.size() - 1;
}

void enlisted::doubt_table(std::size_t table) noexcept {
  for (auto& w : writes_) w.doubted = w.doubted || w.table == table;
}

void enlisted::for_each_row(std::function<void(row const&)> const& show) const {
  for (auto const& w : writes_) {
    if (!w.observer || w.doubted) continue;
    for (std::size_t i = 0; i < w.observer->size(); ++i) {
      show({w.table, w.observer->event_id(i), w.observer->token(i)});
    }
  }
}

void enlisted::confirm(std::function<bool(row const&)> const& present) {
  std::set<std::tuple<std::size_t, std::string_view, std::string_view>> counted;
  for (auto w = writes_.rbegin(); w != writes_.rend(); ++w) {
    if (!w->observer || w->doubted) continue;
    for (std::size_t i = 0; i < w->observer->size(); ++i) {
      row const r{w->table, w->observer->event_id(i), w->observer->token(i)};
      // Two rows of one write never have the same id, so a single write needs no set.
      bool const again = writes_.size() > 1 && !counted.emplace(r.table, r.event_id, r.token).second;
      if (again || !present(r)) w->observer->absent(i);
    }
  }
}

template <class Tell>
void enlisted::end(Tell&& tell) noexcept {
  auto const told = std::exchange(writes_, {});
  for (auto const& w : told) {
    if (w.observer) tell(w);
  }
}

void enlisted::committed() noexcept {
  end([](one_write const& w) { w.doubted ? w.observer->committed_in_part() : w.observer->committed(); });
}
void enlisted::committed_in_part() noexcept {
  end([](one_write const& w) { w.observer->committed_in_part(); });
}
void enlisted::rolled_back() noexcept {
  end([](one_write const& w) { w.observer->rolled_back(); });
}
void enlisted::in_doubt() noexcept {
  end([](one_write const& w) { w.observer->in_doubt(); });
}

}  // namespace outbox::inline v0::spi

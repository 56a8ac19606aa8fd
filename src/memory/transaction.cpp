// The transaction on a memory store: its rows, its savepoints and its end.
#include <algorithm>
#include <outbox/error.hpp>
#include <outbox/memory.hpp>
#include <outbox/spi/enlisted.hpp>
#include <set>
#include <utility>

#include "memory/database.hpp"

namespace outbox::inline v0 {
namespace memory {

struct transaction::state {
  struct mark {
    std::string name;
    std::size_t rows;
  };

  database* owner = nullptr;
  bool active = true;
  std::vector<row_view> rows;
  std::vector<mark> marks;
  spi::enlisted writes;

  [[nodiscard]] bool has(std::string_view id) const noexcept {
    return std::ranges::any_of(rows, [&](row_view const& r) { return r.event.id() == id; });
  }

  // Answers what a database would answer to a read of the ids and tokens just before COMMIT.
  void confirm() {
    std::set<std::pair<std::string_view, std::string_view>> present;
    for (auto const& r : rows) present.emplace(r.event.id(), r.locked_by);
    writes.confirm([&](spi::enlisted::row const& r) { return present.contains({r.event_id, r.token}); });
  }

  // Ready before the observers are told: one of them may begin another transaction on the store.
  void end(void (spi::enlisted::*how)() noexcept) noexcept {
    active = false;
    rows.clear();
    (writes.*how)();
  }
};

database& transaction_access::owner(transaction& tx) noexcept { return *tx.state_->owner; }
void transaction_access::enlist(transaction& tx, std::shared_ptr<transaction_observer> observer) {
  tx.state_->writes.enlist(std::move(observer));
}
void transaction_access::wrote(transaction& tx) { tx.state_->writes.writes_to(0); }
void transaction_access::add(transaction& tx, row_view row) { tx.state_->rows.push_back(std::move(row)); }
bool transaction_access::has(transaction const& tx, std::string_view id) noexcept { return tx.state_->has(id); }

std::span<row_view const> transaction_access::rows(transaction const& tx) noexcept { return tx.state_->rows; }

transaction::transaction(store& s) : state_{std::make_unique<state>()} {
  state_->owner = dynamic_cast<database*>(&s);
  if (state_->owner == nullptr) throw error{errc::wrong_transaction, "a memory transaction needs a memory store"};
}

transaction::~transaction() { rollback(); }

bool transaction::active() const noexcept { return state_->active; }

void transaction::savepoint(std::string name) {
  if (!state_->active) throw error{errc::no_transaction, "savepoint() after the end of the transaction"};
  state_->marks.push_back({std::move(name), state_->rows.size()});
}

void transaction::rollback_to(std::string const& name) {
  auto const mark =
      std::find_if(state_->marks.rbegin(), state_->marks.rend(), [&](auto const& m) { return m.name == name; });
  if (!state_->active || mark == state_->marks.rend()) {
    throw error{errc::no_transaction, "there is no savepoint '" + name + "'"};
  }
  state_->rows.erase(state_->rows.begin() + static_cast<std::ptrdiff_t>(mark->rows), state_->rows.end());
  state_->marks.erase(mark.base(), state_->marks.end());
}

void transaction::commit() {
  if (!state_->active) throw error{errc::no_transaction, "commit() after the end of the transaction"};
  auto const fate = state_->owner->next_fate();
  if (fate == commit_fate::refused) {
    state_->end(&spi::enlisted::rolled_back);
    throw error{errc::store_failure, "the commit was refused"};
  }
  state_->confirm();
  try {
    if (fate != commit_fate::lost_undone) state_->owner->apply(state_->rows);
  } catch (...) {
    state_->end(&spi::enlisted::rolled_back);
    throw;
  }
  if (fate != commit_fate::ok) {
    state_->end(&spi::enlisted::in_doubt);
    throw error{errc::commit_in_doubt, "the connection was lost during COMMIT"};
  }
  state_->end(&spi::enlisted::committed);
}

void transaction::rollback() noexcept {
  if (state_->active) state_->end(&spi::enlisted::rolled_back);
}

}  // namespace memory

transaction_ref transaction_traits<memory::transaction>::join(memory::transaction& tx) noexcept {
  static constexpr transaction_operations operations{
      .kind = "memory",
      .active = [](void const* t) noexcept { return static_cast<memory::transaction const*>(t)->active(); },
      .enlist =
          [](void* t, std::shared_ptr<transaction_observer> observer) {
            memory::transaction_access::enlist(*static_cast<memory::transaction*>(t), std::move(observer));
            return true;
          },
      .run = [](void* t, void (*use)(void*, void*), void* what) { use(what, t); }};
  return {&tx, operations};
}

}  // namespace outbox::inline v0

#include <algorithm>
#include <outbox/error.hpp>
#include <outbox/sqlite.hpp>
#include <set>
#include <tuple>
#include <utility>

#include "sqlite/session.hpp"

namespace outbox::inline v0 {
namespace sqlite {

// What one call of `write()` left behind.
struct written {
  static constexpr std::size_t no_table = SIZE_MAX;
  std::shared_ptr<transaction_observer> observer;
  std::size_t table = no_table;  ///< Of `transaction::state::tables`; none until the store says that it writes.
};

struct transaction::state {
  explicit state(sqlite3* db) : own{std::make_unique<sqlite::session>(db, nullptr)}, on{own.get()} {}
  explicit state(sqlite::session& s) : on{&s} {}

  [[nodiscard]] bool in_transaction() const noexcept { return on->statements().in_transaction(); }

  void begin() {
    if (in_transaction())
      throw error{errc::no_transaction, "the connection is in a transaction already: pass its handle to write()"};
    on->statements().execute("BEGIN IMMEDIATE");
  }

  // A savepoint that was rolled back takes rows along, and their rowids are given to others: only id and token tell,
  // each in the table that was written. A read, just before COMMIT, while nobody else can write. Of two writes that
  // cannot be told apart the later one counts: it could not have been made while the earlier one's row was there.
  void confirm() {
    std::set<std::tuple<std::size_t, std::string_view, std::string_view>> counted;
    for (auto w = writes.rbegin(); w != writes.rend(); ++w) {
      auto& o = *w->observer;
      for (std::size_t i = 0; i < o.size(); ++i) {
        bool const again = writes.size() > 1 && !counted.emplace(w->table, o.event_id(i), o.token(i)).second;
        if (again || !present(w->table, o.event_id(i), o.token(i))) o.absent(i);
      }
    }
  }

  bool present(std::size_t table, std::string const& id, std::string const& token) {
    bool found = false;
    if (table == written::no_table) return found;
    on->statements().execute(tables[table], {std::string_view{id}, std::string_view{token}},
                             [&](sql::row const&) { return !(found = true); });
    return found;
  }

  // Whoever is told may begin another transaction on the connection.
  template <class F>
  void end(F&& tell) noexcept {
    over = true;
    if (own) own->statements().forget();  // nothing stays behind on a handle that is not ours
    auto const told = std::exchange(writes, {});
    for (auto const& w : told) tell(*w.observer);
  }
  void end_committed() noexcept {
    end([](transaction_observer& o) { o.committed(); });
  }
  void end_rolled_back() noexcept {
    end([](transaction_observer& o) { o.rolled_back(); });
  }
  void end_in_doubt() noexcept {
    end([](transaction_observer& o) { o.in_doubt(); });
  }

  std::unique_ptr<sqlite::session> own;  ///< For a handle of the application's.
  sqlite::session* on;
  bool over = false;
  std::vector<std::string> tables;  ///< One `exists` statement per table that was written.
  std::vector<written> writes;
};

// The observer of a write is enlisted first; then the store says which table it writes to.
void transaction_access::wrote(transaction& tx, std::string_view exists) {
  auto& s = *tx.state_;
  auto const known = std::ranges::find(s.tables, exists);
  auto const table = static_cast<std::size_t>(known - s.tables.begin());
  if (known == s.tables.end()) s.tables.emplace_back(exists);
  for (auto w = s.writes.rbegin(); w != s.writes.rend() && w->table == written::no_table; ++w) w->table = table;
}

session& transaction_access::session(transaction& tx) noexcept { return *tx.state_->on; }

transaction::transaction(sqlite3* db) : state_{std::make_unique<state>(db)} {
  if (db == nullptr) throw error{errc::no_transaction, "a transaction cannot begin on a null handle"};
  state_->begin();
}
transaction::transaction(connection& db) : state_{std::make_unique<state>(*db.session_)} { state_->begin(); }

transaction::~transaction() { rollback(); }

bool transaction::active() const noexcept { return !state_->over && state_->in_transaction(); }

sqlite3* transaction::handle() const noexcept { return state_->on->raw(); }

void transaction::commit() {
  if (state_->over) throw error{errc::no_transaction, "commit() after the end of the transaction"};
  if (!state_->in_transaction()) {
    state_->end_in_doubt();
    throw error{errc::no_transaction,
                "SQL on the handle has ended the transaction before commit() was called; whether it was committed is "
                "not known here"};
  }
  try {
    state_->confirm();
    state_->on->statements().execute("COMMIT");
  } catch (error const& e) {
    if (state_->in_transaction()) {
      if (!e.transient()) rollback();  // a deferred constraint: it will fail again
      throw;
    }
    int const code = sqlite3_extended_errcode(state_->on->raw()) & 0xFF;
    if (code != SQLITE_IOERR) {
      state_->end_rolled_back();
      throw;
    }
    // The log may or may not have reached the disk.
    state_->end_in_doubt();
    throw error{errc::commit_in_doubt, e.what()};
  }
  state_->end_committed();
}

void transaction::rollback() noexcept {
  if (state_->over) return;
  if (!state_->in_transaction()) return state_->end_in_doubt();
  try {
    state_->on->statements().execute("ROLLBACK");
  } catch (error const&) {  // NOLINT(bugprone-empty-catch): it is rolled back when the handle is closed, at the latest
  }
  state_->end_rolled_back();
}

void transaction_access::enlist(transaction& tx, std::shared_ptr<transaction_observer> observer) {
  tx.state_->writes.push_back({std::move(observer)});
}

}  // namespace sqlite

transaction_ref transaction_traits<sqlite::transaction>::join(sqlite::transaction& tx) noexcept {
  static constexpr transaction_operations operations{
      .kind = "sqlite",
      .active = [](void const* t) noexcept { return static_cast<sqlite::transaction const*>(t)->active(); },
      .enlist =
          [](void* t, std::shared_ptr<transaction_observer> observer) {
            sqlite::transaction_access::enlist(*static_cast<sqlite::transaction*>(t), std::move(observer));
            return true;
          },
      .session = [](void* t) noexcept { return t; }};
  return {&tx, operations};
}

transaction_ref transaction_traits<sqlite3*>::join(sqlite3* db) noexcept {
  static constexpr transaction_operations operations{
      .kind = "sqlite",
      .active =
          [](void const* t) noexcept {
            return t != nullptr && sqlite3_get_autocommit(const_cast<sqlite3*>(static_cast<sqlite3 const*>(t))) == 0;
          },
      .enlist = [](void*, std::shared_ptr<transaction_observer>) { return false; }};
  return {db, operations};
}

}  // namespace outbox::inline v0

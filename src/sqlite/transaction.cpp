// The transaction on SQLite, and how `write()` joins it or a bare handle.
#include <algorithm>
#include <outbox/error.hpp>
#include <outbox/spi/enlisted.hpp>
#include <outbox/sqlite.hpp>
#include <utility>

#include "sqlite/caller_connection.hpp"
#include "sqlite/execute.hpp"

namespace outbox::inline v0 {
namespace sqlite {

// The store sees it as the connection of the caller.
struct transaction::state final : caller_connection {
  state(sqlite::session& s, std::unique_ptr<sqlite::session> borrowed)
      : caller_connection{s.statements()}, own{std::move(borrowed)}, on{&s} {}
  static std::unique_ptr<state> of(sqlite3* db) {
    auto s = std::make_unique<sqlite::session>(db);
    auto& on = *s;
    return std::make_unique<state>(on, std::move(s));
  }

  void begin() {
    if (in_transaction())
      throw error{errc::no_transaction, "the connection is in a transaction already: pass its handle to write()"};
    on->statements().execute("BEGIN IMMEDIATE");
  }

  [[nodiscard]] std::optional<file_identity> file() override { return on->file(); }

  void writes_to(std::string_view exists) override {
    auto const known = std::ranges::find(tables, exists);
    auto const table = static_cast<std::size_t>(known - tables.begin());
    if (known == tables.end()) tables.emplace_back(exists);
    writes.writes_to(table);
  }

  // Rolling back to a savepoint removes rows, and SQLite gives their rowids to other rows: only id and token tell, each
  // in the table that was written. This is a read just before COMMIT, while no other connection can write.
  void confirm() {
    writes.confirm([&](spi::enlisted::row const& r) {
      bool found = false;
      if (r.table == spi::enlisted::no_table) return found;
      on->statements().execute(tables[r.table], {r.event_id, r.token},
                               [&](sql::row const&) { return !(found = true); });
      return found;
    });
  }

  // Ready before the observers are told: one of them may begin another transaction on the connection.
  void end(void (spi::enlisted::*how)() noexcept) noexcept {
    over = true;
    if (own) own->statements().forget();  // nothing stays behind on the application's handle
    (writes.*how)();
  }

  std::unique_ptr<sqlite::session> own;  ///< For a handle of the application.
  sqlite::session* on;
  bool over = false;                ///< The observers were told.
  std::vector<std::string> tables;  ///< One `exists` statement per table that was written.
  spi::enlisted writes;
};

transaction::transaction(sqlite3* db) : state_{state::of(db)} {
  if (db == nullptr) throw error{errc::no_transaction, "a transaction cannot begin on a null handle"};
  state_->begin();
}
transaction::transaction(connection& db) : state_{std::make_unique<state>(*db.session_, nullptr)} { state_->begin(); }

transaction::~transaction() { rollback(); }

bool transaction::active() const noexcept { return !state_->over && state_->in_transaction(); }

sqlite3* transaction::handle() const noexcept { return state_->on->raw(); }

sql::result transaction::run_statement(std::string_view sql, std::span<sql::argument const> args) {
  if (!active()) throw error{errc::no_transaction, "execute() or query() after the end of the transaction"};
  return execute_on(handle(), sql, args);
}

void transaction::commit() {
  if (state_->over) throw error{errc::no_transaction, "commit() after the end of the transaction"};
  if (!state_->in_transaction()) {
    state_->end(&spi::enlisted::in_doubt);
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
      state_->end(&spi::enlisted::rolled_back);
      throw;
    }
    // The log may or may not have reached the disk.
    state_->end(&spi::enlisted::in_doubt);
    throw error{errc::commit_in_doubt, e.what()};
  }
  state_->end(&spi::enlisted::committed);
}

void transaction::rollback() noexcept {
  if (state_->over) return;
  if (!state_->in_transaction()) return state_->end(&spi::enlisted::in_doubt);
  try {
    state_->on->statements().execute("ROLLBACK");
  } catch (error const&) {  // NOLINT(bugprone-empty-catch): SQLite rolls back at the latest when the handle is closed
  }
  state_->end(&spi::enlisted::rolled_back);
}

struct transaction_access {
  static transaction::state& state(void* tx) noexcept { return *static_cast<transaction*>(tx)->state_; }
};

}  // namespace sqlite

transaction_ref transaction_traits<sqlite::transaction>::join(sqlite::transaction& tx) noexcept {
  static constexpr transaction_operations operations{
      .kind = "sqlite",
      .active = [](void const* t) noexcept { return static_cast<sqlite::transaction const*>(t)->active(); },
      .enlist =
          [](void* t, std::shared_ptr<transaction_observer> observer) {
            sqlite::transaction_access::state(t).writes.enlist(std::move(observer));
            return true;
          },
      .run =
          [](void* t, void (*use)(void*, void*), void* what) {
            sql::connection& on = sqlite::transaction_access::state(t);
            use(what, &on);
          }};
  return {&tx, operations};
}

transaction_ref transaction_traits<sqlite3*>::join(sqlite3* db) noexcept {
  static constexpr transaction_operations operations{
      .kind = "sqlite",
      .active =
          [](void const* t) noexcept {
            return t != nullptr && sqlite3_get_autocommit(const_cast<sqlite3*>(static_cast<sqlite3 const*>(t))) == 0;
          },
      .enlist = [](void*, std::shared_ptr<transaction_observer>) { return false; },
      .run =
          [](void* t, void (*use)(void*, void*), void* what) {
            auto const clock = machine_clock();
            sqlite::driver d{static_cast<sqlite3*>(t), *clock,
                             sqlite::prepared::kept};  // its statements end with this call
            sqlite::caller_connection c{d};
            sql::connection& on = c;
            use(what, &on);
          }};
  return {db, operations};
}

}  // namespace outbox::inline v0

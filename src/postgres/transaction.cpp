// The transaction on PostgreSQL, and how `write()` joins it.
#include <outbox/error.hpp>
#include <outbox/postgres.hpp>
#include <utility>

#include "postgres/execute.hpp"
#include "postgres/transaction_state.hpp"

namespace outbox::inline v0 {
namespace postgres {

transaction::transaction(pg_conn* connection, send_mode how) : state_{std::make_unique<state>(connection, how)} {
  state_->begin();
}

transaction::transaction(connection& c, send_mode how) : state_{std::make_unique<state>(*c.session_, how)} {
  state_->begin();
}

transaction::~transaction() { rollback(); }

bool transaction::active() const noexcept { return state_->in_transaction(); }

pg_conn* transaction::handle() const noexcept { return state_->conn; }

void transaction::enqueue_statement(std::string_view sql, std::span<sql::argument const> args) {
  state_->check_open("enqueue()");
  argument_list const list{args};
  state_->enqueue(sql, list.values());
}

sql::result transaction::run_statement(std::string_view sql, std::span<sql::argument const> args) {
  state_->check_open("execute() or query()");
  return state_->execute(sql, args);
}

void transaction::flush() { state_->flush(); }
void transaction::commit() { state_->commit(); }
void transaction::rollback() noexcept { state_->rollback(); }

struct transaction_access {
  static transaction::state& state(void* tx) noexcept { return *static_cast<transaction*>(tx)->state_; }
};

}  // namespace postgres

transaction_ref transaction_traits<postgres::transaction>::join(postgres::transaction& tx) noexcept {
  using postgres::transaction_access;
  static constexpr transaction_operations operations{
      .kind = "postgres",
      .active = [](void const* t) noexcept { return static_cast<postgres::transaction const*>(t)->active(); },
      .enlist =
          [](void* t, std::shared_ptr<transaction_observer> observer) {
            transaction_access::state(t).writes.enlist(std::move(observer));
            return true;
          },
      .run =
          [](void* t, void (*use)(void*, void*), void* what) {
            sql::connection& on = transaction_access::state(t);
            use(what, &on);
          }};
  return {&tx, operations};
}

}  // namespace outbox::inline v0

#pragma once

#include <outbox/postgres.hpp>

#include "contract/backend.hpp"
#include "support/postgres_database.hpp"
#include "support/waiting.hpp"

namespace outbox::contract {

class postgres_backend final : public backend {
 public:
  static constexpr char const* name = "postgres";

  explicit postgres_backend(std::string const& database = "postgres") : db_{database} {}

  spi::store& store() override { return store_->backend(); }
  std::unique_ptr<caller_transaction> begin() override { return std::make_unique<caller>(caller_); }

  // The server's clock is not ours to move: what the rows know is moved the other way.
  void advance(std::chrono::milliseconds by) override {
    auto const t = " - " + std::to_string(by.count()) + " * interval '1 millisecond'";
    db_.execute("UPDATE " + db_.table() + " SET available_at = available_at" + t + ", inserted_at = inserted_at" + t +
                ", locked_at = locked_at" + t + ", lease_until = lease_until" + t + ", done_at = done_at" + t);
    db_.execute("UPDATE " + db_.table("outbox_node") + " SET lease_until = lease_until" + t);
  }
  void wait_for_earlier_transactions() override {
    auto const sql =
        "SELECT count(*) FROM " + db_.table() + " WHERE written_by >= pg_snapshot_xmin(pg_current_snapshot())";
    if (!eventually([&] { return db_.ask(sql) == "0"; })) throw std::runtime_error{"a transaction never ends"};
  }
  bool foreign(std::string const& sql) override { return db_.execute(with_name(sql, db_.table())), true; }
  bool overwrite_pauses(std::string const& text) override {
    db_.execute("INSERT INTO " + db_.table("outbox_meta") + " VALUES ('pauses', '" + text +
                "') ON CONFLICT (name) DO UPDATE SET value = excluded.value");
    return true;
  }
  std::string locked_at(std::string const& id) override {
    return db_.ask("SELECT coalesce(to_char(locked_at, 'YYYY-MM-DD HH24:MI:SS.US'), '') FROM " + db_.table() +
                   " WHERE event_id = '" + id + "'");
  }
  std::unique_ptr<backend> other() override { return std::make_unique<postgres_backend>("outbox_other"); }
  bool refuse_changes_of(std::string const& ids) override {
    auto const function = db_.schema() + ".stuck()";
    db_.execute("CREATE FUNCTION " + function +
                " RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'it is stuck'; END $$");
    return foreign("CREATE TRIGGER stuck BEFORE UPDATE ON {table} FOR EACH ROW WHEN (OLD.event_id LIKE '" + ids +
                   "') EXECUTE FUNCTION " + function);
  }

 private:
  class caller final : public caller_transaction {
   public:
    explicit caller(postgres::connection& db) : db_{db}, tx_{db} {}
    transaction_ref ref() override { return join(tx_); }
    void savepoint(std::string const& name) override { db_.execute("SAVEPOINT " + name); }
    void rollback_to(std::string const& name) override { db_.execute("ROLLBACK TO " + name); }
    void commit() override { tx_.commit(); }
    void rollback() override { tx_.rollback(); }

   private:
    postgres::connection& db_;
    postgres::transaction tx_;
  };

  postgres_database db_;
  std::shared_ptr<outbox::store> store_ = db_.open();
  postgres::connection caller_{db_.connection()};
};

}  // namespace outbox::contract

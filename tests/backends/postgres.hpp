// The PostgreSQL store in tests: a schema of its own on the shared server for each case.
#pragma once

#include <outbox/postgres.hpp>

#include "backends/backend_clock.hpp"
#include "backends/caller.hpp"
#include "support/postgres_database.hpp"
#include "support/waiting.hpp"

namespace outbox {

class postgres_backend : public contract::backend {
 public:
  static constexpr char const* name = "postgres";

  postgres_backend() : postgres_backend{backend_clock::manual} {}
  /// The store reads the server's clock in either case. `advance()` moves the instants in the rows instead.
  explicit postgres_backend(backend_clock /*clock*/, std::string const& database = "postgres",
                            done_rows done = done_rows::keep)
      : db_{database}, done_{done} {}

  spi::store& store() override { return store_->backend(); }
  std::unique_ptr<contract::caller_transaction> begin() override {
    return std::make_unique<caller<postgres_backend, postgres::transaction>>(*this, connection_);
  }
  void advance(std::chrono::milliseconds by) override {
    std::string const t = " - $1::bigint * interval '1 millisecond'";
    db_.execute("UPDATE " + db_.table() + " SET available_at = available_at" + t + ", inserted_at = inserted_at" + t +
                    ", locked_at = locked_at" + t + ", lease_until = lease_until" + t + ", done_at = done_at" + t,
                by.count());
    db_.execute("UPDATE " + db_.table("outbox_node") + " SET lease_until = lease_until" + t, by.count());
  }
  std::unique_ptr<backend> other() override {
    return std::make_unique<postgres_backend>(backend_clock::manual, "outbox_other");
  }
  void wait_for_earlier_transactions() override {
    auto const sql =
        "SELECT count(*) FROM " + db_.table() + " WHERE written_by >= pg_snapshot_xmin(pg_current_snapshot())";
    if (!eventually([&] { return db_.ask(sql) == "0"; })) throw std::runtime_error{"a transaction never ends"};
  }
  bool foreign(std::string const& sql, std::vector<std::string> const& values = {}) override {
    std::vector<sql::argument> const args(values.begin(), values.end());
    connection_.execute(contract::with_name(sql, db_.table()), std::span<sql::argument const>{args});
    return true;
  }
  bool refuse_changes_of(std::string const& ids) override {
    auto const function = db_.schema() + ".stuck()";
    auto const patterns = db_.table("stuck_ids");
    db_.execute("CREATE TABLE " + patterns + " (pattern text)");
    db_.execute("INSERT INTO " + patterns + " VALUES ($1)", ids);
    db_.execute("CREATE FUNCTION " + function +
                " RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF EXISTS (SELECT FROM " + patterns +
                " WHERE OLD.event_id LIKE pattern) THEN RAISE 'it is stuck'; END IF; RETURN NEW; END $$");
    return foreign("CREATE TRIGGER stuck BEFORE UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION " + function);
  }
  bool overwrite_pauses(std::string const& text) override {
    db_.execute("INSERT INTO " + db_.table("outbox_meta") +
                    " VALUES ('pauses', $1) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
                text);
    return true;
  }
  std::string locked_at(std::string const& id) override {
    return db_.ask("SELECT coalesce(to_char(locked_at, 'YYYY-MM-DD HH24:MI:SS.US'), '') FROM " + db_.table() +
                       " WHERE event_id = $1",
                   id);
  }

  [[nodiscard]] std::shared_ptr<outbox::store> const& shared_store() const { return store_; }

  /// Opens another outbox in the same schema.
  [[nodiscard]] std::shared_ptr<outbox::store> open(std::string const& table, bool notify = false) const {
    auto o = db_.options();
    o.table = table;
    o.notify = notify;
    o.done_rows = done_;
    return postgres::open(db_.connection(), o);
  }

  template <class F>
  void transact(bool commit, F&& f) {
    transact_on<postgres::transaction>(connection_, commit, std::forward<F>(f));
  }
  /// By SQL on the handle, as an application does that has no class for transactions.
  template <class F>
  void transact_by_hand(bool commit, F&& f) {
    connection_.execute("BEGIN");
    std::forward<F>(f)(connection_.handle());
    connection_.execute(commit ? "COMMIT" : "ROLLBACK");
  }
  template <class Transaction>
  void savepoint(Transaction& /*tx*/, std::string const& mark) {
    connection_.execute("SAVEPOINT " + mark);
  }
  template <class Transaction>
  void rollback_to(Transaction& /*tx*/, std::string const& mark) {
    connection_.execute("ROLLBACK TO " + mark);
  }

 private:
  postgres_database db_;
  done_rows done_;
  std::shared_ptr<outbox::store> store_ = open("outbox_event");
  postgres::connection connection_{db_.connection()};
};

/// A PostgreSQL store that deletes a row when its event is delivered.
class erasing_postgres_backend final : public postgres_backend {
 public:
  static constexpr char const* name = "postgres_erasing";

  explicit erasing_postgres_backend(backend_clock c = backend_clock::manual)
      : postgres_backend{c, "postgres", done_rows::erase} {}
};

/// A PostgreSQL store that hears of commits in other processes.
class notifying_postgres_backend final : public postgres_backend {
 public:
  static constexpr char const* name = "postgres_notifying";

  spi::store& store() override { return notifying_->backend(); }

 private:
  std::shared_ptr<outbox::store> notifying_ = open("outbox_event", /*notify=*/true);
};

}  // namespace outbox

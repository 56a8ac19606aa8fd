#pragma once

#include <sqlite3.h>

#include <filesystem>
#include <outbox/sqlite.hpp>
#include <outbox/testing.hpp>

#include "contract/backend.hpp"
#include "support/temporary_directory.hpp"

namespace outbox::contract {

class sqlite_backend final : public backend {
 public:
  static constexpr char const* name = "sqlite";

  spi::store& store() override { return store_->backend(); }
  std::unique_ptr<caller_transaction> begin() override { return std::make_unique<caller>(db_); }
  void advance(std::chrono::milliseconds by) override { clock_->advance(by); }
  bool foreign(std::string const& sql) override { return db_.execute(with_name(sql, "outbox_event")), true; }
  bool overwrite_pauses(std::string const& text) override {
    db_.execute("INSERT OR REPLACE INTO outbox_meta VALUES ('pauses', '" + text + "')");
    return true;
  }
  std::string locked_at(std::string const& id) override {
    std::string text;
    auto const sql = "SELECT coalesce(locked_at, '') FROM outbox_event WHERE event_id = '" + id + "'";
    auto const take = [](void* to, int, char** values, char**) {
      *static_cast<std::string*>(to) = values[0];
      return 0;
    };
    sqlite3_exec(db_.handle(), sql.c_str(), take, &text, nullptr);
    return text;
  }
  std::unique_ptr<backend> other() override { return std::make_unique<sqlite_backend>(); }
  bool refuse_changes_of(std::string const& ids) override {
    return foreign("CREATE TRIGGER stuck BEFORE UPDATE ON {table} WHEN OLD.event_id LIKE '" + ids +
                   "' BEGIN SELECT RAISE(ABORT, 'it is stuck'); END");
  }

 private:
  class caller final : public caller_transaction {
   public:
    explicit caller(sqlite::connection& db) : db_{db}, tx_{db} {}
    transaction_ref ref() override { return join(tx_); }
    void savepoint(std::string const& name) override { db_.execute("SAVEPOINT " + name); }
    void rollback_to(std::string const& name) override { db_.execute("ROLLBACK TO " + name); }
    void commit() override { tx_.commit(); }
    void rollback() override { tx_.rollback(); }

   private:
    sqlite::connection& db_;
    sqlite::transaction tx_;
  };

  temporary_directory dir_;
  std::shared_ptr<testing::manual_clock> clock_ = std::make_shared<testing::manual_clock>(
      std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now()));
  std::shared_ptr<outbox::store> store_ = sqlite::open(dir_ / "test.db", {.clock = clock_});
  sqlite::connection db_{dir_ / "test.db"};
};

}  // namespace outbox::contract

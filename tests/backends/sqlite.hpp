// The SQLite store in tests: a file of its own for each case.
#pragma once

#include <filesystem>
#include <outbox/sqlite.hpp>
#include <outbox/testing.hpp>

#include "backends/backend_clock.hpp"
#include "backends/caller.hpp"
#include "support/temporary_directory.hpp"

namespace outbox {

class sqlite_backend : public contract::backend {
 public:
  static constexpr char const* name = "sqlite";

  explicit sqlite_backend(backend_clock c = backend_clock::manual, done_rows done = done_rows::keep)
      : done_{done},
        clock_{c == backend_clock::manual ? std::make_shared<testing::manual_clock>(to_the_microsecond()) : nullptr},
        store_{open("outbox_event")} {}

  spi::store& store() override { return store_->backend(); }
  std::unique_ptr<contract::caller_transaction> begin() override {
    return std::make_unique<caller<sqlite_backend, sqlite::transaction>>(*this, connection_);
  }
  void advance(std::chrono::milliseconds by) override { clock_->advance(by); }
  std::unique_ptr<backend> other() override { return std::make_unique<sqlite_backend>(); }
  bool foreign(std::string const& sql, std::vector<std::string> const& values = {}) override {
    std::vector<sql::argument> const args(values.begin(), values.end());
    connection_.execute(contract::with_name(sql, "outbox_event"), std::span<sql::argument const>{args});
    return true;
  }
  bool refuse_changes_of(std::string const& ids) override {
    connection_.execute("CREATE TABLE stuck_ids (pattern TEXT)");
    connection_.execute("INSERT INTO stuck_ids VALUES (?)", ids);
    return foreign(
        "CREATE TRIGGER stuck BEFORE UPDATE ON {table} BEGIN SELECT RAISE(ABORT, 'it is stuck') FROM stuck_ids WHERE "
        "OLD.event_id LIKE pattern; END");
  }
  bool overwrite_pauses(std::string const& text) override {
    connection_.execute("INSERT OR REPLACE INTO outbox_meta VALUES ('pauses', ?)", text);
    return true;
  }
  std::string locked_at(std::string const& id) override {
    return connection_.query_one<std::string>("SELECT coalesce(locked_at, '') FROM outbox_event WHERE event_id = ?",
                                              id);
  }

  [[nodiscard]] std::shared_ptr<outbox::store> const& shared_store() const { return store_; }

  /// Opens another outbox in the same file.
  [[nodiscard]] std::shared_ptr<outbox::store> open(std::string const& table) const {
    return sqlite::open(
        path_, {.table = table, .busy_timeout = std::chrono::seconds{20}, .clock = clock_, .done_rows = done_});
  }

  template <class F>
  void transact(bool commit, F&& f) {
    transact_on<sqlite::transaction>(connection_, commit, std::forward<F>(f));
  }
  void savepoint(sqlite::transaction& /*tx*/, std::string const& mark) { connection_.execute("SAVEPOINT " + mark); }
  void rollback_to(sqlite::transaction& /*tx*/, std::string const& mark) { connection_.execute("ROLLBACK TO " + mark); }

 private:
  static instant to_the_microsecond() {
    return std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now());
  }

  temporary_directory dir_;
  std::string path_ = dir_ / "test.db";
  done_rows done_;
  std::shared_ptr<testing::manual_clock> clock_;
  std::shared_ptr<outbox::store> store_;
  sqlite::connection connection_{path_, std::chrono::seconds{20}};
};

/// A SQLite store that deletes a row when its event is delivered.
class erasing_sqlite_backend final : public sqlite_backend {
 public:
  static constexpr char const* name = "sqlite_erasing";

  explicit erasing_sqlite_backend(backend_clock c = backend_clock::manual) : sqlite_backend{c, done_rows::erase} {}
};

}  // namespace outbox

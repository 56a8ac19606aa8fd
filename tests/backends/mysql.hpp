// The MariaDB and MySQL store in tests: a database of its own on the shared server for each case.
#pragma once

#include <charconv>
#include <outbox/mysql.hpp>

#include "backends/backend_clock.hpp"
#include "backends/caller.hpp"
#include "support/mysql_database.hpp"

namespace outbox {

class mysql_backend : public contract::backend {
 public:
  static constexpr char const* name = "mysql";

  mysql_backend() : mysql_backend{backend_clock::manual} {}
  /// The store reads the server's clock in either case. `advance()` moves the instants in the rows instead.
  explicit mysql_backend(backend_clock /*clock*/, mysql_server& server = mysql_server::shared(),
                         done_rows done = done_rows::keep, mysql::flavour statements = mysql::flavour::detect)
      : db_{server}, done_{done}, statements_{statements} {
    // An UPDATE of all rows then passes over those that other transactions have inserted and not yet committed.
    db_.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED");
  }

  spi::store& store() override { return store_->backend(); }
  std::unique_ptr<contract::caller_transaction> begin() override {
    return std::make_unique<caller<mysql_backend, mysql::transaction>>(*this, connection_);
  }
  void advance(std::chrono::milliseconds by) override {
    auto const us = std::chrono::microseconds{by}.count();
    std::string const t = " - INTERVAL ? MICROSECOND";
    db_.execute("UPDATE " + db_.table() + " SET available_at = available_at" + t + ", inserted_at = inserted_at" + t +
                    ", locked_at = locked_at" + t + ", lease_until = lease_until" + t + ", done_at = done_at" + t,
                us, us, us, us, us);
    db_.execute("UPDATE " + db_.table("outbox_node") + " SET lease_until = lease_until" + t, us);
  }
  /// On another server: a transaction reaches every database of its own.
  std::unique_ptr<backend> other() override {
    static mysql_server another;
    return std::make_unique<mysql_backend>(backend_clock::manual, another);
  }
  bool foreign(std::string const& sql, std::vector<std::string> const& values = {}) override {
    std::vector<sql::argument> args;
    auto const text = with_question_marks(contract::with_name(sql, db_.table()), values, args);
    connection_.execute(text, std::span<sql::argument const>{args});
    return true;
  }
  bool refuse_changes_of(std::string const& ids) override {
    auto const patterns = db_.table("stuck_ids");
    db_.execute("CREATE TABLE " + patterns + " (pattern varchar(64) CHARACTER SET utf8mb4)");
    db_.execute("INSERT INTO " + patterns + " VALUES (?)", ids);
    return foreign("CREATE TRIGGER stuck BEFORE UPDATE ON {table} FOR EACH ROW IF EXISTS (SELECT 1 FROM " + patterns +
                   " WHERE OLD.event_id LIKE pattern COLLATE utf8mb4_bin) THEN SIGNAL SQLSTATE '45000' SET "
                   "MESSAGE_TEXT = 'it is stuck'; END IF");
  }
  bool overwrite_pauses(std::string const& text) override {
    db_.execute("INSERT INTO " + db_.table("outbox_meta") +
                    " VALUES ('pauses', ?) ON DUPLICATE KEY UPDATE value = VALUES(value)",
                text);
    return true;
  }
  std::string locked_at(std::string const& id) override {
    return db_.ask("SELECT cast(locked_at AS char) FROM " + db_.table() + " WHERE event_id = ?", id);
  }

  [[nodiscard]] std::shared_ptr<outbox::store> const& shared_store() const { return store_; }

  /// Opens another outbox in the same database.
  [[nodiscard]] std::shared_ptr<outbox::store> open(std::string const& table) const {
    auto o = db_.options();
    o.table = table;
    o.done_rows = done_;
    o.flavour = statements_;
    return mysql::open(db_.url(), o);
  }

  template <class F>
  void transact(bool commit, F&& f) {
    transact_on<mysql::transaction>(connection_, commit, std::forward<F>(f));
  }
  /// By SQL on the handle, as an application does that has no class for transactions.
  template <class F>
  void transact_by_hand(bool commit, F&& f) {
    connection_.execute("START TRANSACTION");
    std::forward<F>(f)(connection_.handle());
    connection_.execute(commit ? "COMMIT" : "ROLLBACK");
  }
  template <class Transaction>
  void savepoint(Transaction& /*tx*/, std::string const& mark) {
    connection_.execute("SAVEPOINT " + mark);
  }
  template <class Transaction>
  void rollback_to(Transaction& /*tx*/, std::string const& mark) {
    connection_.execute("ROLLBACK TO SAVEPOINT " + mark);
  }

 private:
  // Replaces $1, $2, … by `?`, which has no number: a value that is used twice is sent twice.
  static std::string with_question_marks(std::string const& sql, std::vector<std::string> const& values,
                                         std::vector<sql::argument>& args) {
    std::string text;
    auto const* const end = sql.data() + sql.size();
    for (auto const* at = sql.data(); at != end;) {
      std::size_t number = 0;
      auto const [behind, code] = std::from_chars(*at == '$' ? at + 1 : end, end, number);
      if (code == std::errc{}) {
        text += '?';
        args.emplace_back(values.at(number - 1));
        at = behind;
      } else {
        text += *at++;
      }
    }
    return text;
  }

  mysql_database db_;
  done_rows done_;
  mysql::flavour statements_;
  std::shared_ptr<outbox::store> store_ = open("outbox_event");
  mysql::connection connection_{db_.url()};
};

/// A MariaDB store that deletes a row when its event is delivered.
class erasing_mysql_backend final : public mysql_backend {
 public:
  static constexpr char const* name = "mysql_erasing";

  explicit erasing_mysql_backend(backend_clock c = backend_clock::manual)
      : mysql_backend{c, mysql_server::shared(), done_rows::erase} {}
};

/// The store with the statements that it sends to MySQL, on whichever server there is: MariaDB understands them too.
class mysql_statements_backend final : public mysql_backend {
 public:
  static constexpr char const* name = "mysql_statements";

  mysql_statements_backend()
      : mysql_backend{backend_clock::manual, mysql_server::shared(), done_rows::keep, mysql::flavour::mysql} {}
};

}  // namespace outbox

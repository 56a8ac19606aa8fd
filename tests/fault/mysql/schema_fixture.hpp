// The fixture of the tests that make and change tables on MariaDB.
#pragma once

#include <outbox/open_store.hpp>

#include "server_fixture.hpp"

namespace outbox {

template <class F>
std::string refusal(F&& f, errc code, std::string_view field = {}) {
  try {
    f();
  } catch (error const& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    EXPECT_EQ(e.field(), field) << e.what();
    return e.what();
  }
  ADD_FAILURE() << "accepted";
  return {};
}

// An account that has only these rights, as in "SELECT ON a.b"; gone when the test is.
class limited_account {
 public:
  limited_account(mysql_database& db, std::string const& suffix, std::vector<std::string> const& rights)
      : db_{db}, name_{db.database() + suffix} {
    db_.execute("CREATE USER " + quoted());
    for (auto const& r : rights) grant(r);
  }
  limited_account(limited_account const&) = delete;
  limited_account& operator=(limited_account const&) = delete;
  ~limited_account() {
    try {
      db_.execute("DROP USER IF EXISTS " + quoted());
    } catch (error const&) {  // NOLINT(bugprone-empty-catch): the server may be gone on purpose
    }
  }

  void grant(std::string const& right) { db_.execute("GRANT " + right + " TO " + quoted()); }
  [[nodiscard]] std::string url() const { return with_account(db_.url(), name_); }

 private:
  [[nodiscard]] std::string quoted() const { return "'" + name_ + "'@'%'"; }

  mysql_database& db_;
  std::string name_;
};

class MysqlSchema : public ::testing::Test {
 protected:
  // As the specification has it, except for the types that are given.
  struct plain_ddl {
    std::string id = "VARCHAR(36) PRIMARY KEY";
    std::string text_options{};  ///< Behind each text, as in "CHARACTER SET latin1".
    std::string json = "JSON";
    std::string time = "DATETIME(6)";
    std::string more{};  ///< Other columns, as in ", a int".
    std::string table_options{};
  };

  migration migrate(mysql::options const& o) { return mysql::migrate(db.url(), o); }
  migration migrate() { return migrate(db.options()); }

  void make_plain_table(plain_ddl const& d, std::string const& name = "outbox_event") {
    auto const text = " " + d.text_options;
    db.execute("CREATE TABLE " + db.table(name) + " (event_id " + d.id + ", event_type VARCHAR(128)" + text +
               " NOT NULL, aggregate_type VARCHAR(64)" + text + ", aggregate_id VARCHAR(128)" + text +
               ", tenant_id VARCHAR(64)" + text + ", payload " + d.json + " NOT NULL, headers " + d.json +
               ", status TINYINT NOT NULL, attempts INT NOT NULL DEFAULT 0, available_at " + d.time +
               " NOT NULL, created_at " + d.time + " NOT NULL, done_at " + d.time + " NULL, last_error TEXT" + text +
               ", locked_by VARCHAR(128)" + text + ", locked_at " + d.time + " NULL" + d.more + ") " + d.table_options);
    db.execute("CREATE INDEX idx_status_available ON " + db.table(name) + "(status, available_at, created_at)");
  }

  // In every status; the first two of the same instant, which their ids order.
  void fill_plain_table(std::string const& name = "outbox_event") {
    db.execute("SET time_zone = '+00:00'");
    db.execute("INSERT INTO " + db.table(name) +
               " (event_id, event_type, aggregate_type, aggregate_id, tenant_id, payload, headers, status, attempts, "
               "available_at, created_at, done_at, last_error, locked_by, locked_at) VALUES "
               "('new', 't', 'order', '7', 'ten', '{\"b\": 1,   \"a\":2, \"b\": 1.0e0}', '{\"k\":\"v\"}', 0, 0, "
               "'2024-01-02', '2024-01-02 00:00:00.000001', NULL, NULL, 'somebody', NULL), "
               "('early', 't', NULL, NULL, NULL, '1', NULL, 0, 0, '2024-01-02', '2024-01-02 00:00:00.000001', NULL, "
               "NULL, NULL, NULL), "
               "('old', 't', '', NULL, NULL, '1', 'null', 2, 3, '2024-01-01', '2024-01-01', NULL, 'why', NULL, NULL), "
               "('done', 't', NULL, NULL, NULL, '1', NULL, 1, 0, '2024-01-03', '2024-01-03', NULL, NULL, 'x', "
               "'2024-01-03'), "
               "('ended', 't', NULL, NULL, NULL, '1', NULL, 1, 0, '2024-01-04', '2024-01-04', '2024-02-04 10:00:00.5', "
               "NULL, NULL, NULL), "
               "('dead', 't', NULL, NULL, NULL, '1', '{}', 3, 10, '2024-01-05', '2024-01-05', NULL, 'bad', NULL, "
               "NULL)");
  }

  // The rows as an ordinary program sees them, in the order of their ids.
  std::vector<std::string> plain_rows(std::string const& name = "outbox_event") {
    return db.lines(
        "SELECT concat_ws('|', event_id, event_type, coalesce(aggregate_type, '-'), coalesce(aggregate_id, '-'), "
        "coalesce(tenant_id, '-'), payload, coalesce(headers, '-'), status, attempts, available_at, created_at, "
        "coalesce(last_error, '-')) FROM " +
        db.table(name) + " ORDER BY cast(event_id AS binary)");
  }
  std::vector<std::string> ids_by_seq(std::string const& name = "outbox_event") {
    return db.lines("SELECT event_id FROM " + db.table(name) + " ORDER BY seq");
  }

  std::vector<std::string> deliver_all(std::shared_ptr<outbox::store> const& s, log_function log = nullptr) {
    std::vector<std::string> ids;
    multi_node_options o{.store = s, .log = std::move(log)};
    o.workers = 1;
    o.listeners.on("t", [&](delivery const& d) { ids.push_back(d.id + " " + d.event.payload()); });
    multi_node(std::move(o)).run_until_idle();
    return ids;
  }
  void write_one(std::shared_ptr<outbox::store> const& s, std::string const& id, event_options o = {}) {
    auto n = writer_only({.store = s, .log = nullptr});
    o.id = id;
    mysql::connection c{db.url()};
    mysql::transaction tx{c};
    n.writer().write(tx, "t", "1", std::move(o));
    tx.commit();
  }

  // Empty if there is no such column.
  std::string column(std::string const& name, std::string const& what = "data_type",
                     std::string const& table = "outbox_event") {
    return db.ask("SELECT max(" + what +
                      ") FROM information_schema.columns WHERE table_schema = ? AND table_name = ? AND column_name = ?",
                  db.database(), table, name);
  }
  // "a, b, c", sorted.
  std::string tables() {
    return db.ask(
        "SELECT group_concat(table_name ORDER BY table_name SEPARATOR ', ') FROM information_schema.tables "
        "WHERE table_schema = ?",
        db.database());
  }
  std::string indexes(std::string const& table = "outbox_event") {
    return db.ask(
        "SELECT group_concat(DISTINCT index_name ORDER BY cast(index_name AS binary) SEPARATOR ', ') FROM "
        "information_schema.statistics WHERE table_schema = ? AND table_name = ?",
        db.database(), table);
  }

  mysql_database db;
};

}  // namespace outbox

// The fixture of the tests that make and change tables on PostgreSQL.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <fstream>
#include <outbox/open_store.hpp>
#include <outbox/outbox.hpp>
#include <outbox/postgres.hpp>
#include <outbox/spi/store.hpp>
#include <thread>

#include "support/postgres_database.hpp"
#include "support/temporary_directory.hpp"
#include "support/waiting.hpp"

namespace outbox {

using namespace spi;

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

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

class PostgresSchema : public ::testing::Test {
 protected:
  migration migrate(postgres::options o) { return postgres::migrate(db.connection(), o); }
  migration migrate() { return migrate(db.options()); }

  // As the specification has it, in PostgreSQL's types.
  void make_plain_table(std::string const& json, std::string const& time) {
    db.execute("CREATE TABLE " + db.table() +
               " (event_id VARCHAR(36) PRIMARY KEY, event_type VARCHAR(128) NOT NULL, aggregate_type VARCHAR(64), "
               "aggregate_id VARCHAR(128), tenant_id VARCHAR(64), payload " +
               json + " NOT NULL, headers " + json +
               ", status SMALLINT NOT NULL, attempts INT NOT NULL DEFAULT 0, available_at " + time +
               " NOT NULL, created_at " + time + " NOT NULL, done_at " + time +
               ", last_error TEXT, locked_by VARCHAR(128), locked_at " + time + ")");
    db.execute("CREATE INDEX ON " + db.table() + " (status, available_at, created_at)");
    db.execute("SET timezone = 'UTC'");
    db.execute("INSERT INTO " + db.table() +
               " (event_id, event_type, payload, headers, status, available_at, created_at, locked_by, done_at) VALUES "
               "('new', 't', '{\"b\": 1, \"a\":2}', '{\"k\":\"v\"}', 0, '2024-01-02 00:00:00', '2024-01-02 00:00:00', "
               "'somebody', NULL), "
               "('old', 't', '1', NULL, 2, '2024-01-01 00:00:00', '2024-01-01 00:00:00', NULL, NULL), "
               "('done', 't', '1', NULL, 1, '2024-01-03 00:00:00', '2024-01-03 00:00:00', NULL, NULL)");
  }

  std::vector<std::string> deliver_all(std::shared_ptr<outbox::store> const& s, log_function log = nullptr) {
    std::vector<std::string> ids;
    multi_node_options o{.store = s, .log = std::move(log)};
    o.workers = 1;
    o.listeners.on("t", [&](delivery const& d) { ids.push_back(d.id + " " + d.event.payload()); });
    multi_node(std::move(o)).run_until_idle();
    return ids;
  }

  std::string column_type(std::string const& name) {
    return db.ask(
        "SELECT data_type FROM information_schema.columns WHERE table_schema = $1 AND table_name = "
        "'outbox_event' AND column_name = $2",
        db.schema(), name);
  }

  std::string storage_of_table() {
    return db.ask("SELECT array_to_string(reloptions, ' ') FROM pg_class WHERE oid = '" + db.table() + "'::regclass");
  }

  // Runs psql as an operator does; its output.
  std::string psql(std::string const& sql) {
    temporary_directory const dir;
    std::ofstream{dir / "in.sql"} << sql;
    auto const command = postgres_programs() + "/psql -X -A -t -v ON_ERROR_STOP=1 -d '" + db.connection() + "' -f " +
                         (dir / "in.sql") + " 2>&1";
    std::string out;
    auto* const pipe = ::popen(command.c_str(), "r");
    char line[512];
    while (std::fgets(line, sizeof line, pipe) != nullptr) out += line;
    EXPECT_EQ(::pclose(pipe), 0) << out;
    return out;
  }

  postgres_database db;
};

}  // namespace outbox

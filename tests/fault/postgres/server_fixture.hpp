// The fixture of the tests that do things to a PostgreSQL server.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <libpq-fe.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <outbox/outbox.hpp>
#include <outbox/postgres.hpp>
#include <outbox/spi/store.hpp>
#include <outbox/testing.hpp>
#include <thread>

#include "support/change_counter.hpp"
#include "support/free_port.hpp"
#include "support/pgbouncer.hpp"
#include "support/postgres_database.hpp"
#include "support/refusing_server.hpp"
#include "support/tcp_proxy.hpp"
#include "support/temporary_directory.hpp"
#include "support/waiting.hpp"

namespace outbox {

using namespace spi;

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

template <class F>
error thrown_by(F&& f) {
  try {
    f();
  } catch (error const& e) {
    return e;
  }
  throw std::runtime_error{"nothing was thrown"};
}

class PostgresServer : public ::testing::Test {
 protected:
  multi_node_options options(std::shared_ptr<outbox::store> s) {
    multi_node_options o{.store = std::move(s), .log = nullptr};
    o.poll.every = 20ms;
    o.listeners.on("t", [this](delivery const& d) { seen.add(d.id); });
    return o;
  }
  void write(node& n, std::string const& id, event_options o = {}) {
    o.id = id;
    postgres::transaction tx{caller};
    n.writer().write(tx, "t", "1", std::move(o));
    tx.commit();
  }
  bool settled() {
    return eventually([&] { return db.ask("SELECT count(*) FROM " + db.table() + " WHERE status IN (0, 2)") == "0"; });
  }
  // Others use the same server, and what they have begun may hold up a claim in order.
  bool earlier_transactions_end() {
    return eventually([&] {
      return db.ask("SELECT count(*) FROM " + db.table() +
                    " WHERE written_by >= pg_snapshot_xmin(pg_current_snapshot())") == "0";
    });
  }
  // The number of sessions of the store, without those of this test.
  std::string sessions(std::string const& name) {
    return db.ask("SELECT count(*) FROM pg_stat_activity WHERE application_name = $1", name);
  }
  void end_sessions(std::string const& name) {
    db.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1", name);
  }

  postgres_database db;
  postgres::connection caller{db.connection()};
  tally seen;
};

}  // namespace outbox

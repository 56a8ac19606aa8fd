// The fixture of the acceptance tests: whole nodes on each store, as an application has them.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <outbox/outbox.hpp>
#include <string>

#include "backends/all.hpp"
#include "support/waiting.hpp"

namespace outbox::acceptance {

using namespace std::chrono_literals;

template <class Database>
class Acceptance : public ::testing::Test {
 protected:
  single_node_options options() {
    single_node_options o{.store = db.shared_store(), .log = nullptr};
    o.poll.every = 20ms;
    o.retry.backoff = {.base = 1ms, .cap = 2ms};
    return o;
  }
  void start(node& n) {
    n.start();
    ASSERT_TRUE(eventually([&] { return n.health().active; }));
  }
  void write(node& n, std::string const& id, event_options o = {}, bool commit = true) {
    o.id = id;
    db.transact(commit, [&](auto& tx) { n.writer().write(tx, "t", "1", std::move(o)); });
  }
  template <class Tx>
  void savepoint(Tx& tx) {
    db.savepoint(tx, "s");
  }
  template <class Tx>
  void rollback_to_savepoint(Tx& tx) {
    db.rollback_to(tx, "s");
  }
  row_view row(std::string const& id) { return db.shared_store()->inspect().find(id).value(); }
  bool settled() {
    return eventually([&] { return db.shared_store()->inspect().counts().pending() == 0; });
  }

  Database db{backend_clock::machine};
  tally seen;
};

using Databases = ::testing::Types<OUTBOX_KEEPING_BACKENDS>;

struct database_name {
  template <class Database>
  static std::string GetName(int /*index*/) {
    return Database::name;
  }
};

}  // namespace outbox::acceptance

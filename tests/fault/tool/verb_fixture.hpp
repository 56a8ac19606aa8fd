// A table with events in every state, and the tool that looks at it.
#pragma once

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fault/tool/run_tool.hpp"
#include "fault/tool/tool_databases.hpp"
#include "support/waiting.hpp"

namespace outbox {

using namespace std::chrono_literals;

template <class Database>
class verb_fixture : public ::testing::Test {
 protected:
  /// Runs a verb on the database.
  tool_result run(std::string const& verb, std::vector<std::string> more = {}) {
    more.insert(more.begin(), {verb, "--db", db.url()});
    return run_tool(std::move(more));
  }
  nlohmann::json json(std::string const& verb, std::vector<std::string> more = {}, int status = 0) {
    more.emplace_back("--json");
    auto const r = run(verb, std::move(more));
    EXPECT_EQ(r.status, status) << r.out << r.err;
    auto const parsed = nlohmann::json::parse(r.out, nullptr, false);
    EXPECT_FALSE(parsed.is_discarded()) << r.out << r.err;
    return parsed;
  }

  /// The store of the test itself; creates the table.
  spi::store& store() {
    if (!store_) store_ = open_store(db.url(), {.log = nullptr});
    return store_->backend();
  }
  void put(std::string const& id, std::string const& type, event_options o = {}) {
    static_cast<void>(store());
    o.id = id;
    auto box = writer_only({.store = store_, .log = nullptr});
    db.transact([&](auto& tx) { box.writer().write(tx, type, R"({"n":1})", std::move(o)); });
  }
  void settle(std::string const& id, spi::outcome what, std::string const& error = {}) {
    static int claims = 0;
    auto const reply = store().claim({.token = "t/" + std::to_string(++claims), .limit = 100, .lease = 30s});
    for (auto const& r : reply.rows) {
      bool const it = r.handle.id == id;
      spi::settlement const s{.row = r.handle,
                              .outcome = it ? what : spi::outcome::release,
                              .counted = it && what != spi::outcome::delivered ? 1 : 0,
                              .delay = it ? std::chrono::milliseconds{1h} : 0ms,
                              .error = it ? error : ""};
      EXPECT_TRUE(store().settle(std::span{&s, 1}).applied.at(0));
    }
  }

  /// One event in each state: NEW, RETRY, DONE, DEAD.
  void put_one_of_each() {
    for (auto const* const id : {"new", "retry", "done", "dead"}) {
      put(id, std::string{"order."} + id, {.aggregate = {"order", id}, .tenant = "t1"});
    }
    settle("retry", spi::outcome::retry, "HTTP 503");
    settle("done", spi::outcome::delivered);
    settle("dead", spi::outcome::dead, "refused: 422");
  }
  event_status status_of(std::string const& id) { return store_->inspect().find(id).value().status; }
  static std::vector<std::string> ids(nlohmann::json const& rows) {
    std::vector<std::string> all;
    for (auto const& r : rows) all.push_back(r.at("id"));
    return all;
  }

  Database db;
  std::shared_ptr<outbox::store> store_;
};

}  // namespace outbox

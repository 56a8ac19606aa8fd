// Handles that the application opens for the store: options::connect.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <atomic>
#include <filesystem>
#include <outbox/outbox.hpp>
#include <outbox/spi/store.hpp>
#include <outbox/sqlite.hpp>
#include <span>

#include "support/change_counter.hpp"
#include "support/temporary_directory.hpp"
#include "support/waiting.hpp"

namespace outbox {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

// The number of handles that are open: a function of the handle is destroyed with it.
class handle_count {
 public:
  sqlite3* open(std::string const& path) {
    sqlite3* db = nullptr;
    sqlite3_open(path.c_str(), &db);
    ++open_;
    auto const nothing = [](sqlite3_context*, int, sqlite3_value**) {};
    auto const closed = [](void* self) { --static_cast<handle_count*>(self)->open_; };
    sqlite3_create_function_v2(db, "counted", 0, SQLITE_UTF8, this, nothing, nullptr, nullptr, closed);
    return db;
  }
  [[nodiscard]] int open_now() const noexcept { return open_; }

 private:
  std::atomic<int> open_ = 0;
};

class SqliteConnect : public ::testing::Test {
 protected:
  error thrown_by_open(std::function<sqlite3*()> connect) {
    try {
      static_cast<void>(sqlite::open("", {.connect = std::move(connect)}));
    } catch (error const& e) {
      return e;
    }
    throw std::runtime_error{"nothing was thrown"};
  }

  temporary_directory dir;
  std::string path = dir / "outbox.db";
  handle_count handles;
};

TEST_F(SqliteConnect, EveryHandleComesFromItAndIsClosed) {
  {
    auto const s = sqlite::open("", {.connect = [&] { return handles.open(path); }});
    EXPECT_EQ(handles.open_now(), 2) << "one that writes, one that reads";
    EXPECT_THAT(std::string{s->capabilities().table}, HasSubstr(path))
        << "the file is named although no path was given";
    change_counter heard{*s};
    tally seen;
    single_node_options o{.store = s, .log = nullptr};
    o.listeners.on("t", [&](delivery const& d) { seen.add(d.id); });
    auto n = single_node(std::move(o));
    n.start();
    ASSERT_TRUE(eventually([&] { return n.health().active; }));
    EXPECT_TRUE(std::filesystem::exists(path + "-outbox_event.lock")) << "the lock file is beside the database";
    sqlite::connection c{path};
    sqlite::transaction tx{c};
    n.writer().write(tx, "t", "1", {.id = "a"});
    tx.commit();
    EXPECT_TRUE(seen.reach(1));
    EXPECT_TRUE(eventually([&] { return heard.count() > 0; }));
  }
  EXPECT_EQ(handles.open_now(), 0);
}

TEST_F(SqliteConnect, WhatItFailsWithIsThrownByOpen) {
  auto const none = thrown_by_open([]() -> sqlite3* { return nullptr; });
  EXPECT_EQ(none.code(), errc::unavailable);
  EXPECT_EQ(none.field(), "connect");
  auto const threw = thrown_by_open([]() -> sqlite3* { throw std::runtime_error{"no key today"}; });
  EXPECT_EQ(threw.code(), errc::unavailable);
  EXPECT_THAT(threw.what(), HasSubstr("no key today"));
  auto const typed = thrown_by_open([]() -> sqlite3* { throw error{errc::store_failure, "not for you"}; });
  EXPECT_STREQ(typed.what(), "not for you");
  auto const failed = thrown_by_open([&] { return handles.open(dir / "missing/outbox.db"); });
  EXPECT_THAT(failed.what(), HasSubstr("unable to open"));
  auto const busy = thrown_by_open([&] {
    auto* const db = handles.open(path);
    sqlite3_exec(db, "BEGIN", nullptr, nullptr, nullptr);
    return db;
  });
  EXPECT_EQ(busy.code(), errc::store_failure);
  EXPECT_THAT(busy.what(), HasSubstr("transaction"));
  auto const memory = thrown_by_open([&] { return handles.open(":memory:"); });
  EXPECT_EQ(memory.code(), errc::invalid_option);
}

TEST_F(SqliteConnect, AHandleToAnotherFileIsRefused) {
  int calls = 0;
  auto const e = thrown_by_open([&] { return handles.open(++calls == 3 ? dir / "other.db" : path); });
  EXPECT_EQ(e.code(), errc::store_failure);
  EXPECT_THAT(e.what(), HasSubstr("another file"));
  EXPECT_EQ(handles.open_now(), 0);
}

// The handles that the store keeps: the one that migrates is closed by then.
TEST_F(SqliteConnect, TheStoresConnectionsHaveTheChosenSynchronous) {
  auto const synchronous_of = [&](sqlite::options o) {
    std::vector<sqlite3*> opened;
    o.connect = [&] { return opened.emplace_back(handles.open(path)); };
    auto const s = sqlite::open("", std::move(o));
    std::vector<std::string> values;
    for (auto* const db : std::span{opened}.last(2)) {
      sqlite3_exec(
          db, "PRAGMA synchronous",
          [](void* v, int, char** text, char**) {
            static_cast<std::vector<std::string>*>(v)->emplace_back(text[0]);
            return 0;
          },
          &values, nullptr);
    }
    return values;
  };
  EXPECT_THAT(synchronous_of({}), ::testing::ElementsAre("2", "2"));
  EXPECT_THAT(synchronous_of({.synchronous = sqlite::synchronous::normal}), ::testing::ElementsAre("1", "1"));
}

TEST_F(SqliteConnect, MigrateUsesItToo) {
  EXPECT_EQ(sqlite::migrate("", {.connect = [&] { return handles.open(path); }}).change, migration::kind::created);
  EXPECT_EQ(handles.open_now(), 0);
  static_cast<void>(sqlite::open(path, {.migrate = false}));
}

}  // namespace
}  // namespace outbox

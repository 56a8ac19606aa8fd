// The fixture of the contract suite: short functions for what nodes do with a store.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <initializer_list>
#include <memory>
#include <outbox/error.hpp>
#include <outbox/event.hpp>
#include <outbox/spi/store.hpp>
#include <outbox/store.hpp>
#include <outbox/testing/contract/backend.hpp>
#include <span>
#include <string>
#include <vector>

#ifndef OUTBOX_CONTRACT_BACKENDS
#error "define OUTBOX_CONTRACT_BACKENDS as the backend class of your store before you include the contract suite"
#endif

namespace outbox::contract {

using namespace spi;
using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

inline constexpr auto lease = 30s;

// Why a case is skipped.
inline constexpr char const* no_savepoints = "this store has no savepoints";
inline constexpr char const* no_other_database = "there is only one database of this kind";
inline constexpr char const* keeps_no_done_rows = "this store deletes the rows of delivered events";
inline constexpr char const* no_foreign_sql = "no other program can write to this store by SQL";
inline constexpr char const* no_triggers = "this store has no triggers";
inline constexpr char const* no_text_of_pauses = "this store does not keep its pauses as text";
inline constexpr char const* no_pauses = "this store cannot pause routes";
inline constexpr char const* no_locked_at = "no other program can see the locks of this store";

inline event json_event(std::string id, event_options options = {}) {
  options.id = std::move(id);
  return event::json("order.placed", R"({"n":1})", std::move(options));
}

class StoreContract : public ::testing::Test {
 public:
  /// Called once, before the case runs.
  void use(std::unique_ptr<contract::backend> b) { backend_ = std::move(b); }

 protected:
  contract::backend& backend() { return *backend_; }
  spi::store& s() { return backend_->store(); }
  void advance(std::chrono::milliseconds by) { backend_->advance(by); }

  // Commits a row without an owner.
  void put(event const& e) { put_owned(e, ""); }
  void put(std::initializer_list<char const*> ids) {
    for (auto const* id : ids) {
      put(json_event(id));
      advance(1ms);
    }
  }
  void put_owned(event const& e, std::string_view token) {
    auto tx = backend_->begin();
    insertion const row{&e, token, token.empty() ? 0ms : std::chrono::milliseconds{lease}};
    s().insert(tx->ref(), std::span{&row, 1});
    tx->commit();
  }

  claim_request request(std::string token) { return {.token = std::move(token), .limit = 100, .lease = lease}; }
  std::size_t release(owner_token const& token) { return s().release(std::span{&token, 1}, lease); }
  claim_reply claim(std::string token) { return s().claim(request(std::move(token))); }

  // Claims exactly one row.
  row_handle claim_one(std::string token) {
    auto r = request(std::move(token));
    r.limit = 1;
    auto const reply = s().claim(r);
    EXPECT_THAT(reply.rows, SizeIs(1));
    return reply.rows.empty() ? row_handle{} : reply.rows.front().handle;
  }

  bool settle(row_handle const& row, outcome what, settlement extra = {}) {
    extra.row = row;
    extra.outcome = what;
    return s().settle(std::span{&extra, 1}).applied.at(0);
  }
  bool renew(row_handle const& row, std::chrono::milliseconds by = lease) {
    return s().renew(std::span{&row, 1}, by).at(0);
  }

  // Lets every lease run out.
  void expire() { advance(lease + 1ms); }

  // Makes rows whose owners crashed this many times. The last lease has run out.
  void crash(std::vector<std::string> const& ids, int times) {
    bool const born_owned = s().capabilities().owners_in_table;
    for (auto const& id : ids) put_owned(json_event(id), born_owned ? "node/0" : "");
    if (!born_owned) {
      ASSERT_THAT(claim("node/0").rows, SizeIs(ids.size()));
    }
    for (int i = 1; i < times; ++i) {
      expire();
      ASSERT_THAT(claim("node/" + std::to_string(i)).rows, SizeIs(ids.size()));
    }
    expire();
  }

  row_view row(std::string const& id) {
    auto const found = s().inspect().find(id);
    if (!found) throw std::runtime_error{"no row " + id};
    return *found;
  }
  bool finished(std::string const& id) {
    auto const found = s().inspect().find(id);
    return !found || found->status == event_status::delivered;
  }

  static std::vector<std::string> ids(claim_reply const& reply) {
    std::vector<std::string> result;
    for (auto const& r : reply.rows) result.push_back(r.handle.id);
    return result;
  }

 private:
  std::unique_ptr<contract::backend> backend_;
};

// Stands in for a case that a backend leaves out.
class left_out_case final : public StoreContract {
 public:
  explicit left_out_case(std::string why) : why_{std::move(why)} {}

 private:
  void TestBody() override { GTEST_SKIP() << why_; }

  std::string why_;
};

// A store that the suite runs against: the end of its suites' names, and how to make its backend.
struct store_under_test {
  char const* name;                    ///< The end of the names of its suites.
  std::unique_ptr<backend> (*make)();  ///< Makes a backend with an empty store.
};

template <class... Backends>
inline constexpr std::array<store_under_test, sizeof...(Backends)> stores{
    {{Backends::name, []() -> std::unique_ptr<backend> { return std::make_unique<Backends>(); }}...}};

// One case becomes a test for each store: Claim/memory.OldestDueFirst. Its body is compiled once, not once per store.
inline bool add_case(char const* suite, char const* name, char const* file, int line,
                     std::unique_ptr<StoreContract> (*make)(), std::span<store_under_test const> all) {
  for (auto const& store : all) {
    auto const full = std::string{suite} + "/" + store.name;
    auto const of = std::string{suite} + "." + name;
    ::testing::RegisterTest(full.c_str(), name, nullptr, nullptr, file, line, [make, store, of]() -> StoreContract* {
      auto backend = store.make();
      if (auto why = backend->left_out(of); !why.empty()) return new left_out_case{std::move(why)};
      auto made = make();
      made->use(std::move(backend));
      return made.release();
    });
  }
  return true;
}

}  // namespace outbox::contract

// A case of the suite for the stores of the including file. `suite` is its fixture:
// OUTBOX_CONTRACT_CASE(Claim, OldestDueFirst) { … }
#define OUTBOX_CONTRACT_CASE(suite, name)                                                      \
  class suite##_##name final : public suite {                                                  \
    void TestBody() override;                                                                  \
  };                                                                                           \
  [[maybe_unused]] static bool const suite##_##name##_is_added = ::outbox::contract::add_case( \
      #suite, #name, __FILE__, __LINE__,                                                       \
      []() -> std::unique_ptr<StoreContract> { return std::make_unique<suite##_##name>(); },   \
      ::outbox::contract::stores<OUTBOX_CONTRACT_BACKENDS>);                                   \
  inline void suite##_##name::TestBody()

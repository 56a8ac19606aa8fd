// A node that a test runs step by step, on one thread, with a clock that only the test moves.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <outbox/error.hpp>
#include <outbox/memory.hpp>
#include <outbox/outbox.hpp>
#include <outbox/testing.hpp>
#include <thread>

namespace outbox {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

/// An event whose codec counts its calls.
struct paid {
  static constexpr std::string_view event_type = "paid";
  int amount = 0;
};
inline int encoded_times = 0;
inline int decoded_times = 0;

template <>
struct codec<paid> {
  static encoded encode(paid const& p) {
    ++encoded_times;
    return {std::to_string(p.amount)};
  }
  static paid decode(event const& e) {
    ++decoded_times;
    if (e.payload() == "null") throw std::runtime_error{"no amount"};
    return {std::stoi(e.payload())};
  }
};

class StepwiseNode : public ::testing::Test {
 protected:
  node& make(single_node_options o = {}) {
    o.store = table;
    o.clock = clock;
    o.log = nullptr;
    o.listeners = std::exchange(l, listeners{});
    o.interceptors = {seen};
    o.retry = {.max_attempts = 3, .backoff = {.base = 100ms, .cap = 100ms}};
    n.emplace(single_node(std::move(o)));
    n->run_until_idle();
    return *n;
  }
  void write(std::string const& id, std::string const& type = "t", std::string payload = "1") {
    memory::transaction tx{*table};
    event_options o;
    o.id = id;
    n->writer().write(tx, type, std::move(payload), std::move(o));
    tx.commit();
  }
  void settle_all() { testing::run_until_done(*n, *clock, *table); }
  row_view row(std::string const& id) { return table->inspect().find(id).value(); }

  std::shared_ptr<testing::manual_clock> clock = std::make_shared<testing::manual_clock>();
  std::shared_ptr<outbox::store> table = memory::open({.clock = clock});
  std::shared_ptr<testing::recorder> seen = std::make_shared<testing::recorder>();
  listeners l;
  std::optional<node> n;
};

}  // namespace outbox

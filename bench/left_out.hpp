// A claim beside the backlog of a route that it leaves out, as a node asks for it.
#pragma once

#include <chrono>
#include <cstdlib>
#include <outbox/spi/store.hpp>
#include <string>
#include <vector>

#include "core/engine/claim_floors.hpp"
#include "rounds.hpp"

namespace bench {

/// The type of the events in the backlog.
inline constexpr char const* slow_type = "slow.thing";

/// paused: the backlog waits. crowded: between two claims of others, one takes fifty events of the backlog,
/// which are delivered.
class claims_beside {
 public:
  claims_beside(outbox::store& s, bool crowded) : store_{s.backend()}, crowded_{crowded} {
    static_cast<void>(give_back(claim(left_)));  // the first one looks at everything
  }

  /// One claim of fifty that leaves the route out, in microseconds; the rows are given back, which is not measured.
  double measure() {
    if (crowded_) deliver(claim({}));
    outbox::spi::claim_reply reply;
    auto const time = seconds([&] { reply = claim(left_); });
    if (give_back(std::move(reply)) != 50) std::abort();
    return time * 1e6;
  }

 private:
  // With the floor that the engine would send, and what it would learn from the answer.
  outbox::spi::claim_reply claim(std::vector<outbox::route_pause> const& left) {
    using namespace std::chrono_literals;
    token_ = "bench/" + std::to_string(++tokens_);
    outbox::spi::claim_request const r{
        .token = token_, .limit = 50, .lease = 30s, .pauses = left, .floor = floors_.of(left)};
    auto reply = store_.claim(r);
    floors_.note(left, std::min<outbox::instant>(reply.floor.value_or(reply.now), reply.now - 10s), !r.floor);
    return reply;
  }
  std::size_t give_back(outbox::spi::claim_reply const& reply) {
    store_.release(std::span{&token_, 1}, std::chrono::seconds{30});
    return reply.rows.size();
  }
  void deliver(outbox::spi::claim_reply const& reply) {
    std::vector<outbox::spi::settlement> done;
    for (auto const& row : reply.rows) done.push_back({.row = row.handle});
    static_cast<void>(store_.settle(done));
  }

  outbox::spi::store& store_;
  bool crowded_;
  std::vector<outbox::route_pause> left_{{slow_type, ""}};
  outbox::core::claim_floors floors_;
  std::string token_;
  int tokens_ = 0;
};

/// Claims of a table that has a backlog of `slow_type` beside the same claims of one that has not.
template <class Table>
row left_out_row(settings const& s, std::string const& name, Table& full, Table& plain, int count, bool crowded) {
  claims_beside beside{*full.store, crowded};
  auto const median_of = [&](auto&& one) {
    std::vector<double> samples;
    for (int i = 0; i < count; ++i) samples.push_back(one());
    return median(samples);
  };
  auto const ours = [&]() -> std::vector<double> { return {median_of([&] { return beside.measure(); })}; };
  auto const by_hand = [&]() -> std::vector<double> { return {median_of([&] { return plain.claim(); })}; };
  auto const what =
      crowded ? "has enough events in the node, which takes fifty of them between two such claims" : "is paused";
  return interleave(s,
                    {{name, "us", at_most(1.5),
                      "a claim of 50 while 300,000 due rows are of a route that " + std::string{what} +
                          "; beside it: the same claim with 1000 due rows only"}},
                    ours, by_hand)
      .front();
}

}  // namespace bench

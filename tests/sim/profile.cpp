// Which faults a seed has.
#include "sim/world.hpp"

namespace outbox::sim {

profile profile::draw(core::random_source& r) {
  profile p;
  p.nodes = 1 + static_cast<int>(r.below(4));
  p.exclusive = r.chance(0.25);
  p.workers = 1 + r.below(4);
  p.batch = 1 + r.below(12);
  p.hot = 1 + r.below(30);
  p.cold = 1 + r.below(30);
  p.max_crashes = 2 + static_cast<std::int32_t>(r.below(3));
  p.max_attempts = 1 + static_cast<std::int32_t>(r.below(5));
  p.timeout = r.chance(0.5) ? 5s : 15s;
  p.transactions = 10 + static_cast<int>(r.below(30));
  // Each kind of fault is in the world or not; with none of them there must be no duplicate at all.
  if (r.chance(0.4)) p.fail_before = 0.15 * r.fraction();
  if (r.chance(0.4)) p.fail_after = 0.15 * r.fraction();
  if (r.chance(0.3)) p.fail_later = 0.10 * r.fraction();
  if (r.chance(0.1)) p.refuse = 0.05 * r.fraction();
  if (r.chance(0.5)) p.kills = 1 + static_cast<int>(r.below(5));
  if (r.chance(0.4)) p.freezes = 1 + static_cast<int>(r.below(3));
  if (r.chance(0.3)) p.cuts = 1 + static_cast<int>(r.below(3));
  if (r.chance(0.4)) p.stops = 1 + static_cast<int>(r.below(3));
  if (r.chance(0.25)) p.outages = 1 + static_cast<int>(r.below(3));
  if (r.chance(0.3)) p.ended_sessions = 1 + static_cast<int>(r.below(4));
  if (r.chance(0.5)) p.savepoint = 0.4;
  if (r.chance(0.4)) p.long_transaction = 0.2;
  if (r.chance(0.4)) p.in_doubt = 0.2;
  if (r.chance(0.4)) p.again = 0.3;
  if (r.chance(0.3)) p.follow_up = 0.5;
  if (r.chance(0.4)) p.stall = 0.08;
  if (r.chance(0.3)) p.crash = 0.05;
  if (r.chance(0.3)) p.poison = 1 + static_cast<int>(r.below(2));
  if (r.chance(0.3)) p.fan_out = 0.4;
  if (r.chance(0.3)) p.async = 0.4;
  p.narrow = r.chance(0.5);
  if (r.chance(0.3)) p.purges = 1 + static_cast<int>(r.below(6));
  if (r.chance(0.3)) p.replays = 5 + static_cast<int>(r.below(30));
  if (r.chance(0.2)) p.pauses = 1 + static_cast<int>(r.below(3));
  if (r.chance(0.2)) {
    p.ordered = p.exclusive = true;
    p.workers = 1;
    p.max_attempts = 1;
    p.narrow = false;
  }
  // Not drawn, and not where sessions end: the other seeds stay what they were.
  p.lock_lease = p.exclusive && p.ended_sessions == 0 && p.transactions % 2 == 0;
  return p;
}

// Many events of few keys. Seeds of this kind are drawn by themselves, so that the others stay what they are.
profile profile::draw_keyed(core::random_source& r) {
  auto p = draw(r);
  p.keyed = true;
  p.exclusive = p.ordered = p.lock_lease = false;
  p.ended_sessions = 0;
  p.nodes = 1 + static_cast<int>(r.below(4));
  p.workers = 1 + r.below(4);
  p.transactions = 20 + static_cast<int>(r.below(40));
  p.keys = 3 + static_cast<int>(r.below(6));
  p.keyless = r.chance(0.5) ? 0.15 : 0.0;
  p.skip = r.chance(0.3);
  p.keeps_order = r.chance(0.4);
  p.async = r.chance(p.keeps_order ? 0.9 : 0.3) ? 0.4 : 0.0;
  p.late_hook = r.chance(0.6) ? 0.4 : 0.0;
  p.second_write = r.chance(0.4) ? 0.4 : 0.0;
  p.no_receipt = r.chance(0.4) ? r.fraction() : 0.0;
  p.misbehave = r.chance(0.3) ? 0.02 : 0.2;
  if (r.chance(0.5)) p.discards = 5 + static_cast<int>(r.below(20));
  if (r.chance(0.3)) p.batch = 1 + r.below(3);
  p.stepwise = r.chance(0.7);
  p.slow_statements = r.chance(0.5);
  if (r.chance(0.4)) {
    p.withdraw = 0.7;
    p.stepwise = p.slow_statements = true;
    p.nodes = 3 + static_cast<int>(r.below(2));
    p.keys = 2 + static_cast<int>(r.below(2));
  }
  return p;
}

}  // namespace outbox::sim

// The renewer's step: keeps what is held, and ends what would never end.
#include <algorithm>
#include <cassert>
#include <unordered_set>

#include "core/engine/engine.hpp"

namespace outbox::inline v0::core {
namespace {

// More are left to the next renewal: one statement must not take long.
constexpr std::size_t most_healed = 1000;

}  // namespace

// Ends transactions, calls and waits that take too long. Returns when the next of them will.
steady_time engine::end_what_is_late(steady_time now) {
  // The slots of such a transaction are free again. Its commit finds the birth ended and gives the rows back.
  while (!births_.empty() && now - births_.front()->began > leases_.birth_limit()) end_birth(*births_.front());

  auto soonest = steady_time::max();
  for (auto it = running_.begin(); it != running_.end();) {
    ticket& t = **it++;
    if (now >= t.lease_end) ask_stop(t);
    if (t.call.phase == listener_call::phase::answered) continue;
    if (now >= t.limit) {
      time_out(t, now);
    } else {
      soonest = std::min(soonest, t.limit);
    }
  }
  bool gave_back = false;
  for (auto* queue : {&hot_, &cold_}) {
    for (auto it = queue->begin(); it != queue->end();) {
      ticket& t = **it++;
      if (now >= t.limit) {
        give_back(t);
        gave_back = true;
      } else {
        soonest = std::min(soonest, t.limit);
      }
    }
  }
  if (gave_back && settings_.in_order) give_back_queued();
  return soonest;
}

plan<renew_request> engine::plan_renew(steady_time now, bool flush) {
  auto const soonest = end_what_is_late(now);
  std::erase_if(doubts_, [&](doubt const& d) { return d.released_once && now >= d.until; });

  if (renew_busy_) return {{}, renewer_wakes_ = soonest};
  if (now < next_renew_ && !flush) return {{}, renewer_wakes_ = std::min(next_renew_, soonest)};

  renew_request request;
  request.sent = now;
  request.held = counters().held;
  request.pauses_version = pauses_version_;
  for (auto const* list : {&waiting_, &hot_, &cold_, &running_, &finished_}) {
    for (auto const& t : *list) {
      if (t->hold == hold::lost) continue;
      request.tickets.push_back(t);
      request.rows.push_back(t->handle);
    }
  }
  for (auto const& d : doubts_) request.doubts.push_back(d.token);
  if (settings_.keyed && open_ && now >= next_heal_) request.heal = most_healed;
  renew_busy_ = true;
  next_renew_ = now + leases_.renew_every();
  renewer_wakes_ = soonest;
  return {std::move(request)};
}

void engine::apply_renewed(renew_request const& sent, std::vector<bool> const& kept, steady_time now) {
  assert(kept.size() == sent.rows.size());
  renew_busy_ = false;
  store_answered(request_kind::renew, now);
  for (std::size_t i = 0; i < sent.tickets.size(); ++i) {
    ticket& t = *sent.tickets[i];
    // The reply says nothing about a ticket that the settler has taken or that a new claim gave another token.
    if (t.stage == stage::gone || t.stage == stage::settling || t.handle.token != sent.rows[i].token) continue;
    if (kept[i]) {
      if (sent.sent >= doubted_at_) t.hold = hold::sure;
      t.lease_end = std::max(t.lease_end, sent.sent + leases_.duration());
    } else if (t.stage == stage::running) {
      t.hold = hold::lost;
      ask_stop(t);
      break_chain(t);  // its listener may run for long
    } else {
      remove_lost(t);
    }
  }
  // If everything that could not be settled is lost, no settlement is left that could succeed.
  if (finished_.empty() && settling_.empty()) store_answered(request_kind::settle, now);
  signals_ |= signal_work | signal_poll;
}

// The next renewal tries it again. Nothing that the node holds depends on it.
void engine::apply_heartbeat_failure(error const& e) {
  counters_.store_errors += 1;
  if (heartbeat_said_ == e.what()) return;
  heartbeat_said_ = e.what();
  say(log_level::warning, std::string{"cannot write the heartbeat of this node or read what is paused: "} + e.what(),
      {}, facts_of(e));
}

std::vector<owner_token> engine::doubts() const {
  std::vector<owner_token> tokens;
  for (auto const& d : doubts_) tokens.push_back(d.token);
  return tokens;
}

void engine::forget_doubts(std::span<owner_token const> released) {
  std::erase_if(doubts_, [&](doubt const& d) { return std::ranges::find(released, d.token) != released.end(); });
}

// Entries that were written by hand may be unreadable. The readable ones hold, the others are ignored.
void engine::note_ignored_pauses(std::size_t entries) {
  if (std::exchange(ignored_pauses_, entries) == entries || entries == 0) return;
  say(log_level::warning,
      "what is paused has " + std::to_string(entries) +
          " entries that no event can match, or cannot be read: they are ignored",
      {}, {{"entries", std::to_string(entries)}});
}

void engine::set_refusal(std::string why) {
  if (why == refusal_) return;
  refusal_ = std::move(why);
  if (!refusal_.empty()) {
    return say(log_level::error, "takes no more events: " + refusal_, {}, {{"error", refusal_}});
  }
  say(log_level::warning, "takes events again: the table is for this node again");
  wake();
}

void engine::apply_doubts_released(renew_request const& sent, steady_time now) {
  note_released(sent.doubts);
  store_answered(request_kind::release, now);
}

void engine::note_released(std::span<owner_token const> tokens) {
  if (tokens.empty()) return;
  std::unordered_set<std::string_view> const released{tokens.begin(), tokens.end()};
  for (auto& d : doubts_) d.released_once = d.released_once || released.contains(d.token);
}

void engine::apply_renew_failure(renew_request const& /*sent*/, error const& e, steady_time now) {
  renew_busy_ = false;
  next_renew_ = std::min(next_renew_, store_failed(request_kind::renew, e, "renew leases", now));
  signals_ |= signal_renew;
}

}  // namespace outbox::inline v0::core

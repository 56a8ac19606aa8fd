// The listener that publishes, and what a report of its sink means to the node.
#include <mutex>
#include <outbox/error.hpp>
#include <outbox/listener.hpp>
#include <outbox/sink.hpp>

namespace outbox::inline v0 {

detail::report_slot::~report_slot() = default;
sink::~sink() = default;
bool sink::keeps_order() const noexcept { return false; }

void publish_report::operator()(published p) noexcept {
  if (auto const slot = std::move(slot_)) slot->report(std::move(p));
}

publish_report::~publish_report() {
  if (slot_) slot_->report({published::how::unsure, {}});
}

namespace {

using std::chrono::milliseconds;

/// How long a route waits while its sink takes nothing. Thousands of messages under way learn of one outage: it counts
/// once.
class outage {
 public:
  /// Another message was refused at `now`. Returns how long its event waits.
  milliseconds noted(steady_time now) {
    std::lock_guard const lock{mutex_};
    if (now >= until_) {
      wait_ = wait_.count() == 0 ? first : std::min(wait_ * 2, longest);
      until_ = now + wait_;
    }
    return std::max(milliseconds{1}, std::chrono::ceil<milliseconds>(until_ - now));
  }

  void ended() {
    std::lock_guard const lock{mutex_};
    wait_ = milliseconds{0};
    until_ = {};
  }

 private:
  static constexpr milliseconds first{1000}, longest{60'000};

  std::mutex mutex_;
  milliseconds wait_{0};
  steady_time until_{};
};

/// What reports mean to the events of one route. Reports keep it alive, and not the sink: a sink that were kept alive
/// by its own messages would end on a thread of its own.
class verdicts {
 public:
  explicit verdicts(std::string sink) : sink_{std::move(sink)} {}

  [[nodiscard]] result of(published&& p) {
    switch (p.what) {
      case published::how::stored: return outage_.ended(), done;
      case published::how::rejected: return dead{std::move(p.reason)};
      case published::how::unavailable: return unavailable(p.reason);
      case published::how::unsure: return failed{p.reason.empty() ? "it may have been published" : std::move(p.reason)};
      // The receiver spoke of itself and not of this message: the next one would be an unwanted call.
      case published::how::deferred: return defer{p.after, sink_ + ": " + p.reason, true};
      case published::how::failed: break;
    }
    return failed{std::move(p.reason)};
  }

  [[nodiscard]] result unavailable(std::string const& reason) {
    return defer{outage_.noted(std::chrono::steady_clock::now()), sink_ + ": " + reason, true};
  }

 private:
  std::string const sink_;
  outage outage_;
};

class answer_from_report final : public detail::report_slot {
 public:
  answer_from_report(std::shared_ptr<verdicts> by, completion answer) noexcept
      : by_{std::move(by)}, answer_{std::move(answer)} {}
  void report(published&& p) noexcept override {
    try {
      answer_(by_->of(std::move(p)));
    } catch (...) {  // no memory for the reason
      answer_(failed{});
    }
  }

 private:
  std::shared_ptr<verdicts> by_;
  completion answer_;
};

std::shared_ptr<sink> not_null(std::shared_ptr<sink> s) {
  if (!s) throw error::about(errc::invalid_option, "sink", "is null");
  return s;
}

}  // namespace

struct publisher::state {
  state(std::shared_ptr<sink> s, publish_options o)
      : to{not_null(std::move(s))},
        own_key{!o.key.empty()},
        own_partition{!o.partition.empty()},
        rules{std::move(o)},
        means{std::make_shared<verdicts>(std::string{to->name()})} {}

  std::shared_ptr<sink> const to;
  bool const own_key, own_partition;  ///< The route says what the key or the partition of a message is.
  envelope const rules;
  std::shared_ptr<verdicts> const means;
};

publisher::publisher(std::shared_ptr<sink> to, publish_options options)
    : state_{std::make_shared<state>(std::move(to), std::move(options))} {}

// By default all events of a key have the same key in the broker, too.
//
// A call that waits for a message which is never given up must not be given up either: while the brokers are away, the
// event would be published again and again, and at last be DEAD.
route_options publisher::fit(route_options route) const {
  auto const refuse = [](char const* field, std::string const& problem) {
    throw error::about(errc::invalid_option, field, problem);
  };
  std::string const name{state_->to->name()};
  if (state_->to->patience() == milliseconds::max()) {
    if (route.timeout.value_or(milliseconds{0}).count() != 0) {
      refuse("timeout", "must be 0, because the sink '" + name + "' never gives a message up");
    }
    route.timeout = milliseconds{0};
  }
  if (!route.keeps_order) return route;
  if (!state_->to->keeps_order()) refuse("keeps_order", "is set, and the sink '" + name + "' keeps no order");
  constexpr char const* shared = "cannot be set beside keeps_order: all messages of a key must share a partition";
  if (state_->own_key) refuse("key", shared);
  if (state_->own_partition) refuse("partition", shared);
  return route;
}

// A report that came after the timeout of the call would be ignored, and the message sent again.
void publisher::operator()(delivery const& d, completion answer) const {
  auto const now = std::chrono::steady_clock::now();
  if (state_->to->patience() == milliseconds::max()) return without_limit(d, std::move(answer));
  if (d.deadline != steady_time::max() && d.deadline - now < state_->to->patience()) {
    return answer(state_->means->unavailable("the route's timeout must be longer than the " +
                                             std::to_string(state_->to->patience().count()) +
                                             " ms that a message may take to be stored"));
  }
  hand_over(d, std::move(answer), d.deadline - state_->to->patience());
}

// The message itself is never given up. That the sink has no room for it is, so that its worker is free again.
void publisher::without_limit(delivery const& d, completion answer) const {
  if (d.deadline != steady_time::max()) {
    return answer(state_->means->unavailable("the route may have no timeout: the sink never gives a message up"));
  }
  constexpr std::chrono::seconds longest_wait{30};
  hand_over(d, std::move(answer), std::chrono::steady_clock::now() + longest_wait);
}

void publisher::hand_over(delivery const& d, completion answer, steady_time give_up) const {
  auto m = state_->rules.make(d.event);
  publish_report report{std::make_unique<answer_from_report>(state_->means, std::move(answer))};
  state_->to->publish(std::move(m), std::move(report), give_up);
}

publisher publish(std::shared_ptr<sink> to, publish_options options) { return {std::move(to), std::move(options)}; }

}  // namespace outbox::inline v0

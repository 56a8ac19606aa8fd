// What the loops of a simulated node do: they send requests to the table, and the replies come back.
#include "sim/sim_node.hpp"
#include "sim/stepwise_store.hpp"

namespace outbox::sim {

template <class Plan, class Send>
void sim_node::drive(bool& busy, instant& timer, Plan&& plan, Send&& send) {
  if (busy || !alive()) return;
  auto p = plan();
  if (p.request) {
    busy = true;
    send(std::move(*p.request));
    return;
  }
  if (p.wake == steady_time::max()) return;
  auto const now = world_.clock()->now();
  auto const in = std::max(std::chrono::ceil<microseconds>(p.wake - world_.clock()->steady()), microseconds{1});
  if (now + in >= timer && timer > now) return;  // an earlier look is planned
  timer = now + in;
  world_.at_us(in, [this, life = life_, &timer] {
    in_process(life, [this, &timer] {
      timer = instant::max();
      pump();
    });
  });
}

// The request travels, takes effect (or not), and the reply travels back; the node may be gone or frozen by then.
template <class Perform, class Apply>
void sim_node::carry(bool& busy, Perform perform, Apply apply) {
  auto const life = life_;
  auto const store = store_;
  world_.at_us(world_.latency(), [this, life, store, perform, apply, &busy] {
    auto reply = std::make_shared<decltype(perform(*store))>(perform(*store));
    world_.at_us(world_.latency(), [this, life, reply, apply, &busy] {
      in_process(life, [this, reply, apply, &busy] {
        busy = false;
        apply(std::move(*reply));
        pump();
      });
    });
  });
}

void sim_node::trace_reply(core::poll_reply const& reply) {
  auto const* const found = std::get_if<claim_reply>(&reply.value);
  if (reply.failure || found == nullptr || found->rows.empty()) return;
  std::string text = "claims";
  for (auto const& row : found->rows) text += " " + row.handle.id;
  world_.trace(index_, text);
}

// From the reply on the node must act on what it says of lost leases. Of a row that the settler has taken it says
// nothing: that may be DONE.
void sim_node::apply_renewal(core::renew_request const& sent, core::renew_reply const& reply) {
  for (std::size_t i = 0; i < reply.kept.size() && !reply.failure; ++i) {
    bool const settling = sent.tickets[i]->stage == core::stage::settling;
    if (!reply.kept[i] && !settling) world_.judge().told_of_loss(sent.rows[i]);
  }
  core_->apply(sent, reply);
}

void sim_node::apply_settlement(core::settle_request const& sent, core::settle_reply const& reply) {
  trace_reply(sent, reply);
  for (std::size_t i = 0; i < reply.applied.size() && !reply.failure; ++i) {
    if (!reply.applied[i]) world_.judge().told_of_loss(sent.items[i].row);
  }
  core_->apply(sent, reply);
}

void sim_node::trace_reply(core::settle_request const& sent, core::settle_reply const& reply) {
  static constexpr char const* ends[] = {"DONE", "RETRY", "NEW", "DEAD", "released"};
  if (reply.failure) return;
  std::string text = "settles";
  for (std::size_t i = 0; i < sent.items.size(); ++i) {
    text += " " + sent.items[i].row.id + " " +
            (reply.applied[i] ? ends[static_cast<std::size_t>(sent.items[i].outcome)] : "lost");
  }
  world_.trace(index_, text);
}

// The table does each request in several steps.
template <class Reply, class Start, class Apply>
void sim_node::carry_in_steps(bool& busy, testing::operation what, Start start, Apply apply) {
  auto const life = life_;
  auto const answer = [this, life, apply, &busy](std::shared_ptr<Reply> const& reply) {
    world_.at_us(world_.latency(), [this, life, reply, apply, &busy] {
      in_process(life, [this, reply, apply, &busy] {
        busy = false;
        apply(std::move(*reply));
        pump();
      });
    });
  };
  auto const failed = [](errc code) {
    auto reply = std::make_shared<Reply>();
    reply->failure.emplace(code, "on purpose");
    return reply;
  };
  world_.at_us(world_.latency(), [this, what, start, answer, failed] {
    switch (world_.next_fault(index_, what)) {
      case testing::fault::none: return start(answer);
      case testing::fault::before: return answer(failed(errc::unavailable));
      case testing::fault::refused: return answer(failed(errc::store_failure));
      case testing::fault::after: return start([answer, failed](auto const&) { answer(failed(errc::unavailable)); });
      case testing::fault::later:
        answer(failed(errc::unavailable));
        world_.at(milliseconds{world_.random().below(static_cast<std::uint64_t>(world_.settings().lease.count()))},
                  [start] { start([](auto const&) {}); });
    }
  });
}

namespace {

// The reply of a request that may have failed.
template <class Reply>
std::shared_ptr<Reply> failed_or(bool failed) {
  auto reply = std::make_shared<Reply>();
  if (failed) reply->failure.emplace(errc::unavailable, "the server undid it");
  return reply;
}

}  // namespace

void sim_node::carry_claim(std::shared_ptr<core::poll_request> const& request) {
  client const who{[this, life = life_] { return life == life_ && alive() && frozen(); },
                   [this, life = life_] { return life != life_ || !alive() || cut_; }};
  carry_in_steps<core::poll_reply>(
      polling_, testing::operation::claim,
      [this, request, who](auto answer) {
        world_.server()->claim(who, std::get<claim_request>(request->request), [answer](auto reply) {
          auto const r = failed_or<core::poll_reply>(!reply);
          if (reply) r->value = std::move(*reply);
          answer(r);
        });
      },
      [this, request](core::poll_reply reply) {
        trace_reply(reply);
        core_->apply(*request, std::move(reply));
      });
}

void sim_node::carry_settlement(std::shared_ptr<core::settle_request> const& request) {
  carry_in_steps<core::settle_reply>(
      settling_, testing::operation::settle,
      [this, request](auto answer) {
        world_.server()->settle(request->items, [answer](auto reply) {
          auto const r = failed_or<core::settle_reply>(!reply);
          if (reply) r->applied = std::move(reply->applied);
          if (reply) r->unblocked = reply->unblocked;
          answer(r);
        });
      },
      [this, request](core::settle_reply const& reply) { apply_settlement(*request, reply); });
}

// The rest of a renewal is no matter of rows: it is carried as usual, when the rows are renewed.
void sim_node::carry_renewal(std::shared_ptr<core::renew_request> const& request) {
  auto const self = core_->self(request->held);
  auto const store = store_;
  carry_in_steps<core::renew_reply>(
      renewing_, testing::operation::renew,
      [this, request, self, store](auto answer) {
        auto rest = *request;
        rest.rows.clear();
        world_.server()->renew(request->rows, self.lease, [answer, rest, self, store](auto kept) {
          auto const r = failed_or<core::renew_reply>(!kept);
          if (kept) {
            *r = core::perform(*store, rest, self, {});
            r->kept = std::move(*kept);
          }
          answer(r);
        });
      },
      [this, request](core::renew_reply const& reply) { apply_renewal(*request, reply); });
}

void sim_node::pump() {
  if (!alive() || pumping_ || frozen_until_ > world_.clock()->now()) return;
  pumping_ = true;
  auto const now = [&] { return world_.clock()->steady(); };
  drive(
      renewing_, renew_timer_,
      [&] {
        auto p = core_->with_engine([&](core::engine& e) { return e.plan_renew(now()); });
        note_timeouts();
        return p;
      },
      [&](core::renew_request r) {
        auto const request = std::make_shared<core::renew_request>(std::move(r));
        if (world_.server() != nullptr && !request->rows.empty()) return carry_renewal(request);
        auto const self = core_->self(request->held);
        carry(
            renewing_,
            [request, self, lock = core_->held_lock()](spi::store& s) {
              return core::perform(s, *request, self, lock);
            },
            [this, request](core::renew_reply const& reply) { apply_renewal(*request, reply); });
      });
  drive(
      polling_, poll_timer_, [&] { return core_->plan_poll(); },
      [&](core::poll_request r) {
        auto const request = std::make_shared<core::poll_request>(std::move(r));
        bool const is_claim = std::holds_alternative<claim_request>(request->request);
        if (world_.server() != nullptr && is_claim) return carry_claim(request);
        carry(
            polling_,
            [request, me = incarnation_, lock = core_->held_lock()](spi::store& s) {
              return core::perform(s, *request, me, lock);
            },
            [this, request](core::poll_reply reply) {
              trace_reply(reply);
              core_->apply(*request, std::move(reply));
            });
      });
  drive(
      settling_, settle_timer_,
      [&] { return core_->with_engine([&](core::engine& e) { return e.plan_settle(now(), flushing_); }); },
      [&](core::settle_request r) {
        auto const request = std::make_shared<core::settle_request>(std::move(r));
        if (world_.server() != nullptr) return carry_settlement(request);
        carry(
            settling_, [request](spi::store& s) { return core::perform(s, *request); },
            [this, request](core::settle_reply const& reply) { apply_settlement(*request, reply); });
      });
  drive(
      placing_, place_timer_, [&] { return core_->with_engine([](core::engine& e) { return e.plan_place(); }); },
      [&](core::place_request r) {
        auto const request = std::make_shared<core::place_request>(std::move(r));
        carry(
            placing_, [request](spi::store& s) { return core::perform(s, *request); },
            [this, request](core::place_reply reply) { core_->apply(*request, reply); });
      });
  work();
  pumping_ = false;
  if (alive()) core_->with_engine([&](core::engine& e) { world_.judge().check(e); });
}

}  // namespace outbox::sim

#include "sim/sim_node.hpp"

namespace outbox::sim {
namespace {

class following_hook final : public writer_hook {
 public:
  following_hook(world& w, int index) : world_{w}, index_{index} {}
  void after_commit(std::span<event const>) override {
    if (std::exchange(inside_, true)) return;
    world_.follow_up(index_);
    inside_ = false;
  }

 private:
  world& world_;
  int index_;
  bool inside_ = false;
};

}  // namespace

sim_node::sim_node(world& w, int index) : world_{w}, index_{index} {}

core::node_settings sim_node::make_settings() {
  auto const& p = world_.settings();
  core::node_settings s;
  s.store = store_;
  s.log = nullptr;
  listeners routes;
  routes.on("sim.event", [this](delivery const&) { return behave(); });
  routes.on("sim.fan_out",
            fan_out<>{}
                .to("first",
                    [this](delivery const&) { world_.judge().child_starts(*asked_->ticket, asked_->epoch, "first"); })
                .to("second", [this](delivery const&) {
                  world_.judge().child_starts(*asked_->ticket, asked_->epoch, "second");
                  return behave();
                }));
  routes.on("sim.async", [this](delivery const&, completion c) { taken_ = std::move(c); },
            {.max_in_flight = p.narrow ? std::optional<std::size_t>{2} : std::nullopt, .keeps_order = p.keeps_order});
  s.routes = routes.release();
  s.mode = p.keyed       ? node_mode::keyed
           : p.ordered   ? node_mode::ordered
           : p.exclusive ? node_mode::single_node
                         : node_mode::multi_node;
  s.name = incarnation_;
  s.clock = world_.clock();
  s.incarnation = incarnation_;
  s.exclusive = p.exclusive;
  s.in_order = p.ordered;
  s.keyed = p.keyed;
  s.on_dead = p.skip ? on_dead::skip : on_dead::park;
  s.hot_path = !p.ordered;
  s.workers = p.workers;
  s.poll = {.every = p.poll_every, .batch = p.batch};
  s.retry = {.max_attempts = p.max_attempts, .backoff = {.base = 100ms, .cap = 2s}};
  s.queue = {.hot = p.hot, .cold = p.cold, .bytes = p.bytes};
  s.lease = {.duration = p.lease, .max_crashes = p.max_crashes};
  s.listener_timeout = p.timeout;
  s.seed = world_.random().next();
  if (p.follow_up > 0) s.hook = std::make_shared<following_hook>(world_, index_);
  return s;
}

void sim_node::boot() {
  if (alive()) return;
  ++life_;
  incarnation_ = "node" + std::to_string(index_) + ":" + std::to_string(life_);
  store_ = std::make_shared<testing::faulty_store>(world_.watched(), [this](testing::operation what) {
    auto const f = world_.next_fault(index_, what);
    if (f == testing::fault::later) {
      world_.at(milliseconds{world_.random().below(static_cast<std::uint64_t>(world_.settings().lease.count()))},
                [s = std::weak_ptr{store_}] {
                  if (auto const alive = s.lock()) alive->run_late();
                });
    }
    return f;
  });
  core_ = std::make_shared<core::node_core>(make_settings());
  polling_ = settling_ = renewing_ = placing_ = flushing_ = false;
  poll_timer_ = settle_timer_ = renew_timer_ = place_timer_ = instant::max();
  frozen_until_ = {};
  busy_workers_ = 0;
  calls_.clear();
  world_.trace(index_, "starts as " + incarnation_);
  core_->with_engine([&](core::engine& e) {
    e.set_pauses(world_.table()->backend().settings().pauses);
    e.open(world_.clock()->steady());
  });
  pump();
}

void sim_node::kill(std::string const& why) {
  if (!alive()) return;
  world_.trace(index_, "is killed " + why);
  world_.note("kill");
  end_life();
}

void sim_node::end_life() {
  world_.judge().ended(incarnation_);
  for (auto const& c : calls_) world_.judge().listener_ends(c.ticket->event.id(), c.epoch, false);
  core_.reset();
  calls_.clear();  // completions outlive their node
  world_.restart_later(index_);
}

void sim_node::note_timeouts() {
  for (auto& c : calls_) {
    if (!c.ticket->call.timed_out || c.timed_out) continue;
    c.timed_out = true;
    world_.note("listener timeout");
    world_.judge().timed_out(c.ticket->event.id(), c.epoch);
  }
}

void sim_node::freeze(milliseconds length) {
  if (!alive()) return;
  world_.trace(index_, "is frozen for " + std::to_string(length.count()) + " ms");
  world_.note("freeze");
  frozen_until_ = world_.clock()->now() + length;
  world_.judge().disturbed(incarnation_, length);
  in_process(life_, [this] {
    world_.judge().disturbed(incarnation_);
    pump();
  });
}

void sim_node::cut_off(milliseconds length) {
  if (!alive()) return;
  world_.trace(index_, "is cut off for " + std::to_string(length.count()) + " ms");
  world_.note("partition");
  cut_ = true;
  world_.judge().disturbed(incarnation_, length);
  world_.at(length, [this, life = life_] {
    if (life == life_) world_.judge().disturbed(incarnation_);
    cut_ = false;
  });
}

// A graceful stop: drain, release, flush, then exit.
void sim_node::stop() {
  if (!alive()) return;
  world_.trace(index_, "stops");
  world_.note("graceful stop");
  core_->with_engine([&](core::engine& e) { e.close(world_.clock()->steady()); });
  auto const life = life_;
  world_.at(milliseconds{200 + world_.random().below(1500)}, [this, life] {
    in_process(life, [this, life] {
      core_->with_engine([&](core::engine& e) { e.release_queued(world_.clock()->steady()); });
      for (auto const& c : calls_) {
        if (!c.answer || c.ticket->stage == core::stage::running) continue;
        world_.note("asynchronous call abandoned");
        world_.judge().timed_out(c.ticket->event.id(), c.epoch);
      }
      flushing_ = true;
      pump();
      world_.at(3s, [this, life] { in_process(life, [this] { finish_stop(); }); });
    });
  });
  pump();
}

void sim_node::finish_stop() {
  bool const clean =
      core_->with_engine([](core::engine& e) { return e.drained() && e.unsettled() == 0 && e.open_births() == 0; });
  world_.trace(index_, clean ? "has stopped" : "exits with work left");
  if (clean) core_->farewell();
  if (clean) {
    world_.judge().stopped(incarnation_);
    stopped_.insert(life_);
  }
  end_life();
}

void sim_node::in_process(int life, std::function<void()> what) {
  if (life != life_ || !alive()) return;
  auto const now = world_.clock()->now();
  if (frozen_until_ > now) {
    world_.at_us(frozen_until_ - now + microseconds{world_.random().below(2000)},
                 [this, life, what = std::move(what)] { in_process(life, what); });
    return;
  }
  what();
}

void sim_node::in_application(int life, std::function<void()> what) {
  if (stopped_.contains(life)) return what();
  in_process(life, std::move(what));
}

void sim_node::work() {
  while (alive() && core_->take_answer()) {
  }
  while (alive() && busy_workers_ < world_.settings().workers) {
    auto const t = core_->start_next().first;
    if (!t) return;
    run_listener(t);
  }
}

void sim_node::run_listener(core::ticket_ptr const& t) {
  auto const& id = t->event.id();
  auto const epoch = world_.judge().listener_starts(*t);
  auto& f = world_.judge().of(id);
  auto const next = f.poison ? act::crash : f.next < f.script.size() ? f.script[f.next++] : act::succeed;
  world_.trace(index_, "listener starts on " + id + (t->path == path::hot ? " (hot" : " (cold") + ", attempt " +
                           std::to_string(t->attempts + 1) + ")");
  world_.note(t->path == path::hot ? "hot delivery" : "cold delivery");
  auto const under_way = calls_.insert(calls_.end(), {t, epoch, next});
  if (t->event.type() == "sim.async") {
    world_.note("asynchronous delivery");
    if (core_->deliver(t)) throw violation{"an asynchronous listener answered at once"};
    under_way->answer = std::move(*std::exchange(taken_, {}));
  } else {
    ++busy_workers_;
  }
  auto const late = world_.settings().timeout + milliseconds{world_.random().below(20'000)};
  auto const most = under_way->answer ? 4000U : 60U;
  auto const length = next == act::stall ? late : milliseconds{world_.random().below(most)};
  world_.at(length,
            [this, life = life_, under_way] { in_process(life, [this, under_way] { end_listener(under_way); }); });
}

void sim_node::end_listener(std::list<call>::iterator c) {
  auto const t = c->ticket;
  if (c->what == act::crash) {
    world_.note("listener crash");
    kill("by the listener of " + t->event.id());
    return;
  }
  acting_ = c->what;
  if (c->answer) return answer_later(c);
  asked_ = &*c;
  auto v = *core_->deliver(t);
  auto const& answer = v.answer.value();
  bool const ends = std::holds_alternative<done_t>(answer) || std::holds_alternative<dead>(answer);
  world_.trace(index_, "listener of " + t->event.id() + " ends" +
                           (t->call.timed_out ? " too late"
                            : ends            ? ""
                                              : ", to be tried again"));
  world_.judge().listener_ends(t->event.id(), c->epoch, ends, std::holds_alternative<done_t>(answer));
  calls_.erase(c);
  --busy_workers_;
  core_->with_engine([&](core::engine& e) { e.finish(*t, std::move(v), world_.clock()->steady()); });
  pump();
}

void sim_node::answer_later(std::list<call>::iterator c) {
  auto const t = c->ticket;
  bool ends = false;
  bool delivers = false;
  if (c->what != act::throw_up) {
    auto r = behave();
    delivers = std::holds_alternative<done_t>(r.value());
    ends = delivers || std::holds_alternative<dead>(r.value());
    (*c->answer)(std::move(r));
  }  // else it is dropped
  world_.trace(index_,
               "asynchronous listener of " + t->event.id() + (ends ? " answers" : " answers, to be tried again"));
  world_.judge().listener_ends(t->event.id(), c->epoch, ends, delivers);
  calls_.erase(c);
  pump();
}

result sim_node::behave() {
  switch (acting_) {
    case act::fail: return failed{"on purpose"};
    case act::fail_later: return failed{"on purpose, later", 700ms};
    case act::throw_up: throw std::runtime_error{"thrown on purpose"};
    case act::defer: return defer{300ms, "not yet"};
    case act::die: return dead{"on purpose"};
    case act::succeed:
    case act::stall:
    case act::crash: break;
  }
  return done;
}

}  // namespace outbox::sim

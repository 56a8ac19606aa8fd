// Calling listeners: one event, several at once, or one whose answer comes later.
#include <outbox/listener.hpp>

#include "core/node/node_core.hpp"

namespace outbox::inline v0::core {
namespace {

class node_slot final : public detail::answer_slot {
 public:
  explicit node_slot(std::shared_ptr<async_call> c) { call_.push_back(std::move(c)); }
  void answer(result&& r, std::optional<std::string>&& progress) noexcept override {
    if (auto const core = call_.front()->core.lock()) core->answered(call_, std::move(r), std::move(progress));
  }
  void dropped() noexcept override {
    if (auto const core = call_.front()->core.lock()) core->dropped(call_);
  }
  void remember(std::string&& progress) noexcept override {
    if (auto const core = call_.front()->core.lock()) core->remember(*call_.front()->ticket, std::move(progress));
  }

 private:
  answer_entry call_;
};

// What a handler sees of the node. Most calls never ask for a completion and pay nothing for it.
class node_call final : public detail::call {
 public:
  node_call(std::weak_ptr<node_core> core, ticket_ptr const& t, delivery const& d)
      : core_{std::move(core)}, ticket_{t}, delivery_{d} {
    progress = t->progress;
  }

  completion answer_later() override {
    later_ = std::make_shared<async_call>(core_, ticket_, delivery_);
    return completion{std::make_unique<node_slot>(later_)};
  }
  void remember(std::string so_far) override {
    if (auto const core = core_.lock()) core->remember(*ticket_, std::move(so_far));
  }

  [[nodiscard]] std::shared_ptr<async_call> const& later() const noexcept { return later_; }

 private:
  std::weak_ptr<node_core> core_;
  ticket_ptr const& ticket_;
  delivery const& delivery_;
  std::shared_ptr<async_call> later_;
};

// What interceptors keep on the thread while the listener's function runs. The last one ends first.
class thread_scopes {
 public:
  thread_scopes() = default;
  thread_scopes(thread_scopes const&) = delete;
  thread_scopes& operator=(thread_scopes const&) = delete;
  ~thread_scopes() {
    while (!all_.empty()) all_.pop_back();
  }
  void add(std::shared_ptr<void> scope) {
    if (scope.use_count() > 0) all_.push_back(std::move(scope));  // it may have nothing but a deleter
  }

 private:
  std::vector<std::shared_ptr<void>> all_;
};

}  // namespace

delivery node_core::delivery_of(ticket const& t) const {
  auto const& retry = t.route != nullptr && t.route->options.retry ? *t.route->options.retry : settings_.retry;
  return {.event = t.event,
          .id = t.event.id(),
          .attempt = t.attempts + 1,
          .max_attempts = retry.max_attempts,
          .deadline = t.limit,
          .path = t.path,
          .maybe_duplicate = t.maybe_duplicate(),
          .stop = t.call.stop.get_token()};
}

// Returns true if the listener is to be called. Otherwise the exception of an interceptor is the result.
bool node_core::intercept(delivery const& d, std::size_t& begun, std::optional<result>& instead) {
  try {
    for (auto const& i : settings_.interceptors) {
      i->before(d);
      ++begun;
    }
    return true;
  } catch (...) {
    instead = result_of_current_exception();
    return false;
  }
}

void node_core::tell_interceptors(delivery const& d, std::size_t begun, result const& r) noexcept {
  while (begun-- > 0) {
    try {
      settings_.interceptors[begun]->after(d, r);
    } catch (std::exception const& e) {
      say(log_level::warning, std::string{"an interceptor failed after a delivery: "} + e.what(), "interceptor",
          {{"event", d.id}, {"type", d.event.type()}, {"error", e.what()}});
    } catch (...) {
      say(log_level::warning, "an interceptor threw something that is not an exception after a delivery", {},
          {{"event", d.id}, {"type", d.event.type()}});
    }
  }
}

void node_core::carry_out(assignment const& job) noexcept {
  if (job.first->route == nullptr || !job.first->route->batch) {
    if (auto v = deliver(job.first)) {
      observe(*job.first, v->answer);
      with_engine([&](engine& e) { e.finish(*job.first, std::move(*v), now()); });
    }
    return;
  }
  std::vector<ticket_ptr> all{job.first};
  all.insert(all.end(), job.rest.begin(), job.rest.end());
  auto verdicts = deliver_batch(all);
  for (std::size_t i = 0; i < all.size(); ++i) observe(*all[i], verdicts[i].answer);
  with_engine([&](engine& e) {
    for (std::size_t i = 0; i < all.size(); ++i) e.finish(*all[i], std::move(verdicts[i]), now());
  });
}

std::optional<result> node_core::call_listener(ticket const& t, delivery const& d, detail::call& call) {
  try {
    thread_scopes scopes;
    for (auto const& i : settings_.interceptors) scopes.add(i->around(d));
    if (t.route == nullptr) return unroutable_answer(d.event);
    return t.route->handler->handle(d, call);
  } catch (...) {
    return result_of_current_exception();
  }
}

std::optional<call_result> node_core::deliver(ticket_ptr const& t) noexcept {
  try {
    delivery const d = delivery_of(*t);
    node_call call{weak_from_this(), t, d};
    std::size_t begun = 0;
    std::optional<result> r;
    if (intercept(d, begun, r)) r = call_listener(*t, d, call);
    if (!r && call.later()) {
      wait_for_answer(call.later(), begun);
      return std::nullopt;
    }
    if (!r) r = failed{"the listener gave no answer"};
    tell_interceptors(d, begun, *r);
    return call_result{std::move(*r), std::move(call.progress)};
  } catch (...) {
    return call_result{};  // no memory even for the reason
  }
}

std::vector<result> node_core::answers_of(route const& where, std::span<delivery const> batch) {
  std::optional<result> all;
  try {
    auto answers = where.batch->handle(batch);
    if (answers.size() == batch.size()) return answers;
    throw detail::wrong_number_of_results(answers.size(), batch.size());
  } catch (...) {
    all = result_of_current_exception();
  }
  return std::vector<result>(batch.size(), *all);
}

std::vector<call_result> node_core::deliver_batch(std::span<ticket_ptr const> tickets) noexcept {
  std::vector<call_result> verdicts(tickets.size());
  try {
    std::vector<delivery> batch;
    std::vector<std::size_t> begun(tickets.size()), places;
    std::vector<std::optional<result>> answers(tickets.size());
    for (std::size_t i = 0; i < tickets.size(); ++i) {
      delivery d = delivery_of(*tickets[i]);
      if (!intercept(d, begun[i], answers[i])) continue;
      batch.push_back(std::move(d));
      places.push_back(i);
    }
    if (!batch.empty()) {
      auto given = answers_of(*tickets.front()->route, batch);
      for (std::size_t i = 0; i < given.size(); ++i) answers[places[i]] = std::move(given[i]);
    }
    for (std::size_t i = 0; i < tickets.size(); ++i) {
      tell_interceptors(delivery_of(*tickets[i]), begun[i], *answers[i]);
      verdicts[i].answer = std::move(*answers[i]);
    }
  } catch (...) {
    for (auto& v : verdicts) v.answer = failed{};  // no memory even for the reasons
  }
  return verdicts;
}

// The listener's function has returned without an answer: from here on the call has no thread.
void node_core::wait_for_answer(std::shared_ptr<async_call> const& call, std::size_t begun) noexcept {
  answer_entry entry{call};
  std::unique_lock lock{mutex_};
  call->begun = begun;
  call->returned = true;
  if (call->dropped && !call->answer) call->answer = dropped_completion();
  if (call->answer) enqueue_answer(entry);  // before `detach`: nothing begins behind an event that was refused
  engine_.detach(*call->ticket, now());
  publish(lock);
}

void node_core::answered(answer_entry& entry, result&& r, std::optional<std::string>&& progress) noexcept {
  {
    auto& call = *entry.front();
    std::lock_guard const lock{mutex_};
    if (call.answer || answers_refused_) return;
    call.answer = std::move(r);
    call.progress = std::move(progress);
    if (!call.returned) return;  // its worker will see it
    enqueue_answer(entry);
  }
  wake_one(loop::work);
}

void node_core::dropped(answer_entry& entry) noexcept {
  {
    std::lock_guard const lock{mutex_};
    entry.front()->dropped = true;
    if (!entry.front()->returned) return;  // perhaps it throws: that would say more
  }
  answered(entry, dropped_completion(), {});
}

void node_core::remember(ticket& t, std::string&& progress) noexcept {
  std::lock_guard const lock{mutex_};
  engine_.remember(t, std::move(progress));
}

// Under the lock.
void node_core::enqueue_answer(answer_entry& entry) noexcept {
  auto const& call = *entry.front();
  engine_.answer_arrived(*call.ticket, std::holds_alternative<done_t>(call.answer->value()));
  answers_.splice(answers_.end(), entry);
}

bool node_core::take_answer() noexcept {
  answer_entry one;
  {
    std::lock_guard const lock{mutex_};
    if (answers_.empty()) return false;
    one.splice(one.end(), answers_, answers_.begin());
    if (!answers_.empty()) wake_one(loop::work);
  }
  auto& call = *one.front();
  tell_interceptors(call.delivery, call.begun, *call.answer);
  observe(*call.ticket, *call.answer);
  with_engine([&](engine& e) { e.finish(*call.ticket, final_result(call), now()); });
  return true;
}

call_result node_core::final_result(async_call& call) noexcept {
  return {std::move(*call.answer), std::move(call.progress)};
}

void node_core::refuse_answers() noexcept {
  std::lock_guard const lock{mutex_};
  answers_refused_ = true;
}

}  // namespace outbox::inline v0::core

#include <deque>
#include <mutex>
#include <outbox/error.hpp>
#include <outbox/testing.hpp>

namespace outbox::inline v0::testing {

struct faulty_store::state {
  std::shared_ptr<spi::store> behind;
  oracle next;
  mutable std::mutex mutex;
  std::deque<std::function<void()>> late;

  fault fault_of(operation what) {
    std::lock_guard const lock{mutex};
    return next ? next(what) : fault::none;
  }

  // Makes the call as the fault says. `call` must own what it needs: it may run long after this returned.
  template <class F>
  auto run(operation what, F call) -> decltype(call()) {
    switch (fault_of(what)) {
      case fault::none: return call();
      case fault::before: break;
      case fault::after: call(); break;
      case fault::later: {
        std::lock_guard const lock{mutex};
        late.emplace_back([call] { static_cast<void>(call()); });
        break;
      }
      case fault::refused: throw error{errc::store_failure, "refused on purpose"};
    }
    throw error{errc::unavailable, "the store is away on purpose"};
  }
};

faulty_store::faulty_store(std::shared_ptr<outbox::v0::store> behind, oracle next)
    : forwarding_store{behind}, state_{std::make_shared<state>()} {
  state_->behind = {behind, &behind->backend()};
  state_->next = std::move(next);
}
faulty_store::~faulty_store() = default;

std::size_t faulty_store::late() const noexcept {
  std::lock_guard const lock{state_->mutex};
  return state_->late.size();
}

bool faulty_store::run_late() {
  std::function<void()> call;
  {
    std::lock_guard const lock{state_->mutex};
    if (state_->late.empty()) return false;
    call = std::move(state_->late.front());
    state_->late.pop_front();
  }
  try {
    call();
  } catch (std::exception const&) {  // NOLINT(bugprone-empty-catch): the caller was told long ago that it failed
  }
  return true;
}

spi::claim_reply faulty_store::claim(spi::claim_request const& request) {
  return state_->run(operation::claim, [s = state_->behind, request] { return s->claim(request); });
}

spi::settle_reply faulty_store::settle(std::span<spi::settlement const> items) {
  std::vector<spi::settlement> copy{items.begin(), items.end()};
  return state_->run(operation::settle, [s = state_->behind, copy = std::move(copy)] { return s->settle(copy); });
}

std::vector<bool> faulty_store::renew(std::span<spi::row_handle const> rows, std::chrono::milliseconds lease) {
  std::vector<spi::row_handle> copy{rows.begin(), rows.end()};
  return state_->run(operation::renew,
                     [s = state_->behind, copy = std::move(copy), lease] { return s->renew(copy, lease); });
}

std::vector<spi::place> faulty_store::places(std::span<std::string const> ids) {
  return state_->run(operation::places, [s = state_->behind, all = std::vector<std::string>{ids.begin(), ids.end()}] {
    return s->places(all);
  });
}

std::size_t faulty_store::release(std::span<owner_token const> tokens, std::chrono::milliseconds lease) {
  return state_->run(operation::release,
                     [s = state_->behind, t = std::vector<owner_token>{tokens.begin(), tokens.end()}, lease] {
                       return s->release(t, lease);
                     });
}

// A lock whose statements can fail too. What is late finds the lock gone if its holder is.
class faulty_store::faulty_lock final : public spi::dispatch_lock {
 public:
  faulty_lock(std::shared_ptr<state> s, std::shared_ptr<spi::dispatch_lock> behind)
      : state_{std::move(s)}, behind_{std::move(behind)} {}
  bool held() const noexcept override { return behind_->held(); }
  std::size_t expire_others() override {
    return state_->run(operation::expire_others, [lock = std::weak_ptr{behind_}]() -> std::size_t {
      auto const held = lock.lock();
      return held ? held->expire_others() : 0;
    });
  }
  bool renew() override {
    return state_->run(operation::renew_lock, [lock = std::weak_ptr{behind_}] {
      auto const held = lock.lock();
      return held && held->renew();
    });
  }

 private:
  std::shared_ptr<state> state_;
  std::shared_ptr<spi::dispatch_lock> behind_;
};

std::unique_ptr<spi::dispatch_lock> faulty_store::try_dispatch_lock(std::string_view incarnation,
                                                                    std::chrono::milliseconds lease) {
  auto lock = state_->run(operation::dispatch_lock, [s = state_->behind, i = std::string{incarnation}, lease] {
    return s->try_dispatch_lock(i, lease);
  });
  return lock ? std::make_unique<faulty_lock>(state_, std::move(lock)) : nullptr;
}

void faulty_store::heartbeat(node_row const& node) {
  state_->run(operation::heartbeat, [s = state_->behind, node] { s->heartbeat(node); });
}

void faulty_store::retire(std::string_view incarnation) {
  state_->run(operation::retire, [s = state_->behind, i = std::string{incarnation}] { s->retire(i); });
}

std::size_t faulty_store::purge(spi::purge_request const& request) {
  return state_->run(operation::purge, [s = state_->behind, request] { return s->purge(request); });
}

std::size_t faulty_store::purge_by_age(spi::age_purge_request const& request) {
  return state_->run(operation::purge, [s = state_->behind, request] { return s->purge_by_age(request); });
}

std::vector<row_view> faulty_store::list(event_filter const& filter, spi::list_order order, std::size_t limit) {
  return state_->run(operation::dead,
                     [s = state_->behind, filter, order, limit] { return s->list(filter, order, limit); });
}

std::uint64_t faulty_store::count(event_filter const& filter, std::uint64_t up_to) {
  return state_->run(operation::dead, [s = state_->behind, filter, up_to] { return s->count(filter, up_to); });
}

std::size_t faulty_store::replay(event_filter const& filter, std::size_t limit) {
  return state_->run(operation::replay, [s = state_->behind, filter, limit] { return s->replay(filter, limit); });
}

spi::table_settings faulty_store::settings() {
  return state_->run(operation::pause, [s = state_->behind] { return s->settings(); });
}

bool faulty_store::pause(route_pause const& what) {
  return state_->run(operation::pause, [s = state_->behind, what] { return s->pause(what); });
}

bool faulty_store::resume(route_pause const& what) {
  return state_->run(operation::pause, [s = state_->behind, what] { return s->resume(what); });
}

}  // namespace outbox::inline v0::testing

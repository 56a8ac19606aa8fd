#include "sqlite/fork_gate.hpp"

#include <pthread.h>

#include <atomic>
#include <outbox/event.hpp>
#include <utility>

#include "core/base/fork_guard.hpp"

namespace outbox::inline v0::sqlite {
namespace {

constinit std::atomic<int> threads_inside = 0;
constinit std::atomic<int> forks = 0;  // under way
constinit thread_local int depth = 0;  // how many objects of this thread exist

void leave() noexcept {
  --threads_inside;
  if (forks > 0) threads_inside.notify_all();
}

void enter() noexcept {
  while (true) {
    for (int n = forks; n > 0; n = forks) forks.wait(n);
    ++threads_inside;
    if (forks == 0) return;  // a fork that begins now sees this thread
    leave();
  }
}

// Two threads that both fork inside SQLite, in callbacks for instance, must not wait for each other.
void before_fork() noexcept {
  ++forks;
  if (depth > 0) leave();
  for (int n = threads_inside; n > 0; n = threads_inside) threads_inside.wait(n);
}

void after_fork_in_parent() noexcept {
  if (depth > 0) ++threads_inside;
  if (--forks == 0) forks.notify_all();
}

void after_fork_in_child() noexcept {
  threads_inside = depth > 0 ? 1 : 0;
  forks = 0;
}

// Once per process. It fails only for want of memory: then forks do not wait.
//
// What is registered last runs first before a fork. So the locks that the core holds across a fork must be registered
// before: a thread inside may wait for a transaction whose thread needs one of them.
void install() noexcept {
  static int const failed = [] {
    static_cast<void>(core::fork_guard::forks());
    static_cast<void>(new_event_id());
    return ::pthread_atfork(&before_fork, &after_fork_in_parent, &after_fork_in_child);
  }();
  static_cast<void>(failed);
}

}  // namespace

inside_sqlite::inside_sqlite() noexcept {
  install();
  if (depth == 0) enter();
  ++depth;
}

inside_sqlite::~inside_sqlite() {
  if (--depth == 0) leave();
}

outside_sqlite::outside_sqlite() noexcept : depth_{std::exchange(depth, 0)} {
  if (depth_ > 0) leave();
}

outside_sqlite::~outside_sqlite() {
  if (depth_ > 0) enter();
  depth = depth_;
}

bool fork_under_way() noexcept { return forks > 0; }

}  // namespace outbox::inline v0::sqlite

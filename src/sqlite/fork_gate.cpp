#include "sqlite/fork_gate.hpp"

#include <pthread.h>

#include <atomic>

namespace outbox::inline v0::sqlite {
namespace {

constinit std::atomic<int> threads_inside = 0;
constinit std::atomic<int> forks_under_way = 0;
constinit thread_local int depth = 0;  // how many objects this thread has made

void leave() noexcept {
  --threads_inside;
  if (forks_under_way > 0) threads_inside.notify_all();
}

// A thread that forks inside SQLite, in a callback for instance, must not wait for itself.
void wait_for_others() noexcept {
  ++forks_under_way;
  int const mine = depth > 0 ? 1 : 0;
  for (int n = threads_inside; n > mine; n = threads_inside) threads_inside.wait(n);
}

void open_in_parent() noexcept {
  if (--forks_under_way == 0) forks_under_way.notify_all();
}

void open_in_child() noexcept {
  threads_inside = depth > 0 ? 1 : 0;
  forks_under_way = 0;
}

// Once per process. It fails only for want of memory: then forks do not wait.
void install() noexcept {
  static int const failed = ::pthread_atfork(&wait_for_others, &open_in_parent, &open_in_child);
  static_cast<void>(failed);
}

}  // namespace

inside_sqlite::inside_sqlite() noexcept {
  if (depth++ > 0) return;
  install();
  while (true) {
    for (int n = forks_under_way; n > 0; n = forks_under_way) forks_under_way.wait(n);
    ++threads_inside;
    if (forks_under_way == 0) return;  // a fork that begins now sees this thread
    leave();
  }
}

inside_sqlite::~inside_sqlite() {
  if (--depth == 0) leave();
}

}  // namespace outbox::inline v0::sqlite

#include "sqlite/change_watch.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <outbox/error.hpp>
#include <system_error>
#include <thread>

#include "core/base/thread_name.hpp"
#include "sqlite/file_events.hpp"

namespace outbox::inline v0::sqlite {
namespace {

// Ends a wait from another thread.
class waker {
 public:
  waker() {
#ifdef __linux__
    int const failed = ::pipe2(ends_.data(), O_CLOEXEC);
#else
    int const failed = ::pipe(ends_.data());
    for (int const end : ends_) ::fcntl(end, F_SETFD, FD_CLOEXEC);
#endif
    if (failed != 0) throw std::system_error{errno, std::generic_category()};
  }
  waker(waker const&) = delete;
  waker& operator=(waker const&) = delete;
  ~waker() {
    for (int const end : ends_) ::close(end);
  }
  void wake() const noexcept {
    while (::write(ends_[1], "", 1) < 0 && errno == EINTR) {
    }
  }
  [[nodiscard]] int descriptor() const noexcept { return ends_[0]; }

 private:
  std::array<int, 2> ends_{};
};

enum class woken { to_check, to_quit };

// The time that poll() takes is in milliseconds, and the quick checks are faster.
::timespec rounded(watch_limits::duration d) noexcept {
  auto const s = std::chrono::floor<std::chrono::seconds>(d);
  return {static_cast<std::time_t>(s.count()), static_cast<long>(std::chrono::nanoseconds{d - s}.count())};
}

woken wait(waker const& quit, file_events& events, watch_pace const& pace) noexcept {
  std::array<::pollfd, 2> fds{{{quit.descriptor(), POLLIN, 0}, {events.descriptor(), POLLIN, 0}}};
  bool const listens = pace.may_wake() && events.listening();
#ifdef __linux__
  auto const longest = rounded(pace.delay());
  ::ppoll(fds.data(), listens ? 2 : 1, &longest, nullptr);
#else
  ::poll(fds.data(), listens ? 2 : 1,
         static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(pace.delay()).count()));
#endif
  return fds[0].revents != 0 ? woken::to_quit : woken::to_check;
}

}  // namespace

// The thread. It ends with this object, except in a forked child: there it never was, and what it shares with the
// threads of the parent may be locked for ever, so the child leaves all of it alone.
class change_watch::watcher {
 public:
  watcher(std::string const& log, watch_limits const& limits, reader read, std::shared_ptr<spi::change_signal> changes)
      : shared_{std::make_unique<shared>(log, limits)} {
    // Both here, not on the thread: a change after `subscribe()` has returned must be seen.
    shared_->events.listen();
    auto const first = read();
    shared_->thread = std::thread{[s = shared_.get(), read = std::move(read), changes = std::move(changes), first] {
      core::set_thread_name("outbox-watch");
      s->loop(read, *changes, first);
    }};
  }
  watcher(watcher const&) = delete;
  watcher& operator=(watcher const&) = delete;
  ~watcher() {
    if (::getpid() != shared_->process) {
      static_cast<void>(shared_.release());
      return;
    }
    shared_->quit.wake();
    shared_->thread.join();
  }

 private:
  struct shared {
    shared(std::string const& log, watch_limits const& limits) : events{log}, pace{limits} {}

    ::pid_t const process = ::getpid();
    waker quit;
    file_events events;
    watch_pace pace;
    std::thread thread;

    void loop(reader const& read, spi::change_signal& changes, std::optional<std::int64_t> last) {
      if (!events.listening()) pace.checked(false, true);
      while (true) {
        if (wait(quit, events, pace) == woken::to_quit) return;
        // Before the check: a write that is heard later belongs to the next one.
        if (events.listening() ? events.take() : !pace.in_a_stream() && events.listen()) pace.heard();
        auto const version = read();
        if (!version) {
          pace.failed();
          continue;
        }
        bool const changed = version != last;
        pace.checked(changed, !events.listening());
        if (!changed) continue;
        if (pace.in_a_stream()) events.stop();
        last = version;
        changes.notify();
      }
    }
  };

  std::unique_ptr<shared> shared_;
};

// Destroyed from the last member to the first: the callback is removed before the thread may end.
class change_watch::registration {
 public:
  registration(std::shared_ptr<watcher> w, spi::subscription s) : watcher_{std::move(w)}, subscription_{std::move(s)} {}

 private:
  std::shared_ptr<watcher> watcher_;
  spi::subscription subscription_;
};

change_watch::change_watch(std::string log, watch_limits const& limits) : log_{std::move(log)}, limits_{limits} {}

spi::subscription change_watch::subscribe(std::function<void()> callback, reader read) {
  auto subscribed = changes_->subscribe(std::move(callback));
  std::lock_guard const lock{mutex_};
  auto w = watcher_.lock();
  try {
    if (!w) watcher_ = w = std::make_shared<watcher>(log_, limits_, std::move(read), changes_);
  } catch (std::system_error const& e) {
    throw error{errc::unavailable, std::string{"cannot start the thread that watches the database file: "} + e.what()};
  }
  return spi::subscription{std::make_shared<registration>(std::move(w), std::move(subscribed))};
}

}  // namespace outbox::inline v0::sqlite

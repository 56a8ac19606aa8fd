#include "sqlite/change_watch.hpp"

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <outbox/error.hpp>
#include <system_error>
#include <thread>

namespace outbox::inline v0::sqlite {
namespace {

constexpr std::chrono::milliseconds look_every{10};

}  // namespace

// The thread. It ends with this object, except in a forked child: there it never was, and what it shares with the
// threads of the parent may be locked for ever, so the child leaves all of it alone.
class change_watch::looker {
 public:
  looker(reader read, std::shared_ptr<spi::change_signal> changes) : shared_{std::make_unique<shared>()} {
    // Read here, not by the thread: a change after `subscribe()` has returned must be seen.
    auto const first = read();
    shared_->thread = std::thread{[s = shared_.get(), read = std::move(read), changes = std::move(changes), first] {
      s->loop(read, *changes, first);
    }};
  }
  looker(looker const&) = delete;
  looker& operator=(looker const&) = delete;
  ~looker() {
    if (::getpid() != shared_->process) {
      static_cast<void>(shared_.release());
      return;
    }
    {
      std::lock_guard const lock{shared_->mutex};
      shared_->quit = true;
    }
    shared_->wake.notify_one();
    shared_->thread.join();
  }

 private:
  struct shared {
    ::pid_t const process = ::getpid();
    std::mutex mutex;
    std::condition_variable wake;
    bool quit = false;
    std::thread thread;

    void loop(reader const& read, spi::change_signal& changes, std::optional<std::int64_t> last) {
      std::unique_lock lock{mutex};
      while (!wake.wait_for(lock, look_every, [&] { return quit; })) {
        lock.unlock();
        if (auto const version = read(); version && version != last) {
          last = version;
          changes.notify();
        }
        lock.lock();
      }
    }
  };

  std::unique_ptr<shared> shared_;
};

// Destroyed from the last member to the first: the callback is removed before the thread may end.
class change_watch::registration {
 public:
  registration(std::shared_ptr<looker> l, spi::subscription s) : looker_{std::move(l)}, subscription_{std::move(s)} {}

 private:
  std::shared_ptr<looker> looker_;
  spi::subscription subscription_;
};

spi::subscription change_watch::subscribe(std::function<void()> callback, reader read) {
  auto subscribed = changes_->subscribe(std::move(callback));
  std::lock_guard const lock{mutex_};
  auto l = looker_.lock();
  try {
    if (!l) looker_ = l = std::make_shared<looker>(std::move(read), changes_);
  } catch (std::system_error const& e) {
    throw error{errc::unavailable, std::string{"cannot start the thread that watches the database file: "} + e.what()};
  }
  return spi::subscription{std::make_shared<registration>(std::move(l), std::move(subscribed))};
}

}  // namespace outbox::inline v0::sqlite

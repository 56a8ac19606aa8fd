#include <unistd.h>

#include <list>
#include <mutex>
#include <outbox/error.hpp>
#include <outbox/spi/subscription.hpp>

namespace outbox::inline v0::spi {

// The lock is held while callbacks run, so a thread that removes one waits until it has returned. A child may inherit
// the lock while a thread of the parent holds it: there it is never taken.
class change_signal::state {
 public:
  using callbacks = std::list<std::function<void()>>;

  [[nodiscard]] callbacks::iterator add(std::function<void()> callback) {
    std::lock_guard const lock{mutex_};
    return callbacks_.insert(callbacks_.end(), std::move(callback));
  }

  void remove(callbacks::iterator which) noexcept {
    if (in_child()) return;
    callbacks removed;  // destroyed after the lock: the callback may own something
    std::lock_guard const lock{mutex_};
    removed.splice(removed.end(), callbacks_, which);
  }

  void call_all() noexcept {
    if (in_child()) return;
    std::lock_guard const lock{mutex_};
    for (auto const& callback : callbacks_) {
      try {
        callback();
      } catch (...) {  // NOLINT(bugprone-empty-catch): one subscriber must not harm the others, nor the writer
      }
    }
  }

 private:
  [[nodiscard]] bool in_child() const noexcept { return ::getpid() != process_; }

  ::pid_t const process_ = ::getpid();
  std::mutex mutex_;
  callbacks callbacks_;
};

class change_signal::registration {
 public:
  registration(std::shared_ptr<state> of, std::function<void()> callback)
      : of_{std::move(of)}, which_{of_->add(std::move(callback))} {}
  registration(registration const&) = delete;
  registration& operator=(registration const&) = delete;
  ~registration() { of_->remove(which_); }

 private:
  std::shared_ptr<state> of_;
  state::callbacks::iterator which_;
};

change_signal::change_signal() : state_{std::make_shared<state>()} {}
change_signal::~change_signal() = default;

subscription change_signal::subscribe(std::function<void()> callback) {
  if (!callback) throw error::about(errc::invalid_option, "callback", "is empty");
  return subscription{std::make_shared<registration>(state_, std::move(callback))};
}

void change_signal::notify() noexcept { state_->call_all(); }

}  // namespace outbox::inline v0::spi

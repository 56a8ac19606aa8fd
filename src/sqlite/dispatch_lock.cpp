#include "sqlite/dispatch_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <outbox/error.hpp>
#include <system_error>

#include "core/base/fork_guard.hpp"

namespace outbox::inline v0::sqlite {
namespace {

// How often a lock file that vanishes, or leaks into a child, is opened again before the node stands by for a while.
constexpr int most_attempts = 10;

class descriptor {
 public:
  explicit descriptor(int fd) noexcept : fd_{fd} {}
  descriptor(descriptor const&) = delete;
  descriptor& operator=(descriptor const&) = delete;
  ~descriptor() { ::close(fd_); }
  [[nodiscard]] int get() const noexcept { return fd_; }

 private:
  int fd_;
};

// The lock belongs to an open file. The next process that opens the path locks the file that is there then, so a file
// that was removed or replaced no longer keeps other processes out.
class file_lock final : public spi::dispatch_lock {
 public:
  file_lock(int fd, std::string path, std::function<std::size_t()> expire)
      : file_{fd}, guard_{fd}, path_{std::move(path)}, expire_{std::move(expire)} {}

  // Given back explicitly: a child that was forked a moment ago may have the file open for an instant longer.
  ~file_lock() override {
    if (!guard_.in_child()) ::flock(file_.get(), LOCK_UN);
  }

  bool held() const noexcept override {
    if (!lost_ && (guard_.in_child() || !is_at_its_path())) lost_ = true;
    return !lost_;
  }

  std::size_t expire_others() override {
    if (!held()) throw error{errc::unavailable, "the lock file '" + path_ + "' was removed or replaced"};
    return expire_();
  }

  std::string key() const override { return path_; }

  // False if another node has it.
  [[nodiscard]] bool try_lock() {
    if (::flock(file_.get(), LOCK_EX | LOCK_NB) == 0) return true;
    if (errno == EWOULDBLOCK) return false;
    throw error{errc::unavailable, "cannot lock '" + path_ + "': " + std::generic_category().message(errno)};
  }

 private:
  [[nodiscard]] bool is_at_its_path() const noexcept {
    struct ::stat ours {};
    struct ::stat there {};
    if (::fstat(file_.get(), &ours) != 0 || ours.st_nlink == 0) return false;
    if (::stat(path_.c_str(), &there) != 0) return errno != ENOENT && errno != ENOTDIR;
    return ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
  }

  descriptor file_;
  core::fork_guard guard_;
  std::string path_;
  std::function<std::size_t()> expire_;
  mutable std::atomic<bool> lost_ = false;
};

std::unique_ptr<file_lock> open_lock_file(std::string const& path, std::function<std::size_t()> expire) {
  int const fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) {
    throw error{errc::unavailable,
                "cannot open the lock file '" + path + "': " + std::generic_category().message(errno)};
  }
  return std::make_unique<file_lock>(fd, path, std::move(expire));
}

}  // namespace

std::unique_ptr<spi::dispatch_lock> try_lock_file(std::string const& path, std::function<std::size_t()> expire) {
  for (int attempt = 0; attempt < most_attempts; ++attempt) {
    auto const forks = core::fork_guard::forks();
    auto lock = open_lock_file(path, expire);
    if (forks != core::fork_guard::forks()) continue;  // a child may have the file open, and would share the lock
    // flock belongs to the open file, not to the process: two nodes of one process exclude each other too.
    if (!lock->try_lock()) return nullptr;
    if (lock->held()) return lock;  // else it was removed between the opening and the locking
  }
  return nullptr;
}

}  // namespace outbox::inline v0::sqlite

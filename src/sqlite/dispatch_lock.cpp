#include "sqlite/dispatch_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <outbox/error.hpp>
#include <system_error>

namespace outbox::inline v0::sqlite {
namespace {

class file_lock final : public dispatch_lock {
 public:
  file_lock(int fd, std::function<std::size_t()> expire) : fd_{fd}, expire_{std::move(expire)} {}
  ~file_lock() override { ::close(fd_); }

  bool held() const noexcept override { return true; }
  std::size_t expire_others() override { return expire_(); }

 private:
  int fd_;
  std::function<std::size_t()> expire_;
};

}  // namespace

std::unique_ptr<dispatch_lock> try_lock_file(std::string const& path, std::function<std::size_t()> expire) {
  auto const failed = [&](char const* what) {
    return error{errc::unavailable, std::string{what} + " '" + path + "': " + std::generic_category().message(errno)};
  };
  int const fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) throw failed("cannot open the lock file");
  auto lock = std::make_unique<file_lock>(fd, std::move(expire));
  // flock belongs to the open file, not to the process: two nodes of one process exclude each other too.
  if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return lock;
  if (errno == EWOULDBLOCK) return nullptr;
  throw failed("cannot lock");
}

}  // namespace outbox::inline v0::sqlite

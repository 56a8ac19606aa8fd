#include "sqlite/file_events.hpp"

#ifdef __linux__
#include <sys/inotify.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#endif

namespace outbox::inline v0::sqlite {

#ifdef __linux__
namespace {

// The file systems on which another machine or a program writes without the kernel's knowledge, by the numbers of
// statfs(2): NFS, SMB, CIFS, SMB2, FUSE, 9P, Ceph, AFS, Coda, VirtualBox.
constexpr std::array<std::uint32_t, 10> remote{0x6969,     0x517B,     0xFF534D42, 0xFE534D42, 0x65735546,
                                               0x01021997, 0x00C36400, 0x5346414F, 0x73757245, 0x786F4256};

bool is_remote(std::string const& file) noexcept {
  struct ::statfs s {};
  return ::statfs(file.c_str(), &s) == 0 &&
         std::ranges::find(remote, static_cast<std::uint32_t>(s.f_type)) != remote.end();
}

// IN_ATTRIB: the name of a file that is still open was removed.
constexpr std::uint32_t interesting = IN_MODIFY | IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF;

}  // namespace

file_events::file_events(std::string file) : file_{std::move(file)}, local_{!is_remote(file_)} {}

file_events::~file_events() {
  guard_.reset();
  if (fd_ >= 0) ::close(fd_);
}

// Tried again each time: descriptors may have been short.
bool file_events::open() noexcept {
  if (fd_ >= 0 || !local_) return fd_ >= 0;
  fd_ = ::inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  if (fd_ >= 0) guard_.emplace(fd_);
  return fd_ >= 0;
}

bool file_events::listen() noexcept {
  if (!open()) return false;
  int const watch = ::inotify_add_watch(fd_, file_.c_str(), interesting);  // the same number for the same file
  if (watch_ >= 0 && watch_ != watch) ::inotify_rm_watch(fd_, watch_);
  watch_ = watch;
  return listening();
}

void file_events::stop() noexcept {
  if (watch_ >= 0) ::inotify_rm_watch(fd_, watch_);
  watch_ = -1;
}

bool file_events::take() noexcept {
  alignas(::inotify_event) std::array<char, 4096> buffer;
  bool written = false;
  bool moved = false;
  while (true) {
    auto const n = ::read(fd_, buffer.data(), buffer.size());
    if (n <= 0) break;
    for (std::size_t at = 0; at < static_cast<std::size_t>(n);) {
      ::inotify_event e{};
      std::memcpy(&e, buffer.data() + at, sizeof e);
      written = written || (e.mask & (IN_MODIFY | IN_Q_OVERFLOW)) != 0;
      moved = moved || (e.wd == watch_ && (e.mask & ~std::uint32_t{IN_MODIFY}) != 0);
      at += sizeof e + e.len;
    }
  }
  if (moved) listen();  // unless only its rights or times have changed, that is another file, or none
  return written;
}
#else
file_events::file_events(std::string file) : file_{std::move(file)}, local_{false} {}
file_events::~file_events() = default;
bool file_events::open() noexcept { return false; }
bool file_events::listen() noexcept { return false; }
void file_events::stop() noexcept {}
bool file_events::take() noexcept { return false; }
#endif

}  // namespace outbox::inline v0::sqlite

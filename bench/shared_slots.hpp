// Numbers that the benchmark and its probes share.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace bench {

class shared_slots {
 public:
  /// Makes `count` of them, all 0.
  explicit shared_slots(std::size_t count) : fd_{::memfd_create("outbox_bench", MFD_CLOEXEC)}, count_{count} {
    if (fd_ < 0 || ::ftruncate(fd_, static_cast<::off_t>(bytes())) != 0) throw std::runtime_error{"no shared memory"};
    map();
  }
  /// Those of another process, by their `path()`.
  shared_slots(std::string const& path, std::size_t count)
      : fd_{::open(path.c_str(), O_RDWR | O_CLOEXEC)}, count_{count} {
    if (fd_ < 0) throw std::runtime_error{"cannot open " + path};
    map();
  }
  shared_slots(shared_slots const&) = delete;
  shared_slots& operator=(shared_slots const&) = delete;
  ~shared_slots() {
    ::munmap(at_, bytes());
    ::close(fd_);
  }

  [[nodiscard]] std::string path() const {
    return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(fd_);
  }
  [[nodiscard]] std::size_t size() const noexcept { return count_; }
  [[nodiscard]] std::atomic<std::int64_t>& operator[](std::size_t i) const noexcept { return at_[i]; }

 private:
  [[nodiscard]] std::size_t bytes() const noexcept { return count_ * sizeof(std::atomic<std::int64_t>); }
  void map() {
    auto* const p = ::mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd_, 0);
    if (p == MAP_FAILED) throw std::runtime_error{"cannot map shared memory"};
    at_ = static_cast<std::atomic<std::int64_t>*>(p);
  }

  int fd_;
  std::size_t count_;
  std::atomic<std::int64_t>* at_ = nullptr;
};

/// The number at the end of an id such as "0000000000000000-17".
[[nodiscard]] inline std::size_t number_of(std::string const& id) { return std::stoul(id.substr(id.rfind('-') + 1)); }

}  // namespace bench

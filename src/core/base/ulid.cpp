#include "core/base/ulid.hpp"

#include <pthread.h>
#include <unistd.h>

#include <chrono>
#include <mutex>
#include <outbox/event.hpp>
#include <random>

namespace outbox::inline v0 {
namespace core {
namespace {

constexpr std::uint64_t max_milliseconds = (std::uint64_t{1} << 48U) - 1;

// The ids of one process. A forked child starts anew: two processes must not count on from the same random bits.
class ulid_source {
 public:
  ulid next() {
    auto const ms = static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch())
            .count());
    std::lock_guard const lock{mutex_};
    if (pid_ != ::getpid()) reseed();
    bool const fresh = (ms & max_milliseconds) > last_.milliseconds;  // else no random bits are used
    last_ = fresh ? next_ulid(last_, ms, static_cast<std::uint16_t>(random_()), random_()) : next_ulid(last_, ms, 0, 0);
    return last_;
  }

  // Around a fork: a child that is made while another thread has the lock would wait for that thread for ever.
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  void reseed() {
    std::random_device entropy;
    std::seed_seq seed{entropy(), entropy(), entropy(), entropy(), entropy(), entropy(), entropy(), entropy()};
    random_.seed(seed);
    last_ = {};
    pid_ = ::getpid();
  }

  std::mutex mutex_;
  ::pid_t pid_ = 0;
  std::mt19937_64 random_;  // NOLINT(cert-msc51-cpp): seeded before its first use
  ulid last_;
};

ulid_source& source() {
  static ulid_source one;
  return one;
}

}  // namespace

std::string to_string(ulid const& u) {
  static constexpr char alphabet[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
  // 128 bits as two halves, read from the right five bits at a time.
  std::uint64_t high = (u.milliseconds << 16U) | u.random_high;
  std::uint64_t low = u.random_low;
  std::string text(26, '0');
  for (std::size_t i = text.size(); i-- > 0;) {
    text[i] = alphabet[low & 31U];
    low = (low >> 5U) | (high << 59U);
    high >>= 5U;
  }
  return text;
}

std::string to_uuid(ulid const& u) {
  static constexpr char digits[] = "0123456789abcdef";
  // 48 bits of time, the version, 12 bits; the variant, 62 bits.
  std::uint64_t const bits_62_to_73 = ((std::uint64_t{u.random_high} << 2U) | (u.random_low >> 62U)) & 0xFFFU;
  std::uint64_t const high = (u.milliseconds << 16U) | 0x7000U | bits_62_to_73;
  std::uint64_t const low = (std::uint64_t{2} << 62U) | (u.random_low & ((std::uint64_t{1} << 62U) - 1));
  std::string text;
  for (int i = 0; i < 32; ++i) {
    if (i == 8 || i == 12 || i == 16 || i == 20) text += '-';
    auto const half = i < 16 ? high : low;
    text += digits[(half >> static_cast<unsigned>(60 - 4 * (i % 16))) & 15U];
  }
  return text;
}

ulid next_ulid(ulid const& last, std::uint64_t milliseconds, std::uint16_t random_high,
               std::uint64_t random_low) noexcept {
  milliseconds &= max_milliseconds;
  if (milliseconds > last.milliseconds) return {milliseconds, random_high, random_low};
  ulid next = last;
  if (++next.random_low == 0 && ++next.random_high == 0) ++next.milliseconds;  // borrows a millisecond
  return next;
}

}  // namespace core

namespace {

core::ulid next_id() {
  static int const failed =
      ::pthread_atfork([] { core::source().lock(); }, [] { core::source().unlock(); }, [] { core::source().unlock(); });
  static_cast<void>(failed);  // for want of memory only
  return core::source().next();
}

}  // namespace

std::string new_event_id() { return to_string(next_id()); }
std::string new_uuid() { return core::to_uuid(next_id()); }

}  // namespace outbox::inline v0

#include "redis/channel.hpp"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <limits>

#include "redis/encrypted.hpp"
#include "redis/socket.hpp"

namespace outbox::inline v0::redis {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// The unencrypted one.
class plain final : public channel {
 public:
  explicit plain(socket s) noexcept : socket_{std::move(s)} {}
  std::size_t read(std::span<char> into) override { return socket_.receive(into); }
  std::size_t write(std::string_view bytes) override { return socket_.send(bytes); }
  int descriptor() const noexcept override { return socket_.descriptor(); }

 private:
  socket socket_;
};

// As poll() takes it: rounded up, so that it does not return before the deadline.
int poll_timeout(deadline until) noexcept {
  if (until == deadline::max()) return -1;
  auto const left = std::chrono::ceil<milliseconds>(until - steady_clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, std::numeric_limits<int>::max()));
}

}  // namespace

deadline deadline_after(milliseconds t) noexcept {
  auto const now = steady_clock::now();
  bool const endless = t.count() <= 0 || t > std::chrono::floor<milliseconds>(deadline::max() - now);
  return endless ? deadline::max() : now + t;
}

bool is_over(deadline until) noexcept { return steady_clock::now() >= until; }

woken wait_for(int descriptor, short events, deadline until, int interrupt) noexcept {
  ::pollfd both[] = {{descriptor, events, 0}, {interrupt, POLLIN, 0}};
  while (true) {
    int const timeout = poll_timeout(until);
    int const n = ::poll(both, 2, timeout);            // a negative descriptor is left out
    if (n < 0 && errno != EINTR) return woken::ready;  // what is wrong shows itself at the next use
    if (n > 0) return both[0].revents != 0 ? woken::ready : woken::interrupted;
    if (n == 0 && timeout == 0) return woken::late;
  }
}

std::unique_ptr<channel> open_channel(address const& to, deadline until) {
  socket s{to, until};
  if (to.tls == tls::off) return std::make_unique<plain>(std::move(s));
  return std::make_unique<encrypted>(std::move(s), to, until);
}

}  // namespace outbox::inline v0::redis

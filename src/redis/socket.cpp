#include "redis/socket.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <outbox/error.hpp>
#include <system_error>

namespace outbox::inline v0::redis {
namespace {

using std::chrono::steady_clock;

std::string text_of_errno(int code) { return std::generic_category().message(code); }

[[noreturn]] void fail_to_connect(address const& to, std::string const& why) {
  throw error{errc::unavailable, "cannot connect to the server " + shown(to) + ": " + why};
}

// Closes it in the end, unless it is released.
class descriptor {
 public:
  explicit descriptor(int fd) noexcept : fd_{fd} {}
  descriptor(descriptor const&) = delete;
  descriptor& operator=(descriptor const&) = delete;
  ~descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  [[nodiscard]] int get() const noexcept { return fd_; }
  [[nodiscard]] int release() noexcept { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

// Returns a connected descriptor, or -1 and the reason in `problem`.
int try_to_connect(::sockaddr const* to, ::socklen_t size, deadline until, int& problem) {
  descriptor s{::socket(to->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  problem = errno;
  if (s.get() < 0) return -1;
  problem = ::connect(s.get(), to, size) == 0 ? 0 : errno;
  if (problem == EINPROGRESS || problem == EINTR) {
    ::socklen_t length = sizeof problem;
    if (wait_for(s.get(), POLLOUT, until) == woken::late) {
      problem = ETIMEDOUT;
    } else if (::getsockopt(s.get(), SOL_SOCKET, SO_ERROR, &problem, &length) != 0) {
      problem = errno;
    }
  }
  return problem == 0 ? s.release() : -1;
}

int connect_unix(address const& to, deadline until) {
  ::sockaddr_un a{};
  a.sun_family = AF_UNIX;
  to.socket.copy(a.sun_path, sizeof a.sun_path - 1);
  int problem = 0;
  int const s = try_to_connect(reinterpret_cast<::sockaddr*>(&a), sizeof a, until, problem);
  if (s < 0) fail_to_connect(to, text_of_errno(problem));
  return s;
}

using addresses = std::unique_ptr<::addrinfo, decltype(&::freeaddrinfo)>;

addresses look_up(address const& to) {
  ::addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  ::addrinfo* found = nullptr;
  int const code = ::getaddrinfo(to.host.c_str(), std::to_string(to.port).c_str(), &hints, &found);
  if (code != 0) fail_to_connect(to, code == EAI_SYSTEM ? text_of_errno(errno) : ::gai_strerror(code));
  return {found, &::freeaddrinfo};
}

// Commands are sent whole, so there is nothing to gather them for. A server whose machine has vanished is noticed
// within a minute or so, even where the link waits without a limit.
void set_options(int s) noexcept {
  auto const set = [&](int level, int name, int value) { ::setsockopt(s, level, name, &value, sizeof value); };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 30);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 10);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
}

// The first of several addresses may be one where packets vanish. It must not take the time of the others.
deadline share_of(deadline until, std::ptrdiff_t addresses_left) noexcept {
  if (until == deadline::max()) return until;
  auto const now = steady_clock::now();
  return now + std::max(until - now, steady_clock::duration{}) / addresses_left;
}

int connect_tcp(address const& to, deadline until) {
  auto const found = look_up(to);
  std::ptrdiff_t left = 0;
  for (auto const* a = found.get(); a != nullptr; a = a->ai_next) ++left;
  int problem = 0;
  for (auto const* a = found.get(); a != nullptr; a = a->ai_next) {
    int const s = try_to_connect(a->ai_addr, a->ai_addrlen, share_of(until, left--), problem);
    if (s < 0) continue;
    set_options(s);
    return s;
  }
  fail_to_connect(to, text_of_errno(problem));
}

}  // namespace

socket::socket(address const& to, deadline until)
    : name_{shown(to)}, descriptor_{to.socket.empty() ? connect_tcp(to, until) : connect_unix(to, until)} {}

socket::~socket() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void socket::fail(std::string const& why) const {
  throw error{errc::unavailable, "the connection to the server " + name_ + " was lost: " + why};
}

std::size_t socket::receive(std::span<char> into) const {
  while (true) {
    auto const n = ::recv(descriptor_, into.data(), into.size(), 0);
    if (n > 0) return static_cast<std::size_t>(n);
    if (n == 0) fail("the server closed it");
    if (errno == EAGAIN || errno == EWOULDBLOCK) return 0;
    if (errno != EINTR) fail(text_of_errno(errno));
  }
}

std::size_t socket::send(std::string_view bytes) const {
  while (true) {
    auto const n = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n >= 0) return static_cast<std::size_t>(n);
    if (errno == EAGAIN || errno == EWOULDBLOCK) return 0;
    if (errno != EINTR) fail(text_of_errno(errno));
  }
}

}  // namespace outbox::inline v0::redis

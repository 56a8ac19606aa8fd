#include "service_manager.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>

namespace outbox_tool {
namespace {

// The tool never changes its environment.
char const* variable(char const* name) noexcept { return std::getenv(name); }  // NOLINT(concurrency-mt-unsafe)

}  // namespace

void tell_service_manager(std::string const& message) noexcept {
  char const* const path = variable("NOTIFY_SOCKET");
  sockaddr_un to{};
  if (path == nullptr || (path[0] != '/' && path[0] != '@') || std::strlen(path) >= sizeof to.sun_path) return;
  to.sun_family = AF_UNIX;
  std::strcpy(to.sun_path, path);
  if (path[0] == '@') to.sun_path[0] = '\0';  // an abstract name
  int const fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  auto const size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + std::strlen(path));
  ::sendto(fd, message.data(), message.size(), MSG_NOSIGNAL, reinterpret_cast<sockaddr const*>(&to), size);
  ::close(fd);
}

void tell_reloading() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  auto const microseconds = now.tv_sec * 1'000'000 + now.tv_nsec / 1000;
  tell_service_manager("RELOADING=1\nMONOTONIC_USEC=" + std::to_string(microseconds));
}

std::optional<std::chrono::milliseconds> watchdog_interval() {
  char const* const microseconds = variable("WATCHDOG_USEC");
  char const* const pid = variable("WATCHDOG_PID");
  if (microseconds == nullptr || (pid != nullptr && std::strtol(pid, nullptr, 10) != ::getpid())) return std::nullopt;
  auto const n = std::strtoll(microseconds, nullptr, 10);
  if (n <= 0) return std::nullopt;
  return std::chrono::milliseconds{std::max(1LL, n / 2000)};
}

}  // namespace outbox_tool

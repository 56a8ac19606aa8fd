#include "cli/operator_name.hpp"

#include <pwd.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

namespace outbox_tool {

std::string operator_name() {
  std::string name;
  // NOLINTBEGIN(concurrency-mt-unsafe): the verbs that ask have one thread, and nothing changes the environment
  if (char const* const behind = std::getenv("SUDO_USER")) name = behind;
  if (name.empty()) {
    ::passwd const* const user = ::getpwuid(::getuid());
    name = user != nullptr ? user->pw_name : std::to_string(::getuid());
  }
  // NOLINTEND(concurrency-mt-unsafe)
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) == 0) name += "@" + std::string{host.data()};
  constexpr std::size_t longest = 128;
  return name.substr(0, longest);
}

}  // namespace outbox_tool

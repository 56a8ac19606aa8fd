#include "processor_time.hpp"

#include <unistd.h>

#include <ctime>
#include <fstream>
#include <sstream>
#include <string>

namespace bench {
namespace {

// What the postmaster has taken over from children that ended: in ticks, so a hundredth of a second each.
double ended_children(::pid_t pid) {
  std::ifstream in{"/proc/" + std::to_string(pid) + "/stat"};
  std::string text;
  std::getline(in, text);
  std::istringstream rest{text.substr(text.rfind(')') + 1)};
  std::string skipped;
  for (int field = 3; field < 16; ++field) rest >> skipped;  // cutime is the sixteenth
  double user = 0, system = 0;
  rest >> user >> system;
  return (user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

}  // namespace

double processor_seconds(::pid_t pid) {
  ::clockid_t clock{};
  ::timespec t{};
  if (::clock_getcpuclockid(pid, &clock) != 0 || ::clock_gettime(clock, &t) != 0) return 0;
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

double server_seconds(::pid_t postmaster, ::pid_t except) {
  auto const id = std::to_string(postmaster);
  std::ifstream children{"/proc/" + id + "/task/" + id + "/children"};
  double sum = processor_seconds(postmaster) + ended_children(postmaster);
  for (::pid_t child = 0; children >> child;) {
    if (child != except) sum += processor_seconds(child);
  }
  return sum;
}

}  // namespace bench

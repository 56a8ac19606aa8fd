#include "idle.hpp"

#include <filesystem>
#include <fstream>

#include "processor_time.hpp"

namespace bench {
namespace {

// Context switches of every thread that lives: each is an end of waiting, or of computing.
double switches_of(::pid_t pid) {
  double sum = 0;
  for (auto const& thread : std::filesystem::directory_iterator{"/proc/" + std::to_string(pid) + "/task"}) {
    std::ifstream status{thread.path() / "status"};
    for (std::string line; std::getline(status, line);) {
      if (line.find("ctxt_switches:") != std::string::npos) sum += std::stod(line.substr(line.find(':') + 1));
    }
  }
  return sum;
}

}  // namespace

rows idle_rows(settings const& s, std::string const& database, double most_wakeups, std::string const& what,
               ::pid_t node, shared_slots const& slots, write_event const& write) {
  using namespace std::chrono_literals;
  std::chrono::duration<double> const window{std::max(1.0, 10 * s.scale)};
  int const rounds = std::min(s.rounds, 3);
  std::vector<double> wakeups, cpu, first;
  std::this_thread::sleep_for(2s);  // what a start leaves to do
  for (int i = 0; i < rounds; ++i) {
    auto const switched = switches_of(node);
    auto const computed = processor_seconds(node);
    std::this_thread::sleep_for(window);
    wakeups.push_back((switches_of(node) - switched) / window.count());
    cpu.push_back((processor_seconds(node) - computed) / window.count() * 100);
    std::int64_t committed = 0;
    write(cross_id(i), [&] { committed = now_ns(); });
    auto const stamped = wait_for_stamp(slots, static_cast<std::size_t>(i));
    first.push_back(std::max(0.0, static_cast<double>(stamped - committed) * 1e-6));
    std::this_thread::sleep_for(1s);  // until it is idle again
  }
  auto const of = what + ", over windows of 10 s";
  return {alone({database + ".idle_wakeups", "1/s", at_most(most_wakeups),
                 "context switches of all threads of a process with " + of},
                wakeups),
          alone({database + ".idle_cpu", "%", at_most(0.1), "processor time of a process with " + of}, cpu),
          alone({database + ".idle_first_event", "ms", no_bar,
                 "the first event after such a window: commit() returned in another process until the listener is "
                 "entered"},
                first)};
}

}  // namespace bench

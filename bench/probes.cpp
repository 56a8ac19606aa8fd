#include "probes.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <functional>
#include <iostream>
#include <map>
#include <stdexcept>
#include <thread>

namespace bench {

int run_probe(std::string const& name, std::vector<std::string> const& arguments) {
  if (name.starts_with("rss.")) {
    memory_probe(name, arguments.at(0));
    return 0;
  }
  std::map<std::string, std::function<void(std::vector<std::string> const&)>> const known{
      {"drain", drain_probe},           {"postgres.node", postgres_node_probe}, {"postgres.loop", postgres_loop_probe},
      {"mysql.node", mysql_node_probe}, {"sqlite.node", sqlite_node_probe},     {"sqlite.loop", sqlite_loop_probe},
  };
  auto const found = known.find(name);
  if (found == known.end()) return 2;
  found->second(arguments);
  return 0;
}

bool tell_and_wait(std::string const& word) {
  std::cout << word << std::endl;
  std::string line;
  return static_cast<bool>(std::getline(std::cin, line));
}

probe::probe(std::string const& name, std::vector<std::string> const& arguments) : name_{name} {
  std::vector<std::string> words{"outbox_bench", "--probe", name};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (auto& w : words) argv.push_back(w.data());
  argv.push_back(nullptr);
  int says[2], hears[2];
  if (::pipe2(says, O_CLOEXEC) != 0 || ::pipe2(hears, O_CLOEXEC) != 0) throw std::runtime_error{"no pipe"};
  pid_ = ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::dup2(hears[0], 0);
    ::dup2(says[1], 1);
    ::execv("/proc/self/exe", argv.data());
    ::_exit(127);
  }
  ::close(says[1]);
  ::close(hears[0]);
  in_ = ::fdopen(says[0], "r");
  out_ = ::fdopen(hears[1], "w");
  if (pid_ < 0) throw std::runtime_error{"cannot start the probe '" + name + "'"};
}

probe::~probe() {
  using namespace std::chrono_literals;
  std::fclose(out_);  // the end of its input
  for (int i = 0; i < 1000 && ::waitpid(pid_, nullptr, WNOHANG) == 0; ++i) {
    if (i == 999) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    std::this_thread::sleep_for(10ms);
  }
  std::fclose(in_);
}

std::string probe::hear() const {
  char text[256];
  if (std::fgets(text, sizeof text, in_) == nullptr) throw std::runtime_error{"the probe '" + name_ + "' said nothing"};
  text[std::strcspn(text, "\n")] = '\0';
  return text;
}

void probe::say(std::string const& line) const {
  std::fputs((line + "\n").c_str(), out_);
  std::fflush(out_);
}

}  // namespace bench

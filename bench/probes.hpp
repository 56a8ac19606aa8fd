// The benchmark program started again, as a process of its own: `outbox_bench --probe NAME ARGUMENT…`.
#pragma once

#include <sys/types.h>

#include <cstdio>
#include <string>
#include <vector>

namespace bench {

/// The side of the process that was started. Returns its exit code; 2 if there is no such probe.
int run_probe(std::string const& name, std::vector<std::string> const& arguments);

// The probes, each in the file of the rows that it belongs to.
void memory_probe(std::string const& name, std::string const& directory);
void drain_probe(std::vector<std::string> const& arguments);
void postgres_node_probe(std::vector<std::string> const& arguments);
void postgres_loop_probe(std::vector<std::string> const& arguments);
void mysql_node_probe(std::vector<std::string> const& arguments);
void sqlite_node_probe(std::vector<std::string> const& arguments);
void sqlite_loop_probe(std::vector<std::string> const& arguments);

/// For a probe: tells the starter, and waits for its next word. False: the starter wants it to end.
bool tell_and_wait(std::string const& word);

/// The side of the starter. The process is ended by its id, however the starter ends.
class probe {
 public:
  probe(std::string const& name, std::vector<std::string> const& arguments);
  probe(probe const&) = delete;
  probe& operator=(probe const&) = delete;
  ~probe();  ///< Asks it to end, and kills it if it does not within ten seconds.

  [[nodiscard]] ::pid_t pid() const noexcept { return pid_; }
  [[nodiscard]] std::string hear() const;  ///< The next line. Throws if the probe has ended.
  void say(std::string const& line) const;

 private:
  std::string name_;
  ::pid_t pid_ = -1;
  FILE* in_ = nullptr;   ///< What it says.
  FILE* out_ = nullptr;  ///< What it hears.
};

}  // namespace bench

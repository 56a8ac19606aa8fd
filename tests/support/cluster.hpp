// Processes that share one table, each a child as in support/cluster_child.hpp, and the ledger that they write.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "support/child_process.hpp"
#include "support/temporary_directory.hpp"

namespace outbox {

/// What a child prints at its end.
struct printed_counters {
  std::uint64_t hot = 0, cold = 0, settled = 0, released = 0, lost = 0, unconfirmed = 0, held = 0;

  printed_counters() = default;
  explicit printed_counters(std::string const& line) {
    std::istringstream in{line};
    in >> hot >> cold >> settled >> released >> lost >> unconfirmed >> held;
    EXPECT_TRUE(in) << "'" << line << "'";
  }
  void expect_to_add_up() const { EXPECT_EQ(hot + cold, settled + released + lost + unconfirmed + held) << "I13"; }
};

class cluster_of_processes {
 public:
  /// `program` is a child's, for the table in that schema.
  cluster_of_processes(std::string program, std::string connection, std::string schema)
      : program_{std::move(program)}, connection_{std::move(connection)}, schema_{std::move(schema)} {}

  struct member {
    std::unique_ptr<child_process> process;
    std::string incarnation;
  };

  member begin(std::string const& name, std::string const& role, int events) {
    member m;
    m.process = std::make_unique<child_process>(std::vector<std::string>{program_, connection_, schema_, ledger_path(),
                                                                         name, role, std::to_string(events),
                                                                         std::to_string(lease.count())});
    m.incarnation = m.process->line();
    EXPECT_NE(m.incarnation, "") << name << " did not start";
    return m;
  }

  static printed_counters end(member& m) {
    m.process->signal(SIGTERM);
    printed_counters const c{m.process->line()};
    EXPECT_EQ(m.process->wait(), 0);
    c.expect_to_add_up();
    return c;
  }

  struct ledger {
    std::set<std::string> committed, unknown;
    std::map<std::string, std::vector<std::string>> delivered;  ///< By whom.
  };
  [[nodiscard]] ledger read() const {
    ledger l;
    std::ifstream in{ledger_path()};
    for (std::string line; std::getline(in, line);) {
      std::istringstream words{line};
      std::string what, id, who;
      words >> what >> id >> who;
      if (what == "C") l.committed.insert(id);
      if (what == "U") l.unknown.insert(id);
      if (what == "D") l.delivered[id].push_back(who);
    }
    return l;
  }

  /// True if this process has delivered one of these events, whose ids stand with commas between them.
  [[nodiscard]] bool has_delivered(std::string const& name, std::string const& ids) const {
    auto const l = read();
    std::istringstream in{ids};
    for (std::string id; std::getline(in, id, ',');) {
      auto const by = l.delivered.find(id);
      if (by != l.delivered.end() && std::ranges::find(by->second, name) != by->second.end()) return true;
    }
    return false;
  }
  [[nodiscard]] std::size_t lines() const {
    std::ifstream in{ledger_path()};
    return static_cast<std::size_t>(std::count(std::istreambuf_iterator<char>{in}, {}, '\n'));
  }

  std::chrono::seconds lease{2};  ///< Of the nodes that begin from here on.

 private:
  [[nodiscard]] std::string ledger_path() const { return dir_ / "ledger"; }

  std::string program_, connection_, schema_;
  temporary_directory dir_;
};

}  // namespace outbox

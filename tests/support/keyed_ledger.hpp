// The processes of support/keyed_child.hpp, and what their ledger says about the order of keys.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "support/child_process.hpp"
#include "support/temporary_directory.hpp"

namespace outbox {

class keyed_cluster {
 public:
  /// `connection_of` the name of a process: by it, its sessions can be told from those of the others.
  using connection_of = std::function<std::string(std::string const&)>;
  keyed_cluster(std::string program, connection_of connection, std::string schema)
      : program_{std::move(program)}, connection_{std::move(connection)}, schema_{std::move(schema)} {}

  struct member {
    std::unique_ptr<child_process> process;
    std::string name, incarnation;
  };

  member begin(std::string const& name, int events) const {
    member m{std::make_unique<child_process>(
                 std::vector<std::string>{program_, connection_(name), schema_, path(), name, std::to_string(events),
                                          std::to_string(lease.count()), std::to_string(keys)}),
             name,
             {}};
    m.incarnation = m.process->line();
    EXPECT_NE(m.incarnation, "") << name << " did not start";
    return m;
  }

  struct counters {
    std::uint64_t hot = 0, cold = 0, settled = 0, released = 0, lost = 0, unconfirmed = 0, held = 0, noted = 0,
                  unblocked = 0, healed = 0;
  };
  static counters end(member& m) {
    m.process->signal(SIGTERM);
    counters c;
    auto const line = m.process->line();
    std::istringstream in{line};
    in >> c.hot >> c.cold >> c.settled >> c.released >> c.lost >> c.unconfirmed >> c.held >> c.noted >> c.unblocked >>
        c.healed;
    EXPECT_TRUE(in) << "'" << line << "'";
    EXPECT_EQ(m.process->wait(), 0);
    EXPECT_EQ(c.hot + c.cold, c.settled + c.released + c.lost + c.unconfirmed + c.held) << "I13";
    return c;
  }

  [[nodiscard]] std::size_t lines() const {
    std::ifstream in{path()};
    std::size_t n = 0;
    for (std::string line; std::getline(in, line);) ++n;
    return n;
  }

  struct verdict {
    std::size_t committed = 0, delivered = 0, repeated = 0, failed = 0, deferred = 0;
    std::vector<std::string> missing, inversions;
  };

  /// I1 and I5: every committed event was delivered; the first successes of a key come in the order of writing; and no
  /// call begins before the event before it succeeded.
  [[nodiscard]] verdict judge() const {
    std::ifstream in{path()};
    return judge(in);
  }
  [[nodiscard]] static verdict judge(std::istream& in) {
    verdict v;
    std::set<std::string> committed;
    std::map<std::string, int> reached;  // the highest number of the key that succeeded
    for (std::string what, id, rest; in >> what >> id && std::getline(in, rest);) {
      auto const key = id.substr(0, id.find(':'));
      int const n = std::stoi(id.substr(id.find(':') + 1));
      auto& last = reached[key];
      if (what == "C") committed.insert(id);
      if (what == "F") ++v.failed;
      if (what == "D") ++v.deferred;
      if (what == "B" && n > last + 1) v.inversions.push_back(id + " began after " + std::to_string(last) + rest);
      if (what != "S") continue;
      if (n > last + 1) v.inversions.push_back(id + " succeeded after " + std::to_string(last) + rest);
      n == last + 1 ? ++v.delivered : ++v.repeated;
      last = std::max(last, n);
    }
    for (auto const& id : committed) {
      int const n = std::stoi(id.substr(id.find(':') + 1));
      if (reached[id.substr(0, id.find(':'))] < n) v.missing.push_back(id);
    }
    v.committed = committed.size();
    return v;
  }

  std::chrono::seconds lease{30};
  int keys = 200;

 private:
  [[nodiscard]] std::string path() const { return dir_ / "ledger"; }

  std::string program_;
  connection_of connection_;
  std::string schema_;
  temporary_directory dir_;
};

}  // namespace outbox

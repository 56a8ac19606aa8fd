// Rule I5 among processes, the same on each database: many nodes keep the order of keys, with processes that are killed
// or stopped.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include "support/keyed_ledger.hpp"
#include "support/waiting.hpp"

namespace outbox {

/// A database adds a table that is made for keys, and how to ask its server.
class keyed_cluster_cases : public ::testing::Test {
 protected:
  using member = keyed_cluster::member;

  keyed_cluster_cases(std::string program, keyed_cluster::connection_of connection, std::string schema)
      : cluster{std::move(program), std::move(connection), std::move(schema)} {}

  /// The number of rows, as text.
  virtual std::string count(std::string const& condition) = 0;
  /// What a failure shows: rows by status, note, error and owner.
  virtual std::string state() = 0;
  /// True if the server works on a statement of this process.
  virtual bool is_busy(std::string const& name) = 0;
  /// Ends the sessions of this process in which a writer's transaction is open.
  virtual void end_open_writes(std::string const& name) = 0;

  void four_nodes_keep_the_order(int each) {  // of the events every tenth is rolled back
    std::vector<member> nodes;
    for (int i = 0; i < 4; ++i) nodes.push_back(cluster.begin("n" + std::to_string(i), each));
    auto const events = std::to_string(4 * each * 9 / 10);
    ASSERT_TRUE(eventually([&] { return count("true") == events && count("status <> 1") == "0"; })) << state();
    std::uint64_t healed = 0, unblocked = 0, hot = 0, cold = 0;
    for (auto& n : nodes) {
      auto const c = keyed_cluster::end(n);
      EXPECT_EQ(c.lost, 0U);
      healed += c.healed;
      unblocked += c.unblocked;
      hot += c.hot;
      cold += c.cold;
    }
    expect_order(healed);
    EXPECT_EQ(cluster.judge().repeated, 0U) << "I7";
    EXPECT_GT(hot, 0U);
    EXPECT_GT(cold, 0U);
    EXPECT_GT(unblocked, 0U);
  }

  void one_is_killed_and_one_sleeps(int each, std::size_t lines_before, std::size_t lines_at_most) {
    cluster.lease = std::chrono::seconds{8};
    std::vector<member> nodes;
    for (int i = 0; i < 4; ++i) nodes.push_back(cluster.begin("n" + std::to_string(i), i < 2 ? 20'000 : each));
    ASSERT_TRUE(eventually([&] { return cluster.lines() > lines_before; }));
    nodes[0].process->kill_hard();
    ASSERT_TRUE(suspended_while_it_holds(nodes[1]));
    end_open_writes(nodes[1].name);  // one holds the lock of a key, for which other writers wait
    ASSERT_TRUE(eventually([&] { return !holds(nodes[1]); })) << "the others take over what it held";
    nodes[1].process->signal(SIGCONT);
    ASSERT_TRUE(eventually([&] { return count("status <> 1") == "0" || cluster.lines() > lines_at_most; }));
    auto const slept = keyed_cluster::end(nodes[1]);
    EXPECT_GT(slept.lost + slept.unconfirmed, 0U) << "its leases were over";
    auto healed = slept.healed;
    for (std::size_t i = 2; i < 4; ++i) healed += keyed_cluster::end(nodes[i]).healed;
    auto last = cluster.begin("n9", 0);
    ASSERT_TRUE(eventually([&] { return count("status <> 1") == "0"; })) << state();
    healed += keyed_cluster::end(last).healed;
    expect_order(healed);
  }

  keyed_cluster cluster;

 private:
  bool holds(member const& m) { return count("status IN (0, 2) AND locked_by LIKE '" + m.incarnation + "/%'") != "0"; }
  // What it had sent already, the server ends: it must hold something afterwards too.
  bool suspended_while_it_holds(member const& m) {
    return eventually([&] {
      m.process->suspend();
      if (holds(m) && eventually([&] { return !is_busy(m.name); }) && holds(m)) return true;
      m.process->signal(SIGCONT);
      return false;
    });
  }
  // Nothing but what other programs do to the table needs healing.
  void expect_order(std::uint64_t healed) {
    auto const v = cluster.judge();
    EXPECT_THAT(v.inversions, ::testing::IsEmpty());
    EXPECT_THAT(v.missing, ::testing::IsEmpty()) << "I1";
    EXPECT_EQ(healed, 0U);
    EXPECT_EQ(v.delivered, std::stoul(count("true")));
    EXPECT_EQ(count("blocked"), "0");
    EXPECT_GT(v.failed, 0U) << "else nothing was retried";
    EXPECT_GT(v.deferred, 0U);
  }
};

}  // namespace outbox

#include <gtest/gtest.h>

#include "sim/sim_node.hpp"
#include "sim/world.hpp"

namespace outbox::sim {
namespace {

TEST(Scenario, Placeholder) { SUCCEED(); }

}  // namespace
}  // namespace outbox::sim

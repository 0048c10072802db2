#include "longhaul/core/finish_barrier.h"

#include <gtest/gtest.h>

#include "longhaul/base/testing/effort.h"
#include "longhaul/core/testing/machine_net.h"

namespace longhaul {
namespace {

using testing::MachineNet;

MachineNet make(std::uint32_t ranks, std::uint64_t seed) {
  return MachineNet({.ranks = ranks, .layout = Layout::flat(1), .seed = seed},
                    [](const Place&) { return std::make_unique<FinishBarrier>(); });
}
FinishBarrier& at(MachineNet& net, Rank rank) {
  return static_cast<FinishBarrier&>(net.machine(rank));
}
void arrive(MachineNet& net, Rank rank) {
  net.act(rank, [&](Turn& turn) { at(net, rank).arrive(turn); });
}

TEST(FinishBarrier, NobodyIsThroughBeforeAllHaveArrived) {
  auto net = make(4, 1);
  for (Rank rank = 0; rank < 3; ++rank) arrive(net, rank);
  net.run(1000);
  for (Rank rank = 0; rank < 4; ++rank) EXPECT_FALSE(at(net, rank).complete());
  EXPECT_EQ(at(net, 0).waiting_for(net.view(0)), "the end of the run at ranks 3");
  arrive(net, 3);
  net.run(1000);
  for (Rank rank = 0; rank < 4; ++rank) EXPECT_TRUE(at(net, rank).complete());
}

TEST(FinishBarrier, TheLostDoNotArriveForOthers) {
  auto net = make(4, 1);
  for (Rank rank = 0; rank < 3; ++rank) arrive(net, rank);
  net.run(1000);
  net.crash(1);
  net.run(1000);
  for (const Rank rank : {0u, 2u, 3u}) EXPECT_FALSE(at(net, rank).complete());
  arrive(net, 3);
  net.run(1000);
  for (const Rank rank : {0u, 2u, 3u}) EXPECT_TRUE(at(net, rank).complete());
}

TEST(FinishBarrier, OneNodeIsThroughAtOnce) {
  auto net = make(1, 1);
  arrive(net, 0);
  EXPECT_TRUE(at(net, 0).complete());
  EXPECT_EQ(net.messages(), 0u);
}

TEST(FinishBarrier, TheDeathOfAnyoneAtAnyTimeStopsNobody) {
  for (std::uint64_t seed = 0; seed < testing::cases(2000); ++seed) {
    auto net = make(4, seed);
    const Rank victim = Rank(seed % 4);
    for (Rank rank = 0; rank < 4; ++rank) arrive(net, rank);
    for (std::uint64_t i = 0; i < seed / 4 % 8; ++i) net.step();
    net.crash(victim);
    net.run(1000);
    for (Rank rank = 0; rank < 4; ++rank)
      EXPECT_TRUE(at(net, rank).complete() || !net.alive(rank)) << "seed " << seed;
  }
}

// Whoever comes back, also when all others are through, is through when it has arrived, and not
// before.
TEST(FinishBarrier, WhoComesBackArrivesForItself) {
  for (std::uint64_t seed = 0; seed < testing::cases(2000); ++seed) {
    auto net = make(4, seed);
    const Rank victim = Rank(seed % 4);
    for (Rank rank = 0; rank < 4; ++rank) arrive(net, rank);
    for (std::uint64_t i = 0; i < seed / 4 % 8; ++i) net.step();
    net.crash(victim);
    for (std::uint64_t i = 0; i < (seed % 3 == 0 ? 1000 : seed / 32 % 8); ++i) net.step();
    net.come_back(victim);
    for (std::uint64_t i = 0; i < seed / 7 % 16; ++i) net.step();
    EXPECT_FALSE(at(net, victim).complete()) << "seed " << seed;
    arrive(net, victim);
    net.run(1000);
    for (Rank rank = 0; rank < 4; ++rank)
      EXPECT_TRUE(at(net, rank).complete()) << "seed " << seed << ", rank " << rank;
  }
}

TEST(FinishBarrier, WhoComesBackToTheEndIsToldAlone) {
  auto net = make(3, 1);
  for (Rank rank = 0; rank < 3; ++rank) arrive(net, rank);
  net.run(1000);
  net.crash(2);
  net.run(1000);
  net.come_back(2);
  net.run(1000);
  const std::uint64_t before = net.messages();
  arrive(net, 2);
  net.run(1000);
  EXPECT_TRUE(at(net, 2).complete());
  EXPECT_EQ(net.messages() - before, 3u);  // its own, the answer, the news passed on
}

}  // namespace
}  // namespace longhaul

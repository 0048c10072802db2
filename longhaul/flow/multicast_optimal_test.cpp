#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "longhaul/base/testing/effort.h"
#include "longhaul/flow/multicast.h"

namespace longhaul::flow {
namespace {

std::size_t receivers_of(const MulticastPlan& plan) {
  std::size_t sum = 0;
  for (const auto& receivers : plan.receivers) sum += receivers.size();
  return sum;
}

// All choices of receivers, one after the other: the least time, then the most receivers.
MulticastPlan best_by_trying(const MulticastNetwork& network, const MulticastRound& round) {
  const std::uint32_t n = network.size();
  std::vector<WorkerPair> pairs;
  for (std::uint32_t i = 0; i < n; ++i)
    for (std::uint32_t j = 0; j < n; ++j)
      if (i != j) pairs.emplace_back(i, j);
  std::optional<MulticastPlan> best;
  for (std::uint32_t bits = 0; bits < 1u << pairs.size(); ++bits) {
    std::vector<std::vector<std::uint32_t>> receivers(n);
    for (std::uint32_t k = 0; k < pairs.size(); ++k)
      if (bits >> k & 1) receivers[pairs[k].first].push_back(pairs[k].second);
    MulticastPlan plan = multicast_of(network, round, std::move(receivers));
    bool allowed = true;
    for (std::uint32_t i = 0; i < n; ++i)
      allowed &= plan.receivers[i].size() >= std::min(round.at_least[i], n - 1);
    for (const auto& [i, j] : round.overdue) allowed &= plan.sends(i, j);
    if (!allowed) continue;
    const bool quicker = !best || plan.time < best->time * (1 - 1e-9);
    if (quicker ||
        (plan.time <= best->time * (1 + 1e-9) && receivers_of(plan) > receivers_of(*best)))
      best = std::move(plan);
  }
  return *best;
}

// The integer programme: no choice is quicker, and none as quick has more receivers.
TEST(MulticastOptimal, IsWhatTryingAllChoicesFinds) {
  for (std::uint64_t seed = 0; seed < longhaul::testing::cases(40); ++seed) {
    Random random(seed, {});
    const auto n = std::uint32_t(2 + random.below(3));
    MulticastNetwork network{.by_network = seed % 2 == 0};
    MulticastRound round;
    for (std::uint32_t i = 0; i < n; ++i) {
      network.up.push_back(1e7 * (0.3 + random.uniform()));
      network.down.push_back(1e7 * (0.3 + random.uniform()));
      round.volumes.push_back(1e6 * (0.3 + random.uniform()));
      round.at_least.push_back(std::uint32_t(1 + random.below(n)));
      for (std::uint32_t j = 0; j < n; ++j)
        if (i != j && random.below(9) == 0) round.overdue.emplace_back(i, j);
    }
    if (seed % 3 == 0)
      for (std::uint32_t k = 0; k < n * n; ++k)
        network.pairs.push_back(1e7 * (0.1 + random.uniform()));
    const OptimalMulticast found = plan_optimal_multicast(network, round);
    const MulticastPlan best = best_by_trying(network, round);
    EXPECT_TRUE(found.proven) << seed;
    EXPECT_NEAR(found.plan.time, best.time, 1e-6 * best.time) << seed;
    EXPECT_EQ(receivers_of(found.plan), receivers_of(best)) << seed;
    EXPECT_LE(found.plan.time, plan_multicast(network, round).time * (1 + 1e-9));
  }
}

// Golden plans: the programme's time lies between the lower bound and that of
// algorithm 1. Equal inputs give equal plans.
TEST(MulticastOptimal, LiesBetweenTheBoundAndAlgorithm1) {
  const MulticastNetwork five{.up = {1, 1, 1, 1, 1}, .down = {1, 0.5, 2, 1, 1}, .by_network = true};
  const MulticastRound round{.volumes = {1, 1, 1, 1, 1}, .at_least = {2, 2, 2, 2, 2}};
  const OptimalMulticast plan = plan_optimal_multicast(five, round);
  EXPECT_GE(plan.plan.time, 20.0 / 11);
  EXPECT_LE(plan.plan.time, 2);
  EXPECT_EQ(plan.plan.receivers, plan_optimal_multicast(five, round).plan.receivers);
}

// Thirty workers, the most that a job may have with it, within the bounds of one search; in the
// gate ten.
TEST(MulticastOptimal, ThirtyWorkersEndWithinTheSearchLimit) {
  constexpr std::uint32_t kLeast = longhaul::testing::kGate ? 4 : 9;
  Random random(5, {});
  MulticastNetwork network;
  MulticastRound round;
  for (std::uint32_t i = 0; i < (longhaul::testing::kGate ? 10 : 30); ++i) {
    network.up.push_back(0.75 + 0.5 * random.uniform());
    network.down.push_back(0.75 + 0.5 * random.uniform());
    round.volumes.push_back(1);
    round.at_least.push_back(kLeast);
  }
  const OptimalMulticast found = plan_optimal_multicast(network, round, 20);
  const MulticastPlan greedy = plan_multicast(network, round);
  EXPECT_LE(found.plan.time, greedy.time * (1 + 1e-9));
  EXPECT_GE(found.plan.time, double(kLeast) * 1 / *std::ranges::max_element(network.up));
}

}  // namespace
}  // namespace longhaul::flow

// The numbers of the properties are those of sync/selmcast_test.cpp.
#include "longhaul/flow/multicast.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

#include "longhaul/base/testing/effort.h"

namespace longhaul::flow {
namespace {

using Sets = std::vector<std::vector<std::uint32_t>>;

MulticastRound equal_round(std::uint32_t n, std::uint32_t p) {
  return {.volumes = std::vector<double>(n, 1), .at_least = std::vector<std::uint32_t>(n, p)};
}

MulticastNetwork five(bool by_network) {
  return {.up = {1, 1, 1, 1, 1}, .down = {1, 0.5, 2, 1, 1}, .by_network = by_network};
}

std::vector<double> received(const MulticastPlan& plan, const MulticastRound& round) {
  std::vector<double> r(plan.receivers.size(), 0);
  for (std::uint32_t i = 0; i < r.size(); ++i)
    for (const std::uint32_t j : plan.receivers[i]) r[j] += round.volumes[i];
  return r;
}

// The pairs of `plan` that are not in `less`.
std::vector<WorkerPair> added(const MulticastPlan& plan, const MulticastPlan& less) {
  std::vector<WorkerPair> pairs;
  for (std::uint32_t i = 0; i < plan.receivers.size(); ++i)
    for (const std::uint32_t j : plan.receivers[i])
      if (!less.sends(i, j)) pairs.emplace_back(i, j);
  return pairs;
}

// up and down ports b (1 + spread x), x uniform on [-1, 1]; up ports `mu` times as fast.
MulticastNetwork drawn(std::uint32_t n, double spread, double mu, bool by_network, Random& random) {
  MulticastNetwork network{.by_network = by_network};
  for (std::uint32_t i = 0; i < n; ++i) {
    network.up.push_back(mu * (1 + spread * (2 * random.uniform() - 1)));
    network.down.push_back(1 + spread * (2 * random.uniform() - 1));
  }
  return network;
}

TEST(Multicast, Inv4_GoldenFiveWorkers) {
  const MulticastRound round = equal_round(5, 2);
  for (const bool by_network : {true, false}) {
    const MulticastPlan basic = plan_multicast(five(by_network), round, false);
    EXPECT_EQ(basic.receivers, (Sets{{2, 3}, {0, 2}, {0, 4}, {1, 2}, {2, 3}}));
    const MulticastPlan plan = plan_multicast(five(by_network), round);
    EXPECT_DOUBLE_EQ(plan.time, 2);
    EXPECT_EQ(added(plan, basic),
              by_network ? (std::vector<WorkerPair>{{0, 4}}) : (std::vector<WorkerPair>{}));
    if (by_network) EXPECT_EQ(received(plan, round), (std::vector<double>{2, 1, 4, 2, 2}));
  }
}

TEST(Multicast, Inv5_GoldenWithOverduePairs) {
  MulticastRound round = equal_round(5, 2);
  round.overdue = {{0, 1}, {2, 1}};
  const MulticastPlan basic = plan_multicast(five(true), round, false);
  EXPECT_EQ(basic.receivers, (Sets{{1, 2}, {2, 3}, {0, 1}, {2, 4}, {0, 2}}));
  const MulticastPlan plan = plan_multicast(five(true), round);
  EXPECT_DOUBLE_EQ(plan.time, 4);
  EXPECT_EQ(
      added(plan, basic),
      (std::vector<WorkerPair>{{0, 3}, {0, 4}, {1, 0}, {1, 4}, {2, 3}, {2, 4}, {3, 0}, {4, 3}}));
  EXPECT_EQ(received(plan, round), (std::vector<double>{4, 2, 4, 4, 4}));
}

TEST(Multicast, Inv6_GoldenWithUnequalVolumes) {
  const MulticastNetwork network{.up = {2, 1, 1, 1}, .down = {1, 2, 1, 4}};
  const MulticastRound round{.volumes = {4, 1, 2, 1}, .at_least = {1, 2, 1, 1}};
  const MulticastPlan basic = plan_multicast(network, round, false);
  EXPECT_EQ(basic.receivers, (Sets{{3}, {0, 2}, {1}, {1}}));
  const MulticastPlan plan = plan_multicast(network, round);
  EXPECT_DOUBLE_EQ(plan.time, 2);
  EXPECT_EQ(added(plan, basic), (std::vector<WorkerPair>{{3, 0}}));
  EXPECT_EQ(received(plan, round), (std::vector<double>{2, 3, 1, 4}));
}

TEST(Multicast, Inv7_EqualPorts) {
  MulticastNetwork network{
      .up = std::vector<double>(6, 1), .down = std::vector<double>(6, 1), .by_network = true};
  const MulticastPlan basic = plan_multicast(network, equal_round(6, 2), false);
  EXPECT_EQ(basic.receivers, (Sets{{1, 2}, {0, 3}, {4, 5}, {0, 1}, {2, 3}, {0, 4}}));
  const MulticastPlan plan = plan_multicast(network, equal_round(6, 2));
  EXPECT_DOUBLE_EQ(plan.time, 3);
  EXPECT_EQ(received(plan, equal_round(6, 2)), std::vector<double>(6, 3));
  for (std::uint32_t n = 2; n <= 24; ++n)
    for (std::uint32_t p = 1; p < n; ++p) {
      network.up.assign(n, 1);
      network.down.assign(n, 1);
      const auto r = received(plan_multicast(network, equal_round(n, p), false), equal_round(n, p));
      const auto [least, most] = std::ranges::minmax(r);
      EXPECT_EQ(most - least, p == n - 1 || (p == 1 && n % 2 == 0) ? 0 : 2) << n << " " << p;
      EXPECT_LE(most, p + 1);
    }
}

// Whatever is drawn: enough receivers, overdue pairs served, the time kept and no pair left out
// that fits; nothing is below the bounds.
TEST(Multicast, Inv1To3_OfDrawnNetworks) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Random random(seed, {});
    const auto n = std::uint32_t(2 + random.below(9));
    MulticastNetwork network = drawn(n, 0.9, 0.5 + random.uniform(), seed % 2 == 0, random);
    if (seed % 3 == 0)
      for (std::uint32_t k = 0; k < n * n; ++k) network.pairs.push_back(0.1 + random.uniform());
    MulticastRound round;
    for (std::uint32_t i = 0; i < n; ++i) {
      round.volumes.push_back(0.2 + random.uniform());
      round.at_least.push_back(std::uint32_t(1 + random.below(n + 1)));
      for (std::uint32_t j = 0; j < n; ++j) {
        round.ages.push_back(double(random.below(5)));
        if (i != j && random.below(8) == 0) round.overdue.emplace_back(i, j);
      }
    }
    const MulticastPlan basic = plan_multicast(network, round, false);
    const MulticastPlan plan = plan_multicast(network, round);
    EXPECT_EQ(plan.time, basic.time);
    double all_down = 0, demand = 0;
    std::vector<double> out(n, 0), in = received(plan, round);
    for (std::uint32_t i = 0; i < n; ++i) {
      const std::uint32_t p = std::min(round.at_least[i], n - 1);
      const double v = round.volumes[i];
      EXPECT_GE(plan.receivers[i].size(), p);
      EXPECT_FALSE(plan.sends(i, i));
      demand += p * v;
      all_down += network.down[i];
      out[i] = network.by_network ? v : v * double(plan.receivers[i].size());
      EXPECT_GE(plan.time * (1 + 1e-9), (network.by_network ? v : p * v) / network.up[i]);
      EXPECT_LE(out[i] / network.up[i], plan.time * (1 + 1e-9));
      EXPECT_LE(in[i] / network.down[i], plan.time * (1 + 1e-9));
    }
    for (const auto& [i, j] : round.overdue) EXPECT_TRUE(plan.sends(i, j));
    EXPECT_GE(plan.time * (1 + 1e-9), demand / all_down);
    for (std::uint32_t i = 0; i < n; ++i)
      for (std::uint32_t j = 0; j < n; ++j) {
        if (i == j || plan.sends(i, j)) continue;
        const double v = round.volumes[i];
        const double more = network.by_network ? 0 : v;
        const double pair = network.pairs.empty() ? 0 : v / network.pairs[i * n + j];
        EXPECT_GT(std::max({(out[i] + more) / network.up[i], (in[j] + v) / network.down[j], pair}),
                  plan.time)
            << "one more fits";
      }
  }
}

TEST(Multicast, Inv8_ByChanceSomeReceiveFarMore) {
  constexpr int kTrials = longhaul::testing::kGate ? 8 : 20;
  // P(in-degree = p) = Binomial(n - 1, p / (n - 1)), n = 200.
  for (const auto& [p, expected] : {std::pair{1u, 0.369}, {18u, 0.098}, {60u, 0.062}}) {
    Random random(p, {});
    const MulticastNetwork network = drawn(200, 0, 1, true, random);
    std::uint32_t equal = 0;
    for (int trial = 0; trial < kTrials; ++trial)
      for (const double r : received(plan_random_multicast(network, equal_round(200, p), random),
                                     equal_round(200, p)))
        equal += r == p ? 1u : 0u;
    EXPECT_NEAR(equal / (kTrials * 200.0), expected, 0.03);
  }
}

// Where no two keys tie: every sender has another number of overdue receivers, every pair another
// age.
TEST(Multicast, Inv11_RenamingWorkersRenamesThePlan) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Random random(seed, {});
    const std::uint32_t n = 7;
    const MulticastNetwork network = drawn(n, 0.8, 1, seed % 2 == 0, random);
    MulticastRound round = equal_round(n, 3);
    std::vector<std::uint32_t> others(n), name(n);
    std::iota(name.begin(), name.end(), 0u);
    for (std::uint32_t i = 0; i < n * n; ++i) round.ages.push_back(random.uniform());
    for (std::uint32_t i = 0; i < n; ++i) {
      std::iota(others.begin(), others.end(), 0u);
      std::swap(others[i], others.back());
      random.shuffle(std::span(others).first(n - 1));
      for (std::uint32_t k = 0; k < i; ++k) round.overdue.emplace_back(i, others[k]);
    }
    random.shuffle(std::span(name));
    MulticastNetwork renamed = network;
    MulticastRound again = round;
    for (std::uint32_t i = 0; i < n; ++i) {
      renamed.up[name[i]] = network.up[i];
      renamed.down[name[i]] = network.down[i];
      for (std::uint32_t j = 0; j < n; ++j)
        again.ages[name[i] * n + name[j]] = round.ages[i * n + j];
    }
    for (auto& [i, j] : again.overdue) std::tie(i, j) = std::pair(name[i], name[j]);
    const MulticastPlan plan = plan_multicast(network, round);
    const MulticastPlan same = plan_multicast(renamed, again);
    EXPECT_DOUBLE_EQ(same.time, plan.time);
    for (std::uint32_t i = 0; i < n; ++i)
      for (std::uint32_t j = 0; j < n; ++j)
        EXPECT_EQ(same.sends(name[i], name[j]), plan.sends(i, j)) << seed;
  }
}

// Completion time over n p v / sum of the down ports, and the mean number of receivers over n: the
// published figures (TSC, figures 4 to 6) with the spread of ports that gives them, 0.25.
struct Figure {
  double completion = 0, scale = 0;
};
Figure figure(std::uint32_t n, double share, bool by_network, double mu, bool selective,
              int trials) {
  Figure sum;
  Random random(n, {.round = std::uint64_t(share * 100)});
  const auto p = std::uint32_t(std::lround(share * n));
  for (int trial = 0; trial < trials; ++trial) {
    const MulticastNetwork network = drawn(n, 0.25, mu, by_network, random);
    const MulticastRound round = equal_round(n, p);
    const MulticastPlan plan =
        selective ? plan_multicast(network, round) : plan_random_multicast(network, round, random);
    const double down = std::accumulate(network.down.begin(), network.down.end(), 0.0);
    sum.completion += plan.time / (n * p / down) / trials;
    for (const auto& receivers : plan.receivers)
      sum.scale += double(receivers.size()) / n / n / trials;
  }
  return sum;
}

TEST(Multicast, Inv13_PublishedFiguresOfLockStep) {
  EXPECT_NEAR(figure(100, 0.3, true, 1, false, 10).completion, 1.63, 0.03 * 1.63);
  EXPECT_NEAR(figure(100, 0.3, true, 1, true, 10).completion, 1.017, 0.03 * 1.017);
  EXPECT_NEAR(figure(100, 0.3, false, 1, true, 10).completion, 1.32, 0.03 * 1.32);
  EXPECT_NEAR(figure(100, 0.3, false, 1, true, 10).scale, 0.391, 0.03 * 0.391);
  EXPECT_NEAR(figure(100, 0.3, true, 1, true, 10).scale, 0.3, 0.01);
  EXPECT_NEAR(figure(100, 0.3, true, 1 / 30.0, true, 10).scale, 0.395, 0.03 * 0.395);
}

// --- bounded staleness

struct Running {
  explicit Running(std::uint32_t n)
      : network{.up = std::vector<double>(n, 1),
                .down = std::vector<double>(n, 1),
                .by_network = true},
        senders(n) {
    for (auto& s : senders) s.volume = 1;
  }
  void sends(std::uint32_t i, std::vector<double> left, std::vector<bool> chosen) {
    senders[i].sending = true;
    senders[i].left = std::move(left);
    senders[i].chosen = std::move(chosen);
  }
  MulticastNetwork network;
  std::vector<MulticastSender> senders;
};

TEST(Multicast, Inv10_WhatIsNearlyThereOrOverdueIsNotDropped) {
  Running job(4);
  job.network.down = {1, 0.01, 1, 1};  // worker 1 is slow to receive
  job.sends(0, {0, 0.5, 0.9, 0.9}, {false, true, true, true});
  const auto kept = replan_multicast(job.network, job.senders, 3, {}, {}, 0.75);
  EXPECT_FALSE(std::ranges::count(kept.cancelled, WorkerPair{0, 1})) << "less than eta is left";
  job.senders[0].left[1] = 0.8;
  const auto dropped = replan_multicast(job.network, job.senders, 3, {}, {}, 0.75);
  EXPECT_TRUE(std::ranges::count(dropped.cancelled, WorkerPair{0, 1}));
  const auto overdue = replan_multicast(job.network, job.senders, 3, {{0, 1}}, {}, 0.75);
  EXPECT_FALSE(std::ranges::count(overdue.cancelled, WorkerPair{0, 1}));
  job.senders[0].left[1] = 0;
  const auto arrived = replan_multicast(job.network, job.senders, 3, {}, {}, 0);
  EXPECT_FALSE(std::ranges::count(arrived.cancelled, WorkerPair{0, 1})) << "it has everything";
}

TEST(Multicast, Inv10_OfDrawnStates) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Random random(seed, {});
    const auto n = std::uint32_t(2 + random.below(7));
    Running job(n);
    job.network = drawn(n, 0.9, 1, seed % 2 == 0, random);
    std::vector<WorkerPair> overdue;
    for (std::uint32_t i = 1; i < n; ++i) {
      job.senders[i].at_least = std::uint32_t(1 + random.below(n));
      job.senders[i].blocked_s = random.below(2) ? random.uniform() : 0;
      std::vector<double> left(n, 0);
      std::vector<bool> chosen(n, false);
      for (std::uint32_t j = 0; j < n; ++j) {
        chosen[j] = j != i && random.below(3) > 0;
        left[j] = chosen[j] && random.below(4) ? random.uniform() : 0;
        if (chosen[j] && random.below(6) == 0) overdue.emplace_back(i, j);
      }
      if (random.below(3)) job.sends(i, left, chosen);
    }
    const auto update = replan_multicast(job.network, job.senders, 0, overdue, {}, 0.75);
    EXPECT_GE(update.receivers.size(), 1u);
    EXPECT_FALSE(std::ranges::count(update.receivers, 0u));
    for (const auto& [i, j] : update.cancelled) {
      EXPECT_NE(i, 0u);
      EXPECT_TRUE(job.senders[i].chosen[j]) << "a dropped one cannot be dropped again";
      EXPECT_FALSE(std::ranges::count(overdue, WorkerPair{i, j}));
      EXPECT_GE(job.senders[i].left[j], 0.75);
    }
    for (std::uint32_t i = 1; i < n; ++i) {  // those that are left are enough
      const MulticastSender& s = job.senders[i];
      if (!s.sending) continue;
      const auto had = std::size_t(std::ranges::count(s.chosen, true));
      const auto dropped = std::size_t(std::ranges::count_if(
          update.cancelled, [&](const WorkerPair& pair) { return pair.first == i; }));
      EXPECT_GE(had - dropped, std::min<std::size_t>({had, s.at_least, n - 1}));
    }
  }
}

// A sender that would be blocked anyway takes as long as it may: nothing of it is dropped.
TEST(Multicast, ABlockedSenderKeepsItsReceivers) {
  Running job(4);
  job.network.down = {1, 0.5, 1, 1};
  job.sends(0, {0, 1, 1, 1}, {false, true, true, true});
  EXPECT_FALSE(replan_multicast(job.network, job.senders, 3, {}, {}, 0).cancelled.empty());
  job.senders[0].blocked_s = 10;
  EXPECT_TRUE(replan_multicast(job.network, job.senders, 3, {}, {}, 0).cancelled.empty());
}

}  // namespace
}  // namespace longhaul::flow

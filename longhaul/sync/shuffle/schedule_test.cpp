#include "longhaul/sync/shuffle/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <set>

#include "longhaul/base/testing/effort.h"

namespace longhaul::sync::shuffle {
namespace {

using Weights = std::vector<std::vector<double>>;  // of worker i, the share that is worker j's
using Rounds = std::function<Partition(Round)>;

Random drawn(Round k, std::uint64_t seed = 1) { return {seed, {Purpose::members, k}}; }

// Sites of so many workers, numbered in the order of the sites.
Partition sites_with(const std::vector<std::uint32_t>& sizes) {
  Partition sites;
  std::uint32_t next = 0;
  for (const std::uint32_t size : sizes) {
    sites.emplace_back(size);
    for (std::uint32_t& worker : sites.back()) worker = next++;
  }
  return sites;
}
Partition one_each(std::uint32_t n) { return sites_with(std::vector<std::uint32_t>(n, 1)); }

std::string fault_of(const Partition& groups, std::uint32_t n) {
  std::set<std::uint32_t> seen;
  for (const auto& group : groups) {
    if (group.empty()) return "an empty group";
    if (!std::is_sorted(group.begin(), group.end())) return "a group out of order";
    for (const std::uint32_t worker : group)
      if (worker >= n || !seen.insert(worker).second) return "a worker twice, or of no job";
  }
  return seen.size() == n ? "" : "not all workers";
}

Weights identity(std::uint32_t n) {
  Weights w(n, std::vector<double>(n, 0));
  for (std::uint32_t i = 0; i < n; ++i) w[i][i] = 1;
  return w;
}

void average(Weights& w, const Partition& groups) {
  for (const auto& group : groups) {
    std::vector<double> mean(w.front().size(), 0);
    for (const std::uint32_t worker : group)
      for (std::size_t j = 0; j < mean.size(); ++j) mean[j] += w[worker][j] / double(group.size());
    for (const std::uint32_t worker : group) w[worker] = mean;
  }
}

double furthest_from_mean(const Weights& w) {
  double most = 0;
  for (const auto& row : w)
    for (const double share : row) most = std::max(most, std::abs(share - 1 / double(row.size())));
  return most;
}

// The fewest rounds from `first` after which everybody has heard of everybody.
std::uint32_t rounds_until_heard(const Rounds& rounds, std::uint32_t n, Round first) {
  Weights w = identity(n);
  for (std::uint32_t count = 1; count < 1000; ++count) {
    average(w, rounds(first + count - 1));
    const bool all = std::all_of(w.begin(), w.end(), [](const auto& row) {
      return std::all_of(row.begin(), row.end(), [](double share) { return share > 0; });
    });
    if (all) return count;
  }
  return 1000;
}

// Invariant 1.
TEST(Schedule, Inv1_EveryRoundIsAPartition) {
  for (const char* kind : {"published", "grid", "radix", "random", "topology"})
    for (std::uint32_t n = 1; n <= 40; n += (longhaul::testing::kGate ? 6 : 1) + n / 12)
      for (std::uint32_t b = 0; b <= n; b += 1 + b / 2)
        for (Round k = 0; k < 7; ++k) {
          const Schedule schedule{kind, b, b % 3};
          const Partition groups = schedule.groups(one_each(n), k, drawn(k));
          ASSERT_EQ(fault_of(groups, n), "") << kind << " n " << n << " b " << b << " k " << k;
          ASSERT_EQ(groups, schedule.groups(one_each(n), k, drawn(k)));
        }
}

TEST(Schedule, Inv1_TopologyOfUnequalSitesToo) {
  for (std::uint32_t count = 1; count <= 8; ++count)
    for (std::uint64_t mix = 0; mix < 10; mix += longhaul::testing::kGate ? 3 : 1) {
      std::vector<std::uint32_t> sizes(count);
      for (auto& size : sizes) size = 1 + std::uint32_t(drawn(mix * 10 + count).below(7));
      if (mix < 7) sizes.assign(count, std::uint32_t(mix + 1));
      const Partition sites = sites_with(sizes);
      const auto n = std::accumulate(sizes.begin(), sizes.end(), 0u);
      for (std::uint32_t every = 1; every <= 3; ++every)
        for (Round k = 0; k < 16; ++k) {
          const Partition groups = topology(sites, every, k);
          ASSERT_EQ(fault_of(groups, n), "") << count << " sites, every " << every << ", k " << k;
          // Nobody but a pair crosses, and only in its turn.
          for (const auto& group : groups) {
            std::set<std::size_t> met;
            for (std::size_t s = 0; s < sites.size(); ++s)
              for (const std::uint32_t worker : group)
                if (std::binary_search(sites[s].begin(), sites[s].end(), worker)) met.insert(s);
            ASSERT_TRUE(met.size() == 1 || (group.size() == 2 && k % every == every - 1));
          }
        }
    }
}

TEST(Schedule, GroupsAreThoseOfThePage) {
  EXPECT_EQ(published(0), (Partition{{0, 1}, {2, 3}}));
  EXPECT_EQ(published(7), (Partition{{0, 3}, {1, 2}}));
  EXPECT_EQ(grid(10, 3, 0), (Partition{{0, 1, 2, 3}, {4, 5, 6}, {7, 8, 9}}));
  EXPECT_EQ(grid(10, 3, 1), (Partition{{0, 4, 7}, {1, 5, 8}, {2, 6, 9}, {3}}));
  EXPECT_EQ(grid(5, 5, 3), (Partition{{0, 1, 2, 3, 4}}));
  EXPECT_EQ(radix({2, 3}, 0), (Partition{{0, 1}, {2, 3}, {4, 5}}));
  EXPECT_EQ(radix({2, 3}, 1), (Partition{{0, 2, 4}, {1, 3, 5}}));
  EXPECT_EQ(prime_factors(60), (std::vector<std::uint32_t>{2, 2, 3, 5}));
  EXPECT_EQ(prime_factors(13), std::vector<std::uint32_t>{13});
  EXPECT_EQ(default_group_size(16), 4u);
  EXPECT_EQ(default_group_size(12), 3u);  // 3.46
  EXPECT_EQ(default_group_size(13), 4u);  // 3.61
  EXPECT_EQ(default_group_size(2), 2u);
  EXPECT_EQ(group_count(10, 4), 3u);  // 2.5 is 3
  EXPECT_EQ(group_count(9, 4), 2u);   // 2.25
  EXPECT_EQ(group_count(3, 7), 1u);
}

// Places in rounds 0, 1, 2: 0123, 0312, 0231; the ends meet. The slot moves on in every round, and
// once more when tournament and slots are through together.
TEST(Schedule, SitesMeetInATournamentAndTheirWorkersTakeTurns) {
  const Partition sites = sites_with({3, 3, 3, 3});
  const auto pairs = [&](Round k) {
    Partition all;
    for (const auto& group : topology(sites, 1, k))
      if (group.back() / 3 != group.front() / 3) all.push_back(group);
    return all;
  };
  EXPECT_EQ(pairs(0), (Partition{{0, 9}, {3, 6}}));
  EXPECT_EQ(pairs(1), (Partition{{1, 7}, {4, 10}}));
  EXPECT_EQ(pairs(2), (Partition{{2, 5}, {8, 11}}));
  EXPECT_EQ(pairs(3), (Partition{{1, 10}, {4, 7}})) << "slot 3 + 3 div 3 = 1";
  // Of three sites one has no pair: it meets the place of nobody.
  EXPECT_EQ(topology(one_each(3), 1, 0), (Partition{{0}, {1, 2}}));
  EXPECT_EQ(default_cross_every(sites), 1u);
  EXPECT_EQ(default_cross_every(sites_with({2, 3})), 2u);
  EXPECT_EQ(default_cross_every(one_each(4)), 1u);
}

TEST(Schedule, WithTwoWorkersASiteThoseWhoCrossInTurnWouldNeverMeet) {
  const Partition sites = sites_with({2, 2, 2, 2});
  const auto rounds = [&](std::uint32_t every) {
    return [&sites, every](Round k) { return topology(sites, every, k); };
  };
  EXPECT_EQ(rounds_until_heard(rounds(1), 8, 0), 1000u);
  EXPECT_LE(rounds_until_heard(rounds(default_cross_every(sites)), 8, 0), 8u);
}

// Whichever sites have byes: at most four cross rounds in a row, and what one knows all come to
// know, in the rounds that ds_sync takes for the most.
TEST(Schedule, SitesWithByesKeepOutOfFourCrossRoundsInARowAndStillHearOfAll) {
  for (std::uint32_t count = 2; count <= 7; ++count)
    for (std::uint64_t mix = 0; mix < 6; ++mix) {
      std::vector<std::uint32_t> sizes(count);
      for (auto& size : sizes) size = 1 + std::uint32_t(drawn(mix * 10 + count).below(5));
      if (mix < 5) sizes.assign(count, std::uint32_t(mix + 1));
      const Partition sites = sites_with(sizes);
      const auto n = std::accumulate(sizes.begin(), sizes.end(), 0u);
      const std::uint32_t every = default_cross_every(sites);
      for (std::uint32_t chosen = 1; chosen < 1u << count;
           chosen += (1 + std::uint32_t(mix) * count) * (longhaul::testing::kGate ? 9 : 1)) {
        std::vector<std::size_t> byes;
        for (std::size_t s = 0; s < count; ++s)
          if (chosen >> s & 1) byes.push_back(s);
        const Rounds rounds = [&](Round k) { return topology(sites, every, k, byes); };
        for (Round k = 0; k < 30; ++k) ASSERT_EQ(fault_of(rounds(k), n), "");
        std::uint32_t in_a_row = 0;
        for (Round q = 0; q < 60; ++q) {
          const Partition with = rounds(q * every + every - 1);
          const auto crosses = [&](std::size_t s, const Partition& groups) {
            return std::ranges::any_of(groups, [&](const auto& group) {
              const auto own = std::ranges::count_if(group, [&](std::uint32_t worker) {
                return std::ranges::binary_search(sites[s], worker);
              });
              return own > 0 && own < std::ptrdiff_t(group.size());
            });
          };
          const bool has_pair = crosses(byes[0], topology(sites, every, q * every + every - 1));
          if (crosses(byes[0], with))
            in_a_row = 0;
          else if (has_pair)
            ++in_a_row;
          ASSERT_LE(in_a_row, 4u);
        }
        ASSERT_LE(rounds_until_heard(rounds, n, mix), 5 * (64 + n))
            << count << " sites, mix " << mix << ", byes " << chosen;
      }
    }
}

void expect_consensus_after(const Rounds& rounds, std::uint32_t n, std::vector<Round> order) {
  std::sort(order.begin(), order.end());
  do {
    Weights w = identity(n);
    for (const Round k : order) {
      EXPECT_GT(furthest_from_mean(w), 0.01) << "not before the last";
      average(w, rounds(k));
    }
    EXPECT_LT(furthest_from_mean(w), 1e-12);
  } while (std::next_permutation(order.begin(), order.end()));
}

// Invariant 3.
TEST(Schedule, Inv3_RegularGridsAndDigitsReachTheMeanExactlyInAnyOrder) {
  expect_consensus_after([](Round k) { return grid(16, 4, k); }, 16, {0, 1});
  expect_consensus_after([](Round k) { return published(k); }, 4, {0, 1});
  const std::vector<std::vector<std::uint32_t>> all = {{2, 2, 2}, {3, 3}, {3, 4}, {2, 3, 4}};
  for (const auto& factors : all) {
    std::vector<Round> order(factors.size());
    std::iota(order.begin(), order.end(), Round{0});
    const auto n = std::accumulate(factors.begin(), factors.end(), 1u, std::multiplies<>());
    expect_consensus_after([&](Round k) { return radix(factors, k); }, n, order);
  }
}

// Invariant 4.
TEST(Schedule, Inv4_WhatOneKnowsAllKnowAfterAFewRounds) {
  const auto grown = [](const Rounds& rounds, std::uint32_t n, int count) {
    Weights w = identity(n);
    std::vector<std::size_t> sizes;
    for (int i = 0; i < count; ++i) {
      average(w, rounds(Round(i)));
      sizes.push_back(std::size_t(
          std::count_if(w.begin(), w.end(), [](const auto& row) { return row[5] > 0; })));
    }
    return sizes;
  };
  const Rounds squares = [](Round k) { return grid(16, 4, k); };
  const Rounds digits = [](Round k) { return radix({2, 2, 2, 2}, k); };
  const Partition sites = sites_with({4, 4, 4, 4});
  const Rounds crossing = [&](Round k) { return topology(sites, 1, k); };
  EXPECT_EQ(grown(squares, 16, 2), (std::vector<std::size_t>{4, 16}));
  EXPECT_EQ(grown(digits, 16, 4), (std::vector<std::size_t>{2, 4, 8, 16}));
  for (Round first = 0; first < 48; ++first) {
    EXPECT_EQ(rounds_until_heard(squares, 16, first), 2u);
    EXPECT_EQ(rounds_until_heard(digits, 16, first), 4u);
    EXPECT_LE(rounds_until_heard(crossing, 16, first), 5u) << first;
  }
}

// Invariant 5.
TEST(Schedule, Inv5_ARaggedGridComesCloserBySixInEveryCycle) {
  Weights w = identity(10);
  for (const double expected : {0.15, 0.025, 0.0042}) {
    for (Round k = 0; k < 2; ++k) average(w, grid(10, default_group_size(10), k));
    EXPECT_NEAR(furthest_from_mean(w), expected, 0.01 * expected);
  }
}

double squared_disagreement(const std::vector<double>& x) {
  const double mean = std::accumulate(x.begin(), x.end(), 0.0) / double(x.size());
  double sum = 0;
  for (const double one : x) sum += (one - mean) * (one - mean);
  return sum;
}

double mean_contraction(std::uint32_t n, std::uint32_t b, std::uint64_t draws) {
  double sum = 0;
  std::vector<double> x(n);
  for (std::uint32_t i = 0; i < n; ++i) x[i] = std::sin(1 + 7.0 * i);
  const double before = squared_disagreement(x);
  for (std::uint64_t k = 0; k < draws; ++k) {
    std::vector<double> y(n);
    for (const auto& group : random(n, b, drawn(k))) {
      double mean = 0;
      for (const std::uint32_t worker : group) mean += x[worker] / double(group.size());
      for (const std::uint32_t worker : group) y[worker] = mean;
    }
    sum += squared_disagreement(y);
  }
  return sum / double(draws) / before;
}

void expect_contraction(std::uint64_t draws, double share) {
  EXPECT_NEAR(mean_contraction(16, 4, draws), 0.2, share * 0.2);
  EXPECT_NEAR(mean_contraction(16, 2, draws), 0.4667, share * 0.4667);
  EXPECT_NEAR(mean_contraction(8, 2, draws), 0.4286, share * 0.4286);
}

// Invariant 6.
TEST(Schedule, Inv6_RandomGroupsShrinkTheDisagreementByTheFormula) {
  expect_contraction(longhaul::testing::kGate ? 2000 : 4000, 0.04);
}
TEST(ScheduleNightly, Inv6_WithinTwoPercentOver40000Draws) { expect_contraction(40'000, 0.02); }

// The mean square of a worker's distance from the mean, just after a round, when every worker moves
// by noise of variance 1 in every round: C <- W (C + I) W^T, without what all have in common. In
// the mean over the rounds after the first ones.
double steady_disagreement(const Rounds& rounds, std::uint32_t n, Round skipped, Round counted) {
  Weights c(n, std::vector<double>(n, 0));
  double sum = 0;
  for (Round k = 0; k < skipped + counted; ++k) {
    for (std::uint32_t i = 0; i < n; ++i) c[i][i] += 1;
    const Partition groups = rounds(k);
    average(c, groups);
    for (std::uint32_t i = 0; i < n; ++i)  // W C is not symmetric: W (W C)^T is W C W^T
      for (std::uint32_t j = 0; j < i; ++j) std::swap(c[i][j], c[j][i]);
    average(c, groups);
    double all = 0, own = 0;
    for (std::uint32_t i = 0; i < n; ++i) {
      own += c[i][i];
      all += std::accumulate(c[i].begin(), c[i].end(), 0.0);
    }
    if (k >= skipped) sum += (own - all / n) / n / double(counted);
  }
  return sum;
}

void expect_steady(const Rounds& rounds, std::uint32_t n, double expected, double share,
                   Round counted) {
  EXPECT_NEAR(steady_disagreement(rounds, n, 50, counted), expected, share * expected);
}

// Invariant 7.
TEST(Schedule, Inv7_ModelsStayAsFarApartAsTheFormulaSays) {
  expect_steady([](Round k) { return grid(16, 4, k); }, 16, 0.1875, 1e-6, 4);
  expect_steady([](Round k) { return radix({2, 2, 2, 2}, k); }, 16, 0.6875, 1e-6, 4);
  expect_steady([](Round k) { return radix({2, 2, 2}, k); }, 8, 0.5, 1e-6, 3);
  const Partition sites = sites_with({4, 4, 4, 4});
  expect_steady([&](Round k) { return topology(sites, 1, k); }, 16, 0.66, 0.05, 48);
  expect_steady([](Round k) { return random(16, 4, drawn(k)); }, 16, 0.2344, 0.03, 300);
}
TEST(ScheduleNightly, Inv7_RandomGroupsToo) {
  expect_steady([](Round k) { return random(16, 4, drawn(k)); }, 16, 0.2344, 0.03, 4000);
  expect_steady([](Round k) { return random(16, 2, drawn(k)); }, 16, 0.8203, 0.03, 4000);
}

}  // namespace
}  // namespace longhaul::sync::shuffle

#include "longhaul/flow/fair_share.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>

#include "longhaul/flow/testing/draw.h"

namespace longhaul::flow {
namespace {

using testing::number;

struct Problem {
  std::vector<double> capacities;
  std::vector<FairFlow> flows;
  std::vector<std::uint32_t> crossings;

  void add(std::vector<std::uint32_t> links, double cap = kUnlimited, std::uint32_t weight = 1,
           std::uint8_t priority = 0) {
    flows.push_back(
        {std::uint32_t(crossings.size()), std::uint32_t(links.size()), weight, priority, cap});
    crossings.insert(crossings.end(), links.begin(), links.end());
  }
  std::vector<std::uint32_t> links_of(std::size_t flow) const {
    const auto begin = crossings.begin() + flows[flow].first;
    return {begin, begin + flows[flow].links};
  }
  std::vector<double> solve() const { return FairShare().solve(capacities, flows, crossings); }
};

// Up to 8 links and 24 flows, many levels equal.
Problem any_problem() {
  Problem p;
  for (int links = 1 + number(8); links > 0; --links)
    p.capacities.push_back(number(12) == 0 ? 0 : double(1 + number(3)) / 7);
  for (int flows = number(25); flows > 0; --flows) {
    std::vector<std::uint32_t> links;
    for (std::uint32_t l = 0; l < p.capacities.size(); ++l)
      if (number(3) == 0) links.push_back(l);
    const double cap = number(3) == 0 ? double(number(9)) / 14 : kUnlimited;
    p.add(links, cap, std::uint32_t(1 + number(6) / 4), std::uint8_t(number(3)));
  }
  return p;
}

// Of flows of at least this priority.
double load(const Problem& p, const std::vector<double>& rates, std::uint32_t link,
            std::uint8_t priority = 0) {
  double sum = 0;
  for (std::size_t i = 0; i < rates.size(); ++i)
    for (const std::uint32_t l : p.links_of(i))
      if (l == link && p.flows[i].priority >= priority) sum += rates[i];
  return sum;
}

bool is_full(const Problem& p, const std::vector<double>& rates, std::uint32_t link,
             std::uint8_t priority) {
  return load(p, rates, link, priority) >= p.capacities[link] * (1 - 1e-8);
}

RC_GTEST_PROP(FairShare, NoLinkIsOverItsCapacityAndNoFlowOverItsCap, ()) {
  const Problem p = any_problem();
  const auto rates = p.solve();
  for (std::uint32_t l = 0; l < p.capacities.size(); ++l)
    RC_ASSERT(load(p, rates, l) <= p.capacities[l] * (1 + 1e-9));
  for (std::size_t i = 0; i < rates.size(); ++i)
    RC_ASSERT(rates[i] >= 0 && rates[i] <= p.flows[i].cap);
}

// Every flow is at its cap or on a full link: nothing is left over that somebody could use.
RC_GTEST_PROP(FairShare, IsWorkConserving, ()) {
  static int turn = 0;
  if (!flow::testing::tried(turn, 3)) return;
  const Problem p = any_problem();
  const auto rates = p.solve();
  for (std::size_t i = 0; i < rates.size(); ++i) {
    bool stopped = rates[i] >= p.flows[i].cap * (1 - 1e-9);
    for (const std::uint32_t l : p.links_of(i)) stopped |= is_full(p, rates, l, 0);
    RC_ASSERT(stopped);
  }
}

// ... and on one of these links no flow of its priority has more for its weight: it could not grow
// but at the cost of one that has as little, or of a higher priority. That is what max-min means.
RC_GTEST_PROP(FairShare, NoFlowCanGrowWithoutShrinkingASmallerOrEqualOne, ()) {
  const Problem p = any_problem();
  const auto rates = p.solve();
  const auto level = [&](std::size_t i) { return rates[i] / p.flows[i].weight; };
  for (std::size_t i = 0; i < rates.size(); ++i) {
    bool stopped = rates[i] >= p.flows[i].cap * (1 - 1e-9);
    for (const std::uint32_t l : p.links_of(i)) {
      if (!is_full(p, rates, l, p.flows[i].priority)) continue;
      bool largest = true;
      for (std::size_t j = 0; j < rates.size(); ++j)
        for (const std::uint32_t other : p.links_of(j))
          largest &= other != l || p.flows[j].priority != p.flows[i].priority ||
                     level(j) <= level(i) * (1 + 1e-9);
      stopped |= largest;
    }
    RC_ASSERT(stopped);
  }
}

RC_GTEST_PROP(FairShare, AHigherPriorityTakesNoNoticeOfALowerOne, ()) {
  const Problem p = any_problem();
  const auto rates = p.solve();
  for (const int least : {1, 2}) {
    Problem alone = p;
    std::erase_if(alone.flows, [&](const FairFlow& f) { return f.priority < least; });
    std::vector<double> expected;
    for (std::size_t i = 0; i < rates.size(); ++i)
      if (p.flows[i].priority >= least) expected.push_back(rates[i]);
    RC_ASSERT(alone.solve() == expected);
  }
}

// Bit for bit.
RC_GTEST_PROP(FairShare, NeitherTheOrderOfFlowsNorThatOfLinksMatters, ()) {
  const Problem p = any_problem();
  std::vector<std::uint32_t> link_at(p.capacities.size()), flow_at(p.flows.size());
  for (auto* order : {&link_at, &flow_at}) {
    std::iota(order->begin(), order->end(), 0u);
    for (std::size_t i = order->size(); i > 1; --i)
      std::swap((*order)[i - 1], (*order)[std::size_t(number(int(i)))]);
  }
  Problem q;
  q.capacities.resize(p.capacities.size());
  for (std::size_t l = 0; l < link_at.size(); ++l) q.capacities[link_at[l]] = p.capacities[l];
  for (const std::uint32_t i : flow_at) {
    std::vector<std::uint32_t> links;
    for (const std::uint32_t l : p.links_of(i)) links.push_back(link_at[l]);
    std::ranges::reverse(links);
    q.add(links, p.flows[i].cap, p.flows[i].weight, p.flows[i].priority);
  }
  const auto before = p.solve(), after = q.solve();
  for (std::size_t i = 0; i < flow_at.size(); ++i) RC_ASSERT(after[i] == before[flow_at[i]]);
}

// Bit for bit: what shares no link with a flow, directly or by others, may as well not be there.
RC_GTEST_PROP(FairShare, WhatIsNotConnectedDoesNotMatter, ()) {
  static int turn = 0;
  if (!flow::testing::tried(turn, 3)) return;
  const Problem one = any_problem(), other = any_problem();
  Problem both = one;
  both.capacities.insert(both.capacities.end(), other.capacities.begin(), other.capacities.end());
  for (std::size_t i = 0; i < other.flows.size(); ++i) {
    std::vector<std::uint32_t> links = other.links_of(i);
    for (std::uint32_t& l : links) l += std::uint32_t(one.capacities.size());
    both.add(links, other.flows[i].cap, other.flows[i].weight, other.flows[i].priority);
  }
  std::vector<double> expected = one.solve();
  const std::vector<double> more = other.solve();
  expected.insert(expected.end(), more.begin(), more.end());
  RC_ASSERT(both.solve() == expected);
}

// Two links of 0.7 with three flows each, one of them on both: were one link frozen before the
// other, the flows of the second would have what rounding leaves of it.
TEST(FairShare, LinksThatAreFullAtOneLevelAreFrozenAtOnce) {
  for (int tenths = 1; tenths < 100; ++tenths) {
    Problem p{.capacities = {tenths / 10.0, tenths / 10.0}, .flows = {}, .crossings = {}};
    for (int i = 0; i < 2; ++i) p.add({0});
    p.add({0, 1});
    for (int i = 0; i < 2; ++i) p.add({1});
    EXPECT_EQ(p.solve(), std::vector<double>(5, tenths / 10.0 / 3));
  }
}

// By hand: two flows share a link of 10, one of them goes on over a link of 3.
TEST(FairShare, WhatOneCannotUseTheOtherGets) {
  Problem p{.capacities = {10, 3}, .flows = {}, .crossings = {}};
  p.add({0});
  p.add({0, 1});
  EXPECT_EQ(p.solve(), (std::vector<double>{7, 3}));
  p.add({1}, kUnlimited, 2);
  EXPECT_EQ(p.solve(), (std::vector<double>{9, 1, 2}));
  p.add({0}, 4, 1, 1);  // of a higher priority
  EXPECT_EQ(p.solve(), (std::vector<double>{5, 1, 2, 4}));
}

TEST(FairShare, AFullLinkLeavesNothingToLowerPrioritiesAndNoLinkLimitsNothing) {
  Problem p{.capacities = {0.3}, .flows = {}, .crossings = {}};
  for (int i = 0; i < 3; ++i) p.add({0}, 0.1, 1, 1);
  p.add({0});
  p.add({});
  p.add({}, 5);
  const auto rates = p.solve();  // three tenths are more than 0.3 by a rounding
  EXPECT_DOUBLE_EQ(rates[0], 0.1);
  EXPECT_EQ(rates[3], 0);
  EXPECT_EQ(rates[4], kUnlimited);
  EXPECT_EQ(rates[5], 5);
}

}  // namespace
}  // namespace longhaul::flow

#include "longhaul/flow/fair_rates.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "longhaul/flow/testing/draw.h"

namespace longhaul::flow {
namespace {

using testing::number;

// Flows over links, and what is true of them, to be computed from scratch.
struct Model {
  std::vector<double> capacities;
  std::vector<FairFlow> flows;
  std::vector<std::uint32_t> crossings;
  std::vector<bool> busy;
  FairRates shares;

  explicit Model(std::size_t links, std::size_t flow_count) {
    for (std::size_t l = 0; l < links; ++l) {
      capacities.push_back(double(10 * (1 + number(9))));
      shares.add_link(capacities.back());
    }
    for (std::size_t i = 0; i < flow_count; ++i) {
      std::vector<std::uint32_t> path;
      for (std::uint32_t l = 0; l < links; ++l)
        if (number(4) == 0) path.push_back(l);
      const auto priority = std::uint8_t(number(2));
      // Of the large ones cap / weight * weight is not always cap.
      const auto weight = std::uint32_t(number(2) == 0 ? 1 + number(3) : 80 + number(40));
      flows.push_back(
          {std::uint32_t(crossings.size()), std::uint32_t(path.size()), weight, priority});
      crossings.insert(crossings.end(), path.begin(), path.end());
      busy.push_back(false);
      shares.add_flow(path, priority, weight);
    }
  }

  void change() {
    const auto i = std::uint32_t(number(int(flows.size())));
    switch (number(5)) {
      case 4: {  // other links
        std::vector<std::uint32_t> path;
        for (std::uint32_t l = 0; l < capacities.size(); ++l)
          if (number(3) == 0) path.push_back(l);
        if (path.empty()) path.push_back(std::uint32_t(number(int(capacities.size()))));
        flows[i].first = std::uint32_t(crossings.size());
        flows[i].links = std::uint32_t(path.size());
        crossings.insert(crossings.end(), path.begin(), path.end());
        return shares.set_links(i, path);
      }
      case 0: {
        const auto l = std::uint32_t(number(int(capacities.size())));
        capacities[l] = double(number(10) * 10);
        return shares.set_capacity(l, capacities[l]);
      }
      case 1:
        flows[i].cap = number(3) == 0 ? kUnlimited : double(number(40)) / 6;
        return shares.set_cap(i, flows[i].cap);
      default:
        busy[i] = !busy[i];
        return shares.set_busy(i, busy[i]);
    }
  }

  std::vector<double> from_scratch() const {
    std::vector<FairFlow> on;
    for (std::size_t i = 0; i < flows.size(); ++i)
      if (busy[i]) on.push_back(flows[i]);
    const std::vector<double> solved = FairShare().solve(capacities, on, crossings);
    std::vector<double> rates;
    for (std::size_t i = 0, k = 0; i < flows.size(); ++i)
      rates.push_back(busy[i] ? solved[k++] : 0);
    return rates;
  }
  std::vector<double> now() const {
    std::vector<double> rates;
    for (std::uint32_t i = 0; i < flows.size(); ++i) rates.push_back(shares.rate(i));
    return rates;
  }
};

RC_GTEST_PROP(FairRates, IncrementalIsFromScratchBitForBit, ()) {
  static int turn = 0;
  if (!flow::testing::tried(turn, 3)) return;
  Model m(std::size_t(1 + number(8)), std::size_t(1 + number(20)));
  for (int turns = number(40); turns > 0; --turns) {
    for (int changes = number(4); changes > 0; --changes) m.change();
    const std::vector<double> before = m.now();
    const std::vector<std::uint32_t> changed = m.shares.settle();
    RC_ASSERT(!m.shares.unsettled());
    RC_ASSERT(m.now() == m.from_scratch());
    for (std::uint32_t i = 0; i < before.size(); ++i)
      RC_ASSERT((before[i] != m.shares.rate(i)) == std::ranges::binary_search(changed, i));
  }
}

RC_GTEST_PROP(FairRates, SavedAndLoadedBetweenAnyTwoChangesTheyGoOn, ()) {
  static int turn = 0;
  if (!flow::testing::tried(turn)) return;
  const std::size_t links = std::size_t(1 + number(5)), count = std::size_t(1 + number(9));
  Model m(links, count);
  for (int changes = number(60); changes > 0; --changes) {
    m.change();
    if (number(4) == 0) m.shares.settle();
    Archive save;
    m.shares.state(save);
    const Buffer bytes = save.take();
    Archive load(bytes);
    FairRates loaded;
    for (const double capacity : m.capacities) loaded.add_link(capacity);
    for (const FairFlow& f : m.flows)
      loaded.add_flow({m.crossings.begin() + f.first, m.crossings.begin() + f.first + f.links},
                      f.priority, f.weight);
    loaded.state(load);
    RC_ASSERT(bool(load.finish()));
    RC_ASSERT(loaded.unsettled() == m.shares.unsettled());
    m.shares = std::move(loaded);
  }
  m.shares.settle();
  RC_ASSERT(m.now() == m.from_scratch());
}

// What it has of its cap is an ulp less than the cap, which limits it all the same.
TEST(FairRates, ACapThatIsRaisedMakesRoomWhateverTheWeight) {
  for (std::uint32_t weight = 1; weight < 200; ++weight) {
    FairRates shares;
    shares.add_link(100);
    shares.add_flow({0}, 0, weight);
    shares.set_busy(0, true);
    for (const double cap : {5.0, 10.0, 20.0, 40.0}) {
      shares.set_cap(0, cap);
      shares.settle();
      ASSERT_NEAR(shares.rate(0), cap, 1e-9) << "weight " << weight;
    }
  }
}

TEST(FairRates, WhoPausesAndGoesOnAtOnceChangesNothing) {
  FairRates shares;
  shares.add_link(10);
  shares.add_flow({0});
  shares.set_busy(0, true);
  EXPECT_TRUE(shares.unsettled());
  EXPECT_EQ(shares.settle(), std::vector<std::uint32_t>{0});
  shares.set_busy(0, false);
  shares.set_busy(0, true);
  EXPECT_FALSE(shares.unsettled());
  shares.set_cap(0, 20);  // does not limit
  EXPECT_FALSE(shares.unsettled());
  shares.set_cap(0, 5);
  EXPECT_TRUE(shares.unsettled());
  shares.settle();
  EXPECT_EQ(shares.rate(0), 5);
}

}  // namespace
}  // namespace longhaul::flow

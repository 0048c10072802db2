// Invariants: the plan, here, memory and bytes, with all overlays: agreed_test.cpp.
#include "longhaul/overlay/fixed_plans.h"

#include <gtest/gtest.h>

#include <set>

#include "longhaul/overlay/testing/exchange.h"

namespace longhaul::overlay {
namespace {

using testing::Exchange;
using testing::ExchangeConfig;

// Every ordered pair of workers moves one encoded vector, and nothing back.
TEST(Gather, PlansOneVectorForEachPair) {
  for (const bool lossy : {false, true}) {
    ExchangeConfig c{.kind = "gather", .workers = 4, .length = 1000};
    c.lossy = lossy;
    Exchange exchange = Exchange::agreed(c);
    const auto plan = exchange.at(0).overlay().planned(c.length);
    ASSERT_TRUE(plan);
    EXPECT_EQ(plan->loads.size(), 12u);
    for (const auto& [way, load] : plan->loads) {
      EXPECT_EQ(load.reduce, (lossy ? 2 : 4) * c.length);
      EXPECT_EQ(load.spread, 0u);
    }
    EXPECT_TRUE(plan->trees.empty());
  }
}

TEST(Gather, NamesThoseWhosePartsItWaitsFor) {
  ExchangeConfig c{.kind = "gather", .workers = 3, .length = 10};
  Exchange exchange(c);
  std::set<std::string> said;
  do said.insert(exchange.at(1).overlay().waiting_for());
  while (exchange.step());
  EXPECT_TRUE(said.contains("round 0: parts of ranks 0, 2"));
  for (const std::string& one : said)
    EXPECT_EQ(one.find('1', one.find(" of ")), std::string::npos) << "not of itself: " << one;
}

}  // namespace
}  // namespace longhaul::overlay

#include "longhaul/doctor/schedule.h"

#include <gtest/gtest.h>

#include <set>

namespace longhaul::doctor {
namespace {

std::set<Pair> all_pairs(std::uint32_t sites) {
  std::set<Pair> pairs;
  for (std::uint32_t a = 0; a < sites; ++a)
    for (std::uint32_t b = a + 1; b < sites; ++b) pairs.insert({a, b});
  return pairs;
}

TEST(Schedule, EveryPairOnceLowerFirst) {
  for (std::uint32_t sites = 0; sites <= 21; ++sites)
    for (const auto& slots : {round_robin_schedule(sites), one_by_one(sites)}) {
      std::set<Pair> seen;
      for (const Slot& slot : slots)
        for (const Pair& pair : slot) EXPECT_TRUE(seen.insert(pair).second) << sites;
      EXPECT_EQ(seen, all_pairs(sites)) << sites;
    }
}

TEST(Schedule, NoSiteTwiceInASlot) {
  for (std::uint32_t sites = 2; sites <= 21; ++sites)
    for (const Slot& slot : round_robin_schedule(sites)) {
      std::set<std::uint32_t> busy;
      for (const auto& [a, b] : slot) EXPECT_TRUE(busy.insert(a).second && busy.insert(b).second);
    }
}

TEST(Schedule, AsFewSlotsAsCanBe) {
  for (std::uint32_t sites = 2; sites <= 21; ++sites)
    EXPECT_EQ(round_robin_schedule(sites).size(), sites % 2 == 0 ? sites - 1 : sites);
}

TEST(Schedule, OneByOneIsOneByOne) {
  for (const Slot& slot : one_by_one(7)) EXPECT_EQ(slot.size(), 1u);
}

}  // namespace
}  // namespace longhaul::doctor

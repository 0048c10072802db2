#include "longhaul/sync/sfb/spread.h"

#include <gtest/gtest.h>

#include <set>

#include "longhaul/base/testing/effort.h"

namespace longhaul::sync::sfb {
namespace {

constexpr Rank kOrigins = longhaul::testing::kStride > 1 ? 5 : 1;  // one in so many

// `sites` sites of workers, rank by rank the next site.
Place place_with(std::uint32_t workers, std::uint32_t sites) {
  Members members;
  for (Rank rank = 0; rank < workers; ++rank)
    members.push_back({"site" + std::to_string(rank % sites), rank / sites});
  Place place;
  place.members = std::make_shared<const Members>(std::move(members));
  return place;
}

std::vector<Rank> first_ranks(std::uint32_t count) {
  std::vector<Rank> ranks(count);
  for (Rank rank = 0; rank < count; ++rank) ranks[rank] = rank;
  return ranks;
}

// How far each worker is from the origin. Fails if one is reached twice or not at all.
std::map<Rank, unsigned> depths(Spread spread, Rank origin, const std::vector<Rank>& workers,
                                const Place& place) {
  std::map<Rank, unsigned> depth{{origin, 0}};
  std::vector<Rank> queue = {origin};
  for (std::size_t i = 0; i < queue.size(); ++i)
    for (const Rank to : next_hops(spread, origin, queue[i], workers, place)) {
      EXPECT_TRUE(depth.emplace(to, depth[queue[i]] + 1).second) << to << " is reached twice";
      queue.push_back(to);
    }
  EXPECT_EQ(depth.size(), workers.size());
  return depth;
}

unsigned deepest(const std::map<Rank, unsigned>& depth) {
  unsigned most = 0;
  for (const auto& [rank, at] : depth) most = std::max(most, at);
  return most;
}

// sfb_test.cpp, invariant 7.
TEST(SfbSpread, ReachesEachWorkerOnceInLogarithmicDepth) {
  for (std::uint32_t count = 2; count < 40; count += longhaul::testing::kGate ? 3 : 1) {
    const Place place = place_with(count, 5);
    unsigned log = 0;
    while ((1u << log) < count) ++log;
    for (Rank origin = 0; origin < count; origin += kOrigins) {
      EXPECT_EQ(deepest(depths(Spread::full, origin, first_ranks(count), place)), 1u);
      EXPECT_LE(deepest(depths(Spread::tree, origin, first_ranks(count), place)), log);
      EXPECT_LE(deepest(depths(Spread::site, origin, first_ranks(count), place)), 2u);
      EXPECT_LE(next_hops(Spread::tree, origin, origin, first_ranks(count), place).size(), log);
    }
  }
}

TEST(SfbSpread, LeavesOutTheLost) {
  const Place place = place_with(9, 3);
  const std::vector<Rank> live = {0, 2, 3, 5, 7, 8};
  for (const Spread spread : {Spread::full, Spread::tree, Spread::site})
    for (const Rank origin : live)
      for (const auto& [rank, depth] : depths(spread, origin, live, place))
        EXPECT_TRUE(std::binary_search(live.begin(), live.end(), rank));
}

// One copy crosses to each other site, and several workers of a site take turns to pass it on.
TEST(SfbSpread, OfSitesSendsOneCopyToEach) {
  const Place place = place_with(16, 4);
  std::map<Rank, int> relayed;
  for (Rank origin = 0; origin < 16; ++origin) {
    int across = 0;
    for (Rank self = 0; self < 16; ++self)
      for (const Rank to : next_hops(Spread::site, origin, self, first_ranks(16), place)) {
        if (place.member(to).site == place.member(self).site) continue;
        ++across;
        ++relayed[to];
      }
    EXPECT_EQ(across, 3);
  }
  EXPECT_EQ(relayed.size(), 12u) << "of each site those of other numbers than its own";
}

// sfb_test.cpp, invariant 8: in ceil((P - 1) / Q) clocks, whichever is the first, a worker sends to
// all others, and who sends to whom is the same on both sides.
TEST(SfbSpread, PartialReachesAllInACycle) {
  for (std::uint32_t count = 3; count < 30; ++count)
    for (std::uint32_t peers = 1; peers < count; peers += longhaul::testing::kGate ? 5 : 1) {
      const std::vector<Rank> workers = first_ranks(count);
      const std::uint32_t cycle = partial_cycle(peers, count);
      EXPECT_EQ(cycle, (count - 1 + peers - 1) / peers);
      for (const Round first : {Round(0), Round(123456)}) {
        std::set<Rank> reached;
        for (Round clock = first; clock < first + cycle; ++clock) {
          const auto to = partial_receivers(clock, 1, peers, workers);
          EXPECT_EQ(std::set<Rank>(to.begin(), to.end()).size(), peers);
          reached.insert(to.begin(), to.end());
          if (clock > first) continue;
          for (const Rank rank : workers) {
            const auto from = partial_senders(clock, rank, peers, workers);
            EXPECT_EQ(std::ranges::count(to, rank), std::ranges::count(from, Rank(1)));
          }
        }
        EXPECT_EQ(reached.size(), count - 1);
        EXPECT_FALSE(reached.contains(1));
      }
    }
}

TEST(SfbSpread, PartialGoesByThoseWhoLive) {
  const std::vector<Rank> live = {2, 3, 7};
  EXPECT_EQ(partial_receivers(0, 7, 1, live), std::vector<Rank>{2});
  EXPECT_EQ(partial_receivers(1, 7, 1, live), std::vector<Rank>{3});
  EXPECT_EQ(partial_receivers(0, 3, 9, live), (std::vector<Rank>{2, 7}));
  EXPECT_EQ(partial_peers(0, 2), 1u);
  EXPECT_EQ(partial_peers(0, 8), 3u);
  EXPECT_EQ(partial_peers(0, 9), 4u);
  EXPECT_EQ(partial_peers(3, 1), 0u);
  EXPECT_EQ(spread_of("partial", place_with(8, 4)), Spread::partial);
}

TEST(SfbSpread, IsChosenByTheWorkersOfTheJob) {
  EXPECT_EQ(spread_of("auto", place_with(8, 8)), Spread::full);
  EXPECT_EQ(spread_of("auto", place_with(9, 9)), Spread::tree);
  EXPECT_EQ(spread_of("auto", place_with(8, 4)), Spread::site);
  EXPECT_EQ(spread_of("auto", place_with(8, 1)), Spread::full);
  EXPECT_EQ(spread_of("tree", place_with(2, 2)), Spread::tree);
}

}  // namespace
}  // namespace longhaul::sync::sfb

#include "longhaul/overlay/ring.h"

#include <map>

#include <gtest/gtest.h>

namespace longhaul::overlay {
namespace {

// The same at all nodes, over what they are told of workers; servers stand nowhere; after a loss
// the circle closes over the gap.
TEST(RingOrder, IsOfTheWorkersThatLive) {
  auto members = std::make_shared<Members>(Members{{"a"}, {"hub"}, {"b"}, {"c"}, {"d"}});
  members->at(1).roles = std::uint8_t(Role::server);
  Place place{.members = members, .layout = Layout::flat(1)};
  // 0 to 3 to 2 to 4 to 0 is fast; the server would be fastest of all.
  const RateBelief rate = [](Rank from, Rank to) {
    if (from == 1 || to == 1) return 1000.0;
    const std::map<Rank, Rank> next = {{0, 3}, {3, 2}, {2, 4}, {4, 0}};
    return next.at(from) == to ? 10.0 : 1.0;
  };
  const std::vector<Rank> workers = {0, 2, 3, 4}, left = {0, 2, 4};
  for (place.self = 0; place.self < 5; ++place.self) {
    const Ring ring({.order = "bandwidth"}, rate, place);
    EXPECT_EQ(ring.circle({.workers = workers, .members = workers, .server = {}}),
              (std::vector<Rank>{0, 3, 2, 4}));
    EXPECT_EQ(ring.circle({.workers = workers, .members = left, .server = {}}),
              (std::vector<Rank>{0, 2, 4}));
  }
}

// A server would spare them the slow hop from 2 to 0.
TEST(RingOrder, AServerStandsNowhere) {
  auto members = std::make_shared<Members>(Members{{"a"}, {"hub"}, {"b"}, {"c"}});
  members->at(1).roles = std::uint8_t(Role::server);
  const Place place{.members = members, .layout = Layout::flat(1)};
  const RateBelief rate = [](Rank from, Rank to) {
    if (from == 1 || to == 1) return 1000.0;
    if (from == 2 && to == 0) return 1.0;
    return (from == 0 && to == 3) || (from == 3 && to == 2) ? 10.0 : 5.0;
  };
  const std::vector<Rank> workers = {0, 2, 3};
  EXPECT_EQ(Ring({.order = "bandwidth"}, rate, place)
                .circle({.workers = workers, .members = workers, .server = {}}),
            workers);
}

TEST(RingOrder, IsByRankIfNotAskedForOrIfNothingIsBelieved) {
  const Place place{.members = std::make_shared<Members>(Members{{"a"}, {"b"}, {"c"}}),
                    .layout = Layout::flat(1)};
  const std::vector<Rank> all = {0, 1, 2};
  const GroupMembers team{.workers = all, .members = all, .server = {}};
  const RateBelief backwards = [](Rank from, Rank to) { return from > to ? 2.0 : 1.0; };
  EXPECT_EQ(Ring({.order = "bandwidth"}, backwards, place).circle(team),
            (std::vector<Rank>{0, 2, 1}));
  EXPECT_EQ(Ring({.order = "id"}, backwards, place).circle(team), all);
  EXPECT_EQ(Ring({.order = "bandwidth"}, {}, place).circle(team), all);
}

}  // namespace
}  // namespace longhaul::overlay

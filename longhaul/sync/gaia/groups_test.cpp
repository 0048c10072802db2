#include "longhaul/sync/gaia/groups.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "longhaul/base/testing/result.h"

namespace longhaul::sync::gaia {
namespace {

const std::vector<std::string> kRegions = {"virginia",  "california", "oregon",  "ireland",
                                           "frankfurt", "tokyo",      "seoul",   "singapore",
                                           "sydney",    "mumbai",     "saopaulo"};

Place place_of(const std::vector<std::string>& sites) {
  Place place;
  Members members;
  for (const std::string& site : sites) members.push_back({site});
  place.members = std::make_shared<const Members>(members);
  return place;
}

std::vector<std::string> names(const std::vector<Rank>& ranks, const Place& place) {
  std::vector<std::string> all;
  for (const Rank rank : ranks) all.push_back(place.member(rank).site);
  return all;
}

TEST(GaiaGroups, OfThe11RegionsArePublished) {
  const Place place = place_of(kRegions);
  const Groups groups = make_groups({}, {}, place);
  ASSERT_EQ(groups.members.size(), 3u);
  EXPECT_EQ(names(groups.members[0], place),
            (std::vector<std::string>{"virginia", "california", "oregon", "saopaulo"}));
  EXPECT_EQ(names(groups.members[1], place),
            (std::vector<std::string>{"tokyo", "seoul", "singapore", "sydney"}));
  EXPECT_EQ(names(groups.members[2], place),
            (std::vector<std::string>{"frankfurt", "ireland", "mumbai"}));
  const auto peers = [&](std::uint32_t a, std::uint32_t b) {
    const auto [first, second] = groups.peers.at({a, b});
    return names({first, second}, place);
  };
  EXPECT_EQ(peers(0, 2), (std::vector<std::string>{"virginia", "frankfurt"}));
  EXPECT_EQ(peers(0, 1), (std::vector<std::string>{"oregon", "seoul"}));
  EXPECT_EQ(peers(1, 2), (std::vector<std::string>{"tokyo", "mumbai"}));
}

// Nine sites on a line at 0, 1, 2, 10, 11, 12, 20, 21, 22.
double on_a_line(Rank from, Rank to) {
  const auto at = [](Rank rank) { return double(rank / 3 * 10 + rank % 3); };
  return std::abs(at(from) - at(to));
}

TEST(GaiaGroups, OthersAreMadeOfNearSites) {
  const Place place = place_of({"a", "b", "c", "d", "e", "f", "g", "h", "i"});
  const Groups groups = make_groups({}, on_a_line, place);
  ASSERT_EQ(groups.members.size(), 3u);
  // The hub first: the nearest to all; in the group in the middle that is its middle.
  EXPECT_EQ(groups.members[0], (std::vector<Rank>{2, 0, 1}));
  EXPECT_EQ(groups.members[1], (std::vector<Rank>{4, 3, 5}));
  EXPECT_EQ(groups.members[2], (std::vector<Rank>{6, 7, 8}));
  EXPECT_EQ(groups.peers.at({0, 1}), (std::pair<Rank, Rank>{2, 3}));
  EXPECT_EQ(groups.peers.at({0, 2}), (std::pair<Rank, Rank>{1, 6})) << "2 has a duty";
  EXPECT_EQ(groups.peers.at({1, 2}), (std::pair<Rank, Rank>{5, 7}));
}

TEST(GaiaGroups, HoldEveryWorkerOnceForAnyNumber) {
  for (std::uint32_t n = 1; n <= 20; ++n) {
    std::vector<std::string> sites;
    for (std::uint32_t i = 0; i < n; ++i) sites.push_back("site" + std::to_string(i));
    const Groups groups = make_groups({}, {}, place_of(sites));
    std::vector<Rank> all;
    for (const auto& group : groups.members) {
      EXPECT_FALSE(group.empty());
      all.insert(all.end(), group.begin(), group.end());
    }
    std::ranges::sort(all);
    EXPECT_EQ(all.size(), n);
    EXPECT_TRUE(std::adjacent_find(all.begin(), all.end()) == all.end());
    const std::size_t count = groups.members.size();
    EXPECT_EQ(groups.peers.size(), count * (count - 1) / 2);
  }
}

TEST(GaiaGroups, ALostHubIsReplacedByTheNextOfItsGroup) {
  const Groups groups = make_groups({}, {}, place_of(kRegions));
  std::vector<Rank> live = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};  // virginia is lost
  Groups left = without_lost(groups, live);
  EXPECT_EQ(left.members[0], (std::vector<Rank>{1, 2, 10}));
  EXPECT_EQ(left.peers.at({0, 2}), (std::pair<Rank, Rank>{1, 4})) << "california, frankfurt";
  EXPECT_EQ(left.peers.at({0, 1}), (std::pair<Rank, Rank>{2, 6}));
  live = {0, 1, 2, 3, 4, 9, 10};  // all of Asia but mumbai
  left = without_lost(groups, live);
  ASSERT_EQ(left.members.size(), 2u);
  EXPECT_EQ(
      left.peers,
      (std::map<std::pair<std::uint32_t, std::uint32_t>, std::pair<Rank, Rank>>{{{0, 1}, {0, 4}}}));
}

TEST(GaiaGroups, ThatAreNamedAreChecked) {
  const Place place = place_of({"a", "b", "c"});
  Config config;
  config.exchange = "gaia_hubs";
  const auto why = [&](std::vector<std::string> named, std::vector<std::string> peers) {
    config.groups = std::move(named);
    config.peers = std::move(peers);
    const Status status = Config::check(config, place);
    return status ? std::string() : status.error().what;
  };
  EXPECT_EQ(why({"b a", "c"}, {"a c"}), "");
  const Groups groups = make_groups(config, {}, place);
  EXPECT_EQ(groups.members, (std::vector<std::vector<Rank>>{{1, 0}, {2}}));
  EXPECT_EQ(groups.peers.at({0, 1}), (std::pair<Rank, Rank>{0, 2}));
  EXPECT_TRUE(says(why({"b x", "c"}, {}), "'x'"));
  EXPECT_TRUE(says(why({"b a", "c a"}, {}), "'a' twice"));
  EXPECT_TRUE(says(why({"b", "c"}, {}), "'a' is in none"));
  EXPECT_TRUE(says(why({"b a", "c"}, {"a b"}), "[sync] peers"));
  EXPECT_TRUE(says(why({"b a", "c"}, {"a"}), "[sync] peers"));
  config.exchange = "direct";
  EXPECT_TRUE(says(why({"b a", "c"}, {}), "exchange"));
}

}  // namespace
}  // namespace longhaul::sync::gaia

#include "longhaul/sync/min_sites.h"

#include <gtest/gtest.h>

namespace longhaul::sync {
namespace {

Place place_of(const std::vector<std::pair<std::string, Role>>& nodes) {
  Members members;
  for (const auto& [site, role] : nodes) members.push_back({site, 0, 0, std::uint8_t(role)});
  Place place;
  place.members = std::make_shared<const Members>(std::move(members));
  return place;
}

// Sites, not nodes; and of those that only serve nobody trains.
TEST(MinSites, CountsSitesWithWorkers) {
  const Place place = place_of({{"lima", Role::worker},
                                {"lima", Role::worker},
                                {"oslo", Role::worker},
                                {"tokyo", Role::server}});
  for (const std::uint32_t enough : {1u, 2u}) EXPECT_TRUE(check_min_sites(enough, place)) << enough;
  for (const std::uint32_t many : {3u, 4u}) {
    const Status status = check_min_sites(many, place);
    ASSERT_FALSE(status) << many;
    EXPECT_EQ(status.error().what, "[sync] min_sites = " + std::to_string(many) +
                                       ", but the job has 2 sites with workers: lower it");
  }
}

// The last one is enough, too.
TEST(MinSites, TheLastSiteCounts) {
  EXPECT_TRUE(check_min_sites(2, place_of({{"lima", Role::worker}, {"oslo", Role::worker}})));
  EXPECT_FALSE(check_min_sites(2, place_of({{"lima", Role::worker}, {"oslo", Role::server}})));
}

}  // namespace
}  // namespace longhaul::sync

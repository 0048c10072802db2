#include "longhaul/run/job/site_index.h"

#include <gmock/gmock.h>

#include "longhaul/flow/wan.h"

namespace longhaul::run {
namespace {

TEST(SiteIndex, FindsTheFirstOfAName) {
  flow::Wan wan;
  for (const char* name : {"tokyo", "lima", "oslo", "lima"})
    wan.sites.push_back({.name = name, .up = {}, .down = {}, .lan = {}});
  const SiteIndex sites(wan.sites);
  EXPECT_EQ(sites.at("lima"), 1u);
  EXPECT_EQ(sites.find("oslo"), 2u);
  EXPECT_FALSE(sites.find("lim"));
  EXPECT_THAT(sites.names(), ::testing::ElementsAre("tokyo", "lima", "oslo", "lima"));
}

}  // namespace
}  // namespace longhaul::run

#include "longhaul/cli/plan_text.h"

#include <gmock/gmock.h>

#include <fmt/format.h>

namespace longhaul::cli {
namespace {

using run::SitePlan;
using ::testing::HasSubstr;
using ::testing::Not;

SitePlan plan_of(std::uint32_t sites, std::size_t pairs) {
  SitePlan plan{.name = "job", .overlay = "forest", .mbytes = 8, .planned = true};
  plan.vector = 4'000'000;
  plan.busiest = "the uplink of s0";
  plan.busy_s = 2;
  for (std::uint32_t site = 0; site < sites; ++site)
    plan.sites.push_back({.name = fmt::format("s{}", site),
                          .out = 1'000'000,
                          .in = 500'000,
                          .up_used = site == sites - 1 ? 1 : 0.25,
                          .down_used = 0.125});
  for (std::size_t i = 0; i < pairs; ++i)
    plan.pairs.push_back({std::uint32_t(i % sites),
                          std::uint32_t((i + 1) % sites),
                          {750'000, 250'000},
                          1 / double(i + 1)});
  plan.trees.push_back({"s1", 0.625, 2, 1});
  return plan;
}

TEST(PlanText, RowsOfPairsSitesAndTrees) {
  EXPECT_EQ(plan_text(plan_of(3, 2)),
            "Plan of forest: a round of 8 MB, 4 MB as encoded, 2 bytes a value\n"
            "The busiest link, the uplink of s0, takes 2 s.\n"
            "\n"
            "from  to  MB  reduce  spread   used\n"
            "s0    s1   1    0.75    0.25  100 %\n"
            "s1    s2   1    0.75    0.25   50 %\n"
            "\n"
            "site  out MB  in MB  uplink used  downlink used\n"
            "s0         1    0.5         25 %           12 %\n"
            "s1         1    0.5         25 %           12 %\n"
            "s2         1    0.5        100 %           12 %\n"
            "\n"
            "root of a tree  of the vector  links up  down\n"
            "s1                    62.50 %         2     1\n");
}

TEST(PlanText, OfALinkWithoutARateNothingIsUsed) {
  SitePlan plan = plan_of(2, 1);
  plan.pairs[0].used.reset();
  plan.sites[0].up_used.reset();
  EXPECT_THAT(plan_text(plan), HasSubstr("s0    s1   1    0.75    0.25     -\n"));
  EXPECT_THAT(plan_text(plan), HasSubstr("s0         1    0.5            -           12 %\n"));
}

TEST(PlanText, OfManyTheMostUsed) {
  const std::string text = plan_text(plan_of(30, 21));
  EXPECT_THAT(text, HasSubstr("\nand 1 pairs with less; --json has all\n"));
  EXPECT_THAT(text, HasSubstr("\nand 10 sites with less; --json has all\n"));
  EXPECT_THAT(text, HasSubstr("downlink used\ns29 ")) << "the busiest first";
  EXPECT_THAT(text, Not(HasSubstr("\ns20 ")));
  EXPECT_THAT(plan_text(plan_of(20, 20)), Not(HasSubstr("with less")));
}

TEST(PlanText, NothingToSay) {
  SitePlan plan = plan_of(2, 0);
  plan.within = 3'000'000;
  EXPECT_THAT(plan_text(plan), HasSubstr("Nothing goes between sites.\nWithin sites: 3 MB.\n"));
  plan.planned = false;
  plan.bound_s = 1;
  EXPECT_EQ(plan_text(plan),
            "Plan of forest: a round of 8 MB, 4 MB as encoded, 2 bytes a value\n"
            "What goes where is decided while it runs; no overlay takes less than 1 s.\n");
}

}  // namespace
}  // namespace longhaul::cli

#include "longhaul/run/plan_svg.h"

#include <regex>

#include <gmock/gmock.h>

#include <fmt/format.h>

namespace longhaul::run {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// All to all among n sites; the pair from 0 to 1 carries `most` MB and is used up, the others 1 MB
// and to a tenth.
SitePlan plan_of(std::uint32_t n, std::uint64_t most = 8) {
  SitePlan plan{.name = "job", .overlay = "direct", .mbytes = 4, .planned = true};
  for (std::uint32_t site = 0; site < n; ++site)
    plan.sites.push_back({.name = fmt::format("site-{}", site)});
  for (std::uint32_t from = 0; from < n; ++from)
    for (std::uint32_t to = 0; to < n; ++to) {
      if (from == to) continue;
      const bool full = from == 0 && to == 1;
      plan.pairs.push_back({from, to, {full ? most * 1'000'000 : 1'000'000, 0}, full ? 1 : 0.1});
    }
  plan.busiest = "the uplink of site-0";
  plan.busy_s = 2;
  return plan;
}

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t found = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1))
    ++found;
  return found;
}

std::vector<double> widths(const std::string& svg) {
  std::vector<double> all;
  const std::regex arrow("fill=\"none\" stroke=\"#[0-9a-f]{6}\" stroke-width=\"([0-9.]+)\"");
  for (std::sregex_iterator it(svg.begin(), svg.end(), arrow), end; it != end; ++it)
    all.push_back(std::stod((*it)[1]));
  return all;
}

TEST(PlanSvg, OfWhatWasSentSaysSo) {
  SitePlan sent = plan_of(4);
  sent.measured = true;
  sent.sites[0].out = 13'500'000;
  const std::string svg = plan_svg(sent);
  EXPECT_THAT(svg, HasSubstr(">job: 13.5 MB sent between 4 sites<"));
  EXPECT_THAT(svg, HasSubstr(">The busiest link was the uplink of site-0: its bytes take 2 s.<"));
  EXPECT_THAT(svg, HasSubstr(">site-0 to site-1: 8 MB, 100 %<"));
  EXPECT_THAT(svg, Not(HasSubstr("a round")));
}

TEST(PlanSvg, OfALinkWithoutARateNothingIsUsed) {
  SitePlan plan = plan_of(3);
  for (SitePlan::Pair& pair : plan.pairs) pair.used.reset();
  for (SitePlan::Site& site : plan.sites) site.down_used = 0.5;
  const std::string svg = plan_svg(plan);
  EXPECT_THAT(svg, HasSubstr(">site-0 to site-1: 8 MB (reduce 8 MB, spread 0 B)<"));
  EXPECT_THAT(svg, HasSubstr(">up -, down 50 %<"));
  EXPECT_THAT(svg, Not(HasSubstr("stroke=\"#ffffff\""))) << "no labels";
}

TEST(PlanSvg, AnArrowForEachPairAsWideAsItsBytes) {
  const std::vector<double> wide = widths(plan_svg(plan_of(4)));
  ASSERT_EQ(wide.size(), 12u);
  EXPECT_NEAR(wide.back(), 6.1, 1e-9) << "the most used is drawn last, on top of the others";
  for (std::size_t i = 0; i + 1 < wide.size(); ++i) EXPECT_NEAR(wide[i], 1 + 5.1 / 8, 0.06);
}

TEST(PlanSvg, NamesAreEscaped) {
  SitePlan plan = plan_of(3);
  plan.name = "<b> & \"c\"";
  plan.sites[0].name = "a<b>&'\x01\"";
  const std::string svg = plan_svg(plan);
  EXPECT_THAT(svg, HasSubstr("a&lt;b&gt;&amp;&apos; &quot; to site-1: 8 MB"));
  EXPECT_THAT(svg, HasSubstr("&lt;b&gt; &amp; &quot;c&quot;: a round of 4 MB"));
  EXPECT_THAT(svg, Not(HasSubstr("<b>")));
}

TEST(PlanSvg, SharesBelowOnePercentAreEscaped) {
  SitePlan plan = plan_of(3);
  for (SitePlan::Pair& pair : plan.pairs) pair.used = 0.001;
  plan.sites[0].up_used = plan.sites[0].down_used = 0.001;
  const std::string svg = plan_svg(plan);
  EXPECT_THAT(svg, HasSubstr("&lt;1 %"));
  EXPECT_THAT(svg, Not(HasSubstr("<1")));
}

TEST(PlanSvg, TheTitleSaysWhatIsDrawn) {
  SitePlan plan = plan_of(4);
  plan.bound_s = 1.5;
  const std::string svg = plan_svg(plan);
  EXPECT_THAT(svg, HasSubstr(">job: a round of 4 MB over direct, 4 sites<"));
  EXPECT_THAT(svg, HasSubstr("The busiest link, the uplink of site-0, takes 2 s; no overlay takes "
                             "less than 1.5 s."));
  EXPECT_THAT(svg, HasSubstr(">site-0 to site-1: 8 MB (reduce 8 MB, spread 0 B), 100 %<"));
  EXPECT_EQ(svg, plan_svg(plan));
}

struct At {
  double x = 0, y = 0;
};
std::vector<At> labels(const std::string& svg) {
  std::vector<At> all;
  const std::regex label("<text x=\"([-0-9.]+)\" y=\"([-0-9.]+)\" font-size=\"12.5\"");
  for (std::sregex_iterator it(svg.begin(), svg.end(), label), end; it != end; ++it)
    all.push_back({std::stod((*it)[1]), std::stod((*it)[2])});
  return all;
}

TEST(PlanSvg, LabelsDoNotMeet) {
  for (const std::uint32_t sites : {2u, 4u, 8u, 11u, 16u, 30u}) {
    const std::vector<At> all = labels(plan_svg(plan_of(sites)));
    EXPECT_GE(all.size(), std::min(12u, sites * (sites - 1))) << sites;
    for (std::size_t a = 0; a < all.size(); ++a)
      for (std::size_t b = 0; b < a; ++b)
        EXPECT_TRUE(std::abs(all[a].x - all[b].x) >= 30 || std::abs(all[a].y - all[b].y) >= 14.8)
            << sites << " sites, at " << all[a].x << ' ' << all[a].y;
  }
}

TEST(PlanSvg, OfManySitesTheMostUsedWays) {
  const std::string svg = plan_svg(plan_of(100));
  EXPECT_EQ(widths(svg).size(), kMaxArrows);
  EXPECT_THAT(svg, HasSubstr("The 300 most used ways of 9900"));
  EXPECT_EQ(count(svg, "<circle"), 100u);
  EXPECT_THAT(svg, HasSubstr("width=\"1542\""));
  EXPECT_THAT(plan_svg(plan_of(4)), Not(HasSubstr("most used ways")));
}

TEST(PlanSvg, LongNamesAreCutBetweenCharacters) {
  SitePlan plan = plan_of(3);
  plan.sites[2].name = std::string(19, 'x') + "\xc3\xa9 and more";
  const std::string svg = plan_svg(plan);
  EXPECT_THAT(svg, HasSubstr(">" + std::string(19, 'x') + "..</text>"));
  EXPECT_THAT(svg, HasSubstr("<title>" + plan.sites[2].name + ": sends")) << "the title has it all";
}

TEST(PlanSvg, OneSiteAndNoArrow) {
  const std::string svg = plan_svg(plan_of(1));
  EXPECT_EQ(widths(svg).size(), 0u);
  EXPECT_EQ(count(svg, "<circle"), 1u);
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
}

}  // namespace
}  // namespace longhaul::run

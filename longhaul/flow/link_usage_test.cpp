#include "longhaul/flow/link_usage.h"

#include <limits>

#include <gtest/gtest.h>

namespace longhaul::flow {
namespace {

// Three sites: 4 MB/s out of each, 8 into each; from a to b 2.
Wan three() {
  Wan wan;
  for (const char* name : {"a", "b", "c"})
    wan.sites.push_back({.name = name, .up = 4e6, .down = 8e6, .lan = {}});
  wan.pairs[{0, 1}].rate = 2e6;
  return wan;
}

TEST(LinkUsage, EveryLinkIsBusyWithWhatCrossesIt) {
  const LinkUsage busy = link_usage(three(), {{{0, 1}, 1e6}, {{0, 2}, 4e6}, {{1, 2}, 2e6}});
  EXPECT_EQ(busy.up, (std::vector<double>{1.25, 0.5, 0}));
  EXPECT_EQ(busy.down, (std::vector<double>{0, 0.125, 0.75}));
  EXPECT_EQ(busy.pairs, (std::map<SitePair, double>{{{0, 1}, 0.5}, {{0, 2}, 1}, {{1, 2}, 0.5}}));
  EXPECT_EQ(busy.seconds, 1.25);
  EXPECT_EQ(busy.link, "the uplink of a");
  EXPECT_EQ(busy.share_of(0.5), 0.4);
}

TEST(LinkUsage, TheBusiestMayBeAnyKindOfLink) {
  Wan wan = three();
  EXPECT_EQ(link_usage(wan, {{{0, 1}, 1e6}}).link, "the pair from a to b");
  EXPECT_EQ(link_usage(wan, {{{0, 2}, 4e6}, {{1, 2}, 4e6}, {{0, 1}, 0}}).link, "the uplink of a")
      << "the first of equal ones";
  wan.sites[2].down = 1e6;
  EXPECT_EQ(link_usage(wan, {{{0, 2}, 1e6}, {{1, 2}, 1e6}}).link, "the downlink of c");
  wan.sites[2].down = 8e6;
  wan.shared.push_back({"cable", 1e6, {{0, 2}, {1, 2}, {2, 0}}});
  const LinkUsage busy = link_usage(wan, {{{0, 2}, 1e6}, {{1, 2}, 2e6}});
  EXPECT_EQ(busy.link, "the shared link cable");
  EXPECT_EQ(busy.seconds, 3);
  EXPECT_EQ(busy.pairs.at({1, 2}), 2);
}

TEST(LinkUsage, WithoutRatesNothingIsBusy) {
  Wan wan = three();
  for (Wan::Site& site : wan.sites) site.up = site.down = {};
  wan.pairs.clear();
  const LinkUsage busy = link_usage(wan, {{{0, 1}, 1e6}});
  EXPECT_EQ(busy.seconds, 0);
  EXPECT_EQ(busy.link, "");
  EXPECT_EQ(busy.share_of(busy.pairs.at({0, 1})), 0);
}

TEST(LinkUsage, ALinkThatCarriesNothingIsBusyForEver) {
  Wan wan = three();
  wan.sites[1].up = 0;
  const LinkUsage busy = link_usage(wan, {{{1, 0}, 1e6}, {{0, 1}, 1e6}});
  EXPECT_EQ(busy.seconds, std::numeric_limits<double>::infinity());
  EXPECT_EQ(busy.share_of(busy.up[1]), 1);
  EXPECT_EQ(busy.share_of(busy.up[0]), 0);
}

}  // namespace
}  // namespace longhaul::flow

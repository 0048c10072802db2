#include "longhaul/run/wan_of.h"

#include <gtest/gtest.h>

#include "longhaul/run/job/document.h"

namespace longhaul::run {
namespace {

// Sites and links as the job has them: bytes per second and seconds, scaled; what a link leaves
// out is the network's.
// mutant: longhaul/run/wan_of.cpp
//   - if (link.both) wan.pairs[{to, from}] = own;
//   +
// mutant: longhaul/run/wan_of.cpp
//   - return mbps ? flow::Rate(*mbps * scale * 125000) : std::nullopt;
//   + return mbps ? flow::Rate(*mbps * 125000) : std::nullopt;
TEST(WanOf, IsTheJobsNetwork) {
  auto doc = parse_document(R"(
[model]
kind = "logistic"
[data]
kind = "synthetic"
[sync]
kind = "bsp"
[overlay]
kind = "ring"
[wan]
mbps = 8
delay_ms = 30
rate_scale = 0.5
lan_mbps = 800
[[wan.link]]
from = "c"
to = "a"
delay_ms = 7
both = true
[[wan.link]]
from = "b"
to = "a"
mbps = 4
[[site]]
name = "a"
up_mbps = 16
[[site]]
name = "b"
down_mbps = 24
[[site]]
name = "c"
)",
                            "job.toml");
  ASSERT_TRUE(doc);
  auto job = resolve_job(*std::move(doc));
  ASSERT_TRUE(job) << job.error().what;
  const flow::Wan wan = wan_of(*job);
  ASSERT_EQ(wan.sites.size(), 3u);
  EXPECT_EQ(wan.sites[0].up, 1e6);
  EXPECT_EQ(wan.sites[0].down, std::nullopt);
  EXPECT_EQ(wan.sites[1].down, 1.5e6);
  EXPECT_EQ(wan.sites[2].lan, 1e8);  // rate_scale is for rates between sites
  EXPECT_EQ(wan.pair(0, 1).rate, 5e5);
  EXPECT_DOUBLE_EQ(wan.pair(0, 1).delay_s, 0.030);
  EXPECT_EQ(wan.pair(1, 0).rate, 2.5e5);
  EXPECT_DOUBLE_EQ(wan.pair(1, 0).delay_s, 0.030);
  for (const auto& [from, to] : {flow::SitePair(0, 2), flow::SitePair(2, 0)}) {
    EXPECT_EQ(wan.pair(from, to).rate, 5e5);
    EXPECT_DOUBLE_EQ(wan.pair(from, to).delay_s, 0.007);
  }
  EXPECT_EQ(site_index(*job, "c"), 2u);
}

}  // namespace
}  // namespace longhaul::run

#include "longhaul/run/job/parts.h"

#include <cmath>

#include <gtest/gtest.h>

namespace longhaul::run {
namespace {

Job job_of(const std::string& wan) {
  auto doc =
      parse_document("[model]\nkind = \"phantom\"\n[sync]\nkind = \"bsp\"\n" + wan, "job.toml");
  EXPECT_TRUE(doc);
  auto job = resolve_job(*std::move(doc));
  EXPECT_TRUE(job) << job.error().what;
  return *std::move(job);
}

constexpr const char* kSites = R"(
[[site]]
name = "a"
up_mbps = 40
nodes = 2
[[site]]
name = "b"
down_mbps = 16
[[site]]
name = "c"
)";

// In bytes a second between nodes by rank, of which a has the first two: what is narrowest counts.
// mutant: longhaul/run/job/parts.cpp
//   - wan->sites[a].up.value_or(flow::kUnlimited),
//   + wan->sites[b].up.value_or(flow::kUnlimited),
// mutant: longhaul/run/job/parts.cpp
//   - if (a == b) return wan->sites[a].lan.value_or(flow::kUnlimited);
//   +
// mutant: longhaul/run/job/parts.cpp
//   - const auto wan = std::make_shared<const flow::Wan>(flow::at_highest(job.network));
//   + const auto wan = std::make_shared<const flow::Wan>(job.network);
TEST(Belief, IsTheLeastThatWanSaysOfPairUplinkAndDownlink) {
  const Job job = job_of(
      std::string("[wan]\nmodel = \"fair\"\nmbps = 80\ndelay_ms = 5\n[[wan.link]]\nfrom = \"c\"\n"
                  "to = \"a\"\nmbps = 8\n[[wan.trace]]\nwhat = \"rate\"\n"
                  "from = \"b\"\nto = \"c\"\nkind = \"redraw\"\n"
                  "low = 24\nhigh = 56\n") +
      kSites);
  const RateBelief rate = belief_of(job, job.members());
  EXPECT_EQ(rate(0, 3), 5e6) << "the uplink";
  EXPECT_EQ(rate(1, 2), 2e6) << "the downlink";
  EXPECT_EQ(rate(3, 2), 2e6);
  EXPECT_EQ(rate(3, 0), 1e6) << "the pair";
  EXPECT_EQ(rate(2, 0), 10e6) << "the usual pair";
  EXPECT_EQ(rate(2, 3), 7e6) << "what changes, at its highest";
  EXPECT_GT(rate(0, 1), 10e6) << "a LAN";
}

// What nobody limits is unlimited, and a ring ordered by it is in the order of the ranks.
TEST(Belief, OfAnUnlimitedNetworkIsUnlimited) {
  const Job job = job_of("[wan]\ndelay_ms = 5\n[[site]]\nname = \"a\"\n[[site]]\nname = \"b\"\n");
  const RateBelief rate = belief_of(job, job.members());
  EXPECT_TRUE(std::isinf(rate(0, 1)));
}

}  // namespace
}  // namespace longhaul::run

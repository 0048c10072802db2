#include "longhaul/run/network.h"

#include <gtest/gtest.h>

#include "longhaul/run/job/testing/job_text.h"
#include "longhaul/sim/fair_network.h"

namespace longhaul::run {
namespace {

using What = flow::Traced::What;

Job job_of(const std::string& wan) {
  return testing::good_job(
      "[model]\nkind = \"phantom\"\n[sync]\nkind = \"bsp\"\n[[site]]\nname = \"a\"\nup_mbps = 8\n"
      "[[site]]\nname = \"b\"\nnodes = 2\n[[site]]\nname = \"c\"\n" +
      wan);
}

flow::Wan network_of(const std::string& wan) { return job_of(wan).network; }

TEST(Network, AJobsTablesAreAWan) {
  const flow::Wan wan = network_of(
      "[wan]\nmodel = \"fair\"\nrate_scale = 2\nmbps = 4\ndelay_ms = 30\nloss = 0.01\n"
      "jitter_ms = 3\n[[wan.link]]\nfrom = \"a\"\nto = \"b\"\nloss = 0.5\n"
      "[[wan.shared]]\nname = \"s\"\nmbps = 1\nfrom = [\"a\"]\nto = [\"b\", \"c\"]\nboth = "
      "true\n");
  ASSERT_EQ(wan.sites.size(), 3u);
  EXPECT_EQ(wan.sites[0].up, flow::Rate(1e6));  // rate_scale is of what is between sites
  EXPECT_EQ(wan.sites[1].up, flow::Rate());
  EXPECT_EQ(wan.usual.rate, flow::Rate(1e6));
  EXPECT_DOUBLE_EQ(wan.usual.delay_s, 0.03);
  EXPECT_DOUBLE_EQ(wan.usual.jitter_s, 0.003);
  EXPECT_EQ(wan.pair(0, 1).loss, 0.5);
  EXPECT_EQ(wan.pair(1, 0).loss, 0.01);
  ASSERT_EQ(wan.shared.size(), 1u);
  EXPECT_EQ(wan.shared[0].pairs, (std::vector<flow::SitePair>{{0, 1}, {0, 2}, {1, 0}, {2, 0}}));
}

// A trace that names one comes before one that means all.
TEST(Network, TracesOfAllAreOneOfEach) {
  const flow::Wan wan = network_of(
      "[wan]\nmodel = \"fair\"\n[[wan.trace]]\nat_s = [0]\nvalues = [8]\nfrom = \"b\"\n"
      "to = \"a\"\n[[wan.trace]]\nkind = \"redraw\"\nlow = 20\nhigh = 155\nevery_s = 180\n"
      "[[wan.trace]]\nwhat = \"down\"\nat_s = [0, 9]\nvalues = [1, 2]\n");
  ASSERT_EQ(wan.traces.size(), 6u + 3u);
  EXPECT_EQ(wan.traces[0].a, 1u);
  EXPECT_EQ(wan.traces[0].trace.values, std::vector<double>{1e6});
  for (std::size_t i = 1; i < 6; ++i) {
    EXPECT_EQ(wan.traces[i].what, What::rate);
    EXPECT_EQ(wan.traces[i].trace.high, 155 * 125e3);
    EXPECT_NE(wan.traces[i].a, wan.traces[i].b);
  }
  EXPECT_EQ(wan.traces[8].what, What::down);
  EXPECT_EQ(wan.traces[8].a, 2u);
}

TEST(Network, ATraceThatNothingFollowsIsRefused) {
  const std::string all = "[[wan.trace]]\nat_s = [0]\nvalues = [8]\n";
  EXPECT_THAT(
      testing::job_error("[model]\nkind = \"phantom\"\n[sync]\nkind = \"bsp\"\n[wan]\nmodel = "
                         "\"fair\"\n[[site]]\nname = \"a\"\n[[site]]\nname = \"b\"\n" +
                         all + "[[wan.trace]]\nat_s = [0]\nvalues = [1]\nfrom = \"a\"\n"),
      ::testing::HasSubstr("[wan.trace[1]] what"));
}

TEST(Network, ALinkWinsOverTheRedrawsOfAPreset) {
  const flow::Wan wan = network_of(
      "[wan]\nmodel = \"fair\"\npreset = \"dynamic\"\n[[wan.link]]\nfrom = \"a\"\nto = "
      "\"b\"\nmbps = 1\n");
  EXPECT_EQ(wan.traces.size(), 5u);
  for (const flow::Traced& traced : wan.traces) EXPECT_FALSE(traced.a == 0 && traced.b == 1);
}

TEST(Network, AServersConnectionsCount) {
  EXPECT_EQ(network_of("[roles]\nserver = \"c\"\n").sites[2].nodes, 2u);
}

TEST(Network, TheModelIsTheOneThatTheJobNames) {
  const Job fifo = job_of("");
  EXPECT_EQ(dynamic_cast<sim::FairNetwork*>(make_network(fifo, fifo.members())->get()), nullptr);
  const Job fair = job_of("[wan]\nmodel = \"fair\"\n");
  EXPECT_NE(dynamic_cast<sim::FairNetwork*>(make_network(fair, fair.members())->get()), nullptr);
}

}  // namespace
}  // namespace longhaul::run

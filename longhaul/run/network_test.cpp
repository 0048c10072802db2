#include "longhaul/run/network.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "longhaul/base/testing/result.h"
#include "longhaul/run/job/testing/job_text.h"
#include "longhaul/run/job/wan.h"
#include "longhaul/sim/fair_network.h"

namespace longhaul::run {
namespace {

using What = flow::Traced::What;
using ::testing::AllOf;
using ::testing::HasSubstr;

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

// A network as FIFO queues.

Result<Job> job(const std::string& wan, const std::string& sites = "") {
  return testing::read_job("[model]\nkind = \"phantom\"\n[sync]\nkind = \"bsp\"\n[wan]\n" + wan +
                           "\n" + sites);
}

Time arrival(const sim::FifoConfig& config, Rank from, Rank to, std::uint64_t bytes) {
  sim::FifoNetwork network(config);
  sim::Packet packet;
  packet.from = from;
  packet.to = to;
  packet.bytes = bytes;
  network.submit(std::move(packet), Time{0});
  Time at{0};
  while (network.next_event()) {
    at = *network.next_event();
    (void)network.advance();
  }
  return at;
}

// Alone on the network, 100 MB take what the slowest link on their way needs, and its delay.
TEST(Fifo, I8_ASingleFlowReachesItsBound) {
  for (const WanPreset& preset : wan_presets()) {
    auto read = good(job(fmt::format("preset = \"{}\"", preset.name)));
    const Members members = read->members();
    auto config = fifo_config(*read, members);
    if (!config) continue;  // RefusesWhatQueuesCannotDo has them
    const flow::Wan& wan = read->network;
    for (Rank from = 0; from < members.size(); from += 3)
      for (Rank to = 0; to < members.size(); to += 7) {
        if (from == to) continue;
        double rate = *wan.sites[from].up;
        rate = std::min(rate, *wan.sites[to].down);
        if (const flow::Rate pair = wan.capacity(from, to)) rate = std::min(rate, *pair);
        const double bound = 1e8 / rate + wan.pair(from, to).delay_s;
        EXPECT_NEAR(seconds(arrival(*config, from, to, 100'000'000)), bound, bound * 1e-6)
            << preset.name << " " << from << " " << to;
      }
  }
}

TEST(Fifo, ConnectionsOfAPairAreAsFastAsTheyAreTogether) {
  const std::string sites = "[[site]]\nname = \"a\"\nnodes = 2\n[[site]]\nname = \"b\"\n";
  auto one = job("delay_ms = 50\nwindow_mb = 1", "[[site]]\nname = \"a\"\n[[site]]\nname = \"b\"");
  auto two = job("delay_ms = 50\nwindow_mb = 1", sites);
  ASSERT_TRUE(one && two);
  EXPECT_EQ(*fifo_config(*one, one->members())->link.rate, 1e7);
  EXPECT_EQ(*fifo_config(*two, two->members())->links.at({0, 1}).rate, 2e7);
}

TEST(Fifo, RefusesWhatQueuesCannotDo) {
  for (const char* name : {"two-continents", "dynamic"}) {
    auto read = good(job(fmt::format("preset = \"{}\"", name)));
    EXPECT_THAT(failure(fifo_config(*read, read->members())).what,
                AllOf(HasSubstr(name), HasSubstr("FIFO")));
  }
}

}  // namespace
}  // namespace longhaul::run

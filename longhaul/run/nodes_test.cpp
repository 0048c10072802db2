// Where the nodes of a job listen: whatever connects by PeersConfig (site, serve, perf) heeds bind.
#include "longhaul/run/nodes.h"

#include <gtest/gtest.h>

#include "longhaul/run/job/testing/job_text.h"
#include "longhaul/run/sockets.h"

namespace longhaul::run {
namespace {

Job job_bound(const std::string& bind) {
  return testing::good_job(
      "[job]\nname = \"t\"\n[model]\nkind = \"logistic\"\n[data]\nkind = \"synthetic\"\n"
      "[sync]\nkind = \"fedavg\"\n[overlay]\nkind = \"hub\"\n"
      "[[site]]\nname = \"a\"\nnodes = 2\nstep_ms = 1\naddress = \"a-box:7000\"\n" +
      bind + "[[site]]\nname = \"b\"\nstep_ms = 1\naddress = \"b-box:7000\"\n");
}

Result<net::PeersConfig> config_of(const Job& job, Rank rank) {
  auto sockets = node_sockets(job, rank, *addresses_of(job), -1, {.insecure = true});
  if (!sockets) return sockets.error();
  return peers_config(job, rank, *std::move(sockets), 0);
}

TEST(Nodes, OfOneSiteListenAtConsecutivePortsOfItsBind) {
  const Job job = job_bound("bind = \"10.0.0.1:8000\"\n");
  for (const Rank rank : {0u, 1u}) {
    const auto config = config_of(job, rank);
    ASSERT_TRUE(config) << config.error().what;
    ASSERT_TRUE(config->bind);
    EXPECT_EQ(net::to_string(*config->bind), "10.0.0.1:" + std::to_string(8000 + rank));
  }
  const auto other = config_of(job, 2);
  ASSERT_TRUE(other) << other.error().what;
  EXPECT_FALSE(other->bind);
  EXPECT_EQ(net::to_string(net::listening_address(other->addresses[2])), "[::]:7000");
}

TEST(Nodes, ABindThatIsNoAddressIsNamed) {
  const auto config = config_of(job_bound("bind = \"10.0.0.1\"\n"), 0);
  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().what.rfind("job.toml: [site.a] bind: \"10.0.0.1\" is no address", 0), 0u)
      << config.error().what;
}

}  // namespace
}  // namespace longhaul::run

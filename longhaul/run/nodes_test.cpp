// Where the nodes of a job listen: whatever connects by PeersConfig (site, serve, perf) heeds bind.
#include "longhaul/run/nodes.h"

#include <unistd.h>

#include <map>

#include <gtest/gtest.h>

#include "longhaul/base/testing/result.h"
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
    const auto config = good(config_of(job, rank));
    ASSERT_TRUE(config->bind);
    EXPECT_EQ(net::to_string(*config->bind), "10.0.0.1:" + std::to_string(8000 + rank));
  }
  const auto other = good(config_of(job, 2));
  EXPECT_FALSE(other->bind);
  EXPECT_EQ(net::to_string(net::listening_address(other->addresses[2])), "[::]:7000");
}

TEST(Nodes, ABindThatIsNoAddressIsNamed) {
  const Error config = failure(config_of(job_bound("bind = \"10.0.0.1\"\n"), 0));
  EXPECT_EQ(config.what.rfind("job.toml: [site.a] bind: \"10.0.0.1\" is no address", 0), 0u)
      << config.what;
}

// --- launcher identity

Environment with(std::map<std::string, std::string> variables) {
  return [variables](const char* name) -> std::optional<std::string> {
    const auto it = variables.find(name);
    return it == variables.end() ? std::nullopt : std::optional(it->second);
  };
}

TEST(LauncherIdentity, TakesTheFirstLauncherThatIsThere) {
  EXPECT_FALSE(launcher_identity(with({}))->has_value());
  const auto torch =
      *launcher_identity(with({{"RANK", "2"}, {"WORLD_SIZE", "4"}, {"SLURM_PROCID", "0"}}));
  EXPECT_EQ(torch->launcher, "torchrun");
  EXPECT_EQ(torch->rank, 2u);
  EXPECT_EQ(torch->size, 4u);
  EXPECT_EQ((*launcher_identity(with({{"OMPI_COMM_WORLD_RANK", "1"},
                                      {"OMPI_COMM_WORLD_SIZE", "2"},
                                      {"SLURM_PROCID", "0"},
                                      {"SLURM_NTASKS", "1"}})))
                ->launcher,
            "mpirun");
  EXPECT_EQ((*launcher_identity(with({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}})))->rank, 1u);
  EXPECT_EQ((*launcher_identity(with({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}})))->size, 1u);
  for (const auto& bad : {with({{"RANK", "1"}}), with({{"RANK", "x"}, {"WORLD_SIZE", "2"}}),
                          with({{"RANK", "2"}, {"WORLD_SIZE", "2"}})})
    EXPECT_TRUE(says(launcher_identity(bad).error().what, "in the environment"));
}

TEST(LauncherIdentity, NodesOfOneMachineListenAboveTheMastersPort) {
  EXPECT_EQ(*local_addresses(with({{"MASTER_PORT", "700"}}), 2, std::nullopt),
            (std::vector<std::string>{"127.0.0.1:701", "127.0.0.1:702"}));
  EXPECT_EQ((*local_addresses(with({{"MASTER_PORT", "700"}}), 1, 80))[0], "127.0.0.1:80");
  EXPECT_FALSE(local_addresses(with({}), 2, 65535));
}

TEST(LauncherIdentity, ASocketIsForTheProcessThatItWasHandedTo) {
  const std::string own = "000" + std::to_string(getpid());
  EXPECT_EQ(inherited_socket(with({{"LISTEN_PID", own}, {"LISTEN_FDS", "1"}})), 3);
  EXPECT_EQ(inherited_socket(with({{"LISTEN_PID", "1"}, {"LISTEN_FDS", "1"}})), -1);
  EXPECT_EQ(inherited_socket(with({{"LISTEN_PID", own}, {"LISTEN_FDS", "2"}})), -1);
  EXPECT_EQ(inherited_socket(with({})), -1);
}

}  // namespace
}  // namespace longhaul::run

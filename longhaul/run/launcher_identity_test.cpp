#include "longhaul/run/nodes.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <map>

namespace longhaul::run {
namespace {

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
    EXPECT_NE(launcher_identity(bad).error().what.find("in the environment"), std::string::npos);
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

// Copies of a server's state at those that would follow it.
#include "longhaul/sync/server/standby.h"

#include <gtest/gtest.h>

#include "longhaul/core/testing/machine_net.h"
#include "longhaul/transfer/reliable.h"

namespace longhaul::sync::server {
namespace {

using longhaul::testing::MachineNet;

constexpr std::uint64_t kModelSize = 4;

// Rank 0 serves; copies go every two commits to two of three workers.
struct Followers {
  Followers()
      : net({.ranks = 4, .layout = Layout::flat(kModelSize)}, [](const Place& place) {
          return std::make_unique<Standby>(place, std::make_unique<transfer::Reliable>(place), 2, 2,
                                           0);
        }) {}
  Standby& at(Rank rank) { return static_cast<Standby&>(net.machine(rank)); }
  void offer(Rank from, std::uint64_t version) {
    net.act(from, [&](Turn& turn) {
      const auto model = std::make_shared<const std::vector<float>>(kModelSize, float(version));
      at(from).offer(
          version, model, [](Rank) { return true; },
          [&] { return std::make_shared<const Buffer>(version, std::byte{7}); }, turn);
    });
    net.run(10000);
  }
  MachineNet net;
};

void expect_copy(std::optional<Standby::Copy> copy, std::uint64_t version) {
  ASSERT_TRUE(copy);
  EXPECT_EQ(copy->version, version);
  EXPECT_EQ(*copy->model, std::vector<float>(kModelSize, float(version)));
  EXPECT_EQ(copy->rest->size(), version);
}

TEST(Standby, FollowersHoldTheNewestCopyOnce) {
  Followers run;
  for (const std::uint64_t version : {1u, 2u, 3u, 4u}) run.offer(0, version);
  for (const Rank rank : {1u, 2u}) {
    expect_copy(run.at(rank).take(), 3);  // 1, then every two commits
    EXPECT_FALSE(run.at(rank).take());
  }
  EXPECT_FALSE(run.at(3).take()) << "two follow";
}

TEST(Standby, ACopyIsSavedAndLoaded) {
  Followers run;
  run.offer(0, 1);
  run.net.save_and_load(1);
  expect_copy(run.at(1).take(), 1);
  run.net.save_and_load(0);
  const std::uint64_t sent = run.net.messages();
  run.offer(0, 2);
  EXPECT_EQ(run.net.messages(), sent) << "it knows what it sent";
}

TEST(Standby, OnlyWhoServesIsHeeded) {
  Followers run;
  for (const Rank rank : {0u, 1u, 2u, 3u}) run.at(rank).follow(2);
  run.offer(2, 3);
  expect_copy(run.at(1).take(), 3);
  EXPECT_TRUE(run.net.errors.empty());
  run.offer(0, 5);
  EXPECT_FALSE(run.net.errors.empty());
  EXPECT_FALSE(run.at(1).take());
}

}  // namespace
}  // namespace longhaul::sync::server

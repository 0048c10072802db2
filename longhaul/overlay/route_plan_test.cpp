// What an overlay says that it will send is what an exchange sends.
#include <gtest/gtest.h>

#include "longhaul/base/testing/effort.h"
#include "longhaul/overlay/testing/forms.h"

namespace longhaul::overlay {
namespace {

using testing::Exchange;
using testing::ExchangeConfig;
using testing::forms;
using testing::name;

using Loads = std::map<std::pair<Rank, Rank>, Traffic::Load>;

std::uint64_t bytes_of(const Traffic::Load& load) { return load.reduce + load.spread; }

// "" if each ordered pair of nodes has carried what was planned, and headers and messages without
// vectors beside it; else which has not.
std::string unlike_the_plan(const ExchangeConfig& c) {
  Exchange exchange(c);
  const auto plan = exchange.at(0).overlay().planned(c.length);
  if (!plan) return "nothing is planned";
  exchange.run();
  if (const std::string wrong = exchange.disagreement(); !wrong.empty()) return wrong;
  const Rank nodes = c.workers + (c.server ? 1 : 0);
  for (Rank from = 0; from < nodes; ++from)
    for (Rank to = 0; to < nodes; ++to) {
      const auto load = plan->loads.find({from, to});
      const std::uint64_t planned = load == plan->loads.end() ? 0 : bytes_of(load->second);
      const std::uint64_t sent = exchange.net().bytes(from, to);
      if (load != plan->loads.end() && planned == 0) return "a load of nothing";
      if (sent < planned || double(sent) > double(planned) * 1.02 + 1500)
        return std::to_string(from) + " to " + std::to_string(to) + ": " + std::to_string(planned) +
               " bytes planned, " + std::to_string(sent) + " sent";
    }
  return "";
}

ExchangeConfig long_one(ExchangeConfig c, std::uint32_t workers) {
  c.workers = workers;
  c.length = 16 * (longhaul::testing::kGate ? 1 : 2) * 1024 + 7;
  c.rounds = 1;
  c.chunk_bytes = 8 * 1024;
  return c;
}

TEST(RoutePlan, APlansBytesAreThoseOfAnExchange) {
  std::uint32_t number = 0;
  for (const ExchangeConfig& form : forms()) {
    if (form.kind == "tsengine") continue;
    ++number;
    for (const std::uint32_t workers : {1u, 2u, 3u, 6u}) {
      const std::uint32_t other = number % 2 == 0 ? 3 : 6;
      if (longhaul::testing::kGate && workers == other) continue;
      const ExchangeConfig c = long_one(form, workers);
      EXPECT_EQ(unlike_the_plan(c), "") << name(c);
    }
  }
}

// A codec of two bytes a value; a hub's mean is fp32 all the same, unless it is told otherwise.
TEST(RoutePlan, BytesAreThoseOfTheCodec) {
  for (const ExchangeConfig& form : forms()) {
    if (form.kind == "tsengine") continue;
    ExchangeConfig c = long_one(form, 4);
    c.lossy = true;
    EXPECT_EQ(unlike_the_plan(c), "") << name(c);
  }
}

// What is planned when somebody is lost is for those who live.
TEST(RoutePlan, AfterALossTheOthersPlanAnew) {
  for (const char* kind : {"direct", "hub", "ring", "binary", "halving_doubling", "forest"}) {
    ExchangeConfig c = long_one({.kind = kind}, 4);
    Exchange exchange(c);
    exchange.net().crash(1);
    exchange.run();
    ASSERT_EQ(exchange.disagreement(), "") << name(c);
    const auto plan = exchange.at(0).overlay().planned(c.length);
    ASSERT_TRUE(plan) << name(c);
    std::uint64_t bytes = 0;
    for (const auto& [way, load] : plan->loads) {
      EXPECT_NE(way.first, 1u) << name(c);
      EXPECT_NE(way.second, 1u) << name(c);
      bytes += bytes_of(load);
    }
    EXPECT_EQ(bytes, 4 * 4 * c.length) << name(c);  // 2 (n - 1) vectors
  }
}

TEST(RoutePlan, TreesAddUpAndSayHowDeepTheyAre) {
  const auto plan_of = [](ExchangeConfig c) {
    Exchange exchange(c);
    return exchange.at(0).overlay().planned(c.length).value();
  };
  const auto depths = [](const Traffic& plan) {
    std::vector<std::array<std::uint32_t, 3>> all;
    for (const Traffic::Tree& tree : plan.trees) all.push_back({tree.root, tree.up, tree.down});
    return all;
  };
  using Depths = std::vector<std::array<std::uint32_t, 3>>;
  EXPECT_EQ(depths(plan_of({.kind = "direct"})), (Depths{{1, 1, 1}, {2, 1, 1}, {0, 1, 1}}));
  EXPECT_EQ(depths(plan_of({.kind = "ring", .workers = 4, .length = 5000})),
            (Depths{{0, 3, 3}, {1, 3, 3}, {2, 3, 3}, {3, 3, 3}}));
  EXPECT_EQ(depths(plan_of({.kind = "hub", .server = true})), (Depths{{3, 1, 1}}));
  EXPECT_EQ(depths(plan_of({.kind = "binary", .workers = 7})), (Depths{{0, 2, 2}}));
  EXPECT_EQ(depths(plan_of({.kind = "halving_doubling", .workers = 4, .length = 2})),
            (Depths{{1, 2, 2}, {3, 2, 2}}))
      << "who owns nothing has no tree";
  const Traffic plan = plan_of(long_one({.kind = "forest", .network = testing::row_of_sites()}, 6));
  double sum = 0, last = 1;
  ASSERT_FALSE(plan.trees.empty());
  for (const Traffic::Tree& tree : plan.trees) {
    EXPECT_LE(tree.share, last);
    sum += last = tree.share;
  }
  EXPECT_NEAR(sum, 1, 1e-12);
}

TEST(RoutePlan, WhatIsDecidedOnlineIsNotPlanned) {
  Exchange exchange({.kind = "tsengine"});
  EXPECT_FALSE(exchange.at(0).overlay().planned(5000));
}

}  // namespace
}  // namespace longhaul::overlay

#include "longhaul/run/plan.h"

#include <gtest/gtest.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "longhaul/base/testing/result.h"
#include "longhaul/flow/bound.h"
#include "longhaul/run/job/testing/job_text.h"

namespace longhaul::run {
namespace {

constexpr double kSlack = 1e-9;

// Sites of so many nodes that send and get 1 MB/s; `more`: other tables.
Job overlay_job(const std::string& overlay, const std::vector<int>& nodes = {1, 1, 1, 1},
                const std::string& more = "") {
  std::string text = fmt::format(
      "[model]\nkind = \"phantom\"\n[sync]\nkind = \"bsp\"\n[wan]\ndelay_ms = 5\n[overlay]\n"
      "kind = \"{}\"\n{}",
      overlay, more);
  for (std::size_t i = 0; i < nodes.size(); ++i)
    text += fmt::format("[[site]]\nname = \"{}\"\nnodes = {}\nup_mbps = 8\ndown_mbps = 8\n",
                        char('a' + i), nodes[i]);
  return testing::good_job(text);
}

SitePlan plan(const Job& job, double mbytes = 4) {
  auto made = plan_of(job, mbytes);
  EXPECT_TRUE(made) << made.error().what;
  return *std::move(made);
}

// A hub's links carry n - 1 vectors each way, the others' one.
TEST(SitePlan, AHubsLinksAreTheBusiest) {
  const SitePlan hub = plan(overlay_job("hub"));
  ASSERT_EQ(hub.pairs.size(), 6u);
  for (const SitePlan::Pair& pair : hub.pairs) {
    EXPECT_EQ(pair.load.reduce, pair.to == 0 ? 4'000'000u : 0);
    EXPECT_EQ(pair.load.spread, pair.from == 0 ? 4'000'000u : 0);
    EXPECT_NEAR(pair.used.value(), 1. / 3, kSlack);
  }
  EXPECT_EQ(hub.sites[0].out, 12'000'000u);
  EXPECT_EQ(hub.sites[0].in, 12'000'000u);
  EXPECT_EQ(hub.sites[1].in, 4'000'000u);
  EXPECT_EQ(hub.sites[0].up_used, 1);
  EXPECT_NEAR(hub.sites[3].down_used.value(), 1. / 3, kSlack);
  EXPECT_EQ(hub.busiest, "the uplink of a");
  EXPECT_NEAR(hub.busy_s, 12 * flow::kIpPerByte, kSlack);
  EXPECT_NEAR(hub.bound_s.value(), 6 * flow::kIpPerByte, kSlack);
  EXPECT_EQ(busiest_text(hub),
            "The busiest link, the uplink of a, takes 12.4 s; no overlay takes less than 6.22 s.");
}

TEST(SitePlan, EqualSitesReachTheBoundByRingAndDirect) {
  for (const char* overlay : {"ring", "direct", "forest"}) {
    const SitePlan one = plan(overlay_job(overlay));
    EXPECT_NEAR(one.busy_s, one.bound_s.value(), 0.01 * one.busy_s) << overlay;
    EXPECT_EQ(one.pairs.size(), one.overlay == "direct" ? 12u : 4u);
  }
}

// What a codec writes is what is planned, and what the bound is of; the mean of a hub is fp32.
TEST(SitePlan, BytesAreThoseOfTheCodec) {
  const SitePlan one = plan(overlay_job("hub", {1, 1}, "[codec]\nkind = \"fp16\"\n"));
  EXPECT_EQ(one.vector, 2'000'000u);
  ASSERT_EQ(one.pairs.size(), 2u);
  EXPECT_EQ(one.pairs[0].load.spread, 4'000'000u);
  EXPECT_EQ(one.pairs[1].load.reduce, 2'000'000u);
  EXPECT_EQ(one.sites[1].out, 2'000'000u);
  EXPECT_EQ(one.sites[1].in, 4'000'000u);
  EXPECT_NEAR(one.bound_s.value(), 2 * flow::kIpPerByte, kSlack);
}

// Nodes of one site exchange over its LAN; b/1 is the second node at b.
TEST(SitePlan, WhatStaysWithinASiteIsNoLoadOfTheWan) {
  const SitePlan one = plan(overlay_job("direct", {1, 2}));
  EXPECT_NEAR(double(one.within), 4 * 4e6 / 3, 10);
  ASSERT_EQ(one.pairs.size(), 2u);
  EXPECT_NEAR(double(one.pairs[0].bytes()), 4 * 4e6 / 3, 10);
  ASSERT_EQ(one.trees.size(), 3u);
  std::vector<std::string> roots;
  for (const SitePlan::Tree& tree : one.trees) roots.push_back(tree.root);
  std::sort(roots.begin(), roots.end());
  EXPECT_EQ(roots, (std::vector<std::string>{"a", "b", "b/1"}));
}

TEST(SitePlan, NoBoundWhereASiteHasNoWorker) {
  const SitePlan one = plan(overlay_job("hub", {1, 1, 1}, "[roles]\nserver = \"c\"\n"));
  EXPECT_TRUE(one.bound_s);
  Job job = overlay_job("hub", {1, 1, 1});
  job.sites[2].roles = {"state_server"};
  EXPECT_FALSE(plan(job).bound_s);
}

TEST(SitePlan, TheMostUsedPairComesFirst) {
  const Job job = overlay_job("hub", {1, 1, 1, 1},
                              "[codec]\nkind = \"fp16\"\n"
                              "[[wan.link]]\nfrom = \"d\"\nto = \"a\"\nmbps = 1\n");
  const SitePlan one = plan(job);
  EXPECT_EQ(one.pairs[0].from, 3u);
  EXPECT_EQ(one.pairs[0].to, 0u);
  EXPECT_EQ(one.pairs[0].used, 1);
  EXPECT_EQ(one.busiest, "the pair from d to a");
  for (std::size_t i = 1; i < one.pairs.size(); ++i)
    EXPECT_LE(one.pairs[i].used, one.pairs[i - 1].used);
}

// 0 says that a link with a rate carries nothing.
TEST(SitePlan, OfALinkWithoutARateNothingIsUsed) {
  Job job = overlay_job("ring", {1, 1, 1});
  flow::Wan network = *job.believed;
  network.sites[0].up.reset();
  for (flow::Wan::Site* site : {&network.sites[1], &network.sites[2]})
    site->up.reset(), site->down.reset();
  job.believed = std::make_shared<const flow::Wan>(network);
  const SitePlan one = plan(job);
  EXPECT_FALSE(one.sites[0].up_used);
  EXPECT_EQ(one.sites[0].down_used, 1);
  ASSERT_EQ(one.pairs.size(), 3u);
  EXPECT_EQ(one.pairs[0].to, 0u);
  EXPECT_EQ(one.pairs[0].used, 1);
  EXPECT_FALSE(one.pairs[1].used || one.pairs[2].used);
  const auto json = to_json(one);
  EXPECT_TRUE(json["sites"][0]["up_used"].is_null());
  EXPECT_TRUE(json["pairs"][2]["used"].is_null());
  EXPECT_EQ(json["pairs"][0]["used"], 1);
}

TEST(SitePlan, WhatIsDecidedOnlineHasABoundAlone) {
  const SitePlan one = plan(overlay_job("tsengine"));
  EXPECT_FALSE(one.planned);
  EXPECT_TRUE(one.pairs.empty() && one.trees.empty());
  EXPECT_EQ(busiest_text(one),
            "What goes where is decided while it runs; no overlay takes less than 6.22 s.");
}

TEST(SitePlan, NotOfTooManyNodes) {
  EXPECT_EQ(failure(plan_of(overlay_job("hub", {200, 57}), 4)).what,
            "job.toml: 257 nodes; plans are shown of at most 256");
}

// Whatever the overlay would do.
TEST(SitePlan, OfWhatWasSentIsOfItsBytes) {
  const Job job = overlay_job("ring");
  const SitePlan sent = plan_of_sent(
      job, {{"a", "c", 3'000'000}, {"b", "c", 9'000'000}, {"c", "x", 5}, {"d", "d", 7}});
  EXPECT_EQ(sent.busiest, "the downlink of c");
  EXPECT_NEAR(sent.busy_s, 12, 1);  // and the heads of packets
  ASSERT_EQ(sent.pairs.size(), 2u);
  EXPECT_EQ(sent.pairs[0].from, 1u);
  EXPECT_NEAR(sent.pairs[0].used.value(), 0.75, 1e-9);
  EXPECT_EQ(sent.sites[2].in, 12'000'000u);
  EXPECT_EQ(sent.within, 7u);
  EXPECT_EQ(plan_of_sent(job, {}).busiest, "");
}

TEST(SitePlan, JsonHasAllOfIt) {
  const nlohmann::ordered_json json = to_json(plan(overlay_job("ring")));
  EXPECT_EQ(json["pairs"].size(), 4u);
  EXPECT_EQ(json["pairs"][0]["from"], "a");
  EXPECT_EQ(json["pairs"][0]["to"], "b");
  EXPECT_EQ(json["pairs"][0]["bytes"], 6'000'000u);
  EXPECT_EQ(json["trees"][0]["up"], 3u);
  EXPECT_EQ(json["busiest"], "the uplink of a");
  EXPECT_EQ(to_json(plan(overlay_job("tsengine")))["busiest"], nullptr);
}

TEST(SitePlan, LittleIsNotNothing) {
  EXPECT_EQ(percent_text(0), "0 %");
  EXPECT_EQ(percent_text(0.001), "<1 %");
  EXPECT_EQ(percent_text(0.626), "63 %");
}

}  // namespace
}  // namespace longhaul::run

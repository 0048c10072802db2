#include "longhaul/run/pacing.h"

#include <gmock/gmock.h>

#include <fmt/format.h>

#include "longhaul/base/rng.h"
#include "longhaul/flow/bound.h"
#include "longhaul/flow/tcp.h"
#include "longhaul/overlay/registry.h"
#include "longhaul/run/job/testing/job_text.h"

namespace longhaul::run {
namespace {

using Pacing = std::map<std::pair<Rank, Rank>, double>;

const double kPayload = (1 - flow::ack_share({})) / flow::kIpPerByte;

// Sites with these uplinks and downlinks.
std::string job_of(const std::string& parts, const std::vector<double>& mbps,
                   const std::string& wan = "queue = \"drop_tail\"\n") {
  std::string text = "[model]\nkind = \"phantom\"\n" + parts + "[wan]\nmodel = \"fair\"\n" + wan;
  for (std::size_t i = 0; i < mbps.size(); ++i)
    text += fmt::format("[[site]]\nname = \"s{}\"\nup_mbps = {}\ndown_mbps = {}\n", i, mbps[i],
                        mbps[i]);
  return text;
}

std::string with(std::string_view sync, std::string_view overlay) {
  return fmt::format("[sync]\nkind = \"{}\"\n[overlay]\nkind = \"{}\"\n", sync, overlay);
}

Pacing pacing_of(const std::string& text) {
  const auto job = testing::read_job(text);
  EXPECT_TRUE(job) << job.error().what;
  return planned_pacing(*job);
}

TEST(Pacing, ARingFillsItsLinksAndAHubSharesThem) {
  const double all = 66 * 125000 * kPayload;
  const Pacing ring = pacing_of(job_of(with("bsp", "ring"), {66, 66, 66, 66}));
  EXPECT_EQ(ring.size(), 4u);
  for (const auto& [way, most] : ring) EXPECT_NEAR(most, all, 1e-3 * all);
  const Pacing hub = pacing_of(job_of(with("bsp", "hub"), {66, 66, 66, 66}));
  EXPECT_EQ(hub.size(), 6u);
  for (const auto& [way, most] : hub) EXPECT_NEAR(most, all / 3, 1e-3 * all);
}

// Whatever the overlay plans, all that passes a link together fits it.
TEST(Pacing, NoLinkGetsMoreThanItCarries) {
  Random random(1, {});
  for (const OverlayEntry& overlay : overlay::registry()) {
    SCOPED_TRACE(overlay.name);
    std::vector<double> mbps;
    for (int i = 0; i < 6; ++i) mbps.push_back(10 + 90 * random.uniform());
    const Pacing pacing = pacing_of(job_of(with("bsp", overlay.name), mbps));
    std::vector<double> up(6), down(6);
    for (const auto& [way, most] : pacing) {
      up[way.first] += most / kPayload / 125000;
      down[way.second] += most / kPayload / 125000;
    }
    for (std::size_t i = 0; i < 6; ++i) EXPECT_LE(std::max(up[i], down[i]), mbps[i] * (1 + 1e-9));
  }
}

// Three pairs cross a backbone of 30 Mbit/s, which is narrower than their sites' links.
TEST(Pacing, ASharedLinkIsDividedToo) {
  const std::string backbone =
      "queue = \"drop_tail\"\n[[wan.shared]]\nname = \"sea\"\nmbps = 30\nfrom = [\"s1\", "
      "\"s2\", \"s3\"]\nto = [\"s0\"]\n";
  const Pacing hub = pacing_of(job_of(with("bsp", "hub"), {66, 66, 66, 66}, backbone));
  const double third = 10 * 125000 * kPayload;
  for (const Rank from : {1u, 2u, 3u}) EXPECT_NEAR(hub.at({from, 0}), third, 1e-3 * third);
  EXPECT_NEAR(hub.at({0, 1}), 22 * 125000 * kPayload, 1e3);
}

TEST(Pacing, IsForPlainQueuesAndPlansFromGivenRates) {
  const std::vector<double> two = {66, 66};
  EXPECT_FALSE(pacing_of(job_of(with("bsp", "forest"), two)).empty());
  EXPECT_TRUE(pacing_of(job_of(with("bsp", "forest"), two, "")).empty());
  EXPECT_TRUE(pacing_of(job_of(with("bsp", "forest") + "rates = \"learned\"\n", two)).empty());
  EXPECT_TRUE(pacing_of(job_of(with("bsp", "forest") + "[net]\npacing = \"off\"\n", two)).empty());
  EXPECT_TRUE(pacing_of(job_of(with("bsp", "forest"), two) + "nodes = 2\n").empty());
  EXPECT_TRUE(pacing_of(job_of(with("dpsgd", "direct"), two)).empty());  // sends by itself
  EXPECT_TRUE(pacing_of(job_of(with("bsp", "tsengine"), two)).empty());  // plans at run time
}

}  // namespace
}  // namespace longhaul::run

#include "longhaul/run/explanation.h"

#include <gtest/gtest.h>

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "longhaul/base/testing/result.h"

namespace longhaul::run {
namespace {

using Row = std::vector<std::string>;

Job explained_job(const std::string& sync, const std::string& overlay = "direct", int sites = 4) {
  std::string text = fmt::format(
      "[model]\nkind = \"phantom\"\nmbytes = 4\n[sync]\nkind = \"{}\"\n[overlay]\nkind = \"{}\"\n",
      sync, overlay);
  for (int i = 0; i < sites; ++i)
    text += fmt::format("[[site]]\nname = \"{}\"\nup_mbps = 8\ndown_mbps = 8\n", char('a' + i));
  auto doc = parse_document(text, "job.toml");
  EXPECT_TRUE(doc) << doc.error().what;
  auto job = resolve_job(*std::move(doc));
  EXPECT_TRUE(job) << job.error().what;
  return *std::move(job);
}

Explanation explanation(const Job& job, std::optional<double> mbytes = {}) {
  auto made = explanation_of(job, mbytes);
  EXPECT_TRUE(made) << made.error().what;
  return *std::move(made);
}

// Who is whose peer, and by which part of its strategy.
TEST(Explanation, ShowsWhatEachStrategySends) {
  struct Case {
    std::string sync, overlay, sentence, from, part, to;
  };
  const std::vector<Case> cases = {
      {"bsp", "ring", "average the gradients of every step.", "a", "overlay", "b"},
      {"gaia", "direct", "larger than T times their parameters", "a", "updates", "b c d"},
      {"ds_sync", "direct", "The groups are others in every round", "a", "overlay", "b"},
      {"ds_sync", "direct", "waits for no one else", "a", "overlay", "d"},
      {"selmcast", "direct", "chosen by bandwidth", "a", "channel", "b"},
      {"adpsgd", "direct", "both take half of the difference. Nobody waits.", "b", "overlay",
       "a c d"},
      {"sfb", "direct", "the factors of its gradient", "a", "overlay", "b c d"},
      {"p3", "direct", "the one nearest to the input goes first", "a", "overlay", "b c d"},
      {"asp", "hub", "add every worker's step", "b", "channel", "a"},
      {"skewscout", "direct", "tune gaia or fedavg", "a", "tuned/updates", "b c d"}};
  for (const Case& one : cases) {
    SCOPED_TRACE(one.sync);
    const Explanation said = explanation(explained_job(one.sync, one.overlay));
    ASSERT_EQ(said.lines.size(), 2u);
    EXPECT_TRUE(says(said.lines[0], one.sentence));
    EXPECT_TRUE(says(said.lines[1], "The busiest link was"));
    EXPECT_TRUE(std::ranges::any_of(said.rows, [&](const Row& row) {
      return row.size() == said.head.size() && row[0] == one.from && row[1] == one.part &&
             row[4] == one.to;
    })) << to_json(said).dump(1);
  }
}

// Bytes are those of a round, and rounds that are alike share a row.
TEST(Explanation, MbytesReplaceModelAndData) {
  const Explanation said = explanation(explained_job("bsp"), 1);
  ASSERT_FALSE(said.rows.empty());
  EXPECT_EQ(said.rows[0], (Row{"a", "overlay", "1 2 3 4", "1.5", "b c d"}));
}

// A round is the workers', whoever sends.
TEST(Explanation, AHubSendsItsMeansInEveryRound) {
  for (const std::string sync : {"bsp", "fedavg"}) {
    SCOPED_TRACE(sync);
    const Explanation said = explanation(explained_job(sync, "hub", 3), 1);
    EXPECT_TRUE(std::ranges::any_of(said.rows, [](const Row& row) {
      return row[2] == "1 2 3 4" && row[3] == "2" && row[4].size() == 3;
    })) << to_json(said).dump(1);
  }
}

TEST(Explanation, ScaledValuesCountAsLargeAsOnTheWire) {
  Job job = explained_job("bsp");
  job.wan.wire_scale = 3;
  EXPECT_EQ(explanation(job, 1).rows[0], (Row{"a", "overlay", "1 2 3 4", "4.5", "b c d"}));
}

TEST(Explanation, ManyNodesAreNotSimulated) {
  Job job = explained_job("bsp", "ring", 2);
  job.sites[0].nodes = 64;
  const Explanation many = explanation(job);
  EXPECT_TRUE(many.rows.empty());
  EXPECT_EQ(to_json(many)["tables"].size(), 0u);
}

}  // namespace
}  // namespace longhaul::run

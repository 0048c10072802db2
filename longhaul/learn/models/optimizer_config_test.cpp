#include "longhaul/learn/models/optimizer_config.h"

#include <gtest/gtest.h>

#include "longhaul/base/testing/result.h"

namespace longhaul::learn {
namespace {

Settings optimizer_table(std::vector<std::pair<std::string, Value>> entries) {
  Settings settings{.table = "optimizer", .file = "job.toml", .line = 3, .entries = {}};
  for (auto& [key, value] : entries)
    settings.entries.push_back({key, std::move(value), "job.toml", 4});
  return settings;
}

void expect_error(const Settings& settings, const std::string& part) {
  auto config = read_optimizer(settings);
  ASSERT_FALSE(config) << part;
  EXPECT_TRUE(says(config, "job.toml:4"));
  EXPECT_TRUE(says(config, part));
}

TEST(OptimizerConfig, ReadsItsTable) {
  auto config = good(read_optimizer(optimizer_table({{"kind", {std::string("sgd")}},
                                                     {"rate", {0.1}},
                                                     {"momentum", {0.9}},
                                                     {"nesterov", {true}},
                                                     {"schedule", {std::string("step")}},
                                                     {"steps", {std::int64_t{50}}},
                                                     {"factor", {0.5}}})));
  EXPECT_EQ(config->momentum, 0.9);
  EXPECT_EQ(config->steps, 50u);
  EXPECT_EQ(config->decay(), 0);
  auto adamw = good(read_optimizer(optimizer_table({{"kind", {std::string("adamw")}}})));
  EXPECT_EQ(adamw->decay(), 0.01);
}

TEST(OptimizerConfig, RefusesWhatWouldBeIgnoredOrImpossible) {
  const Value adam{std::string("adam")};
  expect_error(optimizer_table({{"kind", adam}, {"momentum", {0.9}}}), "belongs to \"sgd\"");
  expect_error(optimizer_table({{"beta1", {0.9}}}), "belongs to \"adam\"");
  expect_error(optimizer_table({{"steps", {std::int64_t{5}}}}), "schedule = \"constant\"");
  expect_error(optimizer_table({{"nesterov", {true}}}), "momentum above 0");
  expect_error(optimizer_table({{"rate", {-0.1}}}), "rate");
  expect_error(optimizer_table({{"rate", {0.0}}}), "rate");
  expect_error(optimizer_table({{"clip", {0.0}}}), "[optimizer] clip");
  expect_error(optimizer_table({{"kind", {std::string("adan")}}}), "adam");
  expect_error(optimizer_table({{"schedule", {std::string("cosine")}}, {"min_rate", {1.0}}}),
               "at most the rate");
}

TEST(Schedule, Constant) {
  OptimizerConfig c{.rate = 0.2};
  EXPECT_EQ(rate_at(c, 0), 0.2);
  EXPECT_EQ(rate_at(c, 1'000'000), 0.2);
}

TEST(Schedule, StepFallsAtOnceEverySoManySteps) {
  OptimizerConfig c{.rate = 1, .schedule = "step", .steps = 10, .factor = 0.5};
  EXPECT_EQ(rate_at(c, 9), 1);
  EXPECT_EQ(rate_at(c, 10), 0.5);
  EXPECT_EQ(rate_at(c, 19), 0.5);
  EXPECT_EQ(rate_at(c, 20), 0.25);
}

TEST(Schedule, CosineEndsAtMinRateAndStaysThere) {
  OptimizerConfig c{.rate = 1, .schedule = "cosine", .steps = 100, .min_rate = 0.1};
  EXPECT_EQ(rate_at(c, 0), 1);
  EXPECT_NEAR(rate_at(c, 50), 0.55, 1e-12);
  EXPECT_NEAR(rate_at(c, 100), 0.1, 1e-12);
  EXPECT_NEAR(rate_at(c, 1000), 0.1, 1e-12);
}

TEST(Schedule, BeginsBehindTheWarmUp) {
  OptimizerConfig c{.rate = 1, .schedule = "step", .steps = 10, .factor = 0.5, .warmup_steps = 4};
  EXPECT_EQ(rate_at(c, 0), 0.25);
  EXPECT_EQ(rate_at(c, 3), 1);
  EXPECT_EQ(rate_at(c, 13), 1);
  EXPECT_EQ(rate_at(c, 14), 0.5);
}

}  // namespace
}  // namespace longhaul::learn

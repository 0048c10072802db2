// How fast sites are: what [hetero] comes to, and what sites say of their own steps.
#include "longhaul/run/job/hetero.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "longhaul/base/testing/result.h"
#include "longhaul/run/job/dump.h"
#include "longhaul/run/job/testing/job_text.h"

namespace longhaul::run {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kHead = "[model]\nkind = \"phantom\"\n[sync]\nkind = \"bsp\"\n";  // 4 lines

std::string sites(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += fmt::format("[[site]]\nname = \"{}\"\n", name);
  return text;
}

// `table` begins in line 5.
Result<Job> resolve(const std::string& table, const std::string& sites,
                    const std::vector<std::string>& sets = {}) {
  return testing::read_job(kHead + table + sites, sets);
}

std::string hetero_error(const std::string& table, const std::string& sites,
                         const std::vector<std::string>& sets = {}) {
  return testing::job_error(kHead + table + sites, sets);
}

std::vector<double> steps(const Result<Job>& job) {
  std::vector<double> all;
  if (!job) {
    ADD_FAILURE() << job.error().what;
    return all;
  }
  for (const SiteTable& site : job->sites) all.push_back(site.step_ms);
  return all;
}

const std::string kFour = sites({"a", "b", "c", "d"});

TEST(Hetero, AGeometricSpreadHasItsRatioAndEqualFactors) {
  const auto four = steps(resolve("[hetero]\nratio = 8\n", kFour));
  ASSERT_EQ(four.size(), 4u);
  for (std::size_t k = 0; k < 4; ++k) EXPECT_NEAR(four[k], 20.0 * double(1 << k), 1e-9);
  const auto two = steps(resolve("[hetero]\nratio = 150\nstep_ms = 40\n", sites({"a", "b"})));
  EXPECT_EQ(two, (std::vector<double>{40, 6000}));
  EXPECT_EQ(steps(resolve("[hetero]\nratio = 9\n", sites({"a"}))), (std::vector<double>{20}));
}

TEST(Hetero, MeasuredFactorsAreStretchedOverTheSites) {
  const std::string table = "[hetero]\nspread = \"measured\"\nfactors = [1, 2, 8]\n";
  const auto five = steps(resolve(table, sites({"a", "b", "c", "d", "e"})));
  ASSERT_EQ(five.size(), 5u);
  const std::vector<double> expected = {20, 20 * std::sqrt(2.0), 40, 80, 160};
  for (std::size_t k = 0; k < 5; ++k) EXPECT_NEAR(five[k], expected[k], 1e-9);
  EXPECT_EQ(steps(resolve(table, sites({"a", "b", "c"}))), (std::vector<double>{20, 40, 160}));
  EXPECT_EQ(steps(resolve(table, sites({"a", "b"}))), (std::vector<double>{20, 160}));
}

// The same speeds to other sites, as the seed says.
TEST(Hetero, ShuffledIsDealtByTheSeed) {
  std::set<std::vector<double>> seen;
  for (int seed = 1; seed <= 20; ++seed) {
    auto dealt = steps(resolve("[hetero]\nratio = 8\norder = \"shuffled\"\n", kFour,
                               {fmt::format("job.seed={}", seed)}));
    seen.insert(dealt);
    std::sort(dealt.begin(), dealt.end());
    EXPECT_EQ(dealt, steps(resolve("[hetero]\nratio = 8\n", kFour)));
  }
  EXPECT_GT(seen.size(), 8u);  // of 24
}

// As if the steps stood at the sites: for the hash, for the difference, and in the job as resolved,
// which says where they come from.
TEST(Hetero, IsAsIfItStoodAtTheSites) {
  const auto job = resolve("[hetero]\nratio = 4\ndrift = 0.2\n", sites({"a", "b"}));
  const auto written = resolve("",
                               "[[site]]\nname = \"a\"\nstep_ms = 20\ndrift = 0.2\n"
                               "[[site]]\nname = \"b\"\nstep_ms = 80\ndrift = 0.2\n");
  ASSERT_TRUE(job && written);
  EXPECT_EQ(job_hash(*job), job_hash(*written));
  EXPECT_EQ(to_toml(*job), to_toml(*written));
  bool found = false;
  for (const ResolvedTable& table : resolved(*job))
    for (const ResolvedKey& key : table.keys)
      if (table.name == "site.b" && key.key == "step_ms") {
        EXPECT_EQ(key.value, "80.0");
        EXPECT_EQ(key.source, "job.toml:6");
        found = true;
      }
  EXPECT_TRUE(found);
}

// A server has no steps: it takes no place in the spread, and no drift.
TEST(Hetero, IsForSitesWithWorkers) {
  const auto job =
      resolve("[hetero]\nratio = 4\ndrift = 0.1\n",
              "[[site]]\nname = \"s\"\nroles = [\"server\"]\nstep_ms = 7\n" + sites({"a", "b"}));
  EXPECT_EQ(steps(job), (std::vector<double>{7, 20, 80}));
  EXPECT_FALSE(job->sites[0].drift);
  EXPECT_EQ(job->sites[1].drift, 0.1);
}

TEST(Hetero, ASitesOwnDriftWins) {
  const auto job = good(resolve("[hetero]\ndrift = 0.1\ndrift_bound = 3\n",
                                sites({"a"}) + "drift = 0.5\ndrift_every_s = 7\nstep_ms = 9\n"));
  EXPECT_EQ(job->sites[0].drift, 0.5);
  EXPECT_EQ(job->sites[0].drift_every_s, 7);
  EXPECT_EQ(job->sites[0].drift_bound, 3);
  EXPECT_EQ(job->sites[0].step_ms, 9);
}

TEST(Hetero, OneOfTheSpreadAndASitesOwnStepTime) {
  const std::string table = "[hetero]\nratio = 4\n";
  EXPECT_EQ(hetero_error(table, sites({"a"}) + "step_ms = 30\n"),
            "job.toml:9: [site.a] step_ms: expected no step_ms beside [hetero] ratio, which says "
            "the step time of every site (job.toml:6); leave one of them out, found 30");
  EXPECT_THAT(hetero_error(table, sites({"a"}), {"site.*.step_ms=5"}),
              HasSubstr("--set: [site.a] step_ms: expected no step_ms beside [hetero] ratio"));
  EXPECT_THAT(hetero_error(table, sites({"a"}) + "step_trace = \"t.csv\"\n"),
              HasSubstr("[site.a] step_trace: expected no step_trace beside [hetero] ratio"));
  EXPECT_THAT(hetero_error(table, sites({"a"}) + "step_at_s = [0]\nstep_values = [5]\n"),
              HasSubstr("[site.a] step_at_s: expected no step_at_s beside"));
}

TEST(Hetero, WhatASpreadLacksOrIgnoresIsAnError) {
  for (const char* key : {"order = \"shuffled\"", "step_ms = 5", "spread = \"geometric\""})
    EXPECT_THAT(hetero_error(fmt::format("[hetero]\n{}\n", key), kFour),
                HasSubstr("job.toml:5: [hetero] ratio: missing; expected the slowest site's "
                          "step_ms over the fastest's, for example ratio = 150"));
  EXPECT_THAT(hetero_error("[hetero]\nratio = 5\nfactors = [1, 2]\n", kFour),
              HasSubstr("job.toml:7: [hetero] factors: expected spread = \"measured\" beside it"));
  const std::string measured = "[hetero]\nspread = \"measured\"\n";
  EXPECT_THAT(hetero_error(measured + "factors = [1, 2]\nratio = 5\n", kFour),
              HasSubstr("job.toml:8: [hetero] ratio: expected no ratio with spread"));
  for (const char* factors : {"", "factors = []\n", "factors = [2, 3]\n", "factors = [1, 3, 2]\n"})
    EXPECT_THAT(hetero_error(measured + factors, kFour),
                AllOf(HasSubstr("[hetero] factors: "), HasSubstr("ascending from 1, for example")));
  EXPECT_THAT(hetero_error("[hetero]\nratio = 1000\nstep_ms = 1e7\n", kFour),
              HasSubstr("job.toml:6: [hetero] ratio: expected a step of at most 1e+09 ms"));
}

// What would change nothing is refused.
TEST(StepTimes, KeysOfDriftNeedADrift) {
  for (const char* key : {"drift_every_s", "drift_bound"})
    EXPECT_THAT(hetero_error("", sites({"a"}) + fmt::format("{} = 5\n", key)),
                HasSubstr(fmt::format("job.toml:7: [site.a] {}: expected drift beside it", key)));
}

// A job as resolved reads back as itself, and its steps begin with the trace.
TEST(StepTimes, ATraceInTheJob) {
  const auto with = [](const std::string& keys) { return sites({"a"}) + keys; };
  const auto job = good(resolve("", with("step_at_s = [0, 10]\nstep_values = [30, 5]\n")));
  EXPECT_EQ(job->sites[0].step_ms, 30);
  EXPECT_EQ(job_hash(*good(testing::read_job(to_toml(*job)))), job_hash(*job));
  EXPECT_THAT(hetero_error("", with("step_at_s = [0]\n")),
              HasSubstr("[site.a] step_values: missing; expected step_at_s and step_values "));
  EXPECT_THAT(hetero_error("", with("step_values = [1]\n")),
              HasSubstr("[site.a] step_at_s: missing"));
  EXPECT_THAT(hetero_error("", with("step_at_s = [0, 5, 5]\nstep_values = [1, 2, 3]\n")),
              HasSubstr("job.toml:7: [site.a] step_at_s: expected times that ascend"));
  EXPECT_THAT(hetero_error("", with("step_ms = 5\nstep_at_s = [0]\nstep_values = [30]\n")),
              HasSubstr("job.toml:7: [site.a] step_ms: expected no step_ms beside a trace, which "
                        "begins with 30"));
}

}  // namespace
}  // namespace longhaul::run

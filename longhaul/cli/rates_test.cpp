#include "longhaul/cli/rates.h"

#include <gtest/gtest.h>

#include "longhaul/base/testing/result.h"
#include "longhaul/run/job/dump.h"

namespace longhaul::cli {
namespace {

run::Job rated_job(const std::string& more) {
  return *good(run::resolve_job(*good(run::parse_document(
      "model = {kind = \"logistic\"}\ndata = {kind = \"synthetic\"}\n" +
          std::string(more.find("sync =") == more.npos ? "sync = {kind = \"bsp\"}\n" : "") + more,
      "job.toml"))));
}

TEST(Rates, AreScaledAlsoWhereTheyAreDefaultsOrOfASite) {
  run::Job job = rated_job("site = [{name = \"a\", rate = 0.5}, {name = \"b\"}]\n");
  const double usual = *number_of(job, "optimizer", "rate");
  EXPECT_NEAR(*scale_rate(job, 4), 4 * usual, 1e-12);
  EXPECT_NEAR(*number_of(job, "optimizer", "rate"), 4 * usual, 1e-12);
  EXPECT_EQ(job.sites[0].rate, 2.0);
  EXPECT_FALSE(job.sites[1].rate);
  // The written job reads back with it.
  const run::Job again =
      *good(run::resolve_job(*good(run::parse_document(run::to_toml(job), "again.toml"))));
  EXPECT_NEAR(*number_of(again, "optimizer", "rate"), 4 * usual, 1e-12);
}

TEST(Rates, OfAnOuterTransformOnlyWhereThereIsOne) {
  run::Job plain = rated_job("site = [{name = \"a\"}]\n");
  EXPECT_FALSE(scale_outer_rate(plain, 2));
  run::Job outer =
      rated_job("outer = {kind = \"nesterov\", rate = 0.7}\nsite = [{name = \"a\"}]\n");
  EXPECT_NEAR(*scale_outer_rate(outer, 2), 1.4, 1e-12);
}

TEST(Rates, StepsAreNumbersToo) {
  const run::Job job =
      rated_job("sync = {kind = \"fedavg\", steps = 7}\nsite = [{name = \"a\"}]\n");
  EXPECT_EQ(number_of(job, "sync", "steps"), 7);
  EXPECT_FALSE(number_of(job, "sync", "none"));
  EXPECT_TRUE(*good(says_rate(job)));
}

}  // namespace
}  // namespace longhaul::cli

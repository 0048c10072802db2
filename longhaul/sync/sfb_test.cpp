#include "longhaul/sync/sfb.h"

#include <gtest/gtest.h>

#include <cmath>

#include "longhaul/base/testing/effort.h"
#include "longhaul/codec/registry.h"
#include "longhaul/sync/registry.h"
#include "longhaul/sync/testing/test_job.h"

namespace longhaul::sync {
namespace {

using testing::Quadratic;
using testing::TestJob;

constexpr std::uint32_t kOut = 3, kIn = 4;
constexpr std::uint64_t kSize = kOut * (kIn + 1) + 6;  // two of them are buffers

std::vector<Setting> factors_by(std::string spread, std::int64_t staleness = 0) {
  return {{"rule", {std::string("always")}},
          {"spread", {std::move(spread)}},
          {"hash_every", {std::int64_t(1)}},
          {"staleness", {staleness}}};
}

TestJob::Config sfb_job(std::uint32_t n, std::vector<Setting> settings, Round rounds) {
  return {.sync = "sfb",
          .settings = std::move(settings),
          .learners = testing::learners(
              n, {.rate = 0.1f, .momentum = 0.5f, .buffers = 2, .out = kOut, .in = kIn}),
          .size = kSize,
          .stop = {.max_rounds = rounds, .report_every = 3}};
}

const Sfb& sfb_of(TestJob& job, Rank rank) {
  return dynamic_cast<const Sfb&>(job.node(rank).strategy());
}

void expect_near_values(const std::vector<float>& a, const std::vector<float>& b, double share) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    EXPECT_NEAR(a[i], b[i], share * (1 + std::abs(double(b[i])))) << i;
}

// sfb.md 2: momentum and unequal samples among them.
TEST(Sfb, WithoutStalenessIsTheMeanOfGradients) {
  for (const char* rule : {"always", "never"}) {
    TestJob::Config config = sfb_job(4, factors_by("full"), 50);
    config.settings[0].value = {std::string(rule)};
    for (std::uint32_t k = 0; k < 4; ++k) config.learners[k].samples = 1 + k;
    TestJob job(config);
    job.run();
    config.sync = "bsp";
    config.settings = {};
    TestJob bsp(config);
    bsp.run();
    for (Rank rank = 0; rank < 4; ++rank) {
      EXPECT_EQ(job.finished[rank], 1);
      EXPECT_EQ(job.params(rank), job.params(0));
      expect_near_values(job.params(rank), bsp.params(rank), 1e-5);
    }
    EXPECT_TRUE(job.errors.empty());
  }
}

// sfb.md 11: four workers with equal gradients move as one does, whose momentum moves once a step.
TEST(Sfb, MomentumMovesOnceAClock) {
  TestJob::Config config = sfb_job(4, factors_by("full"), 12);
  config.learners.assign(4, config.learners[2]);
  TestJob job(config);
  job.run();
  Quadratic alone(kSize, config.learners[0]);
  for (int step = 0; step < 12; ++step) ASSERT_TRUE(alone.step(LocalStep{}));
  expect_near_values(job.params(1), {alone.params().begin(), alone.params().end()}, 1e-5);
}

// sfb.md 3, 7 and 10: hash_every = 1 compares all copies after every clock.
TEST(Sfb, CopiesAreEqualWhateverTheOrderSpreadAndCodec) {
  for (const char* spread : {"full", "tree", "site"})
    for (const char* codec : {"fp32", "bf16", "int8"}) {
      SCOPED_TRACE(std::string(spread) + " " + codec);
      TestJob::Config config = sfb_job(5, factors_by(spread), 8);
      config.codec = {{"kind", {std::string(codec)}}};
      TestJob first(config);
      first.run();
      config.takes = [](Rank rank) { return int(rank * 7 % 5) * 3; };
      TestJob second(config);
      second.run();
      EXPECT_TRUE(first.failures.empty()) << first.failures.begin()->second;
      EXPECT_TRUE(second.failures.empty()) << second.failures.begin()->second;
      for (Rank rank = 0; rank < 5; ++rank) {
        EXPECT_EQ(first.params(rank), first.params(0));
        EXPECT_EQ(second.params(rank), first.params(0));
        EXPECT_EQ(sfb_of(second, rank).store().done(0), 8u);
      }
    }
}

// sfb.md 4: 4 K (J + D) (P - 1) bytes of a worker in a clock, of factors that are not sparse.
TEST(Sfb, SendsItsFactorsToEachOther) {
  for (const char* spread : {"full", "tree"}) {
    TestJob::Config config = sfb_job(4, factors_by(spread), 5);
    config.settings.push_back({"sparse_v", {false}});
    TestJob job(config);
    job.run();
    const double own = 4.0 * (kOut + 1) * (kOut + kIn) * 3;
    double sum = 0;
    for (Rank rank = 0; rank < 4; ++rank)
      for (const auto& [clock, bytes] : job.records[{rank, "sent_bytes"}]) {
        sum += bytes;
        if (spread == std::string("full")) EXPECT_EQ(bytes, own);
      }
    // What a tree passes on after its last clock is in no record.
    EXPECT_LE(sum, 4 * 5 * own);
    EXPECT_GE(sum, 4 * 4 * own);
  }
}

TEST(Sfb, IsTheSameAfterSavingAndLoading) {
  for (const char* spread : {"full", "tree"})
    EXPECT_EQ(testing::changed_by_saving(sfb_job(3, factors_by(spread), 4)), "");
  TestJob::Config eager = sfb_job(3, factors_by("full", 1), 4);
  for (auto& learner : eager.learners) learner.momentum = 0;
  EXPECT_EQ(testing::changed_by_saving(eager), "");
}

// A site is lost after any event: survivors go on with equal models.
TEST(Sfb, SurvivesTheLossOfAWorkerAtAnyMoment) {
  for (const std::int64_t staleness : {0, 2})
    for (const char* spread : {"full", "tree", "site"}) {
      TestJob::Config config = sfb_job(5, factors_by(spread, staleness), 5);
      for (auto& learner : config.learners) learner.momentum = 0;
      std::uint64_t events = 0;
      TestJob whole(config);
      whole.after_event = [&] { ++events; };
      whole.run();
      for (std::uint64_t at = 3; at < events; at += 1 + 4 * longhaul::testing::kStride) {
        const Rank lost = Rank(at % 5);
        SCOPED_TRACE(std::string(spread) + " rank " + std::to_string(lost) + " after event " +
                     std::to_string(at) + ", staleness " + std::to_string(staleness));
        TestJob job(config);
        std::uint64_t left = at;
        job.after_event = [&] {
          if (left-- == 1) job.crash(lost);
        };
        job.run();
        const Rank first = lost == 0 ? 1 : 0;
        for (Rank rank = 0; rank < 5; ++rank) {
          if (rank == lost) continue;
          ASSERT_EQ(job.failures[rank], "");
          ASSERT_EQ(job.finished[rank], 1);
          ASSERT_EQ(job.params(rank), job.params(first));
        }
      }
    }
}

// sfb.md 6.
TEST(Sfb, NobodyIsFurtherAheadThanStaleness) {
  for (const std::int64_t staleness : {0, 1, 3}) {
    TestJob::Config config = sfb_job(4, factors_by("tree", staleness), 12);
    for (auto& learner : config.learners) learner.momentum = 0;
    config.takes = [](Rank rank) { return rank == 2 ? 60 : 0; };
    TestJob job(config);
    Round most = 0;
    job.after_event = [&] {
      Round low = ~Round(0), high = 0;
      for (Rank rank = 0; rank < 4; ++rank) {
        const Round done = job.node(rank).strategy().rounds_done();
        low = std::min(low, done);
        high = std::max(high, done);
      }
      most = std::max(most, high - low);
    };
    job.run();
    EXPECT_LE(most, Round(staleness + 1));
    EXPECT_GE(most, Round(staleness > 0 ? staleness : 0)) << "the bound is reached";
    for (Rank rank = 0; rank < 4; ++rank) {
      EXPECT_EQ(job.finished[rank], 1);
      EXPECT_EQ(job.params(rank), job.params(0));
    }
    if (staleness > 0) EXPECT_FALSE((job.records[{0, "staleness"}].empty()));
  }
}

// With staleness, too, each gradient is applied once everywhere: the last model is near that of
// equal workers that step alone.
TEST(Sfb, WithStalenessAppliesEachGradientOnce) {
  TestJob::Config config = sfb_job(3, factors_by("full", 2), 60);
  for (auto& learner : config.learners) learner.momentum = 0;
  TestJob job(config);
  job.run();
  // Targets 0, 1 and 4, and the slope.
  for (std::size_t i = 0; i + 2 < kSize; ++i)
    EXPECT_NEAR(job.params(0)[i], 5.0 / 3 + double(i) * 1e-3, 0.1);
}

// sfb.md 9: a copy that has gone its own way is found at the next comparison.
TEST(Sfb, CopiesThatDifferEndTheRun) {
  TestJob::Config config = sfb_job(3, factors_by("full"), 20);
  config.settings[2].value = {std::int64_t(4)};
  TestJob job(config);
  bool is_done = false;
  job.after_event = [&] {
    if (is_done || job.node(1).strategy().rounds_done() < 5) return;
    job.learner(1).params()[0] += 0.25f;
    is_done = true;
  };
  job.run();
  ASSERT_FALSE(job.failures.empty());
  EXPECT_NE(job.failures.begin()->second.find("copies of the model differ after clock 8"),
            std::string::npos)
      << job.failures.begin()->second;
  EXPECT_LE(job.node(1).strategy().rounds_done(), 9u);
}

TEST(Sfb, AGradientThatIsNotFiniteEndsTheRun) {
  TestJob::Config config = sfb_job(3, factors_by("full"), 20);
  for (auto& learner : config.learners) learner.rate = 1e6f;
  TestJob job(config);
  job.run();
  ASSERT_FALSE(job.failures.empty());
  EXPECT_NE(job.failures.begin()->second.find("not finite"), std::string::npos);
}

Status made_with(std::int64_t staleness, bool plain_sgd, std::uint64_t rest) {
  Place place;
  place.members = std::make_shared<const Members>(Members{{"oregon"}, {"paris"}});
  place.layout = Layout::flat(rest);
  const Settings settings{"sync", "test.toml", 0, factors_by("full", staleness)};
  SyncParts parts{testing::everyone_to_everyone(), nullptr, {}};
  parts.plain_sgd = plain_sgd;
  parts.make_codec = [&](bool feedback) {
    return *codec::make_codec({"codec", "", 0, {}}, place, feedback);
  };
  auto entry = find_entry(registry(), settings, "sfb");
  auto made = (*entry)->make(settings, std::move(parts), place);
  return made ? Status(Ok{}) : Status(made.error());
}

TEST(Sfb, RefusesWhatStalenessDoesNotAllow) {
  EXPECT_NE(made_with(1, false, 10).error().what.find("[sync] staleness"), std::string::npos);
  EXPECT_NE(made_with(1, true, 250001).error().what.find("1000004 bytes"), std::string::npos);
}

}  // namespace
}  // namespace longhaul::sync

#include "longhaul/sync/sfb.h"

#include <gtest/gtest.h>

#include <cmath>

#include "longhaul/base/testing/effort.h"
#include "longhaul/codec/registry.h"
#include "longhaul/sync/registry.h"
#include "longhaul/sync/testing/sfb_job.h"

namespace longhaul::sync {
namespace {

using testing::factors_by;
using testing::kFactorIn;
using testing::kFactorOut;
using testing::kFactorSize;
using testing::Quadratic;
using testing::sfb_job;
using testing::TestJob;

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
    TestJob::Config config = sfb_job(4, factors_by("full"), longhaul::testing::kGate ? 15 : 50);
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

// Layers that leave one by one make the same clocks, bit for bit, whatever goes as factors.
TEST(Sfb, WaitFreeIsTheSameToTheBit) {
  for (const char* rule : {"always", "never"})
    for (const char* spread : {"full", "tree"}) {
      TestJob::Config config = sfb_job(4, factors_by(spread), longhaul::testing::kGate ? 8 : 20,
                                       /*layer_last=*/true);
      config.settings[0].value = {std::string(rule)};
      TestJob whole(config);
      whole.run();
      config.settings = testing::wait_free(config.settings);
      config.takes = [](Rank rank) { return int(rank * 7 % 5) * 3; };
      TestJob stages(config);
      stages.run();
      EXPECT_TRUE(stages.failures.empty()) << stages.failures.begin()->second;
      for (Rank rank = 0; rank < 4; ++rank) EXPECT_EQ(stages.params(rank), whole.params(0));
    }
}

// sfb.md 13: four workers with equal gradients move as one does, whose momentum moves once a step.
TEST(Sfb, MomentumMovesOnceAClock) {
  TestJob::Config config = sfb_job(4, factors_by("full"), 12);
  config.learners.assign(4, config.learners[2]);
  TestJob job(config);
  job.run();
  Quadratic alone(kFactorSize, config.learners[0]);
  for (int step = 0; step < 12; ++step) ASSERT_TRUE(alone.step(LocalStep{}));
  expect_near_values(job.params(1), {alone.params().begin(), alone.params().end()}, 1e-5);
}

// sfb.md 3, 7 and 12: hash_every = 1 compares all copies after every clock.
TEST(Sfb, CopiesAreEqualWhateverTheOrderSpreadAndCodec) {
  constexpr Round kClocks = longhaul::testing::kGate ? 5 : 8;
  std::size_t number = 0;
  for (const char* spread : {"full", "tree", "site"})
    for (const char* codec : {"fp32", "bf16", "int8"}) {
      // In the gate three of the nine: each spread and each codec once.
      if (longhaul::testing::kGate && number++ % 4 != 0) continue;
      SCOPED_TRACE(std::string(spread) + " " + codec);
      TestJob::Config config = sfb_job(5, factors_by(spread), kClocks);
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
        EXPECT_EQ(sfb_of(second, rank).store().done(0), kClocks);
      }
    }
}

TestJob::Config adopting_job(const char* spread, Round clocks) {
  TestJob::Config config = sfb_job(4, factors_by(spread), clocks);
  config.settings[2].value = {std::int64_t(4)};
  config.settings.push_back({"on_divergence", {std::string("adopt")}});
  config.settings.push_back({"mean_every", {std::int64_t(4)}});
  return config;
}

TEST(Sfb, IsTheSameAfterSavingAndLoading) {
  for (const char* spread : {"full", "tree"}) {
    if (longhaul::testing::kGate && spread == std::string("full")) continue;  // below, in others
    EXPECT_EQ(testing::changed_by_saving(sfb_job(3, factors_by(spread), 4)), "");
  }
  EXPECT_EQ(testing::changed_by_saving(sfb_job(3, testing::wait_free(factors_by("tree")), 4, true)),
            "");
  EXPECT_EQ(testing::changed_by_saving(adopting_job("full", 6)), "");
  TestJob::Config eager = sfb_job(3, factors_by("full", 1), 4);
  for (auto& learner : eager.learners) learner.momentum = 0;
  EXPECT_EQ(testing::changed_by_saving(eager), "");
}

// With staleness, too, each gradient is applied once everywhere: the last model is near that of
// equal workers that step alone.
TEST(Sfb, WithStalenessAppliesEachGradientOnce) {
  TestJob::Config config = sfb_job(3, factors_by("full", 2), 60);
  for (auto& learner : config.learners) learner.momentum = 0;
  TestJob job(config);
  job.run();
  // Targets 0, 1 and 4, and the slope.
  for (std::size_t i = 0; i + 2 < kFactorSize; ++i)
    EXPECT_NEAR(job.params(0)[i], 5.0 / 3 + double(i) * 1e-3, 0.1);
}

// sfb.md 10: a copy that has gone its own way is found at the next comparison.
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

// Once `rank` has done five clocks its model and its momentum are others.
void part_copies(TestJob& job, Rank rank, bool& is_done) {
  if (is_done || job.node(rank).strategy().rounds_done() < 5) return;
  is_done = true;
  job.learner(rank).params()[0] += 0.25f;
  const auto set = job.learner(rank).step(
      OptimizerState{.set = std::vector<float>(job.params(rank).size() - 2, 3.f)});
  LH_CHECK(set);
}

// sfb.md 10: the same with on_divergence = "adopt": all hold the lowest rank's after that, its
// momentum, too.
TEST(Sfb, CopiesThatDifferAdoptTheLowestRanks) {
  constexpr Round kClocks = longhaul::testing::kGate ? 14 : 22;
  constexpr int kSaveEvery = longhaul::testing::kGate         ? 61
                             : longhaul::testing::kStride > 1 ? 5
                                                              : 1;  // events
  for (const Rank parted : {Rank(0), Rank(2)}) {
    TestJob job(adopting_job("full", kClocks));
    bool is_done = false;
    job.after_event = [&] { part_copies(job, parted, is_done); };
    job.run();
    EXPECT_TRUE(job.failures.empty()) << job.failures.begin()->second;
    EXPECT_TRUE(job.errors.empty()) << job.errors.front();
    for (Rank rank = 0; rank < 4; ++rank) {
      EXPECT_EQ(job.finished[rank], 1);
      EXPECT_EQ(job.params(rank), job.params(0));
      // Of a parted rank 0 all others are replaced.
      const double replaced = parted == 0 ? rank != 0 : rank == parted;
      const std::vector<std::pair<Round, double>> once = {{7, replaced}};
      EXPECT_EQ((job.records[{rank, "adopted"}]), once);
    }
    TestJob broken(adopting_job("full", kClocks));
    is_done = false;
    std::uint64_t events = 0;
    broken.after_event = [&] {
      part_copies(broken, parted, is_done);
      if (is_done && ++events % kSaveEvery == 0) broken.save_and_load();
    };
    broken.run();
    EXPECT_EQ(broken.params(1), job.params(1));
  }
}

TEST(Sfb, CopiesThatAreEqualAdoptNothing) {
  for (const char* spread : {"full", "partial"}) {
    TestJob job(adopting_job(spread, 12));
    job.run();
    TestJob::Config config = adopting_job(spread, 12);
    config.settings[4].value = {std::string("stop")};
    TestJob plain(config);
    plain.run();
    for (Rank rank = 0; rank < 4; ++rank) {
      EXPECT_EQ(job.params(rank), plain.params(rank));
      EXPECT_TRUE((job.records[{rank, "adopted"}].empty()));
    }
  }
}

// The one whose model all wait for is lost at any moment, or another.
TEST(Sfb, AdoptsInSpiteOfLosses) {
  constexpr bool kGate = longhaul::testing::kGate;
  std::uint64_t events = 0;
  TestJob whole(adopting_job("full", 12));
  bool is_parted = false;
  whole.after_event = [&] {
    ++events;
    part_copies(whole, 2, is_parted);
  };
  whole.run();
  for (const Rank lost : {Rank(0), Rank(3)})
    for (std::uint64_t at = kGate ? events / (lost == 0 ? 5 : 2) : 3; at < events;
         at += kGate ? events / 2 : 1 + 4 * longhaul::testing::kStride) {
      SCOPED_TRACE("rank " + std::to_string(lost) + " after event " + std::to_string(at));
      TestJob job(adopting_job("full", 12));
      bool is_done = false;
      std::uint64_t left = at;
      job.after_event = [&] {
        part_copies(job, 2, is_done);
        if (left-- == 1) job.crash(lost);
      };
      job.run();
      for (Rank rank = 0; rank < 4; ++rank) {
        if (rank == lost) continue;
        ASSERT_EQ(job.failures[rank], "");
        ASSERT_EQ(job.finished[rank], 1);
        ASSERT_EQ(job.params(rank), job.params(2));
      }
    }
}

Status made_with(std::int64_t staleness, bool plain_sgd, std::uint64_t rest,
                 const char* spread = "full") {
  Place place;
  place.members = std::make_shared<const Members>(Members{{"oregon"}, {"paris"}});
  place.layout = Layout::flat(rest);
  const Settings settings{"sync", "test.toml", 0, factors_by(spread, staleness)};
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
  EXPECT_NE(made_with(1, true, 10, "partial").error().what.find("expected staleness = 0, found 1"),
            std::string::npos);
  EXPECT_NE(made_with(1, true, 250001).error().what.find("1000004 bytes"), std::string::npos);
}

}  // namespace
}  // namespace longhaul::sync

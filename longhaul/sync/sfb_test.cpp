// Invariants (in this file unless another is named):
//  1  u^T v is the sum of outer products (1e-5): sfb/factors_test.cpp,
//     learn/torch_learner_test.cpp.
//  2  Staleness 0 equals bsp after 50 clocks (1e-5).
//  3  Staleness 0: copies are bit-identical after every clock.
//  4  Bytes per clock: 4 K (M + N)(P - 1), partial 4 K (M + N) Q: sfb_exchange_test.cpp,
//     sfb/rule_test.cpp.
//  5  The rule follows the inequality exactly: sfb/rule_test.cpp.
//  6  No worker leads by more than s + 1 clocks: sfb_exchange_test.cpp, tests/sfb_test.cpp.
//  7  Exact spreads reach each worker once, 2 to 39 workers: sfb/spread_test.cpp.
//  8  Partial reaches all others in ceil((P - 1) / Q) clocks: sfb/spread_test.cpp.
//  9  Rows of the output layer's u sum to 0 (1e-5): learn/torch_learner_test.cpp.
// 10  A differing copy ends the run; "adopt" makes copies equal.
// 11  Staleness: copies approach each other (1e-4 at the end): sfb_exchange_test.cpp.
// 12  A sparse v is decoded bit-identical: sfb/encoding_test.cpp.
// 13  Momentum moves once per clock.
// 14  All models are equal after losses; sfb_exchange_test.cpp, tests/sfb_test.cpp. And after
//     returns: tests/peer_return_test.cpp, tests/return_test.cpp.
// 15  `wait_free` is bit-identical; sfb_exchange_test.cpp, learn/torch_learner_test.cpp.
// 16  No gradient is missed or applied twice after losses and returns: tests/sfb_test.cpp.
// 17  Partial equals plain loops; bit-identical after means; tests/sfb_test.cpp.
#include "longhaul/sync/sfb.h"

#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include "longhaul/base/testing/effort.h"
#include "longhaul/base/testing/result.h"
#include "longhaul/codec/registry.h"
#include "longhaul/sync/registry.h"
#include "longhaul/sync/sfb/spread.h"
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

// Invariant 2: momentum and unequal samples among them.
TEST(Sfb, WithoutStalenessIsTheMeanOfGradients) {
  for (const char* rule : {"always", "never"}) {
    TestJob::Config config = sfb_job(4, factors_by("full"), longhaul::testing::kGate ? 15 : 50);
    config.settings[0].value = {std::string(rule)};
    for (std::uint32_t k = 0; k < 4; ++k) config.learners[k].samples = 1 + k;
    auto job = TestJob::ended(config);
    config.sync = "bsp";
    config.settings = {};
    auto bsp = TestJob::ended(config);
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
      auto whole = TestJob::ended(config);
      config.settings = testing::wait_free(config.settings);
      config.takes = [](Rank rank) { return int(rank * 7 % 5) * 3; };
      auto stages = TestJob::ended(config);
      EXPECT_TRUE(stages.failures.empty()) << stages.failures.begin()->second;
      for (Rank rank = 0; rank < 4; ++rank) EXPECT_EQ(stages.params(rank), whole.params(0));
    }
}

// Invariant 13: four workers with equal gradients move as one does, whose momentum moves once a
// step.
TEST(Sfb, MomentumMovesOnceAClock) {
  TestJob::Config config = sfb_job(4, factors_by("full"), 12);
  config.learners.assign(4, config.learners[2]);
  auto job = TestJob::ended(config);
  Quadratic alone(kFactorSize, config.learners[0]);
  for (int step = 0; step < 12; ++step) ASSERT_TRUE(alone.step(LocalStep{}));
  expect_near_values(job.params(1), {alone.params().begin(), alone.params().end()}, 1e-5);
}

// Invariants 3, 7 and 12: hash_every = 1 compares all copies after every clock.
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
      auto first = TestJob::ended(config);
      config.takes = [](Rank rank) { return int(rank * 7 % 5) * 3; };
      auto second = TestJob::ended(config);
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
  auto job = TestJob::ended(config);
  // Targets 0, 1 and 4, and the slope.
  for (std::size_t i = 0; i + 2 < kFactorSize; ++i)
    EXPECT_NEAR(job.params(0)[i], 5.0 / 3 + double(i) * 1e-3, 0.1);
}

// Invariant 10: a copy that has gone its own way is found at the next comparison.
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
  EXPECT_TRUE(says(job.failures.begin()->second, "copies of the model differ after clock 8"));
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

// Invariant 10: the same with on_divergence = "adopt": all hold the lowest rank's after that, its
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
    expect_no_errors(job);
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
    auto job = TestJob::ended(adopting_job(spread, 12));
    TestJob::Config config = adopting_job(spread, 12);
    config.settings[4].value = {std::string("stop")};
    auto plain = TestJob::ended(config);
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
  EXPECT_TRUE(says(made_with(1, false, 10).error().what, "[sync] staleness"));
  EXPECT_TRUE(
      says(made_with(1, true, 10, "partial").error().what, "expected staleness = 0, found 1"));
  EXPECT_TRUE(says(made_with(1, true, 250001).error().what, "1000004 bytes"));
}

// sync/sfb.h with partial spread: who sends to whom, what a worker makes of what it has, means of
// models, losses.

constexpr std::uint64_t kFactorsAlone = kFactorOut * (kFactorIn + 1);

// Q = `peers`; the whole model goes as factors, so that nobody waits for all but in a mean.
TestJob::Config partial_job(std::uint32_t n, std::int64_t peers, std::int64_t mean_every,
                            Round clocks) {
  TestJob::Config config = sfb_job(n, factors_by("partial"), clocks);
  config.settings.push_back({"partial_peers", {peers}});
  config.settings.push_back({"mean_every", {mean_every}});
  config.size = kFactorsAlone;
  for (auto& learner : config.learners) learner.buffers = 0;
  return config;
}

std::vector<Rank> ranks_below(std::uint32_t n) {
  std::vector<Rank> ranks(n);
  std::iota(ranks.begin(), ranks.end(), Rank(0));
  return ranks;
}

// Invariant 4: 4 K (J + D) Q.
TEST(SfbPartial, SendsItsFactorsToSomeOfTheOthers) {
  for (const std::int64_t peers : {0, 1, 3, 9}) {
    TestJob::Config config = partial_job(5, peers, 4, 6);
    config.settings.push_back({"sparse_v", {false}});
    auto job = TestJob::ended(config);
    const double to = peers == 0 ? 3 : std::min(4.0, double(peers));  // 0: ceil(log2 5)
    const double expected = 4.0 * (kFactorOut + 1) * (kFactorOut + kFactorIn) * to;
    for (Rank rank = 0; rank < 5; ++rank) {
      const auto& sent = job.records[{rank, "sent_bytes"}];
      ASSERT_EQ(sent.size(), 6u);
      for (const auto& [clock, bytes] : sent) EXPECT_EQ(bytes, expected) << clock;
    }
  }
}

// The models after each clock, of a run of plain loops.
std::vector<std::vector<std::vector<double>>> models_by_hand(const TestJob::Config& config,
                                                             std::uint32_t peers,
                                                             std::uint64_t mean_every) {
  const auto n = std::uint32_t(config.learners.size());
  std::vector<std::vector<double>> models(
      n, std::vector<double>(config.size, double(config.learners[0].start)));
  std::vector<std::vector<std::vector<double>>> all;
  for (Round clock = 0; clock < config.stop.max_rounds; ++clock) {
    const auto before = models;
    for (Rank rank = 0; rank < n; ++rank) {
      std::vector<Rank> from = sfb::partial_senders(clock, rank, peers, ranks_below(n));
      from.push_back(rank);
      double samples = 0;
      for (const Rank q : from) samples += double(config.learners[q].samples);
      for (std::size_t i = 0; i < config.size; ++i)
        for (const Rank q : from) {
          const auto& learner = config.learners[q];
          const double target = double(learner.target) + double(i) * double(learner.slope);
          const double share = double(learner.samples) / samples;
          models[rank][i] -= double(learner.rate) * share * (before[q][i] - target);
        }
    }
    if ((clock + 1) % mean_every == 0 || clock + 1 == config.stop.max_rounds) {
      std::vector<double> mean(config.size, 0.0);
      for (const auto& model : models)
        for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += model[i] / n;
      models.assign(n, mean);
    }
    all.push_back(models);
  }
  return all;
}

// What each worker holds when it has done so many clocks and begins the next one.
struct ModelsByClock {
  explicit ModelsByClock(TestJob& job) : job_(job) {
    job.after_event = [this] { look(); };
  }
  void look() {
    for (Rank rank = 0; rank < Rank(5); ++rank)
      models[{job_.node(rank).strategy().rounds_done(), rank}] = job_.params(rank);
  }
  std::map<std::pair<Round, Rank>, std::vector<float>> models;

 private:
  TestJob& job_;
};

TEST(SfbPartial, TakesTheMeanOfTheGradientsThatAWorkerHas) {
  constexpr Round kClocks = longhaul::testing::kGate ? 7 : 11;
  for (const std::uint32_t peers : {1u, 2u, 4u}) {
    TestJob::Config config = partial_job(5, peers, 4, kClocks);
    for (std::uint32_t k = 0; k < 5; ++k) {
      config.learners[k].momentum = 0;
      config.learners[k].samples = 1 + k;
    }
    config.takes = [](Rank rank) { return int(rank * 7 % 5) * 3; };
    TestJob job(config);
    ModelsByClock seen(job);
    job.run();
    ASSERT_TRUE(job.failures.empty()) << job.failures.begin()->second;
    const auto expected = models_by_hand(config, peers, 4);
    for (Round clock = 0; clock < kClocks; ++clock)
      for (Rank rank = 0; rank < 5; ++rank)
        for (std::size_t i = 0; i < kFactorsAlone; ++i)
          EXPECT_NEAR((seen.models[{clock + 1, rank}][i]), expected[clock][rank][i], 1e-4)
              << "clock " << clock << " rank " << rank;
  }
}

// The most that an element differs between two workers after a clock.
double apart_after(Round clock, const ModelsByClock& seen) {
  double most = 0;
  const std::vector<float>& first = seen.models.at({clock, 0});
  for (Rank rank = 1; rank < 5; ++rank)
    for (std::size_t i = 0; i < first.size(); ++i)
      most = std::max(most, std::abs(double(seen.models.at({clock, rank})[i]) - double(first[i])));
  return most;
}

TEST(SfbPartial, MeansMakeModelsEqualAndKeepThemTogether) {
  double most_of_rare = 0, most_of_frequent = 0;
  for (const std::int64_t mean_every : {3, 12}) {
    TestJob job(partial_job(5, 1, mean_every, 24));
    ModelsByClock seen(job);
    job.run();
    ASSERT_TRUE(job.failures.empty()) << job.failures.begin()->second;
    double& most = mean_every == 3 ? most_of_frequent : most_of_rare;
    for (Round clock = 1; clock <= 24; ++clock) {
      const double apart = apart_after(clock, seen);
      if (clock % Round(mean_every) == 0)
        EXPECT_EQ(apart, 0) << clock;
      else
        EXPECT_GT(apart, 0) << clock;
      most = std::max(most, apart);
    }
  }
  EXPECT_LT(most_of_frequent, most_of_rare);
}

TEST(SfbPartial, TheRunEndsWithAMean) {
  auto job = TestJob::ended(partial_job(4, 1, 50, 7));
  EXPECT_TRUE(job.failures.empty());
  for (Rank rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(job.finished[rank], 1);
    EXPECT_EQ(job.params(rank), job.params(0));
  }
}

// A worker waits for those alone who send to it: others may be further behind, by a cycle.
TEST(SfbPartial, AWorkerWaitsForThoseWhoSendToIt) {
  for (const std::int64_t peers : {1, 2}) {
    TestJob::Config config = partial_job(7, peers, 100, longhaul::testing::kGate ? 16 : 40);
    config.takes = [](Rank rank) { return rank != 2 ? 0 : longhaul::testing::kGate ? 200 : 400; };
    TestJob job(config);
    Round most = 0;
    job.after_event = [&] {
      Round low = ~Round(0), high = 0;
      for (Rank rank = 0; rank < 7; ++rank) {
        low = std::min(low, job.node(rank).strategy().rounds_done());
        high = std::max(high, job.node(rank).strategy().rounds_done());
      }
      most = std::max(most, high - low);
    };
    job.run(1000000);
    expect_no_errors(job);
    EXPECT_LE(most, sfb::partial_cycle(std::uint32_t(peers), 7) + 1);
    EXPECT_GE(most, 2u);
  }
}

TEST(SfbPartial, IsTheSameAfterSavingAndLoading) {
  EXPECT_EQ(testing::changed_by_saving(partial_job(3, 1, 2, 5)), "");
  TestJob::Config beside = sfb_job(4, testing::wait_free(factors_by("partial")), 4, true);
  beside.settings.push_back({"mean_every", {std::int64_t(3)}});
  for (auto& learner : beside.learners) learner.buffers = 0;
  EXPECT_EQ(testing::changed_by_saving(beside), "");
}

TEST(SfbPartial, SurvivesTheLossOfAWorkerAtAnyMoment) {
  for (const std::int64_t peers : {1, 3}) {
    TestJob::Config config = partial_job(5, peers, 3, 8);
    config.takes = [](Rank rank) { return int(rank * 7 % 5) * 9; };
    SCOPED_TRACE(peers);
    testing::expect_equal_survivors(config);
  }
}

}  // namespace
}  // namespace longhaul::sync

// Invariants:
//  1  T = 0, DS = 0: acc = 0 after each clock; the model is the sum in rank order.
//  2  b at a clock is bit-identical; the final model is start plus all moves; gaia/base_test.cpp.
//     With losses and returns, over links in virtual time: tests/gaia_test.cpp.
//  3  After the filter |acc| <= T |w|; acc = 0 where w = 0; gaia/filter_test.cpp.
//  4  No site starts a clock over `staleness` ahead.
//  5  A site that moves nothing sends nothing.
//  6  Never more bytes than dense; goldens of the forms: gaia/encoding_test.cpp.
//  7-9 Goldens of filter, accumulation, inv_sqrt: gaia/filter_test.cpp, gaia/threshold_test.cpp.
// 10  Each update reaches each replica once, also after a death: gaia/routes_test.cpp.
// 11  A step waits only for announced parameters that it reads: gaia/blocked_test.cpp,
//     tests/gaia_test.cpp.
// 12  Bytes and losses on the Dermatology data: bench/gaia_derm.py.
// 13  Ties of the forms, bitmap size, ramp: gaia/encoding_test.cpp, gaia/threshold_test.cpp.
// Staleness 0 is bit-identical in the simulator and over sockets: tests/cli/launch_test.py.
#include "longhaul/sync/gaia.h"

#include <cmath>

#include <gtest/gtest.h>

#include "longhaul/base/testing/effort.h"
#include "longhaul/base/testing/result.h"
#include "longhaul/sync/testing/gaia_job.h"

namespace longhaul::sync {
namespace {

using testing::gaia_at;
using testing::gaia_job;
using testing::gaia_settings;
using testing::kGaiaExchanges;
using testing::Quadratic;
using testing::TestJob;

// Invariant 1: T = 0, DS = 0 and the sum are bsp that adds updates in the order of ranks.
TEST(Gaia, WithoutThresholdInLockStepIsASumOfAllUpdates) {
  constexpr std::uint32_t kSites = 4;
  TestJob::Config config = gaia_job(kSites, gaia_settings(0, 0), 9);
  config.settings.push_back({"scale", {1.0}});
  config.takes = [](Rank rank) { return int(rank * 5 % 3) * 4; };
  for (auto& learner : config.learners) learner.rate = 0.03f, learner.buffers = 0;
  TestJob job(config);
  job.after_event = [&] {
    for (Rank rank = 0; rank < kSites; ++rank)
      for (const float left : gaia_at(job, rank).unsent()) ASSERT_EQ(left, 0);
  };
  job.run();
  expect_ended_alike(job, 9);
  std::vector<float> x(8, 10);
  std::vector<std::unique_ptr<Quadratic>> sites;
  for (const auto& learner : config.learners)
    sites.push_back(std::make_unique<Quadratic>(8, learner));
  for (int round = 0; round < 9; ++round) {
    std::vector<double> sum(x.begin(), x.end());
    for (auto& site : sites) {
      std::ranges::copy(x, site->params().begin());
      ASSERT_TRUE(site->step(LocalStep{}));
      for (std::size_t i = 0; i < x.size(); ++i)
        sum[i] += double(float(double(site->params()[i]) - double(x[i])));
    }
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = float(sum[i]);
  }
  EXPECT_EQ(job.params(0), x);
}

// Invariant 2, first half: the bits of b at a clock, and w at any time.
TEST(Gaia, BaseHasTheSameBitsOnAllSitesAtEqualClocks) {
  for (const std::int64_t DS : {0, 3}) {
    TestJob::Config config = gaia_job(4, gaia_settings(0.05, DS), 15);
    config.takes = [](Rank rank) { return int(rank * 5 % 7) * 4; };
    TestJob job(config);
    std::map<Round, std::vector<float>> known;
    job.after_event = [&] {
      for (Rank rank = 0; rank < 4; ++rank) {
        const Gaia& site = gaia_at(job, rank);
        if (site.base().b().empty()) continue;
        const auto seen = known.try_emplace(site.base().clock(), site.base().b()).first;
        ASSERT_EQ(site.base().b(), seen->second) << rank;
      }
    };
    job.run();
    expect_ended_alike(job, 15);
    EXPECT_EQ(known.size(), 17u) << "the start, 15 clocks and what was left";
    EXPECT_NE(known[3], known[4]);
  }
}

// Invariant 3, last part: a range that is sent as a whole leaves nothing behind.
TEST(Gaia, ADenseRangeLeavesNothing) {
  // In the first clock 63 of 64 values are significant, or 51.
  for (const double T0 : {0.0001, 0.002}) {
    TestJob::Config config = gaia_job(1, gaia_settings(T0, 0), 3);
    config.size = 64;
    config.learners = {{.slope = 9.95f / 63, .rate = 0.01f, .buffers = 0}};
    TestJob job(config);
    std::size_t left = 0;
    job.after_event = [&] {
      const Gaia& site = gaia_at(job, 0);
      if (site.told() == 1) left = 64 - std::size_t(std::ranges::count(site.unsent(), 0.0f));
    };
    job.run();
    expect_ended_alike(job, 3);
    EXPECT_EQ(left, T0 < 0.001 ? 0u : 13u);
    EXPECT_NEAR(job.records.at({0, "sent_share"})[0].second, T0 < 0.001 ? 1 : 51.0 / 64, 1e-9);
  }
}

// Invariant 4
TEST(Gaia, NoSiteIsMoreThanDSClocksAhead) {
  constexpr Round kRounds = longhaul::testing::kGate ? 8 : 12;
  for (const std::int64_t DS : {0, 1, 3}) {
    for (const char* exchange : kGaiaExchanges) {
      SCOPED_TRACE(std::string(exchange) + " " + std::to_string(DS));
      TestJob::Config config = gaia_job(5, gaia_settings(0.02, DS, exchange), kRounds);
      config.takes = [](Rank rank) { return rank != 2 ? 1 : longhaul::testing::kGate ? 150 : 300; };
      TestJob job(config);
      Round lead = 0;
      job.after_event = [&] {
        Round least = ~Round(0), most = 0;
        for (Rank rank = 0; rank < 5; ++rank) {
          least = std::min(least, gaia_at(job, rank).told());
          most = std::max(most, gaia_at(job, rank).told());
        }
        lead = std::max(lead, most - least);
      };
      job.run();
      expect_ended_alike(job, kRounds);
      // A site that began its clock at most DS ahead has one more when it is done. Verdicts on
      // every third round hold the others back, too.
      EXPECT_LE(lead, Round(DS) + 1);
      if (DS < 3) EXPECT_EQ(lead, Round(DS) + 1);
    }
  }
}

// What is left at a clock is sent later; after a clock that flushes nothing is left.
TEST(Gaia, AClockThatFlushesLeavesNothing) {
  TestJob::Config config = gaia_job(3, gaia_settings(0.5, 0), 8);
  config.settings.push_back({"threshold", {std::string("const")}});
  config.settings.push_back({"flush_every", {std::int64_t(4)}});
  TestJob job(config);
  std::map<Round, bool> has_left;
  job.after_event = [&] {
    const Gaia& site = gaia_at(job, 0);
    for (const float left : site.unsent()) has_left[site.told()] |= left != 0;
  };
  job.run();
  expect_ended_alike(job, 8);
  EXPECT_FALSE(has_left[4]);
  EXPECT_FALSE(has_left[8]);
  EXPECT_TRUE(has_left[2]);
  EXPECT_TRUE(has_left[6]);
}

TEST(Gaia, AClockHasItsLocalSteps) {
  TestJob::Config config = gaia_job(3, gaia_settings(0.05, 1), 6);
  config.settings.push_back({"steps", {std::int64_t(2)}});
  auto job = TestJob::ended(config);
  expect_ended_alike(job, 6);
  for (Rank rank = 0; rank < 3; ++rank) EXPECT_EQ(job.steps[rank], 12u);
}

// Every update is announced, and every step reads all parameters.
TEST(Gaia, WithTheBarrierOnItEndsAndSavesAsWithout) {
  constexpr Round kRounds = longhaul::testing::kGate ? 5 : 12;
  constexpr std::uint32_t kSites = longhaul::testing::kGate ? 4 : 5;
  for (const char* exchange : kGaiaExchanges) {
    TestJob::Config config = gaia_job(kSites, gaia_settings(0.02, 2, exchange), kRounds);
    config.settings.push_back({"barrier", {std::string("on")}});
    config.settings.push_back({"barrier_ms", {0.0}});
    config.takes = [](Rank rank) { return int(rank * 5 % 7) * 4; };
    auto job = TestJob::ended(config);
    expect_ended_alike(job, kRounds);
    EXPECT_FALSE(job.records[(std::pair<Rank, std::string>(0, "announced"))].empty());
    config.stop.max_rounds = 2;
    EXPECT_EQ(testing::changed_by_saving(config), "") << exchange;
  }
}

TEST(Gaia, EndsWithTheRoundInWhichTheReporterHasCountedEnough) {
  TestJob::Config config = gaia_job(4, gaia_settings(0.05, 0), 1000);
  config.stop = {.max_rounds = 1000, .max_samples = 30, .report_every = 2, .lag = 1};
  auto job = TestJob::ended(config);
  // 4 in a round: 32 after round 7, which is reported; it takes effect a round later.
  expect_ended_alike(job, 9);
}

TEST(Gaia, BadSettingsAreRefusedWithTheKey) {
  const auto why = [](std::vector<Setting> settings) {
    Place place;
    place.members = std::make_shared<const Members>(Members{{"a"}, {"b"}});
    place.layout = Layout::flat(4);
    const Settings table{"sync", "job.toml", 1, std::move(settings)};
    Gaia::Config config;
    Status status = read_settings(table, config);
    if (status) status = Gaia::check(config, place);
    return status ? std::string() : status.error().what;
  };
  EXPECT_EQ(why({}), "");
  EXPECT_TRUE(says(why({{"exchange", {std::string("ring")}}}), "exchange"));
  EXPECT_TRUE(says(why({{"threshold", {std::string("ramp")}}, {"significance", {0.5}}}),
                   "max_significance"));
  EXPECT_TRUE(
      says(why({{"threshold", {std::string("list")}}, {"list", {std::vector<Value>{}}}}), "list"));
}

TEST(Gaia, AllExchangesAndSchedulesEndWithOneModelNearTheOptimum) {
  constexpr Round kRounds = longhaul::testing::kGate ? 22 : 40;
  std::size_t number = 0;
  for (const char* exchange : kGaiaExchanges) {
    for (const char* schedule : {"inv_sqrt", "rate", "const", "list", "ramp", "bandwidth"}) {
      if (longhaul::testing::kStride > 1 && number++ % 7 != 0) continue;
      SCOPED_TRACE(std::string(exchange) + " " + schedule);
      TestJob::Config config = gaia_job(6, gaia_settings(0.01, 1, exchange), kRounds);
      config.settings.push_back({"threshold", {std::string(schedule)}});
      config.settings.push_back({"flush_every", {std::int64_t(7)}});
      auto job = TestJob::ended(config);
      expect_ended_alike(job, kRounds);
      double mean = 0;
      for (Rank rank = 0; rank < 6; ++rank) mean += double(rank * rank) / 6;
      EXPECT_NEAR(job.params(0)[0], mean, 0.5);
      // Buffers grow by 1 + k^2 in each step of rank k; their mean is kept.
      EXPECT_NEAR(job.params(0)[7], double(kRounds) * (1 + mean), 1e-2);
    }
  }
}

TEST(Gaia, SavingAndLoadingAfterEveryEventEqualsGoingOn) {
  for (const char* exchange : kGaiaExchanges) {
    TestJob::Config config = gaia_job(4, gaia_settings(0.05, 1, exchange), 2);
    config.takes = [](Rank rank) { return int(rank) * 3; };
    EXPECT_EQ(testing::changed_by_saving(config), "") << exchange;
  }
}

// What sites of gaia tell each other, and what comes of it when some are lost.

// Invariant 5
TEST(Gaia, WhatCameIsNotSentBack) {
  TestJob::Config config = gaia_job(2, gaia_settings(0, 1), 6);
  config.learners[1].rate = 0;
  TestJob job(config);
  job.after_event = [&] {
    for (const float left : gaia_at(job, 1).unsent()) ASSERT_EQ(left, 0);
  };
  job.run();
  expect_ended_alike(job, 6);
  for (const auto& [round, share] : job.records.at({1, "sent_share"})) EXPECT_EQ(share, 0);
  for (const auto& [round, share] : job.records.at({0, "sent_share"})) EXPECT_GT(share, 0);
  EXPECT_LT(job.params(1)[1], 10);
}

// Watches a job from outside. Each site's steps are repeated on a learner beside it: b at the end
// is the start and all that the live sites have moved, and of each lost one what it had moved and
// sent up to some clock.
class Conservation {
 public:
  Conservation(TestJob& job, const TestJob::Config& config) : job_(job), config_(config) {
    for (Rank rank = 0; rank < config.learners.size(); ++rank) {
      shadows_.push_back(std::make_unique<Quadratic>(config.size, config.learners[rank]));
      before_.push_back(job.params(rank));
      sites_.emplace_back();
    }
  }

  void watch(const std::set<Rank>& lost) {
    for (Rank rank = 0; rank < sites_.size(); ++rank) {
      if (lost.contains(rank)) continue;
      const Gaia& site = gaia_at(job_, rank);
      Site& seen = sites_[rank];
      const std::size_t n = site.unsent().size();
      if (n == 0) continue;  // it has not started
      seen.moved.resize(n);
      if (job_.steps[rank] > seen.steps) {  // steps count in the event that ends them
        ++seen.steps;
        Quadratic& shadow = *shadows_[rank];
        std::ranges::copy(before_[rank], shadow.params().begin());
        LH_CHECK(shadow.step(LocalStep{}));
        for (std::size_t i = 0; i < n; ++i)
          seen.moved[i] += double(shadow.params()[i]) - double(before_[rank][i]);
      }
      // Up to the newest clock that was sent, at the end also what had been left.
      if (const auto told = seen.sent.try_emplace(site.told(), seen.moved); told.second)
        for (std::size_t i = 0; i < n; ++i) told.first->second[i] -= double(site.unsent()[i]);
      before_[rank] = job_.params(rank);
    }
  }

  // Of the final model: "" or by how much it is off.
  std::string check(Rank live, const std::set<Rank>& lost) const {
    const std::vector<float>& b = gaia_at(job_, live).base().b();
    std::vector<double> rest(b.size());
    for (std::size_t i = 0; i < rest.size(); ++i) {
      rest[i] = double(b[i]) - double(config_.learners[0].start);
      for (Rank rank = 0; rank < sites_.size(); ++rank)
        if (!lost.contains(rank)) rest[i] -= sites_[rank].moved[i];
    }
    return explained(rest, {lost.begin(), lost.end()}) ? "" : "off by " + std::to_string(rest[0]);
  }

 private:
  struct Site {
    std::uint64_t steps = 0;
    std::vector<double> moved;
    std::map<Round, std::vector<double>> sent;  // up to a clock
  };
  bool explained(const std::vector<double>& rest, std::vector<Rank> lost) const {
    if (lost.empty())
      return std::ranges::all_of(rest, [](double left) { return std::abs(left) < 2e-4; });
    const Site& site = sites_[lost.back()];
    lost.pop_back();
    if (explained(rest, lost)) return true;
    return std::ranges::any_of(site.sent, [&](const auto& one) {
      std::vector<double> less = rest;
      for (std::size_t i = 0; i < less.size(); ++i) less[i] -= one.second[i];
      return explained(less, lost);
    });
  }

  TestJob& job_;
  const TestJob::Config config_;
  std::vector<std::unique_ptr<Quadratic>> shadows_;
  std::vector<std::vector<float>> before_;
  std::vector<Site> sites_;
};

// Invariant 2, with losses: nothing of a live site is lost or counted twice.
void expect_conserved(std::uint64_t seed) {
  Random random(seed, {});
  const auto n = std::uint32_t(3 + random.below(5));
  const std::string exchange = kGaiaExchanges[seed % 3];
  const Round rounds = 6 + random.below(6);
  TestJob::Config config = gaia_job(
      n, gaia_settings(0.1 * random.uniform(), std::int64_t(random.below(4)), exchange), rounds);
  config.settings.push_back({"scale", {1.0}});
  for (auto& learner : config.learners) learner.rate = 0.2f / float(n), learner.buffers = 0;
  std::vector<int> takes;
  for (Rank rank = 0; rank < n; ++rank) takes.push_back(int(random.below(60)));
  config.takes = [takes](Rank rank) { return takes[rank]; };
  SCOPED_TRACE("seed " + std::to_string(seed) + ", " + exchange + " of " + std::to_string(n));
  const Rank first = Rank(random.below(n)), second = Rank((first + 1 + random.below(n - 1)) % n);
  const std::uint64_t at = 1 + random.below(60 * n);
  const std::uint64_t then = at + 1 + random.below(seed % 2 ? 15 : 200);
  const bool both = n > 4;  // a majority of the view is left
  TestJob job(config);
  Conservation conservation(job, config);
  std::set<Rank> lost;
  std::uint64_t events = 0;
  job.after_event = [&] {
    conservation.watch(lost);
    ++events;
    const auto lose = [&](Rank rank) {
      if (job.finished.empty() && lost.insert(rank).second) job.crash(rank);
    };
    if (events == at) lose(first);
    if (events == then && both) lose(second);
  };
  job.run();
  expect_ended_alike(job, rounds);
  EXPECT_EQ(conservation.check(job.live()[0], lost), "");
}

// A peer that claims a base which cannot be, as its clock has no update of the receiver.
TEST(Gaia, ABaseOfAClockThatCannotBeCompleteIsRefused) {
  TestJob::Config config = gaia_job(4, gaia_settings(0.05, 1), 8);
  TestJob job(config);
  std::uint64_t events = 0;
  std::string refused;
  job.after_event = [&] {
    if (++events == 40) job.crash(3);
    if (gaia_at(job, 0).is_settled() || !refused.empty() || events < 40) return;
    Message message;
    message.machine = Path().child(2);  // the strategy
    message.kind = gaia::BaseClock::kKind;
    message.head = Payload(share(to_wire(gaia::BaseClock{.epoch = 1, .clock = 1000})));
    const Status status = job.node(0).deliver(Time{0}, 1, message);
    ASSERT_FALSE(status);
    refused = status.error().what;
  };
  job.run();
  EXPECT_TRUE(says(refused, "clock 1000 where this site has sent"));
  expect_ended_alike(job, 8);
}

TEST(Gaia, NothingIsLostOrCountedTwiceWhoeverIsLostWhen) {
  constexpr std::uint64_t kEvery = longhaul::testing::kGate         ? 7
                                   : longhaul::testing::kStride > 1 ? 4
                                                                    : 1;
  for (std::uint64_t seed = 0; seed < 40; seed += kEvery) expect_conserved(seed);
}
TEST(GaiaNightly, NothingIsLostOrCountedTwiceWhoeverIsLostWhen) {
  for (std::uint64_t seed = 40; seed < 1040; ++seed) expect_conserved(seed);
}

}  // namespace
}  // namespace longhaul::sync

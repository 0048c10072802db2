// Invariants:
//  3  No site hosts itself, each hosts one, all pairs meet: skewscout/tally_test.cpp.
//  4  AL is 0 for equal scores and never negative; C = 1 for the bytes of bsp:
//     skewscout/tally_test.cpp.
//  5  A visitor leaves no trace; a grid of one value is the strategy alone.
//  6, 7  Goldens of the objective and of the search: skewscout/search_test.cpp.
//  8  Order and duplicates of reports change nothing: skewscout/tally_test.cpp.
//  9  fedavg's rounds join sites with equal steps.
// 10  Similar data loosen, different data tighten.
#include "longhaul/sync/skewscout.h"

#include <gtest/gtest.h>

#include "longhaul/base/testing/effort.h"
#include "longhaul/base/testing/result.h"
#include "longhaul/sync/testing/test_job.h"

namespace longhaul::sync {
namespace {

using testing::TestJob;

std::vector<Setting> scout_settings(std::string strategy, std::vector<double> grid,
                                    std::vector<std::string> with = {}) {
  std::vector<Value> values, settings;
  for (const double value : grid) values.push_back({value});
  for (std::string& text : with) settings.push_back({std::move(text)});
  return {{"strategy", {std::move(strategy)}},
          {"grid", {std::move(values)}},
          {"with", {std::move(settings)}},
          {"travel_every", {std::int64_t(4)}},
          {"announce", {std::int64_t(1)}}};
}

TestJob::Config scout_job(std::uint32_t n, std::string sync, std::vector<Setting> settings,
                          Round rounds) {
  return {.sync = std::move(sync),
          .settings = std::move(settings),
          .learners = testing::learners(n, {.slope = 0.3f, .rate = 0.1f, .buffers = 2}),
          .stop = {.max_rounds = rounds, .report_every = 3}};
}

const SkewScout& scout_at(TestJob& job, Rank rank) {
  return dynamic_cast<const SkewScout&>(job.node(rank).strategy());
}

// Invariant 5: visitors leave no trace.
TEST(SkewScout, WithOneValueInTheGridTheModelIsThatOfTheStrategyAlone) {
  auto alone = TestJob::ended(
      scout_job(4, "gaia", {{"significance", {0.05}}, {"staleness", {std::int64_t(0)}}}, 20));
  auto scouted = TestJob::ended(
      scout_job(4, "skewscout", scout_settings("gaia", {0.05}, {"staleness = 0"}), 20));
  expect_ended_alike(scouted, 20);
  EXPECT_EQ(scouted.params(2), alone.params(2));
  EXPECT_GE(scout_at(scouted, 0).travels_done(), 4u);

  auto fedavg = TestJob::ended(scout_job(3, "fedavg", {{"steps", {std::int64_t(3)}}}, 6));
  auto tuned = TestJob::ended(scout_job(3, "skewscout", scout_settings("fedavg", {3}), 6));
  expect_ended_alike(tuned, 6);
  EXPECT_EQ(tuned.params(1), fedavg.params(1));
}

// Learners with one target: no model is worse abroad.
TEST(SkewScout, LoosensWhereDataAreAlikeAndTightensWhereTheyAreNot) {
  constexpr Round kRounds = longhaul::testing::kGate ? 24 : 40;
  for (const bool alike : {true, false}) {
    for (const char* strategy : {"gaia", "fedavg"}) {
      SCOPED_TRACE(std::string(strategy) + (alike ? ", alike" : ", skewed"));
      const bool is_gaia = std::string(strategy) == "gaia";
      auto settings = scout_settings(
          strategy, is_gaia ? std::vector<double>{0.001, 0.01, 0.1} : std::vector<double>{1, 2, 4});
      settings.push_back({"start", {std::int64_t(1)}});
      TestJob::Config config = scout_job(4, "skewscout", settings, kRounds);
      if (alike)
        for (auto& learner : config.learners) learner = config.learners[0];
      auto job = TestJob::ended(config);
      expect_ended_alike(job, kRounds);
      for (Rank rank = 0; rank < 4; ++rank)
        EXPECT_EQ(scout_at(job, rank).index(), alike ? 2u : 0u) << rank;
      const auto& losses = job.records.at({0, "accuracy_loss"});
      ASSERT_FALSE(losses.empty());
      for (const auto& [travel, loss] : losses) {
        EXPECT_LT(std::abs(loss), alike ? 1e-2 : 10) << travel;
        EXPECT_GT(loss, alike ? -1e-2 : 0.03) << travel;
      }
    }
  }
}

// All models get worse alike, by steps that are too long: nobody's is worse abroad than at home.
TEST(SkewScout, TightensWhereAllModelsGetWorseUnlessItIsToDoAsPublished) {
  for (const bool watches : {true, false}) {
    auto settings = scout_settings("fedavg", {1, 2, 4});
    settings.push_back({"start", {std::int64_t(1)}});
    settings.push_back({"watch_home", {watches}});
    TestJob::Config config = scout_job(4, "skewscout", settings, 30);
    for (auto& learner : config.learners) learner = {.slope = 0, .start = 0.5f, .rate = 2.05f};
    auto job = TestJob::ended(config);
    EXPECT_EQ(scout_at(job, 2).index(), watches ? 0u : 2u);
    const auto& home = job.records.at({0, "home_accuracy"});
    ASSERT_GT(home.size(), 2u);
    EXPECT_LT(home.back().second, home.front().second - 0.05);
    for (const auto& [travel, loss] : job.records.at({0, "accuracy_loss"})) EXPECT_EQ(loss, 0);
  }
}

// Invariant 9
TEST(SkewScout, AllRoundsOfFedavgJoinSitesWithAsManySteps) {
  TestJob::Config config = scout_job(5, "skewscout", scout_settings("fedavg", {1, 2, 3, 5}), 30);
  for (auto& learner : config.learners) learner = config.learners[0];
  config.takes = [](Rank rank) { return int(rank) * 7; };
  TestJob job(config);
  std::map<Round, std::set<std::uint64_t>> steps;  // of a site that has done so many rounds
  std::map<Rank, Round> before;
  job.after_event = [&] {
    for (Rank rank = 0; rank < 5; ++rank) {
      const Round done = job.node(rank).strategy().rounds_done();
      if (std::exchange(before[rank], done) != done)
        steps[done].insert(scout_at(job, rank).steps());
    }
  };
  job.run();
  expect_ended_alike(job, 30);
  std::set<std::uint64_t> different;
  for (const auto& [round, of] : steps) {
    EXPECT_EQ(of.size(), 1u) << round;
    different.insert(*of.begin());
  }
  EXPECT_EQ(scout_at(job, 3).index(), 3u) << "the number of steps has changed on the way";
}

// The travel is void; the next live site is the scout.
TEST(SkewScout, TravelsGoOnWhoeverIsLostWhen) {
  constexpr bool kGate = longhaul::testing::kGate;
  std::uint64_t number = 0;
  for (const char* strategy : {"gaia", "fedavg"}) {
    for (const Rank lost : {0u, 2u}) {
      for (std::uint64_t at = 20 + (kGate ? 40 * number++ : 0); at < 260; at += kGate ? 240 : 40) {
        SCOPED_TRACE(std::string(strategy) + ", rank " + std::to_string(lost) + " at " +
                     std::to_string(at));
        TestJob::Config config = scout_job(4, "skewscout", scout_settings(strategy, {2, 3}), 30);
        config.takes = [](Rank rank) { return int(rank) * 5; };
        TestJob job(config);
        job.crash_at(at, lost);
        job.run();
        expect_ended_alike(job, 30);
        const SkewScout& first = scout_at(job, job.live()[0]);
        EXPECT_GE(first.travels_done(), 4u);
        for (const Rank rank : job.live()) EXPECT_EQ(scout_at(job, rank).index(), first.index());
      }
    }
  }
}

// In the new view the scout may be in the middle of a round of many steps that others have
// computed: all begin the next travel at one step, or one would wait for scores of sites that wait
// for it.
TEST(SkewScout, AllTravelAtOneStepAfterALossInARoundOfManySteps) {
  for (std::uint64_t at = 10; at < 290; at += longhaul::testing::kGate ? 61 : 7) {
    SCOPED_TRACE(at);
    auto settings = scout_settings("fedavg", {9, 10});
    for (Setting& setting : settings)
      if (setting.key == "announce") setting.value = {std::int64_t{1}};
    TestJob::Config config = scout_job(4, "skewscout", settings, 8);
    config.takes = [](Rank rank) { return rank == 0 ? 60 : int(rank); };
    TestJob job(config);
    job.crash_at(at, 2);
    job.run();
    expect_ended_alike(job, 8);
  }
}

TEST(SkewScout, BadSettingsAreRefusedWithTheKey) {
  const auto why = [](std::vector<Setting> settings) {
    Place place;
    place.members = std::make_shared<const Members>(Members{{"a"}, {"b"}});
    place.layout = Layout::flat(4);
    const auto made = SkewScout::make({"sync", "job.toml", 1, std::move(settings)}, {}, place);
    return made ? std::string() : made.error().what;
  };
  const auto with = [](const char* text) { return Value{std::vector<Value>{{std::string(text)}}}; };
  EXPECT_TRUE(says(why({{"strategy", {std::string("bsp")}}}), "strategy"));
  EXPECT_TRUE(says(why({{"start", {std::int64_t(7)}}}), "[sync] start"));
  EXPECT_TRUE(says(why({{"with", with("significance = 0.1")}}), "grid"));
  EXPECT_TRUE(says(why({{"with", with("staleness")}}), "key = value"));
  EXPECT_TRUE(says(why({{"strategy", {std::string("fedavg")}}, {"with", with("fraction = 0.5")}}),
                   "fraction = 1"));
  EXPECT_TRUE(
      says(why({{"strategy", {std::string("fedavg")}}, {"grid", {std::vector<Value>{{0.5}}}}}),
           "[sync] grid"));
}

TEST(SkewScout, SavingAndLoadingAfterEveryEventEqualsGoingOn) {
  for (const char* strategy : {"gaia", "fedavg"}) {
    TestJob::Config config = scout_job(3, "skewscout", scout_settings(strategy, {1, 2}), 5);
    config.takes = [](Rank rank) { return int(rank) * 3; };
    EXPECT_EQ(testing::changed_by_saving(config), "") << strategy;
  }
}

}  // namespace
}  // namespace longhaul::sync

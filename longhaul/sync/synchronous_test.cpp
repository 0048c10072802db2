// What the rounds of all synchronous strategies have in common, with an overlay whose outcomes come
// when the test says so.
#include "longhaul/sync/synchronous.h"

#include <gtest/gtest.h>

#include "longhaul/sync/testing/hand_made.h"

namespace longhaul::sync {
namespace {

using testing::Floats;
using testing::HandMadeNode;
using testing::HandMadeOverlay;
using testing::Probe;
using testing::Quadratic;

constexpr VectorId kMean{0, 0, 0}, kExtras{0, 0, 1};

// Values 0 and 1 are parameters, 2 is a buffer, if there is one.
struct SynchronousTest : ::testing::Test {
  void make(StopConfig stop = {.max_rounds = 3, .report_every = 1000}, bool stands_by = false,
            std::uint64_t buffers = 1, Members members = {{"oregon"}}) {
    node_ = std::make_unique<HandMadeNode>(2 + buffers,
                                           Quadratic::Config{.start = 8, .buffers = buffers},
                                           std::move(members), 0, stop, Probe::maker(stands_by));
    overlay_ = node_->overlay;
  }
  Probe& probe() { return dynamic_cast<Probe&>(*node_->strategy); }
  void computed(Computed c) {
    probe().on_computed(c, node_->turn);
    node_->progress();
  }
  void outcome(VectorId key, Floats values, double weight = 2, std::vector<Rank> counted = {0}) {
    overlay_->outcomes[key] = {std::move(values), weight, std::move(counted), {}};
    node_->progress();
  }
  void save_and_load() {
    node_->save_and_load();
    overlay_ = node_->overlay;
  }

  std::unique_ptr<HandMadeNode> node_;
  HandMadeOverlay* overlay_ = nullptr;
};

// Half a round is none: the buffers of one round never meet the parameters of another. What was
// polled is held, also over a checkpoint, for nobody gives it again.
TEST_F(SynchronousTest, ARoundEndsWhenBothMeansAreHereInEitherOrder) {
  for (const bool parameters_first : {true, false}) {
    make();
    node_->start();
    computed({.samples = 4});
    ASSERT_EQ(overlay_->begun.size(), 2u);
    EXPECT_EQ(probe().waiting_for(), "the test");
    const Floats values[] = {{1, 2}, {30}};
    outcome(parameters_first ? kMean : kExtras, values[parameters_first ? 0 : 1]);
    node_->progress();
    EXPECT_EQ(probe().rounds_done(), 0u);
    save_and_load();
    EXPECT_EQ(node_->params()[2], 0) << "buffers wait for the parameters";
    outcome(parameters_first ? kExtras : kMean, values[parameters_first ? 1 : 0]);
    ASSERT_EQ(probe().rounds_done(), 1u);
    EXPECT_EQ(probe().means, (std::vector<Floats>{{1, 2}}));
    EXPECT_EQ(probe().seen, (std::vector<Floats>{{8, 8, 30}})) << "buffers are there already";
  }
}

TEST_F(SynchronousTest, BuffersTravelAsExactValuesOfTheSameWeight) {
  make();
  node_->start();
  computed({.loss = 0.5, .samples = 4});
  const auto &mean = overlay_->begun.at(kMean), &extras = overlay_->begun.at(kExtras);
  EXPECT_EQ(mean.values, (Floats{8, 8}));
  EXPECT_FALSE(mean.exact);
  EXPECT_EQ(extras.values, Floats(1));
  EXPECT_TRUE(extras.exact);
  for (const auto& [key, one] : overlay_->begun) {
    EXPECT_EQ(one.weight, 2);
    EXPECT_EQ(one.length, one.values.size());
    EXPECT_TRUE(one.contributes);
  }
  EXPECT_EQ(mean.loss, 0.5);
  EXPECT_EQ(extras.loss, std::nullopt) << "said once a round";
}

// All who would have brought something were lost.
TEST_F(SynchronousTest, AnEmptyRoundIsARoundAndLeavesTheModel) {
  make({.max_rounds = 1, .report_every = 1000}, /*stands_by=*/true);
  node_->start();
  ASSERT_EQ(overlay_->begun.size(), 2u);
  for (const auto& [key, one] : overlay_->begun)
    EXPECT_TRUE(!one.contributes && one.values.empty() && one.length > 0);
  outcome(kMean, {}, 0, {});
  outcome(kExtras, {}, 0, {});
  EXPECT_EQ(node_->all(), (Floats{8, 8, 0}));
  EXPECT_TRUE(probe().means.empty());
  EXPECT_EQ(probe().rounds_done(), 1u);
  EXPECT_EQ(node_->done<Finish>().size(), 1u);
  node_->progress();
  EXPECT_EQ(node_->done<Finish>().size(), 1u);
}

TEST_F(SynchronousTest, ARunBeginsOnce) {
  make({.max_rounds = 3, .report_every = 1000}, false, /*buffers=*/0);
  node_->start();
  EXPECT_EQ(probe().runs, 1);
  for (Round round = 0; round < 3; ++round) {
    EXPECT_EQ(probe().rounds, int(round) + 1);
    computed({.samples = 1});
    outcome({round, 0, 0}, {1, 1});
  }
  EXPECT_EQ(probe().runs, 1);
  EXPECT_EQ(probe().rounds, 3);
  EXPECT_EQ(overlay_->begun.size(), 3u) << "no buffers, nothing exact to exchange";
  EXPECT_EQ(node_->done<Finish>().size(), 1u);
}

// The next round starts when it is known that there is one, not before.
TEST_F(SynchronousTest, AVerdictThatIsDueIsAwaited) {
  make({.target_accuracy = 0.9, .max_rounds = 100, .lag = 0}, false, 0);
  node_->start();
  computed({.samples = 1});
  outcome(kMean, {1, 1});
  node_->progress();
  EXPECT_EQ(probe().rounds, 1);
  EXPECT_EQ(probe().waiting_for(), "the verdict on round 0");
  EXPECT_EQ(node_->done<Report>().size(), 1u);
  node_->score(0, {.accuracy = 0.95});
  EXPECT_EQ(probe().rounds, 1);
  EXPECT_EQ(node_->done<Finish>().size(), 1u);
  EXPECT_EQ(probe().waiting_for(), "");
}

// A phantom has no numbers: samples are counted by the weights, which have nothing else to weigh.
TEST_F(SynchronousTest, PhantomsCountTheirSamplesAndStopByThem) {
  make({.max_rounds = 100, .max_samples = 20, .report_every = 1000, .snapshots = false});
  node_->place.phantom = true;
  node_->start();
  for (Round round = 0; round < 2; ++round) {
    computed({.samples = 5});
    EXPECT_TRUE(node_->done<Finish>().empty());
    const auto &mean = overlay_->begun.at({round, 0, 0}),
               &extras = overlay_->begun.at({round, 0, 1});
    EXPECT_TRUE(mean.values.empty() && extras.values.empty());
    EXPECT_EQ(mean.length, 2u);
    EXPECT_EQ(extras.length, 2u) << "the buffer and the count";
    EXPECT_EQ(extras.weight, 5);
    outcome({round, 0, 0}, {}, 10, {0, 1});
    outcome({round, 0, 1}, {}, 10, {0, 1});
  }
  EXPECT_EQ(probe().rounds_done(), 2u);
  EXPECT_EQ(node_->done<Finish>().size(), 1u);
  EXPECT_TRUE(node_->recorded("train_loss").empty());
}

TEST_F(SynchronousTest, WaitingIsCountedFromTheShareToTheMeanAlsoOverACheckpoint) {
  make({.max_rounds = 2, .report_every = 1000}, false, 0);
  node_->start();
  node_->context.now = std::chrono::seconds(10);
  computed({.samples = 1});
  save_and_load();
  node_->context.now = std::chrono::seconds(13);
  outcome(kMean, {1, 1});
  EXPECT_EQ(node_->sum_of("wait_s"), 3);
}

// A server that is lost is no site lost, and neither is one of two nodes of a site.
TEST_F(SynchronousTest, OnlySitesWithWorkersCount) {
  make({}, false, 0, {{"oregon", 0}, {"oregon", 1}, {"tokyo", 0, 0, std::uint8_t(Role::server)}});
  node_->start();
  const auto lose = [&](std::vector<Rank> left) {
    const View before = std::exchange(node_->view, View{node_->view.epoch + 1, std::move(left)});
    probe().on_view(before, node_->turn);
  };
  lose({0, 2});
  EXPECT_TRUE(node_->done<Fail>().empty());
  lose({0});
  EXPECT_TRUE(node_->done<Fail>().empty());
  lose({2});
  EXPECT_EQ(node_->done<Fail>().size(), 1u);
  lose({});
  EXPECT_EQ(node_->done<Fail>().size(), 1u) << "a run ends once";
}

Place place_of_sites(const std::vector<std::pair<std::string, Role>>& nodes) {
  Members members;
  for (const auto& [site, role] : nodes) members.push_back({site, 0, 0, std::uint8_t(role)});
  Place place;
  place.members = std::make_shared<const Members>(std::move(members));
  return place;
}

// Sites, not nodes; and of those that only serve nobody trains.
TEST(MinSites, CountsSitesWithWorkers) {
  const Place place = place_of_sites({{"lima", Role::worker},
                                      {"lima", Role::worker},
                                      {"oslo", Role::worker},
                                      {"tokyo", Role::server}});
  for (const std::uint32_t enough : {1u, 2u}) EXPECT_TRUE(check_min_sites(enough, place)) << enough;
  for (const std::uint32_t many : {3u, 4u}) {
    const Status status = check_min_sites(many, place);
    ASSERT_FALSE(status) << many;
    EXPECT_NE(status.error().what.find("min_sites"), std::string::npos);
  }
}

// The last one is enough, too.
TEST(MinSites, TheLastSiteCounts) {
  EXPECT_TRUE(check_min_sites(2, place_of_sites({{"lima", Role::worker}, {"oslo", Role::worker}})));
  EXPECT_FALSE(
      check_min_sites(2, place_of_sites({{"lima", Role::worker}, {"oslo", Role::server}})));
}

}  // namespace
}  // namespace longhaul::sync

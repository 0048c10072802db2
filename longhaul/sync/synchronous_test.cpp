// What the rounds of all synchronous strategies have in common, with an overlay whose outcomes come
// when the test says so.
#include "longhaul/sync/synchronous.h"

#include <gtest/gtest.h>

#include "longhaul/base/testing/result.h"
#include "longhaul/outer/optimisers.h"
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
  for (const std::uint32_t many : {3u, 4u})
    EXPECT_TRUE(says(check_min_sites(many, place), "min_sites"));
}

// The last one is enough, too.
TEST(MinSites, TheLastSiteCounts) {
  EXPECT_TRUE(check_min_sites(2, place_of_sites({{"lima", Role::worker}, {"oslo", Role::worker}})));
  EXPECT_FALSE(
      check_min_sites(2, place_of_sites({{"lima", Role::worker}, {"oslo", Role::server}})));
}

// What a synchronous strategy does at a node that comes back and at the others, with overlays whose
// outcomes come when the test says so. Whole jobs: tests/return_test.cpp.

constexpr StopConfig kStop{.max_rounds = 10, .report_every = 1000};
const Path kStateTransfer = Path().child(2);

Members three(Rank self, std::uint32_t incarnation) {
  Members members{{"a"}, {"b"}, {"c"}};
  members[self].incarnation = incarnation;
  return members;
}

// One of three workers; values 0 and 1 are parameters, 2 is a buffer.
struct Returner : testing::HandMadeNode {
  explicit Returner(Rank self, std::uint32_t incarnation = 0, StopConfig stop = kStop)
      : HandMadeNode(3, Quadratic::Config{.start = incarnation > 0 ? 99.f : 8.f, .buffers = 1},
                     three(self, incarnation), self, stop,
                     [](SyncParts parts, const Place&) {
                       parts.outer = std::make_unique<outer::Momentum>(outer::MomentumConfig{});
                       return std::make_unique<Probe>(std::move(parts), false);
                     }),
        probe(dynamic_cast<Probe*>(strategy.get())) {
    start();
  }
  void see(View next) {
    overlay->next.clear();  // what the others have they must say again
    if (place.comes_back()) overlay->begun.clear();
    HandMadeNode::see(std::move(next));
  }
  void compute() {
    probe->on_computed({.samples = 4}, turn);
    progress();
  }
  // The mean of the round that runs.
  void mean(std::vector<Rank> counted, Epoch formed, float value = 1) {
    const Round round = probe->rounds_done();
    overlay->outcomes[{round, 0, 0}] = {{value, value + 1}, 2, counted, formed};
    overlay->outcomes[{round, 0, 1}] = {{value + 2}, 2, counted, formed};
    progress();
  }
  void round(std::vector<Rank> counted, Epoch formed, float value = 1) {
    compute();
    mean(std::move(counted), formed, value);
  }
  // The others are at this round of (parameters, extras).
  void others_at(Round parameters, Round extras) {
    overlay->next = {{0, parameters}, {1, extras}};
    progress();
  }
  // The same at this node, which takes part without contributing. Then the next round runs.
  void follow(Epoch formed, float value = 1) {
    const Round round = probe->rounds_done();
    mean({0, 2}, formed, value);
    others_at(round + 1, round + 1);
  }
  // A part of a state of `total` bytes, from the senior.
  void hear_state(StateTransfer::StatePart part, Payload body) {
    EXPECT_TRUE(hear(0, {kStateTransfer, StateTransfer::StatePart::kKind, 2,
                         Payload(share(to_wire(part))), std::move(body)}));
  }
  std::vector<Send> take_sends() {
    auto sends = done<Send>();
    std::erase_if(context.actions, [](const auto& a) { return std::get_if<Send>(&a); });
    for (const Send& send : sends)
      if (send.message.is_bulk()) credits.give(send.to, send.service.service_class());
    return sends;
  }
  std::string failure() const {
    const auto failed = done<Fail>();
    return failed.empty() ? "" : failed.front().error.what;
  }

  Probe* probe;
};

// Takes what `from` has sent to `to`; how many messages of handing over that were.
int carry(Returner& from, Returner& to) {
  int carried = 0;
  for (const Send& send : from.take_sends()) {
    if (send.to != to.place.self) continue;
    EXPECT_TRUE(to.hear(from.place.self, send.message));
    carried += send.message.machine == kStateTransfer;
  }
  return carried;
}

const View kBack{2, {0, 1, 2}, {{1, 2}}};  // rank 1 is back in epoch 2

TEST(Returning, ItStandsInForTheRoundThatRuns) {
  Returner back(1, 1);
  back.see(kBack);
  EXPECT_TRUE(says(back.probe->waiting_for(), "the current round"));
  back.overlay->next = {{0, 5}};
  back.progress();
  EXPECT_TRUE(back.overlay->begun.empty()) << "of the buffers it does not know";
  back.others_at(5, 5);
  ASSERT_EQ(back.overlay->begun.size(), 2u);
  for (const auto& [key, one] : back.overlay->begun) {
    EXPECT_EQ(key.round, 5u);
    EXPECT_FALSE(one.contributes);
    EXPECT_EQ(one.exact, key.range == 1);
    EXPECT_EQ(one.length, key.range == 1 ? 1u : 2u);
    EXPECT_TRUE(one.values.empty());
  }
  EXPECT_EQ(back.probe->rounds, 0) << "it has no model to compute with";
  back.others_at(6, 5);
  EXPECT_TRUE(says(back.probe->waiting_for(), "the current round"));
  back.others_at(6, 6);
  EXPECT_FALSE(back.overlay->begun.at({6, 0, 0}).contributes) << "and for the next one";
  EXPECT_EQ(back.probe->rounds, 0);
}

// The others had the mean of the parameters before it came, and await it for that of the buffers.
TEST(Returning, ItStandsInForHalfARoundAndThenForAWholeOne) {
  for (const bool parameters_first : {true, false}) {
    Returner back(1, 1);
    back.see(kBack);
    back.others_at(parameters_first ? 6 : 5, parameters_first ? 5 : 6);
    ASSERT_EQ(back.overlay->begun.size(), 1u);
    EXPECT_TRUE(back.overlay->begun.contains({5, 0, parameters_first ? 1u : 0u}));
    back.others_at(6, 6);
    EXPECT_EQ(back.overlay->begun.size(), 3u);
    EXPECT_TRUE(back.overlay->begun.contains({6, 0, 0}));
    EXPECT_TRUE(back.overlay->begun.contains({6, 0, 1}));
    back.others_at(7, 7);
    EXPECT_TRUE(back.overlay->begun.contains({7, 0, 0}));
  }
}

// Rank 1 has returned. The others are in round 2.
struct Reunion {
  Returner senior, back, other;
  std::vector<Send> state;  // as the senior has sent it, after round 2

  explicit Reunion(Round max_rounds = kStop.max_rounds)
      : senior(0, 0, {.max_rounds = max_rounds, .report_every = 1000}),
        back(1, 1, senior.stop),
        other(2, 0, senior.stop) {
    for (Returner* site : {&senior, &other}) {
      site->round({0, 1, 2}, 0);
      site->round({0, 2}, 1);
      site->compute();
      site->see(kBack);
      site->take_sends();
    }
    back.see(kBack);
    back.others_at(2, 2);
    for (Returner* site : {&senior, &other}) site->mean({0, 2}, 2, /*value=*/20);
    back.follow(2, 20);
    EXPECT_EQ(other.take_sends().size(), 0u) << "it is not the senior";
    state = senior.take_sends();
    EXPECT_EQ(state.size(), 1u);
  }
  // A round of the others, which rank 1 follows.
  void round(float value) {
    for (Returner* site : {&senior, &other}) site->round({0, 2}, 2, value);
    back.follow(2, value);
    EXPECT_TRUE(senior.take_sends().empty()) << "one state is enough";
  }
  void deliver() {
    for (const Send& part : state) EXPECT_TRUE(back.hear(0, part.message));
  }
  void round_of_all(float value) {
    for (Returner* site : {&senior, &back, &other}) site->round({0, 1, 2}, 2, value);
    EXPECT_EQ(back.all(), senior.all());
    EXPECT_EQ(back.probe->rounds_done(), senior.probe->rounds_done());
    EXPECT_TRUE(senior.take_sends().empty());
  }
};

TEST(Returning, ItBeginsWithTheSeniorsStateAndContributesToTheRoundAfter) {
  Reunion all;
  all.deliver();
  EXPECT_EQ(all.back.probe->rounds, 0) << "it takes part in round 3 without contributing";
  EXPECT_EQ(all.back.all(), all.senior.all());
  EXPECT_EQ(all.back.all()[2], 22);
  EXPECT_EQ(carry(all.back, all.senior), 0);
  all.round(30);
  EXPECT_EQ(all.back.all(), all.senior.all());
  EXPECT_EQ(carry(all.back, all.senior), 1) << "that it has the model";
  EXPECT_EQ(all.back.probe->rounds, 1) << "round 4 runs here, too";
  EXPECT_EQ(all.back.probe->runs, 0);
  all.round_of_all(40);
}

// The others do not wait for the state.
TEST(Returning, ItFollowsTheRoundsUntilTheStateHasArrived) {
  for (const bool saves : {true, false}) {
    Reunion all;
    for (const float value : {30.f, 40.f, 50.f}) all.round(value);
    EXPECT_EQ(all.back.probe->rounds_done(), 6u);
    EXPECT_TRUE(all.back.probe->means.empty());
    if (saves) {
      all.back.save_and_load();
      all.back.probe = dynamic_cast<Probe*>(all.back.strategy.get());
    }
    all.deliver();
    EXPECT_EQ(all.back.probe->means.size(), 3u) << "those of rounds 3, 4 and 5";
    EXPECT_EQ(all.back.all(), all.senior.all());
    all.round(60);
    EXPECT_EQ(all.back.all(), all.senior.all());
    all.round_of_all(70);
  }
}

// The last mean may be here before the state.
TEST(Returning, ItEndsWithTheOthersIfTheStateArrivesAfterTheirEnd) {
  Reunion all;
  for (float value = 30; all.senior.done<Finish>().empty(); value += 10) all.round(value);
  EXPECT_EQ(all.senior.probe->rounds_done(), kStop.max_rounds);
  EXPECT_TRUE(all.back.overlay->begun.contains({kStop.max_rounds, 0, 0})) << "it knows no better";
  EXPECT_TRUE(all.back.done<Finish>().empty());
  all.deliver();
  EXPECT_EQ(all.back.all(), all.senior.all());
  EXPECT_EQ(all.back.done<Finish>().size(), 1u);
  EXPECT_EQ(all.back.probe->rounds, 0);
}

// The overlay gives it every mean after the first one, whoever is lost.
TEST(Returning, TheLossOfAnotherDoesNotStopTheTransfer) {
  for (const bool has_state : {true, false}) {
    Reunion all;
    all.round(30);
    if (has_state) all.deliver();
    const View lost{3, {0, 1}, {{1, 2}}};
    all.senior.compute();
    for (Returner* site : {&all.senior, &all.back}) site->see(lost);
    for (Returner* site : {&all.senior, &all.back}) site->progress();
    if (!has_state) all.deliver();  // the rest of it
    EXPECT_EQ(carry(all.back, all.senior), 0);
    for (Returner* site : {&all.senior, &all.back}) site->mean({0}, 3, 40);
    EXPECT_EQ(all.back.all(), all.senior.all());
    EXPECT_EQ(all.back.probe->rounds_done(), 5u);
    EXPECT_EQ(all.back.probe->rounds, 1);
    EXPECT_EQ(carry(all.back, all.senior), 1) << "that it has the model";
    EXPECT_TRUE(all.senior.take_sends().empty());
  }
}

// It may have missed a mean: then the state that it is sent does not fit.
TEST(Returning, ALossInItsFirstRoundBeginsItAnew) {
  Returner senior(0), back(1, 1);
  senior.round({0, 2}, 1);
  senior.compute();
  for (Returner* site : {&senior, &back}) site->see(kBack);
  back.others_at(1, 1);
  senior.mean({0, 2}, 2, 20);
  const auto state = senior.take_sends();  // round 2
  senior.compute();
  const View lost{3, {0, 1}, {{1, 2}}};
  for (Returner* site : {&senior, &back}) site->see(lost);
  back.others_at(3, 3);  // as if the others had gone ahead
  EXPECT_EQ(carry(back, senior), 0) << "a state is on its way";
  for (const Send& part : state) EXPECT_TRUE(back.hear(0, part.message));
  back.progress();
  EXPECT_EQ(carry(back, senior), 1) << "it asks: a mean is missing";
  EXPECT_EQ(back.probe->rounds_done(), 3u);
  senior.mean({0}, 3, 30);
  EXPECT_EQ(carry(senior, back), 1) << "the answer";
}

// One mean of the round may be here, and is given once.
TEST(Returning, AStateThatArrivesWithinARoundKeepsWhatHasArrivedOfIt) {
  for (const std::uint32_t range : {0u, 1u}) {
    Reunion all;
    for (Returner* site : {&all.senior, &all.other}) site->round({0, 2}, 2, 30);
    const auto half = [&](std::uint32_t which) {
      const Floats values = which == 0 ? Floats{30, 31} : Floats{32};
      all.back.overlay->outcomes[{3, 0, which}] = {values, 2, std::vector<Rank>{0, 2}, 2};
      all.back.progress();
    };
    half(range);
    all.deliver();
    EXPECT_EQ(all.back.probe->rounds, 0);
    half(1 - range);
    EXPECT_EQ(all.back.all(), all.senior.all());
    EXPECT_EQ(all.back.probe->rounds, 1);
    EXPECT_EQ(carry(all.back, all.senior), 1);
    all.round_of_all(40);
  }
}

// The sender is lost while this node catches up: the next one sends its state.
TEST(Returning, ItStartsAgainWithTheNextSenior) {
  Reunion all;
  all.deliver();
  EXPECT_EQ(all.back.all(), all.senior.all());
  all.other.compute();
  const View lost{3, {1, 2}, {{1, 2}}};
  for (Returner* site : {&all.other, &all.back}) site->see(lost);
  for (Returner* site : {&all.other, &all.back}) site->progress();
  all.back.others_at(3, 3);
  EXPECT_EQ(carry(all.back, all.other), 1) << "it asks";
  all.other.mean({2}, 3, 30);
  all.back.mean({2}, 3, 30);
  all.back.others_at(4, 4);
  EXPECT_EQ(carry(all.other, all.back), 1);
  all.other.round({2}, 3, 40);
  all.back.mean({2}, 3, 40);
  EXPECT_EQ(all.back.all(), all.other.all());
  EXPECT_EQ(all.back.probe->rounds, 1);
}

// It keeps 32 times the model, three values, while a state is on its way. Then the others wait.
TEST(Returning, ItKeepsABoundedNumberOfMeans) {
  Reunion all(100);
  const auto state = all.state.at(0).message.body.view();
  const auto part = [&](std::size_t from, std::size_t length) {
    const auto bytes = state.subspan(from, length);
    all.back.hear_state({3, false, from, state.size()},
                        Payload(share(Buffer(bytes.begin(), bytes.end()))));
  };
  part(0, 8);
  EXPECT_TRUE(says(all.back.probe->waiting_for(), "the model of round 3"));
  while (all.back.overlay->begun.contains({all.back.probe->rounds_done(), 0, 0})) {
    all.round(1);
    ASSERT_LT(all.back.probe->rounds_done(), 100u);
  }
  EXPECT_EQ(all.back.probe->rounds_done(), 2u + 32);
  part(8, state.size() - 8);
  EXPECT_EQ(all.back.all(), all.senior.all());
  EXPECT_EQ(all.back.probe->rounds, 1) << "it contributes to the round that waits for it";
  all.round_of_all(70);
}

// Its share of before it was lost may be in a mean that was formed before it came back.
TEST(Returning, WhatItGaveBeforeItWasLostSaysNothing) {
  Returner senior(0);
  senior.compute();
  senior.see(kBack);
  senior.mean({0, 1, 2}, /*formed=*/1);
  EXPECT_TRUE(senior.take_sends().empty()) << "it did not stand in for that round";
  senior.round({0, 2}, 2);
  EXPECT_EQ(senior.take_sends().size(), 1u);
  senior.round({0, 1, 2}, 2);
  EXPECT_TRUE(senior.take_sends().empty());
}

TEST(Returning, WhoeverKnowsTheModelIsGivenNoOther) {
  for (const bool by_receipt : {true, false}) {
    Returner senior(0);
    senior.compute();
    senior.see(kBack);
    const Message have{kStateTransfer,
                       StateTransfer::StateReceived::kKind,
                       2,
                       Payload(share(to_wire(StateTransfer::StateReceived{2}))),
                       {}};
    if (by_receipt) EXPECT_TRUE(senior.hear(1, have));
    senior.mean(by_receipt ? std::vector<Rank>{0, 2} : std::vector<Rank>{0, 1, 2}, 2);
    EXPECT_TRUE(senior.take_sends().empty());
  }
}

TEST(Returning, TheNextSeniorHandsOverAfterTheRoundThatRuns) {
  const View lost{3, {1, 2}, {{1, 2}}};
  for (const bool stood_in : {true, false}) {
    Returner back(1, 1), other(2);
    other.round({0, 2}, 2);
    other.see(kBack);
    back.see(kBack);
    back.others_at(0, 0);
    if (stood_in) back.others_at(1, 1);
    other.compute();
    other.see(lost);
    back.see(lost);
    back.others_at(1, 1);
    EXPECT_TRUE(back.overlay->begun.contains({1, 0, 0}));
    back.others_at(2, 2);
    other.mean({2}, 3, /*value=*/40);
    EXPECT_EQ(carry(other, back), 1);
    EXPECT_EQ(back.probe->rounds_done(), 2u);
    EXPECT_EQ(back.all(), other.all());
  }
  Returner back(1, 1);  // another than the senior is lost while it stands in: the round is repeated
  back.see({2, {0, 1, 2}, {{1, 2}}});
  back.others_at(5, 5);
  back.see({3, {0, 1}, {{1, 2}}});
  back.others_at(5, 5);
  EXPECT_EQ(back.overlay->begun.size(), 2u);
}

TEST(Returning, WhoeverComesBackAtTheEndEndsWithTheOthers) {
  for (const bool ended_before : {true, false}) {
    Returner senior(0, 0, {.max_rounds = 2, .report_every = 1000}), back(1, 1);
    senior.round({0, 2}, 1);
    if (ended_before) senior.round({0, 2}, 1, 50);
    senior.see(kBack);
    if (!ended_before) senior.round({0, 2}, 1, 50);
    EXPECT_EQ(senior.done<Finish>().size(), 1u);
    back.see(kBack);
    back.others_at(2, 2);
    EXPECT_EQ(carry(senior, back), 1);
    EXPECT_EQ(back.done<Finish>().size(), 1u);
    EXPECT_EQ(back.probe->rounds, 0);
    EXPECT_EQ(back.all(), senior.all());
  }
}

TEST(Returning, NobodyKnowsTheModelAnyMore) {
  Returner back(1, 1);
  back.see(kBack);
  EXPECT_EQ(back.failure(), "");
  back.see({3, {1}, {{1, 2}}});
  EXPECT_TRUE(says(back.failure(), "all sites that knew the model are lost"));
}

TEST(Returning, AStateThatIsNoneEndsTheRunAndOneOfAnotherRoundIsNotHeeded) {
  Returner senior(0), back(1, 1);
  senior.compute();
  senior.see(kBack);
  senior.mean({0, 2}, 2);
  back.see(kBack);
  back.others_at(4, 4);
  back.others_at(5, 5);
  const auto sends = senior.take_sends();
  ASSERT_EQ(sends.size(), 1u);
  ASSERT_TRUE(back.hear(0, sends[0].message));
  EXPECT_EQ(back.probe->rounds, 0) << "that was round 1's";
  EXPECT_EQ(back.failure(), "");
  // The same bytes in the name of the round that it waits for.
  back.hear_state({5, false, 0, sends[0].message.body.size()}, sends[0].message.body);
  EXPECT_TRUE(says(back.failure(), "it is not of the beginning of a round"));
  EXPECT_EQ(back.probe->rounds, 0);
}

TEST(Returning, BytesThatAreNoStateEndTheRun) {
  Returner back(1, 1);
  back.see(kBack);
  back.others_at(4, 4);
  back.others_at(5, 5);
  back.hear_state({5, false, 0, 3}, Payload(share(Buffer(3))));
  EXPECT_TRUE(says(back.failure(), "is none of this job"));
  EXPECT_EQ(back.done<Fail>().size(), 1u);
}

// A senior that lies about the length of what it holds must not bring this node down later.
TEST(Returning, AStateOfAModelOfAnotherSizeEndsTheRun) {
  for (const std::size_t length : {2u, 3u}) {
    Returner senior(0), back(1, 1);
    Floats update(length, 1);
    senior.probe->outer().apply(update);
    senior.compute();
    senior.see(kBack);
    senior.mean({0, 2}, 2);
    back.see(kBack);
    back.others_at(0, 0);
    back.others_at(1, 1);
    EXPECT_EQ(carry(senior, back), 1);
    EXPECT_EQ(back.failure().find("a model of another size") != std::string::npos, length != 2);
  }
}

}  // namespace
}  // namespace longhaul::sync

#include "longhaul/sync/esync_states.h"

#include <cmath>

#include <gtest/gtest.h>

#include "longhaul/core/testing/machine_net.h"

namespace longhaul::sync::esync {
namespace {

// --- the rule, with a clock in the test's hand

const ReachTime::Config kPublic{.margin_s = 0.5, .lease = 1, .smoothing = 1, .with_push = false};

// Workers of constant step times that ask without delay, as the rule's own answers drive them: how
// many steps each takes in a round, and when it gives its update.
struct Rounds {
  Rounds(const ReachTime::Config& config, std::vector<double> step_s,
         std::vector<double> push_s = {})
      : reach(config), step_s(std::move(step_s)), push_s(std::move(push_s)) {
    this->push_s.resize(this->step_s.size());
    std::set<Rank> all;
    for (Rank r = 0; r < this->step_s.size(); ++r) all.insert(r);
    reach.members(all);
  }
  void run(Round round, double start) {
    taken.assign(step_s.size(), 0);
    gave.assign(step_s.size(), -1);
    std::vector<double> asks(step_s.size(), start + shift);
    for (;;) {
      Rank next = 0;
      for (Rank r = 0; r < asks.size(); ++r)
        if (gave[next] >= 0 || (gave[r] < 0 && asks[r] < asks[next])) next = r;
      if (gave[next] >= 0) return;
      const Standing asked{round, taken[next], 0, step_s[next], push_s[next]};
      reach.ask(next, asked, asks[next], asks[next]);
      const std::uint32_t more = reach.answer(next, asks[next]).value();
      if (more == 0) gave[next] = asks[next] - shift;
      taken[next] += more;
      asks[next] += more * step_s[next];
    }
  }

  ReachTime reach;
  std::vector<double> step_s, push_s;
  double shift = 0;  // of the state server's clock
  std::vector<std::uint32_t> taken;
  std::vector<double> gave;
};

TEST(ReachTime, Inv2And3_PublicStepsAreThoseThatFitBeforeTheSlowest) {
  Rounds rounds(kPublic, {0.25, 4, 0.5, 3.75});
  for (Round round = 0; round < 4; ++round) {
    rounds.run(round, 10.0 * double(round));
    EXPECT_EQ(rounds.taken[1], 1u);
    for (const Rank r : {0u, 2u, 3u}) {
      const double c = rounds.step_s[r];
      EXPECT_EQ(rounds.taken[r], std::max(1.0, std::floor((4 - 0.5) / c))) << r;
      if (r == 3) continue;
      EXPECT_LT(10.0 * double(round) + 4 - rounds.gave[r], c + 0.5) << "idle before the slowest";
    }
  }
}

// Inv. 1 and 4: every worker takes one; workers of one speed take one.
TEST(ReachTime, Inv1_EveryWorkerTakesAStep) {
  Rounds rounds(kPublic, {1, 1, 1});
  for (Round round = 0; round < 3; ++round) {
    rounds.run(round, 10.0 * double(round));
    EXPECT_EQ(rounds.taken, (std::vector<std::uint32_t>{1, 1, 1}));
  }
}

TEST(ReachTime, Inv6_TheClockMayStandAnywhere) {
  std::vector<std::vector<std::uint32_t>> all;
  for (const double shift : {0.0, 1e6}) {
    Rounds rounds(kPublic, {0.25, 4, 0.5});
    rounds.shift = shift;
    rounds.run(0, 0);
    rounds.run(1, 10);
    all.push_back(rounds.taken);
  }
  EXPECT_EQ(all[0], all[1]);
}

TEST(ReachTime, Inv9_UpdatesReachTheServerTogether) {
  Rounds rounds({.margin_s = 0.01}, {0.1, 4, 0.5}, {2.0, 3.0, 0.0});
  rounds.run(0, 0);
  rounds.run(1, 20);
  for (Rank r = 0; r < 3; ++r) {
    const double arrives = rounds.gave[r] + rounds.push_s[r];
    EXPECT_LE(arrives, 20 + 7 + 1e-9) << r;
    EXPECT_GT(arrives, 20 + 7 - 0.5 - 0.02) << r;
  }
  const std::vector<std::uint32_t> before = rounds.taken;
  rounds.push_s[0] = 4.0;  // a slower uplink: it is sent off earlier
  rounds.run(2, 40);
  rounds.run(3, 60);
  EXPECT_LT(rounds.taken[0], before[0]);
  EXPECT_EQ(rounds.taken[2], before[2]);
}

// One slow step of a fast worker does not make it the slowest for longer than it is smoothed.
TEST(ReachTime, Inv10_OneHiccupCostsOneRound) {
  Rounds rounds({.margin_s = 0.1}, {0.5, 4});
  rounds.run(0, 0);
  rounds.run(1, 10);
  EXPECT_EQ(rounds.taken, (std::vector<std::uint32_t>{7, 1}));
  rounds.step_s[0] = 9;
  rounds.run(2, 20);
  rounds.step_s[0] = 0.5;
  rounds.run(3, 40);
  rounds.run(4, 60);
  EXPECT_EQ(rounds.taken, (std::vector<std::uint32_t>{7, 1}));
}

// Without the slowest the next slowest is.
TEST(ReachTime, ALostWorkerIsNotWaitedFor) {
  Rounds rounds(kPublic, {0.25, 4, 2});
  rounds.run(0, 0);
  rounds.reach.members({0, 2});
  const auto ask = [&](Rank r, Round round, std::uint32_t steps, double at) {
    rounds.reach.ask(r, {round, steps, 0, rounds.step_s[r], 0}, at, at);
    return rounds.reach.answer(r, at).value();
  };
  EXPECT_EQ(ask(0, 1, 0, 10), 1u);
  EXPECT_EQ(ask(2, 1, 0, 10), 1u);
  std::uint32_t steps = 1;
  double at = 10.25;
  while (ask(0, 1, steps, at) > 0) ++steps, at += 0.25;
  EXPECT_EQ(steps, 6u) << "until 0.5 s before 12";
}

// Who is not known yet may be the slowest: the answer waits for it until the steps granted so far
// are done, less the time that it is under way; then another step fits in any case.
TEST(ReachTime, AnAnswerWaitsForWhoeverHasNotBegun) {
  ReachTime reach({.lease = 16});
  reach.members({0, 1});
  reach.ask(0, {0, 1, 1, 0.5, 0}, 0.9, 1);
  EXPECT_EQ(reach.answer(0, 1), std::nullopt);
  EXPECT_DOUBLE_EQ(reach.due(0).value(), 1 + 0.5 - 0.1);
  EXPECT_EQ(reach.answer(0, 1.41), 1u);
  reach.ask(0, {0, 2, 1, 0.5, 0}, 1.5, 1.6);
  EXPECT_EQ(reach.answer(0, 1.6), std::nullopt);
  reach.ask(1, {0, 1, 1, 9, 0}, 1.7, 1.7);
  EXPECT_EQ(reach.answer(0, 1.7), 16u) << "a whole lease, as the slowest arrives at 10.7";
  EXPECT_EQ(reach.answer(1, 1.7), 0u) << "the slowest takes one step";
  // The next round: the slowest is known, but has not begun it.
  reach.ask(0, {1, 1, 1, 0.5, 0}, 20, 20);
  EXPECT_EQ(reach.answer(0, 20), std::nullopt);
  reach.ask(1, {1, 1, 1, 0.5, 0}, 20.1, 20.1);
  EXPECT_EQ(reach.answer(0, 20.1), 8u);
}

// --- the machine that asks and answers

using longhaul::testing::MachineNet;

constexpr std::uint8_t kWorker = std::uint8_t(Role::worker);

struct Net : MachineNet {
  explicit Net(std::uint32_t ranks, std::uint64_t seed = 0)
      : MachineNet({.ranks = ranks, .layout = Layout::flat(1), .seed = seed}, [](const Place&) {
          return std::make_unique<States>(ReachTime::Config{.lease = 4}, true);
        }) {
    for (Rank rank = 0; rank < ranks; ++rank)
      act(rank, [&](Turn& turn) { machine(rank).on_start(turn); });
  }
};
States& at(MachineNet& net, Rank rank) { return static_cast<States&>(net.machine(rank)); }
void ask(MachineNet& net, Rank rank, const Standing& standing) {
  net.act(rank, [&](Turn& turn) { at(net, rank).ask(standing, turn); });
}

TEST(States, AreKeptWhereTheRolesSay) {
  const auto server_of = [](std::vector<std::uint8_t> roles, std::vector<Rank> live) {
    Members members;
    for (const std::uint8_t role : roles) members.push_back({"s", 0, 0, role});
    Place place;
    place.members = std::make_shared<const Members>(members);
    return States::server(place, {.live = std::move(live)});
  };
  const std::uint8_t serves = std::uint8_t(Role::server), states = std::uint8_t(Role::state_server);
  EXPECT_EQ(server_of({kWorker, serves, states}, {0, 1, 2}), 2u);
  EXPECT_EQ(server_of({kWorker, serves, states}, {0, 1}), 1u);
  EXPECT_EQ(server_of({kWorker, serves, kWorker}, {0, 2}), 0u);
}

TEST(States, AnswerEachQuestionOnceAndToWhomAsked) {
  Net net(2);
  ask(net, 0, {.round = 0, .steps = 1, .ahead = 1, .step_s = 1e-7});
  ask(net, 1, {.round = 0, .steps = 1, .ahead = 1, .step_s = 2e-6});
  EXPECT_TRUE(at(net, 1).asking());
  EXPECT_NE(at(net, 1).waiting_for().find("rank 0"), std::string::npos);
  net.run(100);
  EXPECT_TRUE(net.errors.empty());
  for (const Rank rank : {0u, 1u}) EXPECT_FALSE(at(net, rank).asking());
  EXPECT_EQ(at(net, 1).granted(), 0u) << "the slowest";
  EXPECT_EQ(at(net, 1).granted(), std::nullopt);
  EXPECT_EQ(at(net, 0).granted(), 4u);
}

// What only a broken peer can say has no effect: a question again, an answer to nothing.
TEST(States, RepeatedQuestionsAndUnaskedAnswersChangeNothing) {
  Net net(3);
  for (const Rank rank : {0u, 2u})
    ask(net, rank, {.round = 0, .steps = 1, .ahead = 1, .step_s = 2e-6});
  const auto message = [](const auto& fields) { return longhaul::testing::message_of(fields); };
  const States::Query query{0, 1, 1, 1e-7, 0, 0};
  ask(net, 1, {.round = 0, .steps = 1, .ahead = 1, .step_s = 1e-7});
  net.run(100);
  const std::uint64_t messages = net.messages();
  EXPECT_FALSE(net.inject(1, 0, message(query)));
  net.run(100);
  EXPECT_EQ(net.messages(), messages);
  EXPECT_EQ(at(net, 1).granted(), 4u);
  EXPECT_TRUE(net.inject(0, 1, message(States::Grant{0, 1, 7})));
  EXPECT_EQ(at(net, 1).granted(), std::nullopt);
  ask(net, 1, {.round = 0, .steps = 2, .ahead = 1, .step_s = 1e-7});
  EXPECT_TRUE(net.inject(2, 1, message(States::Grant{0, 2, 7})));
  EXPECT_EQ(at(net, 1).granted(), std::nullopt);
}

// Its step takes a second; nobody is granted steps until that is over, also by the next server.
TEST(States, NobodyWaitsForALateWorkerUntilItAsksAgain) {
  Net net(3);
  const auto ask_in = [&](Round round, Rank rank, double step_s) {
    ask(net, rank, {.round = round, .steps = 1, .ahead = 1, .step_s = step_s});
  };
  ask_in(0, 0, 1e-7), ask_in(0, 1, 2e-6), ask_in(0, 2, 1);
  net.run(100);
  EXPECT_EQ(at(net, 1).granted(), 4u);
  net.act(2, [&](Turn& turn) { at(net, 2).tell_late(1, turn); });
  EXPECT_FALSE(at(net, 2).asking());
  net.run(100);
  ask_in(1, 0, 1e-7), ask_in(1, 1, 2e-6);
  net.run(100);
  EXPECT_EQ(at(net, 1).granted(), 0u) << "the slowest of those who take steps";
  EXPECT_TRUE(at(net, 0).granted());
  net.crash(0);
  net.run(100);
  ask_in(2, 1, 2e-6);
  net.run(100);
  EXPECT_EQ(at(net, 1).granted(), 0u) << "the new state server was told";
  ask_in(3, 2, 1);
  net.run(100);
  ask_in(3, 1, 2e-6);
  net.run(100);
  EXPECT_EQ(at(net, 1).granted(), 4u) << "it is waited for again";
  EXPECT_TRUE(net.errors.empty());
}

TEST(States, ANewStateServerIsAskedWhatTheLostOneWas) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Net net(3, seed);
    for (const Rank rank : {1u, 2u})
      ask(net, rank, {.round = 5, .steps = 3, .ahead = 1, .step_s = 5e-8});
    for (std::uint64_t i = 0; i < seed % 4; ++i) net.step();
    net.crash(0);
    net.run(1000);
    for (const Rank rank : {1u, 2u}) {
      EXPECT_FALSE(at(net, rank).asking()) << seed;
      EXPECT_TRUE(at(net, rank).granted()) << seed;
    }
    EXPECT_TRUE(net.errors.empty()) << net.errors.front();
  }
}

}  // namespace
}  // namespace longhaul::sync::esync

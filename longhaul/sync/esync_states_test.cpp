#include "longhaul/sync/esync_states.h"

#include <gtest/gtest.h>

#include "longhaul/core/testing/machine_net.h"

namespace longhaul::sync::esync {
namespace {

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
  const auto message = [](const auto& fields) {
    Message m;
    m.kind = fields.kKind;
    m.head = Payload(share(to_wire(fields)));
    return m;
  };
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

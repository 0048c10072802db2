// Nodes that nobody can dial, in one loop with those that relay for them.
#include "longhaul/net/relay.h"

#include <gmock/gmock.h>

#include "longhaul/net/testing/peer_loop.h"
#include "longhaul/secure/testing/keys.h"

namespace longhaul::net {
namespace {

using namespace std::chrono_literals;
using ::testing::Contains;
using ::testing::HasSubstr;

// Lima, oslo and quito dial out; rome and tokyo relay, rome being asked first.
class RelayTest : public ::testing::TestWithParam<bool>, protected testing::PeerLoop {
 protected:
  RelayTest() : PeerLoop({"lima", "oslo", "quito", "rome", "tokyo"}) {}
  void start(std::initializer_list<Rank> who = {0, 1, 2, 3, 4}) {
    for (const Rank self : who) {
      PeersConfig made = config(self);
      made.connect_timeout = 60s;
      made.streams = 2;
      made.dials_out = {true, true, true, false, false};
      for (Rank peer = 0; peer < 3 && self < 3; ++peer)
        if (peer != self) made.relays[peer] = {3, 4};
      if (GetParam()) made.credentials = secure::test_credentials(authority_, names[self], names);
      PeerLoop::start(self, std::move(made)).lets_in = true;
    }
  }
  // All that are there dial all; nobody can dial the first three.
  void meet() {
    tell_addresses(3);
    for (Rank rank = 0; rank < nodes.size(); ++rank) dial(rank);
  }
  void open() {
    EXPECT_TRUE(until([&] {
      return std::ranges::all_of(
          nodes, [](const auto& node) { return !node || node->peers.awaited().empty(); });
    }));
    for (const auto& node : nodes)
      if (node) node->peers.open();
  }
  bool heard(Rank at, Rank from, std::uint16_t kind) {
    return std::ranges::count(nodes[at]->heard[from], kind) > 0;
  }

  const secure::KeyPair authority_ = secure::test_authority();
};

TEST_P(RelayTest, TwoThatNobodyCanDialExchangeMessagesThroughAThird) {
  start();
  meet();
  open();
  constexpr std::size_t kSize = 256 << 10, kCount = 8;
  for (const Rank from : {0u, 1u, 2u})
    for (const Rank to : {0u, 1u, 2u})
      for (std::size_t i = 0; from != to && i < kCount; ++i)
        send(from, to, std::uint16_t(10 + from), kSize);
  EXPECT_TRUE(until([&] {
    return std::all_of(nodes.begin(), nodes.begin() + 3,
                       [](const auto& node) { return node->bytes == 2 * kCount * kSize; });
  }));
  EXPECT_THAT(nodes[0]->notes, Contains(HasSubstr("reaches rank 1 (oslo) through rank 3 (rome)")));
  EXPECT_THAT(nodes[3]->notes, Contains(HasSubstr("relays between rank 0 (lima) and rank 1 (os")));
  EXPECT_EQ(nodes[4]->notes, std::vector<std::string>{}) << "the first relay works";
}

TEST_P(RelayTest, AnotherRelayTakesOverWhenOneIsGone) {
  start();
  meet();
  open();
  send(0, 1, 1), send(1, 0, 2);
  ASSERT_TRUE(until([&] { return heard(1, 0, 1) && heard(0, 1, 2); }));
  nodes[3].reset();
  tell_addresses(3);
  send(0, 1, 3), send(1, 0, 4);
  EXPECT_TRUE(until([&] { return heard(1, 0, 3) && heard(0, 1, 4); })) << "through tokyo";
  EXPECT_EQ(nodes[1]->heard[0], (std::vector<std::uint16_t>{1, 3})) << "each once";
  EXPECT_EQ(nodes[0]->heard[1], (std::vector<std::uint16_t>{2, 4}));
}

TEST_P(RelayTest, TheyMeetWhoeverComesFirst) {
  start({0, 2, 3, 4});
  meet();
  start({1});
  tell_addresses(3);
  dial(1);
  open();
  send(1, 0, 5), send(0, 1, 6);
  EXPECT_TRUE(until([&] { return heard(0, 1, 5) && heard(1, 0, 6); }));
}

// Who is not of the job is refused as ever; so is who asks for a node that cannot be.
TEST_P(RelayTest, NonsenseIsRefused) {
  start({3});
  const Identity me{.self = 3, .members = nodes[3]->place.members.get()};
  const Relay relay(me);
  for (const Rank to : {0u, 3u, 5u, 1000u})
    EXPECT_TRUE(relay.refuses({.rank = 0, .relay_to = {to}})) << to;
  EXPECT_FALSE(relay.refuses({.rank = 0, .relay_to = {1}}));
}

INSTANTIATE_TEST_SUITE_P(Relay, RelayTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "tls" : "plain"; });

}  // namespace
}  // namespace longhaul::net

// Nodes that nobody can dial, in one loop with those that relay for them.
#include "longhaul/net/relay.h"

#include <gmock/gmock.h>

#include "longhaul/net/peers.h"
#include "longhaul/secure/testing/keys.h"

namespace longhaul::net {
namespace {

using namespace std::chrono_literals;
using ::testing::Contains;
using ::testing::HasSubstr;

const std::vector<std::string> kNames = {"lima", "oslo", "quito", "rome", "tokyo"};

struct RelayedNode final : Peers::Events {
  RelayedNode(Loop& loop, Rank self, PeersConfig config, std::uint32_t incarnation = 0)
      : place{.self = self, .members = members(self, incarnation), .layout = Layout::flat(1)},
        peers(loop, std::move(config), place, *this) {
    const auto listens = peers.listen();
    LH_CHECK(listens);
    port = *listens;
  }
  static std::shared_ptr<const Members> members(Rank self, std::uint32_t incarnation) {
    Members all;
    for (const std::string& name : kNames) all.push_back({name});
    all[self].incarnation = incarnation;
    return std::make_shared<const Members>(std::move(all));
  }
  void on_message(Rank from, const Message& message) override {
    heard[from].push_back(message.kind);
    bytes += message.body.size();
  }
  void on_writable(Rank, unsigned) override {}
  void on_silent(Rank, bool, const std::string&) override {}
  bool on_checkpoint(Rank, std::uint64_t) override { return true; }
  void on_refused(const Error& why) override { refused = why.what; }
  void on_rejoin_request(Rank from) override { peers.admit(from); }
  void on_note(const std::string& text) override { notes.push_back(text); }

  Place place;
  Peers peers;
  std::uint16_t port = 0;
  std::map<Rank, std::vector<std::uint16_t>> heard;
  std::uint64_t bytes = 0;
  std::vector<std::string> notes;
  std::string refused;
};

// Lima, oslo and quito dial out; rome and tokyo relay, rome being asked first.
class RelayTest : public ::testing::TestWithParam<bool> {
 protected:
  void start(std::vector<Rank> who = {0, 1, 2, 3, 4}) {
    for (const Rank rank : who) start(rank);
  }
  void start(Rank self, std::uint32_t incarnation = 0) {
    PeersConfig config;
    config.job_hash = 7;
    config.process = 100 + self + 10 * incarnation;
    config.addresses.assign(kNames.size(), {"127.0.0.1", 0});
    config.connect_timeout = 60s;
    config.streams = 2;
    config.dials_out = {true, true, true, false, false};
    for (Rank peer = 0; peer < 3 && self < 3; ++peer)
      if (peer != self) config.relays[peer] = {3, 4};
    if (GetParam()) config.credentials = secure::test_credentials(authority_, kNames[self], kNames);
    nodes_[self] = std::make_unique<RelayedNode>(loop_, self, std::move(config), incarnation);
  }
  void tell_addresses() {
    std::vector<Address> addresses(kNames.size(), {"127.0.0.1", 9});  // where nobody listens
    for (const Rank relay : {3u, 4u})
      if (nodes_[relay]) addresses[relay].port = nodes_[relay]->port;
    for (const auto& [rank, node] : nodes_)
      if (node) node->peers.set_addresses(addresses);
  }
  // All that are there dial all.
  void meet() {
    tell_addresses();
    for (const auto& [rank, node] : nodes_) dial(rank);
  }
  // connect_all() dials first, and waits: here until it is told to stop waiting, at once.
  void dial(Rank rank) {
    if (nodes_[rank]) (void)nodes_[rank]->peers.connect_all([] { return true; });
  }
  bool until(const std::function<bool()>& done) {
    const Time end = loop_.now() + 60s;
    while (loop_.now() < end && !done()) {
      for (const auto& [rank, node] : nodes_)
        if (node) node->peers.tick();
      (void)loop_.run_until(loop_.now() + 5ms, done);
    }
    return done();
  }
  void open() {
    EXPECT_TRUE(until([&] {
      return std::all_of(nodes_.begin(), nodes_.end(), [](const auto& one) {
        return !one.second || one.second->peers.awaited().empty();
      });
    }));
    for (const auto& [rank, node] : nodes_)
      if (node) node->peers.open();
  }
  void send(Rank from, Rank to, std::uint16_t kind, std::size_t size = 100) {
    Message message;
    message.kind = kind;
    message.body = Payload(share(Buffer(size)));
    nodes_[from]->peers.send({to, message, {}});
  }
  bool heard(Rank at, Rank from, std::uint16_t kind) {
    const auto& kinds = nodes_[at]->heard[from];
    return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
  }

  const secure::KeyPair authority_ = secure::test_authority();
  Loop loop_;
  std::map<Rank, std::unique_ptr<RelayedNode>> nodes_;
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
    return std::all_of(nodes_.begin(), nodes_.end(), [](const auto& one) {
      return one.first > 2 || one.second->bytes == 2 * kCount * kSize;
    });
  }));
  EXPECT_THAT(nodes_[0]->notes, Contains(HasSubstr("reaches rank 1 (oslo) through rank 3 (rome)")));
  EXPECT_THAT(nodes_[3]->notes, Contains(HasSubstr("relays between rank 0 (lima) and rank 1 (os")));
  EXPECT_EQ(nodes_[4]->notes, std::vector<std::string>{}) << "the first relay works";
}

TEST_P(RelayTest, AnotherRelayTakesOverWhenOneIsGone) {
  start();
  meet();
  open();
  send(0, 1, 1), send(1, 0, 2);
  ASSERT_TRUE(until([&] { return heard(1, 0, 1) && heard(0, 1, 2); }));
  nodes_[3].reset();
  tell_addresses();
  send(0, 1, 3), send(1, 0, 4);
  EXPECT_TRUE(until([&] { return heard(1, 0, 3) && heard(0, 1, 4); })) << "through tokyo";
  EXPECT_EQ(nodes_[1]->heard[0], (std::vector<std::uint16_t>{1, 3})) << "each once";
  EXPECT_EQ(nodes_[0]->heard[1], (std::vector<std::uint16_t>{2, 4}));
}

TEST_P(RelayTest, TheyMeetWhoeverComesFirst) {
  start({0, 2, 3, 4});
  meet();
  start(1);
  tell_addresses();
  dial(1);
  open();
  send(1, 0, 5), send(0, 1, 6);
  EXPECT_TRUE(until([&] { return heard(0, 1, 5) && heard(1, 0, 6); }));
}

// Who is not of the job is refused as ever; so is who asks for a node that cannot be.
TEST_P(RelayTest, NonsenseIsRefused) {
  start(3);
  const Identity me{.self = 3, .members = nodes_[3]->place.members.get()};
  const Relay relay(me);
  for (const Rank to : {0u, 3u, 5u, 1000u})
    EXPECT_TRUE(relay.refuses({.rank = 0, .relay_to = {to}})) << to;
  EXPECT_FALSE(relay.refuses({.rank = 0, .relay_to = {1}}));
}

INSTANTIATE_TEST_SUITE_P(Relay, RelayTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "tls" : "plain"; });

}  // namespace
}  // namespace longhaul::net

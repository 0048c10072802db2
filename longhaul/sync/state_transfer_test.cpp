// One giver and one receiver, whose messages the test carries.
#include "longhaul/sync/state_transfer.h"

#include <gtest/gtest.h>

#include "longhaul/base/testing/archived.h"
#include "longhaul/sync/testing/one_node.h"

namespace longhaul::sync {
namespace {

using namespace std::chrono_literals;
using testing::OneNode;
using TransferredState = StateTransfer::TransferredState;
using StatePart = StateTransfer::StatePart;
using StateReceived = StateTransfer::StateReceived;
using StateWanted = StateTransfer::StateWanted;

Bytes bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return share(Buffer(bytes.begin(), bytes.end()));
}

std::string text_of(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes->data()), bytes->size()};
}

// Ranks 0, 1 and 2 are workers, 3 is a server; rank 2 has come back in epoch 5. Chunks of 4 bytes.
struct Site {
  explicit Site(Rank self)
      : node(2, {}, {{"a"}, {"b"}, {"c"}, {"d", 0, 0, std::uint8_t(Role::server)}}) {
    node.place.self = self;
    node.place.chunk_bytes = 4;
    node.view.epoch = 5;
    node.view.returned = {{2, 5}};
  }
  void see(View view) {
    const View before = std::exchange(node.view, std::move(view));
    transfer.on_view(before, node.turn);
  }
  template <MessageStruct M>
  bool hear(Rank from, const M& fields, std::string_view body = {}) {
    const Bytes bytes = bytes_of(body);
    const Message message{{},
                          M::kKind,
                          0,
                          Payload(share(to_wire(fields))),
                          body.empty() ? Payload() : Payload(bytes)};
    return bool(transfer.on_message(from, message, node.turn));
  }
  std::vector<Send> take_sends() {
    auto sends = node.done<Send>();
    node.context.actions.clear();
    return sends;
  }
  void take_off(Rank peer, const std::vector<Send>& sends) {  // the queue of the host
    for (const Send& send : sends)
      if (send.message.is_bulk()) node.credits.give(peer, send.service.service_class());
    transfer.on_writable(peer, node.turn);
  }
  void save_and_load() {
    const Buffer bytes = longhaul::testing::saved(transfer);
    StateTransfer fresh;
    ASSERT_TRUE(longhaul::testing::load(fresh, bytes));
    Archive into(bytes);
    transfer.archive(into);
  }

  OneNode node;
  StateTransfer transfer;
};

struct StateTransferTest : ::testing::Test {
  void carry(const std::vector<Send>& sends) {
    for (const Send& send : sends) {
      ASSERT_EQ(send.to, 2u);
      EXPECT_TRUE(receiver.transfer.on_message(0, send.message, receiver.node.turn));
    }
  }
  Site giver{0}, receiver{2};
};

TEST_F(StateTransferTest, AStateComesInPiecesAsTheLinkHasRoom) {
  giver.transfer.send(2, {6, true, bytes_of("ten bytes.")}, giver.node.turn);
  auto sends = giver.take_sends();
  ASSERT_EQ(sends.size(), Credits::kPerClass);
  carry(sends);
  EXPECT_FALSE(receiver.transfer.received());
  giver.save_and_load();
  receiver.save_and_load();
  giver.take_off(2, sends);
  sends = giver.take_sends();
  ASSERT_EQ(sends.size(), 1u);
  carry(sends);
  ASSERT_TRUE(receiver.transfer.received());
  EXPECT_EQ(text_of(receiver.transfer.received()->bytes), "ten bytes.");
  EXPECT_EQ(receiver.transfer.received()->round, 6u);
  EXPECT_TRUE(receiver.transfer.received()->last);
  giver.save_and_load();
  giver.take_off(2, sends);
  EXPECT_TRUE(giver.take_sends().empty());
  receiver.save_and_load();
  EXPECT_EQ(text_of(receiver.transfer.received()->bytes), "ten bytes.");
  EXPECT_TRUE(receiver.hear(0, StatePart{6, true, 10, 10}, "more"));
  EXPECT_EQ(text_of(receiver.transfer.received()->bytes), "ten bytes.") << "nothing is added";
  receiver.transfer.drop_received();
  EXPECT_FALSE(receiver.transfer.received());
}

struct BesideRounds : StateTransferTest {
  void begin(const std::string& text) {
    giver.transfer.send(2, {6, false, bytes_of(text)}, giver.node.turn, /*beside_rounds=*/true);
  }
  // Carries the burst in transit, which takes this long, and returns its bytes. Then the sender
  // rests for three times that time.
  std::size_t burst(Time took) {
    giver.save_and_load();
    const auto sends = giver.take_sends();
    std::size_t bytes = 0;
    for (const Send& send : sends) bytes += send.message.body.size();
    carry(sends);
    giver.node.context.now += took;
    receiver.node.context.now = giver.node.context.now;
    giver.take_off(2, sends);
    const auto timers = giver.node.done<SetTimer>();
    if (timers.size() != 1) return bytes;
    EXPECT_EQ(timers[0].at, giver.node.context.now + 3 * took);
    for (const Time at : {giver.node.context.now, timers[0].at - 1ns}) {
      giver.node.context.now = at;
      giver.transfer.on_writable(2, giver.node.turn);
      EXPECT_TRUE(giver.node.done<Send>().empty());
    }
    giver.node.context.now = timers[0].at;
    giver.node.context.actions.clear();
    giver.save_and_load();
    giver.transfer.on_timer(timers[0].id, giver.node.turn);
    return bytes;
  }
};

// The first is a quarter of a chunk. A link without delay takes twice the time for twice the bytes.
TEST_F(BesideRounds, BurstsAreShortOnASlowLink) {
  begin("thirty-two bytes in short bursts");
  std::vector<std::size_t> bytes;
  for (Time took = 1s; !receiver.transfer.received();) {
    bytes.push_back(burst(took));
    if (bytes.size() == 3) {
      EXPECT_EQ(receiver.transfer.waiting_for("-"),
                "the model of round 6: 0.0 of 0.0 MB are here, about 42 s left")
          << "6 s for 4 of 32 bytes";
    }
    for (const Send& send : giver.node.done<Send>()) took = send.message.body.size() * 1s;
  }
  bytes.resize(14);
  EXPECT_EQ(bytes, (std::vector<std::size_t>{1, 2, 1, 1, 1, 1, 1, 2, 1, 1, 1, 1, 1, 2}));
  EXPECT_TRUE(giver.take_sends().empty());
  EXPECT_EQ(text_of(receiver.transfer.received()->bytes), "thirty-two bytes in short bursts");
  EXPECT_EQ(receiver.transfer.waiting_for("-"), "-");
  EXPECT_TRUE(giver.transfer.sends_to(2)) << "until it says that it has it";
  EXPECT_TRUE(giver.hear(2, StateReceived{5}));
  EXPECT_FALSE(giver.transfer.sends_to(2));
}

// Most of a burst's time is the delay, but when the link is busy with vectors, too.
TEST_F(BesideRounds, BurstsGrowOnALinkWithALongDelay) {
  begin(std::string(1000, 'x'));
  for (const std::size_t bytes : {1u, 2u, 4u, 8u, 8u}) EXPECT_EQ(burst(1s), bytes);
  EXPECT_EQ(burst(2s), 8u) << "two chunks";
  for (const std::size_t bytes : {4u, 4u, 4u, 4u, 4u, 8u}) EXPECT_EQ(burst(1s), bytes);
  std::size_t sent = 0;
  for (int k = 1; k <= 60; ++k) sent += burst(k % 6 == 0 ? 2s : 1s);
  EXPECT_GE(sent, 60 * 3u) << "every sixth burst meets a vector";
  // The link becomes slower: after a while the new time is the usual one.
  sent = 0;
  for (int k = 1; k <= 60; ++k) sent = burst(2s);
  EXPECT_EQ(sent, 8u);
}

// A buffer takes all bursts at once, until it is full.
TEST_F(BesideRounds, ABurstThatTakesNoTimeIsNoMeasure) {
  begin(std::string(1000, 'x'));
  burst(1us);
  for (const std::size_t bytes : {2u, 4u, 8u, 8u}) EXPECT_EQ(burst(1us), bytes);
  EXPECT_EQ(burst(1400us), 8u);
  EXPECT_EQ(burst(1s), 8u);
  EXPECT_EQ(burst(1us), 4u);
}

TEST_F(BesideRounds, AStateWithImpossibleTimesIsNotLoaded) {
  giver.node.context.now = Time(std::int64_t{1} << 61);
  begin("ten bytes.");
  StateTransfer fresh;
  EXPECT_FALSE(longhaul::testing::load(fresh, longhaul::testing::saved(giver.transfer)));
}

TEST_F(BesideRounds, AfterAnOutageItRestsForTenSeconds) {
  begin("ten bytes.");
  const auto sends = giver.take_sends();
  giver.node.context.now = 10min;
  giver.take_off(2, sends);
  ASSERT_EQ(giver.node.done<SetTimer>().size(), 1u);
  EXPECT_EQ(giver.node.done<SetTimer>()[0].at, 10min + 10s);
}

TEST_F(StateTransferTest, ANewerStateIsSentOnRequest) {
  giver.transfer.send(2, {6, false, bytes_of("ten bytes.")}, giver.node.turn);
  auto sends = giver.take_sends();
  carry({sends[0]});
  EXPECT_TRUE(giver.hear(2, StateWanted{5, 6})) << "it is sending that one";
  EXPECT_TRUE(giver.transfer.sends_to(2));
  receiver.transfer.ask_for(7, receiver.node.turn);
  const auto asked = receiver.take_sends();
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].to, 0u);
  EXPECT_TRUE(giver.transfer.on_message(2, asked[0].message, giver.node.turn));
  EXPECT_FALSE(giver.transfer.sends_to(2) || giver.transfer.has_state(2));
  carry({sends[1]});  // was in transit, and is replaced below
  giver.take_off(2, sends);
  giver.transfer.send(2, {7, false, bytes_of("newer")}, giver.node.turn);
  carry(giver.take_sends());
  EXPECT_EQ(text_of(receiver.transfer.received()->bytes), "newer");
}

// A model is large: its givers hold it once, however many come back.
TEST_F(StateTransferTest, AllWhoAreGivenTheSameShareItsBytes) {
  const Bytes bytes = bytes_of("four");
  for (const Rank to : {1u, 2u}) giver.transfer.send(to, {6, false, bytes}, giver.node.turn);
  const auto sends = giver.take_sends();
  ASSERT_EQ(sends.size(), 2u);
  for (const Send& send : sends) EXPECT_EQ(send.message.body.view().data(), bytes->data());
}

TEST_F(StateTransferTest, AnotherStateTakesThePlaceOfAHalfGivenOne) {
  giver.transfer.send(2, {6, false, bytes_of("the older one")}, giver.node.turn);
  auto sends = giver.take_sends();
  carry(sends);
  giver.transfer.send(2, {7, false, bytes_of("newer")}, giver.node.turn);
  EXPECT_TRUE(giver.take_sends().empty()) << "no room";
  giver.take_off(2, sends);
  carry(giver.take_sends());
  ASSERT_TRUE(receiver.transfer.received());
  EXPECT_EQ(text_of(receiver.transfer.received()->bytes), "newer");
  EXPECT_EQ(receiver.transfer.received()->round, 7u);
}

TEST_F(StateTransferTest, ItIsTakenFromTheSeniorWorkerByWhoHasComeBack) {
  const StatePart part{6, false, 0, 8};
  EXPECT_FALSE(receiver.hear(1, part, "from"));
  EXPECT_FALSE(receiver.hear(3, part, "from"));
  EXPECT_TRUE(receiver.hear(0, part, "from"));
  Site other(1);
  EXPECT_FALSE(other.hear(0, part, "from")) << "it was here all the time";
}

TEST_F(StateTransferTest, PiecesThatDoNotGoOnAreRefused) {
  Site& site = receiver;
  EXPECT_TRUE(site.hear(0, StatePart{6, false, 4, 8}, "tail")) << "ignored, without a beginning";
  EXPECT_FALSE(site.hear(0, StatePart{6, false, 0, 0}, "none"));
  EXPECT_FALSE(site.hear(0, StatePart{6, false, 0, std::uint64_t{2} << 20}, "much"));
  EXPECT_FALSE(site.hear(0, StatePart{6, false, 0, ~std::uint64_t{0}}, "much"));
  EXPECT_FALSE(site.hear(0, StatePart{6, false, 0, 3}, "long"));
  ASSERT_TRUE(site.hear(0, StatePart{6, false, 0, 8}, "head"));
  EXPECT_FALSE(site.hear(0, StatePart{6, false, 5, 8}, "ail")) << "a gap";
  EXPECT_FALSE(site.hear(0, StatePart{6, false, 3, 8}, "tail")) << "what was there";
  EXPECT_FALSE(site.hear(0, StatePart{6, false, 4, 8}, "tails"));
  EXPECT_FALSE(site.hear(0, StatePart{6, false, 4, 8}));
  EXPECT_FALSE(site.hear(0, StatePart{6, false, 4, 9}, "tail")) << "of another length";
  EXPECT_FALSE(site.hear(0, StatePart{7, false, 4, 8}, "tail")) << "of another round";
  EXPECT_FALSE(site.hear(0, StatePart{6, true, 4, 8}, "tail"));
  EXPECT_FALSE(site.transfer.received());
  ASSERT_TRUE(site.hear(0, StatePart{6, false, 4, 8}, "tail")) << "all the others had no effect";
  EXPECT_EQ(text_of(site.transfer.received()->bytes), "headtail");
}

// The round before this state may be repeated without the lost node's contribution.
TEST_F(StateTransferTest, ALostGiverTakesItsStateWithIt) {
  for (const bool lost : {true, false}) {
    Site half(2), whole(2);
    ASSERT_TRUE(half.hear(0, StatePart{6, false, 0, 8}, "head"));
    ASSERT_TRUE(whole.hear(0, StatePart{6, false, 0, 4}, "head"));
    const Rank left = lost ? 1 : 0;
    for (Site* site : {&half, &whole}) site->see({6, {left, 2, 3}, {{2, 5}}});
    EXPECT_TRUE(half.hear(left, StatePart{6, false, 4, 8}, "tail"));
    EXPECT_EQ(half.transfer.received() != nullptr, !lost);
    EXPECT_EQ(whole.transfer.received() != nullptr, !lost);
  }
}

TEST_F(StateTransferTest, NothingMoreIsGivenToTheLost) {
  giver.transfer.send(2, {6, false, bytes_of("ten bytes.")}, giver.node.turn);
  const auto sends = giver.take_sends();
  giver.see({6, {0, 1, 3}});
  giver.take_off(2, sends);
  EXPECT_TRUE(giver.take_sends().empty());
}

TEST_F(StateTransferTest, ItTellsAllWorkersOnceItKnows) {
  receiver.see({6, {0, 1, 2, 3}, {{2, 5}}});
  receiver.transfer.confirm(receiver.node.turn);
  const auto sends = receiver.take_sends();
  ASSERT_EQ(sends.size(), 2u);
  for (const Send& send : sends) EXPECT_EQ(send.to, &send == &sends[0] ? 0u : 1u);
  EXPECT_FALSE(giver.transfer.has_state(2));
  EXPECT_FALSE(giver.hear(2, StateReceived{4})) << "another incarnation's";
  EXPECT_FALSE(giver.hear(1, StateReceived{0})) << "it was here all the time";
  EXPECT_FALSE(giver.transfer.has_state(1) || giver.transfer.has_state(2));
  ASSERT_TRUE(giver.transfer.on_message(2, sends[0].message, giver.node.turn));
  EXPECT_TRUE(giver.transfer.has_state(2));
  giver.save_and_load();
  giver.see({6, {0, 1, 2}, {{2, 5}}});
  EXPECT_TRUE(giver.transfer.has_state(2));
  giver.see({8, {0, 1, 2}, {{2, 8}}});
  EXPECT_FALSE(giver.transfer.has_state(2)) << "back once more, it knows nothing";
}

}  // namespace
}  // namespace longhaul::sync

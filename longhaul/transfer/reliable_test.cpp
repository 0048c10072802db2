// Invariants: every value once, in pieces of a chunk; bytes only when there is room; order;
// cancelling; loss of a peer; broken pieces; saving and loading after any event.
#include "longhaul/transfer/reliable.h"

#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

#include "longhaul/base/testing/archived.h"
#include "longhaul/core/testing/machine_net.h"

namespace longhaul::transfer {
namespace {

using longhaul::testing::MachineNet;

constexpr std::uint32_t kChunk = 16;  // four values

// A machine that sends the numbers 0, 1, 2 ... and keeps what it gets. Round 9 is never admitted.
class Owner final : public Machine, public VectorPort {
 public:
  explicit Owner(const Place& place) : phantom_(place.phantom), transfer_(place) {
    own(transfer_);
    transfer_.attach(*this);
  }
  Payload encoded(const TransferKey&, Range range) override {
    ++asked_;
    if (phantom_) return Payload::phantom(4 * range.length);
    std::vector<float> values;
    for (std::uint64_t i = 0; i < range.length; ++i) values.push_back(float(range.offset + i));
    Buffer bytes(4 * values.size());
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return Payload(share(std::move(bytes)));
  }
  Status admit(Rank, const TransferKey& key, Range) override {
    if (key.vector.round == 9) return malformed("not now");
    return Ok{};
  }
  Result<std::vector<float>> decode(const TransferKey&, Range range, const Payload& b) override {
    if (b.size() != 4 * range.length) return malformed("wrong length");
    std::vector<float> values(phantom_ ? 0 : range.length);
    if (!phantom_) std::memcpy(values.data(), b.view().data(), b.size());
    return values;
  }
  void on_progress(Turn&) override {
    while (auto arrival = transfer_.arrived()) got_.push_back(std::move(*arrival));
    while (auto sent = transfer_.sent()) sent_.push_back(*sent);
  }
  void send(Outgoing outgoing, Turn& turn) {
    transfer_.begin(std::move(outgoing), within(transfer_, turn));
  }
  void state(Archive& ar) override { ar(got_, sent_, asked_); }

  const bool phantom_;
  Reliable transfer_;
  std::vector<Arrival> got_;
  std::vector<Sent> sent_;
  std::uint64_t asked_ = 0;
};

class ReliableTest : public ::testing::Test {
 protected:
  void make(bool phantom = false, std::uint32_t ranks = 3) {
    net_.emplace(MachineNet::Config{.ranks = ranks,
                                    .layout = Layout::flat(100),
                                    .seed = 3,
                                    .chunk_bytes = kChunk,
                                    .phantom = phantom,
                                    .members = {}},
                 [](const Place& place) { return std::make_unique<Owner>(place); });
  }
  Owner& at(Rank rank) { return static_cast<Owner&>(net_->machine(rank)); }
  static TransferKey key(Round round) { return {0, {{round, 0, 0}, 0}, 0, Coding::exact}; }
  void send(Round round, Rank to, std::vector<Range> ranges, Service service = {}) {
    net_->act(0, [&](Turn& turn) {
      at(0).send({key(round), to, std::move(ranges), 0.5, service}, turn);
    });
  }
  std::vector<Round> rounds(Rank rank) {
    std::vector<Round> order;
    for (const Arrival& arrival : at(rank).got_) order.push_back(arrival.key.vector.round);
    return order;
  }

  std::optional<MachineNet> net_;
};

TEST_F(ReliableTest, EveryValueArrivesOnceInPiecesOfAChunk) {
  make();
  send(0, 1, {{0, 4}, {10, 9}, {30, 0}, {40, 1}});
  net_->run(1000);
  std::vector<float> values;
  for (const Arrival& arrival : at(1).got_) {
    EXPECT_LE(arrival.range.length, 4u);
    EXPECT_EQ(arrival.weight, 0.5);
    EXPECT_EQ(arrival.from, 0u);
    values.insert(values.end(), arrival.values.begin(), arrival.values.end());
  }
  EXPECT_EQ(values, (std::vector<float>{0, 1, 2, 3, 10, 11, 12, 13, 14, 15, 16, 17, 18, 40}));
  ASSERT_EQ(at(0).sent_.size(), 1u);
  EXPECT_TRUE(at(0).sent_[0].ok);
  EXPECT_EQ(at(0).sent_[0].bytes, 56u);
  EXPECT_TRUE(net_->errors.empty());
}

// What has arrived and was not taken is in a checkpoint.
TEST_F(ReliableTest, SavedAndLoadedItHandsOnTheSame) {
  make();
  Reliable plain(net_->place(1)), loaded(net_->place(1));
  Owner port(net_->place(1));
  for (Reliable* one : {&plain, &loaded}) one->attach(port);
  net_->act(1, [&](Turn& turn) {
    const Reliable::Piece piece{key(3), {4, 2}, 0.25};
    Buffer body(8);
    body[7] = std::byte{0x40};
    const Message message{Path(), Reliable::Piece::kKind, 0, Payload(share(to_wire(piece))),
                          Payload(share(std::move(body)))};
    ASSERT_TRUE(plain.on_message(2, message, turn));
  });
  ASSERT_TRUE(longhaul::testing::copy_state(plain, loaded));
  const auto arrival = loaded.arrived();
  ASSERT_TRUE(arrival);
  EXPECT_EQ(arrival->from, 2u);
  EXPECT_EQ(arrival->key, key(3));
  EXPECT_EQ(arrival->range, (Range{4, 2}));
  EXPECT_EQ(arrival->values, (std::vector<float>{0, 2}));
  EXPECT_EQ(arrival->weight, 0.25);
  EXPECT_FALSE(loaded.arrived());
}

TEST_F(ReliableTest, BytesAreAskedForWhenThereIsRoom) {
  make();
  send(0, 1, {{0, 40}});
  send(0, 2, {{0, 40}});
  EXPECT_EQ(at(0).asked_, 4u) << "two chunks a peer";
  EXPECT_EQ(at(0).transfer_.remaining(key(0), 1), 32u);
  net_->run(1000);
  EXPECT_EQ(at(0).asked_, 20u);
  EXPECT_EQ(at(0).transfer_.remaining(key(0), 1), 0u);
}

TEST_F(ReliableTest, LowerOrderGoesFirstThenWhatWasBegunFirst) {
  make();
  send(0, 1, {{0, 12}}, {.order = 5});
  send(1, 1, {{0, 8}}, {.order = 5});
  send(2, 1, {{0, 8}}, {.order = 1});
  net_->run(1000);
  EXPECT_EQ(rounds(1), (std::vector<Round>{0, 0, 2, 2, 0, 1, 1}));
}

TEST_F(ReliableTest, AHigherPriorityPassesWhatWaits) {
  make();
  send(0, 1, {{0, 40}}, {.priority = 2});
  send(1, 1, {{0, 4}}, {.priority = 5});
  EXPECT_EQ(at(0).asked_, 3u) << "its class has room of its own";
  net_->run(1000);
  EXPECT_EQ(rounds(1).size(), 11u);
}

TEST_F(ReliableTest, WhatIsCancelledIsNeverWritten) {
  make();
  for (Rank to : {1u, 2u}) send(0, to, {{0, 40}});
  for (Rank to : {1u, 2u}) send(1, to, {{0, 8}});
  net_->act(0, [&](Turn&) { at(0).transfer_.cancel(key(0), 1); });
  EXPECT_EQ(at(0).transfer_.remaining(key(0), 1), 0u);
  EXPECT_EQ(at(0).transfer_.remaining(key(0), 2), 32u);
  net_->run(1000);
  EXPECT_EQ(rounds(1), (std::vector<Round>{0, 0, 1, 1}));
  EXPECT_EQ(rounds(2).size(), 12u);
  for (const Sent& sent : at(0).sent_) EXPECT_FALSE(sent.to == 1 && sent.key == key(0));
}

TEST_F(ReliableTest, WhatIsLeftMovesToItsNewClass) {
  make();
  send(0, 1, {{0, 40}}, {.priority = 2});
  send(1, 2, {{0, 40}}, {.priority = 2});
  const Service high{.priority = 5};
  net_->act(0, [&](Turn& turn) {
    Turn below = turn.child(0);
    at(0).transfer_.reprioritise(key(0), 1, high, below);
  });
  EXPECT_EQ(net_->in_flight(0, 1, high.service_class()), 2u);
  EXPECT_EQ(net_->in_flight(0, 2, high.service_class()), 0u);
  net_->run(1000);
  EXPECT_EQ(rounds(1).size(), 10u);
  EXPECT_EQ(rounds(2).size(), 10u);
  EXPECT_EQ(at(0).sent_.size(), 2u);
}

TEST_F(ReliableTest, WhatWaitsForTheLostIsDropped) {
  make();
  send(0, 2, {{0, 40}});
  net_->crash(2);
  net_->run(1000);
  EXPECT_EQ(at(0).transfer_.remaining(key(0), 2), 0u);
}

TEST_F(ReliableTest, BrokenPiecesAreErrorsAndKeptOut) {
  make();
  const auto inject = [&](Reliable::Piece piece, std::size_t size) {
    Message m{Path().child(0), Reliable::Piece::kKind, 0, Payload(share(to_wire(piece))),
              Payload(share(Buffer(size)))};
    return bool(net_->inject(0, 1, m));
  };
  EXPECT_TRUE(inject({key(0), {0, 4}, 1}, 16));
  EXPECT_FALSE(inject({key(9), {0, 4}, 1}, 16)) << "not admitted";
  EXPECT_FALSE(inject({key(0), {0, 4}, 1}, 15)) << "wrong length";
  EXPECT_FALSE(inject({key(0), {0, 5}, 1}, 20)) << "longer than a chunk";
  EXPECT_FALSE(inject({key(0), {0, 0}, 1}, 0)) << "of nothing";
  EXPECT_FALSE(inject({key(0), {0, 4}, -1}, 16)) << "a negative weight";
  EXPECT_FALSE(inject({key(0), {0, 4}, std::nan("")}, 16)) << "no weight";
  Message cut{Path().child(0), Reliable::Piece::kKind, 0, Payload(share(Buffer(9))), {}};
  EXPECT_FALSE(net_->inject(0, 1, cut));
  EXPECT_EQ(at(1).got_.size(), 1u);
}

TEST_F(ReliableTest, PhantomsHaveSizesAndNoNumbers) {
  make(true);
  send(0, 1, {{0, 10}});
  net_->run(1000);
  ASSERT_EQ(at(1).got_.size(), 3u);
  EXPECT_TRUE(at(1).got_[0].values.empty());
  EXPECT_GT(net_->bytes(0, 1), 40u);
  Message real{Path().child(0), Reliable::Piece::kKind, 0,
               Payload(share(to_wire(Reliable::Piece{key(0), {0, 4}, 1}))),
               Payload(share(Buffer(16)))};
  EXPECT_FALSE(net_->inject(0, 1, real)) << "numbers in a phantom job";
}

TEST_F(ReliableTest, SavingAndLoadingAfterEveryEventEqualsGoingOn) {
  make();
  send(0, 1, {{0, 40}, {50, 3}}, {.order = 2});
  send(1, 2, {{0, 30}}, {.priority = 6, .order = 1});
  for (bool more = true; more; more = net_->step())
    for (Rank rank = 0; rank < 3; ++rank) net_->save_and_load(rank);
  EXPECT_EQ(rounds(1).size(), 11u);
  EXPECT_EQ(rounds(2).size(), 8u);
  EXPECT_EQ(at(0).sent_.size(), 2u);
}

}  // namespace
}  // namespace longhaul::transfer

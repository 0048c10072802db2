// Peers that break the protocol: an Error or nothing at all, bounded memory, never a crash.
#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

#include "longhaul/base/testing/archived.h"
#include "longhaul/base/testing/effort.h"
#include "longhaul/core/testing/plain_transfer.h"
#include "longhaul/overlay/plan_agreement.h"
#include "longhaul/overlay/testing/fed_node.h"
#include "longhaul/overlay/testing/forms.h"
#include "longhaul/overlay/tsengine_messages.h"

namespace longhaul::overlay {
namespace {

using longhaul::testing::kStride;
using longhaul::testing::PlainTransfer;
using testing::Exchange;
using testing::ExchangeConfig;

const Path kOverlay = Path().child(0), kTransfer = Path().child(0).child(0);

template <MessageStruct M>
Message message(Path to, const M& fields, Buffer body = {}, Epoch epoch = 0) {
  return {to, M::kKind, epoch, Payload(share(to_wire(fields))), Payload(share(std::move(body)))};
}

Buffer floats(std::size_t count, float value = 1) {
  Buffer bytes(4 * count);
  for (std::size_t i = 0; i < count; ++i) std::memcpy(&bytes[4 * i], &value, 4);
  return bytes;
}

// Rank 1 speaks to rank 0, which has begun round 0 of a vector of 16 values, two pieces of four
// a worker. Direct: rank 0 owns [0, 8).
class Liar : public ::testing::Test {
 protected:
  Liar() : exchange_({.kind = "direct", .workers = 2, .length = 16, .chunk_bytes = 16}) {
    exchange_.net().act(0, [&](Turn& turn) { exchange_.at(0).start(turn); });
  }
  CodecKey vector(Round round = 0) const { return {{round, 0, 0}, 1}; }
  TransferKey part(Round round = 0) const { return {0, vector(round), 0, Coding::up}; }
  TransferKey mean(Round round = 0) const { return {0, vector(round), 1, Coding::down}; }
  bool say(const Message& m) { return bool(exchange_.net().inject(1, 0, m)); }
  bool share(Announcement s) { return say(message(kOverlay, s)); }
  bool piece(TransferKey key, Range range, double weight, Buffer body) {
    return say(message(kTransfer, PlainTransfer::Piece{key, range, weight}, std::move(body)));
  }
  std::size_t size() { return longhaul::testing::saved(exchange_.at(0)).size(); }

  Exchange exchange_;
};

TEST_F(Liar, SharesThatCannotBe) {
  EXPECT_FALSE(share({0, vector(2), 16, false, 1})) << "two rounds ahead";
  EXPECT_FALSE(share({1, vector(), 16, false, 1})) << "an epoch to come";
  EXPECT_FALSE(share({0, {{0, 0, 0}, 0}, 16, false, 1})) << "in another's name";
  EXPECT_FALSE(share({0, vector(), 17, false, 1})) << "another length";
  EXPECT_FALSE(share({0, vector(), 16, true, 1})) << "another coding";
  EXPECT_FALSE(share({0, vector(), 16, false, std::nan("")})) << "no weight";
  EXPECT_FALSE(share({0, vector(), 16, false, -1})) << "a negative weight";
  EXPECT_FALSE(share({0, vector(), 16, false, 1e191})) << "sums of such could not be sent";
  EXPECT_FALSE(share({0, {{0, 0, 7}, 1}, std::uint64_t{1} << 40, false, 1})) << "a huge vector";
  EXPECT_TRUE(share({0, vector(), 16, false, 1}));
  EXPECT_FALSE(share({0, vector(), 16, false, 1})) << "for the second time";
  EXPECT_TRUE(share({0, vector(1), 16, false, 1})) << "of the next round";
}

TEST_F(Liar, PartsThatCannotBe) {
  EXPECT_FALSE(piece(part(), {0, 4}, 1, floats(4))) << "before the share";
  ASSERT_TRUE(share({0, vector(), 16, false, 1}));
  EXPECT_FALSE(piece(part(), {0, 3}, 1, floats(3))) << "not of the cut";
  EXPECT_FALSE(piece(part(), {2, 4}, 1, floats(4))) << "not of the cut";
  EXPECT_FALSE(piece(part(), {16, 4}, 1, floats(4))) << "behind the end";
  EXPECT_FALSE(piece(part(), {std::uint64_t{1} << 40, 4}, 1, floats(4))) << "behind the end";
  EXPECT_FALSE(piece(part(), {8, 4}, 1, floats(4))) << "owned by another";
  EXPECT_FALSE(piece(part(), {0, 4}, 1, floats(5))) << "too long";
  EXPECT_FALSE(piece(part(), {0, 4}, 1, floats(3))) << "too short";
  EXPECT_FALSE(piece(part(), {0, 4}, 1, floats(4, std::nanf("")))) << "not finite";
  EXPECT_FALSE(piece(part(2), {0, 4}, 1, floats(4))) << "two rounds ahead";
  EXPECT_FALSE(piece(part(1), {0, 4}, 1, floats(4))) << "of a round without a share";
  EXPECT_FALSE(piece({0, vector(), 0, Coding::exact}, {0, 4}, 1, floats(4))) << "another coding";
  EXPECT_FALSE(piece({0, vector(), 9, Coding::up}, {0, 4}, 1, floats(4))) << "no phase";
  EXPECT_FALSE(piece({0, {{0, 0, 0}, 0}, 0, Coding::up}, {0, 4}, 1, floats(4)))
      << "in another's name";
  EXPECT_FALSE(piece({0, {{0, 3, 0}, 1}, 0, Coding::up}, {0, 4}, 1, floats(4))) << "of no group";
  EXPECT_FALSE(piece(mean(), {0, 4}, 1, floats(4))) << "a mean of what rank 0 owns";
  EXPECT_FALSE(piece({0, vector(), 2, Coding::exact}, {8, 4}, 1, floats(4))) << "a repair";
  EXPECT_TRUE(piece(part(), {0, 4}, 1, floats(4)));
  EXPECT_FALSE(piece(part(), {0, 4}, 1, floats(4))) << "for the second time";
  EXPECT_TRUE(piece(mean(), {8, 4}, 2, floats(4)));
  EXPECT_FALSE(piece(mean(), {8, 4}, 2, floats(4))) << "for the second time";
  EXPECT_FALSE(piece(mean(1), {8, 4}, 2, floats(4))) << "of a round not begun";
}

TEST_F(Liar, ControlThatCannotBe) {
  EXPECT_FALSE(say(message(kOverlay, Contributors{0, vector(), 2, {3}}))) << "not the root";
  EXPECT_FALSE(say(message(kOverlay, Report{0, 0, {}, {}}))) << "no view has changed";
  EXPECT_FALSE(say(message(kOverlay, Report{1, 0, {}, {}}))) << "of an epoch to come";
  EXPECT_FALSE(say(message(kOverlay, Fetch{0, {0, 0, 0}}))) << "of a mean that is not here";
  Message strange = message(kOverlay, Fetch{0, {0, 0, 0}});
  strange.kind = 99;
  EXPECT_FALSE(say(strange));
  strange.kind = Fetch::kKind;
  strange.head = Payload(longhaul::share(Buffer(5)));
  EXPECT_FALSE(say(strange));
}

TEST_F(Liar, ARefusedMessageHasNoEffect) {
  const std::size_t before = size();
  piece(part(), {0, 4}, 1, floats(4));
  share({0, vector(), 17, false, 1});
  share({0, vector(5), 16, false, 1});
  EXPECT_EQ(size(), before);
  exchange_.run();
  EXPECT_EQ(exchange_.disagreement(), "");
}

// The root sends the sum of all weights.
TEST_F(Liar, NoWeightMakesTheRootFail) {
  ASSERT_TRUE(share({0, vector(), 16, false, kMostOwnWeight}));
  exchange_.run();
  EXPECT_TRUE(exchange_.net().failed.empty());
  EXPECT_GT(exchange_.net().records["refused"], 0) << "parts of another weight";
}

// A node that has begun nothing yet, or a server, hears first from a liar how long vectors are.
TEST(Liars, ALengthThatAPeerSaysFirstStopsNoOther) {
  for (const ExchangeConfig& form : testing::forms()) {
    ExchangeConfig c = form;
    c.workers = 3;
    c.length = 96;
    c.chunk_bytes = 16;
    c.rounds = 1;
    for (const bool longer : {true, false}) {
      Exchange exchange(c);
      const Rank liar = 2, to = c.server ? 3 : 0;
      const Announcement lie{0, {{0, 0, 0}, liar}, c.length + (longer ? 1 : 0), !longer, 1};
      const bool heard = bool(exchange.net().inject(liar, to, message(kOverlay, lie)));
      const auto start = [&](Rank rank) {
        exchange.net().act(rank, [&](Turn& turn) { exchange.at(rank).start(turn); });
        for (int i = 0; i < 20'000 && exchange.net().step(); ++i) {  // hasty deadlines pass again
        }
      };
      start(1);
      start(0);
      start(liar);  // now it says the truth
      EXPECT_TRUE(exchange.net().failed.empty()) << testing::name(c);
      // The coordinator of tsengine has one plan for a vector: it keeps that of the liar.
      for (Rank rank = 0; rank < c.workers && c.kind != "tsengine"; ++rank)
        EXPECT_TRUE(exchange.at(rank).done())
            << testing::name(c) << ": " << exchange.at(rank).overlay().waiting_for();
      if (heard && c.kind != "tsengine")
        EXPECT_GT(exchange.net().records["refused"], 0) << testing::name(c);
    }
  }
}

// It would be summed along trees that this node alone plans.
TEST(Liars, ASharesBeforeTheFirstPlanOfAForestIsRefused) {
  Exchange exchange({.kind = "forest", .workers = 3, .length = 96, .chunk_bytes = 16});
  const Announcement early{0, {{0, 0, 0}, 2}, 96, false, testing::weight_of(2)};
  for (const Rank to : {0u, 1u})
    EXPECT_FALSE(exchange.net().inject(2, to, message(kOverlay, early))) << to;
  exchange.run();
  EXPECT_EQ(exchange.disagreement(), "");
}

// A share of the next round opens its attempt. If that round has new trees, only a liar's share can
// precede their plan.
TEST(Liars, AnEarlyShareKeepsNoOldTrees) {
  testing::FedNode node(2, {.kind = "forest", .learned = true});
  const auto plan = [&](std::uint32_t version, Round start) {
    const std::vector<std::uint16_t> star(4, 2);
    const forest::NewPlan plan{version, start, {{2, star, star, 1}}, 1.0 / version};
    EXPECT_TRUE(node.hear(0, forest::write(plan))) << node.last_error();
    for (const Rank from : {1u, 3u})
      EXPECT_TRUE(node.hear(from, forest::write(forest::PlanAck{version, digest_of(plan)})));
  };
  EXPECT_FALSE(node.share_of(3, 0)) << "before the first plan";
  plan(1, 0);
  node.begin(0);
  ASSERT_TRUE(node.share_of(3, 1));
  EXPECT_FALSE(node.share_of(3, 1)) << "a second one";
  plan(2, 1);
  EXPECT_TRUE(node.share_of(3, 1)) << "of these trees";
  EXPECT_TRUE(node.share_of(1, 0)) << "round 0 goes on";
}

// Whoever owns a piece may say that its mean is there before it has this node's part. If the round
// ended with that, parts that still wait for room would be asked of a vector that is gone.
TEST(Liars, AMeanThatLacksThisNodesPartIsRefused) {
  constexpr std::uint64_t kPieces = 4;  // of each of two workers; two of them fit a link at once
  for (const char* kind : {"direct", "ring", "halving_doubling"}) {
    for (const char* phases : {"streamed", "sequential"}) {
      for (const Round rounds : {1u, 2u}) {
        Exchange exchange({.kind = kind,
                           .phases = phases,
                           .workers = 2,
                           .length = 2 * kPieces * 4,
                           .rounds = rounds,
                           .lossy = true,
                           .chunk_bytes = 16});
        exchange.net().act(0, [&](Turn& turn) { exchange.at(0).start(turn); });
        const CodecKey vector{{0, 0, 0}, 1};
        const auto piece = [&](Phase phase, Coding coding, std::uint64_t index) {
          const TransferKey key{0, vector, std::uint8_t(phase), coding};
          const PlainTransfer::Piece fields{key, {4 * index, 4}, 1};
          return bool(exchange.net().inject(1, 0, message(kTransfer, fields, Buffer(8))));
        };
        ASSERT_TRUE(exchange.net().inject(
            1, 0, message(kOverlay, Announcement{0, vector, 2 * kPieces * 4, false, 1})));
        for (std::uint64_t i = 0; i < kPieces; ++i)
          ASSERT_TRUE(piece(Phase::part, Coding::up, i)) << kind;
        std::uint64_t taken = 0;
        for (std::uint64_t i = 0; i < kPieces; ++i)
          taken += piece(Phase::mean, Coding::down, kPieces + i);
        EXPECT_EQ(taken, 2u) << kind << " " << phases;
        exchange.run();
        EXPECT_EQ(exchange.at(0).outcomes().size(), 1u) << "the true ones that follow count";
      }
    }
  }
}

// Rank 1 speaks to rank 0, who serves and coordinates.
TEST(Liars, NotesThatCannotBeAreRefused) {
  using namespace tsengine;
  Exchange exchange({.kind = "tsengine", .workers = 3, .buckets = 1, .length = 12});
  exchange.net().act(0, [&](Turn& turn) { exchange.at(0).start(turn); });
  const auto say = [&](AttemptMessage note, Rank origin = 1) {
    note.vector = {{0, 0, 0}, origin};
    return bool(exchange.net().inject(1, 0, message(kOverlay, note)));
  };
  const auto sending = [](Xfer xfer, double weight, std::uint8_t counted) {
    return tsengine::write(Sending{0, xfer, false, weight, {counted}});
  };
  EXPECT_FALSE(say(sending(1, 1, 0b10))) << "before the share";
  ASSERT_TRUE(exchange.net().inject(
      1, 0, message(kOverlay, Announcement{0, {{0, 0, 0}, 1}, 12, false, 1})));
  EXPECT_FALSE(say(tsengine::write(Offer{0, 1}))) << "of a mean that is not formed";
  EXPECT_FALSE(say(tsengine::write(Merge{0, 2, 5, 1}))) << "not the coordinator";
  EXPECT_FALSE(say(tsengine::write(Assign{0, 2, 5, 1}))) << "not the coordinator";
  EXPECT_FALSE(say(tsengine::write(Fence{0, 2, 1}))) << "not the coordinator";
  EXPECT_FALSE(say(tsengine::write(Got{0, 1}))) << "thanks for nothing";
  EXPECT_FALSE(say(tsengine::write(Ready{0, 9, true, 1}))) << "a number to come";
  EXPECT_FALSE(say(tsengine::write(Fenced{0, 1, false}))) << "not asked";
  EXPECT_FALSE(say(sending(1, 7, 0b10))) << "a weight unlike its share";
  EXPECT_FALSE(say(sending(1, 1, 0b100))) << "without its own";
  EXPECT_FALSE(say(sending(1, 2, 0b110))) << "with who has not spoken";
  EXPECT_FALSE(say(sending(2, 1, 0b10))) << "not asked of it";
  EXPECT_FALSE(say(sending(1, 1, 0b10), 2)) << "in another's name";
  AttemptMessage strange = sending(1, 1, 0b10);
  strange.kind = 99;
  EXPECT_FALSE(say(strange));
  strange = sending(1, 1, 0b10);
  strange.words.pop_back();
  EXPECT_FALSE(say(strange));
  EXPECT_TRUE(say(sending(1, 1, 0b10)));
  EXPECT_FALSE(say(sending(1, 1, 0b10))) << "for the second time";
}

// Thousands of messages with fields near to right ones, in all forms, at any time.
TEST(Liars, RandomMessagesNeverCrashAndMemoryStaysBounded) {
  constexpr int kMessages = longhaul::testing::kGate ? 500 : 3000;
  std::uint64_t refused = 0;
  for (ExchangeConfig c : testing::forms()) {
    c.length = 8 * 4 * 3;
    c.chunk_bytes = 16;
    c.lossy = true;
    for (c.order = 1; c.order <= 25; c.order += kStride) {
      Exchange exchange(c);
      Random random(c.order, {Purpose::test, 5});
      const Rank ranks = c.workers + (c.server ? 1 : 0);
      for (int i = 0; i < kMessages; ++i) {
        if (i == kMessages / 2) exchange.net().crash(0);
        exchange.step();
        Rank to = Rank(random.below(ranks));
        if (!exchange.net().alive(to)) continue;
        const Rank from = c.workers - 1;
        if (to == from) to = 1;
        const auto small = [&](std::uint64_t most) { return random.below(most); };
        const CodecKey vector{{small(4), std::uint32_t(small(2)), std::uint32_t(small(2))},
                              small(3) > 0 ? from : Rank(small(4))};
        const Epoch epoch = small(3) > 0 ? exchange.net().view(to).epoch : small(3);
        const double weight = small(3) > 0 ? testing::weight_of(from) : double(small(3));
        Message m;
        switch (small(8)) {
          case 0:
            m = message(kOverlay, Announcement{epoch, vector, c.length, small(4) == 0, weight});
            break;
          case 1:
            m = message(kOverlay, Contributors{epoch, vector, weight, {std::uint8_t(small(16))}});
            break;
          case 2:
            m = message(kOverlay, Report{epoch, 0, {}, {{0, small(3)}}});
            break;
          case 3:
            m = message(kOverlay, Fetch{epoch, {small(3), 0, vector.range}});
            break;
          default: {
            const TransferKey key{epoch, vector, std::uint8_t(small(4)), Coding(small(3))};
            Buffer body(small(8) > 0 ? (key.coding == Coding::exact ? 16u : 8u) : small(20));
            for (std::byte& byte : body) byte = std::byte(random.bits32() & 0x3F);
            m = message(kTransfer, PlainTransfer::Piece{key, {4 * small(26), 4}, weight}, body);
          }
        }
        refused += !exchange.net().inject(from, to, std::move(m));
      }
      for (Rank rank = 1; rank < ranks; ++rank) {
        if (!exchange.net().alive(rank)) continue;
        Archive out;
        exchange.at(rank).overlay().archive(out);
        // 4 sequences, each of two rounds of parts, two vectors and what names them.
        EXPECT_LT(out.take().size(), 4 * (2 * 3 + 2 + 2) * 4 * c.length * 3) << testing::name(c);
      }
    }
  }
  EXPECT_GT(refused, 10000 * kMessages / 3000u);
}

}  // namespace
}  // namespace longhaul::overlay

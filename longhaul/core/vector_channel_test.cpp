#include "longhaul/core/vector_channel.h"

#include <cstring>
#include <limits>
#include <numeric>

#include <gtest/gtest.h>

#include "longhaul/base/testing/effort.h"
#include "longhaul/core/testing/machine_net.h"
#include "longhaul/core/testing/narrow.h"
#include "longhaul/core/testing/plain_transfer.h"

namespace longhaul {
namespace {

using channel::Begin;
using testing::MachineNet;
using testing::Narrow;
using testing::PlainTransfer;
using Floats = std::vector<float>;

constexpr std::uint64_t kParameters = 60, kBuffers = 10, kSize = kParameters + kBuffers;
constexpr std::uint32_t kChunk = 64;  // 16 values
const Path kChannel = Path().child(0), kTransfer = kChannel.child(0);

struct Numbered {
  enum class Wish : std::uint8_t { keep, skip, refuse };
  std::uint64_t number = 0;
  Wish wish = Wish::keep;  // what its receiver is to do with it
  LONGHAUL_FIELDS(number, (wish, .max = 2))
};

// Keeps what comes; polls it only while it reads.
class Owner final : public Machine {
 public:
  struct Got {
    Rank from = 0;
    std::uint64_t number = 0;
    VectorContent content;
    void state(Archive& ar) { ar(from, number, content); }
  };
  Owner(const Place& place, const ChannelLimits& limits, bool coded, bool one_view)
      : channel(place, {.stream = "models", .limits = limits, .one_view = one_view},
                std::make_unique<PlainTransfer>(), up(coded), nullptr, admission()) {
    own(channel);
  }
  void on_progress(Turn& turn) override {
    while (reads)
      if (auto one = channel.poll(within(channel, turn)))
        got.push_back({one->from, one->header.number, one->content});
      else
        break;
    while (auto one = channel.lost()) lost.push_back(one->what);
    while (auto one = channel.sent()) sent.push_back(*one);
  }
  VectorHandle send(const std::vector<Rank>& to, Numbered header, VectorContent content,
                    SendOptions options, Turn& turn) {
    return channel.send(to, header, std::move(content), options, within(channel, turn));
  }
  auto with_channel(Turn& turn, auto&& what) { return what(within(channel, turn)); }
  void state(Archive& ar) override { ar(reads, got, lost, sent, asked); }
  std::vector<std::uint64_t> numbers(Rank from) const {
    std::vector<std::uint64_t> found;
    for (const Got& one : got)
      if (one.from == from) found.push_back(one.number);
    return found;
  }

  Narrow* codec = nullptr;
  VectorChannel<Numbered> channel;
  bool reads = true;
  std::vector<Got> got;
  std::vector<VectorChannelBase::LostVector> lost;
  std::vector<VectorChannelBase::SentVector> sent;
  std::uint64_t asked = 0;  // headers that it was to decide on

 private:
  std::unique_ptr<Codec> up(bool coded) {
    auto narrow = std::make_unique<Narrow>();
    codec = coded ? narrow.get() : nullptr;
    return coded ? std::move(narrow) : nullptr;
  }
  VectorChannel<Numbered>::Admission admission() {
    return [this](Rank, const Numbered& header, const ContentShape&) -> Result<bool> {
      ++asked;
      if (header.wish == Numbered::Wish::refuse) return malformed("not wanted");
      return header.wish == Numbered::Wish::keep;
    };
  }
};

std::shared_ptr<const Layout> layout() {
  const std::vector<LayerRange> layers = {
      {"x", {0, kParameters}, {std::int64_t(kParameters)}},
      {"b", {kParameters, kBuffers}, {std::int64_t(kBuffers)}, LayerRange::Role::buffer}};
  return std::make_shared<const Layout>(layers);
}

struct Options {
  std::uint32_t ranks = 3;
  std::uint64_t seed = 1;
  bool coded = false, phantom = false, one_view = false;
  ChannelLimits limits = {.vectors = 4, .bytes = 1500};
};

struct ChannelNet {
  explicit ChannelNet(const Options& o = {})
      : net({.ranks = o.ranks,
             .layout = layout(),
             .seed = o.seed,
             .chunk_bytes = kChunk,
             .phantom = o.phantom},
            [o](const Place& place) {
              return std::make_unique<Owner>(place, o.limits, o.coded, o.one_view);
            }) {}
  Owner& at(Rank rank) { return dynamic_cast<Owner&>(net.machine(rank)); }
  VectorHandle send(Rank from, std::vector<Rank> to, std::uint64_t number, VectorContent content,
                    SendOptions options = {}) {
    VectorHandle handle = 0;
    net.act(from, [&](Turn& turn) {
      handle = at(from).send(to, {number}, std::move(content), options, turn);
    });
    return handle;
  }
  // At one receiver, or at all.
  bool cancel(Rank from, VectorHandle handle, std::optional<Rank> to = {}) {
    bool done = false;
    net.act(from, [&](Turn& turn) {
      done = at(from).with_channel(turn, [&](Turn& t) {
        VectorChannelBase& channel = at(from).channel;
        return to ? channel.cancel(handle, *to, t) : channel.cancel(handle, t);
      });
    });
    return done;
  }
  bool reprioritise(Rank from, VectorHandle handle, std::uint8_t priority) {
    bool done = false;
    net.act(from, [&](Turn& turn) {
      done = at(from).with_channel(turn, [&](Turn& t) {
        return at(from).channel.reprioritise(handle, {.priority = priority}, t);
      });
    });
    return done;
  }
  void read(Rank rank, bool reads) {
    at(rank).reads = reads;
    net.act(rank, [](Turn&) {});
  }
  std::size_t state_size(Rank rank) {
    Archive ar;
    net.machine(rank).archive(ar);
    return ar.take().size();
  }
  // As a lying peer would.
  template <class M>
  Status tell(Rank from, Rank to, const M& message, Path machine = kChannel, Payload body = {}) {
    Message m = longhaul::testing::message_of(message);
    m.machine = machine;
    m.body = std::move(body);
    return net.inject(from, to, m);
  }
  Status piece(Rank from, Rank to, VectorHandle handle, Range range, std::size_t bytes,
               std::uint32_t part = 0, Coding coding = Coding::exact) {
    const PlainTransfer::Piece piece{
        {.epoch = 0, .vector = {{handle, to, part}, from}, .phase = 0, .coding = coding}, range};
    return tell(from, to, piece, kTransfer, Payload(share(Buffer(bytes))));
  }
  MachineNet net;
};

Begin begin_of(std::uint64_t seq, ContentShape shape, Numbered header = {}) {
  const Buffer bytes = to_wire(header);
  Begin begin{.seq = seq, .handle = seq + 1, .group = 0, .shape = shape};
  for (const std::byte b : bytes) begin.header.push_back(std::uint8_t(b));
  return begin;
}

Snapshot numbers(float first, std::uint64_t length = kSize) {
  Floats values(length);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = first + float(i);
  return std::make_shared<const Floats>(std::move(values));
}
VectorContent model(float first) { return VectorContent::values(numbers(first), {0, kSize}); }
VectorContent text(std::size_t size) { return VectorContent::bytes(share(Buffer(size))); }
constexpr ContentShape kModel{ContentKind::values, {0, kSize}, kSize};

TEST(VectorChannel, RoomForModelsIsRoomForTheirHeadersToo) {
  const ChannelLimits limits = ChannelLimits::models(3, *Layout::flat(100));
  EXPECT_EQ(limits.vectors, 24u);
  EXPECT_EQ(limits.bytes, 3u * (400 + channel::kMostHeaderBytes));
  EXPECT_EQ(ContentShape{}.bytes(), 0u) << "a header alone";
}

TEST(VectorChannel, EveryKindOfContentArrivesWhole) {
  ChannelNet job;
  const std::vector<double> doubles = {1.5, -2e300, 3, 4, 5, 6, 7, 8, 9};  // more than a chunk
  const std::vector<IndexedValue> pairs = {{0, 1.5f}, {7, 2}, {29, -3}};
  Buffer odd(201);
  for (std::size_t i = 0; i < odd.size(); ++i) odd[i] = std::byte(i * 37);
  job.send(0, {1}, 0, {});
  job.send(0, {1}, 1, model(1));
  job.send(0, {1}, 2, VectorContent::values(numbers(5, 30), {35, 30}));  // over both roles
  job.send(0, {1}, 3, VectorContent::doubles(doubles));
  job.send(0, {1}, 4, VectorContent::indexed(pairs, {30, 30}));
  job.send(0, {1}, 5, VectorContent::bytes(share(odd)));
  job.net.run(10000);
  EXPECT_TRUE(job.net.errors.empty());
  const auto& got = job.at(1).got;
  ASSERT_EQ(got.size(), 6u);
  EXPECT_EQ(got[0].content.kind(), ContentKind::none);
  EXPECT_EQ(*got[1].content.values(), *numbers(1));
  EXPECT_EQ(*got[2].content.values(), *numbers(5, 30));
  EXPECT_EQ(got[2].content.shape().range, (Range{35, 30}));
  EXPECT_EQ(got[3].content.doubles(), doubles);
  EXPECT_EQ(got[4].content.indexed(), pairs);
  EXPECT_EQ(*got[5].content.bytes(), odd);
}

TEST(VectorChannel, BuffersAndOtherContentsByPassTheCodec) {
  ChannelNet job({.coded = true});
  job.send(0, {1}, 0, model(0.5f));
  job.send(0, {1}, 1, model(0.5f), {.coding = Coding::exact});
  job.send(0, {1}, 2, VectorContent::doubles(std::vector<double>{0.5}));
  job.net.run(10000);
  ASSERT_EQ(job.at(1).got.size(), 3u);
  const Floats& coded = *job.at(1).got[0].content.values();
  EXPECT_EQ(coded[7], 7.f);  // Narrow writes whole numbers
  EXPECT_EQ(coded[kParameters], 0.5f + float(kParameters));
  EXPECT_EQ(*job.at(1).got[1].content.values(), *numbers(0.5f));
  EXPECT_EQ(job.at(1).got[2].content.doubles(), std::vector<double>{0.5});
  ASSERT_EQ(job.at(0).codec->fates.size(), 1u);
  EXPECT_EQ(job.at(0).codec->fates[0].second, Codec::Fate::delivered);
}

TEST(VectorChannel, AVectorToSeveralIsEncodedOnce) {
  ChannelNet job({.ranks = 5, .coded = true});
  job.send(0, {1, 2, 3, 4}, 0, model(0), {.report_sent = true});
  job.send(0, {1, 2, 3, 4}, 1, model(1));
  job.net.run(10000);
  EXPECT_EQ(job.at(0).codec->asked.size(), 2 * 4u);  // 60 parameters in chunks of 16
  EXPECT_EQ(job.at(0).codec->fates.size(), 2u);
  EXPECT_EQ(job.at(0).sent.size(), 4u);
  for (Rank rank = 1; rank < 5; ++rank) {
    ASSERT_EQ(job.at(rank).got.size(), 2u);
    EXPECT_EQ(*job.at(rank).got[1].content.values(), *numbers(1));
  }
}

TEST(VectorChannel, TellsWhatTheReceiverWillRead) {
  ChannelNet job({.coded = true});
  Floats read;
  const Snapshot sent = numbers(0.25f);
  job.net.act(0, [&](Turn&) { read = job.at(0).channel.as_received(*sent, {0, kSize}, 1, {}); });
  job.send(0, {1}, 0, VectorContent::values(sent, {0, kSize}));
  job.net.run(10000);
  EXPECT_EQ(*job.at(1).got[0].content.values(), read);
  EXPECT_NE(read, *sent);
}

TEST(VectorChannel, AVectorToOneselfCostsNothing) {
  ChannelNet job({.coded = true});
  job.send(0, {0, 1}, 0, model(0.5f));
  ASSERT_EQ(job.at(0).got.size(), 1u);
  EXPECT_EQ(*job.at(0).got[0].content.values(), *numbers(0.5f));
  EXPECT_EQ(job.net.bytes(0, 0), 0u);
  EXPECT_GT(job.net.bytes(0, 1), 0u);
}

// Whatever the order of events between the nodes and the priorities.
TEST(VectorChannel, VectorsOfAStreamArriveInOrderAndOnce) {
  for (std::uint64_t seed = 1; seed <= testing::cases(50); ++seed) {
    ChannelNet job({.seed = seed});
    Random random(seed, Stream{});
    for (std::uint64_t i = 0; i < 12; ++i)
      for (Rank from : {0u, 1u, 2u})
        job.send(from, {(from + 1) % 3, (from + 2) % 3}, i, i % 3 == 0 ? text(9) : model(float(i)),
                 {.service = Service{.priority = std::uint8_t(random.below(3) + 2)}});
    job.net.run(100000);
    ASSERT_TRUE(job.net.errors.empty()) << job.net.errors.front();
    std::vector<std::uint64_t> all(12);
    std::iota(all.begin(), all.end(), 0);
    for (Rank rank : {0u, 1u, 2u})
      for (Rank from : {0u, 1u, 2u}) {
        if (from == rank) continue;
        EXPECT_EQ(job.at(rank).numbers(from), all) << seed;
      }
    for (const auto& one : job.at(0).got)
      if (one.content.kind() == ContentKind::values)
        EXPECT_EQ(*one.content.values(), *numbers(float(one.number)));
  }
}

TEST(VectorChannel, WhatIsCancelledHalfWayIsDiscardedAndReported) {
  int half = 0;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    ChannelNet job({.seed = seed, .coded = true});
    const VectorHandle first = job.send(0, {1, 2}, 0, model(1));
    const VectorHandle second = job.send(0, {1, 2}, 1, model(2));
    job.send(0, {1, 2}, 2, model(3));
    for (std::uint64_t i = 0; i < seed / 2; ++i) job.net.step();
    const bool begun = job.at(1).asked > 0;
    EXPECT_TRUE(job.cancel(0, first) || job.at(0).channel.queued(1) < 3);
    job.cancel(0, second);
    EXPECT_FALSE(job.cancel(0, first));
    job.net.run(100000);
    ASSERT_TRUE(job.net.errors.empty()) << job.net.errors.front();
    for (Rank rank : {1u, 2u}) {
      ASSERT_EQ(job.at(rank).got.back().number, 2u);
      EXPECT_EQ(*job.at(rank).got.back().content.values(), *numbers(3));
      for (const auto& lost : job.at(rank).lost) {
        EXPECT_TRUE(lost.cancelled && lost.incoming && lost.peer == 0u);
        half += begun ? 1 : 0;
      }
    }
    EXPECT_TRUE(job.at(0).lost.empty());
    // Each that was encoded is settled, once.
    EXPECT_GE(job.at(0).codec->fates.size(), 1u);
    EXPECT_LE(job.at(0).codec->fates.size(), 3u);
  }
  EXPECT_GT(half, 5);
}

TEST(VectorChannel, WhatIsCancelledAtOneReceiverReachesTheOthers) {
  bool was_begun = false;
  for (int events = 0; events < 25; ++events) {
    ChannelNet job({.coded = true});
    const VectorHandle handle = job.send(0, {1, 2}, 0, model(1));
    const VectorHandle next = job.send(0, {1, 2}, 1, model(2));
    EXPECT_LT(job.at(0).channel.unsent(handle, 2), kParameters + kBuffers);  // the host has some
    EXPECT_EQ(job.at(0).channel.unsent(next, 2), kParameters + kBuffers);
    for (int i = 0; i < events; ++i) job.net.step();
    const std::uint64_t left = job.at(0).channel.unsent(handle, 1);
    was_begun |= left > 0 && left < kParameters + kBuffers;
    EXPECT_EQ(job.cancel(0, handle, 1), left > 0);
    EXPECT_FALSE(job.cancel(0, handle, 1));
    EXPECT_EQ(job.at(0).channel.unsent(handle, 1), 0u);
    job.net.run(100000);
    ASSERT_TRUE(job.net.errors.empty()) << job.net.errors.front();
    const bool got_it = left == 0;
    EXPECT_EQ(job.at(1).numbers(0).size(), got_it ? 2u : 1u);
    EXPECT_EQ(job.at(2).numbers(0), (std::vector<std::uint64_t>{0, 1}));
    EXPECT_EQ(job.at(0).codec->fates.size(), 2u);
  }
  EXPECT_TRUE(was_begun);
}

// At any time, also more than once: nothing changes but the order.
TEST(VectorChannel, PriorityMayChangeWhileAVectorIsUnderWay) {
  constexpr std::uint64_t kSaveEvery = testing::kGate ? 3 : 1;  // events
  for (std::uint64_t seed = 1; seed <= testing::cases(100); ++seed) {
    ChannelNet job({.seed = seed, .coded = seed % 2 == 0});
    Random random(seed, Stream{});
    std::vector<VectorHandle> handles;
    for (std::uint64_t i = 0; i < 5; ++i)
      handles.push_back(job.send(0, {1, 2}, i, model(float(i))));
    while (job.net.step()) {
      if (random.below(4) == 0)
        job.reprioritise(0, handles[random.below(5)], std::uint8_t(random.below(7)));
      if (seed % 5 == 0 && random.below(40) == 0) job.cancel(0, handles[random.below(4)]);
      for (Rank rank : {0u, 1u})
        if ((job.net.events() + rank) % kSaveEvery == 0) job.net.save_and_load(rank);
    }
    ASSERT_TRUE(job.net.errors.empty()) << seed << " " << job.net.errors.front();
    for (Rank rank : {1u, 2u}) {
      ASSERT_EQ(job.at(rank).got.size() + job.at(rank).lost.size() >= 1, true);
      EXPECT_EQ(job.at(rank).got.back().number, 4u);
      if (seed % 5 != 0)
        EXPECT_EQ(job.at(rank).numbers(0), (std::vector<std::uint64_t>{0, 1, 2, 3, 4})) << seed;
    }
  }
}

TEST(VectorChannel, PiecesGoInTheClassOfTheirPriority) {
  ChannelNet job;
  const VectorHandle handle =
      job.send(0, {1}, 0, model(1), {.service = Service{.priority = 2}, .report_sent = true});
  EXPECT_EQ(job.net.in_flight(0, 1, Service{.priority = 2}.service_class()), 3u);  // begin, room
  EXPECT_TRUE(job.reprioritise(0, handle, 6));
  EXPECT_EQ(job.net.in_flight(0, 1, Service{.priority = 6}.service_class()), 3u);
  job.net.run(1000);
  EXPECT_FALSE(job.reprioritise(0, handle, 2));
  ASSERT_EQ(job.at(0).sent.size(), 1u);
  EXPECT_EQ(job.at(0).sent[0].bytes, 4 * kSize);
  EXPECT_EQ(*job.at(1).got.at(0).content.values(), *numbers(1));
}

TEST(VectorChannel, ASenderWaitsForWhatIsUnread) {
  ChannelNet job;
  job.read(1, false);
  for (std::uint64_t i = 0; i < 20; ++i) job.send(0, {1}, i, i < 6 ? VectorContent() : model(1));
  job.net.run(10000);
  EXPECT_EQ(job.at(1).asked, 4u);  // vectors
  EXPECT_EQ(job.at(0).channel.queued(1), 16u);
  EXPECT_EQ(job.at(0).channel.queued(0), 0u);
  EXPECT_EQ(job.at(0).channel.waiting_for(),
            "stream models: rank 1 to read 4 vectors before vector 4");
  job.read(1, true);
  job.read(1, false);
  job.net.run(10000);
  EXPECT_EQ(job.at(1).asked, 8u);
  job.read(1, true);
  job.read(1, false);
  job.net.run(10000);
  EXPECT_EQ(job.at(1).asked, 12u);
  for (int i = 0; i < 20; ++i) {
    job.read(1, true);
    job.net.run(10000);
  }
  EXPECT_EQ(job.at(1).got.size(), 20u);
  EXPECT_EQ(job.at(0).channel.waiting_for(), "");
  ChannelNet bytes({.limits = {.vectors = 100, .bytes = 3 * 4 * kSize}});
  bytes.read(1, false);
  for (std::uint64_t i = 0; i < 20; ++i) bytes.send(0, {1}, i, model(1));
  bytes.net.run(10000);
  EXPECT_EQ(bytes.at(1).asked, 2u);  // with their headers
}

TEST(VectorChannel, WhatTheOwnerLetsPassIsNotKept) {
  ChannelNet job;
  job.net.act(0, [&](Turn& turn) {
    for (std::uint64_t i = 0; i < 9; ++i)
      job.at(0).send({1}, {i, i % 2 == 0 ? Numbered::Wish::keep : Numbered::Wish::skip}, model(1),
                     {}, turn);
  });
  job.net.run(10000);
  EXPECT_EQ(job.at(1).numbers(0), (std::vector<std::uint64_t>{0, 2, 4, 6, 8}));
  EXPECT_TRUE(job.net.errors.empty());
  EXPECT_TRUE(job.at(1).lost.empty());
}

// Nothing is kept of what the owner refuses, and the next may be a genuine one.
TEST(VectorChannel, TheOwnerDecidesBeforeAnythingIsKept) {
  ChannelNet job;
  EXPECT_FALSE(job.tell(0, 1, begin_of(0, kModel, {1, Numbered::Wish::refuse})));
  job.at(1).asked = 0;
  const std::size_t before = job.state_size(1);
  for (int i = 0; i < 50; ++i)
    EXPECT_FALSE(job.tell(0, 1, begin_of(0, kModel, {1, Numbered::Wish::refuse})));
  EXPECT_FALSE(job.piece(0, 1, 1, {0, 16}, 64));
  EXPECT_EQ(job.at(1).asked, 50u);
  EXPECT_EQ(job.state_size(1), before);
  EXPECT_TRUE(job.tell(0, 1, begin_of(0, kModel)));
}

TEST(VectorChannel, WhatCannotBeGenuineIsMalformedAndChangesNothing) {
  ChannelNet job;
  const auto begin = [&](std::uint64_t seq, ContentShape shape, Numbered header = {}) {
    Begin b = begin_of(seq, shape, header);
    b.group = 1;
    return bool(job.tell(0, 1, b));
  };
  EXPECT_FALSE(job.piece(0, 1, 1, {0, 16}, 64));  // of no vector
  EXPECT_FALSE(begin(1, kModel));                 // not the next
  EXPECT_FALSE(begin(0, {ContentKind::values, {0, kSize + 1}, kSize + 1}));
  EXPECT_FALSE(begin(0, {ContentKind::values, {10, kSize}, kSize}));
  EXPECT_FALSE(begin(0, {ContentKind::values, {0, 10}, 11}));
  EXPECT_FALSE(begin(0, {ContentKind::none, {0, 10}, 10}));
  EXPECT_FALSE(begin(0, {ContentKind::bytes, {}, 0}));
  EXPECT_FALSE(begin(0, {ContentKind::bytes, {}, 1500}));  // more than may be unread
  EXPECT_FALSE(begin(0, {ContentKind::bytes, {}, std::uint64_t{1} << 43}));
  EXPECT_FALSE(begin(0, {ContentKind::indexed, {0, 5}, 6}));
  EXPECT_FALSE(job.tell(0, 1, Begin{.handle = 1, .shape = kModel, .header = {1, 2}}));
  Begin coded = begin_of(0, {ContentKind::bytes, {}, 9});
  coded.coding = Coding::up;
  EXPECT_FALSE(job.tell(0, 1, coded));
  EXPECT_FALSE(job.tell(0, 1, channel::Credit{1}));  // nothing was sent
  EXPECT_FALSE(job.tell(0, 1, channel::Cancel{0, 1}));
  ASSERT_TRUE(begin(0, kModel));
  EXPECT_TRUE(begin(0, kModel));                     // a copy
  EXPECT_FALSE(begin(0, kModel, {5}));               // another under its number
  EXPECT_FALSE(begin(1, kModel));                    // a second one at once
  EXPECT_FALSE(job.piece(0, 1, 1, {8, 16}, 64));     // not where vectors are cut
  EXPECT_FALSE(job.piece(0, 1, 1, {0, 8}, 32));      // nor so short
  EXPECT_FALSE(job.piece(0, 1, 1, {0, 16}, 63));     // bytes are missing
  EXPECT_FALSE(job.piece(0, 1, 1, {0, 16}, 68));     // too many
  EXPECT_FALSE(job.piece(2, 1, 1, {0, 16}, 64));     // of one who has not announced it
  EXPECT_FALSE(job.piece(0, 1, 2, {0, 16}, 64));     // of another vector
  EXPECT_FALSE(job.piece(0, 1, 1, {48, 16}, 64));    // over the end of the parameters
  EXPECT_FALSE(job.piece(0, 1, 1, {0, 16}, 64, 1));  // they are no buffers
  EXPECT_FALSE(job.piece(0, 1, 1, {0, 16}, 64, 0, Coding::up));
  for (const std::uint64_t at : {32U, 0U, 16U}) {
    EXPECT_TRUE(job.piece(0, 1, 1, {at, 16}, 64));
    EXPECT_FALSE(job.piece(0, 1, 1, {at, 16}, 64));  // twice
  }
  EXPECT_TRUE(job.piece(0, 1, 1, {48, 12}, 48));
  EXPECT_TRUE(job.at(1).got.empty());
  EXPECT_TRUE(job.piece(0, 1, 1, {kParameters, kBuffers}, 40, 1));
  EXPECT_EQ(job.at(1).got.size(), 1u);
  EXPECT_FALSE(job.piece(0, 1, 1, {0, 16}, 64));  // never-ending
  EXPECT_TRUE(begin(0, kModel));                  // late: it has no effect
  EXPECT_EQ(job.at(1).got.size(), 1u);
  EXPECT_EQ(job.at(1).asked, 1u);
}

TEST(VectorChannel, NumbersThatAreNotFiniteAndPairsOutsideAreMalformed) {
  ChannelNet job;
  const auto try_bytes = [&](std::uint64_t seq, ContentShape shape, const auto& elements) {
    Begin b = begin_of(seq, shape);
    b.group = 1;
    EXPECT_TRUE(job.tell(0, 1, b));
    Buffer bytes(sizeof elements);
    std::memcpy(bytes.data(), &elements, bytes.size());
    const PlainTransfer::Piece piece{
        {.epoch = 0, .vector = {{seq + 1, 1, 2}, 0}, .phase = 0, .coding = Coding::exact},
        {0, bytes.size() / 4}};
    return bool(job.tell(0, 1, piece, kTransfer, Payload(share(std::move(bytes)))));
  };
  const ContentShape one{ContentKind::doubles, {}, 1};
  EXPECT_FALSE(try_bytes(0, one, std::numeric_limits<double>::infinity()));
  EXPECT_TRUE(try_bytes(0, one, 2.0));
  const ContentShape pair{ContentKind::indexed, {10, 5}, 1};
  EXPECT_FALSE(try_bytes(1, pair, IndexedValue{5, 1}));
  EXPECT_FALSE(try_bytes(1, pair, IndexedValue{0, std::numeric_limits<float>::quiet_NaN()}));
  EXPECT_TRUE(try_bytes(1, pair, IndexedValue{4, 1}));
  EXPECT_EQ(job.at(1).got.size(), 2u);
}

// Its receiver would refuse it, and wait for it.
TEST(VectorChannel, AVectorThatIsNotFiniteIsNotSentAndEndsTheRun) {
  const auto infinite = std::make_shared<Floats>(*numbers(1));
  infinite->back() = std::numeric_limits<float>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const VectorContent contents[] = {
      VectorContent::values(infinite, {0, kSize}),
      VectorContent::doubles(std::vector<double>{1, nan}),
      VectorContent::indexed(std::vector{IndexedValue{0, 1}, IndexedValue{1, infinite->back()}},
                             {10, 5})};
  for (const Rank to : {1u, 0u})  // or to itself
    for (const VectorContent& content : contents) {
      ChannelNet job({.coded = true});
      const VectorHandle handle = job.send(0, {to}, 0, content);
      EXPECT_NE(job.net.failed[0].find("stream models"), std::string::npos) << job.net.failed[0];
      EXPECT_FALSE(job.cancel(0, handle)) << "there is nothing to cancel";
      EXPECT_NE(job.send(0, {1}, 1, model(1)), handle);
      job.net.run(10000);
      EXPECT_TRUE(job.net.errors.empty());
      EXPECT_EQ(job.at(1).numbers(0), std::vector<std::uint64_t>{1});
    }
}

// Whatever a peer says, an owner that does not read keeps no more than the limits.
TEST(VectorChannel, MemoryIsBoundedWhateverAPeerSays) {
  ChannelNet job;
  job.read(1, false);
  Random random(7, Stream{});
  std::size_t most = 0;
  for (std::uint64_t i = 0; i < (testing::kGate ? 3000 : 20000); ++i) {
    const std::uint64_t seq = random.below(8);
    const ContentShape shapes[] = {kModel, {ContentKind::bytes, {}, random.below(2000)}, {}};
    Begin b = begin_of(seq, shapes[random.below(3)], {random.below(3)});
    b.group = 1;
    if (random.below(3) == 0) (void)job.tell(0, 1, b);
    const std::uint64_t at = 16 * random.below(5);
    const std::uint64_t length = random.below(2) ? 16 : 10;
    (void)job.piece(0, 1, seq + 1, {at, length}, 4 * length, std::uint32_t(random.below(3)));
    if (random.below(9) == 0) (void)job.tell(0, 1, channel::Cancel{seq, 1});
    if (random.below(9) == 0) (void)job.tell(0, 1, channel::Ask{random.below(1000)});
    job.at(1).lost.clear();
    most = std::max(most, job.state_size(1));
  }
  EXPECT_LE(most, 1500u + 4 * 150u + 800u);  // limits, vectors, the rest
  EXPECT_GT(most, 600u);
}

TEST(VectorChannel, WhatALostPeerLeavesIsDiscardedAndReported) {
  bool half = false;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    ChannelNet job({.seed = seed, .coded = seed % 2 == 0});
    for (std::uint64_t i = 0; i < 6; ++i) {
      job.send(0, {1, 2}, i, model(float(i)));
      job.send(1, {0, 2}, i, model(float(i)));
    }
    for (std::uint64_t i = 0; i < 3 * seed; ++i) job.net.step();
    job.net.crash(1);
    job.net.run(100000);
    EXPECT_EQ(job.at(2).numbers(0).size(), 6u) << seed;
    for (Rank rank : {0u, 2u}) {
      for (const auto& lost : job.at(rank).lost) {
        EXPECT_EQ(lost.peer, 1u);
        EXPECT_FALSE(lost.cancelled);
        half |= lost.incoming;
      }
    }
    EXPECT_TRUE(job.at(0).channel.waiting_for().empty()) << job.at(0).channel.waiting_for();
    const std::uint64_t before = job.at(0).lost.size();
    job.send(0, {1}, 9, model(1));
    EXPECT_EQ(job.at(0).lost.size(), before + 1);  // not in the view
    EXPECT_LT(job.state_size(0) - job.at(0).got.size() * 400, 1500u) << seed;
  }
  EXPECT_TRUE(half);
}

TEST(VectorChannel, APeerThatComesBackStartsAfresh) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    ChannelNet job({.seed = seed});
    for (std::uint64_t i = 0; i < 3; ++i) {
      job.send(0, {1, 2}, i, model(float(i)));
      job.send(1, {0}, i, model(float(i)));
    }
    for (std::uint64_t i = 0; i < 2 * seed; ++i) job.net.step();
    job.net.crash(1);
    if (seed % 2 == 0) job.net.run(100000);
    job.net.come_back(1);
    job.net.run(100000);
    job.at(0).got.clear();
    for (std::uint64_t i = 0; i < 3; ++i) {
      job.send(0, {1}, 10 + i, model(float(i)));
      job.send(1, {0}, 10 + i, model(float(i)));
    }
    job.net.run(100000);
    EXPECT_TRUE(job.net.errors.empty()) << seed << job.net.errors.front();
    EXPECT_EQ(job.at(1).numbers(0), (std::vector<std::uint64_t>{10, 11, 12})) << seed;
    EXPECT_EQ(job.at(0).numbers(1), (std::vector<std::uint64_t>{10, 11, 12})) << seed;
  }
}

// Sent, half sent, received and not yet polled: nothing of it is there in the next view, whose
// vectors arrive in order.
TEST(VectorChannel, OfOneViewNothingOfTheViewBeforeArrives) {
  std::size_t before = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    ChannelNet job({.seed = seed, .coded = seed % 2 == 0, .one_view = true});
    if (seed % 3 == 0) job.read(2, false);
    for (std::uint64_t i = 0; i < 4; ++i) {
      job.send(0, {1, 2}, i, model(float(i)));
      job.send(2, {0}, i, model(float(i)));
    }
    for (std::uint64_t i = 0; i < 3 * seed; ++i) job.net.step();
    job.net.crash(1);
    std::map<Rank, std::size_t> there;
    while (job.net.view(0).has(1) || job.net.view(2).has(1)) {
      for (const Rank rank : {0u, 2u})
        if (job.net.view(rank).has(1)) there[rank] = job.at(rank).got.size();
      ASSERT_TRUE(job.net.step());
    }
    for (std::uint64_t i = 0; i < 3; ++i) {
      job.send(0, {2}, 10 + i, model(float(i)));
      job.send(2, {0}, 10 + i, model(float(i)));
    }
    job.read(2, true);
    job.net.run(100000);
    EXPECT_TRUE(job.net.errors.empty()) << seed << job.net.errors.front();
    for (const Rank rank : {0u, 2u}) {
      std::vector<std::uint64_t> got = job.at(rank).numbers(2 - rank);
      before += there[rank];
      got.erase(got.begin(), got.begin() + std::ptrdiff_t(there[rank]));
      EXPECT_EQ(got, (std::vector<std::uint64_t>{10, 11, 12})) << seed << " at " << rank;
    }
  }
  EXPECT_GT(before, 0u);
}

TEST(VectorChannel, PhantomsHaveSizesAndNoNumbers) {
  ChannelNet job({.phantom = true});
  const auto nothing = std::make_shared<const Floats>();
  job.send(0, {1}, 0, VectorContent::values(nothing, {0, kSize}));
  job.send(0, {1}, 1, VectorContent::phantom({ContentKind::bytes, {}, 333}));
  job.send(0, {1}, 2, VectorContent::phantom({ContentKind::doubles, {}, 40}));
  job.net.run(10000);
  EXPECT_TRUE(job.net.errors.empty());
  ASSERT_EQ(job.at(1).got.size(), 3u);
  EXPECT_TRUE(job.at(1).got[0].content.values()->empty());
  EXPECT_EQ(job.at(1).got[1].content.shape().size, 333u);
  EXPECT_TRUE(job.at(1).got[2].content.doubles().empty());
  EXPECT_GT(job.net.bytes(0, 1), 4 * kSize + 333 + 320);
  EXPECT_LT(job.state_size(1), 1000u);
}

TEST(VectorChannel, SaysWhomAndWhatItWaitsFor) {
  ChannelNet job;
  job.send(0, {1}, 0, model(1));
  EXPECT_EQ(job.at(0).channel.waiting_for(), "stream models: rank 1 to take vector 0 of its link");
  ASSERT_TRUE(job.tell(2, 1, begin_of(0, kModel)));
  EXPECT_EQ(job.at(1).channel.waiting_for(),
            "stream models: rank 2 to send the rest of its vector 0, of which 0 pieces are here");
}

// Sends, cancels, priorities, owners that do not read, peers that are lost and come back, in any
// order, saved and loaded after every event: each vector arrives once, in order and whole, or is
// reported.
struct Chaos {
  explicit Chaos(std::uint64_t of)
      : seed(of),
        random(of, Stream{}),
        job({.ranks = 4, .seed = of, .coded = of % 2 == 0, .one_view = of % 3 == 0}) {}

  static constexpr std::uint64_t kSaveEvery = testing::kGate ? 11 : 1;  // events

  void act() {
    const auto from = Rank(random.below(4));
    if (!job.net.alive(from)) return;
    if (random.below(3) == 0 && number < 60) {
      std::vector<Rank> to;
      for (Rank rank = 0; rank < 4; ++rank)
        if (rank != from && random.below(2) == 0) to.push_back(rank);
      const std::uint64_t kind = random.below(4);
      const VectorContent content = kind == 0   ? VectorContent()
                                    : kind == 1 ? text(1 + random.below(300))
                                                : model(float(number));
      SendOptions options{.service = Service{.priority = std::uint8_t(random.below(3) + 1)}};
      if (!to.empty()) handles[from].push_back(job.send(from, to, number++, content, options));
    }
    if (!handles[from].empty()) {
      const VectorHandle one = handles[from][random.below(handles[from].size())];
      if (random.below(8) == 0) job.reprioritise(from, one, std::uint8_t(random.below(6)));
      if (random.below(20) == 0) job.cancel(from, one);
      if (random.below(20) == 0) job.cancel(from, one, Rank(random.below(4)));
    }
    if (random.below(10) == 0) job.read(from, random.below(2) == 0);
  }
  void lose_or_return() {
    const auto rank = Rank(random.below(4));
    if (!job.net.alive(rank)) {
      job.net.come_back(rank);
      handles[rank].clear();
    } else if (random.below(2) == 0 && job.net.alive((rank + 1) % 4)) {
      job.net.crash(rank);
    }
  }
  void run() {
    for (std::uint64_t i = 0; i < 1500; ++i) {
      if (random.below(6) == 0) act();
      if (random.below(150) == 0) lose_or_return();
      job.net.step();
      for (Rank rank = 0; rank < 4; ++rank)
        if (job.net.alive(rank) && (i + rank) % kSaveEvery == 0) job.net.save_and_load(rank);
    }
    for (Rank rank = 0; rank < 4; ++rank)
      if (job.net.alive(rank)) job.read(rank, true);
    job.net.run(100000);
  }
  void check() {
    ASSERT_TRUE(job.net.errors.empty()) << seed << " " << job.net.errors.front();
    for (Rank rank = 0; rank < 4; ++rank) {
      if (!job.net.alive(rank)) continue;
      EXPECT_EQ(job.at(rank).channel.waiting_for(), "") << seed;
      for (Rank from = 0; from < 4; ++from) {
        const std::vector<std::uint64_t> got = job.at(rank).numbers(from);
        EXPECT_TRUE(std::is_sorted(got.begin(), got.end())) << seed;
        EXPECT_EQ(std::adjacent_find(got.begin(), got.end()), got.end()) << seed;
        total += got.size();
      }
      for (const auto& one : job.at(rank).got)
        if (one.content.kind() == ContentKind::values)
          EXPECT_EQ(*one.content.values(), *numbers(float(one.number))) << seed;
    }
  }
  const std::uint64_t seed;
  Random random;
  ChannelNet job;
  std::map<Rank, std::vector<VectorHandle>> handles;
  std::uint64_t number = 0, total = 0;
};

TEST(VectorChannel, AnyOrderOfEventsSavedAndLoadedAfterEach) {
  constexpr std::uint64_t kSeeds = testing::kGate ? 3 : testing::kStride > 1 ? 10 : 40;
  std::uint64_t total = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Chaos chaos(seed);
    chaos.run();
    chaos.check();
    if (HasFatalFailure()) return;
    total += chaos.total;
  }
  EXPECT_GT(total, 25 * kSeeds);
}

// With nobody lost and nothing cancelled all that was sent arrives.
TEST(VectorChannel, SavingAndLoadingAfterEveryEventEqualsGoingOn) {
  const auto run = [](std::uint64_t seed, bool saves) {
    ChannelNet job({.seed = seed, .coded = true});
    for (std::uint64_t i = 0; i < 6; ++i) {
      job.send(0, {1, 2}, i, model(float(i)),
               {.service = Service{.priority = std::uint8_t(i % 2)}});
      job.send(1, {0}, i, text(100));
    }
    while (job.net.step())
      for (Rank rank = 0; saves && rank < 3; ++rank) job.net.save_and_load(rank);
    std::vector<Buffer> states;
    for (Rank rank = 0; rank < 3; ++rank) {
      Archive ar;
      job.net.machine(rank).archive(ar);
      states.push_back(ar.take());
      EXPECT_EQ(job.at(rank).got.size(), 6u);
    }
    return std::pair(states, job.net.events());
  };
  for (std::uint64_t seed = 1; seed <= testing::cases(10); ++seed)
    EXPECT_EQ(run(seed, false), run(seed, true));
}

}  // namespace
}  // namespace longhaul

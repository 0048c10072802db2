#include "longhaul/sync/server/courier.h"

#include <gtest/gtest.h>

#include "longhaul/codec/error_feedback.h"
#include "longhaul/codec/int8.h"
#include "longhaul/core/testing/machine_net.h"
#include "longhaul/sync/testing/one_node.h"
#include "longhaul/transfer/reliable.h"

namespace longhaul::sync::server {
namespace {

using longhaul::testing::MachineNet;
using testing::OneNode;
using Kind = Label::Kind;
using Floats = std::vector<float>;

constexpr std::uint64_t kParameters = 700, kBuffers = 40;
const Path kTransfer = Path().child(0).child(0);

// Rank 0 is the server. Keeps what comes.
class Post final : public Machine, public Reader {
 public:
  Post(const Place& place, bool lossy)
      : courier_(place, 0, std::make_unique<transfer::Reliable>(place), up(lossy),
                 lossy ? std::make_unique<codec::Int8>() : nullptr, *this) {
    own(courier_);
  }
  static std::unique_ptr<Codec> up(bool lossy) {
    if (!lossy) return nullptr;
    return std::make_unique<codec::ErrorFeedback>(std::make_unique<codec::Int8>());
  }
  Status admit(Rank, const Label& label) override {
    return label.version == 99 ? Status(malformed("not now")) : Status(Ok{});
  }
  void on_progress(Turn&) override {
    while (auto letter = courier_.arrived()) got.push_back(*std::move(letter));
  }
  void send(Rank to, Kind kind, Snapshot values, Turn& turn, std::uint64_t version = 0) {
    Turn below = within(courier_, turn);
    Label label{.kind = kind, .version = version};
    label.urgency = urgency;
    courier_.send({to, label, std::move(values)}, below);
  }
  void state(Archive& ar) override { ar(got); }

  Courier courier_;
  std::deque<Letter> got;
  std::uint8_t urgency = 0;
};

std::shared_ptr<const Layout> layout() {
  const std::vector<LayerRange> layers = {
      {"x", {0, kParameters}, {std::int64_t(kParameters)}},
      {"b", {kParameters, kBuffers}, {std::int64_t(kBuffers)}, LayerRange::Role::buffer}};
  return std::make_shared<const Layout>(layers);
}

struct Net {
  explicit Net(bool lossy = false, std::uint64_t seed = 1, bool phantom = false)
      : net({.ranks = 3, .layout = layout(), .seed = seed, .chunk_bytes = 512, .phantom = phantom},
            [lossy](const Place& place) { return std::make_unique<Post>(place, lossy); }) {}
  Post& post(Rank rank) { return dynamic_cast<Post&>(net.machine(rank)); }
  void send(Rank from, Rank to, Kind kind, Snapshot values, std::uint64_t version = 0) {
    net.act(from, [&](Turn& turn) { post(from).send(to, kind, values, turn, version); });
  }
  // A label out of nowhere.
  Status label(Rank from, Rank to, Label label) {
    Message message;
    message.kind = Label::kKind;
    message.machine = Path().child(0);
    message.head = Payload(share(to_wire(label)));
    return net.inject(from, to, message);
  }
  Status piece(Rank from, Rank to, Label of, Range range, std::uint32_t part = 0) {
    transfer::Reliable::Piece piece{{.epoch = 0,
                                     .vector = {of.seq, to, part, from},
                                     .phase = std::uint8_t(of.goes_up() ? 0 : 1),
                                     .coding = part == 1 ? Coding::exact : Coding::up},
                                    range,
                                    0};
    Message message;
    message.kind = transfer::Reliable::Piece::kKind;
    message.machine = kTransfer;
    message.head = Payload(share(to_wire(piece)));
    message.body = Payload(share(Buffer(4 * range.length)));
    return net.inject(from, to, message);
  }
  MachineNet net;
};

Snapshot numbers(float first) {
  Floats values(kParameters + kBuffers);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = first + float(i) * 0.01f;
  return std::make_shared<const Floats>(std::move(values));
}

// Whatever the order of events between the nodes: each letter once, in order, whole.
// mutant: longhaul/sync/server/courier.cpp
//   - while (!outbox.under_way && !outbox.letters.empty()) {
//   + while (!outbox.letters.empty()) {
TEST(Courier, LettersArriveInOrderAndWholeBothWays) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Net job(false, seed);
    for (int i = 0; i < 3; ++i) {
      for (Rank worker : {1u, 2u}) {
        job.send(worker, 0, Kind::push, numbers(float(worker * 10 + unsigned(i))));
        job.send(worker, 0, Kind::pull, nullptr);
        job.send(0, worker, Kind::model, numbers(float(100 * i)), std::uint64_t(i));
      }
      for (Rank rank : {0u, 1u, 2u}) job.net.save_and_load(rank);
    }
    job.net.run(100000);
    EXPECT_TRUE(job.net.errors.empty()) << job.net.errors.front();
    ASSERT_EQ(job.post(0).got.size(), 12u);
    std::map<Rank, int> next;
    for (const Letter& letter : job.post(0).got) {
      const int number = next[letter.peer]++;
      EXPECT_EQ(letter.label.seq, std::uint64_t(number));
      EXPECT_EQ(letter.label.kind, number % 2 == 0 ? Kind::push : Kind::pull);
      if (number % 2 == 0) {
        EXPECT_EQ(*letter.values, *numbers(float(letter.peer * 10 + unsigned(number) / 2)));
      }
    }
    for (Rank worker : {1u, 2u}) {
      ASSERT_EQ(job.post(worker).got.size(), 3u);
      EXPECT_EQ(*job.post(worker).got.back().values, *numbers(200));
    }
  }
}

// Updates go in the codec, what is lost is fed back; buffers, the first and last model are exact.
// mutant: longhaul/sync/server/courier.cpp
//   - coder_.settle(gone.key.vector, gone.key.coding, Codec::Fate::delivered);
//   + coder_.settle(gone.key.vector, gone.key.coding, Codec::Fate::abandoned);
// mutant: longhaul/sync/server/courier.cpp
//   - if (range == kBuffers) return Coding::exact;
//   +
// mutant: longhaul/sync/server/courier.cpp
//   - return label.kind == Label::Kind::model ? Coding::down : Coding::exact;
//   + return label.kind == Label::Kind::push ? Coding::exact : Coding::down;
TEST(Courier, ErrorsOfUpdatesAreFedBackAndTheRestIsExact) {
  Net job(true);
  for (int i = 0; i < 4; ++i) job.send(1, 0, Kind::push, numbers(0.25f));
  job.send(1, 0, Kind::start, numbers(3));
  job.send(0, 1, Kind::model, numbers(0.3f));
  job.send(0, 1, Kind::last, numbers(0.7f));
  job.net.run(100000);
  ASSERT_EQ(job.post(0).got.size(), 5u);
  const Floats sent = *numbers(0.25f);
  double apart = 0, step = 0;
  for (std::size_t i = 0; i < kParameters; ++i) {
    double sum = 0;
    for (int k = 0; k < 4; ++k) sum += double((*job.post(0).got[std::size_t(k)].values)[i]);
    apart = std::max(apart, std::abs(sum - 4 * double(sent[i])));
    step = std::max(step, std::abs(double((*job.post(0).got[0].values)[i]) - double(sent[i])));
  }
  EXPECT_GT(step, 0);
  EXPECT_LE(apart, 8.0 / 254);  // of one vector, not of four
  const Floats& last = *job.post(0).got[3].values;
  EXPECT_TRUE(std::equal(sent.begin() + kParameters, sent.end(), last.begin() + kParameters));
  EXPECT_EQ(*job.post(0).got[4].values, *numbers(3));
  EXPECT_NE(*job.post(1).got[0].values, *numbers(0.3f));
  EXPECT_EQ(*job.post(1).got[1].values, *numbers(0.7f));
}

// mutant: longhaul/sync/server/courier.cpp
//   - std::copy(got->begin(), got->end(), read.begin() + std::ptrdiff_t(at.offset));
//   + (void)got;
TEST(Courier, TellsWhatTheServerWillRead) {
  Net job(true);
  const Snapshot values = numbers(0.4f);
  Floats read;
  job.net.act(1, [&](Turn&) {
    read = job.post(1).courier_.as_read(std::span(*values).first(kParameters));
  });
  job.send(1, 0, Kind::push, values);
  job.net.run(100000);
  const Floats& got = *job.post(0).got[0].values;
  EXPECT_TRUE(std::equal(read.begin(), read.end(), got.begin()));
  EXPECT_FALSE(std::equal(read.begin(), read.end(), values->begin()));
}

// mutant: longhaul/sync/server/courier.cpp
//   - if (letter.peer == turn.self()) return arrived_.push_back(std::move(letter));
//   + if (letter.peer == turn.self()) return;
TEST(Courier, ALetterToOneselfCostsNothing) {
  Net job(true);
  job.send(0, 0, Kind::push, numbers(1));
  ASSERT_EQ(job.post(0).got.size(), 1u);
  EXPECT_EQ(*job.post(0).got[0].values, *numbers(1));
  EXPECT_EQ(job.net.messages(), 0u);
}

TEST(Courier, PhantomsHaveSizesAndNoNumbers) {
  Net job(false, 1, /*phantom=*/true);
  job.send(1, 0, Kind::push, std::make_shared<const Floats>());
  job.net.run(100000);
  ASSERT_EQ(job.post(0).got.size(), 1u);
  EXPECT_TRUE(job.post(0).got[0].values->empty());
  EXPECT_GT(job.net.bytes(1, 0), 4 * (kParameters + kBuffers));
}

// What cannot be genuine is malformed and changes nothing.
// mutant: longhaul/sync/server/courier.cpp
//   - if (inbox.open || label.seq != inbox.next)
//   + if (label.seq != inbox.next)
// mutant: longhaul/sync/server/courier.cpp
//   - if (!is_cut || inbox.there.contains(range.offset))
//   + if (!is_cut)
// mutant: longhaul/sync/server/courier.cpp
//   - if (!is_cut || inbox.there.contains(range.offset))
//   + if (inbox.there.contains(range.offset))
// mutant: longhaul/sync/server/courier.cpp
//   - if (label.carries ? !may_carry(label.kind) : must_carry(label.kind))
//   + if (false)
// mutant: longhaul/sync/server/courier.cpp
//   - LH_TRY(reader_.admit(from, label));
//   +
TEST(Courier, OnlyTheNextLabelAndEachPieceOfItOnceAreTaken) {
  Net job;
  Label push{.kind = Kind::push, .carries = true};
  EXPECT_FALSE(job.piece(1, 0, push, {0, 128}));  // of no letter
  Label later = push;
  later.seq = 1;
  EXPECT_FALSE(job.label(1, 0, later));
  EXPECT_FALSE(job.label(1, 0, {.kind = Kind::model, .carries = true}));  // the wrong way
  EXPECT_FALSE(job.label(2, 1, {.kind = Kind::model, .carries = true}));  // not of the server
  EXPECT_FALSE(job.label(1, 0, {.kind = Kind::push}));                    // without its vector
  EXPECT_FALSE(job.label(1, 0, {.kind = Kind::pull, .carries = true}));
  Label unwanted = push;
  unwanted.version = 99;
  EXPECT_FALSE(job.label(1, 0, unwanted));
  ASSERT_TRUE(job.label(1, 0, push));
  EXPECT_FALSE(job.label(1, 0, push));               // a second vector at once
  EXPECT_FALSE(job.piece(1, 0, push, {64, 128}));    // not where a vector is cut
  EXPECT_FALSE(job.piece(1, 0, push, {0, 64}));      // nor so short
  EXPECT_FALSE(job.piece(2, 0, push, {0, 128}));     // of one who has sent no label
  EXPECT_FALSE(job.piece(1, 0, later, {0, 128}));    // of another letter
  EXPECT_FALSE(job.piece(1, 0, push, {0, 128}, 1));  // not of the buffers
  for (std::uint64_t at = 0; at < 640; at += 128) EXPECT_TRUE(job.piece(1, 0, push, {at, 128}));
  EXPECT_FALSE(job.piece(1, 0, push, {512, 128}));  // twice
  EXPECT_FALSE(job.piece(1, 0, push, {640, 100}));  // over the end of the parameters
  EXPECT_TRUE(job.piece(1, 0, push, {640, 60}));
  EXPECT_TRUE(job.post(0).got.empty());
  EXPECT_TRUE(job.piece(1, 0, push, {kParameters, kBuffers}, 1));
  EXPECT_EQ(job.post(0).got.size(), 1u);
  EXPECT_FALSE(job.label(1, 0, push));  // it has been
}

// Whenever the server says how urgent an update is: nothing changes but the order.
// mutant: longhaul/sync/server/courier.cpp
//   - if (letter.label.seq >= how.clock || letter.label.urgency == how.urgency) return;
//   + if (letter.label.urgency == how.urgency) return;
// mutant: longhaul/sync/server/courier.cpp
//   - begin_range(letter, range, {whole.end() - left, left}, turn);
//   + begin_range(letter, range, whole, turn);
TEST(Courier, UrgencyMayChangeWhileAnUpdateIsUnderWay) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    Net job(seed % 2 == 0, seed);
    Random random(seed, Stream{});
    for (int i = 0; i < 3; ++i) {
      job.post(1).urgency = std::uint8_t(random.below(3));
      job.send(1, 0, Kind::push, numbers(float(i)));
      while (job.post(0).got.size() <= std::size_t(i) && job.net.step()) {
        if (random.below(3) > 0) continue;
        job.post(0).urgency = std::uint8_t(random.below(3));
        job.send(0, 1, Kind::urge, nullptr);
        job.net.save_and_load(1);
      }
    }
    job.net.run(100000);
    ASSERT_TRUE(job.net.errors.empty()) << seed << job.net.errors.front();
    ASSERT_EQ(job.post(0).got.size(), 3u) << seed;
    EXPECT_NEAR((*job.post(0).got[2].values)[kParameters - 1], (*numbers(2))[kParameters - 1], 0.1);
  }
}

// What is sent is of the class of its urgency: hosts send lower classes when higher ones are empty.
// mutant: longhaul/sync/server/courier.cpp
//   - .service = service_of(letter.label)},
//   + .service = {}},
// mutant: longhaul/sync/server/courier.cpp
//   - if (label.kind == Label::Kind::urge) urge(label, turn);
//   +
TEST(Courier, FedGSyncInvariant7_SurplusGoesInALowerClass) {
  OneNode node(700, {}, {{"a"}, {"b"}});
  node.place.self = 1;
  node.place.chunk_bytes = 512;
  Post post(node.place, false);
  post.urgency = 2;
  post.send(0, Kind::push, std::make_shared<const Floats>(700), node.turn);
  const auto classes = [&] {
    std::vector<unsigned> found;
    for (const Send& send : node.done<Send>()) found.push_back(send.service.priority);
    node.context.actions.clear();
    return found;
  };
  const unsigned normal = Service{}.priority;
  EXPECT_EQ(classes(),
            std::vector<unsigned>(3, normal - 2));  // the label, and what there is room for
  Label urge{.kind = Kind::urge};
  urge.clock = 1;
  Message message;
  message.kind = Label::kKind;
  message.head = Payload(share(to_wire(urge)));
  ASSERT_TRUE(post.courier_.on_message(0, message, node.turn));
  EXPECT_EQ(classes(), std::vector<unsigned>(2, normal));
}

// Of a peer that is lost nothing is kept.
// mutant: longhaul/sync/server/courier.cpp
//   - std::erase_if(in_, is_gone);
//   +
// mutant: longhaul/sync/server/courier.cpp
//   - std::erase_if(out_, is_gone);
//   +
TEST(Courier, ForgetsWhoIsLost) {
  Net job;
  const Label push{.kind = Kind::push, .carries = true};
  ASSERT_TRUE(job.label(1, 0, push));
  ASSERT_TRUE(job.piece(1, 0, push, {0, 128}));
  for (int i = 0; i < 50; ++i) job.send(0, 1, Kind::model, numbers(1));
  job.net.crash(1);
  job.net.run(100000);
  Archive ar;
  job.net.machine(0).archive(ar);
  EXPECT_LT(ar.take().size(), 200u);
}

}  // namespace
}  // namespace longhaul::sync::server

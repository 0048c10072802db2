// Links over streams in memory: what a link does with its connections, apart from delivery.
#include "longhaul/net/link.h"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>

#include "longhaul/base/testing/archived.h"
#include "longhaul/base/testing/result.h"

namespace longhaul::net {
namespace {

using namespace std::chrono_literals;

// What is written to one end can be read at the other, when the test says so.
struct Wire {
  std::string bytes;
  std::size_t gone = 0;  // of them, to the reader
  std::span<std::byte> into;
  Stream::Done reader;
  bool closed = false;

  void pump() {
    const bool is_there = bytes.size() - gone >= into.size();
    if (!reader || (!is_there && !closed)) return;
    const auto done = std::exchange(reader, nullptr);
    if (!is_there) return done(unavailable("closed"));
    if (!into.empty()) std::memcpy(into.data(), bytes.data() + gone, into.size());
    gone += into.size();
    if (gone == bytes.size()) bytes.clear(), gone = 0;
    done(Ok{});
  }
};

class MemoryStream final : public Stream {
 public:
  MemoryStream(std::shared_ptr<Wire> in, std::shared_ptr<Wire> out)
      : in_(std::move(in)), out_(std::move(out)) {}
  void read(std::span<std::byte> into, Done done) override {
    in_->into = into;
    in_->reader = std::move(done);
  }
  void read_some(std::span<std::byte>, DoneSome) override { FAIL(); }
  void write(Parts parts, Done done) override {
    for (const auto part : parts)
      out_->bytes.append(reinterpret_cast<const char*>(part.data()), part.size());
    written_.push_back(std::move(done));
  }
  void close() override { in_->closed = out_->closed = true; }
  std::uint64_t received() const override { return 0; }
  std::uint64_t sent() const override { return 0; }
  bool closed_by_peer() const override { return in_->closed; }
  std::string peer() const override { return "memory"; }
  // Writes end when the test says so, too.
  bool finish_write() {
    if (written_.empty()) return false;
    const auto done = std::move(written_.front());
    written_.pop_front();
    done(Ok{});
    return true;
  }
  void forget() {
    in_->reader = nullptr;
    written_.clear();
  }

 private:
  std::shared_ptr<Wire> in_, out_;
  std::deque<Done> written_;
};

struct Side final : Link::Events {
  explicit Side(std::uint32_t streams, bool comes_back = false)
      : link(1, streams, *this, comes_back) {}
  void on_message(Rank, const Message& m) override { got.push_back(m.kind); }
  void on_writable(Rank, unsigned) override { ++writable; }
  void on_disconnected(Rank, std::uint32_t stream, const Error& why) override {
    ended.push_back(std::to_string(stream) + ": " + why.what);
  }
  bool on_checkpoint(Rank, std::uint64_t number) override {
    asked = number;
    if (takes_at_once) link.announce({number, number - 1});
    return takes_at_once;
  }
  std::vector<std::uint16_t> got;
  std::vector<std::string> ended;
  int writable = 0;
  std::uint64_t asked = 0;
  bool takes_at_once = true;
  Link link;
};

// Two links and the streams between them.
struct Two {
  explicit Two(std::uint32_t streams = 1, bool b_comes_back = false)
      : a(streams), b(streams, b_comes_back) {
    for (std::uint32_t i = 0; i <= streams; ++i) join(i);
  }
  // What waits for a stream holds the connection, and with it the stream.
  ~Two() {
    for (MemoryStream* stream : streams) stream->forget();
  }
  void join(std::uint32_t stream) {
    auto there = std::make_shared<Wire>(), back = std::make_shared<Wire>();
    auto left = std::make_unique<MemoryStream>(back, there);
    auto right = std::make_unique<MemoryStream>(there, back);
    wires.insert(wires.end(), {there, back});
    streams.insert(streams.end(), {left.get(), right.get()});
    attach(a, std::move(left), hello(stream, b));
    attach(b, std::move(right), hello(stream, a));
  }
  static Hello hello(std::uint32_t stream, const Side& from) {
    return {.site = "x",
            .process = 5,
            .stream = stream,
            .checkpointed = from.link.checkpointed(),
            .have = from.link.have()};
  }
  void attach(Side& side, std::unique_ptr<MemoryStream> stream, const Hello& hello) {
    const auto connection = Connection::make(std::move(stream), side_owner);
    connections.push_back(connection);
    const Status good = side.link.attach(connection, hello, now);
    ASSERT_TRUE(good) << good.error().what;
    connection->start();
  }
  void open() {
    a.link.open(0s);
    b.link.open(0s);
  }
  // Until nothing moves any more.
  void run() {
    for (int i = 0; i < 200; ++i) {
      for (MemoryStream* stream : streams) stream->finish_write();
      for (const auto& wire : std::vector(wires)) wire->pump();
    }
  }
  struct Nobody final : Connection::Owner {
    void on_frame(Connection&, Frame&&) override {}
    std::optional<Frame> to_write(Connection&) override { return std::nullopt; }
    void on_written(Connection&, const Frame&) override {}
    void on_end(Connection&, const Error&) override {}
  };
  Nobody side_owner;
  Time now{0};  // when connections are made
  std::vector<std::shared_ptr<Wire>> wires;
  std::vector<MemoryStream*> streams;
  std::vector<std::shared_ptr<Connection>> connections;
  Side a, b;
};

Message numbered(std::uint16_t kind, std::size_t body = 0) {
  Message m;
  m.kind = kind;
  if (body > 0) m.body = Payload(share(Buffer(body)));
  return m;
}

TEST(Link, NothingIsReadBeforeItIsOpen) {
  Two two;
  two.a.link.open(0s);
  two.a.link.send(numbered(1), kControl);
  two.run();
  EXPECT_TRUE(two.b.got.empty());
  two.b.link.open(0s);
  two.run();
  EXPECT_EQ(two.b.got, (std::vector<std::uint16_t>{1}));
}

TEST(Link, EachBulkMessageMakesRoomOnceAlsoWhenWrittenAgain) {
  Two two(2);
  two.open();
  for (std::uint16_t i = 0; i < 6; ++i) two.a.link.send(numbered(i, 100), {});
  for (int i = 0; i < 4; ++i) two.streams[0]->finish_write();
  two.connections[0]->end(unavailable("cut"));
  two.run();
  EXPECT_EQ(two.a.writable, 6);
  two.join(0);
  two.run();
  EXPECT_EQ(two.a.writable, 6);
  EXPECT_EQ(two.b.got, (std::vector<std::uint16_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(two.a.ended, (std::vector<std::string>{"0: cut"}));
}

TEST(Link, ControlHasAStreamOfItsOwn) {
  Two two;
  two.open();
  two.run();
  two.a.link.send(numbered(1), kControl);
  two.a.link.send(numbered(2), kControl);  // waits for the one before it, though the other is idle
  EXPECT_TRUE(two.wires[0]->bytes.empty());
  for (std::uint16_t i = 3; i < 6; ++i) two.a.link.send(numbered(i, 100), {});
  for (int i = 0; i < 20; ++i) {
    two.streams[2]->finish_write();
    two.wires[2]->pump();
  }
  EXPECT_EQ(two.b.got, (std::vector<std::uint16_t>{1, 2}));
  // Of the bulk only what the first stream has written is there.
  for (int i = 0; i < 5; ++i) two.wires[0]->pump();
  EXPECT_EQ(two.b.got, (std::vector<std::uint16_t>{1, 2, 3}));
  two.run();
  EXPECT_EQ(two.b.got, (std::vector<std::uint16_t>{1, 2, 3, 4, 5}));
}

// The stream has not told that the write is done, and may break before it does.
TEST(Link, WhatThePeerHasMakesRoomThoughItsWriteNeverEnds) {
  Two two;
  two.open();
  two.run();
  two.a.link.send(numbered(1, 100), {});
  for (int i = 0; i < 20; ++i) {
    for (const auto& wire : two.wires) wire->pump();
    two.streams[3]->finish_write();  // of the acknowledgements
  }
  EXPECT_EQ(two.b.got, (std::vector<std::uint16_t>{1}));
  EXPECT_EQ(two.a.writable, 1);
  two.run();
  EXPECT_EQ(two.a.writable, 1);
}

TEST(Link, AfterADropNothingIsSentTakenOrKept) {
  Two two;
  two.open();
  two.a.link.drop();
  EXPECT_TRUE(two.a.link.dropped());
  EXPECT_TRUE(two.a.link.settled());
  two.a.link.send(numbered(1), kControl);
  two.run();
  EXPECT_TRUE(two.b.got.empty());
  EXPECT_TRUE(says(two.a.link.check_hello(Two::hello(0, two.b)), "declared it lost"));
}

TEST(Link, AFloodIsReadATickAtATime) {
  Two two;
  two.open();
  for (unsigned i = 0; i < Link::kFramesPerTick + 500; ++i) two.a.link.send(numbered(1), kControl);
  std::size_t before = 0;
  for (unsigned i = 0; i < 300; ++i) {
    if (i > 1 && two.b.got.size() == before) break;  // nothing is read any more
    before = two.b.got.size();
    for (int j = 0; j < 400; ++j) {
      for (MemoryStream* stream : two.streams) stream->finish_write();
      for (const auto& wire : two.wires) wire->pump();
    }
  }
  EXPECT_EQ(two.b.got.size(), Link::kFramesPerTick);  // and the announcement
  two.b.link.tick(1s, 10s);
  for (unsigned i = 0; i < 10; ++i) two.run();
  EXPECT_EQ(two.b.got.size(), Link::kFramesPerTick + 500);
}

// What is sent after a checkpoint is not taken before the receiver has taken its own.
TEST(Link, NothingOvertakesACheckpointOnAnyStream) {
  for (const bool at_once : {true, false}) {
    Two two(3);
    two.open();
    two.b.takes_at_once = at_once;
    two.a.link.send(numbered(1, 50), {});
    two.run();
    two.a.link.announce({1, 0});
    for (std::uint16_t i = 2; i < 8; ++i) two.a.link.send(numbered(i, 50), {});
    if (at_once) {
      // The streams are read in any order: whichever is first asks for the checkpoint.
      for (int i = 0; i < 50; ++i) two.streams[4]->finish_write();
      for (int i = 0; i < 50; ++i) two.wires[4]->pump();
      EXPECT_EQ(two.b.asked, 1u);
      two.run();
    } else {
      two.run();
      EXPECT_EQ(two.b.asked, 1u);
      EXPECT_EQ(two.b.got, (std::vector<std::uint16_t>{1}));
      two.b.link.announce({1, 0});
      two.run();
    }
    EXPECT_EQ(two.b.got.size(), 7u);
    EXPECT_EQ(two.b.link.peer_checkpointed(), (CheckpointProgress{1, 0}));
    EXPECT_EQ(two.a.link.peer_checkpointed().taken, 1u);
  }
}

TEST(Link, ACheckpointThatCannotBeEndsTheConnection) {
  for (const CheckpointProgress lie : {CheckpointProgress{2, 0}, CheckpointProgress{1, 2}}) {
    Two two;
    two.open();
    two.a.link.announce(lie);
    two.run();
    EXPECT_EQ(two.b.asked, 0u);
    ASSERT_EQ(two.b.ended.size(), two.b.link.streams());  // it is said on all of them
    for (const std::string& why : two.b.ended) EXPECT_TRUE(says(why, "checkpoint"));
  }
}

// Until the others have let it in they do not wait for it.
TEST(Link, ANodeThatComesBackFollowsCheckpointsThatWereTakenWithoutIt) {
  Two two(1, true);
  two.a.link.announce({7, 7});
  two.b.link.announce({7, 7});
  two.open();
  two.run();
  two.a.link.announce({10, 9});
  two.run();
  EXPECT_TRUE(two.b.ended.empty()) << two.b.ended[0];
  EXPECT_EQ(two.b.asked, 10u);
  EXPECT_EQ(two.b.link.peer_checkpointed(), (CheckpointProgress{10, 9}));
  two.a.link.announce({10, 11});  // saved before it was taken
  two.run();
  EXPECT_FALSE(two.b.ended.empty());
}

// Its next checkpoint would be one that it may take; as its first it is that of another state.
TEST(Link, APeerThatHasResumedFromAnotherCheckpointIsNotHeard) {
  Two two;
  two.a.link.restore_checkpoint(10);
  two.b.link.restore_checkpoint(9);
  two.open();
  two.a.link.announce({10, 10});
  two.run();
  EXPECT_EQ(two.b.asked, 0u);
  ASSERT_FALSE(two.b.ended.empty());
  EXPECT_TRUE(says(two.b.ended[0], "from checkpoint 10, this node from 9"));
}

// Else nobody would ever miss a peer that calls again and again, and says what cannot be.
TEST(Link, WhoBreaksTheProtocolInEachConnectionFallsSilent) {
  Two two;
  two.a.link.restore_checkpoint(10);
  two.b.link.restore_checkpoint(9);
  two.open();
  two.run();
  for (two.now = 1s; two.now < 5s; two.now += 1s) {
    EXPECT_FALSE(two.b.ended.empty());
    two.b.ended.clear();
    two.join(0);
    two.run();
    EXPECT_EQ(two.b.link.last_heard(), 0s);
  }
  two.b.link.restore_checkpoint(10);
  two.b.ended.clear();
  two.join(0);
  two.run();
  EXPECT_TRUE(two.b.ended.empty());
  two.now = 9s;
  two.join(0);
  EXPECT_EQ(two.b.link.last_heard(), 9s);
}

// Whose connections break before they have said what they go on from: they take checkpoints, which
// each hears of from others, and have not resumed from another one for that.
TEST(Link, APeerIsHeardForTheFirstTimeAfterManyCheckpoints) {
  Two two;
  two.a.link.restore_checkpoint(3);
  two.b.link.restore_checkpoint(3);
  two.open();
  two.b.link.announce({10, 10});
  two.a.link.announce({11, 10});
  two.run();
  EXPECT_EQ(two.b.asked, 11u);
  EXPECT_EQ(two.b.link.peer_checkpointed(), (CheckpointProgress{11, 10}));
  EXPECT_TRUE(two.a.link.announced());
  EXPECT_TRUE(two.a.ended.empty() && two.b.ended.empty());
}

TEST(Link, ACheckpointOfBothEndsHoldsWhatIsOnItsWay) {
  Two before(2);
  before.open();
  for (std::uint16_t i = 0; i < 20; ++i) before.a.link.send(numbered(i, 100), {});
  for (int i = 0; i < 3; ++i) before.streams[0]->finish_write();
  for (int i = 0; i < 7; ++i) before.wires[0]->pump();
  const std::vector<std::uint16_t> heard = before.b.got;
  ASSERT_LT(heard.size(), 20u);
  ASSERT_GT(heard.size(), 0u);
  Two after(2);
  for (auto [from, to] : {std::pair(&before.a, &after.a), std::pair(&before.b, &after.b)})
    ASSERT_TRUE(longhaul::testing::copy_state(from->link, to->link));
  after.b.link.open(0s);  // says first what it has: some of it was never written to the end
  after.run();
  after.a.link.open(0s);
  after.run();
  EXPECT_EQ(before.a.writable + after.a.writable, 20);
  std::vector<std::uint16_t> all = heard;
  all.insert(all.end(), after.b.got.begin(), after.b.got.end());
  std::vector<std::uint16_t> expected(20);
  for (std::uint16_t i = 0; i < 20; ++i) expected[i] = i;
  EXPECT_EQ(all, expected);
}

}  // namespace
}  // namespace longhaul::net

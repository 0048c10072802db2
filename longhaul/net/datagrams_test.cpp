#include "longhaul/net/datagrams.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <thread>

#include "longhaul/base/rng.h"

namespace longhaul::net {
namespace {

using namespace std::chrono_literals;

constexpr Service kBestEffort{.delivery = Service::Delivery::best_effort, .priority = 2};
constexpr Time kWithin = 20s;

Message message_of(std::uint16_t kind, std::size_t bytes = 100) {
  Message message{.kind = kind, .body = Payload(share(Buffer(bytes, std::byte(kind))))};
  return message;
}

struct DatagramEnd final : Datagrams::Events {
  DatagramEnd(Loop& loop, Rank self, bool is_sealed = false)
      : datagrams(loop, self, *this, is_sealed) {
    EXPECT_TRUE(datagrams.open({{"127.0.0.1", 0}}, true));
  }
  void on_datagram(Rank from, const Message& message) override {
    got.emplace_back(from, message.kind);
  }
  void on_datagram_sent(Rank, unsigned) override { ++sent; }
  bool on_datagrams_blocked(Rank peer, std::vector<Frame> queued) override {
    if (is_heard) blocked.push_back(peer);
    handed_back += queued.size();
    return is_heard;
  }
  Datagrams datagrams;
  std::vector<std::pair<Rank, std::uint16_t>> got;
  std::vector<Rank> blocked;
  std::size_t sent = 0, handed_back = 0;
  bool is_heard = true;  // over the connection
};

// Of a connection between rank 1 and rank 0, which has dialled.
Buffer secret_of_pair(int seed) {
  Buffer secret(secure::DatagramKeys::kSecret);
  for (std::size_t i = 0; i < secret.size(); ++i) secret[i] = std::byte(seed + int(i) * 5);
  return secret;
}
std::unique_ptr<secure::DatagramKeys> keys_of(bool has_dialled, int seed = 1) {
  return std::make_unique<secure::DatagramKeys>(secret_of_pair(seed), has_dialled);
}

// Until it holds, or the time is over.
bool run_until(
    Loop& loop, Time within, const std::function<void()>& tick,
    const std::function<bool()>& holds = [] { return false; }) {
  const Time end = loop.now() + within;
  while (loop.now() < end && !holds()) {
    tick();
    (void)loop.run_until(loop.now() + 2ms, holds);
  }
  return holds();
}

// Two nodes over the loopback that are connected with each other; sealed: with keys of that.
struct TwoNodes {
  explicit TwoNodes(bool is_sealed = false) : a(loop, 0, is_sealed), b(loop, 1, is_sealed) {
    if (is_sealed) renew(1);
    if (is_sealed) return;
    a.datagrams.meet(1, "127.0.0.1", port_of(b), 7);
    b.datagrams.meet(0, "127.0.0.1", port_of(a), 7);
  }
  static std::uint16_t port_of(const DatagramEnd& one) { return one.datagrams.port(); }
  void renew(int seed) {
    a.datagrams.meet(1, "127.0.0.1", port_of(b), keys_of(true, seed), 1);
    b.datagrams.meet(0, "127.0.0.1", port_of(a), keys_of(false, seed), 2);
  }
  void tick() {
    a.datagrams.tick();
    b.datagrams.tick();
  }
  bool until(const std::function<bool()>& holds) {
    return run_until(
        loop, kWithin, [this] { tick(); }, holds);
  }
  bool takes(const Message& message = message_of(1)) const {
    return a.datagrams.takes(1, message, kBestEffort);
  }
  bool meet() {
    return until([&] { return takes() && b.datagrams.takes(0, message_of(1), kBestEffort); });
  }
  void send(std::uint16_t kind) { a.datagrams.send(1, message_of(kind), kBestEffort); }
  Loop loop;
  DatagramEnd a, b;
};

// A datagram as node 0 would seal it.
Buffer sealed(std::uint64_t number, std::uint16_t kind, int seed = 1) {
  Frame frame = message_frame(message_of(kind), kBestEffort);
  frame.header.number = number;
  const HeaderBytes header = seal(frame);
  const std::span<const std::byte> parts[] = {header, frame.head.view(), frame.body.view()};
  const auto keys = keys_of(true, seed);
  const auto bytes = keys->seal(number, parts);
  return {bytes.begin(), bytes.end()};
}

TEST(Datagrams, MessagesGoByUdpOnceThePeerHasAnswered) {
  TwoNodes pair;
  EXPECT_FALSE(pair.takes());
  ASSERT_TRUE(pair.meet());
  EXPECT_FALSE(pair.a.datagrams.takes(1, message_of(1), Service{}));
  EXPECT_FALSE(pair.a.datagrams.takes(1, message_of(1, DatagramPath::kLongest), kBestEffort));
  EXPECT_TRUE(
      pair.a.datagrams.takes(1, message_of(1, Datagrams::kLargest - kFrameHeader), kBestEffort));
  EXPECT_FALSE(pair.a.datagrams.takes(5, message_of(1), kBestEffort));
  for (std::uint16_t kind = 1; kind <= 5; ++kind) pair.send(kind);
  EXPECT_EQ(pair.a.sent, 0u);  // not within send()
  ASSERT_TRUE(pair.until([&] { return pair.b.got.size() == 5; }));
  EXPECT_EQ(pair.a.sent, 5u);
  EXPECT_EQ(pair.b.got.front(), (std::pair<Rank, std::uint16_t>{0, 1}));
}

TEST(Datagrams, HigherClassesGoFirst) {
  TwoNodes pair;
  ASSERT_TRUE(pair.meet());
  for (const unsigned priority : {1u, 3u, 2u}) {
    Service service = kBestEffort;
    service.priority = std::uint8_t(priority);
    pair.a.datagrams.send(1, message_of(std::uint16_t(priority)), service);
  }
  ASSERT_TRUE(pair.until([&] { return pair.b.got.size() == 3; }));
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(pair.b.got[i].second, 3 - i);
}

// What was sent after a checkpoint that the receiver has not taken is dropped.
TEST(Datagrams, NothingComesFromBehindACheckpoint) {
  TwoNodes pair;
  ASSERT_TRUE(pair.meet());
  pair.a.datagrams.set_checkpoint(3);
  pair.b.datagrams.set_checkpoint(2);
  pair.send(1);
  ASSERT_TRUE(pair.until([&] { return pair.b.datagrams.figures().dropped == 1; }));
  pair.b.datagrams.set_checkpoint(3);
  pair.send(2);
  ASSERT_TRUE(pair.until([&] { return pair.b.got.size() == 1; }));
  EXPECT_EQ(pair.b.got[0].second, 2);
}

TEST(Datagrams, AnyOtherBytesAreDropped) {
  TwoNodes pair;
  ASSERT_TRUE(pair.meet());
  Random random(1, longhaul::Stream{});
  for (int i = 0; i < 2000; ++i) {
    Buffer bytes(random.below(200));
    for (auto& byte : bytes) byte = std::byte(random.below(256));
    pair.a.datagrams.on_bytes(bytes);
  }
  EXPECT_TRUE(pair.a.got.empty());
  EXPECT_EQ(pair.a.datagrams.figures().dropped, 2000u);
  // Of a node that knows the job and not the hellos.
  DatagramEnd stranger(pair.loop, 1);
  stranger.datagrams.meet(0, "127.0.0.1", TwoNodes::port_of(pair.a), 8);
  stranger.datagrams.tick();
  ASSERT_TRUE(pair.until([&] { return pair.a.datagrams.figures().dropped > 2000u; }));
  EXPECT_TRUE(pair.a.got.empty());
}

TEST(Datagrams, SealedOnesGoUnderTheKeysOfTheirConnection) {
  TwoNodes nodes(true);
  for (int seed = 1; seed < 4; ++seed) {
    nodes.renew(seed);
    nodes.b.got.clear();
    ASSERT_TRUE(nodes.until([&] { return nodes.takes(); }));
    const auto largest = message_of(7, Datagrams::kLargest - kFrameHeader);
    ASSERT_TRUE(nodes.takes(largest));
    nodes.a.datagrams.send(1, largest, kBestEffort);
    ASSERT_TRUE(nodes.until([&] { return !nodes.b.got.empty(); }));
  }
}

TEST(Datagrams, AReplayedOrChangedOneIsDropped) {
  TwoNodes nodes(true);
  Datagrams& b = nodes.b.datagrams;
  const Buffer first = sealed(1000, 5);
  for (std::size_t bit = 0; bit < 8 * first.size(); bit += 3) {
    Buffer changed = first;
    changed[bit / 8] ^= std::byte(1 << bit % 8);
    b.on_bytes(changed);
  }
  EXPECT_TRUE(nodes.b.got.empty());
  b.on_bytes(first);
  ASSERT_EQ(nodes.b.got.size(), 1u);
  const auto dropped = b.figures().dropped;
  for (int i = 0; i < 100; ++i) b.on_bytes(first);
  EXPECT_EQ(nodes.b.got.size(), 1u);
  EXPECT_EQ(b.figures().dropped, dropped + 100);
  b.on_bytes(sealed(999, 6));
  EXPECT_EQ(nodes.b.got.size(), 2u) << "out of order";
}

// The last keys open what was under way when a connection broke, those before them nothing.
TEST(Datagrams, OldKeysOpenNothing) {
  TwoNodes nodes(true);
  Datagrams& b = nodes.b.datagrams;
  nodes.renew(2);
  b.on_bytes(sealed(1000, 5, 1));
  EXPECT_EQ(nodes.b.got.size(), 1u);
  nodes.renew(3);
  b.on_bytes(sealed(1001, 5, 1));
  EXPECT_EQ(nodes.b.got.size(), 1u);
  // A plain one, as a node without keys takes it.
  Frame frame = message_frame(message_of(5), kBestEffort);
  frame.header.number = 2000;
  const HeaderBytes header = seal(frame);
  Buffer plain(header.begin(), header.end());
  plain.insert(plain.end(), frame.body.view().begin(), frame.body.view().end());
  b.on_bytes(plain);
  EXPECT_EQ(nodes.b.got.size(), 1u);
}

// Each field of what lies under the seal, and of the prefix before it: whoever knows the keys may
// say anything there, others nothing.
TEST(Datagrams, AFieldThatIsWrongUnderTheSealIsDropped) {
  TwoNodes nodes(true);
  Datagrams& b = nodes.b.datagrams;
  secure::DatagramKeys keys(secret_of_pair(1), true);
  Frame frame = message_frame(message_of(5), kBestEffort);
  std::uint64_t number = 5000;
  for (std::size_t byte = 0; byte < kFrameHeader; ++byte) {
    frame.header.number = ++number;
    HeaderBytes header = seal(frame);
    const auto before = nodes.b.got.size();
    const auto dropped = b.figures().dropped;
    header[byte] ^= std::byte{0x80};
    const std::span<const std::byte> parts[] = {header, frame.head.view(), frame.body.view()};
    b.on_bytes(keys.seal(number, parts));
    // Machine, kind, epoch: who is meant is for the node to refuse. The seal has proved the rest.
    const bool is_for_the_node = byte >= 8 && byte < 14;
    const bool is_epoch = byte >= 16 && byte < 24, is_checksum = byte >= 36;
    if (is_for_the_node || is_epoch || is_checksum) {
      EXPECT_EQ(nodes.b.got.size(), before + 1) << byte;
    } else {
      EXPECT_EQ(nodes.b.got.size(), before) << byte;
      EXPECT_GT(b.figures().dropped, dropped) << byte;
    }
  }
}

// A sender goes on to new keys, over and over, and nothing is lost by it.
TEST(Datagrams, KeysAreReplacedWhileMessagesFlow) {
  TwoNodes nodes(true);
  nodes.a.datagrams.set_key_life(10, 1h);
  ASSERT_TRUE(nodes.until([&] { return nodes.takes(); }));
  for (std::uint16_t kind = 1; kind <= 200; ++kind) {
    nodes.send(kind);
    ASSERT_TRUE(nodes.until([&] { return nodes.b.got.size() == kind; }));
  }
  EXPECT_GT(nodes.a.datagrams.figures().key_updates, 5u);
  EXPECT_EQ(nodes.b.datagrams.figures().dropped, 0u);
}

TEST(Datagrams, KeysDoNotLastForEver) {
  TwoNodes nodes(true);
  nodes.a.datagrams.set_key_life(1u << 30, 1ms);
  ASSERT_TRUE(nodes.until([&] { return nodes.takes(); }));
  ASSERT_TRUE(nodes.until([&] {
    nodes.send(1);
    return nodes.a.datagrams.figures().key_updates > 1;
  }));
}

// The loopback takes long datagrams: so do messages, once probes have found that.
TEST(Datagrams, LongerMessagesGoWhereThePathTakesThem) {
  TwoNodes nodes(true);
  const auto longer = message_of(7, 4000);
  EXPECT_FALSE(nodes.takes(longer));
  ASSERT_TRUE(nodes.until([&] { return nodes.takes(longer); }));
  nodes.a.datagrams.send(1, longer, kBestEffort);
  ASSERT_TRUE(nodes.until([&] { return !nodes.b.got.empty(); }));
}

// A router between shows another address for what comes from behind it.
TEST(Datagrams, APeerIsAnsweredWhereItsDatagramsComeFrom) {
  TwoNodes nodes(true);
  nodes.b.datagrams.meet(0, "127.0.0.1", 9, keys_of(false), 2);  // nobody listens there
  EXPECT_TRUE(nodes.meet());
}

// A node whose peer is where nobody listens.
struct UnheardNode {
  UnheardNode() { a.datagrams.meet(1, "127.0.0.1", 9, 7); }
  void wait(Time within, bool has_begun = true) {
    (void)run_until(loop, within, [&] { a.datagrams.tick(has_begun); });
  }
  Loop loop;
  DatagramEnd a{loop, 0};
};

// The messages come back, to go over the connection, and it is said once.
void told_once_where_udp_does_not_reach() {
  UnheardNode node;
  node.wait(Datagrams::kPatience + 500ms);
  EXPECT_EQ(node.a.blocked, std::vector<Rank>{1});
  EXPECT_FALSE(node.a.datagrams.takes(1, message_of(1), kBestEffort));
}

// A network that lets nothing of lower effort through while it has other traffic: it passes on what
// it gets to one port, but for what is marked, which it keeps.
class Starving {
 public:
  explicit Starving(std::uint16_t to) : socket_(socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0)) {
    const int on = 1;
    EXPECT_EQ(setsockopt(socket_, IPPROTO_IP, IP_RECVTOS, &on, sizeof on), 0);
    sockaddr_in own = loopback(0);
    socklen_t size = sizeof own;
    EXPECT_EQ(bind(socket_, reinterpret_cast<sockaddr*>(&own), size), 0);
    EXPECT_EQ(getsockname(socket_, reinterpret_cast<sockaddr*>(&own), &size), 0);
    port = ntohs(own.sin_port);
    to_ = loopback(to);
  }
  ~Starving() { close(socket_); }
  Starving(const Starving&) = delete;

  void pass_on() {
    std::array<std::byte, 65536> bytes;
    alignas(cmsghdr) std::array<std::byte, 64> control;
    for (;;) {
      iovec part{bytes.data(), bytes.size()};
      msghdr message{};
      message.msg_iov = &part;
      message.msg_iovlen = 1;
      message.msg_control = control.data();
      message.msg_controllen = control.size();
      const ssize_t got = recvmsg(socket_, &message, 0);
      if (got < 0) return;
      std::uint8_t marks = 0;
      if (const cmsghdr* const first = CMSG_FIRSTHDR(&message))
        std::memcpy(&marks, CMSG_DATA(first), sizeof marks);
      const std::span<const std::byte> datagram(bytes.data(), std::size_t(got));
      if (marks >> 2 == Datagrams::kDscp)
        kept.emplace_back(datagram.begin(), datagram.end());
      else
        send(datagram);
    }
  }
  void send(std::span<const std::byte> datagram) {
    (void)sendto(socket_, datagram.data(), datagram.size(), 0,
                 reinterpret_cast<const sockaddr*>(&to_), sizeof to_);
  }

  std::uint16_t port = 0;
  std::vector<Buffer> kept;

 private:
  static sockaddr_in loopback(std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    return address;
  }
  const int socket_;
  sockaddr_in to_{};
};

// Messages are of lower effort: those that wait for longer than kPatience behind other traffic are
// no sign that UDP is blocked. What is asked and answered does not wait with them.
void waiting_behind_other_traffic_is_not_blocked() {
  TwoNodes pair;
  Starving between(TwoNodes::port_of(pair.b));
  pair.a.datagrams.meet(1, "127.0.0.1", between.port, 7);
  const auto until = [&](Time within, const std::function<bool()>& holds) {
    const auto tick = [&] {
      pair.tick();
      between.pass_on();
    };
    return run_until(pair.loop, within, tick, holds);
  };
  ASSERT_TRUE(until(kWithin, [&] { return pair.takes(); }));
  for (std::uint16_t kind = 1; kind <= 5; ++kind) pair.send(kind);
  (void)until(Datagrams::kPatience + 500ms, [] { return false; });
  EXPECT_EQ(between.kept.size(), 5u);
  EXPECT_TRUE(pair.a.blocked.empty());
  EXPECT_TRUE(pair.takes());
  for (const Buffer& datagram : between.kept) between.send(datagram);
  EXPECT_TRUE(until(kWithin, [&] { return pair.b.got.size() == 5; }));
}

// A peer that is silent on its connection, too, says nothing of UDP; once it is heard there, it
// does.
void silent_everywhere_is_not_told() {
  UnheardNode node;
  node.a.is_heard = false;
  node.wait(Datagrams::kPatience + 500ms);
  EXPECT_TRUE(node.a.blocked.empty());
  node.a.is_heard = true;
  node.wait(500ms);
  EXPECT_TRUE(node.a.blocked.empty()) << "datagrams have their time first";
  node.wait(Datagrams::kPatience);
  EXPECT_EQ(node.a.blocked, std::vector<Rank>{1});
}

// A process that was stopped, and continues.
void standing_still_is_not_blocked() {
  UnheardNode node;
  node.a.datagrams.tick();
  (void)run_until(node.loop, Datagrams::kPatience + 100ms, [] {});
  node.a.datagrams.excuse();
  node.a.datagrams.tick();
  EXPECT_TRUE(node.a.blocked.empty());
}

// Sites that have met wait for others, as long as it takes, before any datagram goes.
void waiting_for_the_run_is_not_blocked() {
  TwoNodes pair;
  (void)pair.loop.run_until(pair.loop.now() + Datagrams::kPatience + 100ms, [] { return false; });
  ASSERT_TRUE(pair.meet());
  EXPECT_TRUE(pair.a.blocked.empty());
  EXPECT_TRUE(pair.b.blocked.empty());
}

// A site behind a router is known by its datagrams alone, and may wait for others when the run has
// begun for the one that it has met.
void waiting_for_the_run_is_heard() {
  Loop loop;
  DatagramEnd shown(loop, 0, true), hidden(loop, 1, true);
  shown.datagrams.meet(1, "127.0.0.1", 9, keys_of(false), 1);  // nobody listens there
  hidden.datagrams.meet(0, "127.0.0.1", shown.datagrams.port(), keys_of(true), 2);
  (void)run_until(loop, Datagrams::kPatience + 500ms, [&] {
    shown.datagrams.tick();
    hidden.datagrams.tick(false);
  });
  EXPECT_TRUE(shown.datagrams.takes(1, message_of(1), kBestEffort));
  EXPECT_TRUE(shown.blocked.empty());
}

// Whose run has not begun gives nobody up.
void waiting_for_the_run_is_patient() {
  UnheardNode node;
  node.wait(Datagrams::kPatience + 500ms, /*has_begun=*/false);
  EXPECT_TRUE(node.a.blocked.empty());
}

// Each takes kPatience and more: all at the same time.
TEST(Datagrams, PatienceIsForWhoMayBeThere) {
  std::vector<std::jthread> waiting;
  for (void (*one)() : {told_once_where_udp_does_not_reach, silent_everywhere_is_not_told,
                        standing_still_is_not_blocked, waiting_behind_other_traffic_is_not_blocked,
                        waiting_for_the_run_is_heard, waiting_for_the_run_is_not_blocked,
                        waiting_for_the_run_is_patient})
    waiting.emplace_back(one);
}

TEST(Datagrams, WhatIsQueuedIsPartOfACheckpoint) {
  TwoNodes pair;
  ASSERT_TRUE(pair.meet());
  pair.send(4);
  Archive saved;
  pair.a.datagrams.state(saved);
  ASSERT_TRUE(pair.until([&] { return pair.b.got.size() == 1; }));
  TwoNodes again;
  const Buffer bytes = saved.take();
  Archive loaded(bytes);
  again.a.datagrams.state(loaded);
  ASSERT_TRUE(loaded.finish());
  ASSERT_TRUE(again.until([&] { return again.b.got.size() == 1; }));
  EXPECT_EQ(again.a.sent, 1u);
}

// --- the longest datagram -----------------------------------------------------------------------

// A path that takes datagrams up to some size, probed once a second.
struct Pipe {
  DatagramPath path;
  std::uint32_t takes = 0;
  Time now{0};
  void run(int seconds, bool is_heard = true) {
    for (int i = 0; i < seconds; ++i, now += 1s)
      if (path.probe(now, is_heard) <= takes) path.answered();
  }
};

TEST(DatagramPath, FindsWhatThePathTakes) {
  for (const std::uint32_t takes : {1228u, 1300u, 1372u, 1471u, 1472u, 8972u, 65000u}) {
    Pipe pipe{.path = {}, .takes = takes};
    pipe.run(30);
    std::uint32_t expected = 0;
    for (const std::uint32_t size : DatagramPath::kSizes)
      if (size <= takes) expected = size;
    EXPECT_EQ(pipe.path.size(), expected) << takes;
  }
}

TEST(DatagramPath, ABlackHoleIsFoundAndLeftWhenItIsGone) {
  Pipe pipe{.path = {}, .takes = 8972};
  pipe.run(30);
  ASSERT_EQ(pipe.path.size(), 8972u);
  pipe.takes = 1400;
  pipe.run(30);
  EXPECT_EQ(pipe.path.size(), 1372u);
  pipe.takes = 600;
  pipe.run(10);
  EXPECT_EQ(pipe.path.size(), 0u) << "all goes over the connection";
  pipe.takes = 1472;
  pipe.run(3);
  EXPECT_GE(pipe.path.size(), 1228u);
  pipe.run(700);
  EXPECT_EQ(pipe.path.size(), 1472u) << "it is searched again after some minutes";
}

TEST(DatagramPath, SilenceOfThePeerSaysNothingOfSizes) {
  Pipe pipe{.path = {}, .takes = 1472};
  pipe.run(30);
  pipe.takes = 0;
  pipe.run(60, false);
  EXPECT_EQ(pipe.path.size(), 1472u);
}

TEST(DatagramPath, AProbeThatIsLostNowAndThenChangesNothing) {
  Pipe pipe{.path = {}, .takes = 1472};
  for (int i = 0; i < 100; ++i) {
    pipe.takes = 1472;
    pipe.run(4);
    pipe.takes = 0;
    pipe.run(2);
    EXPECT_EQ(pipe.path.size(), i > 10 ? 1472u : pipe.path.size()) << i;
  }
}

}  // namespace
}  // namespace longhaul::net

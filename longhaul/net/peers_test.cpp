// Peers with credentials, several in one loop: who connects, who is refused, and new keys.
//
// Invariants: each attempt is refused with one line, leaves nothing behind, and delays no member.
// WhoIsRefusedHoldsUpNothingAndLeavesNothing tries most of them while two sites exchange messages.
// tests/cli/strangers_test.py tries them while three processes train, and compares memory and the
// model's hash. fuzz/session_fuzz.cpp and datagram_fuzz.cpp try any other bytes.
//   certificate of another authority: Sessions.AnotherAuthorityIsRefused,
//     WrongKeysAreNamedAtBothEnds
//   expired, not yet valid: Sessions.ACertificateOutOfItsTimeIsRefusedWithTheClock,
//     WrongKeysAreNamedAtBothEnds
//   for one end of TLS only: Sessions.ACertificateForOneEndAloneIsRefusedByName
//   self-signed: Sessions.ASelfSignedCertificateIsRefused
//   of another site than the dialled one: Sessions.AnotherSiteAtTheDialledAddressIsRefused
//   of another site than in the hello: AHelloOfAnotherSiteThanTheCertificatesIsRefused
//   of no site of the job, or a removed one: Sessions.OnlySitesOfTheJobAreTaken
//   replayed datagram: Datagrams.AReplayedOrChangedOneIsDropped, DatagramKeys.ANumberIsTakenOnce
//   flipped bits: DatagramKeys.AnyFlippedBitIsFound (sealed datagram),
//     Sessions.NothingIsDeliveredOfChangedBytes, Frame.EveryFlippedBitIsFound
//   wrong fields under the seal: Datagrams.AFieldThatIsWrongUnderTheSealIsDropped
//   truncated record: Tls.APeerThatClosesInTheHandshake...
//   record longer than TLS allows: Sessions.ARecordLongerThanTlsAllowsIsRefusedAtOnce
//   length of 1 GB: Frame.LengthsBeyondTheLimitsAreRefusedBeforeAnythingIsAllocated
//   plain text on a TLS port, and TLS on a plain one: PlainAndTlsAreToldApartAtBothEnds
//   silent strangers, 1,000 at once: SilentStrangersKeepNoMemberOut, Callers.*
//   the same, 170 a second: tests/cli/strangers_test.py
//   a model file that reads or writes files:
//     ScriptOperators.WhatIsNoComputationIsRefusedWhereverItStands
//   a model that never ends, takes all memory, or crashes: ModelTrial.*, tests/cli/sample_test.py
//   the same in `serve`: FocusModels.SitesAnswerAndIndexWhileAModelIsTried
//   a POST to `serve` without its token: tests/cli/serve_test.py
#include "longhaul/net/peers.h"

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include <gmock/gmock.h>

#include "longhaul/net/testing/peer_loop.h"
#include "longhaul/net/tls.h"
#include "longhaul/secure/testing/keys.h"

namespace longhaul::net {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using testing::PeerLoop;
using testing::PeerNode;

// Lima dials tokyo.
struct LimaAndTokyo : PeerLoop {
  using Keys = std::shared_ptr<secure::Credentials>;
  LimaAndTokyo(Keys of_lima, Keys of_tokyo, const std::vector<bool>& dials_out = {})
      : PeerLoop({"lima", "tokyo"}),
        lima(start(0, secured(0, std::move(of_lima), dials_out))),
        tokyo(start(1, secured(1, std::move(of_tokyo), dials_out))) {
    tell_addresses();
  }
  PeersConfig secured(Rank self, Keys keys, const std::vector<bool>& dials_out) const {
    PeersConfig made = config(self);
    made.connect_timeout = 20s;
    made.credentials = std::move(keys);
    made.datagrams = true;
    made.dials_out = dials_out;
    return made;
  }
  bool meet() {
    const Status met = lima.peers.connect_all([] { return false; });
    if (met) lima.peers.open(), tokyo.peers.open();
    return bool(met);
  }
  // Until both have said why not.
  void fail_to_meet() {
    (void)lima.peers.connect_all([&] {
      return (lima.has_said("cannot connect") || !lima.refused.empty()) &&
             tokyo.has_said("refused a connection");
    });
  }
  void send(std::uint16_t kind, Service service = {}) { PeerLoop::send(0, 1, kind, 100, service); }
  PeerNode &lima, &tokyo;
};

class SecurePeers : public ::testing::Test {
 protected:
  const secure::KeyPair authority_ = secure::test_authority();
  const std::vector<std::string> sites_ = {"lima", "tokyo"};

  std::shared_ptr<secure::Credentials> good(const std::string& site) const {
    return secure::test_credentials(authority_, site, sites_);
  }
  std::shared_ptr<secure::Credentials> with(const secure::KeyPair& keys,
                                            const std::string& site) const {
    auto made = secure::Credentials::make(keys, authority_.certificate, site, sites_);
    LH_CHECK(made);
    return *std::move(made);
  }
};

TEST_F(SecurePeers, MessagesGoUnderTlsAndInSealedDatagrams) {
  LimaAndTokyo nodes(good("lima"), good("tokyo"));
  ASSERT_TRUE(nodes.meet());
  nodes.send(3);
  ASSERT_TRUE(nodes.until([&] { return nodes.tokyo.kinds.size() == 1; }));
  const Service best_effort{.delivery = Service::Delivery::best_effort, .priority = 2};
  // A connection that breaks brings new keys; best effort goes on under them.
  for (std::uint16_t kind = 10; kind < 13; ++kind) {
    nodes.lima.peers.break_connections();
    ASSERT_TRUE(nodes.until([&] {
      nodes.send(kind, best_effort);
      return std::count(nodes.tokyo.kinds.begin(), nodes.tokyo.kinds.end(), kind) > 3;
    }));
  }
}

TEST_F(SecurePeers, WrongKeysAreNamedAtBothEnds) {
  const auto other = secure::test_authority();
  const std::int64_t now = std::time(nullptr);
  const struct {
    secure::KeyPair keys;
    const char *at_tokyo, *at_lima;
  } cases[] = {
      {secure::test_keys(other, "lima"), "another authority", "another authority"},
      {secure::test_keys(authority_, "lima", {now - 100, now - 10}), "has expired", "expired"},
      {secure::test_keys(authority_, "lima", {now + 500, now + 600}), "not valid before",
       "not valid yet"},
      {secure::test_keys(authority_, "quito"), "no site of this job", "not of a site"},
  };
  for (const auto& one : cases) {
    SCOPED_TRACE(one.at_tokyo);
    LimaAndTokyo nodes(with(one.keys, "lima"), good("tokyo"));
    nodes.fail_to_meet();
    EXPECT_THAT(nodes.tokyo.notes, Contains(AllOf(HasSubstr("refused a connection: 127.0.0.1"),
                                                  HasSubstr(one.at_tokyo))));
    EXPECT_THAT(nodes.lima.notes, Contains(AllOf(HasSubstr("cannot connect to rank 1 (tokyo)"),
                                                 HasSubstr(one.at_lima))));
    EXPECT_TRUE(nodes.tokyo.kinds.empty());
  }
}

// It dials again and again, from another port each time.
TEST_F(SecurePeers, OneThatCallsAgainForTheSameReasonIsNamedOnce) {
  LimaAndTokyo nodes(with(secure::test_keys(secure::test_authority(), "lima"), "lima"),
                     good("tokyo"));
  nodes.fail_to_meet();
  const Time until = nodes.loop.now() + 1s;
  (void)nodes.lima.peers.connect_all([&] { return nodes.loop.now() > until; });
  EXPECT_EQ(std::count_if(nodes.tokyo.notes.begin(), nodes.tokyo.notes.end(),
                          [](const std::string& note) { return note.starts_with("refused"); }),
            1);
}

TEST_F(SecurePeers, ACertificateThatExpiresSoonIsNamedAtTheStart) {
  const std::int64_t now = std::time(nullptr);
  LimaAndTokyo nodes(
      with(secure::test_keys(authority_, "lima", {now - 10, now + 3 * 86400}), "lima"),
      good("tokyo"));
  EXPECT_THAT(nodes.lima.notes,
              Contains(AllOf(HasSubstr("expires on"), HasSubstr("keys issue lima"))));
  EXPECT_TRUE(nodes.tokyo.notes.empty());
}

// A member's certificate does not make it another member.
TEST_F(SecurePeers, AHelloOfAnotherSiteThanTheCertificatesIsRefused) {
  LimaAndTokyo nodes(with(secure::test_keys(authority_, "tokyo"), "tokyo"), good("tokyo"));
  nodes.fail_to_meet();
  EXPECT_THAT(nodes.lima.refused, HasSubstr("its certificate is not"));
}

TEST_F(SecurePeers, PlainAndTlsAreToldApartAtBothEnds) {
  {
    LimaAndTokyo nodes(nullptr, good("tokyo"));
    nodes.fail_to_meet();
    EXPECT_THAT(nodes.lima.refused, HasSubstr("takes connections under TLS alone"));
    EXPECT_THAT(nodes.tokyo.notes, Contains(HasSubstr("does not speak TLS")));
  }
  LimaAndTokyo nodes(good("lima"), nullptr);
  (void)nodes.lima.peers.connect_all([&] { return !nodes.tokyo.notes.empty(); });
  EXPECT_THAT(nodes.tokyo.notes, Contains(HasSubstr("it speaks TLS")));
}

// Strangers at the address of the members, more than there is room for, who say nothing.
struct SilentStrangers {
  void call(LimaAndTokyo& nodes, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i)
      connect(nodes.loop, {"127.0.0.1", nodes.tokyo.port}, 5s, [&](auto made) {
        if (made) streams.push_back(*std::move(made));
      });
  }
  std::vector<std::unique_ptr<Stream>> streams;
};

TEST_F(SecurePeers, StrangersThatSayNothingAreBounded) {
  LimaAndTokyo nodes(good("lima"), good("tokyo"));
  SilentStrangers strangers;
  strangers.call(nodes, Callers::kMost + 20);
  ASSERT_TRUE(nodes.until([&] { return !nodes.tokyo.notes.empty(); }));
  EXPECT_THAT(nodes.tokyo.notes, Contains(HasSubstr("others have not said hello yet")));
  EXPECT_LE(nodes.tokyo.peers.handshakes(), Callers::kMost);
  ASSERT_TRUE(nodes.meet()) << "all of them are still there";
}

// All the time there are more than there is room for, when members meet and after their connections
// were broken.
TEST_F(SecurePeers, SilentStrangersKeepNoMemberOut) {
  LimaAndTokyo nodes(good("lima"), good("tokyo"));
  SilentStrangers strangers;
  Timer next;
  const std::function<void()> call = [&] {
    strangers.call(nodes, 8);
    next = nodes.loop.at(nodes.loop.now() + 5ms, call);
  };
  strangers.call(nodes, Callers::kMost);
  call();
  ASSERT_TRUE(nodes.meet());
  for (std::uint16_t round = 0; round < 3; ++round) {
    nodes.lima.peers.break_connections();
    nodes.send(round);
    ASSERT_TRUE(nodes.until([&] { return nodes.tokyo.kinds.size() == round + 1u; }));
  }
  EXPECT_GT(strangers.streams.size(), Callers::kMost);
}

// Connects to tokyo, under TLS or not, says something, and waits for the end of the connection.
struct Intruder {
  Intruder(LimaAndTokyo& nodes, std::shared_ptr<secure::Credentials> keys, Buffer says)
      : credentials(std::move(keys)), bytes(std::move(says)) {
    connect(nodes.loop, {"127.0.0.1", nodes.tokyo.port}, 5s, [&](auto made) {
      LH_CHECK(made);
      stream = *std::move(made);
      if (credentials)
        stream = make_tls_stream(nodes.loop, std::move(stream), credentials->dial("tokyo"));
      stream->write({bytes, {}, {}}, [](const Status&) {});
      listen();
    });
  }
  // Who has said half of a record closes.
  void leave() { stream->close(); }
  void listen() {
    stream->read_some(answer, [&](const auto& count) {
      if (count) {
        heard.insert(heard.end(), answer.begin(), answer.begin() + std::ptrdiff_t(*count));
        return listen();
      }
      why = count.error().what;
      is_over = true;
    });
  }
  std::shared_ptr<secure::Credentials> credentials;
  const Buffer bytes;
  Buffer answer = Buffer(4096), heard;
  std::string why;  // how it ended
  std::unique_ptr<Stream> stream;
  bool is_over = false;
};

std::string text_of(const Buffer& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Buffer bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

// A frame's header that announces a gigabyte.
Buffer gigabyte_header() {
  Frame frame;
  frame.header.type = FrameHeader::Type::hello;
  HeaderBytes bytes = seal(frame);
  const std::uint32_t size = 1u << 30;
  std::memcpy(bytes.data(), &size, sizeof size);
  return {bytes.begin(), bytes.end()};
}

// Each has begun well, and goes no further: their host has no place left at last.
TEST_F(SecurePeers, WhoFindsNoRoomHearsSo) {
  Frame begun;
  begun.header.type = FrameHeader::Type::hello;
  const HeaderBytes header = seal(begun);
  for (const bool is_secure : {true, false}) {
    const auto keys = [&](const char* site) { return is_secure ? good(site) : nullptr; };
    LimaAndTokyo nodes(keys("lima"), keys("tokyo"));
    std::vector<std::unique_ptr<Intruder>> callers;
    const auto call = [&] {
      callers.push_back(std::make_unique<Intruder>(
          nodes, keys("lima"), is_secure ? Buffer{} : Buffer(header.begin(), header.end() - 1)));
    };
    call();
    EXPECT_TRUE(nodes.until([&] {
      const Intruder& last = *callers.back();
      if ((is_secure ? last.why : text_of(last.heard)).find("too many others") != std::string::npos)
        return true;
      if (last.stream != nullptr && (last.is_over || last.stream->received() > 0 ||
                                     nodes.tokyo.peers.handshakes() == callers.size()))
        call();
      return false;
    }));
    EXPECT_THAT(nodes.tokyo.notes, Contains(HasSubstr("others have not said hello yet")));
  }
}

// Each of those who are refused gets its line, and meanwhile messages go between the members.
TEST_F(SecurePeers, WhoIsRefusedHoldsUpNothingAndLeavesNothing) {
  const auto other = secure::test_authority();
  const std::int64_t now = std::time(nullptr);
  const auto self_signed = [&] {
    auto made = secure::Credentials::make(other, authority_.certificate, "lima", sites_);
    return made ? std::shared_ptr<secure::Credentials>(*std::move(made)) : nullptr;
  }();
  ASSERT_TRUE(self_signed);
  const struct {
    std::shared_ptr<secure::Credentials> keys;
    Buffer says;
    const char* line;
    bool was_said = false;  // within the last minute
  } cases[] = {
      {with(secure::test_keys(other, "lima"), "lima"), {}, "another authority"},
      {with(secure::test_keys(authority_, "lima", {now - 100, now - 10}), "lima"),
       {},
       "has expired"},
      {with(secure::test_keys(authority_, "lima", {now + 500, now + 600}), "lima"),
       {},
       "not valid before"},
      {with(secure::test_keys(authority_, "quito"), "quito"), {}, "no site of this job"},
      {self_signed, {}, "self-signed"},
      {good("lima"), gigabyte_header(), "1073741824"},
      {nullptr, gigabyte_header(), "does not speak TLS"},
      {nullptr, bytes_of("GET / HTTP/1.1\r\n\r\n"), "does not speak TLS", true},
      {nullptr, bytes_of(std::string_view("\x16\x03\x01\xff\xff\x01\xff\xff\xff\x03\x03", 11)),
       "the TLS handshake failed"},
      {nullptr, bytes_of(std::string_view("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11)),
       "closed the connection during the TLS handshake"},
  };
  LimaAndTokyo nodes(good("lima"), good("tokyo"));
  ASSERT_TRUE(nodes.meet());
  ASSERT_TRUE(nodes.until([&] { return nodes.tokyo.peers.handshakes() == 0; }));
  std::uint16_t kind = 0;
  for (const auto& one : cases) {
    SCOPED_TRACE(one.line);
    nodes.tokyo.notes.clear();
    Intruder intruder(nodes, one.keys, one.says);
    ASSERT_TRUE(nodes.until([&] { return intruder.stream != nullptr; }));
    nodes.send(++kind);
    ASSERT_TRUE(nodes.until([&] { return nodes.tokyo.kinds.size() == kind; }));
    if (std::string_view(one.line).starts_with("closed")) intruder.leave();
    ASSERT_TRUE(nodes.until(
        [&] { return (one.was_said || !nodes.tokyo.notes.empty()) && intruder.is_over; }));
    ASSERT_EQ(nodes.tokyo.notes.size(), one.was_said ? 0u : 1u);
    if (one.was_said) continue;
    EXPECT_THAT(nodes.tokyo.notes[0],
                AllOf(HasSubstr("refused a connection: 127.0.0.1"), HasSubstr(one.line)));
    EXPECT_EQ(nodes.tokyo.notes[0].find('\n'), std::string::npos);
    EXPECT_EQ(nodes.tokyo.peers.handshakes(), 0u);
  }
  nodes.send(++kind);
  ASSERT_TRUE(nodes.until([&] { return nodes.tokyo.kinds.size() == kind; }));
}

TEST_F(SecurePeers, NewKeysAreReadByTheNextConnectionAndNothingIsLost) {
  std::string folder = ::testing::TempDir() + "peers-keys-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const secure::KeyFolder keys(folder + "/keys");
  ASSERT_TRUE(keys.make_authority(secure::valid_today()));
  const auto open = [&](const std::string& site) {
    LH_CHECK(keys.issue(site, secure::valid_today()));
    auto opened = secure::Credentials::open(keys, site, sites_);
    LH_CHECK(opened);
    return std::shared_ptr<secure::Credentials>(*std::move(opened));
  };
  LimaAndTokyo nodes(open("lima"), open("tokyo"));
  ASSERT_TRUE(nodes.meet());
  for (std::uint16_t round = 0; round < 5; ++round) {
    for (const std::string& site : sites_) ASSERT_TRUE(keys.issue(site, secure::valid_today()));
    nodes.lima.notes.clear();
    nodes.tokyo.notes.clear();
    nodes.lima.peers.break_connections();
    nodes.send(round);
    ASSERT_TRUE(nodes.until([&] { return nodes.tokyo.kinds.size() == round + 1u; }));
    EXPECT_THAT(nodes.lima.notes, Contains(HasSubstr("has read new keys")));
    EXPECT_THAT(nodes.tokyo.notes, Contains(HasSubstr("has read new keys")));
  }
  std::filesystem::remove_all(folder);
}

// Lima, the lower rank, would dial; nobody can dial it or tokyo, whichever says so.
TEST_F(SecurePeers, WhoCannotBeDialledDials) {
  for (const bool is_lima : {true, false}) {
    LimaAndTokyo nodes(good("lima"), good("tokyo"), {is_lima, !is_lima});
    PeerNode& behind_nat = is_lima ? nodes.lima : nodes.tokyo;
    PeerNode& other = is_lima ? nodes.tokyo : nodes.lima;
    behind_nat.peers.set_addresses(
        {{"127.0.0.1", nodes.lima.port}, {"127.0.0.1", nodes.tokyo.port}});
    // What the other has of it leads nowhere.
    std::vector<Address> addresses(2, Address{"127.0.0.1", 1});
    addresses[other.place.self].port = other.port;
    other.peers.set_addresses(addresses);
    ASSERT_TRUE(behind_nat.peers.connect_all([] { return false; }));
    nodes.lima.peers.open();
    nodes.tokyo.peers.open();
    for (std::uint16_t round = 0; round < 3; ++round) {
      other.peers.break_connections();
      nodes.send(round);
      ASSERT_TRUE(nodes.until([&] { return nodes.tokyo.kinds.size() == round + 1u; }));
    }
  }
}

// Tokyo met lima and begins a run without it, which lima has not heard: it is told that it may ask
// to rejoin, not that it is lost.
TEST_F(SecurePeers, WhoWasMetAndLeftOutMayAskToRejoin) {
  LimaAndTokyo nodes(good("lima"), good("tokyo"));
  ASSERT_TRUE(nodes.lima.peers.connect_all([] { return false; }));
  nodes.tokyo.peers.drop(0);
  nodes.tokyo.peers.open();
  ASSERT_TRUE(nodes.until([&] { return !nodes.lima.refused.empty(); }));
  EXPECT_THAT(nodes.lima.refused, HasSubstr("the run goes on, and site lima may ask to rejoin it"));
}

// Nodes that resume a run, and one that thinks it goes on: in one loop.

struct Resuming : PeerLoop {
  explicit Resuming(Rank count) : PeerLoop(sites(count)) {}
  static std::vector<std::string> sites(Rank count) {
    std::vector<std::string> names;
    for (Rank rank = 0; rank < count; ++rank) names.push_back("site" + std::to_string(rank));
    return names;
  }
  void start(Rank self, std::uint64_t checkpoint, std::uint32_t incarnation = 0,
             std::vector<JobKey> keys = {}) {
    PeersConfig made = config(self, incarnation);
    made.max_retry = 20ms;
    for (const JobKey& key : keys) made.job_hash += digest_of(key);
    made.job_keys = std::move(keys);
    PeerNode& node = PeerLoop::start(self, std::move(made), incarnation);
    if (incarnation == 0)
      node.peers.offer({.newest = checkpoint,
                        .members = std::uint32_t(nodes.size()),
                        .has_before = true,
                        .view = {.epoch = 0, .live = RankList::below(Rank(nodes.size()))}});
    tell_addresses();
    dial(self);
  }
  // Whether `self` has all that it waits for before it resumes.
  bool is_ready(Rank self) { return nodes[self]->peers.awaited().empty(); }
};

// Of two, one was killed and asks to rejoin; the other had no majority, and resumes.
TEST(ResumingPeers, WhoIsNeededToResumeIsToldNotToAskToRejoin) {
  Resuming run(2);
  run.start(0, 3);
  run.start(1, 3, /*incarnation=*/1);
  ASSERT_TRUE(run.until([&] { return !run.nodes[1]->resumes.empty(); }));
  EXPECT_THAT(run.nodes[1]->resumes, HasSubstr("no member of the run is in reach"));
  EXPECT_FALSE(run.is_ready(0));
  run.nodes[1].reset();
  run.start(1, 3);
  ASSERT_TRUE(run.until([&] { return run.is_ready(0) && run.is_ready(1); }));
  const auto chosen = run.nodes[0]->peers.meeting().choose_checkpoint();
  ASSERT_TRUE(chosen && *chosen);
  EXPECT_EQ(**chosen, 3u);
}

// 0 ends for a reason of all. Whoever has met it ends with the same, and so does 2, which has just
// started and knows nobody.
TEST(ResumingPeers, WhyOneLeavesIsHeardByAll) {
  for (const bool unfit : {false, true}) {
    Resuming run(3);
    run.start(0, 3);
    run.start(1, 7);
    ASSERT_TRUE(run.until([&] {
      return std::ranges::count(run.nodes[0]->peers.awaited(), 1u) == 0 &&
             std::ranges::count(run.nodes[1]->peers.awaited(), 0u) == 0;
    }));
    const Error why = unfit ? invalid("site0 lacks a column") : unavailable("they differ");
    const Timer late = run.loop.at(run.loop.now() + 200ms, [&] { run.start(2, 7); });
    const Time began = run.loop.now();
    run.nodes[0]->peers.leave(why, 20s);
    EXPECT_LT(run.loop.now() - began, 10s) << "all have heard it";
    for (const Rank rank : {1u, 2u}) {
      EXPECT_EQ(run.nodes[rank]->refused, why.what);
      EXPECT_EQ(run.nodes[rank]->is_invalid, unfit);
      ASSERT_TRUE(run.nodes[rank]->peers.last_word());
      EXPECT_EQ(run.nodes[rank]->peers.last_word()->what, why.what);
    }
    EXPECT_EQ(run.nodes[0]->refused, "");
  }
}

TEST(ResumingPeers, JobsThatDifferEndAtBothWithBothValues) {
  for (const bool lower_first : {true, false}) {
    Resuming run(2);
    for (const Rank rank : {lower_first ? 0u : 1u, lower_first ? 1u : 0u})
      run.start(rank, 0, 0, {{"[sync] steps", rank == 0 ? "20" : "30"}});
    for (const Rank rank : {0u, 1u}) run.dial(rank);  // each knows the other's port by now
    ASSERT_TRUE(run.until(
        [&] { return !run.nodes[0]->refused.empty() && !run.nodes[1]->refused.empty(); }));
    for (const auto& node : run.nodes) {
      EXPECT_EQ(
          node->refused,
          "site site1 runs another job than site site0: [sync] steps is 20 at site0 and 30 at "
          "site1; start all sites with the same job file, --set and --wan");
      EXPECT_TRUE(node->is_invalid);
    }
  }
}

// A peer believes at its address alone that a node is of another job, after it has refused it.
TEST(ResumingPeers, OneOfAnotherJobStaysUntilTheOthersHaveComeBy) {
  for (const Rank odd : {0u, 1u, 2u}) {
    SCOPED_TRACE(odd);
    Resuming run(3);
    for (Rank rank = 0; rank < 3; ++rank)
      if (rank != odd) run.start(rank, 0, 0, {{"[sync] steps", "20"}});
    run.start(odd, 0, 0, {{"[sync] steps", "30"}});
    const std::string why = "site" + std::to_string(odd) + " has 30 steps";
    run.nodes[odd]->peers.leave(invalid(why), 20s);  // before it has heard of anybody
    run.nodes[odd].reset();
    ASSERT_TRUE(run.until([&] {
      return std::ranges::all_of(run.nodes,
                                 [](const auto& node) { return !node || !node->refused.empty(); });
    }));
    for (const auto& node : run.nodes)
      if (node) EXPECT_TRUE(node->is_invalid);
  }
}

}  // namespace
}  // namespace longhaul::net

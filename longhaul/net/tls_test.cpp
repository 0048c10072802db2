// Streams under TLS over real sockets on the loopback, and what strangers do to them.
#include "longhaul/net/tls.h"

#include <gmock/gmock.h>

#include "longhaul/base/testing/effort.h"
#include "longhaul/net/testing/loopback.h"
#include "longhaul/secure/testing/keys.h"

namespace longhaul::net {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;

struct Authority {
  secure::KeyPair pair = secure::test_authority();
  std::vector<std::string> sites = {"lima", "tokyo"};
  std::unique_ptr<secure::Credentials> lima = secure::test_credentials(pair, "lima", sites);
  std::unique_ptr<secure::Credentials> tokyo = secure::test_credentials(pair, "tokyo", sites);
};

// Made once: a key costs milliseconds under a sanitizer.
const Authority& keys() {
  static const Authority made;
  return made;
}

// A TCP connection, each end of which may be put under TLS.
struct Wires : LoopbackPair {
  void secure_dialled() {
    dialled = make_tls_stream(loop, std::move(dialled), keys().lima->dial("tokyo"));
  }
  void secure_accepted(std::string_view refusal = "") {
    const auto bytes = std::as_bytes(std::span(refusal));
    accepted = make_tls_stream(loop, std::move(accepted), keys().tokyo->accept(),
                               {.plain_refusal = Buffer(bytes.begin(), bytes.end())});
  }
};

std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// What a read of one byte ends with.
struct ByteRead {
  std::byte byte{};
  std::string why;
  explicit ByteRead(Stream& stream) {
    stream.read(std::span(&byte, 1),
                [this](const Status& status) { why = status ? "ok" : status.error().what; });
  }
};

TEST(Tls, FramesOfAllSizesGoBothWaysWhole) {
  constexpr std::uint32_t kLonger = longhaul::testing::kGate ? 5000 : 20000;
  Wires wires;
  wires.secure_dialled();
  wires.secure_accepted();
  const secure::Session* const proved = wires.accepted->security();
  FrameEnd a, b;
  const auto left = Connection::make(std::move(wires.dialled), a);
  const auto right = Connection::make(std::move(wires.accepted), b);
  for (std::uint16_t i = 0; i < 40; ++i) {
    a.out.push_back(numbered_frame(i, i * 100u, i % 3 != 0 ? i * kLonger : 0));
    b.out.push_back(numbered_frame(i, 0, 1000));
  }
  for (const auto& one : {left, right}) {
    one->start();
    one->wake();
  }
  ASSERT_TRUE(wires.wait([&] {
    return (a.in.size() == 40 && b.in.size() == 40) || !a.why.empty() || !b.why.empty();
  }));
  ASSERT_EQ(a.why + b.why, "");
  for (std::uint16_t i = 0; i < 40; ++i) {
    EXPECT_EQ(b.in[i].header.kind, i);
    EXPECT_EQ(b.in[i].head.size(), i * 100u);
    EXPECT_EQ(b.in[i].body.size(), i % 3 != 0 ? i * kLonger : 0);
    EXPECT_EQ(a.in[i].body.size(), 1000u);
  }
  EXPECT_TRUE(proved->peer_is("lima"));
  right->end(unavailable("test"));
  ASSERT_TRUE(wires.wait([&] { return !a.why.empty(); }));
  EXPECT_THAT(a.why, HasSubstr("closed the connection"));
}

// Thousands of frames that came in one piece do not nest their callbacks.
TEST(Tls, ManySmallFramesAreDeliveredInALoop) {
  Wires wires;
  wires.secure_dialled();
  wires.secure_accepted();
  FrameEnd a, b;
  const auto left = Connection::make(std::move(wires.dialled), a);
  const auto right = Connection::make(std::move(wires.accepted), b);
  for (std::uint16_t i = 0; i < 5000; ++i) a.out.push_back(numbered_frame(i, 0, 0));
  right->start();
  left->start();
  left->wake();
  ASSERT_TRUE(wires.wait([&] { return b.in.size() == 5000; }));
  left->end(unavailable("test"));
  right->end(unavailable("test"));
}

TEST(Tls, APeerWithoutTlsGetsThePlainRefusal) {
  Wires wires;
  wires.secure_accepted("use TLS");
  ByteRead stranger(*wires.accepted);
  std::array<std::byte, 7> answer{};
  std::string answered;
  wires.dialled->read(answer, [&](const Status& status) {
    answered = status ? std::string(reinterpret_cast<const char*>(answer.data()), answer.size())
                      : status.error().what;
  });
  wires.dialled->write({as_bytes("GET / HTTP/1.1\r\n\r\n"), {}, {}}, [](const Status&) {});
  ASSERT_TRUE(wires.wait([&] { return !answered.empty() && !stranger.why.empty(); }));
  EXPECT_THAT(stranger.why, HasSubstr("does not speak TLS"));
  EXPECT_EQ(answered, "use TLS");
}

TEST(Tls, APlainPeerThatIsDialledIsNamed) {
  Wires wires;
  wires.secure_dialled();
  ByteRead end(*wires.dialled);
  wires.accepted->write({as_bytes("SSH-2.0-OpenSSH_9.2\r\n"), {}, {}}, [](const Status&) {});
  ASSERT_TRUE(wires.wait([&] { return !end.why.empty(); }));
  EXPECT_THAT(end.why, HasSubstr("does not speak TLS"));
}

TEST(Tls, APeerThatClosesInTheHandshakeIsNamedWithTheRemedy) {
  Wires wires;
  wires.secure_dialled();
  ByteRead end(*wires.dialled);
  wires.accepted->close();
  ASSERT_TRUE(wires.wait([&] { return !end.why.empty(); }));
  EXPECT_THAT(end.why, HasSubstr("start all sites alike"));
}

TEST(Tls, ACallerThatClosesInTheHandshakeIsGone) {
  Wires wires;
  wires.secure_accepted();
  ByteRead end(*wires.accepted);
  wires.dialled->close();
  ASSERT_TRUE(wires.wait([&] { return !end.why.empty(); }));
  EXPECT_THAT(end.why, HasSubstr("during the TLS handshake"));
  EXPECT_THAT(end.why, Not(HasSubstr("start all sites alike")));
}

// The dialling end has written before it can know; it reads why nobody listens.
TEST(Tls, ARefusedSiteReadsTheReason) {
  for (int turn = 0; turn < 5; ++turn) {
    Wires wires;
    auto made = secure::Credentials::make(secure::test_keys(secure::test_authority(), "lima"),
                                          keys().pair.certificate, "lima", keys().sites);
    ASSERT_TRUE(made);
    wires.dialled = make_tls_stream(wires.loop, std::move(wires.dialled), (*made)->dial("tokyo"));
    wires.secure_accepted();
    FrameEnd a, b;
    for (std::uint16_t i = 0; i < 50; ++i) a.out.push_back(numbered_frame(i, 0, 100000));
    const auto left = Connection::make(std::move(wires.dialled), a);
    const auto right = Connection::make(std::move(wires.accepted), b);
    right->start();
    left->start();
    left->wake();
    ASSERT_TRUE(wires.wait([&] { return !a.why.empty() && !b.why.empty(); }));
    EXPECT_THAT(b.why, HasSubstr("another authority"));
    EXPECT_THAT(a.why, HasSubstr("refuses the certificate of this site (lima)"));
    EXPECT_TRUE(b.in.empty());
  }
}

// A stream that is closed, or gone, while it waits for a handshake that never goes on.
TEST(Tls, ClosingEndsWhatWaits) {
  Wires wires;
  wires.secure_dialled();
  ByteRead end(*wires.dialled);
  std::string written;
  wires.dialled->write({as_bytes("x"), {}, {}}, [&](const Status& status) {
    written = status ? "ok" : status.error().what;
  });
  wires.dialled->close();
  wires.dialled->close();
  ASSERT_TRUE(wires.wait([&] { return !end.why.empty() && !written.empty(); }));
  EXPECT_NE(written, "ok");
  Wires others;
  others.secure_dialled();
  ByteRead other(*others.dialled);
  others.dialled.reset();
  (void)others.loop.run_until(others.loop.now() + 10ms, [] { return false; });
  EXPECT_NE(other.why, "ok");
}

}  // namespace
}  // namespace longhaul::net

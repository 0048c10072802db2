// Over real sockets on the loopback.
#include "longhaul/net/tcp.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <thread>

#include "longhaul/base/testing/effort.h"
#include "longhaul/base/testing/result.h"
#include "longhaul/net/testing/loopback.h"

namespace longhaul::net {
namespace {
using namespace std::chrono_literals;

TEST(Tcp, FramesOfAllSizesGoBothWaysWhole) {
  constexpr std::uint32_t kLonger = longhaul::testing::kGate ? 5000 : 20000;
  LoopbackPair pair;
  FrameEnd a, b;
  const auto left = Connection::make(std::move(pair.dialled), a);
  const auto right = Connection::make(std::move(pair.accepted), b);
  std::size_t bytes = 0;
  for (std::uint16_t i = 0; i < 40; ++i) {
    a.out.push_back(numbered_frame(i, i * 100u, i % 3 ? i * kLonger : 0));
    b.out.push_back(numbered_frame(i, 0, 1000));
    bytes += a.out.back().size();
  }
  for (const auto& one : {left, right}) {
    one->start();
    one->wake();
  }
  ASSERT_TRUE(pair.wait([&] { return a.in.size() == 40 && b.in.size() == 40; })) << a.why << b.why;
  for (std::uint16_t i = 0; i < 40; ++i) {
    EXPECT_EQ(b.in[i].header.kind, i);
    const auto view = b.in[i].body.view();
    EXPECT_EQ(view.size(), i % 3 ? i * kLonger : 0);
    EXPECT_TRUE(
        std::all_of(view.begin(), view.end(), [&](auto x) { return x == std::byte(i + 1); }));
  }
  ASSERT_TRUE(pair.wait([&] { return a.written == 40; }));
  EXPECT_EQ(left->stream().sent(), bytes);
  EXPECT_EQ(right->stream().received(), bytes);
  left->end(unavailable("done"));
  EXPECT_EQ(a.why, "done");
  ASSERT_TRUE(pair.wait([&] { return !b.why.empty(); }));
  EXPECT_TRUE(says(b.why, "127.0.0.1"));
}

TEST(Tcp, AStrangersBytesEndTheConnectionWithTheReason) {
  LoopbackPair pair;
  FrameEnd b;
  const auto right = Connection::make(std::move(pair.accepted), b);
  right->start();
  const std::string http = "GET / HTTP/1.1\r\nHost: longhaul.example\r\nAccept: */*\r\n\r\n";
  pair.dialled->write({std::as_bytes(std::span(http)), {}, {}}, [](Status) {});
  ASSERT_TRUE(pair.wait([&] { return right->ended(); }));
  EXPECT_TRUE(says(b.why, "frame"));
  EXPECT_TRUE(b.in.empty());
}

TEST(Tcp, AFrameCutByTheEndOfTheConnectionIsNotDelivered) {
  LoopbackPair pair;
  FrameEnd b;
  const auto right = Connection::make(std::move(pair.accepted), b);
  right->start();
  Frame whole = numbered_frame(3, 10, 1000);
  const HeaderBytes header = seal(whole);
  bool closed_by_peer = false;
  pair.dialled->write({header, whole.head.view(), whole.body.view().first(999)}, [&](Status) {
    pair.dialled->close();
    closed_by_peer = true;
  });
  ASSERT_TRUE(pair.wait([&] { return closed_by_peer && right->ended(); }));
  EXPECT_TRUE(b.in.empty());
  EXPECT_TRUE(says(b.why, "closed"));
}

TEST(Tcp, LastWordsReachAPeerThatSpeaksAtTheSameTime) {
  LoopbackPair pair;
  const Buffer unread(5000), words(200'000, std::byte{7});
  bool said = false, written = false;
  pair.dialled->write({unread, {}, {}}, [&](const Status&) { said = true; });
  ASSERT_TRUE(pair.wait([&] { return said; }));
  pair.accepted->write({words, {}, {}}, [&](const Status&) { written = true; });
  ASSERT_TRUE(pair.wait([&] { return written; }));
  pair.accepted->finish();
  pair.accepted.reset();
  Buffer heard(words.size());
  std::optional<Status> read;
  pair.dialled->read(heard, [&](const Status& status) { read = status; });
  ASSERT_TRUE(pair.wait([&] { return read.has_value(); }));
  EXPECT_TRUE(*read);
  EXPECT_EQ(heard, words);
}

// The socket of this process whose port here is that, listening ones apart; -1: none.
int descriptor_at(std::uint16_t port) {
  for (int fd = 3; fd < 1024; ++fd) {
    sockaddr_in here{}, there{};
    socklen_t size = sizeof here, other = sizeof there;
    if (getsockname(fd, reinterpret_cast<sockaddr*>(&here), &size) == 0 &&
        getpeername(fd, reinterpret_cast<sockaddr*>(&there), &other) == 0 &&
        ntohs(here.sin_port) == port)
      return fd;
  }
  return -1;
}

TEST(Tcp, MarksThePacketsOfOneConnection) {
  LoopbackPair pair;
  pair.accepted->set_dscp(40);
  const auto class_of = [](int fd) {
    int value = -1;
    socklen_t size = sizeof value;
    getsockopt(fd, IPPROTO_IP, IP_TOS, &value, &size);
    return value;
  };
  const std::string dialled_from = pair.accepted->peer();
  const auto dialled = good(parse_address(dialled_from));
  EXPECT_EQ(class_of(descriptor_at(pair.listener->port())), 40 << 2);
  EXPECT_EQ(class_of(descriptor_at(dialled->port)), 0);
}

TEST(Tcp, PacesOneConnectionAndHoldsLessOfIt) {
  LoopbackPair pair;
  const int fd = descriptor_at(pair.listener->port());
  const auto seen = [fd] {
    std::uint64_t rate = 0;
    int unsent = 0;
    socklen_t size = sizeof rate, other = sizeof unsent;
    EXPECT_EQ(getsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, &size), 0);
    EXPECT_EQ(getsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, &other), 0);
    return std::pair(rate, unsent);
  };
  pair.accepted->set_pacing(2e6);
  EXPECT_EQ(seen(), std::pair(std::uint64_t{2'000'000}, 60'000));
  pair.accepted->set_pacing(1e5);
  EXPECT_EQ(seen().second, 16 * 1024);
  pair.accepted->set_pacing(std::numeric_limits<double>::infinity());
  EXPECT_EQ(seen(), std::pair(~std::uint64_t{0}, 256 * 1024));
}

TEST(Tcp, TheLoopbackKeepsItsCongestionControl) {
  LoopbackPair pair;
  EXPECT_TRUE(pair.dialled->set_congestion("no-such-control"));
}

TEST(Tcp, APortInUseSaysSo) {
  LoopbackPair pair;
  const Error again = failure(listen(pair.loop, {"127.0.0.1", pair.listener->port()}, [](auto) {}));
  const std::string want = "127.0.0.1:" + std::to_string(pair.listener->port());
  EXPECT_TRUE(says(again.what, want));
  EXPECT_TRUE(says(again.what, "another process"));
}

TEST(Tcp, AnAddressOfAnotherMachineIsSaidToNeedABind) {
  Loop loop;
  const auto listener = listen(loop, {"192.0.2.1", 7000}, [](auto) {});  // of no machine: RFC 5737
  ASSERT_FALSE(listener);
  EXPECT_EQ(listener.error().what,
            "192.0.2.1:7000: cannot listen: this machine has no such address; leave [[site]] bind "
            "out, to listen at all it has, or name one of them");
  EXPECT_EQ(listener.error().kind, Error::Kind::unavailable) << "it may get it later";
}

bool has_ipv6() {
  const auto opened = open_listening_sockets({"::1", 0});
  for (const ListeningSocket& one : opened ? *opened : std::vector<ListeningSocket>{})
    close(one.descriptor);
  return bool(opened);
}

// The hosts that can be dialled, at the listener's port.
std::vector<std::string> reached(Loop& loop, const Listener& listener,
                                 const std::vector<std::string>& hosts) {
  std::vector<std::string> good;
  std::size_t done = 0;
  for (const std::string& host : hosts)
    connect(loop, {host, listener.port()}, 5s, [&, host](auto result) {
      if (result) good.push_back(host);
      ++done;
    });
  EXPECT_TRUE(loop.run_until(loop.now() + 20s, [&] { return done == hosts.size(); }));
  std::ranges::sort(good);
  return good;
}

TEST(Tcp, ANodeListensEverywhereUnlessItsAddressIsOfTheLoopback) {
  EXPECT_EQ(to_string(listening_address({"mybox", 7342})), "[::]:7342");
  EXPECT_EQ(to_string(listening_address({"198.51.100.7", 7342})), "[::]:7342");
  for (const char* own : {"127.0.0.1", "127.0.1.1", "::1", "localhost"})
    EXPECT_EQ(listening_address({own, 1}).host, own);
  Loop loop;
  std::vector<std::string> callers;
  const auto listener = listen(loop, listening_address({"mybox", 0}),
                               [&](auto stream) { callers.push_back(stream->peer()); });
  ASSERT_TRUE(listener) << listener.error().what;
  std::vector<std::string> all = {"127.0.0.1", "127.0.1.1"};
  if (has_ipv6()) all.push_back("::1");
  EXPECT_EQ(reached(loop, **listener, all), all);
  ASSERT_TRUE(loop.run_until(loop.now() + 20s, [&] { return callers.size() == all.size(); }));
  for (const std::string& caller : callers)
    EXPECT_EQ(caller.find("ffff"), std::string::npos) << "no mapped address: " << caller;
}

TEST(Tcp, ANodeOfTheLoopbackListensThereAlone) {
  Loop loop;
  const auto listener = good(listen(loop, listening_address({"127.0.0.1", 0}), [](auto) {}));
  EXPECT_EQ(reached(loop, **listener, {"127.0.0.1", "127.0.1.1", "::1"}),
            std::vector<std::string>{"127.0.0.1"});
  ASSERT_EQ((*listener)->addresses().size(), 1u);
  EXPECT_EQ((*listener)->addresses()[0].host, "127.0.0.1");
}

// A name of two addresses, as /etc/hosts has of most machines.
TEST(Tcp, ANameIsListenedAtInAllItsAddresses) {
  const auto hosts = good(resolve("localhost"));
  Loop loop;
  const auto listener = good(listen(loop, {"localhost", 0}, [](auto) {}));
  std::vector<std::string> all;
  for (const std::string& host : *hosts)
    if (host != "::1" || has_ipv6()) all.push_back(host);
  std::ranges::sort(all);
  EXPECT_EQ(reached(loop, **listener, all), all);
  EXPECT_EQ((*listener)->addresses().size(), all.size());
  // Now the port is taken.
  EXPECT_EQ(failure(listen(loop, {all.back(), (*listener)->port()}, [](auto) {})).kind,
            Error::Kind::io)
      << "another process has it: no use in waiting";
}

// As systemd hands one over: it takes both families, and shows IPv4's addresses as such.
TEST(Tcp, AnInheritedSocketOfBothFamiliesIsBoth) {
  if (!has_ipv6()) return;
  const int made = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int off = 0;
  ASSERT_EQ(setsockopt(made, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off), 0);
  sockaddr_in6 at{};
  at.sin6_family = AF_INET6;
  ASSERT_EQ(bind(made, reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
  ASSERT_EQ(::listen(made, 8), 0);
  Loop loop;
  std::unique_ptr<Stream> accepted;
  const auto listener = listen_on(loop, made, [&](auto stream) { accepted = std::move(stream); });
  ASSERT_TRUE(listener) << listener.error().what;
  ASSERT_EQ((*listener)->addresses().size(), 2u);
  EXPECT_EQ((*listener)->addresses()[1].host, "0.0.0.0");
  EXPECT_EQ(reached(loop, **listener, {"127.0.0.1"}).size(), 1u);
  ASSERT_TRUE(loop.run_until(loop.now() + 20s, [&] { return accepted != nullptr; }));
  EXPECT_EQ(accepted->peer().rfind("127.0.0.1:", 0), 0u) << accepted->peer();
  EXPECT_TRUE(accepted->set_congestion("no-such-control")) << "it is of the loopback";
}

std::string why_not(const Address& address, Time within) {
  Loop loop;
  std::string why;
  connect(loop, address, within, [&](auto result) { why = result ? "ok" : result.error().what; });
  EXPECT_TRUE(loop.run_until(loop.now() + 20s, [&] { return !why.empty(); }));
  return why;
}

TEST(Tcp, WhoCannotBeReachedIsNamedWithTheReason) {
  const std::string name = why_not({"no-such-host.invalid", 7000}, 15s);
  EXPECT_TRUE(says(name, "no-such-host.invalid:7000"));

  // A port that is nobody else's, and that nobody listens at.
  const int silent = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  ASSERT_EQ(bind(silent, reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
  getsockname(silent, reinterpret_cast<sockaddr*>(&at), &size);
  EXPECT_TRUE(says(why_not({"127.0.0.1", ntohs(at.sin_port)}, 5s), "refused"));

  // A door whose queue is full does not answer.
  ASSERT_EQ(::listen(silent, 0), 0);
  std::vector<int> queue;
  for (int i = 0; i < 4; ++i) {
    queue.push_back(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
    (void)::connect(queue.back(), reinterpret_cast<sockaddr*>(&at), sizeof at);
  }
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(says(why_not({"127.0.0.1", ntohs(at.sin_port)}, 300ms), "no answer"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
  for (const int one : queue) close(one);
  close(silent);
}

TEST(Loop, TimersComeInOrderAndPostWorksFromOtherThreads) {
  Loop loop;
  std::vector<int> order;
  const Timer second = loop.at(loop.now() + 20ms, [&] { order.push_back(2); });
  const Timer first = loop.at(loop.now() + 10ms, [&] { order.push_back(1); });
  {
    const Timer dropped = loop.at(loop.now() + 1ms, [&] { order.push_back(9); });
  }
  std::thread other([&] { loop.post([&] { order.push_back(0); }); });
  other.join();
  EXPECT_TRUE(loop.run_until(loop.now() + 5s, [&] { return order.size() == 3; }));
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2}));
  EXPECT_FALSE(loop.run_until(loop.now() + 5ms, [] { return false; }));
}

TEST(Address, IsHostAndPort) {
  for (const char* text : {"10.0.0.1:7000", "[::1]:7000", "a.example:1"})
    EXPECT_EQ(to_string(*good(parse_address(text))), text);
  for (const char* bad : {"", ":", "a", "a:", ":1", "a:65536", "a:1x", "::1:7", "a:-1"})
    EXPECT_FALSE(parse_address(bad)) << bad;
}

}  // namespace
}  // namespace longhaul::net

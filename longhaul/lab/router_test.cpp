#include "longhaul/lab/router.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <future>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "longhaul/base/testing/result.h"
#include "longhaul/lab/site_networks.h"

namespace longhaul::lab {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using Bytes = std::vector<std::byte>;

TEST(Networks, AddressesNameSites) {
  for (const std::uint32_t site : {0u, 1u, 254u, 255u, 300u, 64999u}) {
    const std::uint32_t address = ntohl(inet_addr(site_address(site).c_str()));
    EXPECT_EQ(site_at(address, kMaxSites), site);
    EXPECT_EQ(site_at(address, site), std::nullopt);
  }
  EXPECT_EQ(site_address(0), "10.0.0.1");
  EXPECT_EQ(site_at(ntohl(inet_addr("10.0.0.0")), 10), std::nullopt);
  EXPECT_EQ(site_at(ntohl(inet_addr("192.168.0.1")), 10), std::nullopt);
}

// What the router is asked for is bounded by sites and by pairs, sending and receiving.
TEST(Router, KnowsWhatItIsAskedFor) {
  flow::Wan wan;
  wan.sites.resize(3);
  EXPECT_EQ(demand_on_router(wan), std::nullopt);
  EXPECT_NE(router_overload_warning(wan), "");
  wan.usual.rate = 1e6;
  EXPECT_EQ(demand_on_router(wan), 6e6);
  EXPECT_EQ(router_overload_warning(wan), "");
  wan.sites[0].down = 5e5;
  EXPECT_EQ(demand_on_router(wan), 4.5e6);
  wan.sites[1].down = 1e9;  // more than its pairs bring
  EXPECT_EQ(demand_on_router(wan), 4.5e6);
  wan.usual.rate = {};
  EXPECT_EQ(demand_on_router(wan), std::nullopt);
  for (auto& site : wan.sites) site.up = 1e8;
  EXPECT_EQ(demand_on_router(wan), 3e8);
  EXPECT_TRUE(says(router_overload_warning(wan), "2400 Mbit/s"));
  for (std::uint32_t i = 0; i < 3; ++i)
    wan.traces.push_back(
        {.what = flow::Traced::What::up, .a = i, .trace = {.at = {0, 1}, .values = {1e5, 1e7}}});
  EXPECT_EQ(demand_on_router(wan), 3e7);
}

// What this machine refuses of what a site's network is made of; "" if nothing. Asked of the
// kernel, not of the code that is tested: where it can be done, it must be done.
std::string missing_here() {
  std::string missing;
  std::thread([&] {
    const auto need = [&](bool there, const char* what) {
      if (!there && missing.empty()) missing = std::string(what) + ": " + strerror(errno);
    };
    need(unshare(CLONE_NEWNET) == 0, "a network namespace");
    const Descriptor tun(open("/dev/net/tun", O_RDWR | O_CLOEXEC));
    need(bool(tun), "/dev/net/tun");
    ifreq request = {};
    request.ifr_flags = IFF_TUN | IFF_NO_PI;
    need(ioctl(tun.get(), TUNSETIFF, &request) == 0, "a TUN device");
  }).join();
  return missing;
}

// An emulated WAN with its router on a thread, where this machine lets one be made; where it does
// not, that is what one is told.
class Lab : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string missing = missing_here();
    if (missing.empty()) return;
    EXPECT_TRUE(says(make_networks(2), "the emulated WAN needs"));
    GTEST_SKIP() << "this machine has not " << missing;
  }
  void start(flow::Wan wan, std::vector<Change> changes = {}) {
    auto networks = good(make_networks(wan.sites.size()));
    networks_ = *std::move(networks);
    stop_ = Descriptor(eventfd(0, EFD_CLOEXEC));
    RouterConfig config{std::move(wan), 1, std::move(changes), {}, stop_.get()};
    for (const SiteNetwork& network : networks_) config.tuns.push_back(network.tun.get());
    router_ = std::async(std::launch::async, [config] { return route(config); });
  }
  RouterFigures end() {
    const std::uint64_t one = 1;
    EXPECT_EQ(write(stop_.get(), &one, sizeof one), ssize_t(sizeof one));
    const auto figures = router_.get();
    EXPECT_TRUE(figures);
    return figures ? *figures : RouterFigures{};
  }
  void TearDown() override {
    if (router_.valid()) end();
  }

  // A socket of that site at its own address; for a kind that listens, at `port`.
  Descriptor socket_at(std::uint32_t site, int kind, std::uint16_t port = 0) {
    Descriptor made;
    const Status status = within(networks_[site].netns.get(), [&]() -> Status {
      made = Descriptor(socket(AF_INET, kind, 0));
      const timeval patience{20, 0};
      setsockopt(made.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
      const sockaddr_in at = address(site, port);
      return bind(made.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0
                 ? Status(Ok{})
                 : Status(unavailable(strerror(errno)));
    });
    EXPECT_TRUE(status);
    return made;
  }
  static sockaddr_in address(std::uint32_t site, std::uint16_t port) {
    sockaddr_in at = {};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = inet_addr(site_address(site).c_str());
    at.sin_port = htons(port);
    return at;
  }
  static void send_to(int from, std::uint32_t site, std::uint16_t port, std::size_t bytes) {
    const std::vector<char> data(bytes);
    const sockaddr_in to = address(site, port);
    EXPECT_EQ(
        sendto(from, data.data(), bytes, 0, reinterpret_cast<const sockaddr*>(&to), sizeof to),
        ssize_t(bytes));
  }
  static ssize_t receive(int from) {
    char data[2048];
    return recv(from, data, sizeof data, 0);
  }
  // Of a TCP connection from site 0 to site 1 that sends so much, in bytes/s, headers counted,
  // from the quarter of it that has arrived to the end.
  double goodput(std::size_t bytes);

  std::vector<SiteNetwork> networks_;
  Descriptor stop_;
  std::future<Result<RouterFigures>> router_;
};

// What takes seconds, or is measured in real time.
using LabNightly = Lab;

double Lab::goodput(std::size_t bytes) {
  const Descriptor door = socket_at(1, SOCK_STREAM, 5001);
  EXPECT_EQ(listen(door.get(), 1), 0);
  const Descriptor out = socket_at(0, SOCK_STREAM);
  (void)setsockopt(out.get(), IPPROTO_TCP, TCP_CONGESTION, "bbr", 3);
  const sockaddr_in to = address(1, 5001);
  EXPECT_EQ(connect(out.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
  const Descriptor in(accept(door.get(), nullptr, nullptr));
  std::thread sender([&] {
    const std::vector<char> data(bytes);
    std::size_t sent = 0;
    while (sent < bytes) {
      const ssize_t more = send(out.get(), data.data() + sent, bytes - sent, 0);
      if (more <= 0) break;
      sent += std::size_t(more);
    }
  });
  std::vector<char> buffer(65536);
  std::size_t got = 0, from = 0;
  Clock::time_point begin;
  while (got < bytes) {
    const ssize_t more = recv(in.get(), buffer.data(), buffer.size(), 0);
    if (more <= 0) break;
    got += std::size_t(more);
    if (from == 0 && got >= bytes / 4) from = got, begin = Clock::now();
  }
  const double time = seconds(Clock::now() - begin);
  sender.join();
  EXPECT_EQ(got, bytes);
  return double(got - from) * (1500.0 / 1448) / time;
}

// A datagram there and one back take the delays there and back, within 2 ms. A network that cannot
// be made where it could be fails.
TEST_F(LabNightly, RoundTripsTakeTheDelays) {
  flow::Wan wan;
  wan.sites.resize(3);
  wan.usual = {.rate = 5e6, .delay_s = 0.015};
  wan.pairs[{2, 0}] = {.rate = {}, .delay_s = 0.040};
  start(wan);
  if (HasFatalFailure()) return;
  for (const std::uint32_t peer : {1u, 2u}) {
    const Descriptor here = socket_at(0, SOCK_DGRAM, 7000),
                     there = socket_at(peer, SOCK_DGRAM, 7000);
    std::vector<double> times;
    for (int i = 0; i < 9; ++i) {
      const auto begin = Clock::now();
      send_to(here.get(), peer, 7000, 64);
      ASSERT_EQ(receive(there.get()), 64);
      send_to(there.get(), 0, 7000, 64);
      ASSERT_EQ(receive(here.get()), 64);
      times.push_back(seconds(Clock::now() - begin) * 1e3);
    }
    std::sort(times.begin(), times.end());
    const double asked = peer == 1 ? 30 : 55;
    EXPECT_GE(times.front(), asked);
    EXPECT_LE(times.front(), asked + 2);  // others are longer on a busy machine
  }
  EXPECT_EQ(end().delivered, 36u);
}

// A connection gets its link's rate, headers counted, within a few percent.
TEST_F(LabNightly, AConnectionGetsTheRate) {
  flow::Wan wan;
  wan.sites.resize(2);
  wan.sites[0].up = 2.5e6;
  wan.usual.delay_s = 0.010;
  start(wan);
  if (HasFatalFailure()) return;
  EXPECT_NEAR(goodput(4'000'000), 2.5e6, 2.5e6 * 0.05);
  const RouterFigures figures = end();
  EXPECT_GT(figures.packets, 2500u);
  RecordProperty("late_share", std::to_string(figures.limited_share()));
}

// What TCP sends is acknowledged at once, though a second of data waits to go that way.
TEST_F(Lab, AcknowledgementsDoNotWaitForData) {
  flow::Wan wan;
  wan.sites.resize(2);
  wan.sites[1].up = 125'000;
  start(wan);
  if (HasFatalFailure()) return;
  const Descriptor door = socket_at(1, SOCK_STREAM, 5001);
  ASSERT_EQ(listen(door.get(), 1), 0);
  const Descriptor out = socket_at(0, SOCK_STREAM);
  const sockaddr_in to = address(1, 5001);
  ASSERT_EQ(connect(out.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
  const Descriptor in(accept(door.get(), nullptr, nullptr));
  const Descriptor other = socket_at(1, SOCK_DGRAM);
  for (int i = 0; i < 80; ++i) send_to(other.get(), 0, 7000, 1400);
  const auto begin = Clock::now();
  const std::vector<char> data(10'000);
  ASSERT_EQ(send(out.get(), data.data(), data.size(), 0), ssize_t(data.size()));
  int left = 1;
  while (left > 0 && Clock::now() - begin < 10s) {
    std::this_thread::sleep_for(1ms);
    ASSERT_EQ(ioctl(out.get(), SIOCOUTQ, &left), 0);
  }
  EXPECT_LT(seconds(Clock::now() - begin), 0.5);
}

// Marked packets go first, and unmarked ones are those that the tail of the queue drops.
TEST_F(LabNightly, MarkedPacketsGoFirst) {
  flow::Wan wan;
  wan.sites.resize(2);
  wan.sites[0].up = 125'000;  // a queue of 128 KiB takes a second
  start(wan);
  if (HasFatalFailure()) return;
  const Descriptor bulk = socket_at(0, SOCK_DGRAM), marked = socket_at(0, SOCK_DGRAM);
  const Descriptor there = socket_at(1, SOCK_DGRAM, 7000);
  const int selector = 6 << 5;  // CS6, in the byte that was TOS
  ASSERT_EQ(setsockopt(marked.get(), IPPROTO_IP, IP_TOS, &selector, sizeof selector), 0);
  for (int i = 0; i < 120; ++i) send_to(bulk.get(), 1, 7000, 1400);
  send_to(marked.get(), 1, 7000, 100);
  int before = 0;
  while (receive(there.get()) == 1400) ++before;
  EXPECT_LT(before, 20);
  while (before < 91) {
    ASSERT_EQ(receive(there.get()), 1400);
    ++before;
  }
  const RouterFigures figures = end();
  EXPECT_GE(figures.queue_full, 25u);
  EXPECT_EQ(figures.packets, 121u);
}

// A partition and its end come at their times.
TEST_F(Lab, FollowsChanges) {
  flow::Wan wan;
  wan.sites.resize(2);
  using What = Change::What;
  start(wan, {{.at = 0s, .what = What::cut, .from = 0, .to = 1},
              {.at = 300ms, .what = What::healed, .from = 0, .to = 1}});
  if (HasFatalFailure()) return;
  const Descriptor here = socket_at(0, SOCK_DGRAM), there = socket_at(1, SOCK_DGRAM, 7000);
  const timeval moment{0, 20'000};
  setsockopt(there.get(), SOL_SOCKET, SO_RCVTIMEO, &moment, sizeof moment);
  int tries = 0;
  const auto begin = Clock::now();
  do {
    send_to(here.get(), 1, 7000, 100);
  } while (receive(there.get()) < 0 && ++tries < 500);
  const double time = seconds(Clock::now() - begin);
  EXPECT_GT(time, 0.2);
  EXPECT_LT(time, 1.0);
  EXPECT_EQ(end().cut, std::uint64_t(tries));
}

// A trace begins with the first packet between sites, however long the router has waited for it.
TEST_F(LabNightly, ATraceBeginsWithTheFirstPacket) {
  flow::Wan wan;
  wan.sites.resize(2);
  wan.traces = {{.what = flow::Traced::What::delay,
                 .a = 0,
                 .b = 1,
                 .trace = {.at = {0, 0.5}, .values = {0.001, 0.2}}}};
  start(wan);
  if (HasFatalFailure()) return;
  std::this_thread::sleep_for(700ms);
  const Descriptor here = socket_at(0, SOCK_DGRAM), there = socket_at(1, SOCK_DGRAM, 7000);
  const auto takes = [&] {
    const auto begin = Clock::now();
    send_to(here.get(), 1, 7000, 100);
    EXPECT_EQ(receive(there.get()), 100);
    return seconds(Clock::now() - begin);
  };
  const auto begin = Clock::now();
  EXPECT_LT(takes(), 0.15);
  std::this_thread::sleep_until(begin + 600ms);
  EXPECT_GE(takes(), 0.2);
  const RouterFigures figures = end();
  EXPECT_EQ(figures.delivered, 2u);
  EXPECT_GT(figures.seconds, 1.2);
}

TEST_F(Lab, CountsWhatItsDeviceCannotTake) {
  flow::Wan wan;
  wan.sites.resize(2);
  start(wan);
  if (HasFatalFailure()) return;
  end();  // nobody reads any more
  const auto before = good(overruns(networks_[0].netns.get()));
  const Descriptor here = socket_at(0, SOCK_DGRAM);
  for (int i = 0; i < 2600; ++i) send_to(here.get(), 1, 7000, 10);
  EXPECT_GE(*good(overruns(networks_[0].netns.get())), *before + 500);
}

// --- acknowledgement

// An IPv4 packet of `protocol` with a TCP header of 32 bytes, as Linux's are with timestamps.
Bytes tcp_packet(unsigned flags, std::size_t data, unsigned protocol = 6, std::size_t options = 0) {
  Bytes packet(20 + options + 32 + data);
  packet[0] = std::byte(0x40 | (20 + options) / 4);
  packet[9] = std::byte(protocol);
  packet[20 + options + 12] = std::byte(8 << 4);
  packet[20 + options + 13] = std::byte(flags);
  return packet;
}

TEST(Acknowledgement, BareIsWhatAcknowledgesAndNothingElse) {
  EXPECT_TRUE(is_bare_acknowledgement(tcp_packet(0x10, 0)));
  EXPECT_TRUE(is_bare_acknowledgement(tcp_packet(0x10, 0, 6, 8))) << "with options of IP";
  EXPECT_TRUE(is_bare_acknowledgement(tcp_packet(0x18, 0))) << "PSH says nothing";
  EXPECT_FALSE(is_bare_acknowledgement(tcp_packet(0x10, 1))) << "data";
  for (const unsigned flags : {0x11u, 0x12u, 0x14u, 0x00u})
    EXPECT_FALSE(is_bare_acknowledgement(tcp_packet(flags, 0))) << flags;
  EXPECT_FALSE(is_bare_acknowledgement(tcp_packet(0x10, 0, 17))) << "UDP";
  for (const std::size_t place : {6u, 7u}) {
    Bytes fragment = tcp_packet(0x10, 0);
    fragment[place] = std::byte(1);
    EXPECT_FALSE(is_bare_acknowledgement(fragment)) << "of what is there no header";
  }
}

// Whatever bytes there are, none beyond them are read.
RC_GTEST_PROP(Acknowledgement, OfAnyBytes, ()) {
  const auto length = *rc::gen::inRange<std::size_t>(0, 130);
  const auto bytes =
      *rc::gen::container<std::vector<unsigned char>>(length, rc::gen::arbitrary<unsigned char>());
  std::vector<unsigned char> packet(bytes.begin(), bytes.end());
  const auto put = [&](std::size_t at, unsigned char value) {
    if (at < packet.size()) packet[at] = value;
  };
  put(0, *rc::gen::inRange<unsigned char>(0x40, 0x50));
  put(6, 0);
  put(7, 0);
  put(9, 6);
  packet.shrink_to_fit();
  if (is_bare_acknowledgement(std::as_bytes(std::span(packet))))
    RC_ASSERT(packet.size() >= 40 && packet.size() <= 120 && packet.size() % 4 == 0);
}

}  // namespace
}  // namespace longhaul::lab

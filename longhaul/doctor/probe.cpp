#include "longhaul/doctor/probe.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <optional>

#include <fmt/format.h>

namespace longhaul::doctor {

using namespace std::chrono_literals;

namespace {

constexpr Time kConnectTimeout = 10s;  // for connecting and the hello
constexpr Time kPingTimeout = 20s;     // for all pings together
constexpr Time kDrainTimeout = 30s;    // for bytes in flight when the sender ends, on slow links
constexpr Time kStallTimeout = 10s;    // without a byte for this long, the transfer has failed
constexpr Time kSendInterval = 5ms;    // between two datagrams
constexpr std::uint32_t kMaxBeside = 10000;  // datagrams during the bulk of one direction
constexpr Time kBesideInterval = 10ms;       // between two such datagrams
constexpr Time kLate = 2s;                   // datagrams that arrive later count as lost

std::int64_t wall() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// --- datagrams ----------------------------------------------------------------------------------

struct Endpoint {
  sockaddr_storage at{};
  socklen_t size = sizeof(sockaddr_storage);

  // Returns the address of one end of a connection, from getsockname() or getpeername().
  static Endpoint of(const Channel& channel, int (&end)(int, sockaddr*, socklen_t*) noexcept) {
    Endpoint found;
    (void)end(channel.stream().descriptor(), found.raw(), &found.size);
    return found;
  }
  sockaddr* raw() { return reinterpret_cast<sockaddr*>(&at); }
  void set_port(std::uint16_t port) {
    if (at.ss_family == AF_INET6)
      reinterpret_cast<sockaddr_in6&>(at).sin6_port = htons(port);
    else
      reinterpret_cast<sockaddr_in&>(at).sin_port = htons(port);
  }
  std::uint16_t port() const {
    return at.ss_family == AF_INET6 ? ntohs(reinterpret_cast<const sockaddr_in6&>(at).sin6_port)
                                    : ntohs(reinterpret_cast<const sockaddr_in&>(at).sin_port);
  }
};

struct Arrived {
  Datagram datagram;
  std::uint32_t dscp = 0;
  Endpoint from;
};

std::uint32_t dscp_of(msghdr& message) {
  for (cmsghdr* one = CMSG_FIRSTHDR(&message); one != nullptr; one = CMSG_NXTHDR(&message, one)) {
    if (one->cmsg_level == IPPROTO_IP && one->cmsg_type == IP_TOS)
      return std::uint32_t(*CMSG_DATA(one)) >> 2;
    if (one->cmsg_level == IPPROTO_IPV6 && one->cmsg_type == IPV6_TCLASS) {
      int value = 0;
      std::memcpy(&value, CMSG_DATA(one), sizeof value);
      return std::uint32_t(value & 0xff) >> 2;
    }
  }
  return 0;
}

// Sends datagrams with the mark and reads the marks of received ones. Does not block.
class MarkedSocket {
 public:
  explicit MarkedSocket(const Endpoint& like)
      : descriptor_(socket(like.at.ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    const int on = 1;
    setsockopt(descriptor_, IPPROTO_IP, IP_RECVTOS, &on, sizeof on);
    if (like.at.ss_family == AF_INET6)
      setsockopt(descriptor_, IPPROTO_IPV6, IPV6_RECVTCLASS, &on, sizeof on);
    mark(true);
  }
  MarkedSocket(const MarkedSocket&) = delete;
  MarkedSocket& operator=(const MarkedSocket&) = delete;
  ~MarkedSocket() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  int get() const { return descriptor_; }
  // Sets whether later datagrams have the mark.
  void mark(bool with) const {
    const int mark = with ? int(kDscp) << 2 : 0;  // the two lower bits are ECN
    setsockopt(descriptor_, IPPROTO_IP, IP_TOS, &mark, sizeof mark);
    setsockopt(descriptor_, IPPROTO_IPV6, IPV6_TCLASS, &mark, sizeof mark);  // fails with IPv4
  }

  // Takes the next datagram off the socket. Returns false if none waits, or on an error (the peer's
  // port is closed). `arrived` is empty if the bytes are not a Datagram.
  bool take(std::optional<Arrived>& arrived) const {
    Arrived one;
    std::byte bytes[64];
    alignas(cmsghdr) char control[128];
    iovec into{bytes, sizeof bytes};
    msghdr message{};
    message.msg_name = &one.from.at;
    message.msg_namelen = sizeof one.from.at;
    message.msg_iov = &into;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    arrived.reset();
    const ssize_t count = recvmsg(descriptor_, &message, 0);
    if (count < 0) return false;
    one.from.size = message.msg_namelen;
    one.dscp = dscp_of(message);
    const auto datagram = from_wire<Datagram>(std::span(bytes).first(std::size_t(count)));
    if (!datagram) return true;
    one.datagram = *datagram;
    arrived = one;
    return true;
  }

 private:
  const int descriptor_;
};

// Answers datagrams that carry the token with one of the same size and mark. Uses the address of
// the connection, and the site's TCP port if it is free: a firewall may pass both.
class EchoSocket {
 public:
  EchoSocket(const Channel& beside, std::uint16_t port, std::uint64_t token)
      : at_(Endpoint::of(beside, getsockname)), socket_(at_), token_(token) {
    for (const std::uint16_t one : {port, std::uint16_t(0)}) {
      at_.set_port(one);
      if (bind(socket_.get(), at_.raw(), at_.size) != 0) continue;
      if (getsockname(socket_.get(), at_.raw(), &at_.size) == 0) port_ = at_.port();
      return;
    }
  }
  int descriptor() const { return socket_.get(); }
  std::uint16_t port() const { return port_; }  // 0: no UDP on this machine
  DatagramCount counted() const { return counter_.counted(); }
  void answer() {
    std::optional<Arrived> arrived;
    // At most 256: a stranger's flood must not hold this thread.
    for (int i = 0; i < 256 && socket_.take(arrived); ++i) {
      if (!arrived || arrived->datagram.token != token_ || arrived->datagram.echo) continue;
      const bool beside = arrived->datagram.beside;
      if (!beside) counter_.add(arrived->datagram.number, arrived->dscp == kDscp);
      arrived->datagram.echo = true;
      socket_.mark(!beside);
      const Buffer bytes = to_wire(arrived->datagram);
      sendto(socket_.get(), bytes.data(), bytes.size(), 0, arrived->from.raw(), arrived->from.size);
    }
  }

 private:
  Endpoint at_;
  const MarkedSocket socket_;
  std::uint16_t port_ = 0;
  const std::uint64_t token_;
  DatagramCounter counter_{kMaxDatagrams};
};

// Sends plan.datagrams to the peer's echo socket and returns the count of answers. The count is
// zero if UDP cannot be sent.
DatagramCount send_datagrams(const Channel& beside, std::uint16_t port, std::uint64_t token,
                             const MeasurementPlan& plan, const Deadline& deadline) {
  DatagramCounter counter(plan.datagrams);
  Endpoint to = Endpoint::of(beside, getpeername);
  to.set_port(port);
  const MarkedSocket socket(to);
  if (port == 0 || connect(socket.get(), to.raw(), to.size) != 0) return {};
  const auto listen_until = [&](Clock::time_point end) {
    while (counter.counted().came < plan.datagrams && !deadline.stopped()) {
      const auto left = std::min(end, deadline.end) - Clock::now();
      if (left <= 0ms) return;
      pollfd at{socket.get(), POLLIN, 0};
      if (poll(&at, 1, int(std::min<Clock::duration>(left, 100ms) / 1ms) + 1) <= 0) continue;
      std::optional<Arrived> arrived;
      (void)socket.take(arrived);
      if (arrived && arrived->datagram.token == token && arrived->datagram.echo)
        counter.add(arrived->datagram.number, arrived->dscp == kDscp);
    }
  };
  const auto begin = Clock::now();
  for (std::uint32_t number = 0; number < plan.datagrams && !deadline.stopped(); ++number) {
    const Buffer bytes = to_wire(Datagram{token, number, false});
    (void)::send(socket.get(), bytes.data(), bytes.size(), 0);
    listen_until(begin + (number + 1) * kSendInterval);
  }
  listen_until(Clock::now() + kLate);
  return counter.counted();
}

// Sends datagrams to the peer's echo socket during bulk, while the channel's loop runs. Their round
// trips show whether they wait in the bulk's queue, in either direction.
class BesideBulk {
 public:
  BesideBulk(const Channel& channel, std::uint16_t port, std::uint64_t token)
      : loop_(channel.loop()), token_(token), socket_(Endpoint::of(channel, getpeername)) {
    Endpoint to = Endpoint::of(channel, getpeername);
    to.set_port(port);
    if (port == 0 || connect(socket_.get(), to.raw(), to.size) != 0) return;
    socket_.mark(false);
    watch_ = net::watch_readable(loop_, socket_.get(), [this] { take(); });
    send();
  }
  // Returns a long round trip in seconds; 0: unknown.
  double rtt() const { return long_round_trip(round_trips_); }

 private:
  void send() {
    if (sent_.size() == kMaxBeside) return;
    const Buffer bytes = to_wire(Datagram{token_, std::uint32_t(sent_.size()), false, true});
    sent_.push_back(loop_.now());
    (void)::send(socket_.get(), bytes.data(), bytes.size(), 0);
    timer_ = loop_.at(loop_.now() + kBesideInterval, [this] { send(); });
  }
  void take() {
    std::optional<Arrived> arrived;
    for (int i = 0; i < 256 && socket_.take(arrived); ++i) {
      if (!arrived) continue;
      const Datagram& one = arrived->datagram;
      const bool is_ours = one.token == token_ && one.echo && one.beside;
      if (!is_ours || one.number >= sent_.size()) continue;
      Time& sent = sent_[one.number];
      if (sent == kAnswered) continue;  // a copy
      round_trips_.push_back(seconds(loop_.now() - sent));
      sent = kAnswered;
    }
  }

  net::Loop& loop_;
  const std::uint64_t token_;
  const MarkedSocket socket_;
  static constexpr Time kAnswered{-1};
  std::vector<Time> sent_;  // index: number of the datagram; or kAnswered
  std::vector<double> round_trips_;
  std::unique_ptr<net::Watch> watch_;
  net::Timer timer_;
};

// --- bulk ---------------------------------------------------------------------------------------

// Updates the kernel's view of the path.
void look(const Channel& channel, PathInfo& known) {
  const int at = channel.stream().descriptor();
  tcp_info info{};
  socklen_t size = sizeof info;
  if (getsockopt(at, IPPROTO_TCP, TCP_INFO, &info, &size) == 0) {
    known.mtu = info.tcpi_pmtu;
    known.rtt_max_s = std::max(known.rtt_max_s, double(info.tcpi_rtt) * 1e-6);
  }
  char name[16] = {};
  socklen_t length = sizeof name;
  if (getsockopt(at, IPPROTO_TCP, TCP_CONGESTION, name, &length) == 0)
    known.congestion = std::string(name, strnlen(name, sizeof name));
}

// Returns bytes that do not compress, always the same.
Buffer noise() {
  Buffer bytes(kHead + kMaxMessage);
  const auto head = encode({Kind::bulk, kMaxMessage});
  std::copy(head.begin(), head.end(), bytes.begin());
  std::uint64_t state = 1;
  for (std::size_t i = kHead; i < bytes.size(); ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    bytes[i] = std::byte(state >> 56);
  }
  return bytes;
}

}  // namespace

Result<PathInfo> send_bulk(Channel& channel, const MeasurementPlan& plan,
                           const Deadline& deadline) {
  if (!plan.congestion.empty())
    setsockopt(channel.stream().descriptor(), IPPROTO_TCP, TCP_CONGESTION, plan.congestion.data(),
               socklen_t(plan.congestion.size()));
  const Buffer bytes = noise();
  const auto end = Clock::now() + from_seconds(plan.seconds);
  PathInfo path;
  for (double left = plan.mbytes * 1e6; left > 0 && Clock::now() < end && !deadline.stopped();
       left -= double(bytes.size())) {
    const Status sent = channel.write({bytes, {}, {}}, deadline.at_most(kStallTimeout));
    if (!sent) return channel.wrong(Kind::bulk, "it does not take it: " + sent.error().what);
    look(channel, path);
  }
  look(channel, path);
  LH_TRY(channel.send(Kind::bulk_end, path, deadline.at_most(kStallTimeout)));
  return path;
}

Result<Bulk> receive_bulk(Channel& channel, const Deadline& deadline) {
  const auto begin = Clock::now();
  const auto so_far = [&] { return seconds(Clock::now() - begin); };
  const auto over = [&](const std::string& why) {
    if (deadline.stopped()) return channel.wrong(Kind::bulk, "stopped");
    const bool late = Clock::now() >= deadline.end;
    return channel.wrong(Kind::bulk, late ? "it does not end" : "it stalls: " + why);
  };
  RateMeter meter;
  double bytes = 0;
  Buffer store(kMaxMessage);
  for (;;) {
    if (deadline.stopped() || Clock::now() >= deadline.end) return over("");
    const auto head = channel.receive_head(deadline.at_most(kStallTimeout));
    if (!head) return over(head.error().what);
    std::span<std::byte> left = std::span(store).first(head->size);
    while (!left.empty()) {
      const auto count = channel.read_some(left, deadline.at_most(kStallTimeout));
      if (!count) return over(count.error().what);
      left = left.subspan(*count);
      if (head->kind == Kind::bulk) meter.add(so_far(), bytes += double(*count));
    }
    if (head->kind == Kind::bulk) continue;
    if (head->kind != Kind::bulk_end) return channel.wrong(Kind::bulk, "something else came");
    LH_LET(sent, channel.read<PathInfo>(Kind::bulk_end,
                                        Buffer(store.begin(), store.begin() + head->size)));
    return Bulk{meter.received(), std::move(sent)};
  }
}

// --- the two sides ------------------------------------------------------------------------------

namespace {

Time datagrams_take(const MeasurementPlan& plan) {
  return plan.datagrams * kSendInterval + kLate + 2s;
}
Time bulk_takes(const MeasurementPlan& plan) { return from_seconds(plan.seconds) + kDrainTimeout; }

Status ping(Channel& channel, const MeasurementPlan& plan, PairResult& result,
            const Deadline& deadline) {
  std::vector<PingTimes> exchanges;
  for (std::uint32_t i = 0; i < plan.pings; ++i) {
    // The steady clock measures the duration.
    const auto begin = Clock::now();
    const Ping ping{wall()};
    LH_TRY(channel.send(Kind::ping, ping, deadline));
    LH_LET(pong, channel.receive<Pong>(Kind::pong, deadline));
    const std::int64_t back = ping.sent + Time(Clock::now() - begin).count();
    if (pong.sent != ping.sent) return channel.wrong(Kind::pong, "answers another ping");
    exchanges.push_back({ping.sent, pong.came, pong.left, back});
    const RoundTripStats round_trips = round_trip_stats(exchanges);
    result.pongs = i + 1;
    result.rtt_min_s = round_trips.min;
    result.rtt_median_s = round_trips.median;
    result.offset_s = round_trips.offset;
  }
  return Ok{};
}

Status count(PeerSession& to, const LocalSite& self, const MeasurementPlan& plan,
             PairResult& result, const Deadline& deadline) {
  if (plan.datagrams == 0) return Ok{};
  Channel& channel = to.channel;
  const DatagramCount back = send_datagrams(channel, to.hello.udp_port, self.token, plan, deadline);
  LH_TRY(channel.send(Kind::count, Empty{}, deadline));
  LH_LET(there, channel.receive<DatagramCount>(Kind::counted, deadline));
  result.there.sent = plan.datagrams;
  result.there.counted = {std::min(there.came, plan.datagrams), std::min(there.marked, there.came)};
  result.back.sent = result.there.counted.came;  // the peer echoes received ones
  result.back.counted = {std::min(back.came, result.back.sent), back.marked};
  return Ok{};
}

Status bulk_there(PeerSession& to, const LocalSite& self, const MeasurementPlan& plan,
                  DirectionResult& way, const Deadline& deadline) {
  Channel& channel = to.channel;
  LH_TRY(channel.send(Kind::upload, plan, deadline));
  const BesideBulk beside(channel, plan.datagrams > 0 ? to.hello.udp_port : 0, self.token);
  LH_LET(path, send_bulk(channel, plan, deadline));
  LH_LET(received, channel.receive<BulkResult>(Kind::received, deadline));
  way = {way.sent, way.counted, received, std::move(path), beside.rtt()};
  return Ok{};
}

Status bulk_back(PeerSession& to, const LocalSite& self, const MeasurementPlan& plan,
                 DirectionResult& way, const Deadline& deadline) {
  Channel& channel = to.channel;
  LH_TRY(channel.send(Kind::fetch, plan, deadline));
  const BesideBulk beside(channel, plan.datagrams > 0 ? to.hello.udp_port : 0, self.token);
  LH_LET(bulk, receive_bulk(channel, deadline));
  way = {way.sent, way.counted, bulk.received, std::move(bulk.sent), beside.rtt()};
  return Ok{};
}

Status measure(PeerSession& to, const LocalSite& self, const MeasurementPlan& plan,
               PairResult& result) {
  const auto within = [&](Time time) { return Deadline::within(time, self.stop); };
  LH_TRY(ping(to.channel, plan, result, within(kPingTimeout)));
  LH_TRY(count(to, self, plan, result, within(datagrams_take(plan) + kStallTimeout)));
  LH_TRY(bulk_there(to, self, plan, result.there, within(bulk_takes(plan))));
  LH_TRY(bulk_back(to, self, plan, result.back, within(bulk_takes(plan))));
  return to.channel.send(Kind::bye, Empty{}, within(kConnectTimeout));
}

// Handles one message of the asking site.
Status carry_out(Channel& channel, Channel::Any any, EchoSocket& echo, const LocalSite& self,
                 std::int64_t came) {
  const auto within = [&](Time time) { return Deadline::within(time, self.stop); };
  switch (any.kind) {
    case Kind::ping: {
      LH_LET(ping, channel.read<Ping>(any.kind, any.body));
      return channel.send(Kind::pong, Pong{ping.sent, came, wall()}, within(kConnectTimeout));
    }
    case Kind::count:
      echo.answer();
      return channel.send(Kind::counted, echo.counted(), within(kConnectTimeout));
    case Kind::upload: {
      LH_LET(plan, channel.read<MeasurementPlan>(any.kind, any.body));
      LH_LET(bulk, receive_bulk(channel, within(bulk_takes(plan))));
      return channel.send(Kind::received, bulk.received, within(kConnectTimeout));
    }
    case Kind::fetch: {
      LH_LET(plan, channel.read<MeasurementPlan>(any.kind, any.body));
      LH_TRY(send_bulk(channel, plan, within(bulk_takes(plan))));
      return Ok{};
    }
    default:
      return channel.wrong(any.kind, "came out of turn");
  }
}

}  // namespace

Time longest_probe(const MeasurementPlan& plan) {
  return 2 * kConnectTimeout + kPingTimeout + datagrams_take(plan) + kStallTimeout +
         2 * bulk_takes(plan);
}

PairResult probe(const LocalSite& self, std::uint32_t to, const MeasurementPlan& plan) {
  PairResult result{.from = self.site, .to = to};
  auto session = connect_to(self, to, Purpose::probe, Deadline::within(kConnectTimeout, self.stop));
  result.reached = bool(session);
  const Status measured = session ? measure(*session, self, plan, result) : Status(session.error());
  if (!measured) result.failure = cut(measured.error().what);
  return result;
}

Status answer(PeerSession& from, const LocalSite& self, std::uint16_t port) {
  const auto within = [&](Time time) { return Deadline::within(time, self.stop); };
  Channel& channel = from.channel;
  EchoSocket echo(channel, port, from.hello.token);
  LH_TRY(
      channel.send(Kind::hello, self.hello(Purpose::probe, echo.port()), within(kConnectTimeout)));
  // Answers datagrams whenever this side waits.
  const auto watch = net::watch_readable(channel.loop(), echo.descriptor(), [&] { echo.answer(); });
  for (;;) {
    // The longest silence occurs while the asking site waits for late datagrams.
    auto any = channel.receive_any(within(kStallTimeout + kMaxDatagrams * kSendInterval));
    const std::int64_t came = wall();
    if (!any) return channel.wrong(Kind::bye, any.error().what);
    if (any->kind == Kind::bye) return Ok{};
    LH_TRY(carry_out(channel, *std::move(any), echo, self, came));
  }
}

}  // namespace longhaul::doctor

#include "longhaul/doctor/probe.h"

#include <poll.h>

#include <fmt/format.h>

#include "longhaul/doctor/bulk.h"
#include "longhaul/doctor/datagrams.h"

namespace longhaul::doctor {
namespace {

using namespace std::chrono_literals;

constexpr Time kConnectTimeout = 10s;  // to connect and to greet
constexpr Time kPingTimeout = 20s;     // all of them
constexpr Time kDrainTimeout = 30s;    // for what is under way when the sender ends: slow links

std::int64_t wall() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

Time datagrams_take(const MeasurementPlan& plan) {
  return plan.datagrams * kSendInterval + kLate + 2s;
}
Time bulk_takes(const MeasurementPlan& plan) { return from_seconds(plan.seconds) + kDrainTimeout; }

Status ping(const Channel& channel, const MeasurementPlan& plan, PairResult& result,
            const Deadline& deadline) {
  std::vector<PingTimes> exchanges;
  for (std::uint32_t i = 0; i < plan.pings; ++i) {
    // How long it takes is read off a clock that nobody sets.
    const auto begin = Clock::now();
    const Ping ping{wall()};
    LH_TRY(channel.send(Kind::ping, ping, deadline));
    const auto pong = channel.receive<Pong>(Kind::pong, deadline);
    if (!pong) return pong.error();
    const std::int64_t back = ping.sent + Time(Clock::now() - begin).count();
    if (pong->sent != ping.sent) return channel.wrong(Kind::pong, "answers another ping");
    exchanges.push_back({ping.sent, pong->came, pong->left, back});
    const RoundTripStats round_trips = round_trip_stats(exchanges);
    result.pongs = i + 1;
    result.rtt_min_s = round_trips.min;
    result.rtt_median_s = round_trips.median;
    result.offset_s = round_trips.offset;
  }
  return Ok{};
}

Status count(const PeerSession& to, const LocalSite& self, const MeasurementPlan& plan,
             PairResult& result, const Deadline& deadline) {
  if (plan.datagrams == 0) return Ok{};
  const Channel& channel = to.channel;
  const DatagramCount back =
      send_datagrams(channel.socket(), to.hello.udp_port, self.token, plan, deadline);
  LH_TRY(channel.send(Kind::count, Empty{}, deadline));
  const auto there = channel.receive<DatagramCount>(Kind::counted, deadline);
  if (!there) return there.error();
  result.there.sent = plan.datagrams;
  result.there.counted = {std::min(there->came, plan.datagrams),
                          std::min(there->marked, there->came)};
  result.back.sent = result.there.counted.came;  // it echoes those that came
  result.back.counted = {std::min(back.came, result.back.sent), back.marked};
  return Ok{};
}

Status bulk_there(const Channel& channel, const MeasurementPlan& plan, DirectionResult& way,
                  const Deadline& deadline) {
  LH_TRY(channel.send(Kind::upload, plan, deadline));
  LH_TRY(send_bulk(channel, plan, deadline));
  way.path = channel.socket().path();
  const auto received = channel.receive<BulkResult>(Kind::received, deadline);
  if (!received) return received.error();
  way.bulk = *received;
  return Ok{};
}

Status bulk_back(const Channel& channel, const MeasurementPlan& plan, DirectionResult& way,
                 const Deadline& deadline) {
  LH_TRY(channel.send(Kind::fetch, plan, deadline));
  const auto bulk = receive_bulk(channel, deadline);
  if (!bulk) return bulk.error();
  way = {way.sent, way.counted, bulk->received, bulk->sent};
  return Ok{};
}

Status measure(const PeerSession& to, const LocalSite& self, const MeasurementPlan& plan,
               PairResult& result) {
  const auto within = [&](Time time) { return Deadline::within(time, self.stop); };
  LH_TRY(ping(to.channel, plan, result, within(kPingTimeout)));
  LH_TRY(count(to, self, plan, result, within(datagrams_take(plan) + kStallTimeout)));
  LH_TRY(bulk_there(to.channel, plan, result.there, within(bulk_takes(plan))));
  LH_TRY(bulk_back(to.channel, plan, result.back, within(bulk_takes(plan))));
  return to.channel.send(Kind::bye, Empty{}, within(kConnectTimeout));
}

// One message of the asker.
Status carry_out(const Channel& channel, Channel::Any any, EchoSocket& echo, const LocalSite& self,
                 std::int64_t came) {
  const auto within = [&](Time time) { return Deadline::within(time, self.stop); };
  switch (any.kind) {
    case Kind::ping: {
      const auto ping = channel.read<Ping>(any.kind, any.body);
      if (!ping) return ping.error();
      return channel.send(Kind::pong, Pong{ping->sent, came, wall()}, within(kConnectTimeout));
    }
    case Kind::count:
      echo.answer();
      return channel.send(Kind::counted, echo.counted(), within(kConnectTimeout));
    case Kind::upload: {
      const auto plan = channel.read<MeasurementPlan>(any.kind, any.body);
      if (!plan) return plan.error();
      const auto bulk = receive_bulk(channel, within(bulk_takes(*plan)));
      if (!bulk) return bulk.error();
      return channel.send(Kind::received, bulk->received, within(kConnectTimeout));
    }
    case Kind::fetch: {
      const auto plan = channel.read<MeasurementPlan>(any.kind, any.body);
      if (!plan) return plan.error();
      return send_bulk(channel, *plan, within(bulk_takes(*plan)));
    }
    default:
      return channel.wrong(any.kind, "came out of turn");
  }
}

// Until there is a message on the channel; datagrams are echoed meanwhile.
Status wait_and_echo(const Channel& channel, EchoSocket& echo, const Deadline& deadline) {
  for (;;) {
    if (deadline.stopped()) return unavailable("stopped");
    if (Clock::now() >= deadline.end)
      return unavailable(channel.peer() + " stopped answering during a measurement");
    pollfd waits[2] = {{channel.socket().get(), POLLIN, 0}, {echo.descriptor(), POLLIN, 0}};
    if (poll(waits, 2, 100) <= 0) continue;
    if (waits[1].revents != 0) echo.answer();
    if (waits[0].revents != 0) return Ok{};
  }
}

}  // namespace

Time longest_probe(const MeasurementPlan& plan) {
  return 2 * kConnectTimeout + kPingTimeout + datagrams_take(plan) + kStallTimeout +
         2 * bulk_takes(plan);
}

PairResult probe(const LocalSite& self, std::uint32_t to, const MeasurementPlan& plan) {
  PairResult result{.from = self.site, .to = to};
  const auto session =
      connect_to(self, to, Purpose::probe, Deadline::within(kConnectTimeout, self.stop));
  if (!session) {
    result.failure = cut(session.error().what);
    return result;
  }
  result.reached = true;
  const Status measured = measure(*session, self, plan, result);
  if (!measured) result.failure = cut(measured.error().what);
  return result;
}

Status answer(const PeerSession& from, const LocalSite& self, std::uint16_t port) {
  const auto within = [&](Time time) { return Deadline::within(time, self.stop); };
  const Channel& channel = from.channel;
  EchoSocket echo(channel.socket(), port, from.hello.token);
  LH_TRY(
      channel.send(Kind::hello, self.hello(Purpose::probe, echo.port()), within(kConnectTimeout)));
  for (;;) {
    // The longest silence is while the asker waits for late datagrams.
    LH_TRY(wait_and_echo(channel, echo, within(kStallTimeout + kMaxDatagrams * kSendInterval)));
    const std::int64_t came = wall();
    auto any = channel.receive_any(within(kStallTimeout));
    if (!any) return channel.wrong(Kind::bye, any.error().what);
    if (any->kind == Kind::bye) return Ok{};
    LH_TRY(carry_out(channel, *std::move(any), echo, self, came));
  }
}

}  // namespace longhaul::doctor

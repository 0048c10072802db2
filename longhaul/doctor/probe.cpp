#include "longhaul/doctor/probe.h"

#include <poll.h>

#include <fmt/format.h>

#include "longhaul/doctor/bulk.h"
#include "longhaul/doctor/datagrams.h"

namespace longhaul::doctor {
namespace {

using namespace std::chrono_literals;

constexpr Time kMeet = 10s;   // to connect and to greet
constexpr Time kPings = 20s;  // all of them
constexpr Time kDrain = 30s;  // for what is under way when the sender ends: slow links

std::int64_t wall() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

Time datagrams_take(const Plan& plan) { return plan.datagrams * kBetween + kLate + 2s; }
Time bulk_takes(const Plan& plan) { return from_seconds(plan.seconds) + kDrain; }

Status ping(const Channel& channel, const Plan& plan, PairResult& result, const Limit& limit) {
  std::vector<Exchange> exchanges;
  for (std::uint32_t i = 0; i < plan.pings; ++i) {
    // How long it takes is read off a clock that nobody sets.
    const auto begin = Clock::now();
    const Ping ping{wall()};
    LH_TRY(channel.send(Kind::ping, ping, limit));
    const auto pong = channel.receive<Pong>(Kind::pong, limit);
    if (!pong) return pong.error();
    const std::int64_t back = ping.sent + Time(Clock::now() - begin).count();
    if (pong->sent != ping.sent) return channel.wrong(Kind::pong, "answers another ping");
    exchanges.push_back({ping.sent, pong->came, pong->left, back});
    const Trips trips = trips_of(exchanges);
    result.pongs = i + 1;
    result.rtt_min_s = trips.min;
    result.rtt_median_s = trips.median;
    result.offset_s = trips.offset;
  }
  return Ok{};
}

Status count(const Greeted& to, const Self& self, const Plan& plan, PairResult& result,
             const Limit& limit) {
  if (plan.datagrams == 0) return Ok{};
  const Channel& channel = to.channel;
  const Counted back = send_datagrams(channel.socket(), to.hello.udp_port, self.token, plan, limit);
  LH_TRY(channel.send(Kind::count, Empty{}, limit));
  const auto there = channel.receive<Counted>(Kind::counted, limit);
  if (!there) return there.error();
  result.there.sent = plan.datagrams;
  result.there.counted = {std::min(there->came, plan.datagrams),
                          std::min(there->marked, there->came)};
  result.back.sent = result.there.counted.came;  // it echoes those that came
  result.back.counted = {std::min(back.came, result.back.sent), back.marked};
  return Ok{};
}

Status bulk_there(const Channel& channel, const Plan& plan, Way& way, const Limit& limit) {
  LH_TRY(channel.send(Kind::upload, plan, limit));
  LH_TRY(send_bulk(channel, plan, limit));
  way.path = channel.socket().path();
  const auto received = channel.receive<Received>(Kind::received, limit);
  if (!received) return received.error();
  way.bulk = *received;
  return Ok{};
}

Status bulk_back(const Channel& channel, const Plan& plan, Way& way, const Limit& limit) {
  LH_TRY(channel.send(Kind::fetch, plan, limit));
  const auto bulk = receive_bulk(channel, limit);
  if (!bulk) return bulk.error();
  way = {way.sent, way.counted, bulk->received, bulk->sent};
  return Ok{};
}

Status measure(const Greeted& to, const Self& self, const Plan& plan, PairResult& result) {
  const auto within = [&](Time time) { return Limit::within(time, self.stop); };
  LH_TRY(ping(to.channel, plan, result, within(kPings)));
  LH_TRY(count(to, self, plan, result, within(datagrams_take(plan) + kStall)));
  LH_TRY(bulk_there(to.channel, plan, result.there, within(bulk_takes(plan))));
  LH_TRY(bulk_back(to.channel, plan, result.back, within(bulk_takes(plan))));
  return to.channel.send(Kind::bye, Empty{}, within(kMeet));
}

// One message of the asker.
Status carry_out(const Channel& channel, Channel::Any any, Echo& echo, const Self& self,
                 std::int64_t came) {
  const auto within = [&](Time time) { return Limit::within(time, self.stop); };
  switch (any.kind) {
    case Kind::ping: {
      const auto ping = channel.read<Ping>(any.kind, any.body);
      if (!ping) return ping.error();
      return channel.send(Kind::pong, Pong{ping->sent, came, wall()}, within(kMeet));
    }
    case Kind::count:
      echo.answer();
      return channel.send(Kind::counted, echo.counted(), within(kMeet));
    case Kind::upload: {
      const auto plan = channel.read<Plan>(any.kind, any.body);
      if (!plan) return plan.error();
      const auto bulk = receive_bulk(channel, within(bulk_takes(*plan)));
      if (!bulk) return bulk.error();
      return channel.send(Kind::received, bulk->received, within(kMeet));
    }
    case Kind::fetch: {
      const auto plan = channel.read<Plan>(any.kind, any.body);
      if (!plan) return plan.error();
      return send_bulk(channel, *plan, within(bulk_takes(*plan)));
    }
    default:
      return channel.wrong(any.kind, "came out of turn");
  }
}

// Until there is a message on the channel; datagrams are echoed meanwhile.
Status wait_and_echo(const Channel& channel, Echo& echo, const Limit& limit) {
  for (;;) {
    if (limit.stopped()) return unavailable("stopped");
    if (Clock::now() >= limit.end)
      return unavailable(channel.peer() + " says nothing in the middle of a measurement");
    pollfd waits[2] = {{channel.socket().get(), POLLIN, 0}, {echo.descriptor(), POLLIN, 0}};
    if (poll(waits, 2, 100) <= 0) continue;
    if (waits[1].revents != 0) echo.answer();
    if (waits[0].revents != 0) return Ok{};
  }
}

}  // namespace

Time longest_probe(const Plan& plan) {
  return 2 * kMeet + kPings + datagrams_take(plan) + kStall + 2 * bulk_takes(plan);
}

PairResult probe(const Self& self, std::uint32_t to, const Plan& plan) {
  PairResult result{.from = self.site, .to = to};
  const auto greeted = call(self, to, Purpose::probe, Limit::within(kMeet, self.stop));
  if (!greeted) {
    result.failure = cut(greeted.error().what);
    return result;
  }
  result.reached = true;
  const Status measured = measure(*greeted, self, plan, result);
  if (!measured) result.failure = cut(measured.error().what);
  return result;
}

Status answer(const Greeted& from, const Self& self, std::uint16_t port) {
  const auto within = [&](Time time) { return Limit::within(time, self.stop); };
  const Channel& channel = from.channel;
  Echo echo(channel.socket(), port, from.hello.token);
  LH_TRY(channel.send(Kind::hello, self.hello(Purpose::probe, echo.port()), within(kMeet)));
  for (;;) {
    // The longest silence is while the asker waits for late datagrams.
    LH_TRY(wait_and_echo(channel, echo, within(kStall + kMostDatagrams * kBetween)));
    const std::int64_t came = wall();
    auto any = channel.receive_any(within(kStall));
    if (!any) return channel.wrong(Kind::bye, any.error().what);
    if (any->kind == Kind::bye) return Ok{};
    LH_TRY(carry_out(channel, *std::move(any), echo, self, came));
  }
}

}  // namespace longhaul::doctor

#include "longhaul/perf/lap_coordinator.h"

#include <algorithm>

namespace longhaul::perf {
namespace {

constexpr Rank kLeader = 0;
constexpr TimerId kStart{1};

Status refuse(Rank from, std::string_view what) {
  return malformed("rank " + std::to_string(from) + " sent " + std::string(what));
}

}  // namespace

LapCoordinator::LapCoordinator(const Place& place, Round laps)
    : is_leader_(place.self == kLeader), count_(laps) {
  LH_CHECK(laps > 0);
  if (is_leader_) peers_.resize(place.size());
}

void LapCoordinator::on_start(Turn& turn) {
  if (is_leader_) call(turn);
}

Status LapCoordinator::on_message(Rank from, const Message& message, Turn& turn) {
  return dispatch(Messages{}, message,
                  [&](const auto& one) -> Status { return take(from, one, turn); });
}

// --- every node ---------------------------------------------------------------------------------

Status LapCoordinator::take(Rank from, const Call& call, Turn&) {
  if (is_leader_ || from != kLeader) return refuse(from, "a call, which is for rank 0 to do");
  if (phase_ != Phase::resting || call.lap != calls_ || over())
    return refuse(from, "a call of lap " + std::to_string(call.lap) + " that does not follow");
  ++calls_;
  phase_ = Phase::called;
  return Ok{};
}

void LapCoordinator::ready(std::uint64_t wan_bytes, Turn& turn) {
  LH_CHECK(called());
  phase_ = Phase::ready;
  if (is_leader_) return note_ready(kLeader, wan_bytes, turn);
  turn.send(kLeader, Ready{lap(), wan_bytes}, {}, kControl);
}

Status LapCoordinator::take(Rank from, const Ping& ping, Turn& turn) {
  if (is_leader_ || from != kLeader || phase_ != Phase::ready)
    return refuse(from, "an untimely ping");
  turn.send(kLeader, Pong{ping.number, turn.now().count()}, {}, kControl);
  return Ok{};
}

Status LapCoordinator::take(Rank from, const Go& go, Turn& turn) {
  if (is_leader_ || from != kLeader || phase_ != Phase::ready || over() || go.lap != lap())
    return refuse(from, "an untimely go");
  if (Time{go.at} - turn.now() > kMaxLead) return refuse(from, "a go of far too late");
  start_at(Time{go.at}, turn);
  return Ok{};
}

// A go that comes late counts all the same: the time until this node begins is part of its lap.
void LapCoordinator::start_at(Time at, Turn& turn) {
  start_ = at;
  phase_ = at > turn.now() ? Phase::set : Phase::running;
  if (phase_ == Phase::set) turn.set_timer(*this, kStart, at);
}

void LapCoordinator::on_timer(TimerId, Turn&) {
  if (phase_ == Phase::set) phase_ = Phase::running;
}

void LapCoordinator::done(Turn& turn) {
  LH_CHECK(running());
  phase_ = Phase::resting;
  const Time elapsed = std::max(turn.now() - start_, Time{0});
  if (is_leader_) return note_done(kLeader, elapsed, turn);
  turn.send(kLeader, Done{lap(), elapsed.count()}, {}, kControl);
}

// --- rank 0 -------------------------------------------------------------------------------------

void LapCoordinator::call(Turn& turn) {
  stage_ = Stage::preparing;
  left_ = peers_.size();
  std::fill(peers_.begin(), peers_.end(), PeerProgress{});
  open_ = {};
  sent_ = 0;
  phase_ = Phase::called;
  const Call call{calls_++};
  for (Rank rank = 1; rank < peers_.size(); ++rank) turn.send(rank, call, {}, kControl);
}

Status LapCoordinator::take(Rank from, const Ready& ready, Turn& turn) {
  if (!is_leader_ || stage_ != Stage::preparing || peers_[from].ready || ready.lap != lap())
    return refuse(from, "an untimely ready");
  note_ready(from, ready.wan_bytes, turn);
  return Ok{};
}

void LapCoordinator::note_ready(Rank rank, std::uint64_t wan_bytes, Turn& turn) {
  peers_[rank].ready = true;
  sent_ += wan_bytes;
  if (--left_ > 0) return;
  if (!laps_.empty()) laps_.back().wan_bytes = std::max(sent_, sent_before_) - sent_before_;
  sent_before_ = sent_;
  if (over()) return;
  stage_ = Stage::measuring_clocks;
  left_ = peers_.size() - 1;
  if (left_ == 0) return go(turn);
  for (Rank other = 1; other < peers_.size(); ++other) ping(other, turn);
}

void LapCoordinator::ping(Rank rank, Turn& turn) {
  peers_[rank].sent = turn.now();
  turn.send(rank, Ping{peers_[rank].pongs}, {}, kControl);
}

Status LapCoordinator::take(Rank from, const Pong& pong, Turn& turn) {
  if (!is_leader_ || stage_ != Stage::measuring_clocks || from == kLeader)
    return refuse(from, "a stray pong");
  PeerProgress& runner = peers_[from];
  if (runner.pongs == kPings || pong.number != runner.pongs)
    return refuse(from, "a pong that no ping asked for");
  const Time trip = turn.now() - runner.sent;
  if (!runner.trip || trip < *runner.trip) {
    runner.trip = trip;
    runner.ahead = Time{pong.clock} - (runner.sent + trip / 2);
  }
  if (++runner.pongs < kPings) {
    ping(from, turn);
  } else if (--left_ == 0) {
    go(turn);
  }
  return Ok{};
}

void LapCoordinator::go(Turn& turn) {
  Time longest{0};
  for (const PeerProgress& runner : peers_)
    longest = std::max(longest, runner.trip.value_or(Time{0}));
  stage_ = Stage::timing;
  left_ = peers_.size();
  const Time at = turn.now() + longest + kMargin;
  for (Rank rank = 1; rank < peers_.size(); ++rank)
    turn.send(rank, Go{lap(), (at + peers_[rank].ahead).count()}, {}, kControl);
  start_at(at, turn);
}

Status LapCoordinator::take(Rank from, const Done& done, Turn& turn) {
  if (!is_leader_ || stage_ != Stage::timing || peers_[from].done || done.lap != lap())
    return refuse(from, "an untimely done");
  note_done(from, Time{done.elapsed}, turn);
  return Ok{};
}

void LapCoordinator::note_done(Rank rank, Time elapsed, Turn& turn) {
  peers_[rank].done = true;
  if (elapsed >= open_.elapsed) {
    open_.elapsed = elapsed;
    open_.last = rank;
  }
  if (--left_ > 0) return;
  open_.start = start_;
  laps_.push_back(open_);
  turn.record("lap_s", lap(), seconds(open_.elapsed));
  call(turn);
}

std::string LapCoordinator::waiting_for() const {
  if (calls_ == 0) return "the first call of rank 0";
  const std::string text = "lap " + std::to_string(lap()) + ": ";
  if (!is_leader_) {
    if (phase_ == Phase::resting) return text + "that rank 0 says that all have ended it";
    return phase_ == Phase::ready && !over() ? text + "the go of rank 0" : "";
  }
  std::string ranks;
  for (Rank rank = 0; rank < peers_.size(); ++rank) {
    const PeerProgress& r = peers_[rank];
    const bool here = stage_ == Stage::preparing          ? r.ready
                      : stage_ == Stage::measuring_clocks ? rank == kLeader || r.pongs == kPings
                                                          : r.done;
    if (!here) ranks += (ranks.empty() ? "" : ", ") + std::to_string(rank);
  }
  if (ranks.empty()) return "";
  constexpr std::string_view kWhat[] = {"preparations", "clocks", "ends"};
  return text + std::string(kWhat[std::size_t(stage_)]) + " of ranks " + ranks;
}

void LapCoordinator::state(Archive& ar) {
  ar.expect("timekeeper");
  ar(phase_, calls_, start_, stage_, peers_, left_, open_, sent_, sent_before_, laps_);
}

}  // namespace longhaul::perf

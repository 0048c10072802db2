#include "longhaul/perf/measurement.h"

#include <cmath>

namespace longhaul::perf {
namespace {

// Prime, so that no cut of the vector has the same values at the same places as another.
constexpr std::uint64_t kPattern = 251;

double pattern(std::uint64_t place, Round lap) { return double(1 + (place + lap) % kPattern); }

}  // namespace

float value_of(std::uint64_t place, Round lap, std::uint64_t index) {
  return float(pattern(place, lap) * double(index + 1));
}

double expected_of(const Exchange& exchange, std::uint64_t place, Round lap,
                   std::uint64_t workers) {
  return pattern(place, lap) * (exchange.root ? 1.0 : double(workers + 1) / 2);
}

Measurement::Measurement(const Exchange& exchange, std::unique_ptr<Overlay> overlay,
                         const Place& place, Sent sent)
    : exchange_(exchange),
      worker_(place.me().is(Role::worker)),
      overlay_(std::move(overlay)),
      coordinator_(place, exchange.laps),
      sent_(std::move(sent)) {
  LH_CHECK(overlay_ && sent_ && exchange.length > 0);
  own(*overlay_, {0, "overlay"});
  own(coordinator_, {1, "coordinator"});
  for (Rank rank = 0; rank < place.size(); ++rank) {
    if (!place.member(rank).is(Role::worker)) continue;
    if (rank < place.self) ++index_;
    ++workers_;
    if (!exchange.root || *exchange.root == rank) contributors_.push_back(rank);
  }
  LH_CHECK(!contributors_.empty());
}

void Measurement::on_view(const View& before, Turn& turn) {
  std::string lost;
  for (const Rank rank : before.live)
    if (!turn.view().has(rank)) lost += (lost.empty() ? "" : ", ") + turn.place().member(rank).site;
  if (lost.empty() || ended_) return;
  ended_ = true;
  turn.fail("lost " + lost + " while measuring; a time without it is worth nothing: start again");
}

void Measurement::on_progress(Turn& turn) {
  while (!ended_ && advance(turn)) {
  }
}

// One move, if one can be made now.
bool Measurement::advance(Turn& turn) {
  Status status = Ok{};
  if (coordinator_.called()) {
    status = prepare(turn);
  } else if (coordinator_.running() && !begun_) {
    status = begin(turn);
  } else if (begun_) {
    outcome_ = overlay_->poll({coordinator_.lap(), 0, 0});
    if (!outcome_) return false;
    begun_ = false;
    Turn below = within(coordinator_, turn);
    coordinator_.done(below);
  } else if (coordinator_.finished()) {
    ended_ = true;
    turn.finish();
  } else {
    return false;
  }
  if (status) return true;
  ended_ = true;
  turn.fail(status.error());
  return false;
}

// Called between laps, outside the measured time. Checks the outcome of the last lap and writes
// this node's contribution to the next.
Status Measurement::prepare(Turn& turn) {
  const Round lap = coordinator_.lap();
  if (outcome_) LH_TRY(check(*outcome_, lap - 1, turn));
  outcome_.reset();
  const bool gives = worker_ && (!exchange_.root || *exchange_.root == turn.self());
  if (!coordinator_.over() && worker_ && !turn.place().phantom) {
    values_.resize(exchange_.length);
    const std::uint64_t index = exchange_.root ? 0 : index_;
    if (gives)
      for (std::uint64_t i = 0; i < values_.size(); ++i) values_[i] = value_of(i, lap, index);
  }
  Turn below = within(coordinator_, turn);
  coordinator_.ready(sent_(), below);
  return Ok{};
}

Status Measurement::begin(Turn& turn) {
  if (!worker_) {  // a server: its overlay serves the others
    Turn below = within(coordinator_, turn);
    coordinator_.done(below);
    return Ok{};
  }
  begun_ = true;
  const bool gives = !exchange_.root || *exchange_.root == turn.self();
  Turn below = within(*overlay_, turn);
  return overlay_->begin({coordinator_.lap(), 0, 0}, {},
                         {values_, exchange_.length, 1, gives, /*exact=*/true}, below);
}

// Checks the outcome against the expected values. Sums in rank order and their means are exact
// here. In a ring every node rounds a partial mean once, by at most half of 2^-23 of it. A partial
// mean is at most twice the expected value.
Status Measurement::check(const Outcome& outcome, Round lap, const Turn& turn) const {
  const auto wrong = [&](const std::string& what) {
    return malformed("lap " + std::to_string(lap) + ", site " + turn.place().me().site + ": " +
                     what + "; the exchange is not right: please report it");
  };
  if (outcome.counted != contributors_)
    return wrong(std::to_string(outcome.counted.size()) + " nodes are counted in the mean, not " +
                 std::to_string(contributors_.size()));
  if (turn.place().phantom) return Ok{};
  if (outcome.values.size() != exchange_.length)
    return wrong("a mean of " + std::to_string(outcome.values.size()) + " values");
  const double tolerance = double(workers_) * 0x1p-23;
  for (std::uint64_t i = 0; i < exchange_.length; ++i) {
    const double expected = expected_of(exchange_, i, lap, workers_);
    if (!(std::abs(double(outcome.values[i]) - expected) <= tolerance * expected))
      return wrong("value " + std::to_string(i) + " is " + std::to_string(outcome.values[i]) +
                   ", expected " + std::to_string(expected));
  }
  return Ok{};
}

Round Measurement::rounds_done() const { return coordinator_.laps().size(); }

std::string Measurement::waiting_for() const {
  if (ended_) return "";
  return begun_ ? overlay_->waiting_for() : coordinator_.waiting_for();
}

void Measurement::state(Archive& ar) {
  ar.expect("measurement");
  ar(values_, outcome_, begun_, ended_);
}

}  // namespace longhaul::perf

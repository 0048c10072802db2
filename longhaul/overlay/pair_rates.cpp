#include "longhaul/overlay/pair_rates.h"

#include <algorithm>
#include <cmath>

namespace longhaul::overlay::forest {
namespace {

constexpr std::uint32_t kLeast = 4;    // messages that a pair's figure takes
constexpr std::uint32_t kWindow = 64;  // messages over which a port's rate is taken
constexpr double kFull = 0.9;          // of the most that a port carried
constexpr double kTop = 0.9;           // of the quickest peer's rate
constexpr double kReluctance = 0.05;   // weight of what is lower and need not be the link's fault
constexpr double kForgetting = 0.01;   // of what a port carried once

}  // namespace

void PortMeter::add(std::uint64_t bytes, Time now) {
  if (!since_) {
    since_ = now;  // when this one began is not known
    return;
  }
  bytes_ += bytes;
  if (++messages_ < kWindow || now <= *since_) return;
  most_ = std::max(most_, double(bytes_) / seconds(now - *since_));
  since_ = now;
  bytes_ = messages_ = 0;
}

double PortMeter::close() {
  const double most = most_;
  *this = {};
  return most;
}

void PairRates::on_sent(Rank to, std::uint64_t bytes, Time waited, Time now) {
  const auto [at, fresh] = runs_.try_emplace(to);
  Run& run = at->second;
  if (fresh || now - waited > run.last) {  // nothing waited before it
    run.begun = run.last = now;
    return;
  }
  // What goes at the very time at which a run begins fills the host's room, not the link.
  if (now > run.begun) {
    run.busy += now - run.last;
    run.bytes += bytes;
    ++run.messages;
    up_meter_.add(bytes, now);
  }
  run.last = now;
}

void PairRates::on_received(std::uint64_t bytes, Time now) { down_meter_.add(bytes, now); }

// Several that share a full port get the same of it, and each could have more alone: so what is
// lower than before says nothing of a pair that is among the quickest of a full port.
void PairRates::close(std::uint32_t sharing) {
  double top = 0;
  std::map<Rank, double> measured;
  for (auto& [to, run] : runs_) {
    if (run.messages >= kLeast && run.busy > Time{0}) {
      measured[to] = double(run.bytes) / seconds(run.busy);
      top = std::max(top, measured[to]);
    }
    run.busy = Time{0};
    run.bytes = run.messages = 0;
  }
  const double up = up_meter_.close(), down = down_meter_.close();
  const bool full = up > 0 && up >= kFull * up_ / sharing;
  for (auto& [to, known] : pairs_) ++known.age;
  for (const auto& [to, rate] : measured) learn(to, rate, full && rate >= kTop * top);
  const auto keep = [](double& most, double now) {
    if (now > 0) most = std::max(now, most + kForgetting * (now - most));
  };
  keep(up_, up);
  keep(down_, down);
}

void PairRates::learn(Rank to, double rate, bool crowded) {
  const auto [at, fresh] = pairs_.try_emplace(to, Known{rate, 0});
  Known& known = at->second;
  known.age = 0;
  if (fresh) return;
  const bool step = std::fabs(rate - known.rate) > step_ * known.rate;
  const double weight = rate < known.rate && crowded ? kReluctance : step ? 1 : ema_;
  known.rate += weight * (rate - known.rate);
}

}  // namespace longhaul::overlay::forest

#include "longhaul/sim/compute_time.h"

#include <cmath>

#include "longhaul/base/check.h"

namespace longhaul::sim {

JitteredSteps::JitteredSteps(std::uint64_t seed, std::vector<Speed> by_rank)
    : seed_(seed), speeds_(std::move(by_rank)) {
  for (const Speed& speed : speeds_) {
    LH_CHECK(speed.mean >= Time{0} && speed.amount >= 0);
    LH_CHECK(speed.jitter != Jitter::uniform || speed.amount <= 1);
    LH_CHECK(!speed.trace ||
             (speed.trace->kind == flow::Trace::Kind::steps && speed.trace->check()));
    LH_CHECK(speed.drift.deviation >= 0 && speed.drift.every_s > 0 && speed.drift.bound >= 1);
  }
}

Time JitteredSteps::duration(Rank rank, std::uint64_t step, Time at, const Work& work) const {
  if (std::holds_alternative<ApplyGradient>(work) || std::holds_alternative<ResetOptimizer>(work) ||
      std::holds_alternative<Score>(work) || std::holds_alternative<FixedGradient>(work) ||
      std::holds_alternative<OptimizerState>(work))
    return Time{0};
  const Speed& speed = speeds_.at(rank);
  // The stream counts 32 bits of round; the range holds the rest.
  Random random(seed_, {Purpose::jitter, step & 0xFFFFFFFF, rank, std::uint32_t(step >> 32)});
  double factor = drift_factor(speed.drift, seed_, speed.site, at);
  const double mean = speed.trace ? speed.trace->steps_at(at) * 1e6 : double(speed.mean.count());
  switch (speed.jitter) {
    case Jitter::none:
      break;
    case Jitter::uniform:
      factor *= 1 + speed.amount * (2 * random.uniform() - 1);
      break;
    case Jitter::lognormal:
      factor *= std::exp(speed.amount * random.normal() - speed.amount * speed.amount / 2);
      break;
    case Jitter::exponential:
      factor *= 1 - speed.amount * std::log(1 - random.uniform());
      break;
  }
  if (const auto* part = std::get_if<BackwardPart>(&work)) factor *= part->share;
  if (const auto* part = std::get_if<ForwardPart>(&work)) factor *= part->share;
  return Time{std::int64_t(std::llround(mean * factor))};
}

}  // namespace longhaul::sim

#pragma once
// How long a step takes in virtual time. Its real gradient is computed meanwhile.
#include <cmath>
#include <optional>
#include <vector>

#include "longhaul/base/check.h"
#include "longhaul/base/rng.h"
#include "longhaul/core/types.h"
#include "longhaul/core/work.h"
#include "longhaul/flow/trace.h"
#include "longhaul/sim/drift.h"

namespace longhaul::sim {

class ComputeTime {
 public:
  virtual ~ComputeTime() = default;
  // Duration of the rank's step number `step` (from 0, over the whole run) that begins at `at`. A
  // pure function: no state to save.
  virtual Time duration(Rank, std::uint64_t step, Time at, const Work&) const = 0;
};

// Every rank has a mean duration, which may change with time, and a distribution around it. The
// jitter depends on (seed, rank, step) only, the drift on (seed, site, time). The time at which a
// step begins fixes its duration.
class JitteredSteps final : public ComputeTime {
 public:
  enum class Jitter : std::uint8_t {
    none,
    uniform,     // mean * (1 + amount * u), u uniform in [-1, 1); amount <= 1
    lognormal,   // mean * exp(amount * z - amount^2 / 2), z normal: `mean` is the mean
    exponential  // mean * (1 + amount * e), e exponential of mean 1: a tail, never less than `mean`
  };
  struct Speed {
    Time mean{0};
    Jitter jitter = Jitter::none;
    double amount = 0;
    std::optional<flow::Trace> trace = {};  // steps, in ms, instead of `mean`
    StepTimeDrift drift = {};
    std::uint32_t site = 0;  // whose nodes drift together
  };

  JitteredSteps(std::uint64_t seed, std::vector<Speed> by_rank)
      : seed_(seed), speeds_(std::move(by_rank)) {
    for (const Speed& speed : speeds_) {
      LH_CHECK(speed.mean >= Time{0} && speed.amount >= 0);
      LH_CHECK(speed.jitter != Jitter::uniform || speed.amount <= 1);
      LH_CHECK(!speed.trace ||
               (speed.trace->kind == flow::Trace::Kind::steps && speed.trace->check()));
      LH_CHECK(speed.drift.deviation >= 0 && speed.drift.every_s > 0 && speed.drift.bound >= 1);
    }
  }

  // ApplyGradient, ResetOptimizer, OptimizerState, Score and FixedGradient take no time.
  Time duration(Rank rank, std::uint64_t step, Time at, const Work& work) const override {
    if (std::holds_alternative<ApplyGradient>(work) ||
        std::holds_alternative<ResetOptimizer>(work) || std::holds_alternative<Score>(work) ||
        std::holds_alternative<FixedGradient>(work) || std::holds_alternative<OptimizerState>(work))
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

 private:
  std::uint64_t seed_;
  std::vector<Speed> speeds_;
};

}  // namespace longhaul::sim

#pragma once
// How long a step takes in virtual time. Its real gradient is computed meanwhile.
#include <optional>
#include <vector>

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

  JitteredSteps(std::uint64_t seed, std::vector<Speed> by_rank);

  // ApplyGradient, ResetOptimizer, OptimizerState, Score and FixedGradient take no time.
  Time duration(Rank, std::uint64_t step, Time at, const Work&) const override;

 private:
  std::uint64_t seed_;
  std::vector<Speed> speeds_;
};

}  // namespace longhaul::sim

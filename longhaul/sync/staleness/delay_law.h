#pragma once
// DelayLaw draws the delay of an update: the number of iterations beyond the next one by which its
// application is put off. The delay is a pure function of (seed, sender, receiver, iteration).
// Receivers need no message to know it, and it does not depend on the network or on threads.
//
//   kind       r                                                    mean
//   uniform    0 .. s, all equally likely                           s / 2
//   constant   s                                                    s
//   geometric  P(r = j) ~ (1 - q) q^j on 0 .. s, q = s / (s + 4)    below s / 4
//   straggler  s for the one sender drawn for the iteration, else 0 s / workers
//   trace      P(r = j) ~ histogram[j]                              that of the histogram
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "longhaul/base/check.h"
#include "longhaul/base/rng.h"
#include "longhaul/core/types.h"

namespace longhaul::sync::staleness {

class DelayLaw {
  static constexpr std::uint32_t kNobody = 0xFFFFFFFF;  // not a rank: a draw that all pairs share

  static std::vector<double> geometric(std::uint32_t s) {
    const double q = double(s) / (double(s) + 4);
    std::vector<double> weights(s + 1);
    double weight = 1;
    for (double& w : weights) w = weight, weight *= q;
    return weights;
  }

 public:
  struct Config {
    std::string kind = "uniform";
    std::uint32_t most = 0;         // s; not used by a trace
    std::vector<double> histogram;  // trace: not empty, no weight below 0, some above
  };
  // `workers`: the job's workers, ascending; `self_delay`: own updates are put off, too.
  DelayLaw(Config config, bool self_delay, std::uint64_t seed, std::vector<Rank> workers)
      : most_(config.most), self_delay_(self_delay), seed_(seed), workers_(std::move(workers)) {
    LH_CHECK(!workers_.empty());
    std::vector<double> weights;
    if (config.kind == "constant") {
      kind_ = Kind::constant;
    } else if (config.kind == "straggler") {
      kind_ = Kind::straggler;
    } else if (config.kind != "uniform") {
      kind_ = Kind::weighted;
      weights = config.kind == "geometric" ? geometric(config.most) : std::move(config.histogram);
      LH_CHECK(!weights.empty());
      most_ = std::uint32_t(weights.size() - 1);
    }
    double sum = 0;
    for (const double weight : weights) cumulative_.push_back(sum += weight);
    LH_CHECK(kind_ != Kind::weighted || sum > 0);
  }

  std::uint32_t most() const { return most_; }  // s
  std::uint32_t delay(Rank sender, Rank receiver, Round iteration) const {
    if (sender == receiver && !self_delay_) return 0;
    const auto random = [&](std::uint32_t origin, std::uint32_t range) {
      return Random(seed_, {Purpose::delay, iteration, origin, range});
    };
    switch (kind_) {
      case Kind::constant:
        return most_;
      case Kind::uniform:
        return std::uint32_t(random(sender, receiver).below(std::uint64_t(most_) + 1));
      case Kind::straggler:
        return workers_[random(kNobody, 0).below(workers_.size())] == sender ? most_ : 0;
      case Kind::weighted: {
        const double at = random(sender, receiver).uniform() * cumulative_.back();
        // The first entry whose sum exceeds `at`: an entry of weight 0 is never drawn.
        const auto it = std::ranges::upper_bound(cumulative_, at);
        return std::uint32_t(std::min(it, cumulative_.end() - 1) - cumulative_.begin());
      }
    }
    return 0;
  }

 private:
  enum class Kind : std::uint8_t { uniform, constant, straggler, weighted };

  Kind kind_ = Kind::uniform;
  std::uint32_t most_ = 0;
  bool self_delay_ = true;
  std::uint64_t seed_ = 0;
  std::vector<Rank> workers_;
  std::vector<double> cumulative_;  // weighted: up to and with j
};

}  // namespace longhaul::sync::staleness

#pragma once
// DelayLaw says by how many iterations the application of an update is put off beyond the next one:
// a pure function of (seed, sender, receiver, iteration), so that the receiver knows it without a
// message and network and threads have no part in it.
//
//   kind       r                                                    mean
//   uniform    each of 0 .. s alike                                 s / 2
//   constant   s                                                    s
//   geometric  P(r = j) ~ (1 - q) q^j on 0 .. s, q = s / (s + 4)    below s / 4
//   straggler  s for the one sender drawn for the iteration, else 0 s / workers
//   trace      P(r = j) ~ histogram[j]                              that of the histogram
#include <cstdint>
#include <string>
#include <vector>

#include "longhaul/base/rng.h"
#include "longhaul/core/types.h"

namespace longhaul::sync::staleness {

class DelayLaw {
 public:
  struct Config {
    std::string kind = "uniform";
    std::uint32_t most = 0;         // s; a trace has that of its histogram
    std::vector<double> histogram;  // of a trace: not empty, no weight below 0, some above
  };
  // `workers`: those of the job, ascending; `self_delay`: own updates are put off, too.
  DelayLaw(Config, bool self_delay, std::uint64_t seed, std::vector<Rank> workers);

  std::uint32_t most() const { return most_; }  // s
  std::uint32_t delay(Rank sender, Rank receiver, Round iteration) const;

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

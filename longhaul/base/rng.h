#pragma once
// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", SC 2011). A generator is a pure function of (seed, stream); there is no state to
// checkpoint, to agree on or to share between threads.
#include <array>
#include <cstdint>
#include <span>
#include <utility>

namespace longhaul {

using PhiloxBlock = std::array<std::uint32_t, 4>;
PhiloxBlock philox4x32(PhiloxBlock counter, std::array<std::uint32_t, 2> key);

// Purpose of a stream of random numbers. Never renumber: runs would change.
enum class Purpose : std::uint8_t {
  test = 0,
  init = 1,       // initial parameters
  partition = 2,  // assignment of samples to sites
  batches = 3,    // order of a site's samples
  members = 4,    // sites that take part in a round
  codec = 5,
  jitter = 6,  // simulator: times of steps and links
  fault = 7,   // simulator
  overlay = 8,
  data = 9,      // synthetic data sets
  trace = 10,    // rates, delays and loss (flow/trace.h)
  network = 11,  // simulator: jitter and loss of packets
  windows = 12,  // simulator: loss for congestion control
  drift = 13,    // drift of step times
  speeds = 14,   // speed of each site
  transfer = 15,
  delay = 16,       // delay of an update that is applied late on purpose
  items = 17,       // generated stream of growing data
  resampling = 18,  // resampling of seeds, by `longhaul plan`
};

struct Stream {
  Purpose purpose = Purpose::test;
  std::uint64_t round = 0;   // low 32 bits count
  std::uint32_t origin = 0;  // owner's rank, or 0 for a draw that is equal on all ranks
  std::uint32_t range = 0;   // low 24 bits count
};

class Random {
 public:
  Random(std::uint64_t seed, Stream stream);

  std::uint32_t bits32();
  std::uint64_t bits64();
  double uniform();                          // [0, 1), 53 bits
  std::uint64_t below(std::uint64_t bound);  // uniform in 0 .. bound-1, without bias; bound > 0
  double normal();                           // mean 0, variance 1
  double gamma(double shape);                // scale 1; shape > 0

  template <class T>
  void shuffle(std::span<T> values) {
    for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[below(i)]);
  }

 private:
  std::array<std::uint32_t, 2> key_;
  PhiloxBlock counter_;
  PhiloxBlock block_{};
  unsigned used_ = 4;
};

}  // namespace longhaul

#pragma once
// Which block goes on which channel. Per tensor, of the n blocks that are offered, in the order of
// falling contribution (ties: the lower number first):
//
//   m = floor(k n + 1/2)
//   channel of rank j = 0                                  j < m: reliable
//                     = 1 + floor((j - m) U / (n - m))     else; U best-effort channels
//
// A block's contribution is the mean of |g| over its values, smoothed: C <- alpha C + (1 - alpha)
// mean |g|. A block whose C is 0 is not offered.
#include <map>
#include <span>

#include "longhaul/base/rng.h"
#include "longhaul/core/machine.h"
#include "longhaul/transfer/dgt/cut.h"

namespace longhaul::transfer::dgt {

// Mean of |g| in double, rounded once.
float mean_magnitude(std::span<const float> values);

// C of the blocks of all vectors that a node sends, by where they begin.
class Contributions {
 public:
  explicit Contributions(double alpha) : alpha_(alpha) {}
  // C of the block that begins there, with this vector's mean |g| in it.
  float update(std::uint32_t group, std::uint32_t range, std::uint64_t offset, float magnitude);
  void state(Archive& ar) { ar(c_); }

 private:
  const double alpha_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::map<std::uint64_t, float>> c_;
};

struct Ranking {
  // Numbers of blocks by channel, each in the order in which it is sent.
  std::vector<std::vector<std::uint32_t>> channels;
};

// By contribution. c[s]: of block s; 0: not offered.
Ranking rank_blocks(std::span<const Block> blocks, std::span<const float> c, double k,
                    std::uint32_t best_effort_channels);
// Drawn: a random share k of each tensor is reliable. The others follow in that order, or with
// `in_order` as they stand in the vector.
Ranking draw_blocks(std::span<const Block> blocks, std::span<const float> c, double k,
                    std::uint32_t best_effort_channels, bool in_order, Random random);

}  // namespace longhaul::transfer::dgt

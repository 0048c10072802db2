#pragma once
// The header and the groups of noloco.cpp.
#include <algorithm>
#include <vector>

#include "longhaul/base/rng.h"
#include "longhaul/core/message.h"
#include "longhaul/core/sample_count.h"
#include "longhaul/core/types.h"

namespace longhaul::sync {

struct NoLoCoHeader {
  LONGHAUL_MESSAGE(0, "header");  // not a message by itself: it is in one
  double samples = 0;             // sender's estimate of the samples per worker in the mean
  LONGHAUL_FIELDS((samples, .min = 0, .max = kMostSamples))
};

namespace noloco {

// Returns the group of worker `self` in a round, ascending, with itself. All workers draw the same
// pairs from (seed, round, epoch of the view); of an odd number of workers three are one group.
inline std::vector<Rank> group_of(Rank self, std::vector<Rank> workers, std::uint64_t seed,
                                  Round round, Epoch epoch) {
  Random(seed, Stream{Purpose::members, round, 0, std::uint32_t(epoch)})
      .shuffle(std::span(workers));
  const auto at = std::size_t(std::ranges::find(workers, self) - workers.begin());
  const std::size_t groups = std::max<std::size_t>(workers.size() / 2, 1);
  const std::size_t first = 2 * std::min(at / 2, groups - 1);
  const std::size_t end = at / 2 + 1 >= groups ? workers.size() : first + 2;
  std::vector<Rank> group(workers.begin() + std::ptrdiff_t(first),
                          workers.begin() + std::ptrdiff_t(end));
  std::ranges::sort(group);
  return group;
}

}  // namespace noloco
}  // namespace longhaul::sync

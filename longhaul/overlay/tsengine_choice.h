#pragma once
// Whom a holder serves next: the fastest link known, or one that nobody has tried. A pure function.
#include <algorithm>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "longhaul/base/check.h"
#include "longhaul/base/rng.h"
#include "longhaul/core/types.h"

namespace longhaul::overlay::tsengine {

// Learned bytes/s from one node to another, if known.
using Rate = std::function<std::optional<double>(Rank from, Rank to)>;

// Of `candidates`, of which there is at least one, ascending: K with a known link from `holder`, U
// without. With probability min(K / (K + U), greed) the fastest of the known, ties to the lowest
// rank; else one of the unknown, or of all if there is no unknown one.
inline Rank choose_receiver(Rank holder, std::span<const Rank> candidates, const Rate& rate,
                            double greed, Random& random) {
  LH_CHECK(!candidates.empty());
  std::vector<Rank> unknown;
  std::optional<std::pair<double, Rank>> fastest;
  for (const Rank to : candidates) {
    const auto known = rate(holder, to);
    if (!known) {
      unknown.push_back(to);
    } else if (!fastest || *known > fastest->first) {
      fastest = {*known, to};
    }
  }
  const double known = double(candidates.size() - unknown.size());
  const double p = std::min(known / double(candidates.size()), greed);
  if (random.uniform() < p) return fastest->second;
  if (unknown.empty()) return candidates[random.below(candidates.size())];
  return unknown[random.below(unknown.size())];
}

}  // namespace longhaul::overlay::tsengine

#include "longhaul/overlay/tsengine_choice.h"

#include <algorithm>
#include <vector>

#include "longhaul/base/check.h"

namespace longhaul::overlay::tsengine {

Rank choose_receiver(Rank holder, std::span<const Rank> candidates, const Rate& rate, double greed,
                     Random& random) {
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

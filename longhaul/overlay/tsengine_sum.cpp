#include "longhaul/overlay/tsengine_sum.h"

#include <algorithm>

#include "longhaul/base/check.h"

namespace longhaul::overlay::tsengine {

bool disjoint(const std::vector<Rank>& a, const std::vector<Rank>& b) {
  return std::none_of(a.begin(), a.end(),
                      [&](Rank rank) { return std::binary_search(b.begin(), b.end(), rank); });
}

void mix(Sum& into, Sum&& other) {
  if (into.weight == 0) return void(into = std::move(other));
  LH_CHECK(other.weight > 0 && disjoint(into.counted, other.counted));
  LH_CHECK(other.values.size() == into.values.size());
  const double share = other.weight / (into.weight + other.weight);
  for (std::size_t i = 0; i < into.values.size(); ++i) {
    const double mean = double(into.values[i]);
    into.values[i] = float(mean + share * (double(other.values[i]) - mean));
  }
  into.weight += other.weight;
  const auto middle =
      into.counted.insert(into.counted.end(), other.counted.begin(), other.counted.end());
  std::inplace_merge(into.counted.begin(), middle, into.counted.end());
}

}  // namespace longhaul::overlay::tsengine

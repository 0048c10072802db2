#pragma once
// A bucket of the sum on its way: the mean so far of those counted, and the sum of their weights.
#include <vector>

#include "longhaul/base/archive.h"
#include "longhaul/core/types.h"

namespace longhaul::overlay::tsengine {

struct Sum {
  double weight = 0;          // 0: nobody's
  std::vector<Rank> counted;  // ascending
  std::vector<float> values;  // of the bucket; a phantom's are empty
  void state(auto& ar) { ar(weight, counted, values); }
};

// m <- m + (b / (a + b)) (z - m), in double, rounded once. Nobody is in both.
void mix(Sum& into, Sum&& other);
bool disjoint(const std::vector<Rank>&, const std::vector<Rank>&);

}  // namespace longhaul::overlay::tsengine

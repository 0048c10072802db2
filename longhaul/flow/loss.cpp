#include "longhaul/flow/loss.h"

#include <algorithm>
#include <cmath>

namespace longhaul::flow {

double Loss::after(bool lost) const {
  if (burst == 0 || p <= 0) return p;
  if (lost) return 1 - 1 / burst;
  return std::min(1.0, p / (burst * (1 - p)));  // in balance: p (1 / burst) = (1 - p) this
}

double Loss::survival(double count) const {
  if (count <= 0) return 1;
  return (1 - p) * std::pow(1 - after(false), count - 1);
}

}  // namespace longhaul::flow

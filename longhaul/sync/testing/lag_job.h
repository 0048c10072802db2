#pragma once
// What the tests of LAG's two sides share.
#include "longhaul/sync/testing/convex_job.h"

namespace longhaul::sync::testing {

// a/2 (t - y)^2
inline QuadraticForm bowl(double a, double y) { return {{a}, {a * y}, a * y * y}; }

inline std::vector<Setting> rule(std::string name, std::vector<Setting> more = {}) {
  more.push_back({"rule", {std::move(name)}});
  return more;
}

}  // namespace longhaul::sync::testing

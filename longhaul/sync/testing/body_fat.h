#pragma once
// Least squares on the Body Fat data, as ten workers hold it: worker n the rows 25n to 25n + 24 of
// the first 250, 14 features scaled to [-1, 1] without an intercept, and the density to fit. Sums
// over the rows (X'X, X'y, y'y), not the rows: they are all that the loss depends on.
//   Data: StatLib "bodyfat" (A. Garth Fisher), as scaled in the published code of LAG,
//   github.com/chentianyi1991/LAG-code, data29.
#include "longhaul/core/testing/least_squares.h"

namespace longhaul::sync::testing {

using longhaul::testing::QuadraticForm;

inline constexpr std::uint32_t kBodyFatWorkers = 10;
// The least sum of squares / 2, and the largest eigenvalue of the sum of all X'X.
inline constexpr double kBodyFatLeast = 1.729009988089, kBodyFatSmoothness = 594.016825;
QuadraticForm body_fat(std::uint32_t worker);

}  // namespace longhaul::sync::testing

#pragma once
// From matrices of rates and round trips to a flow::Wan.
#include <optional>
#include <string>
#include <vector>

#include "longhaul/flow/wan.h"
#include "longhaul/run/job/matrix.h"
#include "longhaul/run/job/wan_tables.h"

namespace longhaul::run {

inline constexpr CellKind kRateCells = {"a rate in Mbit/s", kMaxRate};
inline constexpr CellKind kRttCells = {"a round trip in ms", 2 * kMaxDelay};

// The sites named, in that order; none named: all, and then both matrices must have the same ones.
// A matrix that is absent leaves its half open; the delay of a direction is half of its own cell. A
// name that a matrix lacks is an Error.
Result<flow::Wan> wan_of_matrices(const std::optional<Matrix>& mbps,
                                  const std::optional<Matrix>& rtt_ms,
                                  const std::vector<std::string>& sites);

}  // namespace longhaul::run

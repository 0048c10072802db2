#pragma once
// Rates: bytes per second everywhere but in job files, presets and what is printed, which have
// Mbit/s (10^6 bits).
#include <limits>
#include <optional>

namespace longhaul::flow {

using Rate = std::optional<double>;                                            // absent: unlimited
inline constexpr double kUnlimited = std::numeric_limits<double>::infinity();  // in sums and minima

constexpr double bytes_per_second(double mbps) { return mbps * 125000.0; }
constexpr double in_mbps(double rate) { return rate / 125000.0; }

}  // namespace longhaul::flow

#pragma once
// The words every part shares.
#include <chrono>
#include <compare>
#include <cstdint>

#include "longhaul/base/fields.h"

namespace longhaul {

using Time = std::chrono::nanoseconds;  // since the run began; integer, so runs repeat exactly
using Round = std::uint64_t;            // one synchronisation; strategies count their own, from 0
using Rank = std::uint32_t;             // a node of the job, dense from 0, fixed for the whole run
using Epoch = std::uint64_t;            // a numbered membership, see core/membership.h
enum class TimerId : std::uint32_t {};  // a timer of one machine, which chooses the numbers

inline constexpr double seconds(Time t) { return double(t.count()) * 1e-9; }
inline constexpr Time from_seconds(double s) { return Time{std::int64_t(s * 1e9)}; }

// A range of the flat vector, in elements.
struct Range {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;

  std::uint64_t end() const { return offset + length; }
  friend auto operator<=>(const Range&, const Range&) = default;
  LONGHAUL_FIELDS((offset, .doc = "first element", .max = 0x1p40),
                  (length, .doc = "elements", .max = 0x1p40))
};

// One vector that is exchanged: the round, the group of nodes that exchange it, and the range of
// the layout (0 parameters, 1 buffers, more where a strategy cuts finer).
struct VectorId {
  Round round = 0;
  std::uint32_t group = 0;
  std::uint32_t range = 0;
  friend auto operator<=>(const VectorId&, const VectorId&) = default;
  LONGHAUL_FIELDS(round, group, range)
};

}  // namespace longhaul

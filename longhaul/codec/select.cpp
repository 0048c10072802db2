#include "longhaul/codec/select.h"

#include <algorithm>
#include <array>
#include <bit>

#include "longhaul/base/check.h"
#include "longhaul/base/decimal.h"

namespace longhaul::codec {
namespace {

// As whole numbers magnitudes of floats are ordered as the floats are.
std::uint32_t magnitude_bits(float value) {
  return std::bit_cast<std::uint32_t>(value) & 0x7FFFFFFFu;
}

constexpr unsigned kLowBits = 20;
constexpr std::size_t kBins = std::size_t{1} << (31 - kLowBits);

// The magnitude of the `count`-th largest value; 1 <= count <= size.
std::uint32_t nth_magnitude(std::span<const float> values, std::size_t count) {
  std::array<std::uint32_t, kBins> bins{};
  for (const float value : values) ++bins[magnitude_bits(value) >> kLowBits];
  std::size_t above = 0, bin = kBins;
  do above += bins[--bin];
  while (above < count);
  std::vector<std::uint32_t> inside;
  inside.reserve(bins[bin]);
  for (const float value : values)
    if (const std::uint32_t bits = magnitude_bits(value); bits >> kLowBits == bin)
      inside.push_back(bits);
  const auto nth = inside.begin() + std::ptrdiff_t(above - count);  // in ascending order
  std::nth_element(inside.begin(), nth, inside.end());
  return *nth;
}

}  // namespace

std::size_t count_of(double ratio, std::size_t length) {
  const auto count = std::size_t(whole_up(ratio * double(length)));
  return std::min(length, std::max<std::size_t>(1, count));
}

std::vector<std::uint32_t> largest(std::span<const float> values, std::size_t count, float least) {
  LH_CHECK(count <= values.size());
  std::vector<std::uint32_t> chosen;
  if (count == 0) return chosen;
  const std::uint32_t floor = std::max(magnitude_bits(least), 1u);  // 0 is not sent
  std::uint32_t edge = nth_magnitude(values, count);
  std::size_t ties = 0;  // of the edge's magnitude, that may still be chosen
  if (edge >= floor) {
    ties = count;
    for (const float value : values) ties -= magnitude_bits(value) > edge ? 1u : 0u;
  } else {
    edge = floor - 1;
  }
  chosen.reserve(count);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint32_t bits = magnitude_bits(values[i]);
    if (bits > edge || (bits == edge && ties > 0)) {
      if (bits == edge) --ties;
      chosen.push_back(std::uint32_t(i));
    }
  }
  return chosen;
}

// Floyd's algorithm (Bentley and Floyd, "A sample of brilliance", 1987).
std::vector<std::uint32_t> random_places(const Draws& draws, Range at, std::size_t count) {
  LH_CHECK(count <= at.length && at.length < (std::uint64_t{1} << 32));
  std::vector<std::uint64_t> drawn((at.length + 63) / 64);
  const auto take = [&](std::uint64_t place) {
    std::uint64_t& word = drawn[place / 64];
    const std::uint64_t bit = std::uint64_t{1} << (place % 64);
    const bool fresh = (word & bit) == 0;
    word |= bit;
    return fresh;
  };
  std::array<std::uint32_t, 2> pair{};
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t last = at.length - count + i;
    draws.fill(2 * (at.offset + i), pair);
    // The upper 64 bits of draw * (last + 1), of which the second factor has 32 at most.
    const std::uint64_t low = std::uint64_t(pair[0]) * (last + 1);
    const std::uint64_t high = std::uint64_t(pair[1]) * (last + 1);
    if (!take((high + (low >> 32)) >> 32)) take(last);
  }
  std::vector<std::uint32_t> places;
  places.reserve(count);
  for (std::size_t word = 0; word < drawn.size(); ++word)
    for (std::uint64_t bits = drawn[word]; bits != 0; bits &= bits - 1)
      places.push_back(std::uint32_t(64 * word) + std::uint32_t(std::countr_zero(bits)));
  return places;
}

}  // namespace longhaul::codec

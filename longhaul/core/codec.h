#pragma once
// A Codec writes a stretch of a vector as bytes and reads it back, perhaps with loss.
#include <bit>
#include <cmath>
#include <span>

#include "longhaul/base/archive.h"
#include "longhaul/base/bytes.h"
#include "longhaul/base/result.h"
#include "longhaul/core/types.h"

namespace longhaul {

// Which vector a stretch belongs to, and the rank that it comes from.
struct CodecKey : VectorId {
  Rank origin = 0;
  friend auto operator<=>(const CodecKey&, const CodecKey&) = default;
  LONGHAUL_FIELDS(round, group, range, origin)
};

// What may be done with encoded vectors on their way (recipes: "sums on the way").
enum class Algebra : std::uint8_t {
  add,       // decode, add, encode loses nothing
  reencode,  // may be done; the error grows with the hops
  gather     // must not be done: receivers get every part
};

class Codec {
 public:
  virtual ~Codec() = default;
  // Bytes for `length` values: exactly for codecs of fixed size, else at most.
  virtual std::size_t encoded_size(std::size_t length) const = 0;
  // Of that stretch of the parameters: less than the above where layers are written differently.
  virtual std::size_t size_at(Range at) const { return encoded_size(at.length); }
  // Encodes values[i] as element at.offset + i of the vector `key`. The same key, stretch and
  // values give the same bytes until the key is settled, so that a repeat sends what was sent.
  // Values must be finite; the overlay refuses others before they come here.
  virtual Buffer encode(const CodecKey&, Range at, std::span<const float> values) = 0;
  // Bytes come from a peer: any input gives at.length finite values or an Error.
  virtual Status decode(const CodecKey&, Range at, std::span<const std::byte>,
                        std::span<float> out) const = 0;
  // The mean of a value is to be over those that sent it, and not over all. Only of codecs of which
  // a decoded 0 was not sent, and of which no sums are formed on the way.
  virtual bool mean_of_senders() const { return false; }
  // The fate of a vector that this codec encoded is agreed: only now may error feedback move.
  enum class Fate { delivered, abandoned };
  virtual void settle(const CodecKey&, Fate) {}
  virtual void forget(std::uint32_t group) { (void)group; }  // no vector of it follows
  // Values too large for the format, written as the largest it has; counted at every encoding.
  virtual std::uint64_t clamped() const { return 0; }
  virtual void state(Archive&) {}
};

inline bool all_finite(std::span<const float> values) {
  // Infinite and not a number are those with an exponent of all ones. Compared as whole numbers,
  // which the oldest vector instructions can.
  constexpr std::uint32_t kExponent = 0x7f800000;
  std::uint32_t bad = 0;
  for (float v : values)
    bad |= (std::bit_cast<std::uint32_t>(v) & kExponent) == kExponent ? 1u : 0u;
  return bad == 0;
}

// The square root of the sum of squares, which no float makes infinite. Summed in eight lanes: in
// one order, and fast.
inline double norm_of(std::span<const float> values) {
  constexpr std::size_t kLanes = 8;
  double lanes[kLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes)
    for (std::size_t lane = 0; lane < kLanes; ++lane)
      lanes[lane] += double(values[i + lane]) * double(values[i + lane]);
  for (; i < values.size(); ++i) lanes[0] += double(values[i]) * double(values[i]);
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return std::sqrt(sum);
}

}  // namespace longhaul

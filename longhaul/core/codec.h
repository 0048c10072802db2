#pragma once
// A Codec writes a range of a vector as bytes and reads it back, possibly with loss.
#include <bit>
#include <cmath>
#include <span>

#include "longhaul/base/archive.h"
#include "longhaul/base/bytes.h"
#include "longhaul/base/result.h"
#include "longhaul/core/types.h"

namespace longhaul {

// A vector, and the rank that a range of it comes from.
struct CodecKey : VectorId {
  Rank origin = 0;
  friend auto operator<=>(const CodecKey&, const CodecKey&) = default;
  LONGHAUL_FIELDS(round, group, range, origin)
};

// Operations on encoded vectors in transit (recipes: "sums on the way").
enum class Algebra : std::uint8_t {
  add,       // decode, add, encode loses nothing
  reencode,  // allowed; the error grows with the hops
  gather     // not allowed: receivers get every part
};

class Codec {
 public:
  virtual ~Codec() = default;
  // Returns the bytes for `length` values: exact for codecs of fixed size, else a maximum.
  virtual std::size_t encoded_size(std::size_t length) const = 0;
  // Returns the same for that range of the parameters: less if layers are written differently.
  virtual std::size_t size_at(Range at) const { return encoded_size(at.length); }
  // Encodes values[i] as element at.offset + i of the vector `key`. Until the key is settled, the
  // same key, range and values must give the same bytes, so that a repeat sends the same. Values
  // must be finite; the overlay refuses others earlier.
  virtual Buffer encode(const CodecKey&, Range at, std::span<const float> values) = 0;
  // Decodes bytes from a peer: any input gives at.length finite values or an Error.
  virtual Status decode(const CodecKey&, Range at, std::span<const std::byte>,
                        std::span<float> out) const = 0;
  // Returns true if the mean of a value covers only its senders. Allowed only for codecs in which a
  // decoded 0 was not sent, and of which no partial sums are formed.
  virtual bool mean_of_senders() const { return false; }
  // Sets the agreed fate of a vector that this codec encoded. Only now may error feedback change.
  enum class Fate { delivered, abandoned };
  virtual void settle(const CodecKey&, Fate) {}
  virtual void forget(std::uint32_t group) { (void)group; }  // no vector of the group follows
  // Returns the number of values too large for the format, written as its largest; each encoding
  // counts.
  virtual std::uint64_t clamped() const { return 0; }
  virtual void state(Archive&) {}
};

inline bool all_finite(std::span<const float> values) {
  // Infinity and NaN have an exponent of all ones. Integer comparison works with the oldest vector
  // instructions.
  constexpr std::uint32_t kExponent = 0x7f800000;
  std::uint32_t bad = 0;
  for (float v : values)
    bad |= (std::bit_cast<std::uint32_t>(v) & kExponent) == kExponent ? 1u : 0u;
  return bad == 0;
}

// Returns the square root of the sum of squares, which no float makes infinite. Eight lanes give a
// fixed order, and speed.
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

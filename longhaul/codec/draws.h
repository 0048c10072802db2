#pragma once
// Random numbers of codecs: one number of 32 bits for each element of a vector, a pure function of
// (job's seed, vector, place of the element in it). So a repeat writes what was written before,
// also if the vector is cut otherwise, there is nothing to checkpoint, and who decodes can draw
// what the encoder drew. Philox4x32-10 as base/rng.h; the vector's name becomes the key of its
// stream.
#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "longhaul/base/rng.h"
#include "longhaul/core/codec.h"

namespace longhaul::codec {

class Draws {
 public:
  // With the vector's origin in `key` every node draws its own numbers; with origin 0 all of them
  // draw the same.
  Draws(std::uint64_t seed, const CodecKey& key) : round_(key.round) {
    const std::array<std::uint32_t, 2> job = {std::uint32_t(seed), std::uint32_t(seed >> 32)};
    const PhiloxBlock name = philox4x32({key.origin, key.group, key.range, tag()}, job);
    key_ = {name[0], name[1]};
  }

  // Of the elements from `first` on.
  void fill(std::uint64_t first, std::span<std::uint32_t> out) const;
  std::uint32_t at(std::uint64_t element) const { return block_at(element / 4)[element % 4]; }

 private:
  static constexpr std::uint32_t tag() { return std::uint32_t(Purpose::codec) << 24; }
  PhiloxBlock block_at(std::uint64_t block) const {
    const auto round = std::uint32_t(round_), more = std::uint32_t(round_ >> 32);
    return philox4x32({std::uint32_t(block), round, more, tag() | std::uint32_t(block >> 32)},
                      key_);
  }

  std::uint64_t round_;
  std::array<std::uint32_t, 2> key_;
};

}  // namespace longhaul::codec

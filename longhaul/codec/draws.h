#pragma once
// Random numbers of codecs: one number of 32 bits for each element of a vector, a pure function of
// (job's seed, vector, place of the element in it). So a repeat writes what was written before,
// also if the vector is cut otherwise, there is nothing to checkpoint, and who decodes can draw
// what the encoder drew. Philox4x32-10 as base/rng.h; the vector's name becomes the key of its
// stream.
#include <array>
#include <cstdint>
#include <span>

#include "longhaul/base/rng.h"
#include "longhaul/codec/kernel.h"
#include "longhaul/core/codec.h"

namespace longhaul::codec {

class Draws {
  // Counters that go through Philox side by side, as vector instructions take them.
  static constexpr std::size_t kCounters = 64;

  // philox4x32 (base/rng.cpp) of kCounters counters that differ by one.
  static LONGHAUL_KERNEL void philox_side_by_side(std::uint64_t block, std::uint32_t round,
                                                  std::uint32_t more, std::uint32_t tag,
                                                  std::uint32_t key0, std::uint32_t key1,
                                                  std::uint32_t* out) {
    std::uint32_t a[kCounters], b[kCounters], c[kCounters], d[kCounters];
    for (std::size_t i = 0; i < kCounters; ++i) {
      a[i] = std::uint32_t(block + i);
      b[i] = round;
      c[i] = more;
      d[i] = tag | std::uint32_t((block + i) >> 32);
    }
    for (int pass = 0; pass < 10; ++pass) {
      for (std::size_t i = 0; i < kCounters; ++i) {
        const std::uint64_t p0 = std::uint64_t{0xD2511F53} * a[i];
        const std::uint64_t p1 = std::uint64_t{0xCD9E8D57} * c[i];
        a[i] = std::uint32_t(p1 >> 32) ^ b[i] ^ key0;
        b[i] = std::uint32_t(p1);
        c[i] = std::uint32_t(p0 >> 32) ^ d[i] ^ key1;
        d[i] = std::uint32_t(p0);
      }
      key0 += 0x9E3779B9;
      key1 += 0xBB67AE85;
    }
    for (std::size_t i = 0; i < kCounters; ++i) {
      out[4 * i] = a[i];
      out[4 * i + 1] = b[i];
      out[4 * i + 2] = c[i];
      out[4 * i + 3] = d[i];
    }
  }

 public:
  // With the vector's origin in `key` every node draws its own numbers; with origin 0 all of them
  // draw the same.
  Draws(std::uint64_t seed, const CodecKey& key) : round_(key.round) {
    const std::array<std::uint32_t, 2> job = {std::uint32_t(seed), std::uint32_t(seed >> 32)};
    const PhiloxBlock name = philox4x32({key.origin, key.group, key.range, tag()}, job);
    key_ = {name[0], name[1]};
  }

  // Fills `out` with the numbers of the elements from `first` on.
  void fill(std::uint64_t first, std::span<std::uint32_t> out) const {
    std::size_t done = 0;
    const auto fill_one = [&] {  // to the end of the counter that `first + done` belongs to
      const PhiloxBlock block = block_at((first + done) / 4);
      for (std::size_t lane = (first + done) % 4; lane < 4 && done < out.size(); ++lane)
        out[done++] = block[lane];
    };
    if (first % 4 != 0) fill_one();
    for (; done + 4 * kCounters <= out.size(); done += 4 * kCounters)
      philox_side_by_side((first + done) / 4, std::uint32_t(round_), std::uint32_t(round_ >> 32),
                          tag(), key_[0], key_[1], &out[done]);
    while (done < out.size()) fill_one();
  }

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

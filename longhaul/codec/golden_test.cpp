// The bytes that codecs write are a format: whatever makes a loop faster must not change one.
// Hashes of what every codec writes, and of what it reads back, recorded before any loop was
// vectorised.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

#include "longhaul/base/rng.h"
#include "longhaul/codec/testing/made.h"

namespace longhaul::codec {
namespace {

class GoldenHash {  // FNV-1a, 64 bits
 public:
  void add(std::span<const std::byte> bytes) {
    for (const std::byte byte : bytes) hash_ = (hash_ ^ std::uint64_t(byte)) * 1099511628211u;
  }
  std::uint64_t value() const { return hash_; }

 private:
  std::uint64_t hash_ = 14695981039346656037u;
};

// Ordinary values, tiny, huge and equal ones, zeros of both signs.
std::vector<float> golden_values(std::size_t length) {
  Random random(11, {Purpose::test, 3});
  std::vector<float> values(length);
  for (std::size_t i = 0; i < length; ++i) {
    const float value = float(random.normal());
    const float shapes[] = {value, value * 1e-6f, value * 1e-41f, value * 3e4f, 0.f, -0.f, 0.25f};
    values[i] = shapes[i % 5 == 0 ? random.below(7) : 0];
  }
  return values;
}

std::uint64_t golden_hash(const CodecEntry& entry) {
  const auto codec = made::contributing(entry.name, made::without_feedback());
  GoldenHash hash;
  CodecKey key;
  for (const std::size_t length : {1u, 7u, 64u, 511u, 1000u, 4099u}) {
    const std::vector<float> values = golden_values(length);
    const Range at{key.round * 8, length};
    const Buffer bytes = codec->encode(key, at, values);
    std::vector<float> out(length);
    EXPECT_TRUE(codec->decode(key, at, bytes, out));
    hash.add(bytes);
    hash.add(std::as_bytes(std::span(out)));
    codec->settle(key, Codec::Fate::delivered);
    ++key.round;
  }
  return hash.value();
}

TEST(Golden, CodecsWriteTheBytesThatTheyWrote) {
  const std::pair<std::string_view, std::uint64_t> recorded[] = {
      {"fp32", 0xab906322e1dfe125u},      {"fp16", 0x3a29d4164b4f2176u},
      {"int8", 0x70540feb59f3b51cu},      {"bf16", 0x41df73d3b4e41f1du},
      {"qsgd", 0x3137d49887d66aeu},       {"ternary", 0x59c0390a4542d3a8u},
      {"sign", 0x68dceb0c8013181eu},      {"top_k", 0x30efc111206d0dd4u},
      {"q_top_k", 0x5a4a3147c32e1d9cu},   {"random_k", 0xb36405d8654409f5u},
      {"dgc", 0xc6a17731674acddu},        {"demo", 0xac26e0c420fb125cu},
      {"bi_sparse", 0xd7137ce85ece3c4bu}, {"sparse", 0xf6412be0324ebb65u}};
  for (const CodecEntry& entry : registry()) {
    const auto* found =
        std::ranges::find(recorded, entry.name, [](const auto& r) { return r.first; });
    ASSERT_NE(found, std::end(recorded)) << entry.name;
    EXPECT_EQ(golden_hash(entry), found->second) << entry.name;
  }
}

TEST(Draws, AreThoseOfEachElementWhereverTheyBegin) {
  CodecKey key;
  key.round = (std::uint64_t{3} << 32) + 5;
  const Draws draws(9, key);
  for (const std::uint64_t first : {0u, 1u, 2u, 3u, 4u, 62u, 1001u})
    for (const std::size_t count : {0u, 1u, 3u, 5u, 63u, 64u, 65u, 200u}) {
      std::vector<std::uint32_t> all(count);
      draws.fill(first, all);
      for (std::size_t i = 0; i < count; ++i)
        ASSERT_EQ(all[i], draws.at(first + i)) << first << " + " << i;
    }
  std::vector<std::uint32_t> far(70);  // over the end of the counter's lower half
  const std::uint64_t end = std::uint64_t{4} << 32;
  draws.fill(end - 33, far);
  for (std::size_t i = 0; i < far.size(); ++i) ASSERT_EQ(far[i], draws.at(end - 33 + i));
}

}  // namespace
}  // namespace longhaul::codec

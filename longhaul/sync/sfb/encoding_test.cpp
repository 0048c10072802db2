#include "longhaul/sync/sfb/encoding.h"

#include <gtest/gtest.h>

#include "longhaul/base/testing/result.h"
#include "longhaul/codec/registry.h"

namespace longhaul::sync::sfb {
namespace {

constexpr std::uint64_t kOut = 3, kIn = 40;

const Layout& two_layers() {
  using Role = LayerRange::Role;
  using Linear = LayerRange::Linear;
  static const Layout layout({{"conv", {0, 5}, {5}},
                              {"fc.weight", {5, 120}, {3, 40}, Role::parameter, Linear::weight},
                              {"fc.bias", {125, 3}, {3}, Role::parameter, Linear::bias},
                              {"scale", {128, 2}, {2}},
                              {"mean", {130, 4}, {4}, Role::buffer}});
  return layout;
}

Parts parts_by(std::string rule) { return {two_layers(), 2, 3, 4, 4, {.rule = std::move(rule)}}; }

Coder coder_of(std::string kind, bool phantom = false) {
  Place place;
  place.layout = std::make_shared<const Layout>(two_layers());
  place.members = std::make_shared<const Members>(Members{{"oregon"}});
  place.phantom = phantom;
  auto codec = codec::make_codec({"codec", "", 0, {{"kind", {std::move(kind)}}}}, place, false);
  LH_CHECK(codec);
  return {phantom, *std::move(codec), nullptr};
}

Factors some_factors(bool sparse) {
  Factors f;
  for (std::size_t i = 0; i < 2 * kOut; ++i) f.u.push_back(0.5f + float(i));
  for (std::size_t i = 0; i < 2 * kIn; ++i) f.v.push_back(sparse && i % 7 ? 0.f : 1 / float(i + 3));
  f.v[1] = -0.f;
  return f;
}

FactorsHeader header_of(std::uint32_t part) {
  return {.origin = 1, .part = part, .rows = part == 0 ? 2u : 0u, .samples = 2};
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](float x, float y) {
           return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
         });
}

TEST(SfbParts, ABiasGoesWithItsWeight) {
  const Parts factored = parts_by("always"), dense = parts_by("never");
  ASSERT_EQ(factored.layers().size(), 1u);
  EXPECT_EQ(factored.entries(), std::vector<std::uint32_t>{1});
  EXPECT_EQ(factored.layers()[0].bias, (Range{125, 3}));
  EXPECT_EQ(factored.rest(), (std::vector<Range>{{0, 5}, {128, 2}}));
  EXPECT_EQ(dense.rest(), (std::vector<Range>{{0, 130}}));
  std::vector<float> whole(130), back(130);
  for (std::size_t i = 0; i < whole.size(); ++i) whole[i] = float(i);
  const auto rest = factored.gather(whole);
  EXPECT_EQ(rest, (std::vector<float>{0, 1, 2, 3, 4, 128, 129}));
  factored.scatter(rest, back);
  EXPECT_EQ(back[129], 129);
  EXPECT_EQ(back[5], 0);
}

// sfb_test.cpp, invariant 12.
TEST(SfbEncoding, ASparseVComesBackToTheSameBits) {
  for (const bool sparse : {false, true}) {
    Coder coder = coder_of("fp32");
    const Parts parts = parts_by("always");
    const Factors factors = some_factors(sparse);
    FactorsHeader header = header_of(0);
    const VectorContent content = encode(header, parts.layers()[0], factors, true, coder);
    EXPECT_EQ(header.sparse, sparse);
    EXPECT_TRUE(check_size(header, content.shape().size, parts, 2, coder));
    EXPECT_FALSE(check_size(header, content.shape().size + 1, parts, 2, coder));
    if (sparse) EXPECT_LT(content.shape().size, 4 * (2 * kOut + 2 * kIn));
    const auto back = good(decode(header, parts.layers()[0], content, coder));
    EXPECT_TRUE(same_bits(back->u, factors.u));
    EXPECT_TRUE(same_bits(back->v, factors.v));
    FactorsHeader whole = header_of(0);
    EXPECT_EQ(encode(whole, parts.layers()[0], factors, false, coder).shape().size,
              4 * (2 * kOut + 2 * kIn));
    EXPECT_FALSE(whole.sparse);
  }
}

TEST(SfbEncoding, ACodecWithLossIsNear) {
  for (const char* kind : {"fp16", "bf16", "int8"}) {
    Coder coder = coder_of(kind);
    const Parts parts = parts_by("always");
    FactorsHeader header = header_of(0);
    const Factors factors = some_factors(true);
    const VectorContent content = encode(header, parts.layers()[0], factors, true, coder);
    EXPECT_FALSE(header.sparse);
    EXPECT_LT(content.shape().size, 3 * (2 * kOut + 2 * kIn));
    const auto back = good(decode(header, parts.layers()[0], content, coder));
    for (std::size_t i = 0; i < factors.v.size(); ++i) EXPECT_NEAR(back->v[i], factors.v[i], 0.01);
    const std::vector<float> rest = {1, 2, 3, 4, 5, 6, 7};
    const VectorContent dense = encode(header_of(1), rest, 7, coder);
    EXPECT_TRUE(check_size(header_of(1), dense.shape().size, parts, 2, coder));
    EXPECT_NEAR((*decode(header_of(1), 7, dense, coder))[6], 7, 0.05);
  }
}

TEST(SfbEncoding, APhantomHasSizes) {
  Coder coder = coder_of("fp32", true);
  const Parts parts = parts_by("always");
  FactorsHeader header = header_of(0);
  const VectorContent content = encode(header, parts.layers()[0], {}, true, coder);
  EXPECT_EQ(content.shape().size, 4 * (2 * kOut + 2 * kIn));
  EXPECT_TRUE(decode(header, parts.layers()[0], content, coder)->u.empty());
}

// What a peer could say to cost memory, or to have others read beside what is there.
TEST(SfbEncoding, RefusesWhatNoSenderSays) {
  const Coder coder = coder_of("fp32");
  const Parts parts = parts_by("always");
  constexpr std::uint64_t kBytes = 4 * 2 * (kOut + kIn);
  const auto refused = [&](FactorsHeader header, std::uint64_t bytes = 4 * 2 * (kOut + kIn)) {
    header.u_bytes = header.u_bytes ? header.u_bytes : 4 * header.rows * kOut;
    return !check_size(header, bytes, parts, 2, coder);
  };
  EXPECT_FALSE(refused(header_of(0)));
  EXPECT_TRUE(refused(header_of(0), kBytes + 1));
  EXPECT_TRUE(refused(header_of(0), 3));  // less than u
  FactorsHeader header = header_of(0);
  header.u_bytes = 4 * 2 * kOut + 1;
  EXPECT_TRUE(refused(header));
  header = header_of(2);
  EXPECT_TRUE(refused(header));
  header = header_of(0);
  header.rows = 3;
  EXPECT_TRUE(refused(header));
  header.rows = 0;
  EXPECT_TRUE(refused(header));
  header = header_of(1);
  header.rows = 1;
  EXPECT_TRUE(refused(header));
  header = header_of(0);
  header.sparse = true;
  header.pairs = kIn;  // half of them: dense is as small
  EXPECT_TRUE(refused(header, 4 * 2 * kOut + 8 * kIn));
}

TEST(SfbEncoding, RefusesPairsThatDoNotAscend) {
  Coder coder = coder_of("fp32");
  const Parts parts = parts_by("always");
  FactorsHeader header = header_of(0);
  const VectorContent good = encode(header, parts.layers()[0], some_factors(true), true, coder);
  ASSERT_TRUE(header.sparse);
  Buffer bytes = *good.bytes();
  const std::size_t first = 4 * 2 * kOut;
  std::swap_ranges(bytes.begin() + first, bytes.begin() + first + 8, bytes.begin() + first + 8);
  EXPECT_FALSE(decode(header, parts.layers()[0], VectorContent::bytes(share(bytes)), coder));
  bytes = *good.bytes();
  bytes[first + 7] = std::byte(0x7f);  // 0x7f800000 and more: not finite
  bytes[first + 6] = std::byte(0xff);
  EXPECT_FALSE(decode(header, parts.layers()[0], VectorContent::bytes(share(bytes)), coder));
}

}  // namespace
}  // namespace longhaul::sync::sfb

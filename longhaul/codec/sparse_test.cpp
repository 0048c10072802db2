// Invariants (in this file unless another is named):
//   - bit-identical values at any share of zeros; the shorter form
//   - any bytes decode to values or an error: registry_test.cpp, bytes_check_test.cpp and
//     fuzz/codec_fuzz.cpp
#include <gmock/gmock.h>

#include "longhaul/codec/testing/made.h"

namespace longhaul::codec {
namespace {

using Floats = std::vector<float>;

bool same_bits(const Floats& a, const Floats& b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](float x, float y) {
           return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
         });
}

TEST(Sparse, LosesNothingWhateverShareIsZero) {
  const auto codec = made::plain("sparse");
  for (const std::size_t every : {1u, 2u, 3u, 10u, 100u, 5000u}) {
    Floats x(5000, 0.f);
    for (std::size_t i = 0; i < x.size(); i += every) x[i] = float(i) - 17.f;
    x[7] = -0.f;
    EXPECT_TRUE(same_bits(made::sent(*codec, x), x)) << every;
  }
  EXPECT_TRUE(made::sent(*codec, {}).empty());
}

TEST(Sparse, TakesTheShorterForm) {
  const auto codec = made::plain("sparse");
  Floats x(1000, 0.f);
  EXPECT_EQ(codec->encode({}, {0, 1000}, x).size(), 1u + 5u);
  for (std::size_t i = 0; i < 10; ++i) x[i] = 1;
  EXPECT_EQ(codec->encode({}, {0, 1000}, x).size(), 1u + 5u + 10u + 40u);
  EXPECT_EQ(codec->encode({}, {0, 1000}, Floats(1000, 1.f)).size(), 1u + 4000u);
}

TEST(Sparse, RefusesFormsItDoesNotKnow) {
  const auto codec = made::plain("sparse");
  Floats out(2);
  for (const Buffer& bytes :
       {Buffer{}, Buffer{std::byte{2}}, Buffer{std::byte{1}}, Buffer{std::byte{0}}})
    EXPECT_FALSE(codec->decode({}, {0, 2}, bytes, out));
}

}  // namespace
}  // namespace longhaul::codec

// Invariants (in this file unless another is named):
//   - large and small layers, pieces that cut layers, sizes, fp16
//   - sent and waiting values add up to the sum of u: feedback_test.cpp
//   - any bytes decode to values or an error: registry_test.cpp, fuzz/codec_fuzz.cpp
#include <gmock/gmock.h>

#include "longhaul/codec/testing/made.h"

namespace longhaul::codec {
namespace {

using ::testing::HasSubstr;
using Floats = std::vector<float>;

// Of layers of 300, 10, 20 and 700 values; those of 300 and more are large.
std::unique_ptr<Codec> layered(double ratio, const std::string& small = "fp32") {
  std::vector<LayerRange> layers;
  std::uint64_t at = 0;
  for (const std::uint64_t length : {300u, 10u, 20u, 700u}) {
    layers.push_back({"", {at, length}, {}, LayerRange::Role::parameter});
    at += length;
  }
  Place place;
  place.layout = std::make_shared<const Layout>(std::move(layers));
  return made::plain("bi_sparse",
                     {{"ratio", {ratio}}, {"size_bound", {std::int64_t{300}}}, {"small", {small}}},
                     place);
}

std::size_t sent_of(const Floats& q, Range at) {
  std::size_t count = 0;
  for (std::uint64_t i = at.offset; i < at.end(); ++i) count += q[i] != 0;
  return count;
}

TEST(BiSparse, LargeLayersAreSparseAndSmallOnesDense) {
  const auto codec = layered(0.01);
  const Floats x = made::normal_values(1030, 1), q = made::sent(*codec, x);
  EXPECT_EQ(sent_of(q, {0, 300}), 3u);
  EXPECT_EQ(sent_of(q, {330, 700}), 7u);
  for (std::size_t i = 300; i < 330; ++i) EXPECT_EQ(q[i], x[i]);
  const Buffer bytes = codec->encode({}, {0, 1030}, x);
  EXPECT_LE(bytes.size(), codec->size_at({0, 1030}));
  EXPECT_LE(codec->size_at({0, 1030}), 4u * 30 + (4 + 5 + 3 * 6 + 4) + (4 + 5 + 7 * 6 + 4));
  EXPECT_GT(codec->encoded_size(1030), codec->size_at({0, 1030}));
}

TEST(BiSparse, SmallLayersMayBeFp16) {
  const auto codec = layered(0.01, "fp16");
  const Floats x(1030, 1.0001f), q = made::sent(*codec, x);
  EXPECT_EQ(q[310], 1.f);
  EXPECT_EQ(codec->size_at({300, 30}), 60u);
  made::sent(*codec, Floats(30, 1e6f), {}, 300);
  EXPECT_EQ(codec->clamped(), 30u);
}

// Whatever stretch: a layer is large by its own length, of which the stretch may hold a part.
TEST(BiSparse, StretchesAreCutWhereLayersMeet) {
  const auto codec = layered(0.1);
  for (const Range at : {Range{0, 30}, Range{250, 60}, Range{290, 41}, Range{305, 3},
                         Range{329, 701}, Range{1000, 30}}) {
    const Floats x = made::normal_values(at.length, at.offset);
    const Floats q = made::sent(*codec, x, {}, at.offset);
    EXPECT_LE(codec->encode({}, at, x).size(), codec->size_at(at)) << at.offset;
    for (std::size_t i = 0; i < x.size(); ++i)
      if (at.offset + i >= 300 && at.offset + i < 330) EXPECT_EQ(q[i], x[i]);
  }
}

// Of another vector than the parameters nothing is known: it is one layer.
TEST(BiSparse, OtherVectorsAreOneLayer) {
  const auto codec = layered(0.1);
  const Floats x = made::normal_values(500, 3);
  EXPECT_EQ(sent_of(made::sent(*codec, x, {{.range = 2}}), {0, 500}), 50u);
  EXPECT_EQ(made::sent(*codec, {x.begin(), x.begin() + 100}, {{.range = 2}}),
            Floats(x.begin(), x.begin() + 100));
}

TEST(BiSparse, RefusesBytesOfAnotherCut) {
  const auto codec = layered(0.1);
  const Floats x = made::normal_values(1030, 4);
  const Buffer bytes = codec->encode({}, {0, 1030}, x);
  Floats out(1030);
  for (const std::size_t size : {std::size_t{0}, std::size_t{3}, bytes.size() - 1}) {
    const Status status = codec->decode({}, {0, 1030}, std::span(bytes).first(size), out);
    ASSERT_FALSE(status);
    EXPECT_THAT(status.error().what, HasSubstr("bi_sparse: "));
  }
  Buffer longer = bytes;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(codec->decode({}, {0, 1030}, longer, out));
}

}  // namespace
}  // namespace longhaul::codec

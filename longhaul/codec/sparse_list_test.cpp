#include "longhaul/codec/sparse_list.h"

#include <limits>

#include <gmock/gmock.h>

namespace longhaul::codec {
namespace {

using ::testing::HasSubstr;
using Floats = std::vector<float>;
using Indices = std::vector<std::uint32_t>;

constexpr Range kPart{100, 8};  // a stretch of eight values, not the first of its vector
const Floats kSparse = {0, 1.5f, 0, 0, -2, 0, 0, 3};
const Indices kIndices = {1, 4, 7};

Buffer written(const Floats& values = kSparse) {
  Buffer bytes;
  write_list(kIndices, kPart.length, bytes);
  write_values(kIndices, values, bytes);
  return bytes;
}

std::string refused(const Buffer& bytes, std::uint64_t most = 3) {
  Floats out(kPart.length);
  const Status status = read_values("some_codec", kPart, most, Cursor(bytes), out);
  return status ? "nothing is wrong" : status.error().what;
}

TEST(SparseList, ComesBackWithZerosElsewhereAndKeepsToItsBound) {
  const Buffer bytes = written();
  Floats out(kPart.length, 9);
  ASSERT_TRUE(read_values("some_codec", kPart, 3, Cursor(bytes), out));
  EXPECT_EQ(out, kSparse);
  EXPECT_LE(bytes.size(), most_list_bytes(kPart.length, 3) + 4 * kIndices.size());
  Cursor in(bytes);
  const auto indices = read_list("some_codec", kPart, 3, in);
  ASSERT_TRUE(indices);
  EXPECT_EQ(*indices, kIndices);
  EXPECT_EQ(in.rest().size(), 4 * kIndices.size()) << "the values are left";
}

TEST(SparseList, OfMoreThanIsAllowedIsRefusedByName) {
  EXPECT_THAT(refused(written(), 2), HasSubstr("some_codec: no count of at most 2"));
  EXPECT_THAT(refused({}), HasSubstr("no count"));
}

TEST(SparseList, ThatEndsEarlyOrLateOrIsNotFiniteIsRefused) {
  const Buffer good = written();
  for (std::size_t size = 0; size < good.size(); ++size)
    EXPECT_THAT(refused(Buffer(good.begin(), good.begin() + std::ptrdiff_t(size))),
                HasSubstr("some_codec"))
        << size;
  Buffer longer = good;
  longer.push_back({});
  EXPECT_THAT(refused(longer), HasSubstr("some_codec"));
  Floats infinite = kSparse;
  infinite[4] = std::numeric_limits<float>::infinity();
  EXPECT_THAT(refused(written(infinite)), HasSubstr("104")) << "of the vector, not the stretch";
}

}  // namespace
}  // namespace longhaul::codec

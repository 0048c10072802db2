#include "longhaul/learn/data/images.h"

#include <initializer_list>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "longhaul/base/testing/result.h"

namespace longhaul::learn {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Raw = std::vector<std::byte>;

// An IDX file of unsigned bytes 0, 1, 2 ... or of `values`.
Raw idx(std::initializer_list<std::uint32_t> extents, std::vector<int> values = {}) {
  Raw bytes = {std::byte{0}, std::byte{0}, std::byte{8}, std::byte(extents.size())};
  std::size_t count = 1;
  for (const std::uint32_t extent : extents) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(std::byte(extent >> shift & 0xff));
    count *= extent;
  }
  for (std::size_t i = 0; i < count; ++i)
    bytes.push_back(values.empty() ? std::byte(i) : std::byte(values.at(i)));
  return bytes;
}

std::string idx_error(const Raw& bytes) {
  auto array = read_idx(bytes, "f.idx");
  return array ? "no error" : array.error().what;
}

Result<DataSet> images_of(const Raw& images, const Raw& labels, PixelOptions options = {}) {
  return read_idx_images({"images.idx", images}, {"labels.idx", labels}, options);
}

std::string images_error(const Raw& images, const Raw& labels, PixelOptions options = {}) {
  auto data = images_of(images, labels, std::move(options));
  return data ? "no error" : data.error().what;
}

TEST(Idx, ReadsExtentsAndValues) {
  const Raw bytes = idx({2, 3, 5});
  auto array = good(read_idx(bytes, "f.idx"));
  EXPECT_THAT(array->extents, ElementsAre(2u, 3u, 5u));
  EXPECT_EQ(array->values.size(), 30u);
  EXPECT_EQ(array->values[29], std::byte{29});
}

TEST(Idx, TruncatedAtEveryByteIsAnError) {
  const Raw bytes = idx({2, 3, 5});
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_THAT(idx_error(Raw(bytes.begin(), bytes.begin() + std::ptrdiff_t(size))),
                AllOf(HasSubstr("f.idx: truncated IDX file: expected"), HasSubstr("copy it again")))
        << size;
  EXPECT_THAT(idx_error(Raw(bytes.begin(), bytes.end() - 4)),
              HasSubstr("2 x 3 x 5 numbers after 16 bytes of header, found 26"));
}

TEST(Idx, MoreBytesThanNumbersIsAnError) {
  Raw bytes = idx({2, 3});
  bytes.push_back(std::byte{0});
  EXPECT_THAT(idx_error(bytes), HasSubstr("byte 18: expected the end of 2 x 3 numbers"));
}

// A header may claim anything: 255 dimensions of 2^32 - 1, whose product wraps around, or extents
// whose product is 2^64 = 0.
TEST(Idx, HugeCountsAreTruncatedFilesAndCostNothing) {
  Raw most(4 + 4 * 255, std::byte{0xff});
  most[0] = most[1] = std::byte{0};
  most[2] = std::byte{8};
  EXPECT_THAT(idx_error(most), HasSubstr("truncated"));
  Raw wrapping = idx({1, 1, 1, 1});
  for (std::size_t extent = 0; extent < 4; ++extent) {  // 2^16 each
    wrapping[4 + 4 * extent + 1] = std::byte{1};
    wrapping[4 + 4 * extent + 3] = std::byte{0};
  }
  EXPECT_THAT(idx_error(wrapping), HasSubstr("truncated"));
}

TEST(Idx, WrongMagicSaysWhatItIs) {
  Raw bytes = idx({4});
  bytes[0] = std::byte{0x1f};
  bytes[1] = std::byte{0x8b};
  EXPECT_THAT(idx_error(bytes), HasSubstr("gunzip"));
  bytes[0] = std::byte{'P'};
  EXPECT_THAT(idx_error(bytes),
              AllOf(HasSubstr("expected an IDX file"), HasSubstr("copy it again")));
  bytes = idx({4});
  bytes[2] = std::byte{0x0d};
  EXPECT_THAT(idx_error(bytes), HasSubstr("found type 0d"));
  EXPECT_THAT(idx_error(idx({})),
              AllOf(HasSubstr("expected an IDX file"), HasSubstr("copy it again")));
  EXPECT_THAT(idx_error(idx({3, 0})), HasSubstr("byte 8: expected an extent above 0"));
}

TEST(Idx, ImagesAndLabelsBecomeADataSet) {
  auto data = good(images_of(idx({3, 2, 2}), idx({3}, {1, 0, 4}), {5, {0.5}, {0.5}}));
  EXPECT_EQ(data->shape, (DataShape{{1, 2, 2}, 5, Task::classification}));
  EXPECT_THAT(data->labels, ElementsAre(1, 0, 4));
  std::vector<float> row(4);
  data->copy_row(2, row);
  EXPECT_FLOAT_EQ(row[3], float((11 / 255.0 - 0.5) / 0.5));
}

TEST(Idx, ClassesFoundAndFeaturesOrChannels) {
  EXPECT_EQ(images_of(idx({2, 7}), idx({2}, {0, 3}))->shape,
            (DataShape{{7}, 4, Task::classification}));
  EXPECT_EQ(images_of(idx({2, 3, 2, 1}), idx({2}, {0, 1}), {0, {0, 0, 0}, {1, 1, 1}})->shape,
            (DataShape{{3, 2, 1}, 2, Task::classification}));
}

TEST(Idx, WhatDoesNotFitIsAnError) {
  const Raw images = idx({2, 2, 2}), labels = idx({2}, {0, 9});
  EXPECT_THAT(images_error(images, idx({3})),
              HasSubstr("labels.idx: expected a label for each of the 2 images"));
  EXPECT_THAT(images_error(images, labels, {9, {}, {}}),
              HasSubstr("labels.idx: byte 9: expected a label from 0 to 8, found 9"));
  EXPECT_THAT(images_error(images, idx({2}, {0, 0})), HasSubstr("all labels are 0"));
  EXPECT_THAT(images_error(images, idx({2, 1})), HasSubstr("labels of 1 dimension"));
  EXPECT_THAT(images_error(labels, labels), HasSubstr("images of 2 to 4 dimensions"));
  EXPECT_THAT(images_error(images, labels, {0, {0, 0}, {1, 1}}), HasSubstr("mean and std"));
  EXPECT_THAT(images_error(images, {}), HasSubstr("labels.idx: truncated"));
}

// --- cifar

std::vector<std::byte> rows(std::initializer_list<int> labels) {
  std::vector<std::byte> bytes;
  for (const int label : labels) {
    bytes.push_back(std::byte(label));
    for (int channel = 0; channel < 3; ++channel)
      bytes.insert(bytes.end(), 1024, std::byte(100 * channel));
  }
  return bytes;
}

std::string cifar_error(const std::vector<std::byte>& bytes) {
  auto data = read_cifar10(bytes, "b.bin");
  return data ? "no error" : data.error().what;
}

TEST(Cifar, ReadsLabelsAndChannels) {
  auto data = good(read_cifar10(rows({3, 9}), "b.bin"));
  EXPECT_EQ(data->shape, (DataShape{{3, 32, 32}, 10, Task::classification}));
  EXPECT_THAT(data->labels, ElementsAre(3, 9));
  EXPECT_EQ(data->names[3], "cat");
  std::vector<float> row(3072);
  data->copy_row(1, row);
  EXPECT_FLOAT_EQ(row[0], float(-0.4914 / 0.2470));
  EXPECT_FLOAT_EQ(row[1024], float((100 / 255.0 - 0.4822) / 0.2435));
  EXPECT_FLOAT_EQ(row[3071], float((200 / 255.0 - 0.4465) / 0.2616));
}

TEST(Cifar, TruncatedAtEveryByteIsAnError) {
  const auto bytes = rows({3, 9});
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    if (size == kCifarRow) continue;
    const std::span head = std::span(bytes).first(size);
    ASSERT_FALSE(read_cifar10(head, "b.bin")) << size;
  }
  EXPECT_THAT(cifar_error({bytes.begin(), bytes.end() - 1}),
              HasSubstr("b.bin: truncated CIFAR-10 file: expected a multiple of 3073 bytes, found "
                        "6145 (3072 too many or 1 missing)"));
}

TEST(Cifar, WrongLabelNamesItsByte) {
  EXPECT_THAT(cifar_error(rows({3, 9, 10})), HasSubstr("byte 6146: expected a label from 0 to 9, "
                                                       "found 10"));
}

}  // namespace
}  // namespace longhaul::learn

#include "longhaul/learn/data/images.h"

#include <gmock/gmock.h>

namespace longhaul::learn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

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
  auto data = read_cifar10(rows({3, 9}), "b.bin");
  ASSERT_TRUE(data);
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

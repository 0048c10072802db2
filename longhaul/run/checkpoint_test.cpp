#include "longhaul/run/checkpoint.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "longhaul/base/testing/result.h"
#include "longhaul/run/atomic_file.h"
#include "longhaul/run/job/testing/scratch.h"

namespace longhaul::run {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

class CheckpointsTest : public ::testing::Test {
 protected:
  static Checkpoint at(std::uint64_t round) {
    Checkpoint checkpoint{.job_hash = 7,
                          .round = round,
                          .metrics_bytes = round * 100,
                          .world = Buffer(1000, std::byte(round)),
                          .experiment = Buffer(10, std::byte{1})};
    return checkpoint;
  }
  std::size_t files() const {
    return std::size_t(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
  const run::testing::Scratch scratch_;
  const std::string folder_ = scratch_.file("checkpoints");
};

TEST_F(CheckpointsTest, NoneIsNoError) {
  auto newest = good(Checkpoints(folder_).newest());
  EXPECT_FALSE(newest->has_value());
}

TEST_F(CheckpointsTest, KeepsTheNewestTwo) {
  const Checkpoints checkpoints(folder_);
  for (std::uint64_t round : {5u, 10u, 100u, 1000u}) ASSERT_TRUE(checkpoints.write(at(round)));
  EXPECT_EQ(files(), 2u);
  auto newest = checkpoints.newest();
  ASSERT_TRUE(newest && *newest);
  EXPECT_EQ((**newest).round, 1000u);
  EXPECT_EQ((**newest).metrics_bytes, 100000u);
  EXPECT_EQ((**newest).world, at(1000).world);
}

TEST_F(CheckpointsTest, ADamagedOneFallsBackToTheOther) {
  const Checkpoints checkpoints(folder_);
  ASSERT_TRUE(checkpoints.write(at(1)) && checkpoints.write(at(2)));
  const std::string path = folder_ + "/000000000002.checkpoint";
  auto bytes = good(read_file(path));
  (*bytes)[700] ^= std::byte{1};
  ASSERT_TRUE(write_atomically(path, *bytes));
  auto newest = checkpoints.newest();
  ASSERT_TRUE(newest && *newest);
  EXPECT_EQ((**newest).round, 1u);
  fs::remove(folder_ + "/000000000001.checkpoint");
  const Error none = failure(checkpoints.newest());
  EXPECT_THAT(none.what, HasSubstr(path + ": checkpoint is damaged"));
  EXPECT_THAT(none.what, Not(HasSubstr("--force")));
}

TEST(Checkpoint, AnyBytesAreACheckpointOrAnError) {
  const Buffer whole = format_checkpoint({1, 2, 3, Buffer(64), Buffer(3)});
  ASSERT_TRUE(parse_checkpoint(whole));
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_FALSE(parse_checkpoint(std::span(whole).first(size))) << size;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    Buffer bytes = whole;
    bytes[i] ^= std::byte{0x10};
    EXPECT_FALSE(parse_checkpoint(bytes)) << i;
  }
}

}  // namespace
}  // namespace longhaul::run

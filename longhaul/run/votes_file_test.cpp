#include "longhaul/run/votes_file.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "longhaul/run/atomic_file.h"
#include "longhaul/run/testing/scratch.h"

namespace longhaul::run {
namespace {

TEST(VotesFile, WhatIsKeptIsReadAndDamageIsNoVote) {
  const testing::Scratch folder;
  EXPECT_FALSE(read_votes(folder.file(".")));
  const auto keep = keeps_votes(folder.file("."));
  ASSERT_TRUE(keep({7, {1, 2, 3}}));
  ASSERT_TRUE(keep({8, {4, 5}}));
  const auto read = read_votes(folder.file("."));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->life, 8u);
  EXPECT_EQ(read->votes, (std::vector<std::uint8_t>{4, 5}));
  ASSERT_TRUE(write_atomically(folder.file(".") + "/votes.bin", std::string_view("damaged")));
  EXPECT_FALSE(read_votes(folder.file(".")));
}

// Else the next process would vote as an older one has.
TEST(VotesFile, WhatCannotBeReplacedIsRemoved) {
  const testing::Scratch folder;
  const auto keep = keeps_votes(folder.file("."));
  ASSERT_TRUE(keep({7, {1}}));
  std::filesystem::create_directory(folder.file(".") + "/votes.bin.tmp");  // where the new one goes
  EXPECT_FALSE(keep({8, {2}}));
  EXPECT_FALSE(read_votes(folder.file(".")));
}

}  // namespace
}  // namespace longhaul::run

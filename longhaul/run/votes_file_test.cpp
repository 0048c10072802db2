#include "longhaul/run/met_facts.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "longhaul/base/testing/result.h"
#include "longhaul/run/atomic_file.h"
#include "longhaul/run/job/testing/scratch.h"

namespace longhaul::run {
namespace {

TEST(VotesFile, WhatIsKeptIsReadAndDamageIsNoVote) {
  const testing::Scratch folder;
  EXPECT_FALSE(read_votes(folder.file(".")));
  const auto keep = keeps_votes(folder.file("."));
  ASSERT_TRUE(keep({2, 7, {1, 2, 3}}));
  ASSERT_TRUE(keep({2, 8, {4, 5}}));
  const auto read = good(read_votes(folder.file(".")));
  EXPECT_EQ(read->rank, 2u);
  EXPECT_EQ(read->life, 8u);
  EXPECT_EQ(read->votes, (std::vector<std::uint8_t>{4, 5}));
  ASSERT_TRUE(write_atomically(folder.file(".") + "/votes.bin", std::string_view("damaged")));
  EXPECT_FALSE(read_votes(folder.file(".")));
}

TEST(VotesFile, ThoseOfAnotherSiteAreRefusedByName) {
  const testing::Scratch folder;
  const std::string path = folder.file(".");
  const Members members{{"oslo"}, {"lima"}};
  EXPECT_FALSE(*read_own_votes(path, members, 0)) << "there are none";
  ASSERT_TRUE(keeps_votes(path)({1, 7, {1}}));
  EXPECT_EQ((*read_own_votes(path, members, 1))->life, 7u);
  EXPECT_TRUE(says(failure(read_own_votes(path, members, 0)).what,
                   "votes.bin: of site lima (rank 1), and this is site oslo"));
  ASSERT_TRUE(keeps_votes(path)({5, 7, {1}}));
  EXPECT_TRUE(says(read_own_votes(path, members, 0).error().what, "no site of this job (rank 5)"));
}

// Else the next process would vote as an older one has.
TEST(VotesFile, WhatCannotBeReplacedIsRemoved) {
  const testing::Scratch folder;
  const auto keep = keeps_votes(folder.file("."));
  ASSERT_TRUE(keep({2, 7, {1}}));
  std::filesystem::create_directory(folder.file(".") + "/votes.bin.tmp");  // where the new one goes
  EXPECT_FALSE(keep({2, 8, {2}}));
  EXPECT_FALSE(read_votes(folder.file(".")));
}

}  // namespace
}  // namespace longhaul::run

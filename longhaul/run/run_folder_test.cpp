#include "longhaul/run/run_folder.h"

#include <filesystem>

#include <gmock/gmock.h>

#include "longhaul/base/check.h"
#include "longhaul/base/testing/result.h"
#include "longhaul/run/atomic_file.h"
#include "longhaul/run/job/testing/job_text.h"
#include "longhaul/run/job/testing/scratch.h"

namespace longhaul::run {
namespace {

using ::testing::HasSubstr;

Job small() {
  return testing::good_job(
      "[model]\nkind = \"phantom\"\n[sync]\nkind = \"bsp\"\n[stop]\nmax_rounds = 1\n[[site]]\nname "
      "= \"a\"\n");
}

class RunFolderTest : public ::testing::Test {
 protected:
  void put(const std::string& name) const { ASSERT_TRUE(write_atomically(path_ + name, "{}")); }
  // What is said where it may not be opened; nothing where it may.
  std::string opened(ExistingFolder existing) const {
    auto folder = RunFolder::open(path_, job_, existing);
    return folder ? "" : folder.error().what;
  }

  testing::Scratch scratch_;
  std::string path_ = scratch_.file("run");
  Job job_ = small();
};

TEST_F(RunFolderTest, ThatARunDiedInBeforeItBeganIsEmpty) {
  std::filesystem::create_directory(path_);
  put("/job.toml.tmp");
  EXPECT_THAT(opened(ExistingFolder::resume), HasSubstr("nothing to resume"));
  for (const ExistingFolder existing :
       {ExistingFolder::refuse, ExistingFolder::force, ExistingFolder::resume_or_begin}) {
    EXPECT_EQ(opened(existing), "");
    EXPECT_FALSE(std::filesystem::exists(path_ + "/job.toml.tmp"));
    std::filesystem::rename(path_ + "/job.toml", path_ + "/job.toml.tmp");
  }
  put("/mine");
  EXPECT_THAT(opened(ExistingFolder::force), HasSubstr("holds files but no run"));
}

TEST_F(RunFolderTest, ASessionThatCouldNotBeginLeavesAFolderAsItFoundIt) {
  auto begin = [&](ExistingFolder existing) {
    auto folder = good(RunFolder::open(path_, job_, existing));
    put("/status.json");
    folder->discard();
  };
  begin(ExistingFolder::refuse);
  EXPECT_FALSE(std::filesystem::exists(path_));
  begin(ExistingFolder::refuse);
  std::filesystem::create_directory(path_);
  begin(ExistingFolder::resume_or_begin);
  EXPECT_FALSE(std::filesystem::exists(path_)) << "it was empty";
  EXPECT_EQ(opened(ExistingFolder::refuse), "");
  begin(ExistingFolder::resume);
  EXPECT_TRUE(std::filesystem::exists(path_ + "/job.toml")) << "of an earlier session";
}

TEST_F(RunFolderTest, ClearingLeavesWhatIsNoPartOfARun) {
  EXPECT_EQ(opened(ExistingFolder::refuse), "");
  put("/summary.json");
  put("/mine");
  {
    auto held = good(RunFolder::open(path_, job_, ExistingFolder::resume));
    EXPECT_FALSE(RunFolder::clear(path_)) << "it is in use";
  }
  ASSERT_TRUE(RunFolder::clear(path_));
  EXPECT_FALSE(std::filesystem::exists(path_ + "/job.toml"));
  EXPECT_FALSE(std::filesystem::exists(path_ + "/summary.json"));
  EXPECT_TRUE(std::filesystem::exists(path_ + "/mine"));
}

}  // namespace
}  // namespace longhaul::run

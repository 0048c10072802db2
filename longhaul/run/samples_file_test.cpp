#include "longhaul/run/samples_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "longhaul/run/job/testing/scratch.h"
#include "longhaul/run/run_folder.h"

namespace longhaul::run {
namespace {

class SamplesFiles : public ::testing::Test {
 protected:
  void tell(SamplesFile& file, std::string name, Round round, double value) {
    const Record record{std::move(name), round, value};
    ASSERT_TRUE(ledger_.take(Time{0}, 0, record));
    file.append(Time{0}, 0, record);
  }
  // As the process after reads it: nothing of `file` has been closed.
  SampleCounts on_disk() {
    const auto read = read_samples(path());
    EXPECT_TRUE(read && *read);
    return read && *read ? (**read).counts() : SampleCounts{};
  }
  std::string path() const { return folder_ + "/samples.bin"; }
  const run::testing::Scratch scratch_;
  const std::string folder_ = scratch_.file("");
  SampleLedger ledger_;
};

TEST_F(SamplesFiles, HoldsAtAnyTimeWhatTheLedgerDoes) {
  EXPECT_FALSE(*read_samples(path()));
  SamplesFile file(path(), ledger_);
  tell(file, "samples_computed", 0, 8);  // before it is begun
  ASSERT_TRUE(file.flush());
  EXPECT_EQ(on_disk().computed, 8u);
  tell(file, "samples_given", 0, 8);
  tell(file, "samples_used", 0, 0);
  tell(file, "samples_computed", 1, 5);
  EXPECT_EQ(on_disk().used, 8u);
  EXPECT_EQ(on_disk().unused(), 5u);
  ledger_.node_lost(0);
  file.node_lost(0);
  tell(file, "samples_computed", 7, 4);
  EXPECT_EQ(on_disk().lost, 5u);
  EXPECT_EQ(on_disk().unused(), 4u);
}

TEST_F(SamplesFiles, OfAServerHoldsWhoseUpdatesItHas) {
  SamplesFile file(path(), ledger_);
  ASSERT_TRUE(file.flush());
  tell(file, "samples_computed", 0, 20);
  ledger_.node_lost(0);
  file.node_lost(0);
  tell(file, "push_came", 3, 0);
  tell(file, "push_used", 1, 0);
  EXPECT_EQ(on_disk().lost, 17u);
  ledger_.node_returned(0);
  file.node_returned(0);
  tell(file, "push_came", 4, 0);
  tell(file, "push_used", 2, 0);
  tell(file, "push_came", 6, 0);
  tell(file, "push_discarded", 2, 0);
  EXPECT_EQ(on_disk().used, 7u);
  EXPECT_EQ(on_disk().lost, ledger_.counts().lost);
  tell(file, "rolled_back", 1, 0);
  EXPECT_EQ(on_disk().used, 3u);
}

TEST_F(SamplesFiles, StaysSmall) {
  SamplesFile file(path(), ledger_);
  ASSERT_TRUE(file.flush());
  for (std::uint64_t round = 0; round < SamplesFile::kMostRecords + 10; ++round)
    tell(file, "samples_computed", round, 2);
  EXPECT_EQ(on_disk().computed, 2 * (SamplesFile::kMostRecords + 10));
  EXPECT_LT(std::filesystem::file_size(path()), 4096u);
}

TEST_F(SamplesFiles, CutAtAnyByteIsTheLedgerOfBeforeOrAnError) {
  SamplesFile file(path(), ledger_);
  tell(file, "samples_computed", 0, 1);
  ASSERT_TRUE(file.flush());
  const auto begun = std::filesystem::file_size(path());
  for (int i = 0; i < 3; ++i) tell(file, "samples_computed", 0, 1);
  for (auto size = std::filesystem::file_size(path()); size-- > 0;) {
    std::filesystem::resize_file(path(), size);
    const auto read = read_samples(path());
    ASSERT_EQ(bool(read), size >= begun) << size;
    if (read) EXPECT_EQ((**read).counts().computed, 1 + (size - begun) / 32);
  }
  std::ofstream(path()) << "somebody else's file, which is long enough";
  ASSERT_FALSE(read_samples(path()));
  EXPECT_NE(read_samples(path()).error().what.find("not a ledger of samples"), std::string::npos);
}

// As when a disk is full for a while: its folder is not there.
TEST_F(SamplesFiles, CatchesUpOnceItCanBeWritten) {
  std::filesystem::remove_all(folder_);
  SamplesFile file(path(), ledger_);
  EXPECT_FALSE(file.flush());
  tell(file, "samples_computed", 0, 8);
  std::filesystem::create_directories(folder_);
  ASSERT_TRUE(file.flush());
  EXPECT_EQ(on_disk().computed, 8u);
}

}  // namespace
}  // namespace longhaul::run

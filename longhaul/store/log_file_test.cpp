#include "longhaul/store/log_file.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "longhaul/base/testing/result.h"

namespace longhaul::store {
namespace {

class LogFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string folder = testing::TempDir() + "longhaul-log-XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string path() const { return folder_ + "/index.sqlite"; }

  std::string folder_;
};

Bytes bytes(const std::string& text) {
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  return share({data, data + text.size()});
}
std::string text(const Bytes& record) {
  return {reinterpret_cast<const char*>(record->data()), record->size()};
}
std::vector<std::string> texts(const LogFile& log) {
  std::vector<std::string> all;
  const auto records = log.records();
  for (const Bytes& record : *records) all.push_back(text(record));
  return all;
}

TEST_F(LogFileTest, RecordsAreThereAgainInTheirOrder) {
  {
    auto log = good(LogFile::open(path()));
    EXPECT_TRUE(texts(**log).empty());
    const LogFile::Record first[] = {{1, bytes("a")}, {2, bytes("")}};
    ASSERT_TRUE((*log)->append(first));
    const LogFile::Record second[] = {{3, bytes("c")}};
    ASSERT_TRUE((*log)->append(second));
  }
  auto log = good(LogFile::open(path()));
  EXPECT_EQ(texts(**log), (std::vector<std::string>{"a", "", "c"}));
}

TEST_F(LogFileTest, ACheckpointTakesThePlaceOfTheRecordsBeforeIt) {
  {
    auto log = good(LogFile::open(path()));
    EXPECT_EQ((*log)->checkpoint()->number, 0u);
    const LogFile::Record three[] = {{1, bytes("a")}, {2, bytes("b")}, {3, bytes("c")}};
    ASSERT_TRUE((*log)->append(three));
    ASSERT_TRUE((*log)->write_checkpoint({1, bytes("one")}));
    ASSERT_TRUE((*log)->write_checkpoint({2, bytes("two")}));
  }
  auto log = good(LogFile::open(path()));
  EXPECT_EQ((*log)->checkpoint()->number, 2u);
  EXPECT_EQ(text((*log)->checkpoint()->state), "two");
  EXPECT_EQ(texts(**log), std::vector<std::string>{"c"});
  std::vector<std::uint64_t> numbers;
  ASSERT_TRUE((*log)->each([&](std::uint64_t number, const Bytes&) {
    numbers.push_back(number);
    return Status(Ok{});
  }));
  EXPECT_EQ(numbers, std::vector<std::uint64_t>{3});
}

TEST_F(LogFileTest, AppendingTwiceChangesNothing) {
  auto log = good(LogFile::open(path()));
  const LogFile::Record one[] = {{1, bytes("a")}};
  ASSERT_TRUE((*log)->append(one));
  ASSERT_TRUE((*log)->append(one));
  EXPECT_EQ(texts(**log), std::vector<std::string>{"a"});
}

TEST_F(LogFileTest, AMissingRecordIsNoticed) {
  auto log = good(LogFile::open(path()));
  const LogFile::Record one[] = {{2, bytes("b")}};
  ASSERT_TRUE((*log)->append(one));
  EXPECT_FALSE((*log)->records());
}

TEST_F(LogFileTest, AnotherFileIsRefused) {
  std::ofstream(path()) << "this is text and no database, long enough to have a header of one "
                           "hundred bytes, which begins with another word than SQLite";
  EXPECT_TRUE(says(LogFile::open(path()), "index.sqlite"));
}

// The child is killed with records appended and the file open: what append() returned for is there.
TEST_F(LogFileTest, AnotherOwnerIsRefused) {
  {
    const auto log = good(LogFile::open(path()));
    EXPECT_TRUE((*log)->claim("site a"));
    EXPECT_TRUE((*log)->claim("site a"));
  }
  const auto log = good(LogFile::open(path()));
  EXPECT_TRUE((*log)->claim("site a"));
  EXPECT_TRUE(says((*log)->claim("site b"), "is of site a, not of site b"));
}

TEST_F(LogFileTest, AKilledWriterLosesNothingThatWasDurable) {
  int done[2];
  ASSERT_EQ(pipe(done), 0);
  const pid_t child = fork();
  if (child == 0) {
    auto log = LogFile::open(path());
    const LogFile::Record records[] = {{1, bytes("a")}, {2, bytes("b")}};
    const bool written = log && (*log)->append(records);
    (void)!write(done[1], written ? "1" : "0", 1);
    pause();
  }
  char written = 0;
  ASSERT_EQ(read(done[0], &written, 1), 1);
  EXPECT_EQ(written, '1');
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  auto log = good(LogFile::open(path()));
  EXPECT_EQ(texts(**log), (std::vector<std::string>{"a", "b"}));
}

}  // namespace
}  // namespace longhaul::store

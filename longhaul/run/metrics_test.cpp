#include "longhaul/run/metrics.h"

#include <gmock/gmock.h>

#include <sys/resource.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "longhaul/base/testing/result.h"
#include "longhaul/run/appended_file.h"
#include "longhaul/run/atomic_file.h"
#include "longhaul/run/job/testing/scratch.h"

namespace longhaul::run {
namespace {

using ::testing::HasSubstr;

std::string text_of(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(Metrics, WritesShortestNumbersThatReadBack) {
  const std::pair<std::string_view, double> values[] = {
      {"loss", 0.1}, {"accuracy", 1.0 / 3}, {"none", std::nan("")}};
  EXPECT_EQ(to_json_line({Time{30598007}, "tokyo", 2, 7, "score", values}),
            R"({"time_s":0.030598007,"site":"tokyo","rank":2,"round":7,"kind":"score",)"
            R"("values":{"loss":0.1,"accuracy":0.3333333333333333,"none":null}})"
            "\n");
}

TEST(Metrics, OfALongRunEventsAreThinnedByKindAndNode) {
  Thinning thinning;
  std::uint64_t kept = 0, stood_for = 0;
  auto take = [&](Rank rank, std::string_view kind, std::uint64_t events) {
    kept = stood_for = 0;
    for (std::uint64_t i = 0; i < events; ++i) {
      const std::uint64_t one = thinning.next(rank, kind);
      kept += one > 0;
      stood_for += one;
    }
  };
  take(0, "wait_s", Thinning::kWhole);
  EXPECT_EQ(kept, Thinning::kWhole) << "all of the first";
  take(0, "wait_s", 3 * Thinning::kWhole);
  EXPECT_EQ(kept, Thinning::kWhole) << "half of as many, a quarter of twice as many";
  EXPECT_EQ(stood_for, 3 * Thinning::kWhole) << "each is counted";
  Archive saved;
  thinning.state(saved);
  const Buffer bytes = saved.take();
  Archive loaded(bytes);
  thinning = {};
  thinning.state(loaded);
  take(0, "wait_s", 8);
  EXPECT_EQ(kept, 1u) << "also after a resume";
  take(1, "wait_s", 8);
  EXPECT_EQ(kept, 8u) << "another node's are others";
  take(0, "score", 8);
  EXPECT_EQ(kept, 8u);
  const MetricsEvent event{Time{0}, "a", 0, 7, "wait_s", {}, 4};
  EXPECT_EQ(to_json_line(event), R"({"time_s":0,"site":"a","rank":0,"round":7,"kind":"wait_s",)"
                                 R"("values":{},"stands_for":4})"
                                 "\n");
}

TEST(Metrics, GoesOnWhereTheCheckpointWas) {
  const run::testing::Scratch scratch;
  const std::string path = scratch.file("metrics.jsonl");
  const std::pair<std::string_view, double> values[] = {{"value", 1}};
  auto write = [&](AppendedFile& file, Round round) {
    file.append(to_json_line({Time{0}, "a", 0, round, "x", values}));
  };
  std::uint64_t checkpoint = 0;
  {
    auto file = good(AppendedFile::open(path, 0));
    write(*file, 1);
    ASSERT_TRUE(file->sync());
    checkpoint = file->bytes();
    write(*file, 2);  // lost with the process that wrote it
    ASSERT_TRUE(file->sync());
  }
  {
    auto file = good(AppendedFile::open(path, checkpoint));
    write(*file, 3);
    ASSERT_TRUE(file->sync());
    EXPECT_EQ(file->bytes(), 2 * checkpoint);
  }
  EXPECT_THAT(text_of(path), HasSubstr("\"round\":3"));
  EXPECT_THAT(text_of(path), ::testing::Not(HasSubstr("\"round\":2")));
  auto shorter = AppendedFile::open(path, 10 * checkpoint);
  ASSERT_FALSE(shorter);
  EXPECT_THAT(shorter.error().what, HasSubstr(path + ": shorter than"));
}

// A limit on the size of files stands for a full disk: both are errors of write().
TEST(Metrics, LinesThatCannotBeWrittenWaitAndNoneIsLostOrTorn) {
  const run::testing::Scratch scratch;
  const std::string path = scratch.file("metrics.jsonl"), other = scratch.file("other");
  const std::pair<std::string_view, double> values[] = {{"value", 1}};
  std::string expected;
  auto file = good(AppendedFile::open(path, 0));
  const auto write = [&](Round round) {
    const MetricsEvent event{Time{0}, "a", 0, round, "x", values};
    expected += to_json_line(event);
    file->append(to_json_line(event));
  };
  write(1);
  ASSERT_TRUE(file->flush());
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit full = before;
  full.rlim_cur = expected.size() + 10;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &full), 0);
  write(2);
  write(3);
  const Status failed = file->flush();
  const Status atomic = write_atomically(other, std::string(1000, 'x'));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error().what, HasSubstr(path + ": writing it failed: File too large"));
  EXPECT_EQ(file->bytes(), expected.size());
  EXPECT_EQ(file->written(), full.rlim_cur);
  EXPECT_EQ(whole_lines(path), expected.size() / 3);
  EXPECT_FALSE(atomic);
  EXPECT_FALSE(std::filesystem::exists(other + std::string(kTemporary)));
  write(4);
  ASSERT_TRUE(file->sync());
  EXPECT_EQ(text_of(path), expected);
  EXPECT_EQ(file->dropped(), 0u);
}

TEST(MetricsNightly, OfTooManyLinesThatWaitTheNewestAreDroppedWholeAndCounted) {
  const run::testing::Scratch scratch;
  const std::string path = scratch.file("metrics.jsonl"), site(1u << 20, 'a');
  auto file = good(AppendedFile::open(path, 0));
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit full = before;
  full.rlim_cur = 10;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &full), 0);
  for (Round round = 0; round < 20; ++round)
    file->append(to_json_line({Time{0}, site, 0, round, "x", {}}));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(file->dropped(), 5u);
  EXPECT_LE(file->bytes(), AppendedFile::kMostPending + 10);
  ASSERT_TRUE(file->sync());
  EXPECT_EQ(whole_lines(path), file->bytes());
  EXPECT_THAT(text_of(path), HasSubstr("\"round\":14,"));
}

TEST(AtomicFile, AFileThatCannotBeWrittenIsAnErrorThatNamesIt) {
  EXPECT_THAT(write_atomically("/no/such/folder/x", "text").error().what,
              HasSubstr("/no/such/folder/x"));
  EXPECT_THAT(read_file("/no/such/file").error().what, HasSubstr("/no/such/file"));
}

}  // namespace
}  // namespace longhaul::run

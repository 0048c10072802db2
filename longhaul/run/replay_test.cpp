#include "longhaul/run/replay.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "longhaul/base/testing/effort.h"
#include "longhaul/base/testing/result.h"
#include "longhaul/record/testing/memory.h"
#include "longhaul/run/atomic_file.h"
#include "longhaul/run/experiment.h"
#include "longhaul/run/job/dump.h"
#include "longhaul/run/job/testing/job_text.h"
#include "longhaul/run/job/testing/scratch.h"
#include "longhaul/run/recording.h"

namespace longhaul::run {
namespace {

using ::testing::HasSubstr;

constexpr const char* kJob = R"(
[job]
name = "replay"
[stop]
max_rounds = 3
[model]
kind = "logistic"
[data]
kind = "synthetic"
samples = 90
test_samples = 20
features = 10
[sync]
kind = "fedavg"
steps = 2
[[site]]
name = "a"
[[site]]
name = "b"
nodes = 2
)";

class ReplayTest : public ::testing::Test {
 protected:
  void record(record::Mode mode) {
    auto done =
        good(simulate(testing::good_job(kJob),
                      {.folder = folder_, .existing = ExistingFolder::force, .record = mode}));
  }
  Result<ReplayResult> play(const std::string& site) {
    return replay({.folder = folder_, .site = site, .go_on = {}});
  }
  // With another header.
  void rewrite_header(const std::function<void(record::Header&)>& change) {
    rewrite([&](record::Frame& frame) {
      if (frame.type != record::EntryType::header) return;
      auto header = record::decode<record::Header>(frame);
      LH_CHECK(header);
      change(*header);
      frame.payload = record::encode(*header);
    });
  }
  void expect_refused(const std::string& what) {
    EXPECT_THAT(failure(play("a")).what, HasSubstr(what));
  }
  // Reads the recording of a and writes it again with every entry as `change` leaves it.
  void rewrite(const std::function<void(record::Frame&)>& change) {
    const std::string path = folder_ + "/recordings/a-0-1.rec";
    const auto bytes = read_file(path);
    LH_CHECK(bytes);
    record::testing::MemorySource source(*bytes);
    record::FrameReader reader(source);
    record::testing::MemorySink sink;
    record::FrameWriter writer(sink);
    for (;;) {
      auto next = reader.next();
      LH_CHECK(next);
      auto* frame = std::get_if<record::Frame>(&*next);
      if (!frame) break;
      change(*frame);
      writer.add(frame->type, frame->payload);
    }
    LH_CHECK(writer.flush());
    LH_CHECK(write_atomically(path, sink.bytes));
  }
  const run::testing::Scratch scratch_;
  const std::string folder_ = scratch_.file("run");
};

TEST_F(ReplayTest, EveryNodeIsTheSame) {
  for (record::Mode mode : {record::Mode::hashes, record::Mode::full}) {
    record(mode);
    for (const char* site : {"a", "b", "b/1"}) {
      const bool full = mode == record::Mode::full;
      if (longhaul::testing::kGate && full != (site == std::string("b"))) continue;
      const auto replayed = good(play(site));
      ASSERT_EQ(replayed->sessions.size(), 1u);
      EXPECT_EQ(exit_code(*replayed), 0);
      EXPECT_EQ(replayed->sessions[0].recomputed, mode == record::Mode::hashes);
      EXPECT_GT(replayed->sessions[0].outcome.actions, 10u);
    }
  }
}

// What stands in the file is what is compared: another hash in one answer is the difference.
TEST_F(ReplayTest, ADifferenceIsToldWithItsPlace) {
  record(record::Mode::hashes);
  std::uint64_t inputs = 0;
  rewrite([&](record::Frame& frame) {
    inputs += frame.type == record::EntryType::input;
    if (inputs != 7 || frame.type != record::EntryType::answer) return;
    auto answer = record::decode<record::AnswerEntry>(frame);
    LH_CHECK(answer);
    answer->answers.push_back({1, "dance"});
    frame.payload = record::encode(*answer);
  });
  const auto replayed = good(play("a"));
  EXPECT_EQ(exit_code(*replayed), 1);
  const auto json = to_json(*replayed)["sessions"][0];
  EXPECT_EQ(json["inputs"], 6);
  EXPECT_EQ(json["same"], false);
  EXPECT_EQ(json["difference"]["input"], 7);
  EXPECT_EQ(json["difference"]["recorded"], "dance");
  EXPECT_EQ(json["difference"]["replayed"], "");
}

TEST_F(ReplayTest, AnotherJobIsRefusedByItsKey) {
  record(record::Mode::hashes);
  const Job job = testing::good_job(kJob, {"optimizer.rate=0.5"});
  ASSERT_TRUE(write_atomically(folder_ + "/job.toml", to_toml(job)));
  const Error replayed = failure(play("a"));
  EXPECT_THAT(replayed.what, HasSubstr("[optimizer] rate"));
  EXPECT_THAT(replayed.what, HasSubstr("a-0-1.rec"));
}

TEST_F(ReplayTest, ARecordingOfAnotherRankIsRefused) {
  record(record::Mode::hashes);
  rewrite_header([](record::Header& header) { header.rank = 1; });
  expect_refused("is of rank 1");
}

// With other data the learner cannot stand in; that is found before it takes a step.
TEST_F(ReplayTest, OtherDataAreRefused) {
  record(record::Mode::hashes);
  rewrite_header([](record::Header& header) { header.training_samples = 91; });
  expect_refused("other data");
}

TEST_F(ReplayTest, ASessionIsAFileOfItsOwn) {
  record(record::Mode::hashes);
  EXPECT_EQ(recordings_of(folder_, {.site = "b", .rank_in_site = 1}),
            std::vector<std::string>{folder_ + "/recordings/b-1-1.rec"});
  EXPECT_TRUE(recordings_of(folder_, {.site = "c"}).empty());
  EXPECT_NE(cpu_name(), "");
}

}  // namespace
}  // namespace longhaul::run

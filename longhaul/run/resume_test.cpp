// A run that was cut short and resumed equals the one that was not, bit for bit, whatever its
// parts.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "longhaul/base/testing/effort.h"
#include "longhaul/base/testing/result.h"
#include "longhaul/codec/registry.h"
#include "longhaul/run/experiment.h"
#include "longhaul/run/job/reference.h"
#include "longhaul/run/job/testing/job_text.h"
#include "longhaul/run/job/testing/scratch.h"

namespace longhaul::run {
namespace {

namespace fs = std::filesystem;
using longhaul::testing::kGate;

constexpr const char* kResumed = R"(
[job]
name = "resume"
[stop]
max_rounds = 6
[report]
every_rounds = 2
[model]
kind = "logistic"
[data]
kind = "synthetic"
samples = 120
test_samples = 50
features = 40
partition = "dirichlet"
batch = 8
[optimizer]
rate = 0.05
[sync]
kind = "bsp"
[for.fedavg.sync]
steps = 3
[for.diloco.sync]
steps = 3
[transfer]
chunk_kib = 1
[wan]
mbps = 2
delay_ms = 10
[[site]]
name = "a"
jitter = 0.3
[[site]]
name = "b"
step_ms = 33
[[site]]
name = "c"
up_mbps = 1
)";

Job resumed_job(const std::vector<std::string>& sets) { return testing::good_job(kResumed, sets); }

struct Done {
  Summary summary;
  std::string metrics;
};

class Resume : public ::testing::Test {
 protected:
  Done run(const Job& job, const std::string& name, ExistingFolder existing,
           std::function<bool(Round)> stop = {}) {
    const std::string folder = scratch_.file(name);
    auto summary = simulate(
        job, {.folder = folder, .existing = existing, .threads = 1, .stop = std::move(stop)});
    if (!summary) {
      ADD_FAILURE() << summary.error().what;
      return {};
    }
    std::ifstream in(folder + "/metrics.jsonl");
    return {*summary, {std::istreambuf_iterator<char>(in), {}}};
  }

  void expect_same(const Job& job, const std::string& what) {
    const Done whole = run(job, "whole", ExistingFolder::force);
    EXPECT_NE(whole.summary.params_hash, "");
    // In the gate after one of the rounds, each time after the next one.
    const Round chosen = 1 + ++jobs_ % (job.stop.max_rounds - 1);
    for (Round at = 1; at < job.stop.max_rounds; ++at) {
      if (kGate && at != chosen) continue;
      const Done cut =
          run(job, "cut", ExistingFolder::force, [at](Round rounds) { return rounds >= at; });
      EXPECT_EQ(cut.summary.stop_reason, StopReason::interrupted) << what;
      EXPECT_EQ(cut.summary.rounds, at) << what;
      EXPECT_EQ(exit_code(cut.summary), 130);
      const Done resumed = run(job, "cut", ExistingFolder::resume);
      EXPECT_EQ(resumed.summary.params_hash, whole.summary.params_hash) << what << " " << at;
      EXPECT_EQ(resumed.metrics, whole.metrics) << what << " " << at;
      EXPECT_EQ(resumed.summary.time_s, whole.summary.time_s) << what;
      EXPECT_EQ(resumed.summary.wan_bytes, whole.summary.wan_bytes) << what;
    }
  }
  const run::testing::Scratch scratch_;
  std::size_t jobs_ = 0;
};

// Drift and traces are functions of time.
TEST_F(Resume, EqualsTheUninterruptedRunWhileStepTimesDrift) {
  const std::vector<std::string> sets = {"hetero.drift=0.4", "hetero.drift_every_s=0.1",
                                         "site.c.step_at_s=[0, 0.2, 0.5]",
                                         "site.c.step_values=[20, 90, 5]"};
  const Job job = resumed_job(sets);
  expect_same(job, "drift");
  const Done one = run(job, "one", ExistingFolder::force);
  const auto two = good(simulate(job, {.folder = scratch_.file("two"), .threads = 2}));
  EXPECT_EQ(two->params_hash, one.summary.params_hash);
  EXPECT_EQ(two->time_s, one.summary.time_s);
  const Done steady = run(resumed_job({sets[2], sets[3]}), "steady", ExistingFolder::force);
  EXPECT_NE(one.summary.time_s, steady.summary.time_s);
}

// 10 steps of 100 ms, then 10 of 10 ms.
TEST_F(Resume, ATraceSaysHowLongARunTakes) {
  const Job job = testing::good_job(
      "[stop]\nmax_rounds = 20\n[model]\nkind = \"phantom\"\n[sync]\nkind = \"bsp\"\n"
      "[[site]]\nname = \"a\"\nstep_at_s = [0, 1]\nstep_values = [100, 10]\n");
  EXPECT_DOUBLE_EQ(run(job, "trace", ExistingFolder::force).summary.time_s, 1.1);
}

bool takes_feedback(std::string_view codec) {
  const auto entry = std::ranges::find(codec::registry(), codec, &CodecEntry::name);
  LH_CHECK(entry != codec::registry().end());
  return !codec::refuses_feedback(*entry);
}

// Every kind of every part, in turn, under every strategy.
TEST_F(Resume, EqualsTheUninterruptedRunForEveryPart) {
  std::size_t turn = 0;
  for (const char* sync : {"bsp", "fedavg", "diloco"}) {
    std::size_t number = turn++;
    for (const PartInfo& part : all_parts()) {
      if (part.table == "model" || part.table == "data" || part.table == "sync") continue;
      if (kGate && number++ % 12 != 0) continue;  // a quarter of the parts, each with one of them
      std::vector<std::string> sets = {std::string("sync.kind=") + sync,
                                       part.table + ".kind=" + part.name};
      if (part.table == "codec" && takes_feedback(part.name))
        sets.push_back("codec.error_feedback=true");
      if (part.name == "hub") sets.push_back("roles.server=b");
      expect_same(resumed_job(sets), fmt::format("{} {}", sync, part.name));
    }
  }
}

TEST_F(Resume, LinesBehindTheCheckpointAreDropped) {
  const Job job = resumed_job({"sync.kind=fedavg", "job.checkpoint_every=2"});
  const Done whole = run(job, "whole", ExistingFolder::force);
  run(job, "cut", ExistingFolder::force, [](Round rounds) { return rounds >= 4; });
  fs::remove(
      scratch_.file("cut/summary.json"));  // as after kill -9: more was written than remembered
  std::ofstream(scratch_.file("cut/metrics.jsonl"), std::ios::app) << "{\"torn\": ";
  EXPECT_EQ(run(job, "cut", ExistingFolder::resume).metrics, whole.metrics);
}

TEST_F(Resume, CheckpointsComeEverySoManyRounds) {
  const Job job = resumed_job({"job.checkpoint_every=3"});
  run(job, "whole", ExistingFolder::force);
  EXPECT_TRUE(fs::exists(scratch_.file("whole/checkpoints/000000000003.checkpoint")));
  EXPECT_FALSE(fs::exists(scratch_.file("whole/checkpoints/000000000006.checkpoint")))
      << "the last round: whoever resumes with more rounds needs a state in which the run goes on";
  run(resumed_job({"job.checkpoint_every=0"}), "none", ExistingFolder::force);
  EXPECT_FALSE(fs::exists(scratch_.file("none/checkpoints")));
}

TEST_F(Resume, ThreadsDoNotMatter) {
  const Job job = resumed_job({"sync.kind=fedavg"});
  const Done one = run(job, "one", ExistingFolder::force);
  auto two = good(simulate(job, {.folder = scratch_.file("two"), .threads = 2}));
  EXPECT_EQ(two->params_hash, one.summary.params_hash);
}

TEST_F(Resume, ADryRunPredictsTimeAndBytes) {
  Job job = resumed_job({"sync.kind=fedavg", "stop.max_rounds=40", "site.*.jitter=0"});
  const Done real = run(job, "real", ExistingFolder::force);
  auto prediction = good(predict(job));
  EXPECT_NEAR(prediction->time_s / real.summary.time_s, 1, 0.01);
  EXPECT_NEAR(prediction->wan_bytes / double(real.summary.wan_bytes), 1, 0.01);
}

}  // namespace
}  // namespace longhaul::run

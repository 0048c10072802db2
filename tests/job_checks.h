#pragma once
// Expectations and observers of tests that run whole jobs.
#include <gtest/gtest.h>

#include "tests/job_builder.h"

namespace longhaul::conformance {

// Names of the cases of a suite.
inline constexpr auto kByName = [](const auto& info) { return info.param.name(); };

// After the end of a run: all live nodes have finished the last round with equal models.
inline void expect_ended_alike(Job& job) {
  if (job.failure()) ADD_FAILURE() << job.failure()->what;
  EXPECT_TRUE(job.world().finished());
  EXPECT_TRUE(job.all_equal());
  EXPECT_TRUE(job.bad_messages.empty()) << job.bad_messages.front();
  for (Rank rank = 0; rank < job.world().size(); ++rank) {
    if (job.world().figures(rank).crashed) continue;
    const Node& node = job.world().node(rank);
    EXPECT_TRUE(node.finished()) << rank << " waits for " << node.waiting_for();
    if (node.place().me().is(Role::worker))
      EXPECT_EQ(node.strategy().rounds_done(), job.spec().rounds) << rank;
  }
}
inline ::testing::AssertionResult runs(Job& job) {
  const Status status = job.run();
  if (status) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << status.error().what;
}
inline void expect_ends_alike(Job& job) {
  ASSERT_TRUE(runs(job));
  expect_ended_alike(job);
}

inline void expect_says(const Error& error, const std::string& what) {
  EXPECT_NE(error.what.find(what), std::string::npos) << error.what;
}

// Collects the records of all nodes and the times of their steps.
struct Records final : sim::Watcher {
  void acted(Time at, Rank rank, const Action& action) override {
    if (std::holds_alternative<ComputeStep>(action)) steps[rank].push_back(at);
    const auto* record = std::get_if<Record>(&action);
    if (!record || (leaves_out && leaves_out(rank, *record))) return;
    values[record->name][rank][record->round] += record->value;
    times[record->name][rank][record->round] = at;
    if (on_record) on_record(rank, *record);
  }
  // The sum over all rounds from `from` on.
  double sum(const std::string& name, Rank rank, Round from = 0) {
    double sum = 0;
    for (const auto& [round, value] : values[name][rank])
      if (round >= from) sum += value;
    return sum;
  }
  template <class T>
  using Of = std::map<std::string, std::map<Rank, std::map<Round, T>>>;
  Of<double> values;
  Of<Time> times;
  std::map<Rank, std::vector<Time>> steps;
  std::function<bool(Rank, const Record&)> leaves_out;
  std::function<void(Rank, const Record&)> on_record;
};

// A learner around another, which does what the test does not change.
class WrappedLearner : public Learner {
 public:
  explicit WrappedLearner(std::unique_ptr<Learner> inner) : inner_(std::move(inner)) {}
  std::shared_ptr<const Layout> layout() const override { return inner_->layout(); }
  std::span<float> params() override { return inner_->params(); }
  std::span<float> grads() override { return inner_->grads(); }
  Result<StepResult> step(const Work& work) override { return inner_->step(work); }
  void state(Archive& ar) override { inner_->state(ar); }

 protected:
  const std::unique_ptr<Learner> inner_;
};

}  // namespace longhaul::conformance

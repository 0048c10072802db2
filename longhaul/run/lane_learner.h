#pragma once
// The lanes of one trainer, each on a thread of its own with a learner of its own.
//   Recht, Re, Wright, Niu, "Hogwild!: a lock-free approach to parallelizing stochastic gradient
//   descent", NIPS 2011; in trainers of ShadowSync: arXiv 2003.03477.
//
// A lane reads all shared parameters, computes the gradient of its next batch there, and its
// gradient is applied to the parameters as they stand then, by the one optimiser of all lanes. As
// Hogwild, a lane waits for no other, and its gradient is as old as what the others have applied
// meanwhile. Ours: reading and applying are handed over to the thread that calls step(), one lane
// after another, so that no gradient is lost or torn and the parameters belong to the strategy
// between two steps. Those two are copies; the gradients, where the time goes, are computed at the
// same time. Which lane ends first is the threads' affair: two runs are not equal.
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "longhaul/core/learner.h"

namespace longhaul::run {

class LaneLearner final : public Learner {
 public:
  // `shared` has the parameters and the optimiser; it reads no batch of its own but for ScratchStep
  // and Score. A lane's learner holds its part of the samples. All have the same layout.
  // `on_thread_start` may be empty.
  LaneLearner(std::unique_ptr<Learner> shared, std::vector<std::unique_ptr<Learner>> lanes,
              std::function<void()> on_thread_start);
  ~LaneLearner() override;  // waits for the gradients under way

  std::shared_ptr<const Layout> layout() const override { return shared_->layout(); }
  std::span<float> params() override { return shared_->params(); }
  std::span<float> grads() override { return shared_->grads(); }
  // LocalStep: the next lane's gradient is applied; all lanes compute from the first one on, also
  // between two calls. An epoch is over with as many samples as all lanes hold. Any other work is
  // that of `shared`. An Error of any lane's is the answer to the step that meets it.
  Result<StepResult> step(const Work&) override;
  // Waits for the gradients under way; they are saved, and applied after loading.
  void state(Archive&) override;

 private:
  struct Lane {
    std::unique_ptr<Learner> learner;
    std::optional<Result<StepResult>> done = {};  // its gradient stands in its learner
    bool computes = false;
    std::thread thread = {};
  };
  void work(Lane&, const std::function<void()>& on_thread_start);
  void start(Lane&);  // reads the parameters
  Lane& next_done(std::unique_lock<std::mutex>&);
  Result<StepResult> apply(Lane&);

  std::unique_ptr<Learner> shared_;
  std::mutex mutex_;  // of done, computes and over_; who sets them hands over the lane's learner
  std::condition_variable begun_, ended_;
  std::vector<Lane> lanes_;
  std::size_t last_ = 0;       // the lane that was applied last; of several that are done the next
  std::uint64_t samples_ = 0;  // of the epoch that is under way
  bool over_ = false;
};

}  // namespace longhaul::run

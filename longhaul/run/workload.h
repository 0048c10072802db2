#pragma once
// Model, data and shards of a job's nodes.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "longhaul/core/learner.h"
#include "longhaul/learn/data/load.h"
#include "longhaul/learn/models/config.h"
#include "longhaul/learn/models/optimizer_config.h"
#include "longhaul/run/job/job.h"

namespace longhaul::run {

// Learners of the embedding program, for [model] kind = "own". See examples/embed.
struct OwnLearners {
  // For each worker, in the order of ranks. Equal layouts and, to begin with, equal parameters.
  std::function<Result<std::unique_ptr<Learner>>(Rank, const Member&)> make;
  // On the test set; called from other threads, one at a time. Empty: there is nothing to score.
  std::function<Result<Evaluation>(std::span<const float> model)> score = {};
  std::uint64_t training_samples = 0;  // of all workers; what an epoch is for max_epochs
};

class Workload {
 public:
  // Reads the data. A phantom model needs none; `numbers` = false makes phantoms of any model, with
  // its true layout and shard sizes. `own` is for kind = "own" and only for it.
  static Result<Workload> load(const Job&, bool numbers = true, const OwnLearners* own = nullptr);

  bool phantom() const { return phantom_; }
  // What sites exchange, and with what each keeps (core/kept_values.h) the model as a whole, which
  // is scored and written.
  const std::shared_ptr<const Layout>& layout() const { return layout_; }
  const std::shared_ptr<const Layout>& whole_layout() const { return whole_layout_; }
  std::uint64_t training_samples() const { return samples_; }
  // For rank `rank` of Job::members(), a worker. `origin`: its samples.
  Result<std::unique_ptr<Learner>> make_learner(Rank rank) const;
  // The same, computing on so many threads (lane_learner.h), among which its samples are dealt.
  Result<std::unique_ptr<Learner>> make_lanes(Rank rank, std::uint32_t lanes) const;
  // Loss and accuracy of a whole model on the test set, on that many threads; empty if there is
  // nothing to score: phantoms, own learners without a score.
  using Score = std::function<Result<Evaluation>(std::span<const float>)>;
  Result<Score> make_scorer(unsigned threads) const;
  // NAME.pt; own learners: NAME.f32, the flat vector as it stands in memory. Phantoms: nothing.
  Status save(const std::string& folder, std::span<const float> model,
              const std::string& name = "model") const;
  // Of a model.pt; not for own learners.
  Result<std::vector<float>> load_model(const std::string& path) const;

  // What a thread runs before it uses a learner; the process is set to one thread a learner. Own
  // learners may use torch, too. Empty: nothing is computed.
  using ThreadSetup = std::function<void()>;
  Result<ThreadSetup> set_up_threads() const;

  // By rank; empty for nodes without a learner.
  const learn::Shards& shards() const { return shards_; }
  std::vector<std::vector<std::uint64_t>> label_counts() const;  // of workers, in rank order
  const learn::Split& data() const { return split_; }            // empty: phantoms, own learners

 private:
  Status load_data(const Job&);
  Status find_layout();
  Result<std::unique_ptr<Learner>> make_learner(std::vector<std::uint32_t> shard,
                                                std::uint32_t origin) const;
  Status load_own(const Job&, const OwnLearners*);

  const OwnLearners* own_ = nullptr;
  learn::ModelConfig model_;
  learn::DataConfig data_;
  learn::OptimizerConfig optimizer_;
  learn::Split split_;
  learn::Shards shards_;
  std::shared_ptr<const Layout> layout_, whole_layout_;
  Members members_;
  std::uint64_t seed_ = 0;
  std::uint64_t samples_ = 0;
  bool phantom_ = false;
};

}  // namespace longhaul::run

#pragma once
// What the nodes of a job learn, and from what: model, data, who holds which samples.
#include <memory>
#include <string>
#include <vector>

#include "longhaul/core/learner.h"
#include "longhaul/learn/data/load.h"
#include "longhaul/learn/models/config.h"
#include "longhaul/learn/models/optimizer_config.h"
#include "longhaul/learn/scorer.h"
#include "longhaul/run/job/job.h"

namespace longhaul::run {

class Workload {
 public:
  // Reads the data. A phantom model needs none; `numbers` = false makes phantoms of any model, with
  // its true layout and shard sizes.
  static Result<Workload> load(const Job&, bool numbers = true);

  bool phantom() const { return phantom_; }
  const std::shared_ptr<const Layout>& layout() const { return layout_; }
  std::uint64_t training_samples() const { return samples_; }
  // For rank `rank` of Job::members(), a worker. `origin`: its samples.
  Result<std::unique_ptr<Learner>> make_learner(Rank rank) const;
  // nullptr for phantoms.
  Result<std::unique_ptr<learn::Scorer>> make_scorer() const;
  Status save(const std::string& path, std::span<const float> model) const;
  Result<std::vector<float>> load_model(const std::string& path) const;

  // By rank; empty for nodes without a learner.
  const learn::Shards& shards() const { return shards_; }
  std::vector<std::vector<std::uint64_t>> label_counts() const;  // of workers, in rank order

 private:
  Status load_data(const Job&);

  learn::ModelConfig model_;
  learn::DataConfig data_;
  learn::OptimizerConfig optimizer_;
  learn::Split split_;
  learn::Shards shards_;
  std::shared_ptr<const Layout> layout_;
  Members members_;
  std::uint64_t seed_ = 0;
  std::uint64_t samples_ = 0;
  bool phantom_ = false;
};

}  // namespace longhaul::run

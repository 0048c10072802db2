#pragma once
// Model, data and shards of a job's nodes.
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "longhaul/core/learner.h"
#include "longhaul/learn/data/facts.h"
#include "longhaul/learn/data/load.h"
#include "longhaul/learn/models/config.h"
#include "longhaul/learn/models/optimizer_config.h"
#include "longhaul/run/job/job.h"

namespace longhaul::run {

// Learners of the embedding program, for [model] kind = "own". See examples/embed.
struct OwnLearners {
  // Makes a worker's learner; called in rank order. Layouts and initial parameters must be equal.
  // `seed`: the job's. A process without a worker makes one for its own node, for the layout only.
  std::function<Result<std::unique_ptr<Learner>>(Rank, const Member&, std::uint64_t seed)> make;
  // Gets the job before its learners are made. Empty: they do not need it.
  std::function<void(const Job&)> begin = {};
  // Returns the layout without a learner. Empty: a learner is made for it.
  std::function<Result<std::shared_ptr<const Layout>>(Rank, const Member&, std::uint64_t seed)>
      layout = {};
  // Scores a model on the test set of the node's site. With [data] kind = "own" each site has its
  // own test set, and all scores are added up; otherwise all sites have the same. Called from other
  // threads, one call at a time. Empty: no score.
  std::function<Result<Evaluation>(Rank, std::span<const float> model)> score = {};
  std::uint64_t training_samples = 0;  // total of all workers; an epoch for max_epochs
  // Returns true if the learners can do work of this name, by name_of(Work). Runs of strategies
  // whose SyncTraits::asks they cannot do are refused, and dry runs that ask for other such work.
  // Called after layout or make. Empty: any work.
  std::function<bool(std::string_view work)> can = {};
  // Returns true if the job's [optimizer] rate is the learners'. An Error if a learner cannot be
  // made. Empty: they have their own.
  std::function<Result<bool>(const Job&)> uses_rate = {};
  bool take_turns = false;    // the learners of a process compute one at a time
  bool uses_libtorch = true;  // the program's libtorch, whose threads are prepared
};

class Workload {
 public:
  // Reads the data. A phantom model needs none. `numbers` = false makes a phantom of any model,
  // with its true layout and shard sizes. `own` is only for kind = "own". `only`: for data held by
  // the sites, reads those of this node's site only; meet() must follow.
  static Result<Workload> load(const Job&, bool numbers = true, const OwnLearners* own = nullptr,
                               std::optional<Rank> only = {});

  // Returns false for phantoms and for own learners without a score.
  bool scores() const { return !phantom_ && (!own_ || own_->score); }
  // Returns true if meet() must be called: with `only` and partition = "local".
  bool meets() const { return !data_sites_.empty(); }
  // Returns the facts that this site sends about its own data; empty if it has none.
  const std::optional<learn::TableFacts>& facts() const { return facts_; }
  // Takes the facts of all sites with workers, by site, before a learner takes its first step. An
  // Error names two sites whose data do not fit together.
  Status meet(const std::map<std::string, learn::TableFacts>&);

  // Returns warnings about the data for the user; complete after meet().
  const std::vector<std::string>& warnings() const { return warnings_; }

  bool phantom() const { return phantom_; }
  bool is_own() const { return own_ && !phantom_; }
  bool takes_turns() const { return own_ && own_->take_turns; }
  // The exchanged layout, and the layout of the whole model, which is scored and written. Sites
  // keep the other values (core/kept_values.h).
  const std::shared_ptr<const Layout>& layout() const { return layout_; }
  const std::shared_ptr<const Layout>& whole_layout() const { return whole_layout_; }
  std::uint64_t training_samples() const { return samples_; }
  // Makes the learner of `rank`, a worker of Job::members().
  Result<std::unique_ptr<Learner>> make_learner(Rank rank) const;
  // Makes a learner that computes on `lanes` threads (lane_learner.h), which divide its samples.
  Result<std::unique_ptr<Learner>> make_lanes(Rank rank, std::uint32_t lanes) const;
  // Returns loss and accuracy of a whole model on the test set, computed on `threads` threads;
  // empty if there is no score: phantoms, own learners without one.
  using Score = std::function<Result<Evaluation>(std::span<const float>)>;
  Result<Score> make_scorer(unsigned threads) const;
  // Returns true if each site holds out its own test set. The first worker of a site scores with
  // it.
  bool own_tests() const { return own_tests_; }
  // Scores with the node's test set: the whole set, or with own_tests() that of its site, if any.
  static constexpr Rank kEveryTest = Rank(-1);  // instead of a node: the tests of all sites
  using NodeScore = std::function<Result<Evaluation>(Rank, std::span<const float>)>;
  Result<NodeScore> make_node_scorer(unsigned threads) const;
  // Writes TorchScript; for own learners the flat vector in memory order; for phantoms nothing.
  Status save(const std::string& file, std::span<const float> model) const;
  // Reads a model.pt; not for own learners.
  Result<std::vector<float>> load_model(const std::string& path) const;

  // A function that each thread must run before it uses a learner; empty if nothing is computed.
  // The process is set to one thread per learner. Own learners may use torch, too.
  using ThreadSetup = std::function<void()>;
  Result<ThreadSetup> set_up_threads() const;

  // Sets that all sites read from files with equal content. Null if there are none, if each site
  // has its own, or if they are made from a seed.
  struct SharedSets {
    std::shared_ptr<const learn::DataSet> train, test;
  };
  SharedSets shared_sets() const;
  std::pair<std::string, std::string> data_paths() const { return {data_.path, data_.test_path}; }
  // Returns the path for [model] kind = "script"; otherwise "", and code_digest() is 0.
  std::string model_path() const { return model_.path; }
  std::uint64_t code_digest() const { return code_digest_; }

  // By rank; empty for nodes without a learner.
  const learn::Shards& shards() const { return shards_; }
  std::vector<std::vector<std::uint64_t>> label_counts() const;  // by worker, in rank order
  // Without numbers: the sites whose own files are missing here. Their shards are guesses, which
  // label_counts() does not count.
  const std::set<std::string>& absent() const { return absent_; }
  std::uint64_t absent_samples() const;                // assumed for each of them
  const learn::Split& data() const { return split_; }  // empty: phantoms, own learners

 private:
  Status load_data(const Job&, std::optional<Rank> only);
  Status load_own_data(const Job&, const std::string& site, const std::string& path);
  learn::Shards with_absent(const std::vector<std::string>& names, learn::Shards here) const;
  Status find_layout();
  Status try_script() const;
  Result<std::unique_ptr<Learner>> make_learner(std::vector<std::uint32_t> shard,
                                                std::uint32_t origin) const;
  Status load_own(const Job&, const OwnLearners*, std::optional<Rank> only);
  Result<Evaluation> score_all_sites(std::span<const float> model) const;

  const OwnLearners* own_ = nullptr;
  learn::ModelConfig model_;
  learn::DataConfig data_;
  learn::OptimizerConfig optimizer_;
  learn::Split split_;
  learn::Shards shards_;
  // With `only`: the sets of this site, which meet() adjusts to those of the other sites. Learners
  // and scorers already hold them through split_, and first read them in a step.
  std::shared_ptr<learn::DataSet> own_train_, own_test_;
  std::optional<learn::TableFacts> facts_;
  std::vector<std::string> data_sites_;  // sites with workers, in job order
  std::vector<std::string> warnings_;
  std::set<std::string> absent_;
  std::size_t data_sites_here_ = 0;
  std::shared_ptr<const Layout> layout_, whole_layout_;
  struct Override {  // the values of a site's own table
    std::uint32_t batch = 0;
    double rate = 0;
  };
  std::vector<Override> overrides_;  // by rank
  Members members_;
  std::uint64_t seed_ = 0;
  std::uint64_t samples_ = 0;
  std::uint64_t code_digest_ = 0;
  std::map<Rank, std::pair<std::size_t, std::size_t>> test_rows_;  // with own tests: first, end
  bool phantom_ = false;
  bool own_tests_ = false;
  bool sums_sites_ = false;  // own learners: a score is the sum over all sites; simulated
  // The own learner made for the layout, until its node takes it.
  std::shared_ptr<std::pair<Rank, std::unique_ptr<Learner>>> first_;
};

}  // namespace longhaul::run

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
  // For each worker, in the order of ranks. Equal layouts and, to begin with, equal parameters.
  // `seed`: the job's. A process that holds no worker asks for that of its own node, for the layout
  // alone.
  std::function<Result<std::unique_ptr<Learner>>(Rank, const Member&, std::uint64_t seed)> make;
  // What such a learner trains, without one; empty: that of one which is made for it.
  std::function<Result<std::shared_ptr<const Layout>>(Rank, const Member&, std::uint64_t seed)>
      layout = {};
  // On the test set of the node's site: with [data] kind = "own" each site has its own, and the
  // scores of all are added up; else it is the same everywhere. Called from other threads, one at a
  // time. Empty: there is nothing to score.
  std::function<Result<Evaluation>(Rank, std::span<const float> model)> score = {};
  std::uint64_t training_samples = 0;  // of all workers; what an epoch is for max_epochs
  // Can they do work of this name (SyncTraits::asks)? Empty: whatever a strategy asks for.
  std::function<bool(std::string_view work)> can = {};
  bool take_turns = false;    // one of a process computes at a time, whoever asks
  bool uses_libtorch = true;  // the one of the program: its threads are prepared for it
};

class Workload {
 public:
  // Reads the data. A phantom model needs none; `numbers` = false makes phantoms of any model, with
  // its true layout and shard sizes. `own` is for kind = "own" and only for it.
  // `only`: of data that sites hold themselves, those of this node's site alone; nothing of another
  // site is opened, and meet() is to follow.
  static Result<Workload> load(const Job&, bool numbers = true, const OwnLearners* own = nullptr,
                               std::optional<Rank> only = {});

  // Will there be a score? No: phantoms, own learners without one.
  bool scores() const { return !phantom_ && (!own_ || own_->score); }
  // With `only` and partition = "local": meet() is to come.
  bool meets() const { return !data_sites_.empty(); }
  // What this site says of its own data to the others; nothing: it has none.
  const std::optional<learn::TableFacts>& facts() const { return facts_; }
  // What all sites with workers have said, by site; before a learner takes its first step. Errors
  // name two sites whose data do not go together.
  Status meet(const std::map<std::string, learn::TableFacts>&);

  // About the data, for the user; after meet().
  const std::vector<std::string>& warnings() const { return warnings_; }

  bool phantom() const { return phantom_; }
  bool is_own() const { return own_ && !phantom_; }
  bool takes_turns() const { return own_ && own_->take_turns; }
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
  // Each site holds out a test set of its own, and the first worker of a site scores with it.
  bool own_tests() const { return own_tests_; }
  // The same on the test set that a node scores with: all of it; with own_tests() that of its site,
  // or none.
  static constexpr Rank kEveryTest = Rank(-1);  // in place of a node: the tests of all sites
  using NodeScore = std::function<Result<Evaluation>(Rank, std::span<const float>)>;
  Result<NodeScore> make_node_scorer(unsigned threads) const;
  // TorchScript; own learners: the flat vector as it stands in memory. Phantoms: nothing.
  Status save(const std::string& file, std::span<const float> model) const;
  // Of a model.pt; not for own learners.
  Result<std::vector<float>> load_model(const std::string& path) const;

  // What a thread runs before it uses a learner; the process is set to one thread a learner. Own
  // learners may use torch, too. Empty: nothing is computed.
  using ThreadSetup = std::function<void()>;
  Result<ThreadSetup> set_up_threads() const;

  // Sets that all sites read from files of the same content; null: there is none, or each site has
  // its own, or they are made from a seed.
  struct SharedSets {
    std::shared_ptr<const learn::DataSet> train, test;
  };
  SharedSets shared_sets() const;
  std::pair<std::string, std::string> data_paths() const { return {data_.path, data_.test_path}; }
  // Of [model] kind = "script", else "" and 0.
  std::string model_path() const { return model_.path; }
  std::uint64_t code_digest() const { return code_digest_; }

  // By rank; empty for nodes without a learner.
  const learn::Shards& shards() const { return shards_; }
  std::vector<std::vector<std::uint64_t>> label_counts() const;  // of workers, in rank order
  // Without numbers: sites whose own files are not here. Their shards are guesses, which
  // label_counts() does not count.
  const std::set<std::string>& absent() const { return absent_; }
  std::uint64_t absent_samples() const;                // that each of them is taken to hold
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
  // With `only`: this site's sets, which meet() brings in line with the others'. Learners and
  // scorers have them already, in split_, and read them in their first step.
  std::shared_ptr<learn::DataSet> own_train_, own_test_;
  std::optional<learn::TableFacts> facts_;
  std::vector<std::string> data_sites_;  // with workers, in the order of the job
  std::vector<std::string> warnings_;
  std::set<std::string> absent_;
  std::size_t data_sites_here_ = 0;
  std::shared_ptr<const Layout> layout_, whole_layout_;
  struct Override {  // what a site's own table says
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
  // The own learner that was made for the layout, until its node asks for it.
  std::shared_ptr<std::pair<Rank, std::unique_ptr<Learner>>> first_;
};

}  // namespace longhaul::run

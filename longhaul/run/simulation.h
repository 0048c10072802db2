#pragma once
// A job as a simulated world: network, compute times, nodes, learners.
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "longhaul/run/activity.h"
#include "longhaul/run/job/job.h"
#include "longhaul/run/summary.h"
#include "longhaul/run/workload.h"
#include "longhaul/sim/world.h"

namespace longhaul::run {

class Simulation {
 public:
  // `threads`: for gradients and scores; 0: one per core.
  static Result<std::unique_ptr<Simulation>> make(const Job&, Workload, unsigned threads);

  sim::World& world() { return *world_; }
  // Does World::step(), and restarts lost nodes when their [[fault]] restart_s is due.
  Result<bool> step();
  // Returns false if nodes restart, and with [wan] model = "packet".
  bool can_be_saved() const { return !restarts_nodes_ && job_->wan.model != "packet"; }
  const ActivityLog& activity() const { return *activity_; }
  const Workload& workload() const { return workload_; }
  const Members& members() const { return *members_; }
  // Returns the lowest live worker that has begun; it represents the run.
  Rank first() const;
  const Strategy& strategy() const;  // the first worker's
  // Returns the rounds of the first worker: the unit of checkpoints and progress.
  Round rounds() const;
  // Returns the first worker's parameters; empty for phantoms. Only while its learner is idle.
  std::span<const float> parameters();
  // Returns the same with the values that its learner keeps (core/kept_values.h).
  std::vector<float> model();
  // Replaces the scorer by wrap(scorer); before the run.
  void wrap_scorer(const std::function<Workload::NodeScore(Workload::NodeScore)>& wrap) {
    if (score_) score_ = wrap(std::move(score_));
  }
  std::string parameters_hash();
  bool scores() const { return bool(score_); }
  // Returns the score of the first worker's current parameters; nothing for phantoms. If sites have
  // tests of their own and the run has ended: the sum.
  Result<std::optional<Evaluation>> score();
  // Returns the parts of that sum, by site.
  std::vector<SiteScore> site_scores() const;

 private:
  explicit Simulation(Workload workload) : workload_(std::move(workload)) {}
  Status build(const Job&, unsigned threads);
  void inject(const Job&);
  Status begin_alike() const;
  Status restart(Rank);

  const Job* job_ = nullptr;  // must outlive this if nodes restart
  bool restarts_nodes_ = false;
  std::multimap<Time, Rank> restarts_;  // still pending
  std::vector<std::uint32_t> incarnations_;
  Workload workload_;
  SharedMembers members_;
  Workload::NodeScore score_;
  std::vector<std::unique_ptr<Learner>> learners_;  // by rank; null for nodes without one
  std::unique_ptr<ActivityLog> activity_;           // the world's watcher
  std::unique_ptr<sim::World> world_;               // last, because its threads use the learners
};

}  // namespace longhaul::run

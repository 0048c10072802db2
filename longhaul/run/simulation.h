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
  // `threads`: that take gradients and score, 0: as many as there are cores.
  static Result<std::unique_ptr<Simulation>> make(const Job&, Workload, unsigned threads);

  sim::World& world() { return *world_; }
  // As World::step(), and starts lost nodes again when their [[fault]] restart_s says so.
  Result<bool> step();
  // A world whose nodes begin anew cannot be saved.
  bool can_be_saved() const { return !restarts_nodes_ && job_->wan.model != "packet"; }
  const ActivityLog& activity() const { return *activity_; }
  const Workload& workload() const { return workload_; }
  const Members& members() const { return *members_; }
  // The lowest worker that lives and has begun: it speaks for the run.
  Rank first() const;
  const Strategy& strategy() const;  // of the first worker
  // Rounds of the first worker; the unit of checkpoints and progress.
  Round rounds() const;
  // Of the first worker; empty for phantoms. Only while its learner does not compute.
  std::span<const float> parameters();
  // The same with what its learner keeps (core/kept_values.h).
  std::vector<float> model();
  // Replaces the scorer by what `wrap` makes of it; before the run.
  void wrap_scorer(const std::function<Workload::NodeScore(Workload::NodeScore)>& wrap) {
    if (score_) score_ = wrap(std::move(score_));
  }
  std::string parameters_hash();
  bool scores() const { return bool(score_); }
  // Of the first worker's parameters as they stand; nothing for phantoms. Where sites have tests of
  // their own, and the run has ended: the sum.
  Result<std::optional<Evaluation>> score();
  // The parts of that sum, by site.
  std::vector<SiteScore> site_scores() const;

 private:
  explicit Simulation(Workload workload) : workload_(std::move(workload)) {}
  Status build(const Job&, unsigned threads);
  void inject(const Job&);
  Status begin_alike() const;
  Status restart(Rank);

  const Job* job_ = nullptr;  // outlives this if nodes begin anew
  bool restarts_nodes_ = false;
  std::multimap<Time, Rank> restarts_;  // to come
  std::vector<std::uint32_t> incarnations_;
  Workload workload_;
  SharedMembers members_;
  Workload::NodeScore score_;
  std::vector<std::unique_ptr<Learner>> learners_;  // by rank; null for nodes without
  std::unique_ptr<ActivityLog> activity_;           // the world's watcher
  std::unique_ptr<sim::World> world_;               // last: its threads use the learners
};

}  // namespace longhaul::run

#include "longhaul/run/simulation.h"

#include <algorithm>
#include <thread>

#include <fmt/format.h>

#include "longhaul/core/kept_values.h"
#include "longhaul/flow/relays.h"
#include "longhaul/run/job/parts.h"
#include "longhaul/run/network.h"

namespace longhaul::run {
namespace {

// Returns the first difference between two nodes' initial models; "": none.
std::string first_difference(Learner& one, Learner& other) {
  const auto first = one.layout(), second = other.layout();
  const std::vector<LayerRange>&a = first->layers(), &b = second->layers();
  for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    if (i >= std::min(a.size(), b.size()) || a[i].name != b[i].name)
      return "the list of trained tensors (" + (i < a.size() ? a : b)[i].name + ")";
    if (a[i].shape != b[i].shape) return "the shape of tensor " + a[i].name;
    const Range range = a[i].range;
    const auto values = [range](Learner& of) {
      return std::as_bytes(of.params().subspan(range.offset, range.length));
    };
    if (!std::ranges::equal(values(one), values(other)))
      return "the start value of tensor " + a[i].name;
  }
  const auto fixed = one.fixed_parts(), others = other.fixed_parts();
  for (std::size_t i = 0; i < std::max(fixed.size(), others.size()); ++i)
    if (i >= std::min(fixed.size(), others.size()) || fixed[i].name != others[i].name ||
        fixed[i].digest != others[i].digest)
      return "frozen tensor " + (i < fixed.size() ? fixed : others)[i].name;
  return "";
}

}  // namespace

Result<std::unique_ptr<Simulation>> Simulation::make(const Job& job, Workload workload,
                                                     unsigned threads) {
  std::unique_ptr<Simulation> simulation(new Simulation(std::move(workload)));
  LH_TRY(simulation->build(job, threads));
  return simulation;
}

Status Simulation::build(const Job& job, unsigned threads) {
  if (threads == 0) threads = std::max(1u, std::thread::hardware_concurrency());
  if (workload_.is_own() && workload_.takes_turns()) threads = 1;  // others would only wait
  members_ = std::make_shared<const Members>(job.members());
  LH_LET(thread_setup, workload_.set_up_threads());
  LH_LET(score, workload_.make_node_scorer(threads));
  score_ = std::move(score);
  LH_LET(network, make_network(job, *members_));
  world_ = std::make_unique<sim::World>(
      sim::WorldConfig{
          .threads = threads - 1,
          .relayed = flow::relayed_pairs(job.network),
          .wire_scale = job.wan.wire_scale,
          .repeat = fmt::format("longhaul simulate {} --set job.seed={}", job.file, job.job.seed),
          .on_thread_start = std::move(thread_setup)},
      std::move(network), step_times(job, *members_),
      score_ ? [this](Rank rank, std::span<const float> model) { return score_(rank, model); }
             : sim::World::Scorer());
  activity_ = std::make_unique<ActivityLog>(*members_, job.wan.wire_scale);
  world_->watch(*activity_);
  const SharedFacts shared(job, workload_.training_samples(), workload_.phantom(),
                           job.wan.wire_scale);
  for (Rank rank = 0; rank < members_->size(); ++rank) {
    std::unique_ptr<Learner>& learner = learners_.emplace_back();
    if ((*members_)[rank].is(Role::worker)) {
      LH_LET(made, workload_.make_learner(rank));
      learner = std::move(made);
    }
    Place place = place_of(job, rank, members_, workload_.layout(), workload_.phantom());
    place.wire_scale = job.wan.wire_scale;
    LH_LET(strategy, build_strategy(job, place, shared));
    world_->add(std::move(place), std::move(strategy), learner.get());
  }
  inject(job);
  return workload_.is_own() ? begin_alike() : Status(Ok{});
}

// Own learners: what sites over sockets compare when they meet.
Status Simulation::begin_alike() const {
  Learner* first = nullptr;
  std::string first_site;
  for (Rank rank = 0; rank < members_->size(); ++rank) {
    Learner* const one = learners_[rank].get();
    if (!one) continue;
    const std::string& site = (*members_)[rank].site;
    if (!first) {
      first = one;
      first_site = site;
      continue;
    }
    const std::string what = first_difference(*first, *one);
    if (!what.empty())
      return invalid(fmt::format("{} differs between sites {} and {}; all begin with the same",
                                 what, first_site, site));
  }
  return Ok{};
}

// The job's faults: those of a site befall all its nodes.
void Simulation::inject(const Job& job) {
  job_ = &job;
  incarnations_.resize(members_->size());
  for (const FaultTable& fault : job.faults) {
    sim::Fault one;
    one.at = from_seconds(fault.at_s);
    if (fault.for_s) one.until = one.at + from_seconds(*fault.for_s);
    one.one_way = fault.one_way;
    one.kind = fault.kind == "crash"   ? sim::Fault::Kind::crash
               : fault.kind == "pause" ? sim::Fault::Kind::pause
                                       : sim::Fault::Kind::cut;
    for (one.rank = 0; one.rank < members_->size(); ++one.rank) {
      if ((*members_)[one.rank].site != fault.site) continue;
      if (fault.restart_s) restarts_.emplace(one.at + from_seconds(*fault.restart_s), one.rank);
      if (one.kind != sim::Fault::Kind::cut) {
        world_->inject(one);
        continue;
      }
      for (one.peer = 0; one.peer < members_->size(); ++one.peer) {
        const std::string& other = (*members_)[one.peer].site;
        if (other != fault.site && (fault.to.empty() || other == fault.to)) world_->inject(one);
      }
    }
  }
  restarts_nodes_ = !restarts_.empty();
}

Result<bool> Simulation::step() {
  while (!restarts_.empty()) {
    const auto [at, rank] = *restarts_.begin();
    auto more = world_->step(at);
    if (!more || *more || world_->finished()) return more;
    restarts_.erase(restarts_.begin());
    if (world_->figures(rank).crashed) LH_TRY(restart(rank));
  }
  return world_->step();
}

// With nothing: as a process on another machine.
Status Simulation::restart(Rank rank) {
  Members members = *members_;
  members[rank].incarnation = ++incarnations_[rank];
  Place place = place_of(*job_, rank, std::make_shared<const Members>(std::move(members)),
                         workload_.layout(), workload_.phantom());
  place.wire_scale = job_->wan.wire_scale;
  LH_LET(strategy, build_strategy(*job_, place, workload_.training_samples()));
  if (learners_[rank]) {
    LH_LET(made, workload_.make_learner(rank));
    learners_[rank] = std::move(made);
  }
  world_->restart(std::move(place), std::move(strategy), learners_[rank].get());
  return Ok{};
}

Rank Simulation::first() const {
  std::optional<Rank> lowest, living;
  for (Rank rank = 0; rank < members_->size(); ++rank) {
    if (!(*members_)[rank].is(Role::worker)) continue;
    if (!lowest) lowest = rank;
    if (world_->figures(rank).crashed) continue;
    if (!living) living = rank;
    const Node& node = world_->node(rank);
    if (!node.place().comes_back() || node.strategy().rounds_done() > 0) return rank;
  }
  return living.value_or(*lowest);
}

const Strategy& Simulation::strategy() const { return world_->node(first()).strategy(); }

Round Simulation::rounds() const { return strategy().rounds_done(); }

std::span<const float> Simulation::parameters() { return learners_[first()]->params(); }

std::vector<float> Simulation::model() {
  return whole_model(learners_[first()].get(), parameters());
}

std::string Simulation::parameters_hash() { return params_hash(parameters()); }

std::vector<SiteScore> Simulation::site_scores() const {
  return run::site_scores(*members_, world_->node(first()).scores().at_end());
}

Result<std::optional<Evaluation>> Simulation::score() {
  if (!score_) return std::optional<Evaluation>{};
  if (workload_.own_tests() && world_->finished())
    return std::optional(ScoreSum::sum(world_->node(first()).scores().at_end()));
  LH_LET(evaluation, score_(Workload::kEveryTest, model()));
  return std::optional<Evaluation>(evaluation);
}

}  // namespace longhaul::run

#include "longhaul/run/simulation.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <thread>

#include <fmt/format.h>

#include "longhaul/learn/threads.h"
#include "longhaul/run/job/parts.h"
#include "longhaul/run/network.h"
#include "longhaul/run/summary.h"

namespace longhaul::run {
namespace {

Time from_ms(double ms) { return Time{std::int64_t(std::llround(ms * 1e6))}; }

sim::JitteredSteps::Jitter jitter_of(const SiteTable& site) {
  using Jitter = sim::JitteredSteps::Jitter;
  if (site.jitter == 0) return Jitter::none;
  if (site.jitter_kind == "uniform") return Jitter::uniform;
  return site.jitter_kind == "lognormal" ? Jitter::lognormal : Jitter::exponential;
}

std::unique_ptr<sim::ComputeTime> compute_time_of(const Job& job, const Members& members) {
  std::vector<sim::JitteredSteps::Speed> speeds;
  std::map<std::string_view, const SiteTable*> sites;
  for (const SiteTable& site : job.sites) sites[site.name] = &site;
  for (const Member& member : members) {
    const SiteTable& site = *sites.at(member.site);
    speeds.push_back({from_ms(site.step_ms), jitter_of(site), site.jitter});
  }
  return std::make_unique<sim::JitteredSteps>(job.job.seed, std::move(speeds));
}

}  // namespace

Result<std::unique_ptr<Simulation>> Simulation::make(const Job& job, Workload workload,
                                                     unsigned threads) {
  learn::use_one_thread_per_learner();
  std::unique_ptr<Simulation> simulation(new Simulation(std::move(workload)));
  LH_TRY(simulation->build(job, threads));
  return simulation;
}

Status Simulation::build(const Job& job, unsigned threads) {
  if (threads == 0) threads = std::max(1u, std::thread::hardware_concurrency());
  members_ = std::make_shared<const Members>(job.members());
  auto score = workload_.make_scorer(threads);
  if (!score) return score.error();
  score_ = std::move(*score);
  auto network = make_network(job, *members_);
  if (!network) return network.error();
  world_ = std::make_unique<sim::World>(
      sim::WorldConfig{
          .threads = threads - 1,
          .wire_scale = job.wan.wire_scale,
          .repeat = fmt::format("longhaul simulate {} --set job.seed={}", job.file, job.job.seed),
          .on_thread_start = learn::prepare_compute_thread},
      *std::move(network), compute_time_of(job, *members_), score_);
  while (!(*members_)[first_].is(Role::worker)) ++first_;
  for (Rank rank = 0; rank < members_->size(); ++rank) {
    std::unique_ptr<Learner>& learner = learners_.emplace_back();
    if ((*members_)[rank].is(Role::worker)) {
      auto made = workload_.make_learner(rank);
      if (!made) return made.error();
      learner = std::move(*made);
    }
    Place place = place_of(job, rank, members_, workload_.layout(), workload_.phantom());
    auto strategy = build_strategy(job, place, workload_.training_samples());
    if (!strategy) return strategy.error();
    world_->add(std::move(place), std::move(*strategy), learner.get());
  }
  return Ok{};
}

Round Simulation::rounds() const { return world_->node(first_).strategy().rounds_done(); }

std::span<const float> Simulation::parameters() { return learners_[first_]->params(); }

std::string Simulation::parameters_hash() { return params_hash(parameters()); }

Result<std::optional<Evaluation>> Simulation::score() {
  if (!score_) return std::optional<Evaluation>{};
  auto evaluation = score_(parameters());
  if (!evaluation) return evaluation.error();
  return std::optional<Evaluation>(*evaluation);
}

}  // namespace longhaul::run

#include "longhaul/sim/testing/small_job.h"

#include "longhaul/sim/phantom.h"

namespace longhaul::sim::testing {
namespace {

FifoConfig network_of(const SmallJob& job) {
  FifoConfig config;
  for (Rank rank = 0; rank < job.ranks; ++rank) config.site_of.push_back(rank / job.per_site);
  config.sites.resize(config.site_of.back() + 1, {.up = job.up, .down = job.down, .lan = job.lan});
  config.link.delay = job.delay;
  return config;
}

std::unique_ptr<Network> make_network(const SmallJob& job) {
  const FifoConfig fifo = network_of(job);
  if (!job.fair) return std::make_unique<FifoNetwork>(fifo);
  FairConfig config = shared(fifo);
  config.seed = job.seed;
  config.tcp = {.control = flow::Tcp::Control::cubic};
  config.wan.usual.jitter_s = 1e-3;
  config.wan.usual.loss = 0.02;
  flow::Traced up{.what = flow::Traced::What::up, .trace = {}};
  up.trace = {.kind = flow::Trace::Kind::redraw, .low = 5e4, .high = 1e6, .every_s = 0.01};
  config.wan.traces = {up};
  return std::make_unique<FairNetwork>(config);
}

Result<Evaluation> mean_of(Rank, std::span<const float> model) {
  double sum = 0;
  for (const float x : model) sum += double(x);
  return Evaluation{.loss = sum / double(model.size()), .accuracy = 0, .samples = 1};
}

}  // namespace

RunningJob::RunningJob(const SmallJob& job, Make make) {
  auto members = std::make_shared<Members>();
  for (Rank rank = 0; rank < job.ranks; ++rank)
    members->push_back({"site" + std::to_string(rank / job.per_site), rank % job.per_site});
  world_ = std::make_unique<World>(
      job.world, make_network(job),
      std::make_unique<JitteredSteps>(job.seed,
                                      std::vector<JitteredSteps::Speed>(job.ranks, job.speed)),
      mean_of);
  world_->observe({.on_report = [this](Time, Rank, Round, const Snapshot&,
                                       const Evaluation& e) { scores.push_back(e); },
                   .on_record = {},
                   .on_round = {},
                   .on_bad_message = [this](Time, Rank, Rank, const Error&) { ++bad_messages; },
                   .on_lost =
                       [this](Time, Rank rank, const std::string& why) {
                         lost.push_back("rank " + std::to_string(rank) + ": " + why);
                       }});
  world_->watch(*trace_);
  world_->watch(*in_order_);
  world_->watch(*epochs_);
  for (Rank rank = 0; rank < job.ranks; ++rank) {
    Place place{.self = rank, .members = members, .layout = {}, .seed = job.seed};
    place.phantom = job.phantom;
    if (job.phantom) {
      learners_.push_back(std::make_unique<PhantomLearner>(Layout::flat(job.size), 1, 10));
    } else {
      longhaul::testing::Quadratic::Config config;
      config.target = float(rank);
      learners_.push_back(std::make_unique<longhaul::testing::Quadratic>(job.size, config));
    }
    place.layout = learners_.back()->layout();
    auto strategy = make ? make(place) : std::make_unique<Exchange>(job.exchange, place);
    world_->add(place, std::move(strategy), learners_.back().get());
  }
  for (const Fault& fault : job.faults) world_->inject(fault);
}

std::vector<float> RunningJob::params(Rank rank) const {
  const auto values = learners_.at(rank)->params();
  return {values.begin(), values.end()};
}

}  // namespace longhaul::sim::testing

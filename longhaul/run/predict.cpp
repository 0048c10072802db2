// A dry run: a few rounds of the same nodes, network and speeds, with phantoms for learners, go on
// to max_rounds by the last rounds' pace.
#include <algorithm>

#include "longhaul/run/experiment.h"
#include "longhaul/run/simulation.h"

namespace longhaul::run {
namespace {

struct Sample {
  Round rounds = 0;
  double time_s = 0, bytes = 0, utilisation = 0;
  std::uint64_t parameters = 0;
};

Result<Sample> sample(const Job& job, Round rounds) {
  Job few = job;
  few.stop = {.target_accuracy = {},
              .target_bits_per_byte = {},
              .max_rounds = rounds,
              .max_hours = {},
              .max_epochs = 0};
  auto workload = Workload::load(few, /*numbers=*/false);
  if (!workload) return workload.error();
  LH_LET(simulation, Simulation::make(few, *std::move(workload), 1));
  sim::World& world = simulation->world();
  if (auto ran = world.run(); !ran) return ran.error();
  return Sample{rounds, seconds(world.now()), double(world.counters().wan_bytes),
                world.compute_utilisation(), simulation->workload().layout()->size()};
}

}  // namespace

Result<Prediction> predict(const Job& job) {
  constexpr Round kFew = 2, kMore = 8;
  const Round all = job.stop.max_rounds;
  LH_LET(more, sample(job, std::min(all, kMore)));
  Prediction p{.rounds = all,
               .simulated = more.rounds,
               .time_s = more.time_s,
               .round_s = more.time_s / double(more.rounds),
               .wan_bytes = more.bytes,
               .round_bytes = more.bytes / double(more.rounds),
               .compute_utilisation = more.utilisation,
               .parameters = more.parameters};
  if (all <= kMore) return p;
  LH_LET(few, sample(job, kFew));
  // Start-up and end are in both samples, so their difference is the pace of rounds alone.
  p.round_s = (more.time_s - few.time_s) / double(kMore - kFew);
  p.round_bytes = (more.bytes - few.bytes) / double(kMore - kFew);
  p.time_s += p.round_s * double(all - kMore);
  p.wan_bytes += p.round_bytes * double(all - kMore);
  return p;
}

}  // namespace longhaul::run

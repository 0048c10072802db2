// What the simulator costs beside the gradients it takes: bsp over direct links, four equal sites,
// lenet on MNIST (run scripts/fetch-data mnist first), against a training loop as one writes it by
// hand (learn/testing/bare_loop.h) that takes the same number of steps of the same batch size.
//
//   overhead   simulator on one thread / bare loop, same process, alternating
//   speed-up   simulator on one thread / simulator on two threads
//   ceiling    bare loop / the same loops shared out to two threads that never wait for each other:
//              what the machine's second core is worth
//
// All are medians over the repeats; the first of each is a warm-up and is not counted. No scoring
// inside the measured time.
#include <cstdio>
#include <thread>

#include "bench/bench.h"
#include "longhaul/learn/testing/bare_loop.h"
#include "longhaul/learn/threads.h"
#include "longhaul/run/simulation.h"

namespace {

using namespace longhaul;

constexpr int kSites = 4, kRounds = 300, kRepeats = 7;

const char* const kJob = R"(
[job]
name = "bench"
[stop]
max_rounds = 300
[report]
every_rounds = 100000
[model]
kind = "lenet"
[data]
kind = "mnist"
path = "data/mnist"
partition = "iid"
batch = 32
[optimizer]
kind = "sgd"
rate = 0.05
momentum = 0.9
[sync]
kind = "bsp"
[overlay]
kind = "direct"
[wan]
mbps = 100
delay_ms = 10
[[site]]
name = "a"
step_ms = 20
[[site]]
name = "b"
step_ms = 20
[[site]]
name = "c"
step_ms = 20
[[site]]
name = "d"
step_ms = 20
)";

using bench::median;
using bench::must;
using bench::seconds_of;

// What bsp asks of a learner, without anything between its steps.
double take_steps(const run::Job& job, const run::Workload& workload) {
  std::vector<std::unique_ptr<Learner>> learners;
  for (Rank rank = 0; rank < job.members().size(); ++rank)
    learners.push_back(must(workload.make_learner(rank)));
  return seconds_of([&] {
    for (int round = 0; round < kRounds; ++round)
      for (auto& learner : learners) {
        (void)must(learner->step(Gradient{}));
        (void)must(learner->step(ApplyGradient{}));
      }
  });
}

using Loops = std::vector<std::unique_ptr<learn::testing::BareLoop>>;

// Every `stride`-th from `first` on.
void run_loops(Loops& loops, std::size_t first, std::size_t stride) {
  for (int round = 0; round < kRounds; ++round)
    for (std::size_t i = first; i < loops.size(); i += stride) loops[i]->step();
}

double on_two_threads(Loops& loops) {
  return seconds_of([&] {
    std::thread other([&] {
      learn::prepare_compute_thread();
      run_loops(loops, 1, 2);
    });
    run_loops(loops, 0, 2);
    other.join();
  });
}

double simulate(const run::Job& job, const run::Workload& workload, unsigned threads) {
  auto simulation = must(run::Simulation::make(job, workload, threads));
  return seconds_of([&] { (void)must(simulation->world().run()); });
}

}  // namespace

int main() {
  learn::use_one_thread_per_learner();
  const run::Job job = must(run::resolve_job(must(run::parse_document(kJob, "simulator_bench"))));
  const run::Workload workload = must(run::Workload::load(job));
  learn::DataConfig data;
  data.kind = "mnist";
  data.path = "data/mnist";
  const learn::Split split = must(learn::load_data(data));

  std::vector<double> bare, learner, one, two, overhead, speed_up, ceiling;
  for (int repeat = 0; repeat <= kRepeats; ++repeat) {
    Loops loops;
    for (int site = 0; site < kSites; ++site) {
      learn::LearnerParts parts;
      parts.model.kind = "lenet";
      parts.optimizer.rate = 0.05;
      parts.optimizer.momentum = 0.9;
      parts.data = split.train;
      parts.shard = workload.shards().at(std::size_t(site));
      parts.batch = 32;
      parts.origin = std::uint32_t(site);
      loops.push_back(std::make_unique<learn::testing::BareLoop>(parts));
    }
    const double b = seconds_of([&] { run_loops(loops, 0, 1); });
    const double b2 = on_two_threads(loops);
    const double l = take_steps(job, workload);
    const double s1 = simulate(job, workload, 1);
    const double s2 = simulate(job, workload, 2);
    if (repeat == 0) continue;
    bare.push_back(b);
    learner.push_back(l / b);
    one.push_back(s1);
    two.push_back(s2);
    overhead.push_back(s1 / b);
    speed_up.push_back(s1 / s2);
    ceiling.push_back(b / b2);
  }
  const double steps = kRounds * kSites;
  std::printf("bsp, %d equal sites, lenet, batch 32, %d rounds, median of %d\n", kSites, kRounds,
              kRepeats);
  std::printf("bare loop              %7.3f ms a step\n", 1e3 * median(bare) / steps);
  std::printf("learner alone                     %.3f x the bare loop\n", median(learner));
  std::printf("simulator, 1 thread    %7.3f ms a step, %.3f x the bare loop\n",
              1e3 * median(one) / steps, median(overhead));
  std::printf("simulator, 2 threads   %7.3f ms a step, %.3f x the throughput of one\n",
              1e3 * median(two) / steps, median(speed_up));
  std::printf("bare loops, 2 threads             %.3f x the throughput of one\n", median(ceiling));
}

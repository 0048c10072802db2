// How fast the simulator is without numbers: 1,000 phantom sites, 100 rounds of fedavg over a hub,
// a model of 44.7 MB. In phantom jobs a run of chunks may be one message; a part of the same job
// with 8 sites shows that this does not change its times.
#include <cstdio>
#include <string>

#include "bench/bench.h"
#include "longhaul/run/simulation.h"

namespace {

using namespace longhaul;

using bench::must;
using bench::seconds_of;

std::string job_text(int sites, int rounds, int chunk_run, const std::string& phases) {
  std::string text = "[job]\nname = \"phantom\"\n[stop]\nmax_rounds = " + std::to_string(rounds) +
                     "\n[report]\nevery_rounds = 100\n[model]\nkind = \"phantom\"\nmbytes = 44.7\n"
                     "[data]\nbatch = 32\n[sync]\nkind = \"fedavg\"\nsteps = 20\n"
                     "[overlay]\nkind = \"hub\"\nphases = \"" +
                     phases + "\"\n[roles]\nserver = \"s0\"\n[transfer]\nchunk_run = " +
                     std::to_string(chunk_run) + "\n[wan]\ndelay_ms = 20\nmbps = 100\n";
  for (int site = 0; site < sites; ++site)
    text += "[[site]]\nname = \"s" + std::to_string(site) +
            "\"\nup_mbps = " + (site == 0 ? "10000\ndown_mbps = 10000" : "100\ndown_mbps = 100") +
            "\nstep_ms = 50\n";
  return text;
}

struct Figures {
  double real_s = 0, virtual_s = 0;
  std::uint64_t events = 0, wan_bytes = 0;
};

Figures simulate(int sites, int rounds, int chunk_run, const std::string& phases) {
  const run::Job job = must(run::resolve_job(
      must(run::parse_document(job_text(sites, rounds, chunk_run, phases), "phantom_bench"))));
  std::unique_ptr<run::Simulation> simulation;
  const double real_s = seconds_of([&] {
    simulation = must(run::Simulation::make(job, must(run::Workload::load(job)), 1));
    (void)must(simulation->world().run());
  });
  return {real_s, seconds(simulation->world().now()), simulation->world().counters().events,
          simulation->world().counters().wan_bytes};
}

}  // namespace

int main() {
  std::printf("8 sites, 10 rounds: chunk by chunk and in runs\n");
  for (const std::string phases : {"sequential", "streamed"}) {
    for (int run : {1, 16, 256}) {
      const Figures f = simulate(8, 10, run, phases);
      std::printf("  %-10s chunk_run %3d: %9.4f s virtual, %8llu events, %.3f s real\n",
                  phases.c_str(), run, f.virtual_s, static_cast<unsigned long long>(f.events),
                  f.real_s);
    }
  }
  std::printf("1,000 sites, 100 rounds, 44.7 MB, hub, sequential\n");
  for (int run : {16, 256}) {
    const Figures f = simulate(1000, 100, run, "sequential");
    std::printf(
        "  chunk_run %3d: %.2f s real, %.1f s virtual, %llu events, %.3f TB between sites\n", run,
        f.real_s, f.virtual_s, static_cast<unsigned long long>(f.events),
        double(f.wan_bytes) * 1e-12);
  }
}

// What the fair-share model of links costs: phantom sites over a hub, and all-to-all traffic. Times
// are of the processor, one core; docs/results/simulator.md.
#include <cmath>
#include <cstdio>
#include <ctime>
#include <string>

#include "bench/bench.h"
#include "longhaul/base/rng.h"
#include "longhaul/run/simulation.h"
#include "longhaul/sim/fair_network.h"

namespace {

using namespace longhaul;
using bench::must;

// Of this process on its core: what others do on the machine does not count.
double seconds_of(const std::function<void()>& work) {
  const std::clock_t begin = std::clock();
  work();
  return double(std::clock() - begin) / CLOCKS_PER_SEC;
}

struct Figures {
  double real_s = 0, build_s = 0, virtual_s = 0;
  std::uint64_t events = 0;
};

// One round of fedavg with 44.7 MB over a hub. `jitter`: steps end at different times, and so do
// flows begin.
Figures hub(int sites, const std::string& model, double jitter) {
  std::string text =
      "[job]\nname = \"fair\"\n[stop]\nmax_rounds = 1\n[report]\nevery_rounds = 100\n"
      "[model]\nkind = \"phantom\"\nmbytes = 44.7\n[data]\nbatch = 32\n[sync]\nkind = \"fedavg\"\n"
      "steps = 20\n[overlay]\nkind = \"hub\"\nphases = \"sequential\"\n[roles]\nserver = \"s0\"\n"
      "[transfer]\nchunk_run = 256\n[wan]\nmodel = \"" +
      model + "\"\ndelay_ms = 20\nmbps = 100\n";
  for (int site = 0; site < sites; ++site)
    text += "[[site]]\nname = \"s" + std::to_string(site) +
            "\"\nup_mbps = " + (site == 0 ? "10000\ndown_mbps = 10000" : "100\ndown_mbps = 100") +
            "\nstep_ms = 50\njitter = " + std::to_string(jitter) + "\n";
  Figures f;
  std::unique_ptr<run::Simulation> simulation;
  f.build_s = seconds_of([&] {
    const run::Job job = must(run::resolve_job(must(run::parse_document(text, "fair_bench"))));
    simulation = must(run::Simulation::make(job, must(run::Workload::load(job)), 1));
  });
  f.real_s = seconds_of([&] { (void)must(simulation->world().run()); });
  f.virtual_s = seconds(simulation->world().now());
  f.events = simulation->world().counters().events;
  return f;
}

// Every site sends 44.7 MB to each of `receivers` others, in `messages`, two under way; links of
// 20 to 155 Mbit/s, delays of 5 to 100 ms, so that hardly two things happen at one time.
Figures all_to_all(std::uint32_t sites, std::uint32_t receivers, std::uint64_t messages) {
  const std::uint64_t bytes = (256 * 1024 + 94) * 171 / messages;
  Random random(1, {});
  sim::FairConfig config;
  const auto rate = [&] { return 125e3 * (20 + 135 * random.uniform()); };
  for (std::uint32_t i = 0; i < sites; ++i) {
    config.wan.sites.push_back({.name = {}, .up = rate(), .down = rate(), .lan = {}});
    config.site_of.push_back(i);
  }
  for (std::uint32_t a = 0; a < sites; ++a)
    for (std::uint32_t b = 0; b < sites; ++b)
      if (a != b) config.wan.pairs[{a, b}].delay_s = 0.005 + 0.095 * random.uniform();
  sim::FairNetwork net(config);
  std::vector<std::uint64_t> sent(sites * sites);
  const auto send = [&](Rank from, Rank to, Time now) {
    std::uint64_t& count = sent[from * sites + to];
    if (count++ >= messages) return;
    sim::Packet packet{.from = from, .to = to, .bytes = bytes, .service = {}, .message = {}};
    packet.message.body = Payload::phantom(bytes);
    net.submit(std::move(packet), now);
  };
  for (Rank from = 0; from < sites; ++from) {
    std::vector<Rank> others;
    for (Rank to = 0; to < sites; ++to)
      if (to != from) others.push_back(to);
    random.shuffle(std::span(others));
    for (std::uint32_t i = 0; i < receivers; ++i)
      for (int twice = 0; twice < 2; ++twice) send(from, others[i], Time{0});
  }
  Figures f;
  f.real_s = seconds_of([&] {
    while (const auto at = net.next_event()) {
      f.virtual_s = seconds(*at);
      ++f.events;
      const auto notice = net.advance();
      if (notice && notice->kind == sim::NetworkEvent::Kind::departed)
        send(notice->packet.from, notice->packet.to, *at);
    }
  });
  return f;
}

void show_growth(const std::string& model, double jitter, int most) {
  std::printf("hub, 1 round of 44.7 MB, model %s, jitter %.1f\n", model.c_str(), jitter);
  double last = 0;
  for (int sites = 100; sites <= most; sites *= 10) {
    const Figures f = hub(sites, model, jitter);
    std::printf("  %6d sites: %8.3f s (and %.3f s to build), %9llu events, %9.2f s virtual", sites,
                f.real_s, f.build_s, static_cast<unsigned long long>(f.events), f.virtual_s);
    if (last > 0) std::printf(", exponent %.2f", std::log10(f.real_s / last));
    std::printf("\n");
    std::fflush(stdout);
    last = f.real_s;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string only = argc > 1 ? argv[1] : "";
  if (only.empty() || only == "hub") show_growth("fair", 0, 10'000);
  if (only.empty() || only == "jitter") show_growth("fair", 0.1, 10'000);
  if (only.empty() || only == "fifo") show_growth("fifo", 0, 10'000);
  if (!only.empty() && only != "all-to-all") return 0;
  std::printf("all-to-all, 44.7 MB to each of 60 receivers\n");
  for (const std::uint64_t messages : {1, 171})
    for (const std::uint32_t sites : {100u, 200u}) {
      const Figures f = all_to_all(sites, 60, messages);
      std::printf("  %u sites, %3llu messages each: %.2f s, %llu events, %.1f s virtual\n", sites,
                  static_cast<unsigned long long>(messages), f.real_s,
                  static_cast<unsigned long long>(f.events), f.virtual_s);
    }
}

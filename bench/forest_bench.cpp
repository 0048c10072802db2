// How long it takes to plan a forest, and how far its busiest link is from the best there can be
// (the floor of flow/forest.h). Times are of the processor, all its cores together.
#include <cstdio>
#include <ctime>
#include <string>

#include "longhaul/base/rng.h"
#include "longhaul/flow/forest.h"

namespace {

using namespace longhaul;

struct Shape {
  const char* name;
  double up_low, up_high;      // Mbit/s of each site, both ways
  double pair_low, pair_high;  // of each ordered pair; 0: no limit
};

flow::Wan network(std::uint32_t sites, const Shape& shape, std::uint64_t seed) {
  Random random(seed, {});
  const auto between = [&](double low, double high) {
    return flow::bytes_per_second(low + (high - low) * random.uniform());
  };
  flow::Wan wan;
  for (std::uint32_t i = 0; i < sites; ++i) {
    const double rate = between(shape.up_low, shape.up_high);
    wan.sites.push_back({.name = "s" + std::to_string(i), .up = rate, .down = rate, .lan = {}});
  }
  for (std::uint32_t a = 0; a < sites; ++a)
    for (std::uint32_t b = 0; b < sites; ++b) {
      if (a == b) continue;
      flow::Wan::Pair& pair = wan.pairs[{a, b}];
      pair.delay_s = 0.005 + 0.1 * random.uniform();
      if (shape.pair_high > 0) pair.rate = between(shape.pair_low, shape.pair_high);
    }
  return wan;
}

}  // namespace

int main() {
  const Shape shapes[] = {{"equal sites", 100, 100, 0, 0},
                          {"unequal sites", 20, 155, 0, 0},
                          {"unequal sites, thin pairs", 20, 155, 2, 40},
                          {"pairs alone", 1e6, 1e6, 10, 100}};
  std::printf("%-28s %5s %9s %6s %12s %10s\n", "network", "sites", "plan s", "trees", "busy/floor",
              "latency s");
  for (const Shape& shape : shapes)
    for (const std::uint32_t sites : {10u, 20u, 50u, 200u}) {
      // Where all pairs bind, the programme grows with the square of the sites.
      if (shape.up_low > 1e5 && sites > 50) continue;
      const flow::Wan wan = network(sites, shape, 1);
      const std::clock_t begin = std::clock();
      const flow::ForestPlan plan = flow::plan_forest(wan, {25e6, 64e3});
      std::printf("%-28s %5u %9.3f %6zu %12.4f %10.3f\n", shape.name, sites,
                  double(std::clock() - begin) / CLOCKS_PER_SEC, plan.trees.size(),
                  plan.busy_s / plan.floor_s, plan.latency_s);
      std::fflush(stdout);
    }
}

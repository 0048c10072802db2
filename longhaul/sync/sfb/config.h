#pragma once
// The settings of [sync] kind = "sfb" (sync/sfb.h), also read by its machines.
#include <string>

#include "longhaul/base/fields.h"

namespace longhaul::sync::sfb {

struct Config {
  std::uint32_t staleness = 0;
  std::string rule = "bytes";
  std::string spread = "auto";
  std::uint32_t partial_peers = 0;
  std::uint64_t mean_every = 50;
  bool sparse_v = true;
  bool wait_free = false;
  std::vector<double> backward_shares = {};
  std::uint64_t hash_every = 100;
  std::string on_divergence = "stop";
  double rule_mbps = 100;
  double rule_delay_ms = 40;
  double rule_gflops = 2;

  static void fields(auto& self, auto&& visit) {
    LONGHAUL_KEY(staleness,
                 "most clocks that a worker leads the slowest by; 0: all apply one sum in the "
                 "order of ranks",
                 .max = 1000);
    LONGHAUL_KEY(rule,
                 "fully connected layers that go as factors: if they are fewer bytes than the "
                 "matrix; if they take less time, by rule_*; all; none",
                 .choices = {"bytes", "time", "always", "never"});
    spread_fields(self, visit);
    LONGHAUL_KEY(sparse_v,
                 "with an exact codec, factors v of which less than half is not 0 go as pairs of "
                 "index and value");
    LONGHAUL_KEY(wait_free,
                 "layers leave as the backward pass reaches them; for models whose layers follow "
                 "one another");
    LONGHAUL_KEY(backward_shares,
                 "wait_free, simulate only: share of a step that the backward pass of each part "
                 "takes, from the input on. Empty: two thirds in all, by parameters");
    LONGHAUL_KEY(hash_every,
                 "staleness 0: clocks after which workers compare hashes of their models "
                 "(\"partial\": if after a mean), and a difference ends the run; 0: never",
                 .max = 1e12, .unit = "clocks");
    LONGHAUL_KEY(on_divergence,
                 "if hashes differ; adopt: all take the model and the optimiser of the lowest "
                 "rank, and no lost worker rejoins",
                 .choices = {"stop", "adopt"});
    rule_fields(self, visit);
  }

 private:
  static void spread_fields(auto& self, auto&& visit) {
    LONGHAUL_KEY(spread,
                 "full: to every worker; tree: workers pass them on; site: one worker of each "
                 "other site passes them on. auto: site if a site has several workers, else full "
                 "up to 8 workers, then tree. partial: to partial_peers others, which change every "
                 "clock, and a mean of all models every mean_every clocks",
                 .choices = {"auto", "full", "tree", "site", "partial"});
    LONGHAUL_KEY(partial_peers,
                 "spread = \"partial\": to how many others a worker sends its factors of a clock; "
                 "0: ceil(log2 of the workers)",
                 .max = 4096);
    LONGHAUL_KEY(mean_every, "spread = \"partial\": clocks between exact means of all models",
                 .min = 1, .max = 1e9, .unit = "clocks");
  }
  static void rule_fields(auto& self, auto&& visit) {
    LONGHAUL_KEY(rule_mbps, "rule = \"time\": what a worker can send", .max = 1e9, .unit = "Mbit/s",
                 .positive = true);
    LONGHAUL_KEY(rule_delay_ms, "rule = \"time\": one way", .min = 0, .max = 1e6, .unit = "ms");
    LONGHAUL_KEY(rule_gflops, "rule = \"time\": speed at which factors are multiplied", .max = 1e9,
                 .unit = "Gflop/s", .positive = true);
  }
};

}  // namespace longhaul::sync::sfb

#pragma once
// The hybrid rule: which fully connected layers go as factors, and which as a matrix into a mean.
//   Zhang et al., "Poseidon: An Efficient Communication Architecture for Distributed Deep Learning
//   on GPU Clusters", ATC 2017: the choice for each layer; the inequalities are algebra of ours.
#include <cstdint>

#include "longhaul/sync/sfb/config.h"

namespace longhaul::sync::sfb {

// A layer of `out` x `in` weights, of which each of `parties` has factors of `rows` rows.
struct LayerShape {
  std::uint64_t out = 0, in = 0;
  std::uint64_t rows = 0;
  std::uint64_t parties = 1;
  std::uint64_t receivers = 0;  // receivers of each party's factors; 0: all others
};
LayerShape shape_of(std::uint64_t out, std::uint64_t in, std::uint64_t rows, std::uint64_t parties,
                    const Config&);

// Numbers that each party sends: its factors to R receivers (P - 1 if to all others),
double factor_numbers(const LayerShape&);  // K R (M + N)
// or its share of a mean by reduce-scatter and all-gather.
double matrix_numbers(const LayerShape&);  // 2 M N (P - 1) / P
// Sent and received by a node that is one of `workers` and one of `servers`, which share the
// matrix: 2 M N (P1 + P2 - 2) / P2.
double server_numbers(const LayerShape&, std::uint64_t workers, std::uint64_t servers);
// The rows up to which factors are no more numbers than the matrix: 2 M N (P - 1) / (P R (M + N)),
// which is 2 M N / (P (M + N)) where all others receive them.
double most_rows(const LayerShape&);

// How long an exchange takes by rule_mbps, rule_delay_ms and rule_gflops, in seconds.
double factor_time(const LayerShape&, double bytes_per_number, const Config&);
double matrix_time(const LayerShape&, double bytes_per_number, const Config&);

// Returns true if the rule of the settings chooses factors, with these bytes per number. If both
// cost the same, it chooses factors.
bool goes_as_factors(const LayerShape&, double factor_bytes, double matrix_bytes, const Config&);

}  // namespace longhaul::sync::sfb

#pragma once
// The chain along which the workers of GADMM exchange models, as a pure function of the job and the
// iteration: every worker computes it by itself and all agree.
//   Elgabli et al., "GADMM", JMLR 2020; chains that change: D-GADMM in the same paper.
#include <functional>
#include <string>
#include <vector>

#include "longhaul/core/place.h"

namespace longhaul::sync::gadmm {

// Of a link, of which only the order counts: here the round trip in seconds. Null: all are equal.
using LinkCost = std::function<double(Rank, Rank)>;

// Where a worker stands. Heads are at even positions and solve first, tails at odd ones.
struct Position {
  bool is_head = true;
  std::vector<Rank> neighbours;  // at most two, of a star's hub all others; ascending
};

class Chains {
 public:
  struct Config {
    // "rank": ranks ascending. "nearest": from the first worker on, always the nearest one that is
    // left, the lower rank of two. "bottleneck": the largest cost of an edge is as small as it can
    // be (of more than kMostSearched workers: the best of the "nearest" from each worker on).
    // "random": drawn anew for each chain. "strides": chain e has worker k s mod n at position k, s
    // being number e, counted round about, of the numbers below n that have no divisor in common
    // with n. Of two workers all chains are alike. "star": no chain; the last worker is the
    // neighbour of all others, who are heads.
    std::string order = "rank";
    Round every = 0;  // iterations of one chain; 0: the first one stays
    std::uint64_t seed = 0;
  };
  static constexpr std::size_t kMostSearched = 16;

  // `workers` of the start of the run, ascending; `cost` for "nearest" and "bottleneck".
  Chains(Config, std::vector<Rank> workers, const LinkCost& cost);

  std::uint64_t number(Round iteration) const {
    return config_.every == 0 ? 0 : iteration / config_.every;
  }
  // Is it the first iteration of a chain that follows another one?
  bool is_first(Round iteration) const {
    return config_.every > 0 && iteration > 0 && iteration % config_.every == 0;
  }
  // The chain of all workers at the start.
  std::vector<Rank> order(Round iteration) const;
  // Among those of them who live: the chain closes over a gap, and who stands behind it moves up.
  Position position(Rank, Round iteration, const View&) const;

 private:
  const Config config_;
  const std::vector<Rank> workers_;
  std::vector<Rank> planned_;  // by the costs; else empty
};

}  // namespace longhaul::sync::gadmm

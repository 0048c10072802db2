#pragma once
// The groups of workers that average with each other in each round of DS-Sync. The functions are
// pure: they depend on the number of workers, their sites, the round and shared random numbers. So
// every worker computes the whole partition alone.
//   Wang et al., "DS-Sync: Addressing network bottlenecks with divide-and-shuffle synchronization
//   for distributed DNN training", arXiv 2007.03298. `published` is the pattern of its authors'
//   code, for four workers; all other schedules are ours.
//
// round(x) is floor(x + 0.5). Workers are named by their index in the list of workers, from 0.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "longhaul/base/rng.h"
#include "longhaul/core/types.h"

namespace longhaul::sync::shuffle {

// Disjoint groups that together hold all workers. Each is ascending, and they are ordered by their
// first worker.
using Partition = std::vector<std::vector<std::uint32_t>>;

// Returns `count` (1 .. n) consecutive ranges of 0 .. n-1. Their sizes differ by at most one, the
// larger ones first.
Partition stretches(std::uint32_t n, std::uint32_t count);
// Returns the number of groups of about b workers: round(n / b), at least 1.
std::uint32_t group_count(std::uint32_t n, std::uint32_t b);
// Returns round(sqrt(n)), at least 2.
std::uint32_t default_group_size(std::uint32_t n);

// Groups four workers. Even rounds {0,1} {2,3}, odd ones {0,3} {1,2}.
Partition published(Round);
// Even rounds: rows of about b workers, in the order of the workers. Odd rounds: columns, which
// hold the workers at the same position in their rows. A single row is the group of every round.
Partition grid(std::uint32_t n, std::uint32_t b, Round);
// n is the product of the factors, each at least 2. A worker's number has a digit for each, the
// first of stride 1. With d factors, round k groups the workers that differ only in digit (k mod
// d).
Partition radix(const std::vector<std::uint32_t>& factors, Round);
// Returns the prime factors, ascending; none for 1.
std::vector<std::uint32_t> prime_factors(std::uint32_t n);
// Returns a random permutation, cut into ranges of about b.
Partition random(std::uint32_t n, std::uint32_t b, Random);
// `sites`: the workers of each site, none empty. In all rounds but one in `cross_every` a site is a
// group. In that round, a round-robin tournament pairs the sites. One worker of each site pairs
// with one of the other, and the remaining workers of a site form a group. A site without a pair is
// a group. `byes`: indexes of sites that take part only in every bye_period()-th of their pairs. So
// at most four pairs in a row are left out.
Partition topology(const Partition& sites, std::uint32_t cross_every, Round,
                   std::span<const std::size_t> byes = {});
// Returns the largest number up to 5 without a common factor with the number of a site's pairs in a
// tournament. With a common factor, the site would meet only some of the other sites.
Round bye_period(std::size_t sites);
// Returns 1, or 2 if a site has fewer than three workers and a site has several. With two workers
// per site, workers that cross in turn would otherwise never meet.
std::uint32_t default_cross_every(const Partition& sites);

// A schedule with its settings.
struct Schedule {
  std::string kind = "grid";      // "published", "grid", "radix", "random", "topology"
  std::uint32_t group_size = 0;   // b; 0: the default
  std::uint32_t cross_every = 0;  // for topology; 0: the default

  // Returns the groups of a round. `sites`: the workers of each site, together 0 .. n-1.
  // `published` with other than four workers is the grid. Only `random` uses `draw`, and only
  // `topology` uses `byes` (indexes of sites).
  Partition groups(const Partition& sites, Round, const Random& draw,
                   std::span<const std::size_t> byes = {}) const;
  std::uint32_t cross_rounds(const Partition& sites) const {  // period of cross rounds
    return cross_every > 0 ? cross_every : default_cross_every(sites);
  }

 private:
  std::uint32_t size_of_groups(std::uint32_t n) const;
};

}  // namespace longhaul::sync::shuffle

#pragma once
// Which workers average with each other in which round of DS-Sync: pure functions of the number of
// workers, their sites, the round and shared random numbers, so that every worker computes the
// whole partition alone.
//   Wang et al., "DS-Sync: Addressing network bottlenecks with divide-and-shuffle synchronization
//   for distributed DNN training", arXiv 2007.03298. `published` is the pattern of its authors'
//   code, for four workers; all others are ours.
//
// round(x) is floor(x + 0.5). Workers are named by their place in the list of workers, from 0.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "longhaul/base/rng.h"
#include "longhaul/core/types.h"

namespace longhaul::sync::shuffle {

// Disjoint groups that together hold all workers; each ascending, in the order of their first.
using Partition = std::vector<std::vector<std::uint32_t>>;

// Consecutive stretches of 0 .. n-1, as many as `count` (1 .. n), of sizes that differ by at most
// one, the larger ones first.
Partition stretches(std::uint32_t n, std::uint32_t count);
// round(n / b), at least 1: how many groups of about b workers there are.
std::uint32_t group_count(std::uint32_t n, std::uint32_t b);
// round(sqrt(n)), at least 2.
std::uint32_t default_group_size(std::uint32_t n);

// Of four workers. Even rounds {0,1} {2,3}, odd ones {0,3} {1,2}.
Partition published(Round);
// Even rounds: rows of about b workers, in the order of the workers; odd ones: columns, which hold
// the workers of equal place in their rows. One row alone is the group of every round.
Partition grid(std::uint32_t n, std::uint32_t b, Round);
// n is the product of the factors, each at least 2; a worker's number has a digit for each, the
// first of stride 1. Round k groups the workers that differ in digit (k mod d) alone.
Partition radix(const std::vector<std::uint32_t>& factors, Round);
// Ascending; of 1: none.
std::vector<std::uint32_t> prime_factors(std::uint32_t n);
// A random permutation, cut into stretches of about b.
Partition random(std::uint32_t n, std::uint32_t b, Random);
// `sites`: the workers of each, none empty. In all rounds but one in `cross_every` a site is a
// group. In that one, sites are paired by a round-robin tournament, one worker of each pairs with
// one of the other, and the others of a site form a group; a site without a pair is a group.
// `byes`: places of sites that take part in every bye_period()-th of their pairs alone, so that at
// most four in a row are left out.
Partition topology(const Partition& sites, std::uint32_t cross_every, Round,
                   std::span<const std::size_t> byes = {});
// The largest number up to 5 that has no factor in common with a site's pairs in a tournament: with
// one, it would take part in those with some sites alone.
Round bye_period(std::size_t sites);
// 1 unless some site has fewer than three workers and some has several; then 2: with two workers a
// site, those who cross in turn would never meet.
std::uint32_t default_cross_every(const Partition& sites);

// A schedule as the settings name it.
struct Schedule {
  std::string kind = "grid";      // "published", "grid", "radix", "random", "topology"
  std::uint32_t group_size = 0;   // b; 0: the default
  std::uint32_t cross_every = 0;  // of topology; 0: the default

  // The groups of a round. `sites`: the workers of each site, together 0 .. n-1. `published` of
  // other than four workers is the grid. `draw` is used by `random` alone, `byes` (places of sites)
  // by `topology`.
  Partition groups(const Partition& sites, Round, const Random& draw,
                   std::span<const std::size_t> byes = {}) const;
  // So many rounds without training in a row make all models equal, whichever comes first.
  // 0: none are sure to.
  std::uint32_t rounds_to_consensus(std::uint32_t n) const;
  std::uint32_t cross_rounds(const Partition& sites) const {  // one round in so many is one
    return cross_every > 0 ? cross_every : default_cross_every(sites);
  }

 private:
  std::uint32_t size_of_groups(std::uint32_t n) const;
};

}  // namespace longhaul::sync::shuffle

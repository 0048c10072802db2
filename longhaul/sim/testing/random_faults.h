#pragma once
// Faults of many nodes: of two parts of a network, or drawn from a seed.
#include <algorithm>
#include <numeric>
#include <span>
#include <vector>

#include "longhaul/base/check.h"
#include "longhaul/base/rng.h"
#include "longhaul/sim/faults.h"

namespace longhaul::sim {

// Cuts every pair of a node of `one` and a node of `other`.
inline std::vector<Fault> partition(std::span<const Rank> one, std::span<const Rank> other, Time at,
                                    Time until) {
  std::vector<Fault> faults;
  for (const Rank a : one)
    for (const Rank b : other)
      faults.push_back({.kind = Fault::Kind::cut, .rank = a, .peer = b, .at = at, .until = until});
  return faults;
}

struct RandomFaults {
  std::uint32_t ranks = 2;
  Time horizon{0};            // faults begin in [0, horizon)
  std::uint32_t crashes = 0;  // of different ranks
  std::uint32_t pauses = 0;   // each up to `longest`
  std::uint32_t cuts = 0;     // one way or both, each up to `longest`
  Time longest{0};
  std::vector<Rank> spared = {};  // never crashed
};
// A pure function of the seed.
inline std::vector<Fault> random_faults(std::uint64_t seed, const RandomFaults& wanted) {
  LH_CHECK(wanted.ranks >= 2 && wanted.horizon > Time{0});
  Random random(seed, {.purpose = Purpose::fault});
  const auto moment = [&](Time end) {
    return Time{std::int64_t(random.below(std::uint64_t(std::max(end.count(), std::int64_t{1}))))};
  };
  std::vector<Fault> faults;
  std::vector<Rank> ranks(wanted.ranks);
  std::iota(ranks.begin(), ranks.end(), Rank{0});
  random.shuffle(std::span(ranks));
  std::erase_if(ranks, [&](Rank rank) {
    return std::find(wanted.spared.begin(), wanted.spared.end(), rank) != wanted.spared.end();
  });
  for (std::size_t i = 0; i < std::min<std::size_t>(wanted.crashes, ranks.size()); ++i)
    faults.push_back({.kind = Fault::Kind::crash, .rank = ranks[i], .at = moment(wanted.horizon)});
  for (std::uint32_t i = 0; i < wanted.pauses; ++i) {
    const Rank rank = Rank(random.below(wanted.ranks));
    const Time at = moment(wanted.horizon);
    faults.push_back({.kind = Fault::Kind::pause,
                      .rank = rank,
                      .at = at,
                      .until = at + moment(wanted.longest) + Time{1}});
  }
  for (std::uint32_t i = 0; i < wanted.cuts; ++i) {
    const Rank rank = Rank(random.below(wanted.ranks));
    const Rank peer = (rank + 1 + Rank(random.below(wanted.ranks - 1))) % wanted.ranks;
    const Time at = moment(wanted.horizon);
    faults.push_back({.kind = Fault::Kind::cut,
                      .rank = rank,
                      .peer = peer,
                      .one_way = random.below(2) == 1,
                      .at = at,
                      .until = at + moment(wanted.longest) + Time{1}});
  }
  return faults;
}

}  // namespace longhaul::sim

#pragma once
// The measurements of one travel, as the scout sums them up, and the hosts of the visits. The
// result is a function of the set of reports: their order, and duplicates, change nothing.
#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "longhaul/base/archive.h"
#include "longhaul/base/check.h"
#include "longhaul/core/shared_members.h"
#include "longhaul/core/types.h"

namespace longhaul::sync::skewscout {

// Returns the host of the k-th of K live sites at travel m, by number. The host is (k + 1 + (m mod
// (K - 1))) mod K, with K >= 2. No site hosts itself, and each hosts one visitor. Within K - 1
// travels every ordered pair has met. The rule is ours.
inline std::uint32_t host_of(std::uint32_t k, Round travel, std::uint32_t sites) {
  LH_CHECK(sites >= 2 && k < sites);
  return std::uint32_t((k + 1 + travel % (sites - 1)) % sites);
}

// Result of a model on a set of samples.
struct Score {
  std::uint64_t correct = 0, samples = 0;
  bool is_finite = true;  // true if its loss is finite
  double accuracy() const { return samples ? double(correct) / double(samples) : 0; }
  void state(Archive& ar) { ar(correct, samples, is_finite); }
};

class Tally {
 public:
  struct Measured {
    // Mean over the sites of max(0, accuracy at home - accuracy at the host); 1 where a score is
    // not finite.
    double accuracy_loss = 0;
    double cost = 0;  // data sent, as a share of bsp's in as many steps
    double home = 0;  // mean accuracy of the sites' models at home
  };

  // Sets the score of a site's own model on its own samples. `exchanges` and `steps` count from the
  // previous travel (sync/tunable.h).
  void home(Rank site, Score score, double exchanges, std::uint64_t steps) {
    homes_[site] = {score, exchanges, steps};
  }

  // Sets the score of a site's model on its host's samples.
  void visit(Rank site, Score score) { visits_[site] = score; }

  // Returns the sites whose reports have not arrived.
  std::vector<Rank> missing(const std::vector<Rank>& sites) const {
    return those_of(sites,
                    [&](Rank site) { return !homes_.contains(site) || !visits_.contains(site); });
  }

  // Returns the means; null if no pair has a score of any sample, or if no site took a step.
  std::optional<Measured> measured() const {
    double loss = 0, exchanges = 0, accuracy = 0;
    std::uint64_t pairs = 0, steps = 0;
    for (const auto& [site, home] : homes_) {
      exchanges += home.exchanges;
      steps += home.steps;
      const auto visit = visits_.find(site);
      if (visit == visits_.end()) continue;
      const Score &at_home = home.score, &at_host = visit->second;
      const bool is_finite = at_home.is_finite && at_host.is_finite;
      if (is_finite && (at_home.samples == 0 || at_host.samples == 0)) continue;
      ++pairs;
      accuracy += at_home.is_finite ? at_home.accuracy() : 0;
      loss += is_finite ? std::max(0.0, at_home.accuracy() - at_host.accuracy()) : 1;
    }
    if (pairs == 0 || steps == 0) return std::nullopt;
    return Measured{loss / double(pairs), exchanges / double(steps), accuracy / double(pairs)};
  }

  void state(Archive& ar) { ar(homes_, visits_); }

 private:
  struct Home {
    Score score;
    double exchanges = 0;
    std::uint64_t steps = 0;
    void state(Archive& ar) { ar(score, exchanges, steps); }
  };
  std::map<Rank, Home> homes_;
  std::map<Rank, Score> visits_;
};

}  // namespace longhaul::sync::skewscout

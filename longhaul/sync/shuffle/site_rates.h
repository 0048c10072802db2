#pragma once
// SiteRates finds sites whose links have become slow, from the times of DS-Sync's exchanges between
// sites: setting `sense`. The rule is a reconstruction; the paper's second version senses
// contention by a rule that is not available here.
//   Wang et al., "DS-Sync: Addressing network bottlenecks with divide-and-shuffle synchronization
//   for distributed DNN training", arXiv 2007.03298.
//
// Both workers of a pair report to the planner (the lowest live worker) the duration of their mean
// from their own start. The worker that began last did not wait for the other. So the shorter time
// is that of the exchange, independent of clocks and of the late worker. Its inverse is a
// measurement of both sites, or only of the known slow one if exactly one of them is known to be
// slow.
//
// A site's reference is the median of its first ten measurements, its rate a moving average of
// weight 0.2. A site is slow while its rate is below half of its reference. Two sites that
// exchanged with one slow site seem equally slow at first. So only the slowest site is marked, and
// the other sites are judged again by later measurements.
#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "longhaul/core/machine.h"

namespace longhaul::sync::shuffle {

struct SlowSite {
  Rank site = 0;                   // first worker of the site in the job
  double reference = 0, rate = 0;  // exchanges a second
  friend bool operator==(const SlowSite&, const SlowSite&) = default;
  LONGHAUL_FIELDS(site, (reference, .min = 0, .max = 1e12), (rate, .min = 0, .max = 1e12))
};
using SlowSites = std::vector<SlowSite>;  // ascending in the site

// Returns the first worker of a worker's site.
inline Rank first_worker_of_site(Rank worker, const Place& place) {
  const std::string& site = place.member(worker).site;
  Rank first = 0;
  while (place.member(first).site != site || !place.member(first).is(Role::worker)) ++first;
  return first;
}

class SiteRates final : public Machine {
 public:
  struct CrossTime {
    LONGHAUL_MESSAGE(1, "cross_time");
    Round round = 0;
    Rank partner = 0;  // at the other site
    double seconds = 0;
    LONGHAUL_FIELDS((round, .max = 0x1p50), partner, (seconds, .min = 0, .max = 1e9))
  };
  using Messages = MessageList<CrossTime>;

  // Reports the duration `took` of this worker's mean with `partner`, of another site.
  void crossed(Round round, Rank partner, Time took, Turn& turn) {
    const CrossTime time{round, partner, seconds(took)};
    const Rank planner = senior_worker(turn.place(), turn.view());
    if (planner == turn.self()) return hear(turn.self(), time, turn.place());
    turn.send(planner, time, {}, kControl);
  }

  // Returns, at the planner, the slow sites if they differ from `known`, the sites that all workers
  // treat as slow. Must be called in every turn, because measurements refer to `known`. A returned
  // list counts as known from then on.
  std::optional<SlowSites> change(const SlowSites& known, const Turn& turn) {
    if (!is_senior(turn)) {
      known_ = known;
      return std::nullopt;
    }
    learn(known);
    SlowSites now;
    for (const SlowSite& one : known_)
      if (const Site& site = sites_.at(one.site); site.is_slow(site.rate)) now.push_back(one);
    const auto share = [](const auto& one) { return one.second.rate / one.second.reference; };
    auto slowest = sites_.end();
    for (auto one = sites_.begin(); one != sites_.end(); ++one) {
      const Site& site = one->second;
      if (site.reference > 0 && site.last && site.is_slow(site.rate) && site.is_slow(*site.last) &&
          !is_known(one->first) && (slowest == sites_.end() || share(*one) < share(*slowest)))
        slowest = one;
    }
    if (slowest != sites_.end()) {
      const Site& site = slowest->second;
      now.push_back({slowest->first, site.reference, site.rate});
      std::ranges::sort(now, {}, &SlowSite::site);
    } else if (now.size() == known_.size()) {
      return std::nullopt;
    }
    learn(now);
    return now;
  }

  Status on_message(Rank from, const Message& message, Turn& turn) override {
    return dispatch(Messages{}, message, [&](const CrossTime& time) -> Status {
      const Place& place = turn.place();
      const auto is_worker = [&](Rank rank) {
        return rank < place.size() && place.member(rank).is(Role::worker);
      };
      if (!is_worker(from) || !is_worker(time.partner) ||
          place.member(from).site == place.member(time.partner).site)
        return malformed("the time of an exchange that is not between workers of two sites");
      // The sender sees a lower worker as lost: its report is of no use here.
      if (senior_worker(place, turn.view()) == turn.self()) hear(from, time, place);
      return Ok{};
    });
  }

  void on_view(const View&, Turn& turn) override {
    std::erase_if(half_, [&](const auto& one) { return !turn.view().has(one.first); });
  }

  void state(Archive& ar) override { ar(half_, sites_, known_); }

 private:
  static constexpr std::size_t kReferenceOf = 10;  // measurements
  static constexpr double kWeight = 0.2;
  static constexpr std::size_t kMostHalves =
      16;                                    // per sender: the partner may report late or never
  static constexpr double kShortest = 1e-9;  // seconds: a simulated exchange may take no time

  static double median(std::vector<double> values) {
    std::ranges::sort(values);
    const std::size_t n = values.size();
    return (values[(n - 1) / 2] + values[n / 2]) / 2;
  }

  struct Site {
    std::vector<double> first;       // measurements, until there is a reference
    double reference = 0, rate = 0;  // exchanges a second; 0: none yet
    std::optional<double> last;      // newest measurement since the last change
    LONGHAUL_FIELDS(first, reference, rate, last)
    bool is_slow(double measured) const { return measured < reference / 2; }
  };
  struct Half {  // report of one worker of a pair, until the other reports
    Round round = 0;
    Rank partner = 0;
    double seconds = 0;
    LONGHAUL_FIELDS(round, partner, seconds)
  };

  // Adds a report. The later report of a pair completes the measurement. Rounds of a sender ascend,
  // and its partner's reports of earlier rounds will not be completed.
  void hear(Rank from, const CrossTime& time, const Place& place) {
    const auto other = half_.find(time.partner);
    if (other != half_.end()) {
      auto& halves = other->second;
      const auto match = std::ranges::find_if(halves, [&](const Half& half) {
        return half.round == time.round && half.partner == from;
      });
      if (match != halves.end()) {
        const double rate = 1 / std::max(kShortest, std::min(match->seconds, time.seconds));
        halves.erase(halves.begin(), match + 1);
        const Rank a = first_worker_of_site(from, place);
        const Rank b = first_worker_of_site(time.partner, place);
        if (is_known(a) || !is_known(b)) measure(a, rate);
        if (is_known(b) || !is_known(a)) measure(b, rate);
        return;
      }
    }
    auto& own = half_[from];
    if (own.size() == kMostHalves) own.erase(own.begin());
    own.push_back({time.round, time.partner, time.seconds});
  }

  void measure(Rank name, double rate) {
    Site& site = sites_[name];
    site.last = rate;
    if (site.reference > 0) {
      site.rate += kWeight * (rate - site.rate);
      return;
    }
    site.first.push_back(rate);
    if (site.first.size() < kReferenceOf) return;
    site.reference = site.rate = median(std::exchange(site.first, {}));
  }

  // A planner that follows a lost one takes over the known slow sites.
  void learn(const SlowSites& known) {
    if (known_ != known) {
      known_ = known;
      for (auto& [name, site] : sites_) site.last.reset();
    }
    for (const SlowSite& one : known_)
      if (Site& site = sites_[one.site]; site.reference == 0)
        site = {.first = {}, .reference = one.reference, .rate = one.rate, .last = {}};
  }

  bool is_known(Rank site) const {
    return std::ranges::any_of(known_, [&](const SlowSite& one) { return one.site == site; });
  }

  std::map<Rank, std::vector<Half>> half_;  // by sender; kMostHalves each at most
  std::map<Rank, Site> sites_;              // by first_worker_of_site
  SlowSites known_;
};

}  // namespace longhaul::sync::shuffle

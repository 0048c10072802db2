#include "longhaul/sync/shuffle/site_rates.h"

#include <algorithm>

namespace longhaul::sync::shuffle {
namespace {

constexpr std::size_t kReferenceOf = 10;  // measurements
constexpr double kWeight = 0.2;
constexpr std::size_t kMostHalves = 16;  // of a sender: its partner does not tell us, or later
constexpr double kShortest = 1e-9;       // seconds: a simulated exchange may cost nothing

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

}  // namespace

Rank first_worker_of_site(Rank worker, const Place& place) {
  const std::string& site = place.member(worker).site;
  Rank first = 0;
  while (place.member(first).site != site || !place.member(first).is(Role::worker)) ++first;
  return first;
}

void SiteRates::crossed(Round round, Rank partner, Time took, Turn& turn) {
  const CrossTime time{round, partner, seconds(took)};
  const Rank planner = senior_worker(turn.place(), turn.view());
  if (planner == turn.self()) return hear(turn.self(), time, turn.place());
  turn.send(planner, time, {}, kControl);
}

Status SiteRates::on_message(Rank from, const Message& message, Turn& turn) {
  return dispatch(Messages{}, message, [&](const CrossTime& time) -> Status {
    const Place& place = turn.place();
    const auto is_worker = [&](Rank rank) {
      return rank < place.size() && place.member(rank).is(Role::worker);
    };
    if (!is_worker(from) || !is_worker(time.partner) ||
        place.member(from).site == place.member(time.partner).site)
      return malformed("the time of an exchange that is not between workers of two sites");
    // Another sees a lower worker as lost: what it says is of no use here.
    if (senior_worker(place, turn.view()) == turn.self()) hear(from, time, place);
    return Ok{};
  });
}

// The later one completes the measurement. Rounds of a sender ascend, and its partner's halves of
// rounds before this one will not be completed any more.
void SiteRates::hear(Rank from, const CrossTime& time, const Place& place) {
  const auto other = half_.find(time.partner);
  if (other != half_.end()) {
    auto& halves = other->second;
    const auto match = std::ranges::find_if(
        halves, [&](const Half& half) { return half.round == time.round && half.partner == from; });
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

void SiteRates::measure(Rank name, double rate) {
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

bool SiteRates::is_known(Rank site) const {
  return std::ranges::any_of(known_, [&](const SlowSite& one) { return one.site == site; });
}

// A planner that follows a lost one knows of slow sites what the others were told.
void SiteRates::learn(const SlowSites& known) {
  if (known_ != known) {
    known_ = known;
    for (auto& [name, site] : sites_) site.last.reset();
  }
  for (const SlowSite& one : known_)
    if (Site& site = sites_[one.site]; site.reference == 0)
      site = {.first = {}, .reference = one.reference, .rate = one.rate, .last = {}};
}

std::optional<SlowSites> SiteRates::change(const SlowSites& known, const Turn& turn) {
  if (senior_worker(turn.place(), turn.view()) != turn.self()) {
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

void SiteRates::on_view(const View&, Turn& turn) {
  std::erase_if(half_, [&](const auto& one) { return !turn.view().has(one.first); });
}

}  // namespace longhaul::sync::shuffle

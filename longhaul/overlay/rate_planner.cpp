#include "longhaul/overlay/rate_planner.h"

#include <algorithm>
#include <cmath>

#include "longhaul/flow/bound.h"
#include "longhaul/flow/capacities.h"
#include "longhaul/flow/pair_shares.h"
#include "longhaul/flow/tree_load.h"

namespace longhaul::overlay::forest {
namespace {

constexpr double kGain = 1.02;  // ratio by which another plan must be quicker
// A port can carry at least what it carried, and may not have been full. If only ports limit, plans
// are the same for every common factor.
constexpr double kUnseen = 2;
constexpr double kProbeShare = 0.02;   // share of the vector
constexpr double kAlike = 1e6;         // bytes/s
constexpr Round kPatience = 8;         // rounds in which a tried pair must show its rate
constexpr Round kLongestPause = 320;   // rounds
constexpr std::uint32_t kNever = ~0u;  // an age

using Reports = RatePlanner::Reports;
using Sites = std::vector<std::uint32_t>;

struct Measured {
  std::map<flow::SitePair, double> rates;        // bytes/s, by place of the site
  std::map<flow::SitePair, std::uint32_t> ages;  // rounds since the newest figure
  std::map<std::uint32_t, double> up, down;      // by site, if all its nodes know theirs
};

// Returns the sums over the nodes of each site, which share its links.
Measured measured_of(const SiteGroups& groups, const Sites& site_of, const Reports& reports) {
  Measured all;
  std::map<std::uint32_t, bool> up_known, down_known;
  for (const auto& [rank, report] : reports) {
    const std::uint32_t from = groups.index_of(site_of[rank]).value();
    for (const PairRate& pair : report.pairs) {
      const auto to = groups.index_of(site_of[pair.to]);
      if (!to || *to == from) continue;
      all.rates[{from, *to}] += pair.rate;
      auto& age = all.ages.try_emplace({from, *to}, kNever).first->second;
      age = std::min(age, pair.age);
    }
    all.up[from] += report.up;
    all.down[from] += report.down;
    up_known.try_emplace(from, true).first->second &= report.up > 0;
    down_known.try_emplace(from, true).first->second &= report.down > 0;
  }
  std::erase_if(all.up, [&](const auto& one) { return !up_known[one.first]; });
  std::erase_if(all.down, [&](const auto& one) { return !down_known[one.first]; });
  return all;
}

// The job's network between the sites; without rates if the job has none.
struct Believed {
  flow::Wan wan;
  std::vector<double> shares;  // by pair, while all are busy, as when rates are measured
};

Believed believed_of(const SiteGroups& groups, const flow::Wan* network) {
  Believed all{blank_network(groups, network), {}};
  const flow::Wan said = network ? flow::among(*network, groups.sites) : all.wan;
  const flow::Capacities at(said);
  all.shares.assign(at.sites * at.sites, flow::kUnlimited);
  for (std::size_t site = 0; site < at.sites; ++site)
    all.wan.sites[site].up = all.wan.sites[site].down = std::nullopt;
  if (!network || at.largest() <= 0) return all;
  for (std::size_t site = 0; site < at.sites; ++site) {
    all.wan.sites[site].up = said.sites[site].up;
    all.wan.sites[site].down = said.sites[site].down;
  }
  all.shares = flow::pair_shares(at, std::vector<bool>(at.sites * at.sites, true));
  return all;
}

// Returns the rate of a port: at least what it carried, and at most kUnseen times as much.
double port(double carried, const flow::Rate& said) {
  const double most = carried * kUnseen;
  return said ? std::clamp(*said, carried, most) : most;
}

// Returns the measured network. A pair without a measurement has the job's rate, else the slowest
// measured one.
flow::Wan network_by(const Measured& measured, const Believed& believed) {
  flow::Wan wan = believed.wan;
  double slowest = kAlike;
  for (bool first = true; const auto& [pair, rate] : measured.rates)
    slowest = std::exchange(first, false) ? rate : std::min(slowest, rate);
  const double factor = flow::kIpPerByte;
  for (std::uint32_t a = 0; a < wan.sites.size(); ++a) {
    auto& site = wan.sites[a];
    const auto up = measured.up.find(a), down = measured.down.find(a);
    site.up =
        up == measured.up.end() ? std::nullopt : flow::Rate(port(up->second * factor, site.up));
    site.down = down == measured.down.end() ? std::nullopt
                                            : flow::Rate(port(down->second * factor, site.down));
    for (std::uint32_t b = 0; b < wan.sites.size(); ++b) {
      if (a == b) continue;
      const auto known = measured.rates.find({a, b});
      auto& pair = wan.pairs.emplace(flow::SitePair{a, b}, wan.pair(a, b)).first->second;
      const double share = believed.shares[a * wan.sites.size() + b];
      if (known != measured.rates.end())
        pair.rate = known->second * factor;
      else
        pair.rate = std::isfinite(share) ? share : slowest * factor;
    }
  }
  return wan;
}

}  // namespace

flow::Wan blank_network(const SiteGroups& groups, const flow::Wan* network) {
  flow::Wan wan;
  if (network) wan = flow::among(*network, groups.sites);
  wan.sites.resize(groups.size());
  for (auto& site : wan.sites) site.up = site.down = kAlike;
  wan.usual.rate = wan.usual.flow = std::nullopt;
  for (auto& [pair, way] : wan.pairs) way.rate = way.flow = std::nullopt;
  wan.shared.clear();
  return wan;
}

double busiest(const std::vector<SiteTree>& trees, const flow::Wan& between) {
  const flow::Capacities at(between);
  flow::TreeLoad load(at);
  for (const SiteTree& one : trees)
    load.add({one.tree.root, one.tree.reduce_to, one.tree.spread_from, one.share}, one.share);
  return load.fullest();
}

// Prefers a leaf as sender: only a leaf has all of its part at once, and so keeps the link busy.
SitePlan with_probe(SitePlan plan, std::uint32_t from, std::uint32_t to) {
  std::vector<SiteTree>& trees = plan.trees;
  SiteTree* best = nullptr;
  SiteTree* widest = &trees.front();
  for (SiteTree& one : trees) {
    const auto& up = one.tree.reduce_to;
    const bool leaf = one.tree.root != from && std::ranges::count(up, from) == 0;
    if (leaf && up[from] != to && (!best || one.share > best->share)) best = &one;
    if (one.share > widest->share) widest = &one;
  }
  SiteTree& donor = best ? *best : *widest;
  SiteTree tried = donor;
  tried.share = std::min(kProbeShare, donor.share / 2);
  donor.share -= tried.share;
  if (best) {
    tried.tree.reduce_to[from] = to;
  } else {
    const Sites star(tried.tree.reduce_to.size(), to);
    tried.tree = {to, star, star};
  }
  trees.push_back(std::move(tried));
  return plan;
}

void RatePlanner::new_team() {
  basis_.clear();
  base_ = in_force_ = before_ = {};
  trial_ = {};
  to_try_ = false;
  tried_.reset();
  taken_back_ = false;
  paused_until_ = 0;
  pause_ = kPause;
}

void RatePlanner::sent(Round start) {
  if (std::exchange(to_try_, false)) trial_.propose(start);
}

void RatePlanner::withdraw(const SitePlan& now) {
  to_try_ = false;
  base_ = now;
}

void RatePlanner::keep() {
  if (!taken_back_) pause_ = kPause;
  taken_back_ = false;
}

// Returns the plan before, which is on trial, too: if it is no better now, the network has changed.
std::optional<SitePlan> RatePlanner::go_back(Round round) {
  if (std::exchange(taken_back_, !taken_back_)) {
    paused_until_ = round;
    return std::nullopt;
  }
  to_try_ = true;
  base_ = before_;
  changed_ = round;
  tried_.reset();
  paused_until_ = round + pause_;
  pause_ = std::min(2 * pause_, kLongestPause);
  return base_;
}

namespace {

// Returns the time from the last contribution to the mean: the last contributor waited least. 0:
// reports are of more than one round, or no node contributed.
double seconds_of(Round round, const Reports& reports) {
  double least = 0;
  for (const auto& [rank, report] : reports) {
    if (report.round != round) return 0;
    if (report.took > 0) least = least > 0 ? std::min(least, report.took) : report.took;
  }
  return least;
}

}  // namespace

bool RatePlanner::drifted(const Rates& rates) const {
  if (basis_.size() != rates.size()) return true;
  for (const auto& [pair, rate] : rates) {
    const auto before = basis_.find(pair);
    if (before == basis_.end()) return true;
    if (std::fabs(rate - before->second) > config_.drift * before->second) return true;
  }
  return false;
}

std::optional<SitePlan> RatePlanner::consider(const SiteGroups& groups, const Sites& site_of,
                                              const Reports& reports, const SitePlan& now,
                                              const Partition& grid, Ended ended) {
  const Round round = ended.round;
  const Measured measured = measured_of(groups, site_of, reports);
  if (groups.size() < 2 || measured.rates.empty()) return std::nullopt;
  if (base_.trees.empty()) base_ = now;
  if (trial_.enter(ended.since)) before_ = in_force_;
  in_force_ = *ended.plan;
  switch (trial_.on_round(seconds_of(round, reports))) {
    case PlanTrial::Verdict::none:
      break;
    case PlanTrial::Verdict::kept:
      keep();
      break;
    case PlanTrial::Verdict::worse:
      if (auto back = go_back(round)) return back;
  }
  if (trial_.running()) return std::nullopt;
  const bool may_plan = round >= paused_until_ || trial_.slower(config_.drift);
  if (may_plan && drifted(measured.rates)) {
    basis_ = measured.rates;
    const flow::Wan wan = network_by(measured, believed_of(groups, network_.get()));
    SitePlan plan = plan_between(wan, grid, false);
    if (busiest(now.trees, wan) > kGain * busiest(plan.trees, wan)) {
      if (!trial_.under_way() || taken_back_) before_ = base_;
      taken_back_ = false;
      to_try_ = true;
      base_ = plan;
      changed_ = round;
      tried_.reset();
      return plan;
    }
  }
  if (trial_.under_way()) return std::nullopt;
  if (!tried_) return probe(measured.ages, groups.size(), round);
  const auto known = measured.ages.find(*tried_);
  const bool heard = known != measured.ages.end() && known->second < round - changed_;
  if (!heard && round < changed_ + kPatience) return std::nullopt;
  tried_.reset();
  return base_;
}

// Returns a plan that tries the pair without a measurement for the longest time, or ever; of
// several the first.
std::optional<SitePlan> RatePlanner::probe(const Ages& ages, std::uint32_t sites, Round round) {
  if (config_.probe_rounds == 0 || round < changed_ + config_.probe_rounds) return std::nullopt;
  std::optional<flow::SitePair> oldest;
  std::uint32_t most = 0;
  for (std::uint32_t a = 0; a < sites; ++a)
    for (std::uint32_t b = 0; b < sites; ++b) {
      if (a == b) continue;
      const auto known = ages.find({a, b});
      const std::uint32_t age = known == ages.end() ? kNever : known->second;
      if (age < config_.probe_rounds || age <= most) continue;
      most = age;
      oldest = {a, b};
    }
  if (!oldest) return std::nullopt;
  changed_ = round;
  tried_ = oldest;
  return with_probe(base_, oldest->first, oldest->second);
}

}  // namespace longhaul::overlay::forest

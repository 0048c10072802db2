#include "longhaul/flow/link_windows.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "longhaul/flow/arborescence.h"
#include "longhaul/flow/lp.h"

namespace longhaul::flow {
namespace {

constexpr double kNearly = 1e-3;  // share of the total time by which a link may be later
constexpr int kMostRounds = 40;
// Weight of the vector's mean path against the total time: it decides between shares of one time.
constexpr double kMeanWay = 0.1;

// A tree's use of a link: seconds before its first piece reaches the link, and those that a piece
// still takes from the link to the last site.
struct LinkUse {
  std::size_t tree = 0;
  double before = 0, after = 0;
};

class LinkWindows {
 public:
  LinkWindows(const std::vector<TwoTrees>& trees, const Capacities& at, const PieceTimes& times)
      : n_(at.sites), bytes_(times.bytes), way_(times.way), shared_of_(n_ * n_) {
    rates_ = at.pairs;
    rates_.insert(rates_.end(), at.up.begin(), at.up.end());
    rates_.insert(rates_.end(), at.down.begin(), at.down.end());
    for (const Wan::Shared& link : at.shared) {
      for (const auto& [from, to] : link.pairs) shared_of_[from * n_ + to].push_back(rates_.size());
      rates_.push_back(link.rate);
    }
    uses_.resize(rates_.size());
    for (std::size_t from = 0; from < n_; ++from)
      for (std::size_t to = 0; to < n_; ++to) back_.push_back(way_[to * n_ + from]);
    for (std::size_t tree = 0; tree < trees.size(); ++tree) add(tree, trees[tree]);
  }

  std::size_t links() const { return uses_.size(); }
  double longest_way(std::size_t tree) const { return longest_[tree]; }
  // Returns the link's working time for each whole tree, from uses with at least these times before
  // and after.
  std::map<std::size_t, double> seconds(std::size_t link, const LinkUse& least) const {
    std::map<std::size_t, double> seconds;
    for (const LinkUse& one : uses_[link])
      if (one.before >= least.before && one.after >= least.after)
        seconds[one.tree] += bytes_ / rates_[link];
    return seconds;
  }

  // The time when the link is done, and the least times before and after of the uses that cause it.
  struct Last {
    double seconds = 0;
    LinkUse least;
  };
  Last last(std::size_t link, const std::vector<double>& shares) const {
    std::vector<LinkUse> used;
    for (const LinkUse& one : uses_[link])
      if (shares[one.tree] > 0) used.push_back(one);
    std::ranges::stable_sort(used, std::greater{}, &LinkUse::after);
    Last last;
    for (const LinkUse& first : used) {
      double sum = 0;
      for (const LinkUse& one : used) {
        if (one.before < first.before) continue;
        sum += shares[one.tree] * bytes_ / rates_[link];
        const double seconds = sum + first.before + one.after;
        if (seconds > last.seconds) last = {seconds, {0, first.before, one.after}};
      }
    }
    return last;
  }

 private:
  void add(std::size_t tree, const TwoTrees& trees) {
    const std::vector<double> up = path_lengths(trees.reduce_to, back_);
    const std::vector<double> down = path_lengths(trees.spread_from, way_);
    const double up_all = std::ranges::max(up), down_all = std::ranges::max(down);
    longest_.push_back(up_all + down_all);
    // The longest path to a site from below it, and from it to those below.
    std::vector<double> gathers(n_), spreads(n_);
    for (std::size_t site = 0; site < n_; ++site) {
      for (std::size_t at = site; at != trees.root; at = trees.reduce_to[at]) {
        const std::size_t over = trees.reduce_to[at];
        gathers[over] = std::max(gathers[over], up[site] - up[over]);
      }
      for (std::size_t at = site; at != trees.root; at = trees.spread_from[at]) {
        const std::size_t over = trees.spread_from[at];
        spreads[over] = std::max(spreads[over], down[site] - down[over]);
      }
    }
    for (std::size_t site = 0; site < n_; ++site) {
      if (site == trees.root) continue;
      const std::size_t from = trees.spread_from[site];
      use(site, trees.reduce_to[site], {tree, gathers[site], up[site] + down_all});
      use(from, site, {tree, up_all + down[from], down[site] - down[from] + spreads[site]});
    }
  }

  void use(std::size_t from, std::size_t to, const LinkUse& use) {
    const auto see = [&](std::size_t link) {
      if (std::isfinite(rates_[link])) uses_[link].push_back(use);
    };
    see(from * n_ + to);
    see(n_ * n_ + from);
    see(n_ * n_ + n_ + to);
    for (const std::size_t link : shared_of_[from * n_ + to]) see(link);
  }

  const std::size_t n_;
  const double bytes_;
  const std::vector<double> way_;
  std::vector<double> back_;                         // transposed
  std::vector<double> rates_;                        // by pair, uplink, downlink, and shared link
  std::vector<std::vector<std::size_t>> shared_of_;  // by pair
  std::vector<std::vector<LinkUse>> uses_;           // by link
  std::vector<double> longest_;                      // by tree: its latency
};

}  // namespace

double time_through(const std::vector<TwoTrees>& trees, const Capacities& at,
                    const PieceTimes& times) {
  const LinkWindows windows(trees, at, times);
  std::vector<double> shares;
  for (const TwoTrees& one : trees) shares.push_back(one.share);
  double longest = 0;
  for (std::size_t tree = 0; tree < trees.size(); ++tree)
    longest = std::max(longest, windows.longest_way(tree));
  for (std::size_t link = 0; link < windows.links(); ++link)
    longest = std::max(longest, windows.last(link, shares).seconds);
  return longest;
}

// The programme has a row for a link and two times only after some shares have been late there:
// there are too many of them.
std::vector<TwoTrees> soonest_shares(std::vector<TwoTrees> trees, const Capacities& at,
                                     const PieceTimes& times, double least) {
  const LinkWindows windows(trees, at, times);
  Lp lp;
  const int through = lp.add_column(0, kUnlimited, -1);
  std::vector<int> columns;
  std::vector<Lp::Term> whole;
  for (std::size_t tree = 0; tree < trees.size(); ++tree) {
    columns.push_back(lp.add_column(0, 1, -kMeanWay * windows.longest_way(tree)));
    whole.push_back({columns.back(), 1});
  }
  lp.add_row(1, 1, whole);
  const auto add_row = [&](std::size_t link, const LinkUse& use) {
    std::vector<Lp::Term> terms = {{through, -1}};
    for (const auto& [tree, seconds] : windows.seconds(link, use))
      terms.push_back({columns[tree], seconds});
    if (terms.size() > 1) lp.add_row(-kUnlimited, -(use.before + use.after), terms);
  };
  for (std::size_t link = 0; link < windows.links(); ++link) add_row(link, {});
  std::vector<double> shares(trees.size());
  bool late = true;
  for (int round = 0; late && round < kMostRounds; ++round) {
    if (!lp.maximise()) return {};
    late = false;
    for (std::size_t tree = 0; tree < trees.size(); ++tree)
      shares[tree] = std::max(0.0, lp.value(columns[tree]));
    for (std::size_t link = 0; link < windows.links(); ++link) {
      const auto last = windows.last(link, shares);
      if (last.seconds <= lp.value(through) * (1 + kNearly)) continue;
      add_row(link, last.least);
      late = true;
    }
  }
  std::vector<TwoTrees> used;
  double sum = 0;
  for (std::size_t tree = 0; tree < trees.size(); ++tree) {
    if (shares[tree] <= 0 || shares[tree] < least) continue;
    sum += trees[tree].share = shares[tree];
    used.push_back(std::move(trees[tree]));
  }
  for (TwoTrees& one : used) one.share /= sum;
  return used;
}

}  // namespace longhaul::flow

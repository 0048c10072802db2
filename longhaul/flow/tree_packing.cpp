#include "longhaul/flow/tree_packing.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "longhaul/base/check.h"
#include "longhaul/flow/capacities.h"
#include "longhaul/flow/lp.h"

namespace longhaul::flow {
namespace {

constexpr double kExact = 1e-7;    // share of the rate, tolerance for a cut that counts as kept
constexpr double kPrecise = 1e-6;  // share of the rate, tolerance for a solution that is returned
constexpr int kMaxRounds = 500;

// --- maximum flow and minimum cut between two nodes of a dense graph

struct MaxFlow {
  double value = 0;
  // Minimum cuts when the flow is less than requested. `unreached`: nodes that the source no longer
  // reaches (the sink's side at its largest); `reaching`: nodes that reach the sink (at its
  // smallest). Flags by node; empty otherwise.
  std::vector<bool> unreached, reaching;
};

constexpr double kEmpty = 1e-12;
constexpr std::size_t kNone = ~std::size_t{0};

// Returns the node before each on a shortest path from `start`; with `backwards` edges are followed
// to their beginning. kNone: not reached.
std::vector<std::size_t> nodes_before(const std::vector<double>& left, std::size_t nodes,
                                      std::size_t start, bool backwards) {
  std::vector<std::size_t> before(nodes, kNone), queue = {start};
  before[start] = start;
  for (std::size_t at = 0; at < queue.size(); ++at)
    for (std::size_t next = 0; next < nodes; ++next) {
      const std::size_t here = queue[at];
      const double room = backwards ? left[next * nodes + here] : left[here * nodes + next];
      if (room <= kEmpty || before[next] != kNone) continue;
      before[next] = here;
      queue.push_back(next);
    }
  return before;
}

std::vector<bool> flags(const std::vector<std::size_t>& before, bool reached) {
  std::vector<bool> set;
  for (std::size_t node : before) set.push_back((node != kNone) == reached);
  return set;
}

// Returns the flow from node `source` to node `sink` of `nodes` nodes; capacities by row. Ends
// early when the flow reaches `enough`. Augments along shortest paths, so it ends for all numbers.
MaxFlow max_flow(std::vector<double> left, std::size_t nodes, std::size_t source, std::size_t sink,
                 double enough) {
  MaxFlow flow;
  while (flow.value < enough) {
    const auto before = nodes_before(left, nodes, source, false);
    if (before[sink] == kNone) {
      flow.unreached = flags(before, false);
      flow.reaching = flags(nodes_before(left, nodes, sink, true), true);
      return flow;
    }
    double room = std::numeric_limits<double>::infinity();
    for (std::size_t to = sink; to != source; to = before[to])
      room = std::min(room, left[before[to] * nodes + to]);
    for (std::size_t to = sink; to != source; to = before[to]) {
      left[before[to] * nodes + to] -= room;
      left[to * nodes + before[to]] += room;
    }
    flow.value += room;
  }
  return flow;
}

// --- the programme

// A forest's traffic in one phase: `flow` on ordered pairs as trees leave their roots. Summing up
// is the same with every pair reversed.
struct Phase {
  std::vector<int> columns;  // by row of the true direction; -1 on the diagonal
  bool reversed = false;
  std::set<std::vector<bool>> cuts = {};  // cuts that have rows
};

class Packing {
 public:
  Packing(const Wan& wan, const Task& task)
      : at_(wan), n_(at_.sites), unit_(at_.largest()), task_(task) {}

  std::optional<TreePacking> solve() {
    if (n_ < 2 || unit_ == 0) return TreePacking{};
    add_columns();
    add_capacities();
    for (Phase& phase : phases_) add_first_cuts(phase);
    for (int round = 0; round < kMaxRounds; ++round) {
      if (!lp_.maximise()) return std::nullopt;
      const double rate = lp_.value(rate_);
      double kept = kUnlimited;  // the least that a site gets in either phase
      bool more = false;
      for (Phase& phase : phases_)
        for (std::size_t site = 0; site < n_; ++site)
          kept = std::min(kept, separate(phase, site, rate, more));
      if (more && kept < rate * (1 - kExact)) continue;
      if (kept < rate * (1 - kPrecise)) return std::nullopt;
      return trees(kept);
    }
    return std::nullopt;
  }

 private:
  double most() const { return 4 * double(n_ * n_); }  // units; more than finite links can carry

  void add_columns() {
    rate_ = lp_.add_column(0, most(), 1);
    const bool broadcast = task_.op == Collective::broadcast;
    for (std::uint32_t site = 0; site < n_; ++site)
      roots_.push_back(lp_.add_column(0, broadcast && site != task_.root ? 0 : kUnlimited, 0));
    for (const bool reversed : {false, true}) {
      if (reversed && broadcast) break;
      Phase& phase = phases_.emplace_back();
      phase.reversed = reversed;
      for (std::size_t from = 0; from < n_; ++from)
        for (std::size_t to = 0; to < n_; ++to)
          phase.columns.push_back(from == to ? -1
                                             : lp_.add_column(0, at_.pair(from, to) / unit_, 0));
    }
  }

  // Limits the sum of the pairs that `choose` accepts, in both phases, to `rate`.
  template <class Choose>
  void limit(double rate, Choose&& choose) {
    if (!std::isfinite(rate)) return;
    std::vector<Lp::Term> terms;
    for (const Phase& phase : phases_)
      for (std::size_t from = 0; from < n_; ++from)
        for (std::size_t to = 0; to < n_; ++to)
          if (from != to && choose(from, to)) terms.push_back({phase.columns[from * n_ + to], 1});
    lp_.add_row(-kUnlimited, rate / unit_, terms);
  }

  void add_capacities() {
    for (std::size_t site = 0; site < n_; ++site) {
      limit(at_.up[site], [&](std::size_t from, std::size_t) { return from == site; });
      limit(at_.down[site], [&](std::size_t, std::size_t to) { return to == site; });
    }
    if (phases_.size() > 1)  // with one phase, the column's bound limits it
      for (std::size_t from = 0; from < n_; ++from)
        for (std::size_t to = 0; to < n_; ++to)
          if (from != to)
            limit(at_.pair(from, to),
                  [&](std::size_t a, std::size_t b) { return a == from && b == to; });
    for (const Wan::Shared& link : at_.shared) {
      const std::set<SitePair> pairs(link.pairs.begin(), link.pairs.end());
      limit(link.rate, [&](std::size_t a, std::size_t b) {
        return pairs.contains({std::uint32_t(a), std::uint32_t(b)});
      });
    }
    std::vector<Lp::Term> roots = {{rate_, -1}};
    for (int root : roots_) roots.push_back({root, 1});
    lp_.add_row(0, 0, roots);
  }

  int column(const Phase& phase, std::size_t from, std::size_t to) const {
    return phase.reversed ? phase.columns[to * n_ + from] : phase.columns[from * n_ + to];
  }

  // Limits the rate to the flow into `members` and from roots there. Returns false if the cut is
  // known already.
  bool add_cut(Phase& phase, const std::vector<bool>& members) {
    if (!phase.cuts.insert(members).second) return false;
    std::vector<Lp::Term> terms = {{rate_, -1}};
    for (std::size_t to = 0; to < n_; ++to) {
      if (!members[to]) continue;
      terms.push_back({roots_[to], 1});
      for (std::size_t from = 0; from < n_; ++from)
        if (!members[from]) terms.push_back({column(phase, from, to), 1});
    }
    lp_.add_row(0, kUnlimited, terms);
    return true;
  }

  void add_first_cuts(Phase& phase) {
    for (std::size_t site = 0; site < n_; ++site)
      for (const bool alone : {true, false}) {
        std::vector<bool> members(n_, !alone);
        members[site] = alone;
        add_cut(phase, members);
      }
  }

  // Returns the most that `site` gets in the current solution; adds the cuts that keep it from the
  // rate.
  double separate(Phase& phase, std::size_t site, double rate, bool& more) {
    const std::size_t nodes = n_ + 1, source = n_;
    std::vector<double> capacities(nodes * nodes, 0);
    for (std::size_t to = 0; to < n_; ++to) {
      capacities[source * nodes + to] = lp_.value(roots_[to]);
      for (std::size_t from = 0; from < n_; ++from)
        if (from != to) capacities[from * nodes + to] = lp_.value(column(phase, from, to));
    }
    MaxFlow flow = max_flow(std::move(capacities), nodes, source, site, rate * (1 - kExact / 2));
    if (!flow.unreached.empty())
      for (std::vector<bool>* side : {&flow.unreached, &flow.reaching}) {
        if (side->at(source)) continue;
        side->resize(n_);
        more = add_cut(phase, *side) || more;
      }
    return flow.value;
  }

  std::optional<TreePacking> trees(double rate) const {
    TreePacking trees;
    if (rate >= most() * (1 - kPrecise)) return trees;  // no link limits it
    if (rate <= 0) return std::nullopt;
    trees.seconds = task_.bytes / (rate * unit_);
    for (int root : roots_) trees.share.push_back(lp_.value(root) / lp_.value(rate_));
    for (const Phase& phase : phases_) {
      std::vector<double>& rates = phase.reversed ? trees.reduce : trees.spread;
      for (int column : phase.columns)
        rates.push_back(column < 0 ? 0 : std::max(0.0, lp_.value(column)) * unit_);
    }
    return trees;
  }

  const Capacities at_;
  const std::size_t n_;
  const double unit_;  // bytes/s
  const Task task_;
  Lp lp_;
  int rate_ = 0;
  std::vector<int> roots_;
  std::vector<Phase> phases_;
};

}  // namespace

std::optional<TreePacking> pack_trees(const Wan& wan, const Task& task) {
  if (wan.sites.size() > kMaxSitesForTrees) return std::nullopt;
  LH_CHECK(task.root < std::max<std::size_t>(wan.sites.size(), 1));
  return Packing(wan, task).solve();
}

}  // namespace longhaul::flow

#include "longhaul/flow/forest_search.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "longhaul/base/check.h"
#include "longhaul/flow/arborescence.h"
#include "longhaul/flow/capacities.h"
#include "longhaul/flow/forest.h"
#include "longhaul/flow/lp.h"
#include "longhaul/flow/tree_load.h"

namespace longhaul::flow {
namespace {

constexpr double kGoodEnough = 0.005;  // share of the optimum that may be lacking
constexpr int kPatience = 5;           // rounds with almost no gain
// Limit of the rows times columns of all solved programmes, times the sites: longer rows take
// longer.
constexpr double kMaxWork = 48e6;
constexpr double kInertia = 0.7;         // weight of the old prices
constexpr std::uint32_t kMaxRoots = 64;  // roots that add trees in a round
// Weights of a short path against a low price; the first only decides between trees of one price.
constexpr double kWeights[] = {1e-6, 1, 4, 16, 64};

// The first trees: parts of the vector, how steeply prices rise, and the weights of short paths.
constexpr std::uint32_t kPartsPerSite = 10, kMaxParts = 300;
constexpr double kSteep = 12;
constexpr double kShort[] = {0, 0.3, 1, 3};

// Trees that carry less of the vector are dropped, if the rate loses no more than kLoss by it.
constexpr double kSmallestShares[] = {0.0003, 0.001, 0.003};
constexpr double kLoss = 0.002;
constexpr double kQuicker = 0.9;  // share of the longest path that the next try may have

// The linear programme of a forest: the rate of each given pair of trees within all link
// capacities, and the dual price of each link.
class ForestMaster {
  static constexpr double kFull = 1 + 1e-7;  // share of a pair's rate; above it a row is needed

 public:
  explicit ForestMaster(const Capacities& capacities)
      : at_(capacities),
        n_(at_.sites),
        unit_(at_.largest() > 0 ? at_.largest() : 1),
        limit_(4 * double(n_ * n_)),
        shared_of_(n_ * n_),
        pairs_(n_ * n_, Row{-1, 0}) {
    up_.resize(n_, Row{-1, 0});
    down_.resize(n_, Row{-1, 0});
    add_row(limit_ * unit_, all_);
    for (std::size_t site = 0; site < n_; ++site) {
      add_row(at_.up[site], up_[site]);
      add_row(at_.down[site], down_[site]);
    }
    for (const Wan::Shared& link : at_.shared) {
      for (const auto& [from, to] : link.pairs)
        shared_of_[from * n_ + to].push_back(std::uint32_t(shared_.size()));
      add_row(link.rate, shared_.emplace_back());
    }
  }

  // Adds a pair of trees. `gain`: per byte/s that it carries; > 0.
  void add(const TwoTrees& trees, double gain) {
    Column column;
    for (std::uint32_t site = 0; site < n_; ++site) {
      if (site == trees.root) continue;
      column.pairs.push_back(std::uint32_t(site * n_ + trees.reduce_to[site]));
      column.pairs.push_back(std::uint32_t(trees.spread_from[site] * n_ + site));
    }
    std::sort(column.pairs.begin(), column.pairs.end());
    std::map<int, double> uses = {{all_.id, 1}};
    for (const std::uint32_t pair : column.pairs)
      rows_of(pair, [&](const Row& row) { ++uses[row.id]; });
    std::vector<Lp::Entry> entries;
    for (const auto& [row, count] : uses) entries.push_back({row, count});
    column.gain = gain;
    column.id = lp_.add_column(0, kUnlimited, gain, entries);
    columns_.push_back(std::move(column));
  }

  // Maximises the total gain. Returns false if no solution was found.
  // Most pairs never fill, so they have no rows before they do.
  bool solve() {
    do {
      if (!lp_.maximise()) return false;
    } while (add_full_pairs());
    return true;
  }

  std::size_t size() const { return columns_.size(); }
  // Returns rows times columns: an estimate of the solving cost.
  double work() const { return double(rows_) * double(size()); }
  // Returns bytes/s.
  double rate(std::size_t tree) const {
    return std::max(0.0, lp_.value(columns_[tree].id)) * unit_;
  }

  // Returns the sum of all rates.
  double total() const {
    double sum = 0;
    for (std::size_t tree = 0; tree < size(); ++tree) sum += rate(tree);
    return sum;
  }

  // Returns the sum of all rates, each times its gain.
  double gained() const {
    double sum = 0;
    for (std::size_t tree = 0; tree < size(); ++tree) sum += columns_[tree].gain * rate(tree);
    return sum;
  }

  // Returns the dual price of a byte per second on each ordered pair, by row.
  std::vector<double> prices() const {
    std::vector<double> prices(n_ * n_);
    for (std::size_t pair = 0; pair < prices.size(); ++pair)
      rows_of(pair, [&](const Row& row) { prices[pair] += std::max(0.0, lp_.price(row.id)); });
    return prices;
  }

  // Returns the total price of all capacities. No set of trees carries more than worth / cost bytes
  // per second, where `cost` is that of the cheapest pair of trees.
  double worth() const {
    double worth = 0;
    const auto see = [&](const Row& row) {
      if (row.id >= 0) worth += row.limit * std::max(0.0, lp_.price(row.id));
    };
    for (const auto* rows : {&up_, &down_, &shared_, &pairs_})
      for (const Row& row : *rows) see(row);
    return worth * unit_;
  }

  // Returns true if nothing limits the rate.
  bool unlimited() const { return total() >= limit_ * unit_ * (1 - 1e-6); }

 private:
  struct Column {
    int id = 0;
    double gain = 0;
    std::vector<std::uint32_t> pairs;  // by row, ascending; a pair that is used twice occurs twice
  };
  struct Row {
    int id = 0;
    double limit = 0;  // in units
  };
  // Calls `use` with each row that the pair crosses.
  template <class Use>
  void rows_of(std::size_t pair, Use&& use) const {
    const auto see = [&](const Row& row) {
      if (row.id >= 0) use(row);
    };
    see(up_[pair / n_]);
    see(down_[pair % n_]);
    see(pairs_[pair]);
    for (const std::uint32_t link : shared_of_[pair]) see(shared_[link]);
  }

  void add_row(double rate, Row& row, const std::vector<Lp::Term>& terms = {}) {
    if (!std::isfinite(rate)) return;
    row.limit = rate / unit_;
    row.id = lp_.add_row(-kUnlimited, row.limit, terms);
    ++rows_;
  }

  bool add_full_pairs() {
    std::vector<double> load(n_ * n_);
    for (const Column& column : columns_)
      for (const std::uint32_t pair : column.pairs) load[pair] += lp_.value(column.id);
    std::vector<bool> full(n_ * n_);
    std::map<std::uint32_t, std::vector<Lp::Term>> terms;
    for (std::uint32_t pair = 0; pair < load.size(); ++pair)
      if (pairs_[pair].id < 0 && load[pair] * unit_ > at_.pairs[pair] * kFull + unit_ * 1e-9)
        terms[pair];
    for (const Column& column : columns_)
      for (const std::uint32_t pair : column.pairs) {
        const auto row = terms.find(pair);
        if (row == terms.end()) continue;
        if (!row->second.empty() && row->second.back().column == column.id)
          ++row->second.back().factor;
        else
          row->second.push_back({column.id, 1});
      }
    for (const auto& [pair, row] : terms) add_row(at_.pairs[pair], pairs_[pair], row);
    return !terms.empty();
  }

  const Capacities at_;
  const std::size_t n_;
  const double unit_;   // bytes/s
  const double limit_;  // units; more than finite links can carry
  Lp lp_;
  Row all_;
  std::vector<Row> up_, down_, shared_;
  std::vector<std::vector<std::uint32_t>> shared_of_;  // by pair
  std::vector<Row> pairs_;                             // id -1: has no row (yet)
  std::vector<Column> columns_;
  std::size_t rows_ = 0;
};

// A pair of trees, and the time of a piece on its longest path up and down.
struct Candidate {
  TwoTrees trees;
  double latency = 0;
};

class Search {
 public:
  Search(const Wan& wan, const ForestTask& task, const SearchLimits& limits)
      : wan_(wan),
        at_(wan),
        n_(std::uint32_t(at_.sites)),
        task_(task),
        longest_(limits.longest),
        trees_left_(limits.work / (double(n_) * n_ * n_)) {
    measure();
    add_stars();
  }

  ForestPlan plan() {
    ForestPlan best = plan_of({nearest_});
    consider(best, refine(stars()));
    consider(best, refine(grow()));
    const double rate = std::min(most_rate_, rate_of_totals());
    best.floor_s = rate < kUnlimited ? task_.bytes / rate : 0;
    return best;
  }

 private:
  using Choice = std::vector<std::size_t>;  // indices of candidates

  // Sets the time of a piece over each pair: its delay, and its transmission in parallel with the
  // sender's other pieces, or over a thin pair by itself.
  void measure() {
    double sum = 0;
    std::size_t finite = 0;
    for (std::size_t site = 0; site < n_; ++site)
      if (const double rate = at_.out(site); std::isfinite(rate)) {
        sum += rate;
        ++finite;
      }
    const double hop = finite > 0 ? task_.piece * (n_ - 1) / (sum / double(finite)) : 0;
    way_.assign(std::size_t(n_) * n_, 0);
    for (std::uint32_t from = 0; from < n_; ++from)
      for (std::uint32_t to = 0; to < n_; ++to)
        if (from != to)
          way_[from * n_ + to] =
              wan_.pair(from, to).delay_s + std::max(hop, task_.piece / at_.pair(from, to));
    back_ = turned(way_);
  }

  std::vector<double> turned(const std::vector<double>& matrix) const {
    std::vector<double> turned(matrix.size());
    for (std::size_t a = 0; a < n_; ++a)
      for (std::size_t b = 0; b < n_; ++b) turned[b * n_ + a] = matrix[a * n_ + b];
    return turned;
  }

  void add_stars() {
    for (std::uint32_t root = 0; root < n_; ++root) {
      const Parents star(n_, root);
      add({root, star, star, 0});
    }
    for (std::size_t star = 0; star < n_; ++star)
      if (candidates_[star].latency < candidates_[nearest_].latency) nearest_ = star;
  }

  // Adds a candidate. Returns false if it is known already.
  bool add(TwoTrees trees) {
    if (!known_.insert({trees.root, trees.reduce_to, trees.spread_from}).second) return false;
    const double latency = this->latency(trees);
    candidates_.push_back({std::move(trees), latency});
    return true;
  }

  double latency(const TwoTrees& trees) const {
    const auto up = path_lengths(trees.reduce_to, back_),
               down = path_lengths(trees.spread_from, way_);
    return *std::max_element(up.begin(), up.end()) + *std::max_element(down.begin(), down.end());
  }

  // Returns a rate that no plan exceeds: every site sends and receives a vector, all together 2 (n
  // - 1) (docs/bounds.md).
  double rate_of_totals() const {
    double out = 0, in = 0, least = kUnlimited;
    for (std::size_t site = 0; site < n_; ++site) {
      out += at_.out(site);
      in += at_.in(site);
      least = std::min({least, at_.out(site), at_.in(site)});
    }
    return std::min(least, std::min(out, in) / (2.0 * (n_ - 1)));
  }

  Choice all() const {
    Choice choice(candidates_.size());
    std::iota(choice.begin(), choice.end(), std::size_t{0});
    return choice;
  }
  Choice stars() const {
    Choice choice = all();
    choice.resize(n_);
    return choice;
  }

  // Returns the value of a byte/s on trees with this latency, relative to the quickest. The time of
  // a vector is about bytes / rate + latency. So 1 second of latency costs as much as 1 second of
  // the first term.
  double gain(double latency) const {
    const double quickest = candidates_[nearest_].latency;
    if (latency > longest_) return 0;
    return 1 - penalty_ * (latency - quickest);
  }
  void weigh(double busy_s) {
    const double whole = busy_s + candidates_[nearest_].latency;
    penalty_ = whole > 0 ? 1 / whole : 0;
  }

  // Generates columns: the programme of the known trees sets prices, and trees with a higher worth
  // than price are added to it. Returns the trees in use.
  Choice grow() {
    weigh(plan_of(stars()).busy_s);
    ForestMaster master(at_);
    Choice inside, used = stars();  // candidates in the programme, and those with a rate
    double gained = 0, work = 0;
    int stalled = 0;
    for (std::size_t round = 0, added = 0; work * n_ < kMaxWork && stalled < kPatience; ++round) {
      for (; added < candidates_.size(); ++added) {
        const double worth = gain(candidates_[added].latency);
        if (worth <= 0) continue;
        master.add(candidates_[added].trees, worth);
        inside.push_back(added);
      }
      if (!master.solve() || master.unlimited()) break;
      work += master.work();
      used = stars();
      for (std::size_t i = 0; i < inside.size(); ++i)
        if (inside[i] >= n_ && master.rate(i) > 0) used.push_back(inside[i]);
      follow(master);
      if (trees_left_ < 2) break;
      const Offers offers = ask_roots(round);
      if (offers.of_all) most_rate_ = std::min(most_rate_, worth_ / offers.cheapest);
      if (master.total() >= most_rate_ * (1 - kGoodEnough)) break;
      if (offers.of_all && master.gained() >= worth_ / offers.dearest * (1 - kGoodEnough)) break;
      stalled = master.gained() > gained * (1 + kGoodEnough / 10) ? 0 : stalled + 1;
      gained = std::max(gained, master.gained());
      if (round == 0) sow();                             // stars are not enough
      if (candidates_.size() == added) prices_.clear();  // no tree pays at the old prices
    }
    return used;
  }

  // Adds trees for the first prices: the parts of the vector get trees one after the other, and the
  // price of a link rises steeply with its load.
  void sow() {
    TreeLoad load(at_);
    const auto affordable = std::uint32_t(std::min(trees_left_ / 4, double(kMaxParts)));
    const std::uint32_t parts = std::min({kPartsPerSite * n_, kMaxParts, affordable});
    trees_left_ -= 2 * parts;
    for (std::uint32_t part = 0; part < parts; ++part) {
      prices_ = load.prices(kSteep);
      const std::vector<double> back = turned(prices_);
      const std::uint32_t root = part % n_;
      TwoTrees trees{root, cheapest_arborescence(back, n_, root),
                     cheapest_arborescence(prices_, n_, root), 0};
      const double weight = kShort[(parts < 4 * n_ ? part : part / n_) % std::size(kShort)];
      shorten(trees.reduce_to, back, back_, weight);
      shorten(trees.spread_from, prices_, way_, weight);
      load.add(trees);
      if (gain(latency(trees)) > 0) add(std::move(trees));
    }
    prices_.clear();
  }

  // Shortens the paths, with a total weight of `weight` times the tree's cost.
  void shorten(Parents& parents, const std::vector<double>& costs,
               const std::vector<double>& lengths, double weight) const {
    const std::vector<double> way = path_lengths(parents, lengths);
    const double sum = std::accumulate(way.begin(), way.end(), 0.0);
    if (sum > 0) make_shallower(parents, costs, lengths, weight * cost(parents, costs) / sum);
  }

  // Updates the prices for new trees. They follow the programme's slowly, which swing wildly at
  // first.
  void follow(const ForestMaster& master) {
    const std::vector<double> now = master.prices();
    const double keep = prices_.empty() ? 0 : kInertia;
    prices_.resize(now.size());
    for (std::size_t i = 0; i < now.size(); ++i)
      prices_[i] = keep * prices_[i] + (1 - keep) * now[i];
    worth_ = keep * worth_ + (1 - keep) * master.worth();
  }

  struct Offers {
    double cheapest = kUnlimited;  // least price of a pair of trees
    double dearest = kUnlimited;   // least price per unit of gain
    bool of_all = false;           // all roots were asked
  };

  // Asks all roots that can be afforded for their prices. Some of them, others in other rounds, add
  // trees.
  Offers ask_roots(std::size_t round) {
    const auto roots = std::uint32_t(std::min(double(n_), trees_left_ / 2));
    trees_left_ -= 2 * roots;
    Offers offers;
    offers.of_all = roots == n_;
    const std::vector<double> back = turned(prices_);
    for (std::uint32_t i = 0; i < roots; ++i)
      ask(std::uint32_t((round * kMaxRoots + i) % n_), i < kMaxRoots, back, offers);
    return offers;
  }

  // Finds the price of the root's cheapest trees; adds those that are worth most.
  void ask(std::uint32_t root, bool adds, const std::vector<double>& back, Offers& offers) {
    const Parents up = cheapest_arborescence(back, n_, root);
    const Parents down = cheapest_arborescence(prices_, n_, root);
    offers.cheapest = std::min(offers.cheapest, cost(up, back) + cost(down, prices_));
    if (!adds) return;
    std::optional<TwoTrees> best;
    double least = kUnlimited;
    for (const double weight : kWeights) {
      TwoTrees trees{root, up, down, 0};
      make_shallower(trees.reduce_to, back, back_, weight * weight_of_ways());
      make_shallower(trees.spread_from, prices_, way_, weight * weight_of_ways());
      const double price = cost(trees.reduce_to, back) + cost(trees.spread_from, prices_);
      const double worth = gain(latency(trees));
      if (worth <= 0 || price >= least * worth) continue;
      least = price / worth;
      best = std::move(trees);
    }
    offers.dearest = std::min(offers.dearest, least);
    if (least < 1 - kGoodEnough / 2) add(std::move(*best));
  }

  // Returns the weight of a node's path in the sum of all paths, which stands for the longest.
  double weight_of_ways() const { return penalty_ / std::max(1.0, double(n_ - 1)); }

  double cost(const Parents& parents, const std::vector<double>& costs) const {
    double sum = 0;
    for (std::uint32_t site = 0; site < n_; ++site)
      if (parents[site] != site) sum += costs[parents[site] * n_ + site];
    return sum;
  }

  // Returns the plan with the best rates of these trees. `used`: the trees with a rate.
  ForestPlan plan_of(const Choice& choice, Choice* used = nullptr) {
    ForestMaster master(at_);
    for (const std::size_t one : choice) master.add(candidates_[one].trees, 1);
    ForestPlan plan;
    if (!master.solve() || master.total() <= 0) {
      plan.busy_s = kUnlimited;
      return plan;
    }
    const double total = master.total();
    Choice positive;
    if (!master.unlimited()) plan.busy_s = task_.bytes / total;
    for (std::size_t i = 0; i < choice.size(); ++i) {
      if (master.rate(i) <= total * 1e-9) continue;
      const Candidate& one = candidates_[choice[i]];
      plan.trees.push_back(one.trees);
      plan.trees.back().share = master.rate(i) / total;
      plan.latency_s = std::max(plan.latency_s, one.latency);
      positive.push_back(choice[i]);
    }
    if (used) *used = std::move(positive);
    return plan;
  }

  // Drops trees that carry almost nothing, then the slowest, while the plan improves.
  ForestPlan refine(Choice choice) {
    ForestPlan best = plan_of(choice, &choice);
    if (best.trees.empty()) return best;
    for (const double smallest : kSmallestShares) {
      Choice fewer;
      for (std::size_t i = 0; i < choice.size(); ++i)
        if (best.trees[i].share >= smallest) fewer.push_back(choice[i]);
      if (fewer.size() == choice.size()) continue;
      ForestPlan plan = plan_of(fewer, &fewer);
      if (plan.busy_s > best.busy_s * (1 + kLoss)) continue;
      best = std::move(plan);
      choice = std::move(fewer);
    }
    while (true) {
      Choice quicker;
      for (const std::size_t one : choice)
        if (candidates_[one].latency < best.latency_s * kQuicker) quicker.push_back(one);
      if (quicker.empty()) return best;
      ForestPlan plan = plan_of(quicker, &quicker);
      if (plan.seconds() >= best.seconds()) return best;
      best = std::move(plan);
      choice = std::move(quicker);
    }
  }

  void consider(ForestPlan& best, ForestPlan other) {
    if (!other.trees.empty() && other.seconds() < best.seconds()) best = std::move(other);
  }

  const Wan& wan_;
  const Capacities at_;
  const std::uint32_t n_;
  const ForestTask task_;
  const double longest_;               // seconds: the most latency of a tree, except for stars
  double trees_left_;                  // trees that may still be computed
  std::vector<double> way_, back_;     // seconds of a piece on each pair; and transposed
  std::vector<Candidate> candidates_;  // the stars first
  std::set<std::tuple<std::uint32_t, Parents, Parents>> known_;
  std::size_t nearest_ = 0;     // the star with the least latency
  double penalty_ = 0;          // price of a second of latency
  std::vector<double> prices_;  // smoothed prices of pairs, and
  double worth_ = 0;            // the price of all links at these
  double most_rate_ = kUnlimited;
};

}  // namespace

ForestPlan search_forest(const Wan& wan, const ForestTask& task, const SearchLimits& limits) {
  return Search(wan, task, limits).plan();
}

}  // namespace longhaul::flow

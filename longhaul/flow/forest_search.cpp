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

constexpr double kGoodEnough = 0.005;  // of the optimum, that may be lacking
constexpr int kPatience = 5;           // rounds that gain next to nothing
// Rows times columns of all programmes that are solved, times the sites: the longer the rows, the
// longer each takes.
constexpr double kMaxWork = 48e6;
constexpr double kInertia = 0.7;         // of prices
constexpr std::uint32_t kMaxRoots = 64;  // that are asked for trees in a round
// Of a short way beside a low price; the first only decides between trees of one price.
constexpr double kWeights[] = {1e-6, 1, 4, 16, 64};

// The first trees: parts of the vector, how steeply prices rise, and what ways count beside them.
constexpr std::uint32_t kPartsPerSite = 10, kMaxParts = 300;
constexpr double kSteep = 12;
constexpr double kShort[] = {0, 0.3, 1, 3};

// Who carries less of the vector is dropped, if the rate loses no more than that by it.
constexpr double kSmallestShares[] = {0.0003, 0.001, 0.003};
constexpr double kLoss = 0.002;
constexpr double kQuicker = 0.9;  // of the longest way, that may be left at the next try

// The linear programme of a forest: the rate of each given pair of trees within all link
// capacities, and the dual price of each link.
class ForestMaster {
  static constexpr double kFull = 1 + 1e-7;  // of a pair's rate: beyond it the pair needs a row

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

  // `gain`: of each byte a second that it carries; > 0.
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

  // Maximises the total gain. false: no solution was found.
  // Most pairs never fill, so they have no rows before they do.
  bool solve() {
    do {
      if (!lp_.maximise()) return false;
    } while (add_full_pairs());
    return true;
  }

  std::size_t size() const { return columns_.size(); }
  // Rows times columns: an estimate of the solving cost.
  double work() const { return double(rows_) * double(size()); }
  // bytes a second
  double rate(std::size_t tree) const {
    return std::max(0.0, lp_.value(columns_[tree].id)) * unit_;
  }

  // of all
  double total() const {
    double sum = 0;
    for (std::size_t tree = 0; tree < size(); ++tree) sum += rate(tree);
    return sum;
  }

  // of all, each times its gain
  double gained() const {
    double sum = 0;
    for (std::size_t tree = 0; tree < size(); ++tree) sum += columns_[tree].gain * rate(tree);
    return sum;
  }

  // The dual price of a byte per second on each ordered pair, by row.
  std::vector<double> prices() const {
    std::vector<double> prices(n_ * n_);
    for (std::size_t pair = 0; pair < prices.size(); ++pair)
      rows_of(pair, [&](const Row& row) { prices[pair] += std::max(0.0, lp_.price(row.id)); });
    return prices;
  }

  // The total price of all capacities. No set of trees carries more than worth / cost bytes per
  // second, where `cost` is that of the cheapest pair of trees.
  double worth() const {
    double worth = 0;
    const auto see = [&](const Row& row) {
      if (row.id >= 0) worth += row.limit * std::max(0.0, lp_.price(row.id));
    };
    for (const auto* rows : {&up_, &down_, &shared_, &pairs_})
      for (const Row& row : *rows) see(row);
    return worth * unit_;
  }

  // Nothing limits the rate.
  bool unlimited() const { return total() >= limit_ * unit_ * (1 - 1e-6); }

 private:
  struct Column {
    int id = 0;
    double gain = 0;
    std::vector<std::uint32_t> pairs;  // by row, ascending; one that is used twice is there twice
  };
  struct Row {
    int id = 0;
    double limit = 0;  // in units
  };
  // Calls with each row that the pair crosses.
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
  const double unit_;   // bytes a second
  const double limit_;  // units; more than finite links can carry
  Lp lp_;
  Row all_;
  std::vector<Row> up_, down_, shared_;
  std::vector<std::vector<std::uint32_t>> shared_of_;  // of each pair
  std::vector<Row> pairs_;                             // id -1: has no row (yet)
  std::vector<Column> columns_;
  std::size_t rows_ = 0;
};

// A pair of trees, and how long a piece is on its longest way up and down.
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
  using Choice = std::vector<std::size_t>;  // of candidates

  // How long a piece takes over each pair: its delay, and its transmission beside those that the
  // sender has under way to the others, or over a thin pair by itself.
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

  // false: known already.
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

  // No plan is faster: every site sends and receives a vector, all together 2 (n - 1)
  // (docs/bounds.md).
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

  // What a byte a second is worth on trees with this latency, beside the quickest: the time of a
  // vector is about bytes / rate + latency, and 1 second of latency costs what 1 second of the
  // first term does.
  double gain(double latency) const {
    const double quickest = candidates_[nearest_].latency;
    if (latency > longest_) return 0;
    return 1 - penalty_ * (latency - quickest);
  }
  void weigh(double busy_s) {
    const double whole = busy_s + candidates_[nearest_].latency;
    penalty_ = whole > 0 ? 1 / whole : 0;
  }

  // Column generation: the programme of the trees known so far sets prices, and trees that are
  // worth more than they cost at these are added to it. Answers with those that are used.
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
      if (round == 0) sow();                             // stars will not do
      if (candidates_.size() == added) prices_.clear();  // nothing pays at prices of before
    }
    return used;
  }

  // Trees for the first prices: as if each had one part of the vector after the other, and
  // every link a price that rises steeply with what it carries already.
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

  // As if `weight` of what the tree costs were for the ways of its nodes.
  void shorten(Parents& parents, const std::vector<double>& costs,
               const std::vector<double>& lengths, double weight) const {
    const std::vector<double> way = path_lengths(parents, lengths);
    const double sum = std::accumulate(way.begin(), way.end(), 0.0);
    if (sum > 0) make_shallower(parents, costs, lengths, weight * cost(parents, costs) / sum);
  }

  // Prices swing wildly at first, so those that trees are sought with follow them slowly.
  void follow(const ForestMaster& master) {
    const std::vector<double> now = master.prices();
    const double keep = prices_.empty() ? 0 : kInertia;
    prices_.resize(now.size());
    for (std::size_t i = 0; i < now.size(); ++i)
      prices_[i] = keep * prices_[i] + (1 - keep) * now[i];
    worth_ = keep * worth_ + (1 - keep) * master.worth();
  }

  struct Offers {
    double cheapest = kUnlimited;  // what a pair of trees costs
    double dearest = kUnlimited;   // what the best costs for each unit that it gains
    bool of_all = false;           // all roots were asked
  };

  // All roots that can be afforded say what they cost, and some of them, others in other rounds,
  // add trees.
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

  // What the cheapest trees of this root cost at the prices of now; adds those that are worth most.
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

  // Of a node's way, in the sum of all nodes' ways that stands for the longest.
  double weight_of_ways() const { return penalty_ / std::max(1.0, double(n_ - 1)); }

  double cost(const Parents& parents, const std::vector<double>& costs) const {
    double sum = 0;
    for (std::uint32_t site = 0; site < n_; ++site)
      if (parents[site] != site) sum += costs[parents[site] * n_ + site];
    return sum;
  }

  // The best rates of these trees, and those that they leave without any.
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

  // Drops trees that carry next to nothing, then the slowest, while that pays.
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
  const double longest_;               // seconds: the most latency of a tree, but for stars
  double trees_left_;                  // that may be sought
  std::vector<double> way_, back_;     // seconds of a piece on each pair; and turned round
  std::vector<Candidate> candidates_;  // the stars first
  std::set<std::tuple<std::uint32_t, Parents, Parents>> known_;
  std::size_t nearest_ = 0;     // the star with the least latency
  double penalty_ = 0;          // of a second of latency
  std::vector<double> prices_;  // of pairs, as they were followed so far; and
  double worth_ = 0;            // of all links at these
  double most_rate_ = kUnlimited;
};

}  // namespace

ForestPlan search_forest(const Wan& wan, const ForestTask& task, const SearchLimits& limits) {
  return Search(wan, task, limits).plan();
}

}  // namespace longhaul::flow
